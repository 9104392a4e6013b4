/* The signal-to-noise ratio of filtered px. */
#include <math.h>

#include "kernels.h"
#include "splines.h"
#include "terms.h"

/* px of a row that are looked at together, and how many of them are worth a look at each. */
#define BLOCK 64
#define MOST 6

/* Rounding may leave less of the squares, or nothing. */
#define LEAST_SQUARES 1e-6f

/* Variance of raw px at a level; NaN stays NaN. */
static inline float variance(float level, float shot, float read, float least)
{
    float found = level * shot + read;
    return found < least ? least : found;
}

/* Ratio and share of noise of a row; pre and weight are those of its px alone. */
static void ratio_row(const float *restrict signal, const float *restrict post,
                      const float *restrict pre, const float *restrict weight,
                      const float *restrict squares, const float *restrict gain,
                      const float *restrict factor, const float *restrict shifted,
                      const float *numbers, float *restrict ratio, float *restrict share,
                      int64_t cols)
{
    const float post_read = numbers[0], post_shot = numbers[1], pre_read = numbers[2];
    const float pre_shot = numbers[3], least = numbers[4], spread = numbers[5];
    const float of_filter = numbers[6];
    for (int64_t col = 0; col < cols; col++) {
        float seen = weight[col];
        float kept = squares[col] < LEAST_SQUARES ? LEAST_SQUARES : squares[col];
        float more = kept / (seen * seen);
        float squared = gain[col] * gain[col];
        float of_post = variance(post[col] / kept, post_shot, post_read, least);
        float of_pre = variance(pre[col], pre_shot, pre_read, least);
        float noise = of_filter * more * of_post;
        noise += squared * (factor[col] * more) * of_pre;
        noise *= spread;
        float all = noise + squared * shifted[col];
        ratio[col] = signal[col] / seen / sqrtf(all);
        share[col] = noise / all;
    }
}

/* What the ratio of a band is computed from. */
typedef struct {
    const float *signal, *post, *pre, *weight, *squares, *gain, *error, *numbers;
    int64_t weight_stride, squares_stride, gain_stride, error_stride, rows, cols;
    phase_tables tables;
    double *positions;
    float *factor, *shifted;
    float *ratio, *share;
} band;

/* Ratio and share of noise of some px of a row, by the factor and the shift that are given. */
static void some_ratios(const band *of, int64_t row, int64_t col, int64_t count)
{
    const int64_t at = row * of->cols + col, wide = of->cols + 2 * SPAN;
    const float *pre = of->pre + (row + SPAN) * wide + SPAN + col;
    const float *weight = of->weight + (row + SPAN) * of->weight_stride + SPAN + col;
    ratio_row(of->signal + at, of->post + at, pre, weight,
              of->squares + row * of->squares_stride + col,
              of->gain + row * of->gain_stride + col, of->factor, of->shifted, of->numbers,
              of->ratio + at, of->share + at, count);
}

/* The same, exactly. */
static void exact_ratios(const band *of, int64_t row, int64_t col, int64_t count)
{
    const int64_t wide = of->cols + 2 * SPAN;
    const phase_tables *tables = &of->tables;
    factor_row(tables, tables->window_y0 + row, tables->window_x0 + col, count, of->factor,
               of->positions);
    shift_row(of->pre + row * wide + col, wide, of->error + row * of->error_stride + col,
              of->shifted, count);
    some_ratios(of, row, col, count);
}

/* Note in which row each block of pre last had a px without a value. */
static void look(const band *of, int64_t row, int64_t *last)
{
    const int64_t wide = of->cols + 2 * SPAN;
    const float *pre = of->pre + row * wide;
    for (int64_t first = 0; first < wide; first += BLOCK) {
        const int64_t stop = smaller(first + BLOCK, wide);
        int any = 0;
        for (int64_t col = first; col < stop; col++) {
            any |= !(fabsf(pre[col]) < INFINITY);
        }
        if (any) {
            last[first / BLOCK] = row;
        }
    }
}

/* Whether some px of a row may have no ratio. */
static int lack_values(const band *of, int64_t row, int64_t col, int64_t count,
                       const int64_t *last)
{
    const float *error = of->error + row * of->error_stride + col;
    int any = 0;
    for (int64_t k = 0; k < count; k++) {
        any |= !(fabsf(error[k]) < INFINITY);
    }
    for (int64_t at = col / BLOCK; at * BLOCK < col + count + 2 * SPAN; at++) {
        any |= last[at] >= row;
    }
    return any;
}

/* The ratios of a block of a row; exactly only those that may be beyond a level. */
static void look_for_ratios(const band *of, int64_t row, int64_t col, int64_t count, float least,
                            float level)
{
    for (int64_t k = 0; k < count; k++) {
        of->factor[k] = least;
        of->shifted[k] = 0.0f;
    }
    some_ratios(of, row, col, count);
    const float *ratio = of->ratio + row * of->cols + col;
    int32_t found = 0;
    for (int64_t k = 0; k < count; k++) {
        found += !(fabsf(ratio[k]) <= level);
    }
    if (found > MOST) {
        exact_ratios(of, row, col, count);
        return;
    }
    for (int64_t k = 0; found > 0 && k < count; k++) {
        if (!(fabsf(ratio[k]) <= level)) {
            exact_ratios(of, row, col + k, 1);
            found--;
        }
    }
}

void significance(const float *signal, const float *post, const float *pre, const float *weight,
                  int64_t weight_stride, const float *squares, int64_t squares_stride,
                  const float *gain, int64_t gain_stride, const float *error,
                  int64_t error_stride, const double *matrix, const double *knots,
                  int64_t knot_rows, int64_t knot_cols, int64_t spacing, const double *seams,
                  const double *offsets, int64_t seam_count, int64_t axis, int64_t of_pre,
                  int64_t window_y0, int64_t window_x0, const float *tables,
                  int64_t blocks_down, int64_t blocks_across, int64_t phases, int64_t block,
                  const float *numbers, float level, double *positions, float *line,
                  int64_t *last, float *ratio, float *share, int64_t rows, int64_t cols)
{
    const band of = {
        signal, post, pre, weight, squares, gain, error, numbers, weight_stride, squares_stride,
        gain_stride, error_stride, rows, cols,
        {{matrix, knots, knot_rows, knot_cols, spacing, seams, offsets, seam_count, axis, of_pre},
         tables, window_y0, window_x0, blocks_across, phases, block},
        positions, line, line + cols, ratio, share,
    };
    const int64_t entries = blocks_down * blocks_across * phases * phases;
    float least = entries > 0 ? tables[0] : 0.0f;
    for (int64_t k = 1; k < entries; k++) {
        least = tables[k] < least ? tables[k] : least;
    }
    for (int64_t first = 0; first < cols + 2 * SPAN; first += BLOCK) {
        last[first / BLOCK] = -1;
    }
    for (int64_t row = 0; row < 2 * SPAN && level >= 0.0f; row++) {
        look(&of, row, last);
    }
    for (int64_t row = 0; row < rows; row++) {
        if (!(level >= 0.0f)) {
            exact_ratios(&of, row, 0, cols);
            continue;
        }
        look(&of, row + 2 * SPAN, last);
        for (int64_t col = 0; col < cols; col += BLOCK) {
            const int64_t count = smaller(BLOCK, cols - col);
            if (lack_values(&of, row, col, count, last)) {
                exact_ratios(&of, row, col, count);
            } else {
                look_for_ratios(&of, row, col, count, least, level);
            }
        }
    }
}
