/* Randomness that belongs to points of a lattice: the finaliser of SplitMix64. */
#ifndef UNGLOW_LATTICE_H
#define UNGLOW_LATTICE_H

#include <math.h>
#include <stdint.h>

/* 64 random bits that belong to the lattice point (i, j) and the key. */
static inline uint64_t lattice_hash(int64_t i, int64_t j, uint64_t key)
{
    uint64_t h = key + (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15) +
                 (uint64_t)j * UINT64_C(0xD1B54A32D192ED03);
    h = (h ^ (h >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94D049BB133111EB);
    return h ^ (h >> 31);
}

/* The whole number of a floor; 0 for what is beyond all numbers. */
static inline int64_t whole(double floored)
{
    return floored >= -9e18 && floored <= 9e18 ? (int64_t)floored : 0;
}

#endif
