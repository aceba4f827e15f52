/* What a run came to, from its workers. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/train/train_worker.h"

/* sum[i] += share * values[i] */
static void add_share(double *sum, const void *values, size_t count, dl_precision precision,
                      double share)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] += share * (precision == DL_FLOAT ? (double)((const float *)values)[i]
                                                 : ((const double *)values)[i]);
    }
}

/* Adds a worker's parameters, fetched from its device. */
static dl_status add_parameters(const dl_train_worker *worker, double *sum, double share,
                                dl_error *err)
{
    const dl_train_shared *shared = worker->shared;
    const dl_precision precision = shared->config->precision;
    void *fetched = dl_alloc_aligned(shared->bytes, "final parameters");
    dl_train_use(worker);
    shared->backend->download(fetched, dl_model_parameters(worker->model), shared->bytes);
    const dl_status status = shared->backend->wait(err);
    add_share(sum, fetched, shared->count, precision, share);
    free(fetched);
    return status;
}

/* Adds the server's parameters. */
static dl_status add_server(const dl_train_shared *shared, double *sum, dl_error *err)
{
    void *fetched = dl_alloc_aligned(shared->bytes, "final parameters");
    const dl_status status =
        dl_train_server_get(shared, fetched, shared->parameters, shared->bytes, err);
    add_share(sum, fetched, shared->count, shared->config->precision, 1);
    free(fetched);
    return status;
}

/* Behind the parameters in each worker's vector that is summed over ranks. */
enum { FIRST_LOSS, LAST_LOSS, SAMPLES_PER_S, FIGURES };

/* A vector of parameters and figures for each worker; without ranks there are none. */
static double **make_vectors(const dl_train_shared *shared)
{
    const int workers = shared->ranks != NULL ? shared->config->workers : 0;
    double **vectors = dl_calloc((size_t)workers, sizeof *vectors, "results of workers");
    for (int w = 0; w < workers; w++) {
        vectors[w] = dl_calloc(shared->count + FIGURES, sizeof *vectors[w], "results of a worker");
    }
    return vectors;
}

/* What is in `made` so far is of this process; makes it that of all. */
static dl_status add_up_over_ranks(const dl_train_shared *shared, double **vectors,
                                   dl_train_result *made, dl_error *err)
{
    const size_t count = shared->count;
    const double share = 1.0 / shared->whole->workers;
    double *sum = dl_calloc(count + FIGURES, sizeof *sum, "results of all ranks");
    for (int w = 0; w < shared->config->workers; w++) {
        vectors[w][count + FIRST_LOSS] = share * shared->workers[w].first_loss;
        vectors[w][count + LAST_LOSS] = share * shared->workers[w].last_loss;
    }
    vectors[0][count + SAMPLES_PER_S] = made->samples_per_s;
    const dl_status status = dl_train_ranks_sum(shared, vectors, count + FIGURES, sum, err);
    if (status == DL_OK) {
        memcpy(made->parameters, sum, count * sizeof *sum);
        made->first_loss = sum[count + FIRST_LOSS];
        made->last_loss = sum[count + LAST_LOSS];
        made->samples_per_s = sum[count + SAMPLES_PER_S];
    }
    free(sum);
    return status;
}

static void free_vectors(const dl_train_shared *shared, double **vectors)
{
    for (int w = 0; shared->ranks != NULL && w < shared->config->workers; w++)
        free(vectors[w]);
    free(vectors);
}

/* The workers' lists become the result's. */
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
    int64_t start_ns = INT64_MAX, end_ns = INT64_MIN, steps_done = 0;
    dl_status status = DL_OK;
    for (int w = 0; status == DL_OK && w < config->workers; w++) {
        const dl_train_worker *worker = &shared->workers[w];
        if (worker->start_ns < start_ns) start_ns = worker->start_ns;
        if (worker->end_ns > end_ns) end_ns = worker->end_ns;
        made.steps_done[w] = worker->step;
        steps_done += worker->step;
        made.first_loss += share * worker->first_loss;
        made.last_loss += share * worker->last_loss;
        if (shared->mode->server) continue;
        status = add_parameters(worker, shared->ranks != NULL ? vectors[w] : made.parameters, share,
                                err);
    }
    if (status == DL_OK && config->device != NULL) {
        dl_train_use(&shared->workers[0]);
        made.device_bytes = config->device->used_bytes();
    }
    if (shared->mode->server) status = add_server(shared, made.parameters, err);
    made.updates = dl_train_updates(&shared->workers[0], shared->workers[0].step);
    made.samples = dl_train_samples(&shared->workers[0], shared->workers[0].step);
    made.seconds = dl_ns_to_s((double)(end_ns - start_ns));
    made.samples_per_s = (double)shared->batch_per_worker * (double)steps_done / made.seconds;
    if (status == DL_OK && shared->ranks != NULL) {
        status = add_up_over_ranks(shared, vectors, &made, err);
    }
    free_vectors(shared, vectors);
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
    for (int i = 0; i < result->point_count; i++)
        free(result->points[i].parameters);
    free(result->points);
    *result = (dl_train_result){0};
}
