/* Time to a target: the number of samples that training needs to reach a given quality, where the
 * effect of averaging intervals or stale gradients on it is known. None of this is simulated: the
 * scenario gives the samples of synchronous training, and factors on them. */
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
    const dl_mode *mode; /* by mode; else NULL */
    double at;           /* the interval, or mean staleness */
    double factor;
} dl_target_factor;

typedef struct dl_target {
    int64_t samples; /* 0: not given */
    dl_target_factor *factors;
    size_t count;
} dl_target;

/* Reads "interval 16:1.05", "staleness 3:1.2" or "MODE:1.1". */
dl_status dl_target_read_factor(dl_target_factor *factor, const char *text,
                                dl_error *err) DL_MUST_CHECK;

/* Reads the factors of [target] of a scenario; free them with dl_target_free, also after an
 * error. */
dl_status dl_target_read(dl_target *target, const dl_ini *ini, dl_error *err) DL_MUST_CHECK;
void dl_target_free(dl_target *target); /* a zeroed one is fine */

/* The factor given for a mode, else that of the interval times that of the mean staleness. An
 * interval of 1 and a staleness of 0 have 1 unless they are given. Between given ones the factor is
 * interpolated, over the logarithm of the interval, over the staleness; beyond the largest it is
 * unknown: NaN. `interval` is 1 for a mode without; `staleness` may be NaN: none. */
double dl_target_factor_of(const dl_target *target, const dl_mode *mode, double interval,
                           double staleness);

#endif
