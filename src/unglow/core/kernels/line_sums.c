/* Sums along rows and columns of what is left of a strip, in which straight seams stand out. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "splines.h"

/* px of a row that are summed: a power of two. */
enum { SEGMENT = 256 };
/* The difference is cut at this many standard deviations: stain counts little. */
#define FAR 2.0f

void line_sums(const float *post, int64_t post_stride, const float *left, int64_t left_stride,
               int64_t rows, int64_t cols, const float *numbers, float *by_row, float *by_col)
{
    const float read = numbers[0] + numbers[2], shot = numbers[1] + numbers[3];
    const float least = numbers[4] + numbers[5], top = numbers[6];
    float sums[SEGMENT], counts[SEGMENT];
    for (int64_t row = 0; row < rows; row++) {
        const float *seen = post + row * post_stride, *rest = left + row * left_stride;
        for (int64_t first = 0; first < cols; first += SEGMENT, by_row += 2) {
            int64_t width = smaller(SEGMENT, cols - first);
            float *restrict sum = by_col + first, *restrict count = sum + cols;
            memset(sums, 0, sizeof sums);
            memset(counts, 0, sizeof counts);
            for (int64_t k = 0; k < width; k++) {
                float level = seen[first + k] - rest[first + k];
                int32_t known = level < top; /* not where there is no data */
                float size = rest[first + k] / sqrtf(above(shot * level + read, least));
                size = size > FAR ? FAR : size < -FAR ? -FAR : size;
                sums[k] = known ? size : 0.0f;
                counts[k] = known ? 1.0f : 0.0f;
                sum[k] += sums[k];
                count[k] += counts[k];
            }
            /* halves are added to each other: the same order for every processor */
            for (int64_t half = SEGMENT / 2; half; half /= 2) {
                for (int64_t k = 0; k < half; k++) {
                    sums[k] += sums[k + half];
                    counts[k] += counts[k + half];
                }
            }
            by_row[0] = sums[0];
            by_row[1] = counts[0];
        }
    }
}
