/* One simulated run as Chrome-trace JSON: a track for each worker with its activities and, above
 * them, its steps; one for the collectives of the workers' GPUs; one for a server's updates, with an arrow
 * from each worker's gradient that an update has in it; of workers of several GPUs one for the passes of
 * each GPU, with an arrow from each stage's pass to that of the next; counters of staleness, of
 * updates, and of the bytes that collectives reduce or gather in a second. */
#ifndef DL_SIM_TIMELINE_H
#define DL_SIM_TIMELINE_H

#include <stdio.h>

#include "sim/run.h"

/* Runs replicate 0 of `point` (one of the scenario's) once more and writes what happens to `path`:
 * the first steps, of which the file has about 2 MB; all steps of a split model. */
dl_status dl_timeline_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err) DL_MUST_CHECK;

/* Three steps of worker 0, the fourth to the sixth (fewer and earlier ones of a shorter run), as
 * CSV for plots/timeline.gp: worker, part (dl_part_names), start_s, end_s from the first one's
 * start. Runs replicate 0; not of split models. */
dl_status dl_timeline_steps_write(FILE *out, const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, dl_error *err) DL_MUST_CHECK;

#endif
