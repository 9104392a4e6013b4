/* Resampling pre onto post with Catmull-Rom splines (Keys' cubic convolution, a = -0.5). */
#include <math.h>

#include "kernels.h"
#include "places.h"
#include "splines.h"

/* Of the neighbours at -1, 0, 1, 2. */
typedef struct {
    float w[4];
} taps4;

/* Weights for a fraction s in [0, 1]. */
static inline taps4 catmull_rom_weights(float s)
{
    float rest = 1.0f - s;
    float before = -0.5f * s * rest * rest;
    float after = -0.5f * s * s * rest;
    float here = 1.0f + s * s * (1.5f * s - 2.5f);
    taps4 found = {{before, here, 1.0f - before - here - after, after}};
    return found;
}

/* Weighted sum of four px of a row. */
static inline float row4(const float *line, const int64_t *cols, taps4 x)
{
    return (x.w[0] * line[cols[0]] + x.w[1] * line[cols[1]]) +
           (x.w[2] * line[cols[2]] + x.w[3] * line[cols[3]]);
}

/* Where in `source`, which begins at `origin`, the neighbours of a px of pre are; beyond the
 * edges of pre its last px repeat. */
static inline void neighbours(int64_t px, int64_t last, int64_t origin, int64_t *found)
{
    for (int64_t k = 0; k < 4; k++) {
        found[k] = smaller(larger(px - 1 + k, 0), last) - origin;
    }
}

void catmull_rom(const float *source, int64_t source_rows, int64_t source_cols,
                 int64_t source_y0, int64_t source_x0, int64_t pre_rows, int64_t pre_cols,
                 const double *matrix, const double *knots, int64_t knot_rows,
                 int64_t knot_cols, int64_t spacing, const double *seams,
                 const double *offsets, int64_t seam_count, int64_t axis, int64_t of_pre,
                 int64_t window_y0, int64_t window_x0, float *out, int64_t out_rows,
                 int64_t out_cols, int64_t out_stride, double *positions)
{
    (void)source_rows;
    const map known = {matrix, knots,   knot_rows,  knot_cols, spacing,
                       seams,  offsets, seam_count, axis,      of_pre};
    const double right = (double)pre_cols - 0.5, bottom = (double)pre_rows - 0.5;
    for (int64_t row = 0; row < out_rows; row++) {
        float *line = out + row * out_stride;
        place_row(&known, window_y0 + row, window_x0, out_cols, positions);
        for (int64_t col = 0; col < out_cols; col++) {
            double u = positions[col], v = positions[out_cols + col];
            if (!(u >= -0.5 && u <= right && v >= -0.5 && v <= bottom)) {
                line[col] = NAN; /* outside, or nowhere at all */
                continue;
            }
            double floor_u = floor(u), floor_v = floor(v);
            taps4 wx = catmull_rom_weights((float)(u - floor_u));
            taps4 wy = catmull_rom_weights((float)(v - floor_v));
            int64_t cols[4], rows[4];
            neighbours((int64_t)floor_u, pre_cols - 1, source_x0, cols);
            neighbours((int64_t)floor_v, pre_rows - 1, source_y0, rows);
            float part[4];
            for (int k = 0; k < 4; k++) {
                part[k] = wy.w[k] * row4(source + rows[k] * source_cols, cols, wx);
            }
            line[col] = (part[0] + part[1]) + (part[2] + part[3]);
        }
    }
}
