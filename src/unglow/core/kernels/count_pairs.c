/* Counting co-registered pixels: joint and single histograms, and one of their ratios. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "pixels.h"
#include "splines.h"

/* So many px of post are converted at a time. */
#define PIECE 256

/* What the counts of a piece go into, and how; kernels.h and the Python module say more. */
typedef struct {
    double first, inverse, floor_pre, top, last;
    const int32_t *starts; /* number of edges at or below the start of each cell */
    int32_t low_cell, shift;
    const float *edges;
    int64_t edge_count;
    int64_t *joint, *post_only;
    int64_t bins;
    int64_t all, overlap, alone, dark, used, at_top;
    int32_t low_bits, high_bits; /* smallest and largest ratio */
} tally;

static inline int32_t bits_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float value_of(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What is found of each px of a piece before anything is counted: loops that compilers turn into
 * instructions for several px. */
typedef struct {
    int32_t joint[PIECE], ratio[PIECE], used[PIECE];
} places;

/* Bin of a grey level; values beyond the ends go into the bins at the ends, NaN into the first. */
static inline int32_t bin_of(const tally *t, double value)
{
    double bin = (value - t->first) * t->inverse;
    bin = bin > 0.0 ? bin : 0.0;
    return (int32_t)(bin < t->last ? bin : t->last);
}

/* Bin of a ratio: a cell holds one edge at most, so that one look-up and one comparison show. */
static inline int32_t ratio_bin(const tally *t, float ratio)
{
    const int32_t last = (int32_t)t->edge_count - 1;
    const float least = t->edges[0], most = t->edges[last];
    float bounded = ratio < most ? ratio : most;
    bounded = bounded > least ? bounded : least;
    int32_t bin = t->starts[(bits_of(bounded) >> t->shift) - t->low_cell];
    bin = bin < last ? bin : last;
    bin += bounded >= t->edges[bin];
    return ratio < least ? 0 : bin;
}

/* Find the places of px that both images show, and count what needs no place. */
static void find_places(tally *t, const double *restrict post, const float *restrict pre,
                        int64_t count, places *restrict found)
{
    const int32_t bins = (int32_t)t->bins;
    int32_t at_top = 0, used = 0;
    float ratios[PIECE];
    for (int64_t k = 0; k < count; k++) {
        double p = post[k], q = (double)pre[k];
        found->joint[k] = bin_of(t, q) * bins + bin_of(t, p);
        at_top += p >= t->top;
        float ratio = (float)(p / q);
        ratios[k] = ratio;
        found->used[k] = (p > 0.0) & (q >= t->floor_pre) & (ratio == ratio);
    }
    for (int64_t k = 0; k < count; k++) {
        used += found->used[k];
        found->ratio[k] = ratio_bin(t, ratios[k]);
    }
    /* bits of positive numbers are in the order of the numbers */
    int32_t low = t->low_bits, high = t->high_bits;
    for (int64_t k = 0; k < count; k++) {
        int32_t bits = bits_of(ratios[k]), is_used = -found->used[k];
        int32_t above = (bits & is_used) | (INT32_MAX & ~is_used);
        low = above < low ? above : low;
        high = (bits & is_used) > high ? (bits & is_used) : high;
    }
    t->low_bits = low;
    t->high_bits = high;
    t->at_top += at_top;
    t->used += used;
}

/* Move px that one of the images does not show out of a piece, and count them. Returns how many
 * are left. */
static int64_t keep_shared(tally *t, double *post, float *pre, int64_t count)
{
    int64_t kept = 0;
    for (int64_t k = 0; k < count; k++) {
        double p = post[k];
        if (isnan(p)) {
            t->dark++;
        } else if (isnan(pre[k])) {
            t->alone++;
            t->at_top += p >= t->top;
            t->post_only[bin_of(t, p)]++;
        } else {
            pre[kept] = pre[k];
            post[kept++] = p;
        }
    }
    return kept;
}

/* Count `count` px whose ratios belong to one group. */
static void count_piece(tally *t, double *post, const float *pre, int64_t count, int64_t *ratios)
{
    float some[PIECE];
    places found;
    int32_t missing = 0;
    t->all += count;
    for (int64_t k = 0; k < count; k++) {
        missing |= isnan(post[k]) | isnan(pre[k]);
    }
    if (missing) {
        memcpy(some, pre, (size_t)count * sizeof *pre);
        count = keep_shared(t, post, some, count);
        pre = some;
    }
    find_places(t, post, pre, count, &found);
    t->overlap += count;
    int64_t unused = 0;
    for (int64_t k = 0; k < count; k++) {
        t->joint[found.joint[k]]++;
        int64_t *place = found.used[k] ? ratios + found.ratio[k] : &unused;
        ++*place;
    }
}

void count_pairs(const void *post, int64_t post_type, const float *pre, int64_t rows,
                 int64_t cols, const int64_t *corner, const double *binning,
                 const int32_t *cells, const float *edges, int64_t edge_count, int64_t *joint,
                 int64_t bins, int64_t *post_only, int64_t *ratios, int64_t groups,
                 int64_t *counters, double *extremes)
{
    const int64_t row0 = corner[0], col0 = corner[1], tile = corner[2], tiles = corner[3];
    (void)groups;
    tally t = {
        .first = binning[0],
        .inverse = binning[1],
        .floor_pre = binning[2],
        .top = binning[3],
        .last = (double)(bins - 1),
        .starts = cells + 2,
        .low_cell = cells[0],
        .shift = cells[1],
        .edges = edges,
        .edge_count = edge_count,
        .joint = joint,
        .post_only = post_only,
        .bins = bins,
        .low_bits = bits_of((float)extremes[0]),
        .high_bits = bits_of((float)extremes[1]),
    };
    double values[PIECE];
    for (int64_t row = 0; row < rows; row++) {
        int64_t group_row = 4 * ((row0 + row) / tile);
        int64_t stop;
        for (int64_t col = 0; col < cols; col = stop) {
            /* to the end of the tile, whose ratios belong to one group */
            int64_t tile_col = (col0 + col) / tile;
            int64_t group = (group_row + tile_col) % tiles;
            stop = smaller(smaller(cols, (tile_col + 1) * tile - col0), col + PIECE);
            int64_t first = row * cols + col;
            read_pixels(post, post_type, first, stop - col, values);
            count_piece(&t, values, pre + first, stop - col, ratios + group * (edge_count + 1));
        }
    }
    extremes[0] = (double)value_of(t.low_bits);
    extremes[1] = (double)value_of(t.high_bits);
    const int64_t counts[6] = {t.all, t.overlap, t.alone, t.dark, t.used, t.at_top};
    for (int k = 0; k < 6; k++) {
        counters[k] += counts[k];
    }
}
