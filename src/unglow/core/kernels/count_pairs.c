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
    float ratio_min, ratio_max;
} tally;

/* Bin of a grey level that is no NaN; values beyond the ends go into the bins at the ends. */
static inline int64_t bin_of(const tally *t, double value)
{
    double bin = (value - t->first) * t->inverse;
    return bin > 0.0 ? (int64_t)(bin < t->last ? bin : t->last) : 0;
}

/* Bin of a ratio that is no NaN: a cell holds one edge at most, so that one look-up and one
 * comparison show. */
static inline int64_t ratio_bin(const tally *t, float ratio)
{
    if (ratio < t->edges[0]) {
        return 0;
    }
    if (ratio >= t->edges[t->edge_count - 1]) {
        return t->edge_count;
    }
    int32_t bits;
    memcpy(&bits, &ratio, sizeof bits);
    int64_t bin = t->starts[(bits >> t->shift) - t->low_cell];
    return bin + (ratio >= t->edges[bin]);
}

/* Count `count` px whose ratios belong to one group. */
static void count_piece(tally *t, const double *post, const float *pre, int64_t count,
                        int64_t *ratios)
{
    t->all += count;
    for (int64_t k = 0; k < count; k++) {
        double p = post[k], q = (double)pre[k];
        if (isnan(p)) {
            t->dark++;
            continue;
        }
        int64_t b = bin_of(t, p);
        t->at_top += p >= t->top;
        if (isnan(q)) {
            t->alone++;
            t->post_only[b]++;
            continue;
        }
        t->overlap++;
        t->joint[bin_of(t, q) * t->bins + b]++;
        if (p <= 0.0 || q < t->floor_pre) {
            continue;
        }
        float ratio = (float)(p / q);
        if (isnan(ratio)) { /* infinite in both */
            continue;
        }
        t->used++;
        t->ratio_min = ratio < t->ratio_min ? ratio : t->ratio_min;
        t->ratio_max = ratio > t->ratio_max ? ratio : t->ratio_max;
        ratios[ratio_bin(t, ratio)]++;
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
        .ratio_min = (float)extremes[0],
        .ratio_max = (float)extremes[1],
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
    extremes[0] = (double)t.ratio_min;
    extremes[1] = (double)t.ratio_max;
    const int64_t counts[6] = {t.all, t.overlap, t.alone, t.dark, t.used, t.at_top};
    for (int k = 0; k < 6; k++) {
        counters[k] += counts[k];
    }
}
