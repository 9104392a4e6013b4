/* The loops over single pixels that Python calls: what each does, and what it takes.
 *
 * unglow/core/kernels/__init__.py reads the prototypes below to know how to call them, so they keep to a
 * plain form: `void`, a name, and parameters that are int64_t, uint64_t, float, double, or pointers
 * to the first of many numbers. Python refuses arrays of another type, and arrays whose numbers are
 * not neighbours in memory, before a loop sees them; rows may lie apart where a parameter of the
 * same name with `_stride` says by how many px. A comment before each prototype has the shape that
 * each array has at least, as expressions of Python: Python refuses smaller ones as well. Numbers
 * inside arrays (rows of a lattice, places of runs, bins of ratios) are not checked.
 *
 * Arrays are in the order of C, [row, col]; positions are x and y in px, with pixel centres at
 * integers. No loop allocates memory or keeps any state, so all of them may run in many threads at
 * once. Sums have a fixed order and no product is fused with a sum (-ffp-contract=off): the same
 * numbers give the same bits on every processor, in every window and with every build. */
#ifndef UNGLOW_KERNELS_H
#define UNGLOW_KERNELS_H

#include <stdint.h>

/* A number of numpy's complex64. */
typedef struct {
    float re, im;
} complex64;

/* Types of pixels behind a `void *`, as unglow.core.kernels.PIXEL_TYPES numbers them. */
enum pixel_type { UINT8, UINT16, INT16, FLOAT32, FLOAT64 };

#pragma GCC visibility push(default)

/* SHA-256 of the sources that this library was built from, in hexadecimal digits. */
const char *unglow_sources(void);

/* ---- Maps from post to pre: these parameters say the same wherever they stand.
 *
 * matrix (3, 3) maps (x, y, 1) of post to pre, with matrix[2, 2] = 1. knots (2, knot_rows,
 * knot_cols) are the control points of a displacement field, `spacing` px apart; a spacing of 0
 * means that there is no field, and knots is not looked at. Strips, if there are seams
 * (seam_count,), lie across `axis` (0 for x) of post, or of pre if of_pre is 1, and add
 * offsets (seam_count + 1, 2). `positions` is room for (2, columns of the window). */

/* unglow.transform.resample.warp_matrix: samples of `px`, the part of pre from (source_y0, source_x0) on, at
 * where the px of post from (window_y0, window_x0) on fall in pre; NaN outside pre. */
/* Shapes: px (source_rows, source_cols); matrix (3, 3); knots (2, knot_rows, knot_cols) if spacing else (0,); seams (seam_count,);
 * offsets (seam_count + 1, 2) if seam_count else (0,);
 * out (out_rows, out_cols); positions (2, out_cols). */
void catmull_rom(const float *px, int64_t source_rows, int64_t source_cols,
                 int64_t source_y0, int64_t source_x0, int64_t pre_rows, int64_t pre_cols,
                 const double *matrix, const double *knots, int64_t knot_rows,
                 int64_t knot_cols, int64_t spacing, const double *seams,
                 const double *offsets, int64_t seam_count, int64_t axis, int64_t of_pre,
                 int64_t window_y0, int64_t window_x0, float *out, int64_t out_rows,
                 int64_t out_cols, int64_t out_stride, double *positions);

/* ---- Registration. */

/* unglow.registration.phase_correlation.compress: square roots of values (count,) above `floor`, in place,
 * with the mean of the others for those that are missing (NaN); then what is above the mean by more
 * than `clip` standard deviations is bounded, some rounds. found (1,) is their standard deviation
 * after that; 0, and values are of no use, if more than `most_missing` are missing, or all. */
/* Shapes: values (count,); found (1,). */
void compress(float *values, int64_t count, float floor, double clip, int64_t rounds,
              int64_t most_missing, double *found);

