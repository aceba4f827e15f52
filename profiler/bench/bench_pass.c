/* Time of a forward and backward pass by the GPU's clock. The pass is enqueued while the GPU is
 * held, so that the GPU never waits for the host. Training times an operation from the end of the
 * previous one, which for short operations is their launch time. */
#include "common/units.h"
#include "kernels/model.h"
#include "profiler/bench/bench_internal.h"

#define ROUNDS_MIN 5
#define ROUNDS_MAX 200

/* A replica of the model on the GPU, ready for passes of one batch size. */
typedef struct replica {
    const dl_device_type *type;
    dl_device *device;
    dl_model *model;
    int batch;
    bool scaled; /* the loss is scaled (fp16) */
} replica;

static void launch_pass(const replica *r)
{
    dl_model_pass(r->model, r->batch);
    if (r->scaled)
        r->type->unscale(dl_model_gradients(r->model), dl_model_parameter_count(r->model));
}

static dl_status open_replica(const dl_train_config *train, replica *r, dl_error *err)
{
    dl_status status = r->type->open(&r->device, train->first_device, &train->device_settings, err);
    if (status != DL_OK) return status;
    r->type->use(r->device);
    status =
        dl_model_create_on(&r->model, train->model, r->type->backend, r->batch, train->seed, err);
    if (status != DL_OK) return status;
    /* In this pass the libraries choose algorithms and load all their kernels. */
    dl_model_upload(r->model, r->batch);
    launch_pass(r);
    return r->type->backend->wait(err);
}

static void close_replica(replica *r)
{
    if (r->device == NULL) return;
    r->type->use(r->device);
    dl_model_destroy(r->model);
    r->type->close(r->device);
}

static dl_status time_pass(dl_bench *bench, const replica *r, dl_error *err)
{
    r->type->hold();
    r->type->mark(0);
    launch_pass(r);
    r->type->mark(1);
    const int64_t start_ns = dl_clock_ns();
    r->type->let_go();
    const dl_status status = r->type->backend->wait(err);
    if (status != DL_OK) return status;
    dl_bench_add(bench, DL_BENCH_PASS,
                 (dl_record){.samples = (uint32_t)r->batch,
                             .vectors = 1,
                             .threads = 1,
                             .start_ns = start_ns,
                             .duration_ns = (int64_t)(r->type->between_ns(0, 1) + 0.5)});
    return DL_OK;
}

dl_status dl_bench_pass(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                        dl_error *err)
{
    const dl_train_config *train = &config->train;
    dl_status status = DL_OK;
    for (int b = 0; status == DL_OK && b < config->batch_count; b++) {
        replica r = {.type = train->device,
                     .batch = config->batches[b],
                     .scaled = train->device_settings.math == DL_DEVICE_MATH_FP16};
        status = open_replica(train, &r, err);
        const int64_t until_ns = dl_clock_ns() + budget_ns / config->batch_count;
        for (int round = 0; status == DL_OK && round < ROUNDS_MAX; round++) {
            if (dl_train_stopped(train) || (round >= ROUNDS_MIN && dl_clock_ns() > until_ns)) break;
            status = time_pass(bench, &r, err);
        }
        close_replica(&r);
        dl_progress_update(&bench->progress, (double)(b + 1) / config->batch_count);
    }
    return status;
}
