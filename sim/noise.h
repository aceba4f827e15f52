/* Variation of a worker's steps: a factor on each step's compute time, with mean 1 for the families
 * and the trace's own mean for `trace`.
 *
 *   none         1
 *   trace        level x variation, of measured factors. Level: the median of worker w's copy (w
 *                modulo the copies) in one measured run for the whole replicate, so that a core
 *                that was slow for a whole run is slow here too. Variation: blocks of
 *                DL_NOISE_BLOCK consecutive factors of that copy over the median of their own run,
 *                from any run and position (cyclic), so that neighbours stay neighbours and a rare
 *                preemption is as rare as it was in all runs
 *   lognormal    exp(zeta + s z), s^2 = ln(1 + sigma^2), zeta = -s^2 / 2
 *   gamma        shape 1 / sigma^2, scale sigma^2
 *   exponential  its coefficient of variation is 1
 *   work         1, beside the work below
 *
 * sigma is the coefficient of variation. Slowness common to all workers is not modelled.
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
 * least, ..., the largest of n such factors, each dealt to another worker in the next step. Waiting
 * for all workers then takes as long as on average. */
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

/* Variation of work; {0}: none. */
typedef struct dl_work_spread {
    double sd;          /* coefficient of variation, >= 0 */
    double maximum;     /* of a step's work over the mean, > 1; 0: not known */
    const float *steps; /* [step_count] ascending, of mean 1; borrowed; NULL: not measured */
    size_t step_count;
    double steps_frac; /* scale of the differences of these from 1 */
} dl_work_spread;

/* The variation of the work of a step of `batches` batches with `samples` samples in total. The
 * standard deviation falls with the square root of the number of samples if the costs say for how
 * many it was measured, else of the number of batches. {0} if work does not vary. Borrows from the
 * costs. */
dl_work_spread dl_work_spread_of(const dl_costs *costs, double batches, double samples);

/* The quantile u of a step's work, 0 < u < 1. A standard deviation that the maximum does not allow
 * is reduced to the largest possible one. */
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

/* The part common to all workers of a run. */
typedef struct dl_noise_source {
    dl_noise_config config;
    uint64_t seed;
    uint32_t replicate;
    double log_mean, log_sd; /* of the logarithms of lognormal factors */
} dl_noise_source;

/* The part of one worker: names of its random streams and positions in them. */
typedef struct dl_noise {
    uint64_t place, work_place; /* in the streams of factors, and of work */
    uint32_t worker;
    union {
        uint32_t series; /* trace: of this block */
        uint32_t deal;   /* none: index of its next expected work */
    };
    uint32_t position; /* trace: the next factor */
    int block_left;    /* trace: factors left of this block */
} dl_noise;

/* The measured run, of run_count >= 1, that a replicate uses: all come up equally often. */
size_t dl_noise_run(uint32_t replicate, size_t run_count);

/* Sets up the noise of a replicate, which borrows what `config` borrows, and that of one of its
 * workers, which has a separate random stream. */
void dl_noise_source_init(dl_noise_source *source, const dl_noise_config *config, uint64_t seed,
                          uint32_t replicate);
void dl_noise_init(dl_noise *noise, const dl_noise_source *source, uint32_t worker);

/* The factor of the worker's next step, > 0. */
double dl_noise_next(const dl_noise_source *source, dl_noise *noise);

/* The work of its next step over the mean, > 0; to be called once per step. */
double dl_noise_next_work(const dl_noise_source *source, dl_noise *noise);

#endif
