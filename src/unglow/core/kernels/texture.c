/* Noise of the phantom as a pure function of position; unglow/phantom/texture.py says whose. */
#include <math.h>

#include "kernels.h"
#include "lattice.h"

#define GRADIENTS 64
#define NEIGHBOURS 9

static const double PI = 3.141592653589793;

/* Domain centres stay this far (of a lattice cell) around the middle of their cell, so that the
 * nearest centre is always one of the nine around a point. */
static const double JITTER = 0.56;

/* A lattice that is turned by the key, so that octaves share no axes. */
typedef struct {
    double c, s;
} turned;

static turned turn(uint64_t key, double spacing)
{
    double angle = (double)(key >> 40) * (PI / 16777216.0);
    turned found = {cos(angle) / spacing, sin(angle) / spacing};
    return found;
}

/* The slope that belongs to a lattice point. */
typedef struct {
    double x, y;
} slope;

static inline slope slope_at(int64_t i, int64_t j, uint64_t key, const double *gradients)
{
    uint64_t k = lattice_hash(i, j, key) & (GRADIENTS - 1);
    slope found = {gradients[k], gradients[GRADIENTS + k]};
    return found;
}

/* Rises from 0 to 1 with no slope and no curvature at both ends. */
static inline double fade(double t) { return t * t * t * (t * (t * 6.0 - 15.0) + 10.0); }

void add_noise(const double *x, const double *y, int64_t count, double spacing, uint64_t key,
               double amplitude, const double *gradients, double *out)
{
    const turned lattice = turn(key, spacing);
    int64_t i = 0, j = 0;
    slope a = {0.0, 0.0}, b = a, d = a, e = a;
    for (int64_t n = 0; n < count; n++) {
        double u = lattice.c * x[n] - lattice.s * y[n];
        double v = lattice.s * x[n] + lattice.c * y[n];
        double floor_u = floor(u), floor_v = floor(v);
        /* the cell of the previous point is kept, which makes coarse noise cheap */
        if (n == 0 || whole(floor_u) != i || whole(floor_v) != j) {
            i = whole(floor_u);
            j = whole(floor_v);
            a = slope_at(i, j, key, gradients);
            b = slope_at(i + 1, j, key, gradients);
            d = slope_at(i, j + 1, key, gradients);
            e = slope_at(i + 1, j + 1, key, gradients);
        }
        u -= floor_u;
        v -= floor_v;
        double fade_u = fade(u), fade_v = fade(v);
        double at_a = a.x * u + a.y * v;
        double at_b = b.x * (u - 1.0) + b.y * v;
        double at_d = d.x * u + d.y * (v - 1.0);
        double at_e = e.x * (u - 1.0) + e.y * (v - 1.0);
        double low = at_a + fade_u * (at_b - at_a);
        out[n] += amplitude * (low + fade_v * (at_d + fade_u * (at_e - at_d) - low));
    }
}

/* A domain: its centre in units of the lattice, and three random attributes in [0, 1). */
typedef struct {
    double x, y, attributes[3];
} domain;

/* 21 random bits as a part of 1. */
static inline double part21(uint64_t bits) { return (double)(bits & 0x1FFFFF) / 2097152.0; }

static domain domain_at(int64_t i, int64_t j, uint64_t key)
{
    uint64_t h = lattice_hash(i, j, key);
    uint64_t more = lattice_hash(i, j, key ^ UINT64_C(0xBF58476D1CE4E5B9));
    domain found = {
        (double)i + 0.5 + JITTER * (part21(h) - 0.5),
        (double)j + 0.5 + JITTER * (part21(h >> 21) - 0.5),
        {(double)(h >> 42) / 4194304.0, part21(more), part21(more >> 21)},
    };
    return found;
}

/* Attributes at a point (u, v) of the lattice, blended where domains meet within `reach`, and how
 * far it is at such a border, to out[0], out[count], ... */
static void blend(const domain *around, double u, double v, double reach, double *out,
                  int64_t count)
{
    double distance[NEIGHBOURS], nearest = 1e300;
    for (int k = 0; k < NEIGHBOURS; k++) {
        double du = u - around[k].x, dv = v - around[k].y;
        distance[k] = du * du + dv * dv;
        nearest = distance[k] < nearest ? distance[k] : nearest;
    }
    nearest = sqrt(nearest);
    double limit = (nearest + reach) * (nearest + reach);
    double total = 0.0, sums[3] = {0.0, 0.0, 0.0};
    for (int k = 0; k < NEIGHBOURS; k++) {
        if (distance[k] < limit) {
            double t = (sqrt(distance[k]) - nearest) / reach;
            double weight = 1.0 - t * t * (3.0 - 2.0 * t);
            total += weight;
            for (int n = 0; n < 3; n++) {
                sums[n] += weight * around[k].attributes[n];
            }
        }
    }
    for (int n = 0; n < 3; n++) {
        out[n * count] = sums[n] / total;
    }
    /* the nearest domain has weight 1, so its share is 1 / total */
    double border = 2.0 * (1.0 - 1.0 / total);
    out[3 * count] = border < 1.0 ? border : 1.0;
}

void domains(const double *x, const double *y, int64_t count, double spacing, double border,
             uint64_t key, double *out)
{
    const turned lattice = turn(key, spacing);
    const double reach = border / spacing;
    domain around[NEIGHBOURS];
    int64_t i = 0, j = 0;
    for (int64_t n = 0; n < count; n++) {
        double u = lattice.c * x[n] - lattice.s * y[n];
        double v = lattice.s * x[n] + lattice.c * y[n];
        int64_t u_cell = whole(floor(u)), v_cell = whole(floor(v));
        if (n == 0 || u_cell != i || v_cell != j) {
            i = u_cell;
            j = v_cell;
            for (int k = 0; k < NEIGHBOURS; k++) {
                around[k] = domain_at(i + k % 3 - 1, j + k / 3 - 1, key);
            }
        }
        blend(around, u, v, reach, out + n, count);
    }
}
