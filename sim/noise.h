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
 *   work         1, beside the work below
 *
 * sigma is the coefficient of variation. What it leaves out: slowness common to all workers.
 *
 * Work that differs from step to step and worker to worker (sentences of several lengths, images of
 * several sizes) is another factor of mean 1, of coefficient of variation sd:
 *
 *   lognormal    as above, where its maximum is not known
 *   bounded      maximum x a beta distribution: shapes m v and (1 - m) v with m = 1 / maximum and
 *                v = (maximum - 1) / sd^2 - 1
 *   measured     one of the costs' [work] steps, each as likely as the others
 *
 * Without noise (none) nothing is drawn: the n workers of a step have the expected values of the
 * least, ..., the largest of n such factors, each dealt to another worker in the next step. Who
 * waits for all then waits as long as on average. */
#ifndef DL_SIM_NOISE_H
#define DL_SIM_NOISE_H

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
    DL_NOISE_EXPONENTIAL,
    DL_NOISE_WORK
} dl_noise_kind;

#define DL_NOISE_KINDS 6
extern const char *const dl_noise_names[DL_NOISE_KINDS + 1]; /* index = dl_noise_kind */

/* How work differs; {0}: not at all. */
typedef struct dl_work_spread {
    double sd;          /* coefficient of variation, >= 0 */
    double maximum;     /* of a step's work over the mean, > 1; 0: not known */
    const float *steps; /* [step_count] ascending, of mean 1; borrowed; NULL: not measured */
    size_t step_count;
    double steps_frac; /* of the difference of each of these from 1 that counts */
} dl_work_spread;

/* The work of a step that is the sum of as many batches, with `samples` in all: differences even
 * out, by the root of the samples where the costs say how many they are of, else of the batches.
 * {0} where the costs say nothing. Borrows of the costs. */
dl_work_spread dl_work_spread_of(const dl_costs *costs, double batches, double samples);

/* Work below which the share u of all steps lies, 0 < u < 1. A coefficient of variation that the
 * maximum does not allow counts as the largest that it does. */
double dl_work_quantile(const dl_work_spread *work, double u);

/* Expected values of the least, ..., the largest of `count` steps' work, ascending, with mean 1:
 * scores[count]. O(count). */
void dl_work_expected(const dl_work_spread *work, double *scores, size_t count);

typedef struct dl_noise_config {
    dl_noise_kind kind;
    double sigma;            /* lognormal, gamma: > 0 */
    const dl_noise_set *set; /* trace: borrowed as long as the noise is used */
    dl_work_spread work;
    const double *expected; /* [workers] dl_work_expected, borrowed; NULL: work is drawn */
    size_t workers;
} dl_noise_config;

/* What the workers of a run have in common. */
typedef struct dl_noise_source {
    dl_noise_config config;
    uint64_t seed;
    uint32_t replicate;
    double log_mean, log_sd; /* of the logarithms of lognormal factors */
} dl_noise_source;

/* Of one worker: its streams are their names and how far they have come. */
typedef struct dl_noise {
    uint64_t place, work_place; /* in the streams of factors, and of work */
    uint32_t worker;
    union {
        uint32_t series; /* trace: of this block */
        uint32_t deal;   /* none: which of the expected work comes next */
    };
    uint32_t position; /* trace: the next factor */
    int block_left;    /* trace: factors left of this block */
} dl_noise;

/* Which of run_count >= 1 measured runs a replicate takes: all of them come up evenly. */
size_t dl_noise_run(uint32_t replicate, size_t run_count);

/* The noise of a replicate, which borrows what the configuration does, and of one worker in it: a
 * separate stream. */
void dl_noise_source_init(dl_noise_source *source, const dl_noise_config *config, uint64_t seed,
                          uint32_t replicate);
void dl_noise_init(dl_noise *noise, const dl_noise_source *source, uint32_t worker);

/* The factor of the worker's next step, > 0. */
double dl_noise_next(const dl_noise_source *source, dl_noise *noise);

/* The work of its next step over the mean, > 0: once a step. */
double dl_noise_next_work(const dl_noise_source *source, dl_noise *noise);

#endif
