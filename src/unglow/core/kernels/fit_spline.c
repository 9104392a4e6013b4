/* Fits of cubic B-splines to scattered points: normal equations, and conjugate gradients. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "splines.h"

/* Margin of zeros around arrays of control points, so that neighbours need no bounds. */
#define MARGIN 3

/* Normal equations of (rows, cols) control points: [7, 7, rows, cols], the products of each with
 * those up to 3 away along each axis. */
typedef struct {
    double *products;
    int64_t rows, cols;
} equations;

/* The products of all control points with their neighbour at (down - 3, across - 3). */
static inline double *diagonal(const equations *of, int64_t down, int64_t across)
{
    return of->products + (down * 7 + across) * of->rows * of->cols;
}

/* Add to the product of a control point with another one. */
static inline void tie(const equations *normal, int64_t row, int64_t col, int64_t other_row,
                       int64_t other_col, double add)
{
    double *all = diagonal(normal, other_row - row + 3, other_col - col + 3);
    all[row * normal->cols + col] += add;
}

/* Add the sum of squares of a difference: the first `rows` of down times `cols` of across. */
static void square(const equations *normal, weights4 down, int64_t rows, weights4 across,
                   int64_t cols, double factor)
{
    for (int64_t row = 0; row < normal->rows - rows + 1; row++) {
        for (int64_t col = 0; col < normal->cols - cols + 1; col++) {
            for (int64_t a = 0; a < rows * cols; a++) {
                int64_t i = a / cols, k = a % cols;
                double here = factor * down.w[i] * across.w[k];
                for (int64_t b = 0; b < rows * cols; b++) {
                    int64_t m = b / cols, n = b % cols;
                    tie(normal, row + i, col + k, row + m, col + n,
                        here * down.w[m] * across.w[n]);
                }
            }
        }
    }
}

/* Squares of third and of second differences, and a weak pull towards zero. */
static void penalise(const equations *normal, double stiffness, double bending, double ridge)
{
    const weights4 here = {{1.0, 0.0, 0.0, 0.0}}, first = {{1.0, -1.0, 0.0, 0.0}};
    const weights4 second = {{1.0, -2.0, 1.0, 0.0}}, third = {{1.0, -3.0, 3.0, -1.0}};
    square(normal, here, 1, here, 1, ridge);
    square(normal, here, 1, second, 3, bending);
    square(normal, first, 2, first, 2, 2.0 * bending);
    square(normal, second, 3, here, 1, bending);
    square(normal, here, 1, third, 4, stiffness);
    square(normal, first, 2, second, 3, 3.0 * stiffness);
    square(normal, second, 3, first, 2, 3.0 * stiffness);
    square(normal, third, 4, here, 1, stiffness);
}

/* Cell of a position that is no NaN, clipped to the knots, and the weights there. */
static int64_t cell_weights(double position, int64_t spacing, int64_t count, weights4 *weights)
{
    double last = (double)(spacing * (count - 3));
    double at = position < 0.0 ? 0.0 : position > last ? last : position;
    int64_t first = smaller((int64_t)at / spacing, count - 4);
    *weights = spline((at - (double)(first * spacing)) / (double)spacing);
    return first;
}

/* Add the weighted points to the normal equations; right (2, rows + 6, cols + 6) has a margin. */
static void gather(const double *points, const double *targets, const double *weights,
                   int64_t count, int64_t spacing, const equations *normal, double *right)
{
    int64_t wide = normal->cols + 2 * MARGIN;
    double *right_y = right + (normal->rows + 2 * MARGIN) * wide;
    for (int64_t n = 0; n < count; n++) {
        double weight = weights[n], x = points[2 * n], y = points[2 * n + 1];
        if (weight == 0.0 || isnan(x) || isnan(y)) {
            continue;
        }
        weights4 wx, wy;
        int64_t col = cell_weights(x, spacing, normal->cols, &wx);
        int64_t row = cell_weights(y, spacing, normal->rows, &wy);
        for (int64_t a = 0; a < 16; a++) {
            int64_t i = row + a / 4, k = col + a % 4;
            double share = weight * wy.w[a / 4] * wx.w[a % 4];
            int64_t at = (i + MARGIN) * wide + k + MARGIN;
            right[at] += share * targets[2 * n];
            right_y[at] += share * targets[2 * n + 1];
            for (int64_t b = 0; b < 16; b++) {
                tie(normal, i, k, row + b / 4, col + b % 4, share * wy.w[b / 4] * wx.w[b % 4]);
            }
        }
    }
}

