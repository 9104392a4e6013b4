/* The signal-to-noise ratio of filtered px. */
#include <math.h>

#include "kernels.h"

/* Rounding may leave less of the squares, or nothing. */
#define LEAST_SQUARES 1e-6f

/* Variance of raw px at a level; NaN stays NaN. */
static inline float variance(float level, float shot, float read, float least)
{
    float found = level * shot + read;
    return found < least ? least : found;
}

/* Ratio and share of noise of a row; pre and weight are those of its px alone. */
static void ratio_row(const float *restrict signal, const float *restrict post,
                      const float *restrict pre, const float *restrict weight,
                      const float *restrict squares, const float *restrict gain,
                      const float *restrict factor, const float *restrict shifted,
                      const float *numbers, float *restrict ratio, float *restrict share,
                      int64_t cols)
{
    const float post_read = numbers[0], post_shot = numbers[1], pre_read = numbers[2];
    const float pre_shot = numbers[3], least = numbers[4], spread = numbers[5];
    const float of_filter = numbers[6];
    for (int64_t col = 0; col < cols; col++) {
        float seen = weight[col];
        float kept = squares[col] < LEAST_SQUARES ? LEAST_SQUARES : squares[col];
        float more = kept / (seen * seen);
        float squared = gain[col] * gain[col];
        float of_post = variance(post[col] / kept, post_shot, post_read, least);
        float of_pre = variance(pre[col], pre_shot, pre_read, least);
        float noise = of_filter * more * of_post;
        noise += squared * (factor[col] * more) * of_pre;
        noise *= spread;
        float all = noise + squared * shifted[col];
        ratio[col] = signal[col] / seen / sqrtf(all);
        share[col] = noise / all;
    }
}

void significance(const float *signal, const float *post, const float *pre, int64_t pre_stride,
                  const float *weight, int64_t weight_stride, const float *squares,
                  const float *gain, const float *factor, const float *shifted,
                  const float *numbers, float *ratio, float *share, int64_t rows, int64_t cols)
{
    for (int64_t row = 0; row < rows; row++) {
        const int64_t at = row * cols;
        ratio_row(signal + at, post + at, pre + row * pre_stride, weight + row * weight_stride,
                  squares + at, gain + at, factor + at, shifted + at, numbers, ratio + at,
                  share + at, cols);
    }
}
