/* Stockham's transform, radix 4: each pass reads one strip and writes the other, in order at the
 * end. The one for an odd power of two ends with a pass of radix 2. */
#include "fourier.h"

#include <string.h>

/* Real and imaginary parts of numbers side by side. */
typedef float side_by_side __attribute__((vector_size(STRIP * sizeof(float))));
typedef struct {
    side_by_side re, im;
} numbers;

static inline numbers load(const strip *from, int64_t at)
{
    numbers found;
    memcpy(&found.re, from->re + at, sizeof found.re);
    memcpy(&found.im, from->im + at, sizeof found.im);
    return found;
}

static inline void store(numbers given, strip *to, int64_t at)
{
    memcpy(to->re + at, &given.re, sizeof given.re);
    memcpy(to->im + at, &given.im, sizeof given.im);
}

static inline numbers add(numbers a, numbers b)
{
    numbers sum = {a.re + b.re, a.im + b.im};
    return sum;
}

static inline numbers subtract(numbers a, numbers b)
{
    numbers difference = {a.re - b.re, a.im - b.im};
    return difference;
}

/* Product with the conjugate of a root. */
static inline numbers turn(numbers a, complex64 root)
{
    numbers product = {root.re * a.re + root.im * a.im, root.re * a.im - root.im * a.re};
    return product;
}

/* `count` numbers of a pass, at and from where they are in `given`, a quarter of all apart. */
static void pass(const strip *given, int64_t from, int64_t quarter, int64_t count,
                 const complex64 *w, strip *out)
{
    for (int64_t k = 0; k < count; k += STRIP) {
        numbers a = load(given, from + k), b = load(given, from + k + quarter);
        numbers c = load(given, from + k + 2 * quarter), d = load(given, from + k + 3 * quarter);
        numbers even = add(a, c), half = subtract(a, c), odd = add(b, d), rest = subtract(b, d);
        numbers turned = {-rest.im, rest.re};
        int64_t to = 4 * from + k;
        store(add(even, odd), out, to);
        store(turn(subtract(half, turned), w[0]), out, to + count);
        store(turn(subtract(even, odd), w[1]), out, to + 2 * count);
        store(turn(add(half, turned), w[2]), out, to + 3 * count);
    }
}

/* The last pass of an odd power of two. */
static void add_halves(const strip *given, int64_t half, strip *out)
{
    for (int64_t k = 0; k < half; k++) {
        out->re[k] = given->re[k] + given->re[half + k];
        out->im[k] = given->im[k] + given->im[half + k];
        out->re[half + k] = given->re[k] - given->re[half + k];
        out->im[half + k] = given->im[k] - given->im[half + k];
    }
}

strip *transform(strip *given, strip *room, int64_t size, const complex64 *roots, int64_t apart)
{
    const int64_t all = size * STRIP, full = size * apart;
    int64_t count = STRIP; /* numbers that share a factor */
    for (; 4 * count <= all; count *= 4) {
        int64_t step = apart * (count / STRIP);
        for (int64_t p = 0; p < all / (4 * count); p++) {
            const complex64 w[3] = {roots[(p * step) & (full - 1)],
                                    roots[(2 * p * step) & (full - 1)],
                                    roots[(3 * p * step) & (full - 1)]};
            pass(given, p * count, all / 4, count, w, room);
        }
        strip *done = room;
        room = given;
        given = done;
    }
    if (count == all) {
        return given;
    }
    add_halves(given, all / 2, room);
    return room;
}
