/* Moments of small cells of px that both images show; sums go from the first px to the last. */
#include <math.h>

#include "kernels.h"
#include "pixels.h"

/* px along a side of a cell, and in it. */
#define SIDE 4
#define PX (SIDE * SIDE)
/* What is found of a cell. */
#define MOMENTS 7

/* Mean of the squared central differences between px that lie `apart`, of those that are known;
 * `down` and `across` of them are in a cell. */
static double mean_square(const double *px, int down, int across, int apart)
{
    double sum = 0.0, known = 0.0;
    for (int i = 0; i < down; i++) {
        for (int j = 0; j < across; j++) {
            const double *at = px + i * SIDE + j;
            double half = (at[apart] - *at) / 2.0;
            double square = half * half;
            int is_known = !isnan(square);
            sum += is_known ? square : 0.0;
            known += is_known ? 1.0 : 0.0;
        }
    }
    return sum / known;
}

/* Fill in what is found of a cell, each number `apart` from the one before. */
static void one_cell(const double *post, const double *pre, const double *tops, float *out,
                     int64_t apart)
{
    int usable[PX];
    double count = 0.0, post_mean = 0.0, pre_mean = 0.0;
    for (int k = 0; k < PX; k++) {
        usable[k] = post[k] < tops[0] && pre[k] < tops[1]; /* not if one is NaN */
        count += usable[k] ? 1.0 : 0.0;
        post_mean += usable[k] ? post[k] : 0.0;
        pre_mean += usable[k] ? pre[k] : 0.0;
    }
    post_mean /= count;
    pre_mean /= count;
    double post_square = 0.0, pre_square = 0.0, product = 0.0;
    for (int k = 0; k < PX; k++) {
        double a = usable[k] ? post[k] - post_mean : 0.0;
        double b = usable[k] ? pre[k] - pre_mean : 0.0;
        post_square += a * a;
        pre_square += b * b;
        product += a * b;
    }
    double gradient = mean_square(pre, SIDE - 2, SIDE, 2 * SIDE);
    gradient += mean_square(pre, SIDE, SIDE - 2, 2);
    const double found[MOMENTS] = {count,
                                   post_mean,
                                   pre_mean,
                                   post_square / count,
                                   pre_square / count,
                                   product / count,
                                   gradient};
    for (int k = 0; k < MOMENTS; k++) {
        out[k * apart] = (float)found[k];
    }
}

void cell_moments(const void *post, int64_t post_type, const float *pre, int64_t cols,
                  int64_t row, int64_t col, int64_t step, const double *tops, float *out,
                  int64_t down, int64_t across)
{
    for (int64_t i = 0; i < down; i++) {
        for (int64_t j = 0; j < across; j++) {
            double of_post[PX], of_pre[PX];
            for (int line = 0; line < SIDE; line++) {
                int64_t first = (row + i * step + line) * cols + col + j * step;
                read_pixels(post, post_type, first, SIDE, of_post + line * SIDE);
                read_pixels(pre, FLOAT32, first, SIDE, of_pre + line * SIDE);
            }
            one_cell(of_post, of_pre, tops, out + i * across + j, down * across);
        }
    }
}
