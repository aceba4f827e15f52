/* How the step time varies: factors = step time over fitted step time, in the order of the runs.
 *
 * Whoever resamples them in blocks needs neighbours to be neighbours, so what is kept are
 * contiguous pieces: of every source the same number of steps where there are too many, from its
 * middle. Sources are the train runs and, per batch size, the runs of the bench's step with one
 * copy. The latter are left out where their mean factor is off the train runs' by more than
 * DL_STEP_NOISE_AGREE_FRAC: then they measure something else. */
#ifndef DL_CALIBRATE_STEP_NOISE_H
#define DL_CALIBRATE_STEP_NOISE_H

#include "calibrate/dataset.h"
#include "calibrate/fit.h"
#include "sim/costs.h"

#define DL_STEP_NOISE_FACTORS_MAX 4096
#define DL_STEP_NOISE_AGREE_FRAC 0.02

typedef struct dl_step_noise {
    dl_fit_shape shape; /* of the kept factors; lag1 within sources */
    size_t steps;       /* that there were */
    size_t kept;
    size_t sources;
} dl_step_noise;

/* Fills costs->noise from the data set; costs->ops must be fitted. The data set has at least one
 * run. */
void dl_step_noise_fit_factors(const dl_dataset *dataset, dl_costs *costs, dl_step_noise *fit,
                               dl_notes *notes);

#endif
