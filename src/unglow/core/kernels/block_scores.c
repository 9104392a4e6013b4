/* Scores of blocks: how far what is left in each of them departs from noise. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "splines.h"

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
/* px up to this many standard deviations above the lowest value count as at it. */
#define AT_LOWEST 0.5f

/* A block in bins of 2 x 2 px, [row, col]: expected level, what is left of it, variance of that; a
 * variance of 0 marks a bin without data. */
typedef struct {
    float expected[BIN_COUNT], left[BIN_COUNT], variance[BIN_COUNT];
    int64_t count;
} bins;

/* How many of `count` values are less than each of them. */
static inline void count_less(const float *values, int64_t count, int32_t *less)
{
    memset(less, 0, (size_t)count * sizeof *less);
    for (int64_t other = 0; other < count; other++) {
        for (int64_t k = 0; k < count; k++) {
            less[k] += values[other] < values[k];
        }
    }
}

/* The value that has `rank` values before it in order. */
static inline float ranked(const float *values, const int32_t *less, int64_t count, int64_t rank)
{
    const int32_t before = (int32_t)rank;
    float found = -INFINITY;
    for (int64_t k = 0; k < count; k++) {
        float value = less[k] <= before ? values[k] : -INFINITY;
        found = value > found ? value : found;
    }
    return found;
}

/* What is wrong with px of the rows of a block, by their columns: numbers of px. */
typedef struct {
    int32_t lost[SIDE], on_floor[SIDE], below[SIDE];
} faults;

/* What post should be in a row of px, and which of them count. */
static inline void judge_line(const float *post, const float *left, const float *numbers,
                              float *restrict expected, int32_t *restrict counts,
                              faults *restrict found)
{
    const float read = numbers[0], shot = numbers[1], least = numbers[4], top = numbers[6];
    const float lowest = numbers[7], dark_end = numbers[8];
    for (int64_t k = 0; k < SIDE; k++) {
        float seen = post[k], level = seen - left[k];
        float sigma = sqrtf(above(shot * level + read, least));
        /* post that is saturated where it should not be is as bright as measured, or more */
        int32_t known = level < top, dark = seen <= dark_end;
        int32_t judged = known & (dark | (level < lowest));
        expected[k] = level;
        counts[k] = known;
        found->lost[k] += judged & dark & (level > dark_end + CLEAR * sigma);
        found->on_floor[k] += judged & (seen <= lowest) & (level > lowest + (CLEAR + 1.0f) * sigma);
        /* where post is cut off, its px are at the lowest value, or blurred next to it */
        found->below[k] += judged & (seen <= lowest + AT_LOWEST * sigma) &
                           (level < lowest - CLEAR * sigma);
    }
}

static float sum_share(const int32_t *numbers, float part)
{
    int32_t sum = 0;
    for (int64_t k = 0; k < SIDE; k++) {
        sum += numbers[k];
    }
    return (float)sum * part;
}

