/* A separable filter; sums have a fixed order, so that a px has the same bits in every window. */
#include <string.h>

#include "kernels.h"

/* Add weighted lines to another one, four at a time: the sum of a px is loaded and stored less
 * often, and has the order that it has one by one. Lines begin `apart` numbers after another. */
static void add_lines(float *restrict sum, const float *taps, int64_t taps_count,
                      const float *lines, int64_t apart, int64_t count)
{
    int64_t k = 0;
    for (; k + 4 <= taps_count; k += 4) {
        const float p = taps[k], q = taps[k + 1], r = taps[k + 2], s = taps[k + 3];
        const float *a = lines + k * apart, *b = a + apart, *c = b + apart, *d = c + apart;
        for (int64_t n = 0; n < count; n++) {
            sum[n] = (((sum[n] + p * a[n]) + q * b[n]) + r * c[n]) + s * d[n];
        }
    }
    for (; k < taps_count; k++) {
        const float p = taps[k];
        const float *a = lines + k * apart;
        for (int64_t n = 0; n < count; n++) {
            sum[n] += p * a[n];
        }
    }
}

void filtered(const float *image, int64_t image_stride, const float *taps, int64_t count,
              float *line, float *out, int64_t rows, int64_t cols)
{
    int64_t wide = cols + count - 1;
    for (int64_t row = 0; row < rows; row++) {
        float *target = out + row * cols;
        memset(line, 0, (size_t)wide * sizeof *line);
        add_lines(line, taps, count, image + row * image_stride, image_stride, wide);
        memset(target, 0, (size_t)cols * sizeof *target);
        add_lines(target, taps, count, line, 1, cols);
    }
}
