/* Fourier transforms down the columns of a matrix, some columns side by side. */
#ifndef UNGLOW_FOURIER_H
#define UNGLOW_FOURIER_H

#include <stdint.h>

#include "kernels.h"

/* So many columns are transformed at a time: the innermost loops run across them. */
#define STRIP 8
/* Longest transform. */
#define LONGEST 512

/* A strip of columns, [row][column], real and imaginary parts apart. Spare numbers at the ends keep
 * what is read and written together off the same lines of the cache. */
typedef struct {
    float re[LONGEST * STRIP + 2 * STRIP], im[LONGEST * STRIP + 6 * STRIP];
} strip;

/* Transform the columns of (size, STRIP) numbers, size a power of two from 4 to LONGEST, unscaled;
 * what comes in is lost, and what is returned is `given` or `room`. Roots are exp(2 pi i k / n), of
 * n = size * apart numbers. With real and imaginary parts exchanged it is the inverse. */
strip *transform(strip *given, strip *room, int64_t size, const complex64 *roots, int64_t apart);

#endif
