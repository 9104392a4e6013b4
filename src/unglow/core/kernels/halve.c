/* Means of 2 x 2 px: the next coarser level of a pyramid. */
#include <math.h>

#include "kernels.h"

/* The mean of four whole numbers by their sum, which is rounded half to even. */
static inline int32_t quarter(int32_t sum)
{
    int32_t mean = sum >> 2, rest = sum & 3;
    return mean + ((rest == 3) | ((rest == 2) & mean));
}

#define HALVE_WHOLE(name, type)                                                                   \
    static void name(const type *restrict upper, const type *restrict lower, type *restrict out,  \
                     int64_t cols)                                                                \
    {                                                                                             \
        for (int64_t k = 0; k < cols; k++) {                                                      \
            int32_t sum = upper[2 * k] + upper[2 * k + 1] + lower[2 * k] + lower[2 * k + 1];      \
            out[k] = (type)quarter(sum);                                                          \
        }                                                                                         \
    }

HALVE_WHOLE(halve_uint8, uint8_t)
HALVE_WHOLE(halve_uint16, uint16_t)
HALVE_WHOLE(halve_int16, int16_t)

static inline float known(float value) { return isnan(value) ? 0.0f : value; }

/* Means of those of four px that are known. Sums have the order that they have without NaN. */
static void halve_some(const float *restrict upper, const float *restrict lower,
                       float *restrict out, int64_t cols)
{
    for (int64_t k = 0; k < cols; k++) {
        float a = upper[2 * k], b = upper[2 * k + 1], c = lower[2 * k], d = lower[2 * k + 1];
        int32_t count = !isnan(a) + !isnan(b) + !isnan(c) + !isnan(d);
        out[k] = ((known(a) + known(b)) + (known(c) + known(d))) / (float)count;
    }
}

static void halve_real(const float *restrict upper, const float *restrict lower,
                       float *restrict out, int64_t cols)
{
    int32_t missing = 0;
    for (int64_t k = 0; k < cols; k++) {
        float sum = (upper[2 * k] + upper[2 * k + 1]) + (lower[2 * k] + lower[2 * k + 1]);
        missing |= isnan(sum) ? 1 : 0;
        out[k] = sum * 0.25f;
    }
    if (missing) {
        halve_some(upper, lower, out, cols);
    }
}

void halve(const void *image, int64_t image_stride, int64_t type, void *out, int64_t rows,
           int64_t cols)
{
    for (int64_t row = 0; row < rows; row++) {
        const int64_t upper = 2 * row * image_stride, lower = upper + image_stride;
        switch (type) {
        case UINT8:
            halve_uint8((const uint8_t *)image + upper, (const uint8_t *)image + lower,
                        (uint8_t *)out + row * cols, cols);
            break;
        case UINT16:
            halve_uint16((const uint16_t *)image + upper, (const uint16_t *)image + lower,
                         (uint16_t *)out + row * cols, cols);
            break;
        case INT16:
            halve_int16((const int16_t *)image + upper, (const int16_t *)image + lower,
                        (int16_t *)out + row * cols, cols);
            break;
        default:
            halve_real((const float *)image + upper, (const float *)image + lower,
                       (float *)out + row * cols, cols);
        }
    }
}
