/* Result of a run: points on the way, the final parameters, the accuracy of a trained model. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/train/train.h"
#include "kernels/train/train_internal.h"

bool dl_train_points_due(dl_train_points *points, int64_t steps, double every)
{
    if (every == 0) return false;
    if (points->due == 0) points->due = every;
    /* Tolerance of a millionth of a step: a multiple of a rounded quotient may be that much off a
     * whole number. */
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
    dl_train_point *added = &DL_APPEND(points->items, points->count, "points of a run");
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

/* Whether the final parameters are the server's or the syncer's. */
static bool has_last_version(const dl_train_shared *shared)
{
    return shared->mode->server || shared->mode->syncer;
}

int64_t dl_train_updates(const dl_train_worker *worker, int64_t steps)
{
    if (worker->shared->syncer != NULL) return dl_train_syncer_version(worker->shared);
    return has_versions(worker->shared) ? worker->read_version : dl_train_run_steps(worker, steps);
}

int64_t dl_train_samples(const dl_train_worker *worker, int64_t steps)
{
    const dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    if (has_versions(shared)) {
        return worker->read_version * dl_train_gradients_per_update(config) *
               shared->batch_per_worker;
    }
    if (config->interval_by_speed) {
        int64_t in_round = 0;
        for (int w = 0; w < shared->whole->workers; w++)
            in_round += dl_train_interval_of(shared->whole, w);
        return steps / worker->interval * in_round * shared->batch_per_worker;
    }
    return steps * (config->sync == DL_SYNC_NONE ? shared->batch_per_worker : shared->whole->batch);
}

/* sum[i] += share * values[i] */
static void add_share(double *sum, const void *values, size_t count, dl_precision precision,
                      double share)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] += share * (precision == DL_FLOAT ? (double)((const float *)values)[i]
                                                 : ((const double *)values)[i]);
    }
}

/* Adds share x the server's parameters (`worker` NULL), or those of a worker from its device. */
static dl_status add_parameters(const dl_train_shared *shared, const dl_train_worker *worker,
                                double *sum, double share, dl_error *err)
{
    dl_status status;
    DL_AUTOFREE void *fetched = dl_alloc_aligned(shared->bytes, "final parameters");
    if (worker == NULL) {
        status = dl_train_server_get(shared, fetched, shared->parameters, shared->bytes, err);
    } else {
        dl_train_use(worker);
        shared->backend->download(fetched, dl_model_parameters(worker->model), shared->bytes);
        status = shared->backend->wait(err);
    }
    add_share(sum, fetched, shared->count, shared->config->precision, share);
    return status;
}

/* Figures that follow the parameters in each worker's vector, which is summed over ranks. */
enum { FIRST_LOSS, LAST_LOSS, SAMPLES_PER_S, FIGURES };

/* Makes a vector of parameters and figures for each worker; none without ranks. */
static double **make_vectors(const dl_train_shared *shared)
{
    const int workers = shared->ranks != NULL ? shared->config->workers : 0;
    double **vectors = dl_calloc((size_t)workers, sizeof *vectors, "results of workers");
    for (int w = 0; w < workers; w++) {
        vectors[w] = dl_calloc(shared->count + FIGURES, sizeof *vectors[w], "results of a worker");
    }
    return vectors;
}

/* Turns `made`, the result of this process, into the result of all ranks. */
static dl_status add_up_over_ranks(const dl_train_shared *shared, double **vectors,
                                   dl_train_result *made, dl_error *err)
{
    const size_t count = shared->count;
    const double share = 1.0 / shared->whole->workers;
    DL_AUTOFREE double *sum = dl_calloc(count + FIGURES, sizeof *sum, "results of all ranks");
    for (int w = 0; w < shared->config->workers; w++) {
        vectors[w][count + FIRST_LOSS] = share * shared->workers[w].first_loss;
        vectors[w][count + LAST_LOSS] = share * shared->workers[w].last_loss;
    }
    vectors[0][count + SAMPLES_PER_S] = made->samples_per_s;
    const dl_status status =
        shared->ranks->sum(shared->ranks, sum, (const void *const *)vectors,
                           shared->config->workers, 1, count + FIGURES, DL_DOUBLE, err);
    if (status == DL_OK) {
        memcpy(made->parameters, sum, count * sizeof *sum);
        made->first_loss = sum[count + FIRST_LOSS];
        made->last_loss = sum[count + LAST_LOSS];
        made->samples_per_s = sum[count + SAMPLES_PER_S];
    }
    return status;
}

static void free_vectors(const dl_train_shared *shared, double **vectors)
{
    for (int w = 0; shared->ranks != NULL && w < shared->config->workers; w++)
        free(vectors[w]);
    free(vectors);
}

/* Moves the workers' lists of durations to the result. */
static void take_durations(dl_train_shared *shared, dl_train_result *result)
{
    result->worker_count = shared->config->workers;
    result->step_ns =
        dl_calloc((size_t)result->worker_count, sizeof *result->step_ns, "durations of steps");
    for (int w = 0; w < result->worker_count; w++) {
        result->step_ns[w] = shared->workers[w].step_ns;
        shared->workers[w].step_ns = NULL;
    }
}