/* unglow.registration.phase_correlation.block_shift of blocks (size, size), size a power of two from
 * 32 to 512: x and y of the shift, and the height of the peak over the highest value further than
 * `radius` px away, into found (3,). edge (size,) weighs px along either axis, band (size,
 * size / 2 + 1) waves, by their length alone; roots are exp(2 pi i k / n), n = size * upsampling.
 * upsampling is a power of two up to 8; room has size * (7 * size / 2 + 56) numbers. */
/* Shapes: post (size, size); pre (size, size); edge (size,); band (size, size // 2 + 1);
 * roots (size * upsampling,); room (size, 7 * size // 2 + 56); found (3,). */
void block_shift(const float *post, const float *pre, int64_t size, const float *edge,
                 const float *band, const complex64 *roots, int64_t upsampling, int64_t radius,
                 double sign, float *room, double *found);

/* Fit control points (rows, cols), at least 4 of each, to weighted targets, both (count, 2), at
 * points; points that are NaN count nothing. `numbers` are what third and second differences and
 * values count, and the tolerance. normal (7, 7, rows, cols), right (2, rows + 6, cols + 6) and
 * work (3, rows + 6, cols + 6) come in as zeros; solution (2, rows + 6, cols + 6) comes in as a
 * first guess with a margin of zeros. `most` bounds the steps. */
/* Shapes: points (count, 2); targets (count, 2); weights (count,); numbers (4,);
 * normal (7, 7, rows, cols); right (2, rows + 6, cols + 6); work (3, rows + 6, cols + 6);
 * solution (2, rows + 6, cols + 6). */
void fit_spline(const double *points, const double *targets, const double *weights,
                int64_t count, int64_t spacing, const double *numbers, int64_t most,
                double *normal, double *right, double *work, double *solution, int64_t rows,
                int64_t cols);

/* ---- Coarser levels. */

/* unglow.core.windows.halve_stored: means of 2 x 2 px of an image, at least (2 rows, 2 cols), of a `type`
 * that is not FLOAT64. Whole numbers are rounded half to even; NaN do not count, and the mean of
 * four is NaN. out (rows, cols) has the same type. */
/* Shapes: image (2 * rows, 2 * cols); out (rows, cols). */
void halve(const void *image, int64_t image_stride, int64_t type, void *out, int64_t rows,
           int64_t cols);

/* ---- Statistics. */

/* Add blocks of post (rows, cols), of `post_type`, and of pre to the counts of
 * unglow.photometry.joint_histogram. corner: row and column of the first px, side of a tile,
 * groups. binning: first edge, inverse width, least pre of a ratio, largest post. cells: look-up of
 * ratios. joint: [pre bin, post bin]; ratios (groups, edge_count + 1) has one bin more than edges. */
/* Shapes: post (rows, cols); pre (rows, cols); corner (4,); binning (4,); cells (3,);
 * edges (edge_count,); joint (bins, bins); post_only (bins,); ratios (groups, edge_count + 1);
 * counters (6,); extremes (2,). */
void count_pairs(const void *post, int64_t post_type, const float *pre, int64_t rows,
                 int64_t cols, const int64_t *corner, const double *binning,
                 const int32_t *cells, const float *edges, int64_t edge_count, int64_t *joint,
                 int64_t bins, int64_t *post_only, int64_t *ratios, int64_t groups,
                 int64_t *counters, double *extremes);

/* unglow.photometry.cell_moments: moments of cells of 4 x 4 px of post, of `post_type`, and of pre,
 * whose rows have `cols` px. The first cell begins at (row, col), the next ones are `step` px apart.
 * tops: largest value of post and of pre. out (7, down, across): usable px, means of post and of
 * pre, their variances and covariance, and mean squared gradient of pre. */
/* Shapes: post (row + (down - 1) * step + 4, cols) if down * across else (0,);
 * pre (row + (down - 1) * step + 4, cols) if down * across else (0,); tops (2,);
 * out (7, down, across). */
void cell_moments(const void *post, int64_t post_type, const float *pre, int64_t cols,
                  int64_t row, int64_t col, int64_t step, const double *tops, float *out,
                  int64_t down, int64_t across);

