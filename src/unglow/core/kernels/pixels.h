/* Pixels of several types, read and written as double. */
#ifndef UNGLOW_PIXELS_H
#define UNGLOW_PIXELS_H

#include "kernels.h"

/* Read `count` px from the first-th on. */
static inline void read_pixels(const void *pixels, int64_t type, int64_t first, int64_t count,
                               double *restrict values)
{
    int64_t k;
    switch (type) {
    case UINT8:
        for (k = 0; k < count; k++) {
            values[k] = (double)((const uint8_t *)pixels)[first + k];
        }
        break;
    case UINT16:
        for (k = 0; k < count; k++) {
            values[k] = (double)((const uint16_t *)pixels)[first + k];
        }
        break;
    case INT16:
        for (k = 0; k < count; k++) {
            values[k] = (double)((const int16_t *)pixels)[first + k];
        }
        break;
    case FLOAT32:
        for (k = 0; k < count; k++) {
            values[k] = (double)((const float *)pixels)[first + k];
        }
        break;
    default:
        for (k = 0; k < count; k++) {
            values[k] = ((const double *)pixels)[first + k];
        }
    }
}

/* Write one px; the value is within the range of its type, which is UINT8 or UINT16. */
static inline void write_count(void *pixels, int64_t type, int64_t at, double value)
{
    if (type == UINT8) {
        ((uint8_t *)pixels)[at] = (uint8_t)value;
    } else {
        ((uint16_t *)pixels)[at] = (uint16_t)value;
    }
}

#endif
