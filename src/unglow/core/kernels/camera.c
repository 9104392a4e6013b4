/* The phantom's camera: photons, read-out noise, rounding and clipping. */
#include <math.h>

#include "kernels.h"
#include "lattice.h"
#include "pixels.h"

static const double TWO_PI = 6.283185307179586, TWO_TO_32 = 4294967296.0;

/* Draw from a Poisson distribution.
 *
 * From a mean of 16 on, a normal variate goes through the Cornish-Fisher expansion of the
 * quantiles to third order, whose error is far below one count; below, fresh bits are inverted. */
static double poisson(double mean, double normal, uint64_t bits)
{
    if (mean >= 16.0) {
        double root = sqrt(mean), n2 = normal * normal;
        double value = mean + root * normal + (n2 - 1.0) / 6.0 +
                       normal * (1.0 - n2) / (72.0 * root);
        value = floor(value + 0.5);
        return value > 0.0 ? value : 0.0;
    }
    double uniform = ((double)(lattice_hash(0, 0, bits) >> 32) + 0.5) / TWO_TO_32;
    double term = exp(-mean), total = term, k = 0.0;
    while (uniform > total && k < 100.0) {
        k += 1.0;
        term *= mean / k;
        total += term;
    }
    return k;
}

void expose(const double *light, int64_t rows, int64_t cols, int64_t y0, int64_t x0,
            uint64_t key, double electrons, double read_noise, double offset, double scale,
            double highest, void *out, int64_t out_type)
{
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col++) {
            double level = light[row * cols + col];
            if (electrons > 0.0 || read_noise > 0.0) {
                uint64_t h = lattice_hash(x0 + col, y0 + row, key);
                double uniform = ((double)(h & 0xFFFFFFFF) + 0.5) / TWO_TO_32;
                double radius = sqrt(-2.0 * log(uniform));
                double angle = TWO_PI * (double)(h >> 32) / TWO_TO_32;
                if (electrons > 0.0 && level > 0.0) {
                    /* Box and Muller: the sine serves the photons, the cosine the read-out */
                    double normal = radius * sin(angle);
                    uint64_t bits = h ^ UINT64_C(0x9E3779B97F4A7C15);
                    level = poisson(level * electrons, normal, bits) / electrons;
                }
                level += read_noise * radius * cos(angle);
            }
            double value = floor((level + offset) * scale + 0.5);
            value = value > 0.0 ? value : 0.0; /* NaN as well */
            write_count(out, out_type, row * cols + col, value < highest ? value : highest);
        }
    }
}

/* Copy one px of a table into an image of the same type. */
static inline void copy_count(const void *table, int64_t from, void *out, int64_t to,
                              int64_t type)
{
    if (type == UINT8) {
        ((uint8_t *)out)[to] = ((const uint8_t *)table)[from];
    } else {
        ((uint16_t *)out)[to] = ((const uint16_t *)table)[from];
    }
}

void fill_dark(const void *table, int64_t rows, int64_t cols, int64_t y0, int64_t x0,
               uint64_t key, void *out, int64_t out_type)
{
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col++) {
            uint64_t h = lattice_hash(x0 + col, y0 + row, key);
            int64_t first = 3 * (row * cols + col);
            copy_count(table, (int64_t)(h & 0xFFFF), out, first, out_type);
            copy_count(table, (int64_t)((h >> 16) & 0xFFFF), out, first + 2, out_type);
        }
    }
}
