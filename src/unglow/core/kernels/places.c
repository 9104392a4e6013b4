/* Where a row of px of post falls in pre. */
#include "places.h"

#include <math.h>

#include "splines.h"

/* The cubic along a row between two knots: coefficients of powers 0 to 3 of the fraction, from the
 * 4 x 4 control points at [row, col] and the weights of their rows. */
static weights4 cubic(const double *knots, int64_t knot_cols, int64_t row, int64_t col,
                      weights4 down)
{
    const double *a = knots + row * knot_cols + col;
    const double *b = a + knot_cols, *c = b + knot_cols, *d = c + knot_cols;
    double e[4];
    for (int k = 0; k < 4; k++) {
        e[k] = (down.w[0] * a[k] + down.w[1] * b[k]) + (down.w[2] * c[k] + down.w[3] * d[k]);
    }
    weights4 found = {{
        (e[0] + 4.0 * e[1] + e[2]) / 6.0,
        (e[2] - e[0]) / 2.0,
        (e[0] - 2.0 * e[1] + e[2]) / 2.0,
        (e[3] - e[0] + 3.0 * (e[1] - e[2])) / 6.0,
    }};
    return found;
}

/* Add the displacements of a row of px to their positions; row and columns are of post. */
static void bend(const map *known, int64_t row, int64_t first_col, int64_t cols,
                 double *positions)
{
    int64_t spacing = known->spacing, count = known->knot_cols;
    int64_t last = spacing * (count - 3);
    double per_px = 1.0 / (double)spacing;
    double fraction;
    int64_t first_row = cell(row, spacing, known->knot_rows, &fraction);
    weights4 down = spline(fraction);
    int64_t col = 0;
    while (col < cols) { /* from knot to knot, the field is one cubic along the row */
        int64_t first = cell(first_col + col, spacing, count, &fraction);
        int64_t start = first * spacing - first_col;
        int64_t stop = cols;
        if (first != count - 4) {
            stop = larger(smaller(start + spacing, cols), col + 1);
        }
        for (int64_t axis = 0; axis < 2; axis++) {
            const double *knots = known->knots + axis * known->knot_rows * count;
            double *along = positions + axis * cols;
            weights4 c = cubic(knots, count, first_row, first, down);
            for (int64_t k = col; k < stop; k++) {
                /* beyond the outermost knots their displacement goes on */
                int64_t inside = smaller(larger(k, -first_col), last - first_col);
                double t = (double)(inside - start) * per_px;
                along[k] += ((c.w[3] * t + c.w[2]) * t + c.w[1]) * t + c.w[0];
            }
        }
        col = stop;
    }
}

/* Add the displacements of strips to a row of positions that a field has displaced. */
static void step(const map *known, int64_t row, int64_t first_col, int64_t cols,
                 double *positions)
{
    const double *seams = known->seams, *offsets = known->offsets;
    int64_t last = known->seam_count, strip = 0;
    double *x = positions, *y = positions + cols;
    for (int64_t col = 0; col < cols; col++) {
        double t = (double)(known->axis == 1 ? row : first_col + col);
        if (known->of_pre == 1) {
            t = positions[known->axis * cols + col];
        }
        /* from px to px the strip hardly ever changes */
        while (strip < last && t >= seams[strip]) {
            strip++;
        }
        while (strip > 0 && t < seams[strip - 1]) {
            strip--;
        }
        x[col] += offsets[2 * strip];
        y[col] += offsets[2 * strip + 1];
    }
}

/* Where the matrix puts a row of px of post; NaN for what it puts behind the horizon. */
static void place(const double *matrix, int64_t row, int64_t first_col, int64_t cols,
                  double *positions)
{
    double *restrict x = positions, *restrict y = positions + cols;
    double down = (double)row;
    double au = matrix[0], av = matrix[3], aw = matrix[6];
    double bu = matrix[1] * down + matrix[2];
    double bv = matrix[4] * down + matrix[5];
    double bw = matrix[7] * down + matrix[8];
    for (int64_t col = 0; col < cols; col++) {
        double across = (double)(first_col + col);
        x[col] = au * across + bu;
        y[col] = av * across + bv;
    }
    if (matrix[6] == 0.0 && matrix[7] == 0.0) {
        return;
    }
    for (int64_t col = 0; col < cols; col++) {
        double w = aw * (double)(first_col + col) + bw;
        double inverse = w > 0.0 ? 1.0 / w : (double)NAN;
        x[col] *= inverse;
        y[col] *= inverse;
    }
}

void place_row(const map *known, int64_t row, int64_t first_col, int64_t cols,
               double *positions)
{
    place(known->matrix, row, first_col, cols, positions);
    if (known->spacing > 0) {
        bend(known, row, first_col, cols, positions);
    }
    if (known->seam_count > 0) {
        step(known, row, first_col, cols, positions);
    }
}
