/* A separable filter; sums have a fixed order, so that a px has the same bits in every window. */
#include <string.h>

#include "kernels.h"

/* Add a weighted line to another one. */
static inline void add_line(float *restrict sum, float weight, const float *restrict line,
                            int64_t count)
{
    for (int64_t k = 0; k < count; k++) {
        sum[k] += weight * line[k];
    }
}

void filtered(const float *image, int64_t image_stride, const float *taps, int64_t count,
              float *line, float *out, int64_t rows, int64_t cols)
{
    int64_t wide = cols + count - 1;
    for (int64_t row = 0; row < rows; row++) {
        float *target = out + row * cols;
        memset(line, 0, (size_t)wide * sizeof *line);
        for (int64_t k = 0; k < count; k++) {
            add_line(line, taps[k], image + (row + k) * image_stride, wide);
        }
        memset(target, 0, (size_t)cols * sizeof *target);
        for (int64_t k = 0; k < count; k++) {
            add_line(target, taps[k], line + k, cols);
        }
    }
}
