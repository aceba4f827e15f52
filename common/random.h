/* Counter-based random streams (Random123's Philox4x32-10, Salmon et al. 2011).
 *
 * (seed, replicate, point, worker) identifies a stream, so the numbers drawn do not depend on the
 * number of threads or the order of work, and no stream overlaps another. */
#ifndef DL_COMMON_RANDOM_H
#define DL_COMMON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* One stream; a copy goes on from the same place. */
typedef struct dl_random {
    uint32_t key[2];
    uint32_t counter[4]; /* of the next block */
    uint32_t block[4];   /* numbers of the current block */
    int used;            /* numbers of block[] that are spent; 4 = none is left */
} dl_random;

/* Starts the stream with this identity. All values are valid. `worker` is free for any use inside a
 * replicate (worker index, purpose); replicate and point are taken modulo 2^21. */
void dl_random_init(dl_random *stream, uint64_t seed, uint32_t replicate, uint32_t point,
                    uint32_t worker);

/* Sets the position in the stream, in 32-bit numbers drawn since its start, or returns it. So a
 * stream may be kept as 8 bytes. */
void dl_random_seek(dl_random *stream, uint64_t place);
uint64_t dl_random_place(const dl_random *stream);

uint32_t dl_random_u32(dl_random *stream);
uint64_t dl_random_u64(dl_random *stream);

/* Fills to[bytes] with 32-bit numbers, each with its lowest byte first; the last one may be cut. */
void dl_random_bytes(dl_random *stream, uint8_t *to, size_t bytes);

/* Uniform in [0, 1), 53 bits. */
double dl_random_uniform(dl_random *stream);

/* Uniform in 0 .. n-1 without bias; n >= 1. */
uint64_t dl_random_below(dl_random *stream, uint64_t n);

/* Standard normal (Box-Muller; two uniforms a call, so that the place in the stream is known). */
double dl_random_normal(dl_random *stream);

/* Standard normal by Marsaglia's polar method (SIAM Review 6, 1964), which uses one of two numbers.
 * This and the next two functions return, bit for bit, the numbers that GSL 2.7 would draw from the
 * stream; this one and dl_random_gamma consume a varying number of draws per call. */
double dl_random_polar(dl_random *stream);

/* Exponential of mean 1: >= 0. */
double dl_random_exponential(dl_random *stream);

/* Gamma of shape and scale > 0, by Marsaglia and Tsang's method of 2000 (ACM TOMS 26). */
double dl_random_gamma(dl_random *stream, double shape, double scale);

/* Fisher-Yates on values[count]. */
void dl_random_shuffle(dl_random *stream, uint32_t *values, uint32_t count);

#endif
