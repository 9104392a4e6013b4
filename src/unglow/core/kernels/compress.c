/* What blocks are matched by: square roots above the background, without what is much brighter. */
#include <math.h>

#include "kernels.h"
#include "splines.h"

/* Sums go over so many terms side by side. */
#define LANES 8

typedef struct {
    double mean, deviation;
} moments;

/* Bound values, and take their moments about the first of them, so that equal ones do not vary. */
static moments bounded(float *values, int64_t count, float bound)
{
    double sums[LANES] = {0.0}, squares[LANES] = {0.0};
    double first = (double)(values[0] > bound ? bound : values[0]);
    for (int64_t begin = 0; begin < count; begin += LANES) {
        int64_t lanes = smaller(LANES, count - begin);
        for (int64_t k = 0; k < lanes; k++) {
            float value = values[begin + k] > bound ? bound : values[begin + k];
            double off = (double)value - first;
            values[begin + k] = value;
            sums[k] += off;
            squares[k] += off * off;
        }
    }
    double sum = 0.0, square = 0.0;
    for (int k = 0; k < LANES; k++) {
        sum += sums[k];
        square += squares[k];
    }
    sum /= (double)count;
    double variance = square / (double)count - sum * sum;
    moments found = {first + sum, variance > 0.0 ? sqrt(variance) : 0.0};
    return found;
}

/* Put the mean of the others in the place of NaN, of which there are some. */
static void fill(float *values, int64_t count, int64_t missing)
{
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) {
        sum += isnan(values[k]) ? 0.0 : (double)values[k];
    }
    float mean = (float)(sum / (double)(count - missing));
    for (int64_t k = 0; k < count; k++) {
        values[k] = isnan(values[k]) ? mean : values[k];
    }
}

void compress(float *values, int64_t count, float floor, double clip, int64_t rounds,
              int64_t most_missing, double *found)
{
    int64_t missing = 0;
    for (int64_t k = 0; k < count; k++) {
        float above = values[k] - floor;
        missing += isnan(above) ? 1 : 0;
        values[k] = sqrtf(above < 0.0f ? 0.0f : above);
    }
    found[0] = 0.0;
    if (missing > most_missing || missing == count) {
        return;
    }
    if (missing > 0) {
        fill(values, count, missing);
    }
    moments known = bounded(values, count, INFINITY);
    for (int64_t k = 0; k < rounds; k++) {
        known = bounded(values, count, (float)(known.mean + clip * known.deviation));
    }
    found[0] = known.deviation;
}
