/* Scores of blocks: how far what is left in each of them departs from noise. */
#include <math.h>
#include <string.h>

#include "kernels.h"

/* Px along a side of a block, of a bin, bins along a side, cells of 2 x 2 bins, and parts of 4 x 4
 * bins in which slopes are taken. */
enum { SIDE = 32, BINS = SIDE / 2, CELLS = BINS / 2, PARTS = BINS / 4 };
enum { BIN_COUNT = BINS * BINS, CELL_COUNT = CELLS * CELLS, PART_COUNT = PARTS * PARTS };
/* Numbers of a score, as kernels.h has them. */
enum { LEVEL, RISE, TEXTURE, SLOPE, SHIFT_X, SHIFT_Y, FOCUS, LOST, FLOOR, BELOW, SCORES };

/* Share of a block that has to have data. */
#define LEAST_SHARE 0.6f
/* The background may be off by this part of the level, and by so many grey levels. */
#define LEVEL_PART 0.005f
#define LEVEL_STEP 0.05f
/* Of normal numbers: variance of a median of n over 1 / n, of the 20 % quantile, that quantile, the
 * median of squares, and the scatter of the logarithm of the median of 64 squares. */
#define MEDIAN_VARIANCE 1.57f
#define QUANTILE_VARIANCE 2.04f
#define QUANTILE 0.8416f
#define MEDIAN_SQUARE 0.455f
#define LOG_SCATTER 0.29f
/* Differences are cut at so many standard deviations, slopes of parts at so many, which leaves this
 * of their variance; a part counts at most so many times what a median part does. */
#define FAR 4.0f
#define FAR_SLOPE 2.0f
#define CUT_VARIANCE 0.84f
#define MOST_WEIGHT 4.0f
/* Expected levels count as above another one from so many standard deviations on. */
#define CLEAR 3.0f

/* A block in bins of 2 x 2 px, [row, col]: expected level, what is left of it, variance of that,
 * template; a variance of 0 marks a bin without data. */
typedef struct {
    float expected[BIN_COUNT], left[BIN_COUNT], variance[BIN_COUNT], shown[BIN_COUNT];
    int64_t count;
} bins;

static inline float above(float value, float least) { return value < least ? least : value; }

/* The value that has `rank` smaller ones among `count`, which are put in another order. */
static float ranked(float *values, int64_t count, int64_t rank)
{
    int64_t low = 0, high = count - 1;
    while (low < high) {
        float pivot = values[(low + high) / 2];
        int64_t i = low, k = high;
        while (i <= k) {
            while (values[i] < pivot) {
                i++;
            }
            while (pivot < values[k]) {
                k--;
            }
            if (i <= k) {
                float other = values[i];
                values[i++] = values[k];
                values[k--] = other;
            }
        }
        if (rank <= k) {
            high = k;
        } else if (rank >= i) {
            low = i;
        } else {
            break;
        }
    }
    return values[rank];
}

/* Fill the bins of a block, and what each px says: LOST, FLOOR and BELOW. */
static void gather(const float *post, int64_t post_stride, const float *left, int64_t left_stride,
                   int64_t rows, int64_t cols, const float *numbers, bins *out, float *scores)
{
    const float post_read = numbers[0], post_shot = numbers[1], pre_read = numbers[2];
    const float pre_shot = numbers[3], least = numbers[4], pre_least = numbers[5];
    const float top = numbers[6], lowest = numbers[7], dark_end = numbers[8];
    int64_t known = 0, lost = 0, on_floor = 0, below = 0;
    out->count = 0;
    for (int64_t row = 0; row < BINS; row++) {
        for (int64_t col = 0; col < BINS; col++) {
            float level = 0.0f, rest = 0.0f;
            int64_t here = 0;
            for (int64_t k = 0; k < 4; k++) {
                int64_t y = 2 * row + k / 2, x = 2 * col + k % 2;
                if (y >= rows || x >= cols) {
                    continue;
                }
                float seen = post[y * post_stride + x], more = left[y * left_stride + x];
                float expected = seen - more;
                /* post that is saturated where it should not be is as bright as measured, or more */
                if (!(expected < top)) {
                    continue;
                }
                here++;
                level += expected;
                rest += more;
                if (seen <= dark_end || expected < lowest) {
                    float sigma = sqrtf(above(post_shot * expected + post_read, least));
                    lost += seen <= dark_end && expected > dark_end + CLEAR * sigma;
                    on_floor += seen <= lowest && expected > lowest + (CLEAR + 1.0f) * sigma;
                    below += expected < lowest - CLEAR * sigma;
                }
            }
            known += here;
            int64_t at = row * BINS + col;
            out->expected[at] = out->left[at] = out->variance[at] = 0.0f;
            if (here == 4) {
                level *= 0.25f;
                out->expected[at] = level;
                out->left[at] = rest * 0.25f;
                out->variance[at] = 0.25f * (above(post_shot * level + post_read, least) +
                                             above(pre_shot * level + pre_read, pre_least));
                out->count++;
            }
        }
    }
    float part = known ? 1.0f / (float)known : 0.0f;
    scores[LOST] = (float)lost * part;
    scores[FLOOR] = (float)on_floor * part;
    scores[BELOW] = (float)below * part;
}

