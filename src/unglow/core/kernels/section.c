/* The phantom's section: its outline, and what its material is mixed from. */
#include <math.h>

#include "kernels.h"

void oval(const double *x, const double *y, int64_t count, double centre_x, double centre_y,
          double axis_x, double axis_y, double *out)
{
    double size = axis_y < axis_x ? axis_y : axis_x;
    for (int64_t n = 0; n < count; n++) {
        double u = (x[n] - centre_x) / axis_x, v = (y[n] - centre_y) / axis_y;
        u *= u;
        v *= v;
        out[n] = size * (1.0 - sqrt(sqrt(u * u + v * v + 0.9 * u * v)));
    }
}

static inline double at_most_one(double value) { return value < 1.0 ? value : 1.0; }

/* Rises smoothly from 0 at `low` to 1 at `high`. */
static inline double rise(double low, double high, double value)
{
    double t = (value - low) / (high - low);
    t = at_most_one(t > 0.0 ? t : 0.0);
    return t * t * (3.0 - 2.0 * t);
}

void mix_textures(const double *minerals, const double *crystals, const double *zones,
                  const double *medium, const double *crack, const double *fine,
                  int64_t count, double *out)
{
    for (int64_t n = 0; n < count; n++) {
        /* most minerals are dim, a few bright; some are smooth, some grainy, some crystalline */
        double tone = minerals[n], rough = minerals[count + n];
        double level = 24.0 + 20.0 * tone + 56.0 * tone * tone * tone;
        double grit = 0.03 + (0.34 - 0.2 * tone * tone) * rough * rough;
        double facet = 0.75 * rise(0.35, 0.95, minerals[2 * count + n]);
        double grain = 1.0 + grit * fine[n] + facet * (crystals[n] - 0.5);
        grain -= 0.35 * facet * crystals[3 * count + n] + 0.12 * minerals[3 * count + n];
        grain *= 1.0 + zones[n] + 0.06 * medium[n];
        grain = 0.5 * (grain + sqrt(grain * grain + 0.01));
        double pore = rise(1.75, 2.0, medium[n]);
        double line = at_most_one(fabs(crack[n]) / 0.028);
        line = 1.0 - line * line;
        line = line * line * rise(0.2, 0.6, medium[n] + 2.0 * zones[n]);
        out[n] = level * grain * (1.0 - 0.85 * pore) * (1.0 - 0.7 * line);
    }
}
