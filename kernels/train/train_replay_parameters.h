/* The parameters of a replay, and what the events of its schedule make of them. Of a server's
 * parameters as many versions are kept as the largest staleness needs; where the workers update,
 * each has its own parameters and optimizer.
 *
 * Events are applied in their order, one at a time. The parameters that an event is computed with
 * do not change before it is applied, so gradients may be computed meanwhile. */
#ifndef DL_KERNELS_TRAIN_REPLAY_PARAMETERS_H
#define DL_KERNELS_TRAIN_REPLAY_PARAMETERS_H

#include "kernels/optimizer.h"
#include "kernels/train/schedule.h"
#include "kernels/train/train.h"
#include "kernels/train/train_points.h"

typedef struct dl_replay_parameters {
    const dl_train_config *config;
    const dl_schedule *schedule;
    size_t set_size;     /* samples of the training set */
    size_t count, bytes; /* of one version */
    int share;           /* samples of a mini-batch */

    /* A server's parameters behind update v are versions[v mod version_count], its optimizer
     * optimizers[0]. Where the workers update, versions[w] and optimizers[w] are worker w's. */
    void **versions;
    size_t version_count;
    dl_optimizer **optimizers;
    size_t optimizer_count;
    void *sum; /* of gradients of an update that has several */
    dl_train_points points;
    int64_t updates, gradients;
    double first_loss, last_loss;
} dl_replay_parameters;

/* All versions begin as first[count], numbers of config->precision. `config` and `schedule` are
 * borrowed; of the configuration, optimizer, precision, average_state, staleness_rate, drop_epochs
 * and evaluate_every count. Fails as dl_optimizer_create. To be freed in any case. */
dl_status dl_replay_parameters_init(dl_replay_parameters *parameters, const dl_train_config *config,
                                    const dl_schedule *schedule, size_t set_size, const void *first,
                                    size_t count, dl_error *err) DL_MUST_CHECK;
void dl_replay_parameters_free(dl_replay_parameters *parameters);

/* What the gradient of an event (no average) is computed with: [count], there once the first
 * event->after events are applied. */
const void *dl_replay_parameters_of(const dl_replay_parameters *parameters,
                                    const dl_schedule_event *event);

/* Applies event `row` of the schedule, whose gradient[count], which is overwritten, and loss do not
 * count if it is an average. */
void dl_replay_parameters_apply(dl_replay_parameters *parameters, size_t row, void *gradient,
                                double loss);

/* Sets all of *result but its times: the parameters are the server's last ones, or the mean of the
 * workers'. Moves the points; nothing can be applied any more. */
void dl_replay_parameters_result(dl_replay_parameters *parameters, dl_train_result *result);

#endif
