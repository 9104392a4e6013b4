/* Counting values: a histogram of real numbers. */
#include <math.h>

#include "kernels.h"

void count_values(const float *values, int64_t count, double start, double step,
                  int64_t *counts, int64_t bins, int64_t *missing)
{
    const double last = (double)(bins - 2);
    int64_t none = 0;
    for (int64_t k = 0; k < count; k++) {
        if (isnan(values[k])) {
            none++;
            continue;
        }
        double place = ((double)values[k] - start) / step;
        place = place > -1.0 ? place : -1.0;
        place = place < last ? place : last;
        int64_t bin = (int64_t)place; /* towards 0: one too many below it */
        bin -= place < (double)bin;
        counts[bin + 1]++;
    }
    *missing += none;
}
