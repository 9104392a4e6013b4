/* The shift between two blocks by phase correlation.
 *
 * Both blocks are the real and the imaginary part of one image, so that one transform gives both
 * spectra. Of their product, which belongs to a real image, half of the columns is kept. */
#include <math.h>
#include <string.h>

#include "fourier.h"
#include "kernels.h"
#include "splines.h"

/* Sums and maxima go over so many terms side by side. */
#define LANES 16
/* So many columns of the product are summed at a time. */
#define PIECE 64
/* Most samples to each side of a peak. */
#define MOST_SAMPLES 8

/* What a search works on. Rows of planes are `apart`, and those of the product `wide` numbers from
 * another: with powers of two, columns would share few lines of the cache. */
typedef struct {
    int64_t size, apart, half, wide, upsampling;
    const complex64 *roots; /* exp(2 pi i k / n), n = size * upsampling */
    float *re, *im;         /* (size, apart): spectra, then the correlation */
    float *cross_re, *cross_im, *magnitude; /* (size, wide), half of them used */
} search;

static float *highest_lane(float *lanes)
{
    float *best = lanes;
    for (int k = 1; k < LANES; k++) {
        best = lanes[k] > *best ? lanes + k : best;
    }
    return best;
}

/* Largest of `count` values, at least `least`. */
static float highest(const float *values, int64_t count, float least)
{
    float lanes[LANES];
    for (int k = 0; k < LANES; k++) {
        lanes[k] = least;
    }
    int64_t whole = count / LANES * LANES;
    for (int64_t begin = 0; begin < whole; begin += LANES) {
        for (int k = 0; k < LANES; k++) {
            float value = values[begin + k];
            lanes[k] = value > lanes[k] ? value : lanes[k];
        }
    }
    for (int64_t k = whole; k < count; k++) {
        lanes[0] = values[k] > lanes[0] ? values[k] : lanes[0];
    }
    return *highest_lane(lanes);
}

/* Sum of `count` values, one more than a multiple of LANES. */
static double add_up(const float *values, int64_t count)
{
    float sums[LANES] = {0.0f};
    double sum = (double)values[count - 1];
    for (int64_t begin = 0; begin + LANES <= count; begin += LANES) {
        for (int k = 0; k < LANES; k++) {
            sums[k] += values[begin + k];
        }
    }
    for (int k = 0; k < LANES; k++) {
        sum += (double)sums[k];
    }
    return sum;
}

/* Mean of a block, and the factor that gives it a standard deviation of 1. */
static void scale_block(const float *values, int64_t size, float *mean, float *factor)
{
    const float first = values[0];
    double sum = 0.0, square = 0.0, count = (double)(size * size);
    for (int64_t row = 0; row < size; row++) {
        const float *line = values + row * size;
        float sums[LANES] = {0.0f}, squares[LANES] = {0.0f};
        for (int64_t begin = 0; begin < size; begin += LANES) {
            for (int k = 0; k < LANES; k++) {
                float off = line[begin + k] - first;
                sums[k] += off;
                squares[k] += off * off;
            }
        }
        for (int k = 0; k < LANES; k++) {
            sum += (double)sums[k];
            square += (double)squares[k];
        }
    }
    double variance = square / count - (sum / count) * (sum / count);
    *mean = (float)((double)first + sum / count);
    *factor = variance > 0.0 ? (float)(1.0 / sqrt(variance)) : 0.0f;
}

/* Copy columns of two planes from (row 0, `first`) on into a strip. */
static void take_strip(const float *re, const float *im, int64_t apart, int64_t size, strip *out)
{
    for (int64_t row = 0; row < size; row++) {
        memcpy(out->re + row * STRIP, re + row * apart, STRIP * sizeof(float));
        memcpy(out->im + row * STRIP, im + row * apart, STRIP * sizeof(float));
    }
}

static void put_strip(const strip *given, int64_t size, float *re, float *im, int64_t apart)
{
    for (int64_t row = 0; row < size; row++) {
        memcpy(re + row * apart, given->re + row * STRIP, STRIP * sizeof(float));
        memcpy(im + row * apart, given->im + row * STRIP, STRIP * sizeof(float));
    }
}

