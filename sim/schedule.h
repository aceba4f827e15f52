/* Writes the order of updates of one simulated run, which `dlprof train --schedule` repeats with
 * real gradients. The format, with an example: docs/formats.md. Modes that exchange gradients write
 * gradients; the modes none, average and bmuf write local steps and averages. Additional rows and
 * columns:
 *
 *   sites    `# sites` in the header: number of equal groups of consecutive workers; each group
 *            applies its mean gradient in a local step, and one worker of each group averages
 *   fragments, lag
 *            a column `fragment` after `batch`, and, with several fragments, `# fragments` in the
 *            header; send: the worker's parameters are copied; receive: the worker merges the
 *            latest average, made from these copies
 *   async_average, with a column `weight` after `batch`
 *     upload           the worker's progress since its last upload, or since it took version
 *                      `read`, becomes ready to merge and replaces an older upload
 *     merge            version `update` is the previous one plus the mean of weight x upload over
 *                      all rows with this number; staleness is update - 1 - read
 *     replace, rebase  the worker takes version `read`; rebase adds its progress since its upload
 *
 * The format cannot express easgd's parameter merges. */
#ifndef DL_SIM_SCHEDULE_H
#define DL_SIM_SCHEDULE_H

#include "sim/run.h"

/* Runs replicate 0 of `point` (one of the scenario's) again and writes the order of its updates to
 * `path`. DL_ERR_IO; DL_ERR_UNSUPPORTED for easgd; shares = speed with several workers; average
 * with absences, `inside` with unequal sites, a lag with interval_by_speed, or an interval that
 * fragments do not divide. */
dl_status dl_schedule_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err) DL_MUST_CHECK;

#endif
