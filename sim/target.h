/* Time to a target: the number of samples that training needs to reach a given quality, if the
 * effect of averaging intervals or stale gradients on it is known. None of this is simulated: the
 * scenario gives the samples of synchronous training and factors on them. */
#ifndef DL_SIM_TARGET_H
#define DL_SIM_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "common/ini.h"
#include "sim/sync/mode.h"

#define DL_TARGET_FACTOR_MIN 0.01
#define DL_TARGET_FACTOR_MAX 1e4

typedef enum dl_target_by { DL_TARGET_INTERVAL, DL_TARGET_STALENESS, DL_TARGET_MODE } dl_target_by;

typedef struct dl_target_factor {
    dl_target_by by;
    const dl_mode *mode; /* DL_TARGET_MODE: the mode; otherwise NULL */
    double at;           /* the interval, or the mean staleness */
    double factor;
} dl_target_factor;

typedef struct dl_target {
    int64_t samples; /* samples of synchronous training; 0: not given */
    dl_target_factor *factors;
    size_t count;
} dl_target;

/* Reads "interval 16:1.05", "staleness 3:1.2" or "MODE:1.1". */
dl_status dl_target_read_factor(dl_target_factor *factor, const char *text,
                                dl_error *err) DL_MUST_CHECK;

/* Reads the factors of a scenario's [target]. Call dl_target_free even after an error. */
dl_status dl_target_read(dl_target *target, const dl_ini *ini, dl_error *err) DL_MUST_CHECK;
void dl_target_free(dl_target *target); /* accepts a zeroed target */

/* Factor on the samples needed: the factor given for the mode, otherwise the product of the factors
 * of the interval and of the mean staleness. Interval 1 and staleness 0 have factor 1 unless given.
 * Factors between given points are interpolated linearly in log(interval) or in staleness; beyond
 * the largest point the factor is NaN. `interval` is 1 for modes without one; `staleness` NaN means
 * none. */
double dl_target_factor_of(const dl_target *target, const dl_mode *mode, double interval,
                           double staleness);

#endif
