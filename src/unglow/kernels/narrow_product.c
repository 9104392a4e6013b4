/* The product that refines a peak of a phase correlation. */
#include "kernels.h"

void narrow_product(const complex64 *up_y, const complex64 *cross, const complex64 *up_x,
                    complex64 *sums, float *out, int64_t rows, int64_t size, int64_t half,
                    int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        complex64 *restrict sum = sums + i * half;
        float *restrict line = out + i * cols;
        for (int64_t j = 0; j < size; j++) {
            complex64 factor = up_y[i * size + j];
            const complex64 *restrict given = cross + j * half;
            for (int64_t k = 0; k < half; k++) {
                sum[k].re += factor.re * given[k].re - factor.im * given[k].im;
                sum[k].im += factor.re * given[k].im + factor.im * given[k].re;
            }
        }
        for (int64_t k = 0; k < half; k++) {
            complex64 factor = sum[k];
            const complex64 *restrict given = up_x + k * cols;
            for (int64_t m = 0; m < cols; m++) {
                line[m] += factor.re * given[m].re - factor.im * given[m].im;
            }
        }
    }
}