/* Write the columns of a strip as rows, `apart` from another. */
static void put_turned(const float *given, int64_t size, float *out, int64_t apart)
{
    for (int64_t row = 0; row < size; row += STRIP) {
        for (int64_t col = 0; col < STRIP; col++) {
            for (int64_t k = 0; k < STRIP; k++) {
                out[col * apart + row + k] = given[(row + k) * STRIP + col];
            }
        }
    }
}

/* Spectrum [x frequency][y frequency] of post + i pre, both without their mean and tapered. */
static void transform_blocks(const search *s, const float *post, const float *pre,
                             const float *edge)
{
    const int64_t size = s->size;
    float means[2], factors[2];
    strip one, other;
    scale_block(post, size, means, factors);
    scale_block(pre, size, means + 1, factors + 1);
    for (int64_t x = 0; x < size; x += STRIP) {
        for (int64_t y = 0; y < size; y++) {
            const float *a = post + y * size + x, *b = pre + y * size + x;
            for (int64_t k = 0; k < STRIP; k++) {
                float weight = edge[y] * edge[x + k];
                one.re[y * STRIP + k] = (a[k] - means[0]) * factors[0] * weight;
                one.im[y * STRIP + k] = (b[k] - means[1]) * factors[1] * weight;
            }
        }
        strip *done = transform(&one, &other, size, s->roots, s->upsampling);
        put_turned(done->re, size, s->re + x * s->apart, s->apart);
        put_turned(done->im, size, s->im + x * s->apart, s->apart);
    }
    for (int64_t y = 0; y < size; y += STRIP) {
        take_strip(s->re + y, s->im + y, s->apart, size, &one);
        strip *done = transform(&one, &other, size, s->roots, s->upsampling);
        put_strip(done, size, s->re + y, s->im + y, s->apart);
    }
}

/* One number of the product of post's spectrum with the conjugate of pre's, from the spectrum of
 * both at a frequency and at its negative. */
static inline void multiply(float re, float im, float minus_re, float minus_im, float *out_re,
                            float *out_im)
{
    float post_re = re + minus_re, post_im = im - minus_im;
    float pre_re = im + minus_im, pre_im = minus_re - re;
    *out_re = post_re * pre_re + post_im * pre_im;
    *out_im = post_im * pre_re - post_re * pre_im;
}

/* Fill the product, and its magnitude; returns the mean of that. */
static float multiply_spectra(const search *s)
{
    double sum = 0.0;
    for (int64_t x = 0; x < s->size; x++) {
        int64_t minus = ((s->size - x) & (s->size - 1)) * s->apart;
        const float *re = s->re + x * s->apart, *im = s->im + x * s->apart;
        const float *end_re = s->re + minus + s->size, *end_im = s->im + minus + s->size;
        float *out_re = s->cross_re + x * s->wide, *out_im = s->cross_im + x * s->wide;
        float *magnitude = s->magnitude + x * s->wide;
        multiply(re[0], im[0], s->re[minus], s->im[minus], out_re, out_im);
        for (int64_t y = 1; y < s->half; y++) {
            multiply(re[y], im[y], end_re[-y], end_im[-y], out_re + y, out_im + y);
        }
        for (int64_t y = 0; y < s->half; y++) {
            magnitude[y] = sqrtf(out_re[y] * out_re[y] + out_im[y] * out_im[y]);
        }
        sum += add_up(magnitude, s->half);
    }
    return (float)(sum / (double)(s->size * s->half));
}

/* Leave the phases of the product, in the pass band, and the square roots of its magnitude. */
static void normalise(const search *s, const float *band, float sign)
{
    const float least = 1e-3f * multiply_spectra(s) + 1e-20f;
    for (int64_t x = 0; x < s->size; x++) {
        float *re = s->cross_re + x * s->wide, *im = s->cross_im + x * s->wide;
        float *magnitude = s->magnitude + x * s->wide;
        const float *passed = band + x * s->half;
        for (int64_t y = 0; y < s->half; y++) {
            float above = magnitude[y] + least;
            float factor = sign * passed[y] / above;
            re[y] *= factor;
            im[y] *= factor;
            magnitude[y] = sqrtf(above);
        }
    }
}

/* Transform the columns of the product; rows of the result, [y frequency][x], are real parts and
 * then imaginary ones. The first row and the one beyond the last are real: they share one. */
