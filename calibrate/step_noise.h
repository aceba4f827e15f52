/* How the step time varies around its expectation: factors in the order of each run.
 *
 *   1 copy     step time over fitted step time: the train runs of each batch size, and the bench's
 *              steps of one copy at the same batch size; the latter are left out where their mean
 *              factor is off the train runs' by more than DL_STEP_NOISE_AGREE_FRAC: then they
 *              measure something else
 *   k copies   step time over fitted step time times sharing: the bench's steps of k copies at
 *              once, 2 <= k <= cores, for each batch size: there cores differ, for whole runs, from
 *              one another, and disturb each other. A bench trace is one run
 *
 * Whoever resamples them needs runs to be runs and neighbours to be neighbours, so what is kept is
 * of each copy of each run the same number of consecutive steps, from its middle, where there are
 * too many. */
#ifndef DL_CALIBRATE_STEP_NOISE_H
#define DL_CALIBRATE_STEP_NOISE_H

#include "calibrate/dataset.h"
#include "calibrate/fit.h"
#include "sim/costs/costs.h"

#define DL_STEP_NOISE_FACTORS_MAX 4096 /* of one batch size and number of copies */
#define DL_STEP_NOISE_AGREE_FRAC 0.02

typedef struct dl_step_noise_set {
    int64_t batch;
    size_t copies;
    dl_fit_shape shape; /* of the kept factors; lag1 within series */
    double run_sd;      /* standard deviation of the series' mean factors; 0 for one */
    size_t steps;       /* that there were */
    size_t kept;
    size_t runs;
} dl_step_noise_set;

/* By copies, then batch: as the sets of the costs. */
typedef struct dl_step_noise {
    dl_step_noise_set *sets;
    size_t count;
} dl_step_noise;

/* Fills costs->noise from the data set; costs->ops, linearity and sharing must be fitted, as far as
 * there are data for them. The data set has at least one run. Zero `fit` before; release with
 * dl_step_noise_free. */
void dl_step_noise_fit_factors(const dl_dataset *dataset, dl_costs *costs, dl_step_noise *fit,
                               dl_notes *notes);
void dl_step_noise_free(dl_step_noise *fit);

#endif
