/* Lengths of answers, in tokens: log-normal with a cap, with a part of the variance common to all
 * answers of a group; or taken from a list. */
#ifndef DL_SIM_LENGTHS_H
#define DL_SIM_LENGTHS_H

#include <stddef.h>
#include <stdint.h>

#include "common/random.h"

typedef struct dl_lengths {
    double mean;        /* mean of generated tokens, after the cap; < cap */
    double cv;          /* standard deviation over mean, before the cap; 0: equal lengths */
    double cap;         /* INFINITY: no cap */
    double group_frac;  /* the group's share of the variance of the logarithm, 0 to 1 */
    const double *list; /* [count] used in turn by group and answer; NULL: lengths are log-normal */
    size_t count;
} dl_lengths;

/* mu and sigma of the logarithm with which capped values have the mean (at most 0.999 of the cap);
 * mu is 0 for a list. */
typedef struct dl_lengths_log {
    double mu, sigma;
} dl_lengths_log;

dl_lengths_log dl_lengths_log_of(const dl_lengths *lengths);

/* Draws the lengths of group `number`, answers[count], in whole tokens of at least 1. Depends only
 * on its arguments. */
void dl_lengths_draw(const dl_lengths *lengths, const dl_lengths_log *at, uint64_t seed,
                     uint32_t replicate, int64_t number, double *answers, int count);

/* sigma of a log-normal distribution with this coefficient of variation. */
double dl_lengths_sigma(double cv);

#endif
