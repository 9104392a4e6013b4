/* Terms of the signal-to-noise ratio, row by row. */
#ifndef UNGLOW_TERMS_H
#define UNGLOW_TERMS_H

#include <stdint.h>

#include "places.h"

/* px around a px that `shift_row` looks at. */
#define SPAN 3

/* What `phase_factor` takes of a window; kernels.h says what its parts are. */
typedef struct {
    map places;
    const float *tables;
    int64_t window_y0, window_x0, blocks_across, phases, block;
} phase_tables;

/* Fill out, (cols,), as `phase_factor` does, for px of the window's blocks from first_col on, in a
 * row of post; positions is room for (2, cols). */
void factor_row(const phase_tables *known, int64_t row, int64_t first_col, int64_t cols,
                float *out, double *positions);

/* Fill out, (cols,), as `squared_shift` does, for a row; image is where its margin begins. */
void shift_row(const float *image, int64_t stride, const float *error, float *out, int64_t cols);

#endif
