/* Points of a run: copies of the parameters on the way (dl_train_point), for training and replay. */
#ifndef DL_KERNELS_TRAIN_POINTS_H
#define DL_KERNELS_TRAIN_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/train/train.h"

typedef struct dl_train_points {
    dl_train_point *items; /* [count] */
    int count, capacity;
    double due; /* steps behind which the next one is; 0: not yet known */
    double loss_sum;
    int64_t loss_count; /* since the last point */
} dl_train_points;

/* Whether a point is due behind `steps` steps, every `every` (0: never). If so the next one is due
 * behind the next multiple of `every`. */
bool dl_train_points_due(dl_train_points *points, int64_t steps, double every);

/* The loss of a batch that was trained on. */
void dl_train_points_loss(dl_train_points *points, double loss);

/* Adds a point with everything but the loss of `point`, which is the mean since the last one. Takes
 * point->parameters over. */
void dl_train_points_add(dl_train_points *points, const dl_train_point *point);

/* Moves the points to a result, or releases them. */
void dl_train_points_take(dl_train_points *points, dl_train_result *result);
void dl_train_points_free(dl_train_points *points);

/* `count` numbers of that precision as double; free() them. */
double *dl_train_as_double(const void *values, size_t count, dl_precision precision);

/* Makes order[count] the permutation of `epoch` that every worker of a run with that seed draws. */
void dl_train_shuffle(uint64_t seed, int64_t epoch, uint32_t *order, uint32_t count);

/* What the learning rate is multiplied with where gradients of `samples` of a set of `count` have
 * been applied before (config.drop_epochs); and of a gradient that is so many updates stale. */
double dl_train_rate_factor(const dl_train_config *config, size_t count, int64_t samples);
double dl_train_staleness_rate(int64_t staleness);

#endif
