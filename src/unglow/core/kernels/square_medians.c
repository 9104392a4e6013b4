/* Medians of squares: bisection, which counts how many values are at most this. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "splines.h"

/* The bits of infinity: those of NaN, without their sign, are more. */
#define LARGEST INT32_C(0x7F800000)

/* What is in a square: whole numbers in the order of the values (0 and -0 are one, NaN are beyond
 * all others), all multiples of `unit`, but for NaN. */
typedef struct {
    const int32_t *keys;
    int64_t count, known;
    int32_t unit;
} square;

/* Take the values of (height, width) px of rows that are `stride` px apart. */
static square gather(const float *values, int64_t stride, int64_t height, int64_t width,
                     int32_t *keys)
{
    int32_t used = 0;
    int64_t missing = 0;
    for (int64_t row = 0; row < height; row++) {
        const float *restrict line = values + row * stride;
        int32_t *restrict out = keys + row * width;
        int32_t nan = 0;
        for (int64_t k = 0; k < width; k++) {
            int32_t bits;
            memcpy(&bits, line + k, sizeof bits);
            int32_t size = bits & INT32_MAX;
            int32_t known = -(size <= LARGEST), negative = -(bits < 0);
            nan += 1 + known;
            used |= size & known;
            out[k] = (((size ^ negative) - negative) & known) | (INT32_MAX & ~known);
        }
        missing += nan;
    }
    /* Rounded values have zeros in their last bits: so much less to find. */
    square found = {keys, height * width, height * width - missing, used & -used};
    if (found.unit == 0) {
        found.unit = 1;
    }
    return found;
}

static int64_t at_most(square of, int64_t bound)
{
    const int32_t limit = (int32_t)bound;
    int64_t found = 0;
    for (int64_t begin = 0; begin < of.count; begin += 1 << 16) {
        int64_t end = smaller(begin + (1 << 16), of.count);
        int32_t some = 0;
        for (int64_t k = begin; k < end; k++) {
            some += of.keys[k] <= limit;
        }
        found += some;
    }
    return found;
}

/* The least key that more than `rank` are at most. */
static int64_t ranked(square of, int64_t rank)
{
    int64_t high = LARGEST / of.unit, low = -high;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (at_most(of, middle * of.unit) > rank) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low * of.unit;
}

static int64_t next_above(square of, int64_t bound)
{
    const int32_t limit = (int32_t)bound;
    int32_t found = INT32_MAX;
    for (int64_t k = 0; k < of.count; k++) {
        int32_t key = of.keys[k], above = key > limit ? key : INT32_MAX;
        found = above < found ? above : found;
    }
    return found;
}

static float value_of(int64_t key)
{
    int32_t size = (int32_t)(key < 0 ? -key : key);
    float value;
    memcpy(&value, &size, sizeof value);
    return key < 0 ? -value : value;
}

static float median(square of)
{
    if (2 * of.known < of.count) {
        return NAN;
    }
    int64_t low = ranked(of, (of.known - 1) / 2), high = low;
    if (of.known % 2 == 0 && at_most(of, low) <= of.known / 2) {
        high = next_above(of, low);
    }
    return (value_of(low) + value_of(high)) / 2.0f;
}

void square_medians(const float *values, int64_t rows, int64_t cols, int64_t side, int32_t *keys,
                    float *medians)
{
    for (int64_t top = 0; top < rows; top += side) {
        for (int64_t left = 0; left < cols; left += side) {
            int64_t height = smaller(side, rows - top), width = smaller(side, cols - left);
            *medians++ = median(gather(values + top * cols + left, cols, height, width, keys));
        }
    }
}
