/* Resampling pre onto post with Catmull-Rom splines (Keys' cubic convolution, a = -0.5). */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "places.h"
#include "splines.h"

/* So many px of a row are placed and weighted at a time; both loops then stay simple enough for
 * compilers to take several px at once. */
#define PIECE 64

/* Px of pre that a line of the cache holds, at least, and how many rows of post px of pre are asked
 * for before they are used. */
#define LINE 16
#define ROWS_AHEAD 4

/* Four neighbours of a row: gcc and clang compute with all of them at once. */
typedef float four __attribute__((vector_size(16)));

/* The px of pre from (y0, x0) on, how many they are, and where pre ends. */
typedef struct {
    const float *px;
    int64_t count, cols, y0, x0, last_row, last_col;
} source;

/* Weights of the neighbours at -1, 0, 1, 2 of each px of a piece, and its corner of pre. */
typedef struct {
    float x[4][PIECE], y[4][PIECE];
    int32_t left[PIECE], top[PIECE];
} taps;

/* Weights for a fraction s in [0, 1]. */
static inline void weigh(float s, float w[4][PIECE], int64_t at)
{
    float rest = 1.0f - s;
    float before = -0.5f * s * rest * rest;
    float after = -0.5f * s * s * rest;
    float here = 1.0f + s * s * (1.5f * s - 2.5f);
    w[0][at] = before;
    w[1][at] = here;
    w[2][at] = 1.0f - before - here - after;
    w[3][at] = after;
}

/* Weights along one axis and first neighbours of `count` px at `at`, from -0.5 to `end`; what lies
 * beyond, or nowhere at all, is bounded. Returns whether no px needs neighbours beyond 0 to `last`. */
static int weigh_piece(const double *at, double end, int32_t last, int64_t count,
                       float w[4][PIECE], int32_t *first)
{
    int32_t beyond = 0;
    for (int64_t k = 0; k < count; k++) {
        double bounded = at[k] >= -0.5 ? (at[k] <= end ? at[k] : end) : -0.5;
        double whole = floor(bounded);
        weigh((float)(bounded - whole), w, k);
        int32_t before = (int32_t)whole - 1;
        first[k] = before;
        beyond |= before | (last - 3 - before); /* negative if either of them is */
    }
    return beyond >= 0;
}

/* The 4 x 4 px of pre from (row, col) on; beyond the edges of pre its last px repeat. */
static void copy16(const source *pre, int64_t row, int64_t col, float *found)
{
    for (int64_t k = 0; k < 16; k++) {
        int64_t y = smaller(larger(row + k / 4, 0), pre->last_row) - pre->y0;
        int64_t x = smaller(larger(col + k % 4, 0), pre->last_col) - pre->x0;
        found[k] = pre->px[y * pre->cols + x];
    }
}

/* Four px that are neighbours in memory. */
static inline four load(const float *first)
{
    four found;
    memcpy(&found, first, sizeof found);
    return found;
}

/* Sum down the columns of the 4 x 4 px from `first` on, whose rows are `stride` px apart, with the
 * weights of the k-th px of a piece; sums has four for each px. */
static inline void sum_down(const float *first, int64_t stride, const taps *w, int64_t k,
                            float *sums)
{
    four e = (w->y[0][k] * load(first) + w->y[1][k] * load(first + stride)) +
             (w->y[2][k] * load(first + 2 * stride) + w->y[3][k] * load(first + 3 * stride));
    memcpy(sums + 4 * k, &e, sizeof e);
}

/* How many px of a row, or rows, the map moves on over `ROWS_AHEAD` rows of post; 0 if absurd. */
static int64_t moves(double slope)
{
    double moved = ROWS_AHEAD * slope;
    return moved > -1e6 && moved < 1e6 ? (int64_t)moved : 0;
}

/* Ask for the px that are `ahead` of those of a piece. Where pre is turned, rows of post run across
 * its rows, and no processor foresees which px come next. Inlined, or gcc takes it for a function
 * without effect. */
static inline __attribute__((always_inline)) void fetch_ahead(const source *pre, const taps *w,
                                                              int64_t count, int64_t ahead)
{
    for (int64_t k = 0; k < count; k += LINE) {
        int64_t at = (w->top[k] - pre->y0) * pre->cols + (w->left[k] - pre->x0) + ahead;
        __builtin_prefetch(pre->px + smaller(larger(at, 0), pre->count - 1));
    }
}

void catmull_rom(const float *px, int64_t source_rows, int64_t source_cols,
                 int64_t source_y0, int64_t source_x0, int64_t pre_rows, int64_t pre_cols,
                 const double *matrix, const double *knots, int64_t knot_rows,
                 int64_t knot_cols, int64_t spacing, const double *seams,
                 const double *offsets, int64_t seam_count, int64_t axis, int64_t of_pre,
                 int64_t window_y0, int64_t window_x0, float *out, int64_t out_rows,
                 int64_t out_cols, int64_t out_stride, double *positions)
{
    const map known = {matrix, knots,   knot_rows,  knot_cols, spacing,
                       seams,  offsets, seam_count, axis,      of_pre};
    const source pre = {px,        source_rows * source_cols, source_cols, source_y0,
                        source_x0, pre_rows - 1,              pre_cols - 1};
    const int64_t ahead = (moves(matrix[4]) + 3) * source_cols + moves(matrix[1]);
    const double right = (double)pre_cols - 0.5, bottom = (double)pre_rows - 0.5;
    taps w;
    float sums[4 * PIECE];
    for (int64_t row = 0; row < out_rows; row++) {
        place_row(&known, window_y0 + row, window_x0, out_cols, positions);
        for (int64_t col = 0; col < out_cols; col += PIECE) {
            const double *u = positions + col, *v = u + out_cols;
            int64_t count = smaller(PIECE, out_cols - col);
            float *line = out + row * out_stride + col;
            int inside = weigh_piece(u, right, (int32_t)pre.last_col, count, w.x, w.left);
            inside &= weigh_piece(v, bottom, (int32_t)pre.last_row, count, w.y, w.top);
            if (inside) {
                fetch_ahead(&pre, &w, count, ahead);
            }
            for (int64_t k = 0; inside && k < count; k++) {
                int64_t at = (w.top[k] - source_y0) * source_cols + (w.left[k] - source_x0);
                sum_down(px + at, source_cols, &w, k, sums);
            }
            for (int64_t k = 0; !inside && k < count; k++) {
                float copied[16];
                for (int j = 0; j < 16; j++) {
                    copied[j] = NAN; /* outside, or nowhere at all */
                }
                if (u[k] >= -0.5 && u[k] <= right && v[k] >= -0.5 && v[k] <= bottom) {
                    copy16(&pre, w.top[k], w.left[k], copied);
                }
                sum_down(copied, 4, &w, k, sums);
            }
            for (int64_t k = 0; k < count; k++) {
                const float *e = sums + 4 * k;
                line[k] = (w.x[0][k] * e[0] + w.x[1][k] * e[1]) +
                          (w.x[2][k] * e[2] + w.x[3][k] * e[3]);
            }
        }
    }
}
