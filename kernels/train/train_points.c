#include "kernels/train/train_points.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "kernels/train/train_worker.h"

bool dl_train_points_due(dl_train_points *points, int64_t steps, double every)
{
    if (every == 0) return false;
    if (points->due == 0) points->due = every;
    /* A millionth of a step earlier: multiples of a quotient may lie that far beside a whole. */
    const double reached = (double)steps + 1e-6;
    if (reached < points->due) return false;
    points->due = (floor(reached / every) + 1) * every;
    return true;
}

void dl_train_points_loss(dl_train_points *points, double loss)
{
    points->loss_sum += loss;
    points->loss_count++;
}

void dl_train_points_add(dl_train_points *points, const dl_train_point *point)
{
    if (points->count == points->capacity) {
        points->capacity = 2 * points->capacity + 16;
        points->items = dl_realloc(points->items, (size_t)points->capacity, sizeof *points->items,
                                   "points of a run");
    }
    dl_train_point *added = &points->items[points->count++];
    *added = *point;
    added->loss =
        points->loss_count > 0 ? points->loss_sum / (double)points->loss_count : (double)NAN;
    points->loss_sum = 0;
    points->loss_count = 0;
}

void dl_train_points_take(dl_train_points *points, dl_train_result *result)
{
    result->points = points->items;
    result->point_count = points->count;
    *points = (dl_train_points){0};
}

void dl_train_points_free(dl_train_points *points)
{
    for (int i = 0; i < points->count; i++)
        free(points->items[i].parameters);
    free(points->items);
    *points = (dl_train_points){0};
}

double *dl_train_as_double(const void *values, size_t count, dl_precision precision)
{
    double *made = dl_calloc(count, sizeof *made, "parameters of a point");
    for (size_t i = 0; i < count; i++) {
        made[i] = precision == DL_FLOAT ? (double)((const float *)values)[i]
                                        : ((const double *)values)[i];
    }
    return made;
}

static bool has_versions(const dl_train_shared *shared)
{
    return shared->mode->server && shared->mode->free_running;
}

int64_t dl_train_updates(const dl_train_worker *worker, int64_t steps)
{
    return has_versions(worker->shared) ? worker->read_version : steps;
}

int64_t dl_train_samples(const dl_train_worker *worker, int64_t steps)
{
    const dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    if (has_versions(shared)) {
        return worker->read_version * dl_train_gradients_an_update(config) *
               shared->batch_per_worker;
    }
    return steps * (config->sync == DL_SYNC_NONE ? shared->batch_per_worker : shared->whole->batch);
}

/* The worker's parameters on the host. A failure of the device ends the run at the next step. */
static double *fetch(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    void *fetched = dl_alloc_aligned(shared->bytes, "parameters of a point");
    shared->backend->download(fetched, dl_model_parameters(worker->model), shared->bytes);
    dl_train_settle(worker);
    double *made = dl_train_as_double(fetched, shared->count, shared->config->precision);
    free(fetched);
    return made;
}

bool dl_train_note_point(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    const int64_t steps = worker->step + 1;
    if (config->evaluate_every == 0 || worker->index != 0) return false;
    dl_train_points_loss(&shared->points, dl_model_loss(worker->model));
    if (config->sync == DL_SYNC_AVERAGE && steps % config->interval != 0) return true;
    if (!dl_train_points_due(&shared->points, steps, config->evaluate_every)) return true;
    dl_train_points_add(&shared->points,
                        &(dl_train_point){.update = dl_train_updates(worker, steps),
                                          .samples = dl_train_samples(worker, steps),
                                          .simulated_s = (double)NAN,
                                          .parameters = fetch(worker)});
    return true;
}