dl_status dl_train_make_result(dl_train_shared *shared, dl_train_result *result, dl_error *err)
{
    const dl_train_config *config = shared->config;
    const double share = 1.0 / shared->whole->workers;
    double **vectors = make_vectors(shared);
    dl_train_result made = {.parameter_count = shared->count};
    made.parameters = dl_calloc(shared->count, sizeof *made.parameters, "final parameters");
    made.steps_done = dl_calloc((size_t)config->workers, sizeof *made.steps_done, "steps done");
    int64_t start_ns = INT64_MAX, end_ns = INT64_MIN, samples_done = 0;
    dl_status status = DL_OK;
    for (int w = 0; status == DL_OK && w < config->workers; w++) {
        const dl_train_worker *worker = &shared->workers[w];
        if (worker->start_ns < start_ns) start_ns = worker->start_ns;
        if (worker->end_ns > end_ns) end_ns = worker->end_ns;
        made.steps_done[w] = worker->step;
        samples_done += worker->samples_done;
        made.first_loss += share * worker->first_loss;
        made.last_loss += share * worker->last_loss;
        if (has_last_version(shared)) continue;
        status = add_parameters(shared, worker,
                                shared->ranks != NULL ? vectors[w] : made.parameters, share, err);
    }
    if (status == DL_OK && config->device != NULL) {
        dl_train_use(&shared->workers[0]);
        made.device_bytes = config->device->used_bytes();
    }
    if (has_last_version(shared)) status = add_parameters(shared, NULL, made.parameters, 1, err);
    made.updates = dl_train_updates(&shared->workers[0], shared->workers[0].step);
    made.samples = dl_train_samples(&shared->workers[0], shared->workers[0].step);
    made.seconds = dl_ns_to_s((double)(end_ns - start_ns));
    made.samples_per_s = (double)samples_done / made.seconds;
    if (status == DL_OK && shared->ranks != NULL) {
        status = add_up_over_ranks(shared, vectors, &made, err);
    }
    free_vectors(shared, vectors);
    if (status == DL_OK && shared->syncer != NULL) {
        dl_train_syncer_take(shared, &made);
        made.samples = made.uploads.applied * config->interval * shared->batch_per_worker;
    }
    if (status == DL_OK) {
        dl_train_points_take(&shared->points, &made);
        take_durations(shared, &made);
        *result = made;
    } else {
        free(made.parameters);
        free(made.steps_done);
    }
    return status;
}

void dl_train_result_free(dl_train_result *result)
{
    free(result->parameters);
    for (int w = 0; w < result->worker_count; w++)
        free(result->step_ns[w]);
    free(result->step_ns);
    free(result->steps_done);
    free(result->merge_events);
    dl_train_points_free(&(dl_train_points){.items = result->points, .count = result->point_count});
    *result = (dl_train_result){0};
}

/* Samples per forward pass of dl_train_accuracy: at most ACCURACY_BATCH, and no more than fit into
 * ACCURACY_BYTES (ResNet-50 keeps 91 MB per sample). */
#define ACCURACY_BATCH 200
#define ACCURACY_BYTES ((size_t)1 << 30)

/* Copies the parameters into a model of single precision for predictions. */
static void set_parameters(dl_model *model, const double *parameters)
{
    float *to = dl_model_parameters(model);
    const size_t count = dl_model_parameter_count(model);
    for (size_t i = 0; i < count; i++)
        to[i] = (float)parameters[i];
}

/* Creates a model for batches of *batch samples, a number that fits into ACCURACY_BYTES. */
static dl_status create_for_accuracy(dl_model **model, const char *name, int *batch, dl_error *err)
{
    const dl_status status = dl_model_create(model, name, DL_FLOAT, 1, 0, err);
    if (status != DL_OK) return status;
    const dl_model_memory memory = dl_model_memory_use(*model);
    const size_t most =
        ACCURACY_BYTES / (memory.activation_bytes + memory.activation_gradient_bytes + 1);
    *batch = most < 1 ? 1 : most > ACCURACY_BATCH ? ACCURACY_BATCH : (int)most;
    dl_model_destroy(*model);
    *model = NULL;
    return dl_model_create(model, name, DL_FLOAT, *batch, 0, err);
}

dl_status dl_train_accuracy(const char *model_name, const double *parameters,
                            const dl_data_set *data, double *accuracy, dl_error *err)
{
    dl_model *model = NULL;
    int most = 0;
    dl_status status = create_for_accuracy(&model, model_name, &most, err);
    if (status == DL_OK) status = dl_train_check_data(data, model_name, err);
    if (status != DL_OK) {
        dl_model_destroy(model);
        return status;
    }
    set_parameters(model, parameters);
    uint32_t order[ACCURACY_BATCH];
    size_t right = 0;
    for (size_t done = 0; done < data->count;) {
        const size_t rest = data->count - done;
        const int batch = rest < (size_t)most ? (int)rest : most;
        for (int i = 0; i < batch; i++)
            order[i] = (uint32_t)(done + (size_t)i);
        dl_data_set_batch(data, order, batch, DL_FLOAT, dl_model_input(model),
                          dl_model_labels(model));
        for (int op = 0; op < dl_model_operation_count(model); op++) {
            dl_model_forward(model, op, batch);
        }
        right += (size_t)dl_model_correct(model);
        done += (size_t)batch;
    }
    dl_model_destroy(model);
    *accuracy = (double)right / (double)data->count;
    return DL_OK;
}

bool dl_train_diverged(const dl_train_result *result)
{
    return !isfinite(result->last_loss);
}
