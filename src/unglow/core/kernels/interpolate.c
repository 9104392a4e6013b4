/* Values of a coarse lattice at all px of a window. */
#include <math.h>

#include "kernels.h"
#include "splines.h"

/* A value, or the other one where it is not known. */
static inline float known(float value, float other) { return isnan(value) ? other : value; }

void interpolate(const float *values, int64_t value_rows, int64_t value_cols,
                 const int64_t *at_row, const float *down, int64_t rows, const int64_t *at_col,
                 const float *across, int64_t cols, float *line, float *out)
{
    for (int64_t row = 0; row < rows; row++) {
        const float *above = values + at_row[row] * value_cols;
        const float *below = values + smaller(at_row[row] + 1, value_rows - 1) * value_cols;
        float *restrict target = out + row * cols;
        for (int64_t k = 0; k < value_cols; k++) {
            float first = known(above[k], below[k]), second = known(below[k], above[k]);
            line[k] = first * (1.0f - down[row]) + second * down[row];
        }
        int64_t stop;
        for (int64_t col = 0; col < cols; col = stop) { /* from lattice point to lattice point */
            int64_t k = at_col[col];
            float left = line[k], right = line[smaller(k + 1, value_cols - 1)];
            float first = known(left, right), second = known(right, left);
            for (stop = col + 1; stop < cols && at_col[stop] == k;) {
                stop++;
            }
            for (int64_t n = col; n < stop; n++) {
                target[n] = first * (1.0f - across[n]) + second * across[n];
            }
        }
    }
}
