/* The order of updates of one simulated run, for `dlprof train --schedule`, which repeats it with
 * real gradients. The format, with an example: docs/formats.md. Modes with server updates write
 * gradients; the modes none, average and bmuf write local steps and averages. Further rows and
 * columns:
 *
 *   sites    `# sites` in the head: number of equal groups of neighbouring workers, each of which
 *            applies the mean of its gradients in a local step; one worker of each group averages
 *   fragments, lag
 *            a column `fragment` after `batch`, with several `# fragments` in the head; send: the
 *            worker's parameters are copied; receive: it merges the last average, which is that of
 *            these copies
 *   async_average, with a column `weight` after `batch`
 *     upload           the worker's progress since its last upload, or since it took version
 *                      `read`, waits to be merged, in place of an older upload
 *     merge            version `update` is the one before plus the mean of weight x upload over all
 *                      rows with its number; staleness is update - 1 - read
 *     replace, rebase  the worker takes version `read`; rebase adds its progress since its upload
 *
 * The format has no rows for easgd's merges of parameters. */
#ifndef DL_SIM_SCHEDULE_H
#define DL_SIM_SCHEDULE_H

#include "sim/run.h"

/* Runs replicate 0 of `point` (one of the scenario's) once more and writes its order to `path`.
 * DL_ERR_IO; DL_ERR_UNSUPPORTED: easgd; shares = speed with several workers; average with absences,
 * `inside` unequal sites, a lag and interval_by_speed, or an interval fragments do not divide. */
dl_status dl_schedule_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err) DL_MUST_CHECK;

#endif