static void transform_back(const search *s)
{
    const int64_t size = s->size, halves = size / 2;
    strip one, other;
    for (int64_t y = 0; y < halves; y += STRIP) {
        /* of an inverse, real and imaginary parts are exchanged */
        take_strip(s->cross_im + y, s->cross_re + y, s->wide, size, &one);
        for (int64_t x = 0; y == 0 && x < size; x++) {
            one.im[x * STRIP] -= s->cross_im[x * s->wide + halves];
            one.re[x * STRIP] += s->cross_re[x * s->wide + halves];
        }
        strip *done = transform(&one, &other, size, s->roots, s->upsampling);
        put_turned(done->im, size, s->im + y * s->apart, s->apart);
        put_turned(done->re, size, s->im + (halves + y) * s->apart, s->apart);
    }
}

/* Fill the correlation (size, size), [y][x], into `re`. Two real columns are transformed as one,
 * as real and imaginary part. */
static void correlate(const search *s)
{
    const int64_t size = s->size, halves = size / 2;
    strip one, other;
    transform_back(s);
    for (int64_t x = 0; x < halves; x += STRIP) {
        for (int64_t y = 0; y < halves; y++) {
            const float *re = s->im + y * s->apart + x, *im = re + halves * s->apart;
            float *up_re = one.re + y * STRIP, *up_im = one.im + y * STRIP;
            float *down_re = one.re + (size - y) * STRIP, *down_im = one.im + (size - y) * STRIP;
            if (y == 0) {
                down_re = one.re + halves * STRIP;
                down_im = one.im + halves * STRIP;
            }
            for (int64_t k = 0; k < STRIP; k++) { /* parts are exchanged here, too */
                float a = re[k], b = im[k], c = re[halves + k], d = im[halves + k];
                up_im[k] = y == 0 ? a : a - d;
                up_re[k] = y == 0 ? c : b + c;
                down_im[k] = y == 0 ? b : a + d;
                down_re[k] = y == 0 ? d : c - b;
            }
        }
        strip *done = transform(&one, &other, size, s->roots, s->upsampling);
        put_strip(done, size, s->re + x + halves, s->re + x, s->apart);
    }
}

/* Whether a row or column is near the one of the peak, on a circle of `size`. */
static int is_near(int64_t at, int64_t peak, int64_t radius, int64_t size)
{
    int64_t away = at > peak ? at - peak : peak - at;
    return smaller(away, size - away) <= radius;
}

/* Find the highest value of the correlation, and its height over the highest one further than
 * `radius` px from it. */
static double find_peak(const search *s, int64_t radius, int64_t *peak_y, int64_t *peak_x)
{
    float peak = -INFINITY, other = -INFINITY;
    *peak_y = *peak_x = 0;
    for (int64_t y = 0; y < s->size; y++) {
        float top = highest(s->re + y * s->apart, s->size, peak);
        if (top > peak) {
            peak = top;
            *peak_y = y;
        }
    }
    const float *line = s->re + *peak_y * s->apart;
    for (int64_t x = s->size - 1; x >= 0; x--) {
        *peak_x = line[x] == peak ? x : *peak_x;
    }
    for (int64_t y = 0; y < s->size; y++) {
        float *values = s->re + y * s->apart;
        for (int64_t x = 0; is_near(y, *peak_y, radius, s->size) && x < s->size; x++) {
            values[x] = is_near(x, *peak_x, radius, s->size) ? other : values[x];
        }
        other = highest(values, s->size, other);
    }
    return (double)peak / (other > 1e-9f ? (double)other : 1e-9);
}

/* Sum some columns of the weighted product, as they are at samples to each side of column `peak`
 * of the correlation: sums are [sample][real and imaginary][PIECE]. */
