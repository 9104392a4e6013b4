/* Cubic B-splines on knots that are `spacing` px apart: cells and weights. */
#ifndef UNGLOW_SPLINES_H
#define UNGLOW_SPLINES_H

#include <stdint.h>

/* Weights of four neighbouring control points. */
typedef struct {
    double w[4];
} weights4;

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static inline float above(float value, float least) { return value < least ? least : value; }

/* First of the four control points of a px, of `count` (at least 4), and the px' fraction (0..1)
 * past the knot; beyond the ends the nearest cell. */
static inline int64_t cell(int64_t position, int64_t spacing, int64_t count, double *fraction)
{
    int64_t inside = smaller(larger(position, 0), spacing * (count - 3));
    int64_t first = smaller(inside / spacing, count - 4);
    *fraction = (double)(inside - first * spacing) / (double)spacing;
    return first;
}

/* Weights for a fraction t in [0, 1]. */
static inline weights4 spline(double t)
{
    double rest = 1.0 - t;
    weights4 found = {{
        rest * rest * rest / 6.0,
        ((3.0 * t - 6.0) * t * t + 4.0) / 6.0,
        ((3.0 * rest - 6.0) * rest * rest + 4.0) / 6.0,
        t * t * t / 6.0,
    }};
    return found;
}

#endif
