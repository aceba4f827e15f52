/* Counter-based random streams (Random123's Philox4x32-10, Salmon et al. 2011).
 *
 * (seed, replicate, point, worker) identifies a stream, so the numbers drawn do not depend on the
 * number of threads or the order of work, and streams do not overlap. */
#ifndef DL_COMMON_RANDOM_H
#define DL_COMMON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* One stream; a copy continues from the same position. */
typedef struct dl_random {
    uint32_t key[2];
    uint32_t counter[4]; /* counter of the next block */
    uint32_t block[4];   /* numbers of the current block */
    int used;            /* number of used entries of block[]; 4: all are used */
} dl_random;

/* Starts the stream with this identity. All values are valid. `worker` may have any meaning within
 * a replicate (worker index, purpose); replicate and point are taken modulo 2^21. */
void dl_random_init(dl_random *stream, uint64_t seed, uint32_t replicate, uint32_t point,
                    uint32_t worker);

/* Set and return the position in the stream, in 32-bit numbers drawn since its start. A stream may
 * thus be stored as 8 bytes. */
void dl_random_seek(dl_random *stream, uint64_t place);
uint64_t dl_random_place(const dl_random *stream);

uint32_t dl_random_u32(dl_random *stream);
uint64_t dl_random_u64(dl_random *stream);

/* Fills to[bytes] with 32-bit numbers in little-endian order; the last one may be truncated. */
void dl_random_bytes(dl_random *stream, uint8_t *to, size_t bytes);

/* Uniform in [0, 1), 53 bits. */
double dl_random_uniform(dl_random *stream);

/* Uniform in 0 .. n-1 without bias; n >= 1. */
uint64_t dl_random_below(dl_random *stream, uint64_t n);

/* Standard normal (Box-Muller). Always draws two uniforms, so that the position in the stream is
 * known. */
double dl_random_normal(dl_random *stream);

/* Standard normal by Marsaglia's polar method (SIAM Review 6, 1964), of whose two numbers it uses
 * one. This and the next two functions return, bit for bit, the numbers that GSL 2.7 would draw
 * from the stream; this one and dl_random_gamma draw a varying number of values per call. */
double dl_random_polar(dl_random *stream);

/* Exponential with mean 1; >= 0. */
double dl_random_exponential(dl_random *stream);

/* Gamma with shape and scale > 0, by Marsaglia and Tsang's method of 2000 (ACM TOMS 26). */
double dl_random_gamma(dl_random *stream, double shape, double scale);

/* Fisher-Yates shuffle of values[count]. */
void dl_random_shuffle(dl_random *stream, uint32_t *values, uint32_t count);

/* Probability that `draws` items, drawn from `all` without replacement, include at least one of
 * `some` given items: 1 - C(all - some, draws) / C(all, draws). */
double dl_chance_of_some(double all, double some, double draws);

#endif
