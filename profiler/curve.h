/* Accuracy during a training run, as a table. */
#ifndef DL_PROFILER_CURVE_H
#define DL_PROFILER_CURVE_H

#include "kernels/train/train.h"

/* Writes a curve: a row for each point of the result, with its parameters evaluated on `test`, and
 * one for the end of the run unless it has a point; a comment line if the training diverged.
 * `schedule` is NULL unless one was replayed. Columns
 *
 *   update, epoch, simulated_s (empty without a schedule, and at the end of a stopped replay),
 *   accuracy, loss (empty in the row for the end)
 *
 * `training_set` is the number of samples of an epoch; *points becomes the number of rows.
 * DL_ERR_IO, and the errors of dl_train_accuracy. */
dl_status dl_curve_write(const char *path, const dl_train_config *config,
                         const dl_schedule *schedule, const dl_train_result *result,
                         size_t training_set, const dl_data_set *test, int *points,
                         dl_error *err) DL_MUST_CHECK;

#endif