/* Whether a block is expected to be clearly brighter than glass on average. */
static int is_lit(const bins *block, const float *numbers)
{
    const float dark_end = numbers[8];
    const float sigma = sqrtf(above(numbers[1] * dark_end + numbers[0], numbers[4]));
    float total = 0.0f;
    for (int64_t at = 0; at < BIN_COUNT; at++) {
        total += block->variance[at] > 0.0f ? block->expected[at] : 0.0f;
    }
    return total > (dark_end + CLEAR * sigma) * (float)block->count;
}

/* Scores of means of cells: level, rise and texture. Returns the median, or NaN for too few. */
static float judge_cells(const bins *block, float *scores)
{
    float means[CELL_COUNT], sorted[CELL_COUNT], variances[CELL_COUNT];
    float total = 0.0f, level = 0.0f;
    int64_t count = 0;
    for (int64_t row = 0; row < CELLS; row++) {
        for (int64_t col = 0; col < CELLS; col++) {
            float mean = 0.0f, variance = 0.0f, expected = 0.0f;
            int64_t whole = 1;
            for (int64_t k = 0; k < 4; k++) {
                int64_t at = (2 * row + k / 2) * BINS + 2 * col + k % 2;
                whole &= block->variance[at] > 0.0f;
                mean += block->left[at];
                variance += block->variance[at];
                expected += block->expected[at];
            }
            if (whole) {
                means[count] = mean * 0.25f;
                variances[count] = variance * 0.0625f;
                total += variance * 0.0625f;
                level += expected * 0.25f;
                count++;
            }
        }
    }
    if ((float)count < LEAST_SHARE * CELL_COUNT) {
        return NAN;
    }
    float typical = total / (float)count;
    float off = LEVEL_PART * level / (float)count;
    off = off * off + LEVEL_STEP * LEVEL_STEP;
    memcpy(sorted, means, sizeof sorted);
    float median = ranked(sorted, count, count / 2);
    float low = ranked(sorted, count, count / 5);
    scores[LEVEL] = median / sqrtf(MEDIAN_VARIANCE * typical / (float)count + off);
    scores[RISE] = (low + QUANTILE * sqrtf(typical)) /
                   sqrtf(QUANTILE_VARIANCE * typical / (float)count + off);
    for (int64_t k = 0; k < count; k++) {
        float away = means[k] - median;
        sorted[k] = away * away / variances[k];
    }
    float squares = ranked(sorted, count, count / 2) / MEDIAN_SQUARE;
    scores[TEXTURE] = logf(above(squares, 1e-3f)) / LOG_SCATTER *
                      sqrtf((float)count / CELL_COUNT);
    return median;
}

