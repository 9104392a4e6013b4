/* Terms of the signal-to-noise ratio, row by row. */
#ifndef UNGLOW_TERMS_H
#define UNGLOW_TERMS_H

#include <stdint.h>

#include "places.h"

/* px around a px that `shift_row` looks at. */
#define SPAN 3

/* Tables of a window; `significance` of kernels.h says what its parts are. */
typedef struct {
    map places;
    const float *tables;
    int64_t window_y0, window_x0, blocks_across, phases, block;
} phase_tables;

/* Fill out, (cols,), with the entry of each px for its phase in pre, in the table of its block, for
 * px of the window's blocks from first_col on in a row of post; positions is room for (2, cols). */
void factor_row(const phase_tables *known, int64_t row, int64_t first_col, int64_t cols,
                float *out, double *positions);

/* Fill out, (cols,), with the expected square of the change that an error of the map makes of a row
 * of filtered pre, `image`, which begins SPAN px before error and out, above and to the left; NaN
 * where a px that is looked at has no value. A shift by e in a random direction changes a slope g by
 * e g / sqrt(2) (root mean square), and by e g at most: half the square of the largest change within
 * e is what to expect. On ridges and peaks, where there is no slope, the change grows with the
 * square of e. */
void shift_row(const float *image, int64_t stride, const float *error, float *out, int64_t cols);

#endif
