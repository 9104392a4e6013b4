/* Resampling pre onto post with Catmull-Rom splines (Keys' cubic convolution, a = -0.5). */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "places.h"
#include "splines.h"

/* px of a row that are worked on together. */
#define LANES 64

/* Four numbers that are added and multiplied at once; those at even and at odd places of two. */
typedef float four __attribute__((vector_size(16)));
#ifdef __clang__
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#else
typedef int32_t places4 __attribute__((vector_size(16)));
#define EVEN(a, b) __builtin_shuffle(a, b, (places4){0, 2, 4, 6})
#define ODD(a, b) __builtin_shuffle(a, b, (places4){1, 3, 5, 7})
#endif

/* Where px of a row fall in pre, and the weights of the neighbours at -1, 0, 1, 2 along x and y. */
typedef struct {
    float x[LANES][4], y[LANES][4];
    int32_t col[LANES], row[LANES];
    int32_t inside[LANES];
} places;

/* Weights for a fraction s in [0, 1]. */
static inline void weigh(float s, float *weights)
{
    float rest = 1.0f - s;
    float before = -0.5f * s * rest * rest;
    float after = -0.5f * s * s * rest;
    float here = 1.0f + s * s * (1.5f * s - 2.5f);
    weights[0] = before;
    weights[1] = here;
    weights[2] = 1.0f - before - here - after;
    weights[3] = after;
}

/* Split positions into px and fractions; right and bottom are where pre ends. */
static void find_places(const double *u, const double *v, double right, double bottom,
                        int64_t count, places *found)
{
    for (int64_t k = 0; k < count; k++) {
        int is_in = (u[k] >= -0.5) & (u[k] <= right) & (v[k] >= -0.5) & (v[k] <= bottom);
        double x = is_in ? u[k] : 0.0, y = is_in ? v[k] : 0.0; /* or nowhere at all */
        double left = floor(x), top = floor(y);
        found->inside[k] = is_in;
        found->col[k] = (int32_t)left;
        found->row[k] = (int32_t)top;
        weigh((float)(x - left), found->x[k]);
        weigh((float)(y - top), found->y[k]);
    }
}

static inline four load4(const float *px)
{
    four found;
    memcpy(&found, px, sizeof found);
    return found;
}

/* Weighted sum of four rows of four px: of neighbours first, along x before y. */
static inline float sum16(four a, four b, four c, four d, const float *x, const float *y)
{
    four weights = load4(x);
    a *= weights, b *= weights, c *= weights, d *= weights;
    four upper = EVEN(a, b) + ODD(a, b), lower = EVEN(c, d) + ODD(c, d);
    four part = (EVEN(upper, lower) + ODD(upper, lower)) * load4(y);
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/* Pixels of pre, which go on beyond what is held of them. */
typedef struct {
    const float *px;
    int64_t cols, y0, x0, pre_rows, pre_cols;
} held;

/* The value at a place inside pre; beyond the edges of pre its last px repeat. */
static inline float sample(const held *from, const places *at, int64_t k)
{
    int64_t left = at->col[k] - 1, top = at->row[k] - 1;
    four lines[4];
    if (left >= 0 && top >= 0 && left + 4 <= from->pre_cols && top + 4 <= from->pre_rows) {
        const float *px = from->px + (top - from->y0) * from->cols + (left - from->x0);
        for (int n = 0; n < 4; n++) {
            lines[n] = load4(px + n * from->cols);
        }
    } else {
        for (int n = 0; n < 4; n++) {
            int64_t row = smaller(larger(top + n, 0), from->pre_rows - 1) - from->y0;
            for (int m = 0; m < 4; m++) {
                int64_t col = smaller(larger(left + m, 0), from->pre_cols - 1) - from->x0;
                lines[n][m] = from->px[row * from->cols + col];
            }
        }
    }
    return sum16(lines[0], lines[1], lines[2], lines[3], at->x[k], at->y[k]);
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
    const held here = {source, source_cols, source_y0, source_x0, pre_rows, pre_cols};
    places at;
    for (int64_t row = 0; row < out_rows; row++) {
        place_row(&known, window_y0 + row, window_x0, out_cols, positions);
        for (int64_t col = 0; col < out_cols; col += LANES) {
            int64_t count = smaller(LANES, out_cols - col);
            float *line = out + row * out_stride + col;
            find_places(positions + col, positions + out_cols + col, right, bottom, count, &at);
            for (int64_t k = 0; k < count; k++) {
                line[k] = at.inside[k] ? sample(&here, &at, k) : NAN;
            }
        }
    }
}