/* post - (gain * pre + offset), rounded to multiples of a `step`, a power of two; 0 for as it is. */
/* Shapes: post (rows, cols); pre (rows, cols); out (rows, cols). */
void subtract_line(const float *post, int64_t post_stride, const float *pre, int64_t pre_stride,
                   float gain, float offset, float step, float *out, int64_t rows, int64_t cols);

/* Add values to counts (bins,), 2 to 2^31, of bins of a width of `step`: the second one begins at
 * `start`, the first has what is below, the last what is beyond. NaN add to missing (1,). */
/* Shapes: values (count,); counts (bins,); missing (1,). */
void count_values(const float *values, int64_t count, double start, double step,
                  int64_t *counts, int64_t bins, int64_t *missing);

/* Medians of squares of `side` px of values (rows, cols), those at the end cut by it, without NaN;
 * NaN where less than half of a square is known. medians has one for each, [row, col]; a zero has
 * no sign. keys is room for (side, side). */
/* Shapes: values (rows, cols); keys (side, side); medians (-(-rows // side), -(-cols // side)). */
void square_medians(const float *values, int64_t rows, int64_t cols, int64_t side, int32_t *keys,
                    float *medians);

/* unglow.spoilt.block_scores: scores (blocks down, blocks across, 10) of blocks of 32 x 32 px, those at
 * the end cut by it, of post (rows, cols) and what is left of it; NaN without enough data, those of
 * structures also where post should be no brighter than glass. numbers (10,): constant part and
 * slope, by the expected level, of the variance of post, the same of pre in levels of post, the
 * least variance of either, the expected level from which on px are saturated, the lowest level of
 * post, that of post where there is no section, and the share of post in the mean of both images
 * that has least noise. */
/* Shapes: post (rows, cols); left (rows, cols); numbers (10,);
 * scores (-(-rows // 32), -(-cols // 32), 10). */
void block_scores(const float *post, int64_t post_stride, const float *left, int64_t left_stride,
                  int64_t rows, int64_t cols, const float *numbers, float *scores);

/* unglow.spoilt.seams: sums along the lines of a strip (rows, cols), of what is left of post over
 * its standard deviation, cut at 2. by_row (rows, segments of 256 px, 2) become the sum of each part
 * of a row and how many of its px have data; by_col (2, cols) grow by those of each column. numbers
 * are those of block_scores. */
/* Shapes: post (rows, cols); left (rows, cols); numbers (10,);
 * by_row (rows, -(-cols // 256), 2); by_col (2, cols). */
void line_sums(const float *post, int64_t post_stride, const float *left, int64_t left_stride,
               int64_t rows, int64_t cols, const float *numbers, float *by_row, float *by_col);

/* ---- The search for candidates. */

/* Correlate an image (rows + count - 1, cols + count - 1) with `count` taps along both axes; out
 * is (rows, cols), line is room for (cols + count - 1,). */
/* Shapes: image (rows + count - 1, cols + count - 1); taps (count,); line (cols + count - 1,);
 * out (rows, cols). */
void filtered(const float *image, int64_t image_stride, const float *taps, int64_t count,
              float *line, float *out, int64_t rows, int64_t cols);

/* Interpolate a lattice: row at_row and the share `down` of the next, columns also. Where only
 * one of two values is known (not NaN), it stands for both. line is room for (value_cols,). */
/* Shapes: values (value_rows, value_cols); at_row (rows,); down (rows,); at_col (cols,);
 * across (cols,); line (value_cols,); out (rows, cols). */
void interpolate(const float *values, int64_t value_rows, int64_t value_cols,
                 const int64_t *at_row, const float *down, int64_t rows, const int64_t *at_col,
                 const float *across, int64_t cols, float *line, float *out);

