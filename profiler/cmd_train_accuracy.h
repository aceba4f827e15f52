/* What of `dlprof train` is about accuracy rather than time: how stale gradients are applied, when
 * the learning rate drops, the accuracy on the way (a curve), and the replay of a schedule. */
#ifndef DL_PROFILER_CMD_TRAIN_ACCURACY_H
#define DL_PROFILER_CMD_TRAIN_ACCURACY_H

#include <stdbool.h>

#include "common/options.h"
#include "kernels/train/schedule.h"
#include "kernels/train/train.h"

/* Targets of the options. */
typedef struct dl_accuracy_options {
    int64_t n, bound;
    bool staleness_rate;
    double rate_drop;
    const char *evaluate_every, *curve, *schedule;
} dl_accuracy_options;

#define DL_ACCURACY_OPTION_COUNT 7

/* The defaults of dl_train_default_config. */
dl_accuracy_options dl_accuracy_options_default(void);

/* Fills table[DL_ACCURACY_OPTION_COUNT], whose targets lie in *options. */
void dl_accuracy_options_table(dl_accuracy_options *options, dl_option *table);

/* Sets what the options say. `samples`: of the training set; config->batch must be set. DL_ERR_USAGE
 * for --evaluate-every that is neither STEPS nor a number with "epochs", or without --curve. */
dl_status dl_accuracy_options_apply(const dl_accuracy_options *options, size_t samples,
                                    dl_train_config *config, dl_error *err) DL_MUST_CHECK;

/* Writes a curve: a row a point of the result, in which the parameters are evaluated on `test`, and
 * one for the end if the last point is not there; a comment says so if the training diverged. `schedule` is NULL unless one was replayed. Columns
 *   update, epoch, simulated_s (empty without a schedule), accuracy, loss
 * `training_set` is the number of samples of an epoch; *points becomes the number of rows. */
dl_status dl_curve_write(const char *path, const dl_train_config *config,
                         const dl_schedule *schedule, const dl_train_result *result,
                         size_t training_set, const dl_data_set *test, int *points,
                         dl_error *err) DL_MUST_CHECK;

#endif
