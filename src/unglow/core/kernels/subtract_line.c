/* The difference of two images. */
#include <math.h>

#include "kernels.h"

void subtract_line(const float *post, int64_t post_stride, const float *pre, int64_t pre_stride,
                   float gain, float offset, float step, float *out, int64_t rows, int64_t cols)
{
    const float per_step = step > 0.0f ? 1.0f / step : 0.0f;
    for (int64_t row = 0; row < rows; row++) {
        const float *restrict seen = post + row * post_stride;
        const float *restrict before = pre + row * pre_stride;
        float *restrict left = out + row * cols;
        if (step > 0.0f) {
            for (int64_t col = 0; col < cols; col++) {
                float scaled = before[col] * gain + offset;
                left[col] = rintf((seen[col] - scaled) * per_step) * step;
            }
            continue;
        }
        for (int64_t col = 0; col < cols; col++) {
            float scaled = before[col] * gain + offset;
            left[col] = seen[col] - scaled;
        }
    }
}