/* Fill the bins of a block, and the scores LOST, FLOOR and BELOW. */
static void gather(const float *post, int64_t post_stride, const float *left, int64_t left_stride,
                   const float *numbers, bins *out, float *scores)
{
    const float post_read = numbers[0], post_shot = numbers[1], pre_read = numbers[2];
    const float pre_shot = numbers[3], least = numbers[4], pre_least = numbers[5];
    float one[SIDE], two[SIDE];
    int32_t first[SIDE], second[SIDE], known = 0, whole = 0;
    faults found = {{0}, {0}, {0}};
    for (int64_t row = 0; row < BINS; row++) {
        const float *upper = left + 2 * row * left_stride, *lower = upper + left_stride;
        const float *seen = post + 2 * row * post_stride;
        judge_line(seen, upper, numbers, one, first, &found);
        judge_line(seen + post_stride, lower, numbers, two, second, &found);
        for (int64_t col = 0; col < BINS; col++) {
            int64_t x = 2 * col, at = row * BINS + col;
            float level = (one[x] + one[x + 1] + two[x] + two[x + 1]) * 0.25f;
            float rest = (upper[x] + upper[x + 1] + lower[x] + lower[x + 1]) * 0.25f;
            float variance = 0.25f * (above(post_shot * level + post_read, least) +
                                      above(pre_shot * level + pre_read, pre_least));
            int32_t here = first[x] + first[x + 1] + second[x] + second[x + 1];
            known += here;
            whole += here == 4;
            out->expected[at] = here == 4 ? level : 0.0f;
            out->left[at] = here == 4 ? rest : 0.0f;
            out->variance[at] = here == 4 ? variance : 0.0f;
        }
    }
    out->count = whole;
    float part = known ? 1.0f / (float)known : 0.0f;
    scores[LOST] = sum_share(found.lost, part);
    scores[FLOOR] = sum_share(found.on_floor, part);
    scores[BELOW] = sum_share(found.below, part);
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
    float means[CELL_COUNT], squares[CELL_COUNT], variances[CELL_COUNT];
    int32_t less[CELL_COUNT];
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
    for (int64_t k = count; k < CELL_COUNT; k++) {
        means[k] = INFINITY;
        variances[k] = 1.0f;
    }
    count_less(means, CELL_COUNT, less);
    float median = ranked(means, less, CELL_COUNT, count / 2);
    float low = ranked(means, less, CELL_COUNT, count / 5);
    scores[LEVEL] = median / sqrtf(MEDIAN_VARIANCE * typical / (float)count + off);
    scores[RISE] = (low + QUANTILE * sqrtf(typical)) /
                   sqrtf(QUANTILE_VARIANCE * typical / (float)count + off);
    for (int64_t k = 0; k < CELL_COUNT; k++) {
        float away = means[k] - median;
        squares[k] = away * away / variances[k];
    }
    count_less(squares, CELL_COUNT, less);
    float middle = ranked(squares, less, CELL_COUNT, count / 2) / MEDIAN_SQUARE;
    scores[TEXTURE] = logf(above(middle, 1e-3f)) / LOG_SCATTER *
                      sqrtf((float)count / CELL_COUNT);
    return median;
}

/* Bins in another order: those that lie at the same place in the parts of a row follow each other. */
static inline void interleave(const float *values, float *restrict out)
{
    for (int64_t at = 0; at < BIN_COUNT; at += BINS) {
        for (int64_t k = 0; k < BINS / PARTS; k++) {
            for (int64_t part = 0; part < PARTS; part++) {
                out[at + k * PARTS + part] = values[at + part * (BINS / PARTS) + k];
            }
        }
    }
}

/* How a template goes with what is left: a robust slope over its error. What is left and its variance
 * are interleaved. */