/* Say why px cannot be used, reasons (rows, cols): 1 where post or what is left of it is not
 * finite, 2 for what is saturated, 3 where the error of the map is too large, else 0. `left`, the
 * difference, loses its background and is NaN after that where there is a reason. limits (3,) are
 * the largest values of post and of pre, and the largest error; background and error have the
 * shape of reasons. Post that is saturated counts as measured where something is left of it. */
/* Shapes: post (rows, cols); pre (rows, cols); left (rows, cols); background (rows, cols);
 * error (rows, cols); limits (3,); reasons (rows, cols). */
void judge(const float *post, int64_t post_stride, const float *pre, int64_t pre_stride,
           float *left, int64_t left_stride, const float *background,
           int64_t background_stride, const float *error, int64_t error_stride,
           const float *limits, uint8_t *reasons, int64_t rows, int64_t cols);

/* Copy an image, with 0 where there is a reason. */
/* Shapes: image (rows, cols); reasons (rows, cols); out (rows, cols). */
void usable_px(const float *image, int64_t image_stride, const uint8_t *reasons,
               int64_t reasons_stride, float *out, int64_t rows, int64_t cols);

/* Share of a filter, as `filtered` has it, that lies on px without a reason: 1 less what it makes
 * of an image that is 1 where there is one and else 0; NaN where that is less than `least` (at most
 * 1). out (rows, cols) is smaller than reasons; line is room for (63 + count,), last for a number
 * for each 64 columns of reasons. */
/* Shapes: reasons (rows + count - 1, cols + count - 1); taps (count,); line (63 + count,);
 * last (-(-(cols + count - 1) // 64),); out (rows, cols). */
void usable_share(const uint8_t *reasons, int64_t reasons_stride, const float *taps,
                  int64_t count, float least, float *line, int64_t *last, float *out,
                  int64_t rows, int64_t cols);

/* unglow.detection.snr: the signal-to-noise ratio, and the share that noise has of the variance, of
 * the filtered difference, (rows, cols). Of post, pre and the difference (signal) as filtered, only
 * pre has been divided by weight, the usable share of the filter; both have 3 px more on each side.
 * squares is the usable share of its squares, error the estimated error of the map. tables
 * (blocks_down, blocks_across, phases, phases), [phase of y, phase of x], say what resampling leaves
 * of noise: blocks have `block` px and begin at multiples of it, the first one holds the window's
 * first px. numbers (7,): constant part and slope of the variance of post,
 * the same of pre, the least variance, what all noise is multiplied by, and what the filter leaves
 * of the variance of post. Where the ratio is certainly between -level and level, the larger ratio
 * is given that it would have with the least factor and without an error, and its share; a negative
 * level: nowhere. positions is room for (2, cols), line for (2, cols), last for a number for each
 * 64 of cols + 6. */
/* Shapes: signal (rows, cols); post (rows, cols); pre (rows + 6, cols + 6);
 * weight (rows + 6, cols + 6); squares (rows, cols); gain (rows, cols); error (rows, cols);
 * matrix (3, 3); knots (2, knot_rows, knot_cols) if spacing else (0,); seams (seam_count,);
 * offsets (seam_count + 1, 2) if seam_count else (0,);
 * tables (blocks_down, blocks_across, phases, phases); numbers (7,); positions (2, cols);
 * line (2, cols); last (-(-(cols + 6) // 64),); ratio (rows, cols); share (rows, cols). */
void significance(const float *signal, const float *post, const float *pre, const float *weight,
                  int64_t weight_stride, const float *squares, int64_t squares_stride,
                  const float *gain, int64_t gain_stride, const float *error,
                  int64_t error_stride, const double *matrix, const double *knots,
                  int64_t knot_rows, int64_t knot_cols, int64_t spacing, const double *seams,
                  const double *offsets, int64_t seam_count, int64_t axis, int64_t of_pre,
                  int64_t window_y0, int64_t window_x0, const float *tables,
                  int64_t blocks_down, int64_t blocks_across, int64_t phases, int64_t block,
                  const float *numbers, float level, double *positions, float *line,
                  int64_t *last, float *ratio, float *share, int64_t rows, int64_t cols);

