/* The phantom's spots: microbes and grains. */
#include <math.h>

#include "kernels.h"

void add_spot(const double *x, int64_t x_stride, const double *y, int64_t y_stride,
              double centre_x, double centre_y, double peak, double sigma, double sigma_long,
              double theta, double cutoff, double *out, int64_t out_stride, int64_t rows,
              int64_t cols)
{
    const double ux = cos(theta) / sigma_long, uy = sin(theta) / sigma_long;
    const double vx = -sin(theta) / sigma, vy = cos(theta) / sigma;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col++) {
            double dx = x[row * x_stride + col] - centre_x;
            double dy = y[row * y_stride + col] - centre_y;
            double along = ux * dx + uy * dy, across = vx * dx + vy * dy;
            double q = along * along + across * across;
            if (q < cutoff * cutoff) {
                out[row * out_stride + col] += peak * exp(-0.5 * q);
            }
        }
    }
}
