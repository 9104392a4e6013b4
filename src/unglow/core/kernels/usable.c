/* Which px of a pair can be used, and what a filter sees of those that cannot. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "splines.h"

/* Columns that are looked through together. */
#define BLOCK 64

/* Judge the px of a row. */
static void judge_row(const float *restrict post, const float *restrict pre,
                      float *restrict left, const float *restrict background,
                      const float *restrict error, const float *limits,
                      uint8_t *restrict reasons, int64_t cols)
{
    const float top_post = limits[0], top_pre = limits[1], most = limits[2];
    for (int64_t col = 0; col < cols; col++) {
        const float of_post = post[col], of_pre = pre[col], off = error[col];
        const float value = left[col] - background[col];
        const int far = !(off <= most);
        const int clipped = (of_pre >= top_pre) | ((of_post >= top_post) & (value <= 0.0f));
        const int unknown = !((fabsf(value) < INFINITY) & (fabsf(of_post) < INFINITY));
        /* the first reason counts; products, for compilers make jumps of choices */
        reasons[col] = (uint8_t)(unknown + !unknown * (2 * clipped + 3 * (!clipped * far)));
        left[col] = value;
    }
    for (int64_t col = 0; col < cols; col++) {
        left[col] = reasons[col] ? NAN : left[col];
    }
}

void judge(const float *post, int64_t post_stride, const float *pre, int64_t pre_stride,
           float *left, int64_t left_stride, const float *background,
           int64_t background_stride, const float *error, int64_t error_stride,
           const float *limits, uint8_t *reasons, int64_t rows, int64_t cols)
{
    for (int64_t row = 0; row < rows; row++) {
        judge_row(post + row * post_stride, pre + row * pre_stride, left + row * left_stride,
                  background + row * background_stride, error + row * error_stride, limits,
                  reasons + row * cols, cols);
    }
}

void usable_px(const float *image, int64_t image_stride, const uint8_t *reasons,
               int64_t reasons_stride, float *out, int64_t rows, int64_t cols)
{
    for (int64_t row = 0; row < rows; row++) {
        const float *restrict source = image + row * image_stride;
        const uint8_t *restrict reason = reasons + row * reasons_stride;
        float *restrict target = out + row * cols;
        for (int64_t col = 0; col < cols; col++) {
            target[col] = reason[col] ? 0.0f : source[col];
        }
    }
}

/* Whether some of neighbouring px are unusable. */
static int has_reason(const uint8_t *reasons, int64_t count)
{
    uint8_t any = 0;
    for (int64_t k = 0; k < count; k++) {
        any |= reasons[k];
    }
    return any != 0;
}

/* Note in which row px of each block were last unusable. */
static void look(const uint8_t *reasons, int64_t row, int64_t cols, int64_t *last)
{
    for (int64_t first = 0; first < cols; first += BLOCK) {
        if (has_reason(reasons + first, smaller(BLOCK, cols - first))) {
            last[first / BLOCK] = row;
        }
    }
}

/* Share of the filter that some neighbouring px, BLOCK at most, have on usable px. */
static void share_of_some(const uint8_t *reasons, int64_t stride, const float *taps, int64_t count,
                          float least, float *line, float *out, int64_t cols)
{
    const int64_t wide = cols + count - 1;
    memset(line, 0, (size_t)wide * sizeof *line);
    for (int64_t k = 0; k < count; k++) {
        const uint8_t *reason = reasons + k * stride;
        if (!has_reason(reason, wide)) {
            continue;
        }
        for (int64_t col = 0; col < wide; col++) {
            line[col] += reason[col] ? taps[k] : 0.0f;
        }
    }
    for (int64_t col = 0; col < cols; col++) {
        float lost = 0.0f;
        for (int64_t k = 0; k < count; k++) {
            lost += taps[k] * line[col + k];
        }
        float share = 1.0f - lost;
        out[col] = share >= least ? share : NAN;
    }
}

void usable_share(const uint8_t *reasons, int64_t reasons_stride, const float *taps,
                  int64_t count, float least, float *line, int64_t *last, float *out,
                  int64_t rows, int64_t cols)
{
    const int64_t wide = cols + count - 1;
    for (int64_t first = 0; first < wide; first += BLOCK) {
        last[first / BLOCK] = -1;
    }
    for (int64_t row = 0; row < smaller(count - 1, rows + count - 1); row++) {
        look(reasons + row * reasons_stride, row, wide, last);
    }
    for (int64_t row = 0; row < rows; row++) {
        int64_t below = row + count - 1;
        look(reasons + below * reasons_stride, below, wide, last);
        for (int64_t first = 0; first < cols; first += BLOCK) {
            int64_t stop = smaller(first + BLOCK, cols);
            int64_t seen = -1; /* the last row in what the filter reaches from these px */
            for (int64_t at = first / BLOCK; at * BLOCK < stop + count - 1; at++) {
                seen = larger(seen, last[at]);
            }
            float *restrict share = out + row * cols + first;
            if (seen >= row) {
                const uint8_t *corner = reasons + row * reasons_stride + first;
                share_of_some(corner, reasons_stride, taps, count, least, line, share,
                              stop - first);
                continue;
            }
            for (int64_t col = 0; col < stop - first; col++) {
                share[col] = 1.0f;
            }
        }
    }
}