static float slope(const float *template, const float *clipped, const float *variance)
{
    float cross[PART_COUNT] = {0}, noise[PART_COUNT] = {0}, size[PART_COUNT] = {0};
    float values[BIN_COUNT];
    interleave(template, values);
    for (int64_t row = 0; row < PARTS; row++) {
        for (int64_t k = 0; k < BIN_COUNT / PARTS; k += PARTS) {
            for (int64_t col = 0; col < PARTS; col++) {
                int64_t at = row * (BIN_COUNT / PARTS) + k + col, part = row * PARTS + col;
                float value = values[at], square = value * value;
                cross[part] += clipped[at] * value;
                noise[part] += variance[at] * square;
                size[part] += square;
            }
        }
    }
    int32_t less[PART_COUNT];
    count_less(size, PART_COUNT, less);
    float most = MOST_WEIGHT * ranked(size, less, PART_COUNT, PART_COUNT / 2);
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

/* Whether a bin and its four neighbours have data, for all bins with four neighbours. */
static void find_inner(const float *variance, int32_t *inner)
{
    memset(inner, 0, BIN_COUNT * sizeof *inner);
    for (int64_t row = 1; row < BINS - 1; row++) {
        for (int64_t at = row * BINS + 1; at < (row + 1) * BINS - 1; at++) {
            inner[at] = (variance[at] > 0.0f) & (variance[at - 1] > 0.0f) &
                        (variance[at + 1] > 0.0f) & (variance[at - BINS] > 0.0f) &
                        (variance[at + BINS] > 0.0f);
        }
    }
}

/* Scores of what is left against the structures that both images show. */
static void judge_structures(const bins *block, float median, float post_share, float *scores)
{
    float clipped[BIN_COUNT], shown[BIN_COUNT], template[BIN_COUNT] = {0};
    float left[BIN_COUNT], variance[BIN_COUNT];
    float total = 0.0f;
    for (int64_t at = 0; at < BIN_COUNT; at++) {
        float far = FAR * sqrtf(block->variance[at]), away = block->left[at] - median;
        float cut = away > far ? far : away < -far ? -far : away;
        int known = block->variance[at] > 0.0f;
        clipped[at] = known ? cut : 0.0f;
        /* the mean of both images that has least noise: it is not correlated with the difference */
        shown[at] = known ? block->expected[at] + post_share * cut : 0.0f;
    }
    for (int64_t at = 0; at < BIN_COUNT; at++) {
        total += shown[at];
    }
    interleave(clipped, left);
    interleave(block->variance, variance);
    float mean = total / (float)block->count;
    for (int64_t at = 0; at < BIN_COUNT; at++) {
        template[at] = block->variance[at] > 0.0f ? shown[at] - mean : 0.0f;
    }
    scores[SLOPE] = slope(template, left, variance);
    int32_t inner[BIN_COUNT];
    find_inner(block->variance, inner);
    memset(template, 0, sizeof template);
    const float *s = shown;
    for (int64_t at = BINS; at < BIN_COUNT - BINS; at++) {
        template[at] = inner[at] ? s[at + 1] - s[at - 1] : 0.0f;
    }
    scores[SHIFT_X] = slope(template, left, variance);
    for (int64_t at = BINS; at < BIN_COUNT - BINS; at++) {
        template[at] = inner[at] ? s[at + BINS] - s[at - BINS] : 0.0f;
    }
    scores[SHIFT_Y] = slope(template, left, variance);
    for (int64_t at = BINS; at < BIN_COUNT - BINS; at++) {
        float around = s[at - 1] + s[at + 1] + s[at - BINS] + s[at + BINS];
        template[at] = inner[at] ? around - 4.0f * s[at] : 0.0f;
    }
    scores[FOCUS] = slope(template, left, variance);
}

/* Scores of a whole block. */
static void judge_block(const float *post, int64_t post_stride, const float *left,
                        int64_t left_stride, const float *numbers, float *scores)
{
    bins block;
    gather(post, post_stride, left, left_stride, numbers, &block, scores);
    float median = NAN;
    if ((float)block.count >= LEAST_SHARE * BIN_COUNT) {
        median = judge_cells(&block, scores);
    }
    if (isfinite(median) && is_lit(&block, numbers)) {
        judge_structures(&block, median, numbers[9], scores);
    } else {
        /* what is as dark as glass shows no structures */
        for (int64_t k = isfinite(median) ? SLOPE : LEVEL; k <= FOCUS; k++) {
            scores[k] = NAN;
        }
    }
}

void block_scores(const float *post, int64_t post_stride, const float *left, int64_t left_stride,
                  int64_t rows, int64_t cols, const float *numbers, float *scores)
{
    for (int64_t top = 0; top < rows; top += SIDE) {
        for (int64_t first = 0; first < cols; first += SIDE, scores += SCORES) {
            const float *seen = post + top * post_stride + first;
            const float *rest = left + top * left_stride + first;
            int64_t height = smaller(SIDE, rows - top), width = smaller(SIDE, cols - first);
            if (height == SIDE && width == SIDE) {
                judge_block(seen, post_stride, rest, left_stride, numbers, scores);
                continue;
            }
            /* cut by the end of the image: nothing is left where it has no px */
            float all_seen[SIDE * SIDE], all_left[SIDE * SIDE];
            for (int64_t k = 0; k < SIDE * SIDE; k++) {
                int inside = k / SIDE < height && k % SIDE < width;
                all_seen[k] = inside ? seen[k / SIDE * post_stride + k % SIDE] : 0.0f;
                all_left[k] = inside ? rest[k / SIDE * left_stride + k % SIDE] : NAN;
            }
            judge_block(all_seen, SIDE, all_left, SIDE, numbers, scores);
        }
    }
}
