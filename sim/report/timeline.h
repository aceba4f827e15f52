/* One simulated run as Chrome-trace JSON: a track per worker with its activities and, above them,
 * its steps; a track for the collectives of the workers' GPUs; a track for a server's updates, with
 * an arrow from each gradient that an update applies; for workers with several GPUs a track per GPU
 * for its passes, with an arrow from each stage's pass to the next stage's; on GPUs a track per
 * host thread, with its launches, and for each of the eight busiest links, with its traffic.
 * Counters of staleness, of updates, of the workers that wait for a server's lock, of the memory of
 * those GPUs (with one GPU a worker: of the first worker's, the most while it computes, and what
 * stays), and of the bytes per second of collectives and of those links. With [generators]: tracks
 * of the trainer and of each replica instead, and counters of updates, groups and ages. */
#ifndef DL_SIM_TIMELINE_H
#define DL_SIM_TIMELINE_H

#include <stdio.h>

#include "sim/run.h"

/* Runs replicate 0 of `point` (one of the scenario's) once more and writes its activities to
 * `path`: the first steps, below 2 MB. If a single step is larger, only the first half of the
 * workers is drawn, then a quarter, and so on; the name of the first process says so. */
dl_status dl_timeline_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err) DL_MUST_CHECK;

/* Writes at most about `bytes_max` bytes to a stream: activities, the server's queue and, on GPUs,
 * the traffic of links; then, on GPUs without [generators], the memory over a step, at most 30 kB.
 * The output is valid JSON even if the run fails. */
dl_status dl_timeline_put(FILE *out, int64_t bytes_max, const dl_scenario *scenario,
                          const dl_costs *costs, const dl_point *point,
                          dl_error *err) DL_MUST_CHECK;

#endif
