/* The order of updates of one simulated run, for `dlprof train --schedule`, which repeats it with
 * real gradients. The format, with an example: docs/formats.md.
 *
 * Modes with server updates write gradients, none and average local steps, async_average also
 * learners' uploads and adoptions, and merges. The format has no rows for easgd's merges of
 * parameters. */
#ifndef DL_SIM_SCHEDULE_H
#define DL_SIM_SCHEDULE_H

#include "sim/run.h"

/* Runs replicate 0 of `point` (one of the scenario's) once more and writes its order to `path`.
 * DL_ERR_UNSUPPORTED for easgd, and for average with workers that are away, inside sites of unequal
 * size, or with a lag and intervals by speed; DL_ERR_IO. */
dl_status dl_schedule_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err) DL_MUST_CHECK;

#endif
