/* Variation of a worker's steps: one factor on its computing a step, of mean 1 for the families and
 * of the trace's own mean for `trace`.
 *
 *   none         1
 *   trace        measured factors: a replicate takes the level (the median) of one measured run,
 *                worker w that of its copy w (modulo the copies), so that what made a core slow for
 *                a whole run does so here; around it come blocks of DL_NOISE_BLOCK consecutive
 *                factors of that copy over their own run's level, from any run and place (the end
 *                is followed by the start): neighbours stay neighbours, and a rare preemption in a
 *                short run is as rare as it was in all runs
 *   lognormal    exp(zeta + s z), s^2 = ln(1 + sigma^2), zeta = -s^2 / 2
 *   gamma        shape 1 / sigma^2, scale sigma^2
 *   exponential  its coefficient of variation is 1
 *
 * sigma is the coefficient of variation. What it leaves out: slowness common to all workers.
 */
#ifndef DL_SIM_NOISE_H
#define DL_SIM_NOISE_H

#include <gsl/gsl_rng.h>
#include <stddef.h>
#include <stdint.h>

#include "common/random.h"
#include "sim/costs/costs.h"

#define DL_NOISE_BLOCK 20

typedef enum dl_noise_kind {
    DL_NOISE_NONE,
    DL_NOISE_TRACE,
    DL_NOISE_LOGNORMAL,
    DL_NOISE_GAMMA,
    DL_NOISE_EXPONENTIAL
} dl_noise_kind;

#define DL_NOISE_KINDS 5
extern const char *const dl_noise_names[DL_NOISE_KINDS + 1]; /* index = dl_noise_kind */

typedef struct dl_noise_config {
    dl_noise_kind kind;
    double sigma;            /* lognormal, gamma: > 0 */
    const dl_noise_set *set; /* trace: borrowed as long as the noise is used */
} dl_noise_config;

typedef struct dl_noise {
    dl_noise_config config;
    gsl_rng *rng;
    size_t copy;                   /* trace: whose factors it draws */
    double level;                  /* trace: of its run */
    const dl_noise_series *series; /* trace: of this block */
    size_t position;               /* trace: the next factor */
    int block_left;                /* trace: factors left of this block */
} dl_noise;

/* One of the project's streams (common/random.h) as a generator for GSL's distributions, from where
 * `stream` stands (copied). Release with gsl_rng_free. */
gsl_rng *dl_gsl_random_create(const dl_random *stream);

/* Which of run_count >= 1 measured runs a replicate takes: all of them come up evenly. */
size_t dl_noise_run(uint32_t replicate, size_t run_count);

/* The noise of one worker in one replicate: a separate stream. */
void dl_noise_init(dl_noise *noise, const dl_noise_config *config, uint64_t seed,
                   uint32_t replicate, uint32_t worker);
void dl_noise_free(dl_noise *noise);

/* The factor of the worker's next step, > 0. */
double dl_noise_next(dl_noise *noise);

#endif
