/* Variation of a worker's step times: a factor on each step's compute time, with mean 1 for the
 * distributions and the trace's own mean for `trace`.
 *
 *   none         1
 *   trace        level x variation, from the factors of a measured program that ran in several
 *                copies; worker w uses copy w modulo their number. Level: median of the copy's
 *                factors in one measured run, fixed for the whole replicate, so that a core that
 *                was slow for a whole run is slow here too. Variation: blocks of DL_NOISE_BLOCK
 *                consecutive factors of the copy from a random run and position (cyclic), divided
 *                by the median of the copy's factors in that run. Blocks keep the correlation of
 *                neighbouring steps, and a rare preemption stays as rare as it was
 *   lognormal    exp(zeta + s z), s^2 = ln(1 + sigma^2), zeta = -s^2 / 2
 *   gamma        shape 1 / sigma^2, scale sigma^2
 *   exponential  coefficient of variation 1
 *   work         1; only the work varies (see below)
 *
 * sigma is the coefficient of variation. Slowness common to all workers is not modelled.
 *
 * Work that differs between steps and workers (sentences of several lengths, images of several
 * sizes) is a second factor of mean 1, with coefficient of variation sd:
 *
 *   lognormal    as above, if its maximum is not known
 *   bounded      maximum x a beta distribution: shapes m v and (1 - m) v with m = 1 / maximum and
 *                v = (maximum - 1) / sd^2 - 1
 *   measured     one of the costs' [work] steps, all equally likely
 *
 * Without noise (none) nothing is drawn: the n workers of a step get the expected order statistics
 * of n such factors, and each worker gets a different one of them in the next step. Waiting for all
 * workers then takes as long as on average. */
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
extern const char *const dl_noise_names[DL_NOISE_KINDS + 1]; /* indexed by dl_noise_kind */

/* Distribution of a step's work; {0}: constant. */
typedef struct dl_work_spread {
    double sd;          /* coefficient of variation, >= 0 */
    double maximum;     /* maximum of a step's work over the mean, > 1; 0: unknown */
    const float *steps; /* [step_count] measured work, ascending, with mean 1; borrowed; NULL: not
                         * measured */
    size_t step_count;
    double steps_frac; /* factor on the deviations of `steps` from 1 */
} dl_work_spread;

/* Distribution of the work of a step of `batches` batches with `samples` samples in total. The
 * standard deviation falls with the square root of the number of samples if the costs say for how
 * many it was measured; otherwise with the square root of the number of batches. {0} if work does
 * not vary. Borrows from the costs. */
dl_work_spread dl_work_spread_of(const dl_costs *costs, double batches, double samples);

/* Returns the quantile u of a step's work, 0 < u < 1. With a known maximum, the variance is limited
 * to (maximum - 1) / 2, half of the largest possible one. */
double dl_work_quantile(const dl_work_spread *work, double u);

/* Writes the expected order statistics of `count` steps' work, ascending, with mean 1, to
 * scores[count]. O(count). */
void dl_work_expected(const dl_work_spread *work, double *scores, size_t count);

typedef struct dl_noise_config {
    dl_noise_kind kind;
    double sigma;            /* for lognormal and gamma, > 0 */
    const dl_noise_set *set; /* trace: measured factors; borrowed while the noise is in use */
    dl_work_spread work;
    const double *expected; /* [workers] from dl_work_expected, borrowed; NULL: work is drawn */
    size_t workers;
} dl_noise_config;

/* Noise parameters common to all workers of a run. */
typedef struct dl_noise_source {
    dl_noise_config config;
    uint64_t seed;
    uint32_t replicate;
    double log_mean, log_sd; /* mean and standard deviation of the logarithm of lognormal factors */
} dl_noise_source;

/* Noise state of one worker: its random streams and its positions in them. */
typedef struct dl_noise {
    uint64_t place, work_place; /* positions in the streams of noise factors and of work */
    uint32_t worker;
    union {
        uint32_t series; /* trace: run and copy of the current block */
        uint32_t deal;   /* none: index in `expected` of the worker's next work */
    };
    uint32_t position; /* trace: position of the next factor */
    int block_left;    /* trace: factors left in the current block */
} dl_noise;

/* Index of the measured run that a replicate uses, 0 to run_count - 1; replicates use all runs
 * about equally often. */
size_t dl_noise_run(uint32_t replicate, size_t run_count);

/* dl_noise_source_init sets up the noise of a replicate, which borrows what `config` borrows.
 * dl_noise_init sets up the noise of one worker, with a separate random stream. */
void dl_noise_source_init(dl_noise_source *source, const dl_noise_config *config, uint64_t seed,
                          uint32_t replicate);
void dl_noise_init(dl_noise *noise, const dl_noise_source *source, uint32_t worker);

/* Returns the compute-time factor of the worker's next step, > 0. */
double dl_noise_next(const dl_noise_source *source, dl_noise *noise);

/* Returns the work of the worker's next step over the mean, > 0; call it once per step. */
double dl_noise_next_work(const dl_noise_source *source, dl_noise *noise);

#endif
