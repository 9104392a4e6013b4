/* Counting values: a histogram of real numbers. */
#include <math.h>

#include "kernels.h"
#include "splines.h"

/* Of so many values the bins are found before they are counted: several at a time. */
#define BATCH 512

/* The bin of a place in widths of a bin from the second one on; that of NaN is the first. */
static inline int32_t bin_at(double place, double last)
{
    place = place > -1.0 ? place : -1.0;
    place = place < last ? place : last;
    int32_t bin = (int32_t)place; /* towards 0: one too many below it */
    return bin + 1 - (place < (double)bin);
}

void count_values(const float *values, int64_t count, double start, double step,
                  int64_t *counts, int64_t bins, int64_t *missing)
{
    const double last = (double)(bins - 2);
    int32_t found[BATCH];
    for (int64_t begin = 0; begin < count; begin += BATCH) {
        const float *some = values + begin;
        int64_t size = smaller(BATCH, count - begin);
        int32_t none = 0;
        for (int64_t k = 0; k < size; k++) {
            found[k] = bin_at(((double)some[k] - start) / step, last);
            none += isnan(some[k]) ? 1 : 0;
        }
        for (int64_t k = 0; k < size; k++) {
            counts[found[k]]++;
        }
        counts[0] -= none;
        *missing += none;
    }
}
