/* The bits of px, plane by plane, as Blosc stores them: neighbours whose high bits are equal then give
 * long runs. Source: https://github.com/kiyo-masui/bitshuffle */
#include <string.h>

#include "kernels.h"
#include "splines.h"

/* So many px of a row are worked on at a time, and so many bytes a px has at most. */
#define PIECE 512
#define MOST_BYTES 8

/* One array for each byte of the px of a piece. */
typedef uint8_t piece[MOST_BYTES][PIECE];

/* Exchange rows and columns of 8 x 8 bits: bit c of byte r becomes bit r of byte c. */
static inline uint64_t transpose(uint64_t x)
{
    uint64_t swapped = (x ^ (x >> 7)) & UINT64_C(0x00AA00AA00AA00AA);
    x ^= swapped ^ (swapped << 7);
    swapped = (x ^ (x >> 14)) & UINT64_C(0x0000CCCC0000CCCC);
    x ^= swapped ^ (swapped << 14);
    swapped = (x ^ (x >> 28)) & UINT64_C(0x00000000F0F0F0F0);
    return x ^ swapped ^ (swapped << 28);
}

/* Do that to the bytes of 8 px each. */
static void transpose_all(uint8_t *bytes, int64_t count)
{
    for (int64_t k = 0; k < count; k += 8) {
        uint64_t some;
        memcpy(&some, bytes + k, sizeof some);
        some = transpose(some);
        memcpy(bytes + k, &some, sizeof some);
    }
}

/* Take every second byte, and the others. */
static inline void part(const uint8_t *restrict bytes, int64_t count, uint8_t *restrict even,
                        uint8_t *restrict odd)
{
    for (int64_t k = 0; k < count / 2; k++) {
        even[k] = bytes[2 * k];
        odd[k] = bytes[2 * k + 1];
    }
}

/* Take px apart into their bytes. */
static void split_bytes(const uint8_t *px, int64_t size, int64_t count, piece *out)
{
    uint8_t halves[MOST_BYTES * PIECE], quarters[MOST_BYTES * PIECE];
    if (size == 1) {
        memcpy((*out)[0], px, (size_t)count);
    } else if (size == 2) {
        part(px, 2 * count, (*out)[0], (*out)[1]);
    } else if (size == 4) {
        part(px, 4 * count, halves, halves + 2 * count);
        part(halves, 2 * count, (*out)[0], (*out)[2]);
        part(halves + 2 * count, 2 * count, (*out)[1], (*out)[3]);
    } else {
        part(px, 8 * count, halves, halves + 4 * count);
        for (int64_t k = 0; k < 2; k++) {
            const uint8_t *half = halves + 4 * k * count;
            part(half, 4 * count, quarters, quarters + 2 * count);
            part(quarters, 2 * count, (*out)[k], (*out)[k + 4]);
            part(quarters + 2 * count, 2 * count, (*out)[k + 2], (*out)[k + 6]);
        }
    }
}

/* Put px together from their bytes; sizes are constants where it is called. */
static inline void join_bytes(const piece *restrict bytes, int64_t size, int64_t count,
                              uint8_t *restrict px)
{
    for (int64_t k = 0; k < count; k++) {
        for (int64_t byte = 0; byte < size; byte++) {
            px[k * size + byte] = (*bytes)[byte][k];
        }
    }
}

/* Copy every eighth byte to a plane, for eight planes that are `apart` bytes apart. */
static void spread(const uint8_t *bytes, int64_t count, uint8_t *planes, int64_t apart)
{
    uint8_t halves[PIECE], quarters[PIECE];
    part(bytes, count, halves, halves + count / 2);
    for (int64_t k = 0; k < 2; k++) {
        part(halves + k * count / 2, count / 2, quarters, quarters + count / 4);
        part(quarters, count / 4, planes + k * apart, planes + (k + 4) * apart);
        part(quarters + count / 4, count / 4, planes + (k + 2) * apart, planes + (k + 6) * apart);
    }
}

/* The inverse. */
static inline void collect(const uint8_t *restrict planes, int64_t apart, int64_t count,
                           uint8_t *restrict bytes)
{
    const uint8_t *a = planes, *b = a + apart, *c = b + apart, *d = c + apart;
    const uint8_t *e = d + apart, *f = e + apart, *g = f + apart, *h = g + apart;
    for (int64_t k = 0; k < count; k++) {
        uint8_t *at = bytes + 8 * k;
        at[0] = a[k];
        at[1] = b[k];
        at[2] = c[k];
        at[3] = d[k];
        at[4] = e[k];
        at[5] = f[k];
        at[6] = g[k];
        at[7] = h[k];
    }
}

void split_bits(const void *px, int64_t px_stride, int64_t size, uint8_t *planes, int64_t rows,
                int64_t cols)
{
    const int64_t apart = rows * cols / 8;
    piece bytes;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col += PIECE) {
            int64_t count = smaller(PIECE, cols - col);
            const uint8_t *first = (const uint8_t *)px + (row * px_stride + col) * size;
            split_bytes(first, size, count, &bytes);
            for (int64_t byte = 0; byte < size; byte++) {
                transpose_all(bytes[byte], count);
                spread(bytes[byte], count, planes + 8 * byte * apart + (row * cols + col) / 8,
                       apart);
            }
        }
    }
}

void join_bits(const uint8_t *planes, int64_t size, void *px, int64_t px_stride, int64_t rows,
               int64_t cols)
{
    const int64_t apart = rows * cols / 8;
    piece bytes;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col += PIECE) {
            int64_t count = smaller(PIECE, cols - col);
            uint8_t *first = (uint8_t *)px + (row * px_stride + col) * size;
            for (int64_t byte = 0; byte < size; byte++) {
                collect(planes + 8 * byte * apart + (row * cols + col) / 8, apart, count / 8,
                        bytes[byte]);
                transpose_all(bytes[byte], count);
            }
            switch (size) {
            case 1:
                join_bytes((const piece *)&bytes, 1, count, first);
                break;
            case 2:
                join_bytes((const piece *)&bytes, 2, count, first);
                break;
            case 4:
                join_bytes((const piece *)&bytes, 4, count, first);
                break;
            default:
                join_bytes((const piece *)&bytes, 8, count, first);
            }
        }
    }
}