/* A run is what a row has of neighbouring px above a level: row, first column, column after the
 * last. Count those of an image; NaN is above nothing. */
/* Shapes: image (rows, cols); count (1,). */
void count_runs(const float *image, int64_t rows, int64_t cols, float level, int64_t *count);

/* Find the `count` runs (count, 3), and number the components that they belong to, labels
 * (count,), in the order of their first px. Px touch across corners as well. */
/* Shapes: image (rows, cols); runs (count, 3); labels (count,). */
void connect_runs(const float *image, int64_t rows, int64_t cols, float level, int32_t *runs,
                  int32_t *labels, int64_t count);

/* Copy runs of an image with rows of `cols` px to places of another, `width` px wide, each moved
 * by its (rows, columns) of moves (count, 2). */
/* Shapes: image (cols,) if count else (0,); runs (count, 3); moves (count, 2); out (width,) if count else (0,). */
void copy_runs(const float *image, int64_t cols, const int32_t *runs, const int32_t *moves,
               int64_t count, float *out, int64_t width);

/* ---- The phantom. */

/* unglow.phantom.texture.add_noise at count points; gradients (2, 64) are x and y. */
/* Shapes: x (count,); y (count,); gradients (2, 64); out (count,). */
void add_noise(const double *x, const double *y, int64_t count, double spacing, uint64_t key,
               double amplitude, const double *gradients, double *out);

/* unglow.phantom.texture.domains at count points; out (4, count). */
/* Shapes: x (count,); y (count,); out (4, count). */
void domains(const double *x, const double *y, int64_t count, double spacing, double border,
             uint64_t key, double *out);

/* Distance inside a rounded rectangle, px: u^4 + v^4 + 0.9 u^2 v^2 = 1 on its border, where u and
 * v are distances from the centre in units of the half axes. */
/* Shapes: x (count,); y (count,); out (count,). */
void oval(const double *x, const double *y, int64_t count, double centre_x, double centre_y,
          double axis_x, double axis_y, double *out);

/* Combine the ingredients of the texture into levels: minerals and crystals (4, count) as from
 * `domains`, the others (count,) as from `add_noise`. */
/* Shapes: minerals (4, count); crystals (4, count); zones (count,); medium (count,); crack (count,);
 * fine (count,); out (count,). */
void mix_textures(const double *minerals, const double *crystals, const double *zones,
                  const double *medium, const double *crack, const double *fine,
                  int64_t count, double *out);

/* Add a Gaussian spot to px whose post coordinates are x and y, all (rows, cols); it ends where
 * `cutoff` standard deviations are reached. */
/* Shapes: x (rows, cols); y (rows, cols); out (rows, cols). */
void add_spot(const double *x, int64_t x_stride, const double *y, int64_t y_stride,
              double centre_x, double centre_y, double peak, double sigma, double sigma_long,
              double theta, double cutoff, double *out, int64_t out_stride, int64_t rows,
              int64_t cols);

/* What a camera counts for light (rows, cols), levels: photons and read-out noise that belong to
 * each px, from (y0, x0) on, and the key. `out` has px of `out_type`, at most `highest`. */
/* Shapes: light (rows, cols); out (rows, cols). */
void expose(const double *light, int64_t rows, int64_t cols, int64_t y0, int64_t x0,
            uint64_t key, double electrons, double read_noise, double offset, double scale,
            double highest, void *out, int64_t out_type);

/* Fill the first and the last of the three channels of out (rows, cols, 3), from (y0, x0) on, with
 * entries of a table of 65536, of the same type. */
/* Shapes: table (65536,); out (rows, cols, 3). */
void fill_dark(const void *table, int64_t rows, int64_t cols, int64_t y0, int64_t x0,
               uint64_t key, void *out, int64_t out_type);

#pragma GCC visibility pop
#endif
