/* Where a row of px of post falls in pre: matrix, field and strips. */
#ifndef UNGLOW_PLACES_H
#define UNGLOW_PLACES_H

#include <stdint.h>

/* A map; kernels.h says what its parts are. */
typedef struct {
    const double *matrix;
    const double *knots;
    int64_t knot_rows, knot_cols, spacing;
    const double *seams;
    const double *offsets;
    int64_t seam_count, axis, of_pre;
} map;

/* Fill positions, (2, cols) x and y in pre, for the px of a row of post from first_col on. */
void place_row(const map *known, int64_t row, int64_t first_col, int64_t cols,
               double *positions);

#endif