static void sum_columns(const search *s, int64_t first, int64_t count, int64_t peak,
                        float sums[2 * MOST_SAMPLES + 1][2][PIECE])
{
    const int64_t around = s->upsampling, full = s->size * around;
    float along[MOST_SAMPLES + 1][2][PIECE] = {{{0.0f}}};
    float across[MOST_SAMPLES + 1][2][PIECE] = {{{0.0f}}};
    for (int64_t x = 0; x < s->size; x++) {
        int64_t wave = 2 * x < s->size ? x : x - s->size;
        complex64 at_peak = s->roots[(wave * peak * around) & (full - 1)];
        const float *re = s->cross_re + x * s->wide + first;
        const float *im = s->cross_im + x * s->wide + first;
        const float *weight = s->magnitude + x * s->wide + first;
        float turned_re[PIECE], turned_im[PIECE];
        for (int64_t k = 0; k < count; k++) {
            float a = re[k] * weight[k], b = im[k] * weight[k];
            turned_re[k] = at_peak.re * a - at_peak.im * b;
            turned_im[k] = at_peak.re * b + at_peak.im * a;
        }
        for (int64_t j = 0; j <= around; j++) {
            complex64 root = s->roots[(wave * j) & (full - 1)];
            for (int64_t k = 0; k < count; k++) {
                along[j][0][k] += root.re * turned_re[k];
                along[j][1][k] += root.re * turned_im[k];
                across[j][0][k] += root.im * turned_re[k];
                across[j][1][k] += root.im * turned_im[k];
            }
        }
    }
    for (int64_t j = 0; j <= around; j++) {
        for (int64_t k = 0; k < count; k++) {
            sums[around + j][0][k] = along[j][0][k] - across[j][1][k];
            sums[around + j][1][k] = along[j][1][k] + across[j][0][k];
            sums[around - j][0][k] = along[j][0][k] + across[j][1][k];
            sums[around - j][1][k] = along[j][1][k] - across[j][0][k];
        }
    }
}

/* Fill the correlation at samples around a peak, `out` is [y][x]. */
static void upsample(const search *s, int64_t peak_y, int64_t peak_x, double *out)
{
    const int64_t full = s->size * s->upsampling, samples = 2 * s->upsampling + 1;
    float sums[2 * MOST_SAMPLES + 1][2][PIECE];
    for (int64_t k = 0; k < samples * samples; k++) {
        out[k] = 0.0;
    }
    for (int64_t first = 0; first < s->half; first += PIECE) {
        int64_t count = smaller(PIECE, s->half - first);
        sum_columns(s, first, count, peak_x, sums);
        for (int64_t i = 0; i < samples; i++) {
            int64_t step = i - s->upsampling + peak_y * s->upsampling;
            for (int64_t k = 0; k < count; k++) {
                int64_t y = first + k;
                complex64 root = s->roots[(step * y) & (full - 1)];
                double twice = y == 0 || y == s->half - 1 ? 1.0 : 2.0;
                for (int64_t j = 0; j < samples; j++) {
                    float value = root.re * sums[j][0][k] - root.im * sums[j][1][k];
                    out[i * samples + j] += twice * (double)value;
                }
            }
        }
    }
}

/* Position of a parabola's top next to sample `at`, in samples. */
static double find_vertex(const double *values, int64_t apart, int64_t at, int64_t count)
{
    if (at < 1 || at >= count - 1) {
        return 0.0;
    }
    double before = values[(at - 1) * apart], after = values[(at + 1) * apart];
    double curvature = before - 2.0 * values[at * apart] + after;
    return curvature < 0.0 ? 0.5 * (before - after) / curvature : 0.0;
}

void block_shift(const float *post, const float *pre, int64_t size, const float *edge,
                 const float *band, const complex64 *roots, int64_t upsampling, int64_t radius,
                 double sign, float *room, double *found)
{
    const int64_t samples = 2 * upsampling + 1, wide = size / 2 + STRIP;
    const int64_t apart = size + 2 * STRIP, plane = size * apart, half_plane = size * wide;
    float *product = room + 2 * plane;
    const search s = {size, apart, size / 2 + 1, wide, upsampling, roots, room, room + plane,
                      product, product + half_plane, product + 2 * half_plane};
    double fine[(2 * MOST_SAMPLES + 1) * (2 * MOST_SAMPLES + 1)];
    int64_t y, x, best = 0;
    transform_blocks(&s, post, pre, edge);
    normalise(&s, band, (float)sign);
    correlate(&s);
    found[2] = find_peak(&s, radius, &y, &x);
    upsample(&s, y, x, fine);
    for (int64_t k = 1; k < samples * samples; k++) {
        best = fine[k] > fine[best] ? k : best;
    }
    int64_t i = best / samples, j = best % samples;
    double across = find_vertex(fine + i * samples, 1, j, samples);
    double down = find_vertex(fine + j, samples, i, samples);
    x -= x > size / 2 ? size : 0;
    y -= y > size / 2 ? size : 0;
    found[0] = (double)x + ((double)(j - upsampling) + across) / (double)upsampling;
    found[1] = (double)y + ((double)(i - upsampling) + down) / (double)upsampling;
}