/* Product of the normal matrix with values that have a margin; returns values times product.
 *
 * The innermost loop runs along a row, so that it is done for several control points at once. */
static double times(const equations *normal, const double *values, double *out)
{
    double total = 0.0;
    int64_t cols = normal->cols, wide = cols + 2 * MARGIN;
    for (int64_t row = 0; row < normal->rows; row++) {
        double *restrict product = out + (row + MARGIN) * wide + MARGIN;
        memset(product, 0, (size_t)cols * sizeof *product);
        for (int64_t i = 0; i < 7; i++) {
            const double *restrict given = values + (row + i) * wide;
            const double *restrict n0 = diagonal(normal, i, 0) + row * cols;
            const double *restrict n1 = diagonal(normal, i, 1) + row * cols;
            const double *restrict n2 = diagonal(normal, i, 2) + row * cols;
            const double *restrict n3 = diagonal(normal, i, 3) + row * cols;
            const double *restrict n4 = diagonal(normal, i, 4) + row * cols;
            const double *restrict n5 = diagonal(normal, i, 5) + row * cols;
            const double *restrict n6 = diagonal(normal, i, 6) + row * cols;
            for (int64_t col = 0; col < cols; col++) {
                double here = product[col];
                here += n0[col] * given[col];
                here += n1[col] * given[col + 1];
                here += n2[col] * given[col + 2];
                here += n3[col] * given[col + 3];
                here += n4[col] * given[col + 4];
                here += n5[col] * given[col + 5];
                here += n6[col] * given[col + 6];
                product[col] = here;
            }
        }
        const double *with = values + (row + MARGIN) * wide + MARGIN;
        for (int64_t col = 0; col < cols; col++) {
            total += product[col] * with[col];
        }
    }
    return total;
}

/* Conjugate gradients with the diagonal as preconditioner, from `solution` on. */
static void solve(const equations *normal, const double *right, double *solution, double *work,
                  int64_t most, double tolerance)
{
    int64_t rows = normal->rows, cols = normal->cols, wide = cols + 2 * MARGIN;
    int64_t size = (rows + 2 * MARGIN) * wide;
    double *towards = work, *product = work + size, *error = work + 2 * size;
    const double *own = diagonal(normal, 3, 3); /* products of control points with themselves */
    double before = 0.0, least = 0.0;
    times(normal, solution, product);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col++) {
            int64_t at = (row + MARGIN) * wide + col + MARGIN;
            double scale = own[row * cols + col];
            error[at] = right[at] - product[at];
            towards[at] = error[at] / scale;
            before += error[at] * towards[at];
            least += right[at] * right[at] / scale;
        }
    }
    least *= tolerance * tolerance;
    for (int64_t n = 0; n < most; n++) {
        if (before <= least) {
            return;
        }
        double step = before / times(normal, towards, product);
        double after = 0.0;
        for (int64_t row = 0; row < rows; row++) {
            for (int64_t col = 0; col < cols; col++) {
                int64_t at = (row + MARGIN) * wide + col + MARGIN;
                solution[at] += step * towards[at];
                error[at] -= step * product[at];
                after += error[at] * error[at] / own[row * cols + col];
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            for (int64_t col = 0; col < cols; col++) {
                int64_t at = (row + MARGIN) * wide + col + MARGIN;
                towards[at] = error[at] / own[row * cols + col] + after / before * towards[at];
            }
        }
        before = after;
    }
}

void fit_spline(const double *points, const double *targets, const double *weights,
                int64_t count, int64_t spacing, const double *numbers, int64_t most,
                double *normal, double *right, double *work, double *solution, int64_t rows,
                int64_t cols)
{
    const equations sums = {normal, rows, cols};
    int64_t size = (rows + 2 * MARGIN) * (cols + 2 * MARGIN);
    penalise(&sums, numbers[0], numbers[1], numbers[2]);
    gather(points, targets, weights, count, spacing, &sums, right);
    for (int64_t axis = 0; axis < 2; axis++) {
        solve(&sums, right + axis * size, solution + axis * size, work, most, numbers[3]);
    }
}
