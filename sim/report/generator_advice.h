/* Advice for a scenario with [generators]: the split of the GPUs, bound on staleness and copying
 * method with the most answers per hour. */
#ifndef DL_SIM_GENERATOR_ADVICE_H
#define DL_SIM_GENERATOR_ADVICE_H

#include <stdio.h>

#include "sim/report/advise.h"

/* Searches the splits of the GPUs with several bounds (or values of in_flight, if workers limit
 * the requests), then the copying methods at the best split. The config's largest staleness
 * limits the mean age in updates; NaN: the scenario's bound. Writes the rows of the first sweep,
 * of splits and bounds, to `path` and, unless `out` is NULL, the advice to `out`. *text is the
 * advised scenario, freed by the caller. Errors: those of dl_sweep_run; DL_ERR_USAGE if
 * generators and trainer share all GPUs; DL_ERR_UNFIT if no split fits; DL_ERR_DATA if no split
 * is within the largest staleness. */
dl_status dl_generators_advise(const dl_study *study, const dl_advice_config *config,
                               const char *path, FILE *out, char **text,
                               dl_error *err) DL_MUST_CHECK;

#endif
