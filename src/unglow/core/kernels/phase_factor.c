/* What resampling leaves of the noise of each px: an entry of a table, by the px' phase in pre. */
#include <math.h>

#include "kernels.h"
#include "splines.h"
#include "terms.h"

/* Quotient rounded down: windows may begin before the image does. */
static inline int64_t floor_divided(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Replace positions by the phases nearest to them; 0 for what is not finite. */
static void to_phases(double *positions, int64_t count, int64_t phases)
{
    double steps = (double)phases;
    for (int64_t k = 0; k < count; k++) {
        double phase = floor((positions[k] - floor(positions[k])) * steps + 0.5);
        positions[k] = phase >= 0.0 && phase < steps ? phase : 0.0;
    }
}

void factor_row(const phase_tables *known, int64_t row, int64_t first_col, int64_t cols,
                float *out, double *positions)
{
    const int64_t block = known->block, size = known->phases * known->phases;
    place_row(&known->places, row, first_col, cols, positions);
    to_phases(positions, 2 * cols, known->phases);
    const double *x = positions, *y = positions + cols;
    const int64_t down = floor_divided(row, block) - floor_divided(known->window_y0, block);
    const int64_t first_across = floor_divided(known->window_x0, block);
    int64_t stop;
    for (int64_t col = 0; col < cols; col = stop) { /* from block to block */
        int64_t across = floor_divided(first_col + col, block);
        const float *table =
            known->tables + (down * known->blocks_across + across - first_across) * size;
        stop = smaller(cols, (across + 1) * block - first_col);
        for (int64_t k = col; k < stop; k++) {
            out[k] = table[(int32_t)y[k] * known->phases + (int32_t)x[k]];
        }
    }
}
