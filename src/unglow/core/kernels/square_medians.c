/* Medians of squares: a search that counts how many values are at most this. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "splines.h"

/* The bits of infinity: those of NaN, without their sign, are more. */
#define LARGEST INT32_C(0x7F800000)

/* A search starts this part of the range above and below the median of the square before, and halves
 * what is left until it has taken so many steps. */
#define NEAR (1.0f / 128.0f)
#define HALVES 8

/* What is in a square: whole numbers in the order of the values (0 and -0 are one, NaN are beyond
 * all others), from `least` to `most` but for NaN. */
typedef struct {
    const int32_t *keys;
    int64_t count, known;
    int32_t least, most;
} square;

static inline int32_t key_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int32_t size = bits & INT32_MAX, negative = -(bits < 0);
    return (size ^ negative) - negative;
}

static inline float value_of(int64_t key)
{
    int32_t size = (int32_t)(key < 0 ? -key : key);
    float value;
    memcpy(&value, &size, sizeof value);
    return key < 0 ? -value : value;
}

/* Take the values of (height, width) px of rows that are `stride` px apart. */
static square gather(const float *values, int64_t stride, int64_t height, int64_t width,
                     int32_t *keys)
{
    int32_t least = INT32_MAX, most = -INT32_MAX;
    int64_t missing = 0;
    for (int64_t row = 0; row < height; row++) {
        const float *restrict line = values + row * stride;
        int32_t *restrict out = keys + row * width;
        int32_t nan = 0;
        for (int64_t k = 0; k < width; k++) {
            int32_t key = key_of(line[k]), size = key < 0 ? -key : key;
            int32_t known = -(size <= LARGEST);
            nan += 1 + known;
            out[k] = (key & known) | (INT32_MAX & ~known);
            least = out[k] < least ? out[k] : least;
            int32_t last = (key & known) | (-INT32_MAX & ~known);
            most = last > most ? last : most;
        }
        missing += nan;
    }
    square found = {keys, height * width, height * width - missing, least, most};
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

/* The least key above a bound. */
static int64_t next_above(square of, int64_t bound)
{
    const int32_t limit = (int32_t)bound;
    int32_t found = INT32_MAX;
    for (int64_t k = 0; k < of.count; k++) {
        int32_t key = of.keys[k], mask = -(key > limit);
        int32_t above = (key & mask) | (INT32_MAX & ~mask);
        found = above < found ? above : found;
    }
    return found;
}

/* The least key that more than `rank` are at most; it may be close to the value `near`. */
static int64_t ranked(square of, int64_t rank, float near)
{
    const float margin = (value_of(of.most) - value_of(of.least)) * NEAR;
    int64_t low = of.least, high = of.most;
    for (int64_t step = 0; low < high; step++) {
        int64_t middle = low + (high - low) / 2; /* most keys are near 0: halves of values first */
        int found = step >= HALVES && step % 2 == 0;
        if (found) {
            middle = next_above(of, low - 1);
        } else if (step < HALVES) {
            float half = (value_of(low) + value_of(high)) / 2.0f;
            middle = key_of(step == 0 ? near + margin : step == 1 ? near - margin : half);
        }
        middle = larger(low, smaller(middle, high - 1));
        if (at_most(of, middle) <= rank) {
            low = middle + 1;
        } else if (found) {
            return middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static float median(square of, float near)
{
    if (2 * of.known < of.count) {
        return NAN;
    }
    int64_t low = ranked(of, (of.known - 1) / 2, near), high = low;
    if (of.known % 2 == 0 && at_most(of, low) <= of.known / 2) {
        high = next_above(of, low);
    }
    return (value_of(low) + value_of(high)) / 2.0f;
}

void square_medians(const float *values, int64_t rows, int64_t cols, int64_t side, int32_t *keys,
                    float *medians)
{
    float near = 0.0f;
    for (int64_t top = 0; top < rows; top += side) {
        for (int64_t left = 0; left < cols; left += side) {
            int64_t height = smaller(side, rows - top), width = smaller(side, cols - left);
            square of = gather(values + top * cols + left, cols, height, width, keys);
            float found = median(of, near);
            near = isnan(found) ? near : found;
            *medians++ = found;
        }
    }
}
