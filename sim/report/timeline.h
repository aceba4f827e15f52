/* One simulated run as Chrome-trace JSON: a track for each worker with its activities and, above
 * them, its steps. */
#ifndef DL_SIM_TIMELINE_H
#define DL_SIM_TIMELINE_H

#include "sim/run.h"

/* Runs replicate 0 of `point` (one of the scenario's) once more and writes what happens to `path`.
 */
dl_status dl_timeline_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err) DL_MUST_CHECK;

#endif
