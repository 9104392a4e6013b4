/* What an error of the map may make of the filtered pre: how much it changes within the error. */
#include <math.h>

#include "kernels.h"
#include "terms.h"

/* Of two numbers, where a NaN never takes the place of the first. */
static inline float least(float a, float b) { return b < a ? b : a; }

static inline float most(float a, float b) { return b > a ? b : a; }

/* Largest squared difference of a px to those at a distance of 2 or 3; NaN if one has none. */
static float far_change(const float *px, int64_t wide, int64_t distance)
{
    float largest = 0.0f;
    for (int step = 0; step < 4; step++) {
        /* along the axes, and along the diagonals the whole px that are not further away */
        int64_t sign_y = 1 - 2 * (step / 2), sign_x = 1 - 2 * (step % 2);
        int64_t straight = distance * sign_y * (sign_x > 0 ? wide : 1);
        int64_t oblique = (distance - 1) * (sign_y * wide + sign_x);
        const float off[2] = {px[straight] - *px, px[oblique] - *px};
        for (int k = 0; k < 2; k++) {
            float square = off[k] * off[k];
            if (isnan(square)) {
                return square;
            }
            largest = most(largest, square);
        }
    }
    return largest;
}

/* Half the square of the change within an error above 1 px, given that of 1 px. */
static float long_shift(const float *px, int64_t wide, float error, float short_shift)
{
    /* with an error of 1 or more, half the larger of slope and step */
    float before = 2.0f * short_shift, total = before;
    for (int64_t distance = 2; distance <= SPAN; distance++) {
        float part = least(error - (float)(distance - 1), 1.0f);
        if (part <= 0.0f) {
            break;
        }
        float largest = far_change(px, wide, distance);
        largest = largest <= before ? before : largest; /* NaN stays NaN */
        total += part * (largest - before);
        before = largest;
    }
    return 0.5f * total;
}

/* Half the square of the change of a px within an error of at most 1 px. */
static inline float short_shift(float left, float right, float up, float down, float centre,
                                float error)
{
    float across = right - left, along = down - up;
    float slope = (across * across + along * along) * 0.25f;
    float a = left - centre, b = right - centre, c = up - centre, d = down - centre;
    float largest = most(most(a * a, b * b), most(c * c, d * d));
    float within = error > 1.0f ? 1.0f : error; /* NaN stays NaN */
    within *= within;
    float more = most(largest - slope, 0.0f);
    /* what is missing spreads, whatever a maximum makes of it */
    float missing = (across + along + centre) * 0.0f;
    return 0.5f * (within * slope + within * within * more) + missing;
}

void shift_row(const float *image, int64_t stride, const float *error, float *out, int64_t cols)
{
    const float *restrict here = image + SPAN * stride + SPAN;
    const float *restrict above = here - stride, *restrict below = here + stride;
    int is_far = 0;
    for (int64_t col = 0; col < cols; col++) {
        out[col] = short_shift(here[col - 1], here[col + 1], above[col], below[col], here[col],
                               error[col]);
        is_far |= error[col] > 1.0f;
    }
    if (!is_far) {
        return;
    }
    for (int64_t col = 0; col < cols; col++) {
        if (error[col] > 1.0f && !isnan(out[col])) {
            out[col] = long_shift(here + col, stride, error[col], out[col]);
        }
    }
}
