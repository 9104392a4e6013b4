/* The product that refines a peak of a phase correlation.
 *
 * Real and imaginary parts are taken apart, some columns at a time, so that the innermost loops run
 * over neighbouring numbers; each sum still goes over its terms in their order. */
#include "kernels.h"
#include "splines.h"

/* So many columns are taken apart at a time. */
#define PIECE 64

/* Some complex numbers, taken apart. */
typedef struct {
    float re[PIECE], im[PIECE];
} parts;

static void take_apart(const complex64 *numbers, int64_t count, parts *found)
{
    for (int64_t k = 0; k < count; k++) {
        found->re[k] = numbers[k].re;
        found->im[k] = numbers[k].im;
    }
}

/* Add up_y @ cross to sums, whose rows hold `half` real parts and then as many imaginary ones. */
static void add_first(const complex64 *up_y, const complex64 *cross, float *sums, int64_t rows,
                      int64_t size, int64_t half)
{
    for (int64_t j = 0; j < size; j++) {
        for (int64_t first = 0; first < half; first += PIECE) {
            int64_t count = smaller(PIECE, half - first);
            parts given;
            take_apart(cross + j * half + first, count, &given);
            for (int64_t i = 0; i < rows; i++) {
                complex64 factor = up_y[i * size + j];
                float *restrict re = sums + 2 * i * half + first, *restrict im = re + half;
                for (int64_t k = 0; k < count; k++) {
                    re[k] += factor.re * given.re[k] - factor.im * given.im[k];
                    im[k] += factor.re * given.im[k] + factor.im * given.re[k];
                }
            }
        }
    }
}

void narrow_product(const complex64 *up_y, const complex64 *cross, const complex64 *up_x,
                    complex64 *sums, float *out, int64_t rows, int64_t size, int64_t half,
                    int64_t cols)
{
    const float *first_sums = (const float *)sums;
    add_first(up_y, cross, (float *)sums, rows, size, half);
    for (int64_t k = 0; k < half; k++) {
        for (int64_t first = 0; first < cols; first += PIECE) {
            int64_t count = smaller(PIECE, cols - first);
            parts given;
            take_apart(up_x + k * cols + first, count, &given);
            for (int64_t i = 0; i < rows; i++) {
                float re = first_sums[2 * i * half + k], im = first_sums[(2 * i + 1) * half + k];
                float *restrict line = out + i * cols + first;
                for (int64_t m = 0; m < count; m++) {
                    line[m] += re * given.re[m] - im * given.im[m];
                }
            }
        }
    }
}