/* How a template goes with what is left: a robust slope over its error. */
static float slope(const bins *block, const float *template, const float *clipped)
{
    float cross[PART_COUNT] = {0}, noise[PART_COUNT] = {0}, size[PART_COUNT] = {0};
    for (int64_t row = 0; row < BINS; row++) {
        for (int64_t col = 0; col < BINS; col++) {
            int64_t at = row * BINS + col, part = row / 4 * PARTS + col / 4;
            float value = template[at], square = value * value;
            cross[part] += clipped[at] * value;
            noise[part] += block->variance[at] * square;
            size[part] += square;
        }
    }
    float sorted[PART_COUNT];
    memcpy(sorted, size, sizeof sorted);
    float most = MOST_WEIGHT * ranked(sorted, PART_COUNT, PART_COUNT / 2);
    float sum = 0.0f, squares = 0.0f;
    for (int64_t part = 0; part < PART_COUNT; part++) {
        if (noise[part] > 0.0f) {
            float found = cross[part] / sqrtf(noise[part]);
            float weight = size[part] < most ? size[part] : most;
            found = found > FAR_SLOPE ? FAR_SLOPE : found < -FAR_SLOPE ? -FAR_SLOPE : found;
            sum += sqrtf(weight) * found;
            squares += weight;
        }
    }
    return squares > 0.0f ? sum / sqrtf(CUT_VARIANCE * squares) : 0.0f;
}

/* Scores of what is left against the structures that both images show. */
static void judge_structures(bins *block, float median, float post_share, float *scores)
{
    float clipped[BIN_COUNT], template[BIN_COUNT];
    float total = 0.0f;
    for (int64_t at = 0; at < BIN_COUNT; at++) {
        clipped[at] = block->shown[at] = 0.0f;
        if (block->variance[at] > 0.0f) {
            float far = FAR * sqrtf(block->variance[at]), away = block->left[at] - median;
            clipped[at] = away > far ? far : away < -far ? -far : away;
            /* the mean of both images that has least noise: it is not correlated with the difference */
            block->shown[at] = block->expected[at] + post_share * clipped[at];
            total += block->shown[at];
        }
    }
    float mean = total / (float)block->count;
    for (int64_t at = 0; at < BIN_COUNT; at++) {
        template[at] = block->variance[at] > 0.0f ? block->shown[at] - mean : 0.0f;
    }
    scores[SLOPE] = slope(block, template, clipped);
    static const int64_t kinds[3] = {SHIFT_X, SHIFT_Y, FOCUS};
    for (int64_t kind = 0; kind < 3; kind++) {
        memset(template, 0, sizeof template);
        for (int64_t row = 1; row < BINS - 1; row++) {
            for (int64_t col = 1; col < BINS - 1; col++) {
                int64_t at = row * BINS + col;
                const float *v = block->variance, *s = block->shown;
                if (v[at] > 0.0f && v[at - 1] > 0.0f && v[at + 1] > 0.0f && v[at - BINS] > 0.0f &&
                    v[at + BINS] > 0.0f) {
                    template[at] = kinds[kind] == SHIFT_X   ? s[at + 1] - s[at - 1]
                                   : kinds[kind] == SHIFT_Y ? s[at + BINS] - s[at - BINS]
                                                            : s[at - 1] + s[at + 1] + s[at - BINS] +
                                                                  s[at + BINS] - 4.0f * s[at];
                }
            }
        }
        scores[kinds[kind]] = slope(block, template, clipped);
    }
}

void block_scores(const float *post, int64_t post_stride, const float *left, int64_t left_stride,
                  int64_t rows, int64_t cols, const float *numbers, float *scores)
{
    int64_t down = (rows + SIDE - 1) / SIDE, across = (cols + SIDE - 1) / SIDE;
    for (int64_t row = 0; row < down; row++) {
        for (int64_t col = 0; col < across; col++) {
            float *out = scores + (row * across + col) * SCORES;
            bins block;
            gather(post + row * SIDE * post_stride + col * SIDE, post_stride,
                   left + row * SIDE * left_stride + col * SIDE, left_stride, rows - row * SIDE,
                   cols - col * SIDE, numbers, &block, out);
            float median = NAN;
            if ((float)block.count >= LEAST_SHARE * BIN_COUNT) {
                median = judge_cells(&block, out);
            }
            if (isfinite(median) && is_lit(&block, numbers)) {
                judge_structures(&block, median, numbers[9], out);
            } else {
                /* what is as dark as glass shows no structures */
                for (int64_t k = isfinite(median) ? SLOPE : LEVEL; k <= FOCUS; k++) {
                    out[k] = NAN;
                }
            }
        }
    }
}
