/* Settings of training: defaults, names and checks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/random.h"
#include "kernels/model_table.h"
#include "kernels/train/train_internal.h"

const char *const dl_dispatch_names[] = {[DL_DISPATCH_THREADS] = "threads",
                                         [DL_DISPATCH_SINGLE] = "single",
                                         [DL_DISPATCH_SINGLE + 1] = NULL};

int dl_train_cores(const dl_train_config *config)
{
    const int allowed = dl_cpu_count();
    return config->cores > 0 && config->cores < allowed ? config->cores : allowed;
}

dl_wait dl_train_wait(const dl_train_config *config)
{
    if (config->wait != DL_WAIT_AUTO) return config->wait;
    return config->workers * config->threads <= dl_train_cores(config) ? DL_WAIT_SPIN
                                                                       : DL_WAIT_BLOCK;
}

const char *const dl_train_work_names[] = {[DL_TRAIN_WORK_NONE] = "none",
                                           [DL_TRAIN_WORK_UNIFORM] = "uniform",
                                           [DL_TRAIN_WORK_TWO_POINT] = "two-point",
                                           [DL_TRAIN_WORK_LOGNORMAL] = "lognormal",
                                           [DL_TRAIN_WORK_LOGNORMAL + 1] = NULL};

#define SQRT_3 1.7320508075688772

/* `point` of the random streams for samples per step (common/random.h), unused by the orders of
 * epochs; and the 32-bit numbers drawn per step. */
#define WORK_POINT ((1U << 21) - 1)
#define WORK_NUMBERS 4

/* The largest allowed spread of a kind. */
static double most_spread(dl_train_work_kind kind)
{
    switch (kind) {
    case DL_TRAIN_WORK_UNIFORM: return 1 / SQRT_3;
    case DL_TRAIN_WORK_TWO_POINT: return 0.999;
    case DL_TRAIN_WORK_LOGNORMAL: return 1;
    case DL_TRAIN_WORK_NONE: break;
    }
    return 0;
}

static int rounded(double samples)
{
    return samples < 1 ? 1 : (int)lround(samples);
}

int dl_train_step_samples(const dl_train_config *config, int worker, int64_t step)
{
    const double mean = (double)config->batch / config->workers, spread = config->work.spread;
    const double variance = log1p(spread * spread);
    if (config->work.kind == DL_TRAIN_WORK_NONE) return config->batch / config->workers;
    dl_random stream;
    dl_random_init(&stream, config->seed, 0, WORK_POINT, (uint32_t)worker);
    dl_random_seek(&stream, (uint64_t)step * WORK_NUMBERS);
    double factor = 1;
    switch (config->work.kind) {
    case DL_TRAIN_WORK_UNIFORM:
        factor += SQRT_3 * spread * (2 * dl_random_uniform(&stream) - 1);
        break;
    case DL_TRAIN_WORK_TWO_POINT:
        factor += dl_random_uniform(&stream) < 0.5 ? -spread : spread;
        break;
    case DL_TRAIN_WORK_LOGNORMAL:
        factor = exp(-variance / 2 + sqrt(variance) * dl_random_normal(&stream));
        break;
    case DL_TRAIN_WORK_NONE: break;
    }
    return rounded(mean * fmin(factor, DL_TRAIN_WORK_MAX));
}

int dl_train_most_samples(const dl_train_config *config)
{
    const double mean = (double)config->batch / config->workers, spread = config->work.spread;
    switch (config->work.kind) {
    case DL_TRAIN_WORK_UNIFORM: return rounded(mean * (1 + SQRT_3 * spread));
    case DL_TRAIN_WORK_TWO_POINT: return rounded(mean * (1 + spread));
    case DL_TRAIN_WORK_LOGNORMAL: return rounded(mean * DL_TRAIN_WORK_MAX);
    case DL_TRAIN_WORK_NONE: break;
    }
    return config->batch / config->workers;
}

bool dl_train_stopped(const dl_train_config *config)
{
    return config->stop != NULL && atomic_load_explicit(config->stop, memory_order_relaxed);
}

dl_status dl_train_event_names(const dl_train_config *config, const char ***names, int *count,
                               dl_error *err)
{
    static const char *const own[DL_TRAIN_NAME_COUNT] = {
        [DL_TRAIN_NAME_INPUT] = "input",           [DL_TRAIN_NAME_GRADIENTS] = "gradients",
        [DL_TRAIN_NAME_PARAMETERS] = "parameters", [DL_TRAIN_NAME_STATE] = "state",
        [DL_TRAIN_NAME_BARRIER] = "barrier",       [DL_TRAIN_NAME_LOCK] = "lock",
        [DL_TRAIN_NAME_SLOWDOWN] = "slowdown",     [DL_TRAIN_NAME_QUANTISE] = "quantise",
        [DL_TRAIN_NAME_DEQUANTISE] = "dequantise", [DL_TRAIN_NAME_STEP] = "step",
    };
    const dl_model_table *table = NULL;
    const dl_status status = dl_model_table_find(&table, config->model, err);
    if (status != DL_OK) return status;
    *count = table->layer_count + DL_TRAIN_NAME_COUNT;
    const char **list = dl_calloc((size_t)*count, sizeof *list, "names of events");
    for (int op = 0; op < table->layer_count; op++)
        list[op] = table->layers[op].name;
    memcpy(list + table->layer_count, own, sizeof own);
    *names = list;
    return DL_OK;
}

static dl_status check_workers(const dl_train_config *config, dl_error *err)
{
    if (config->batch % config->workers != 0) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "batch %d cannot be shared equally by %d workers; must be a multiple "
                            "of the number of workers",
                            config->batch, config->workers);
    }
    if (config->threads > DL_TRAIN_WORKERS_MAX / config->workers) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d threads for each of %d workers; must be at most %d in total",
                            config->threads, config->workers, DL_TRAIN_WORKERS_MAX);
    }
    if (config->threads > 1 && config->device != NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "%d threads per worker; --threads is only for the processor",
                            config->threads);
    }
    if (config->first_core < 0) {
        return dl_error_set(err, DL_ERR_RANGE, "first core %d; must be 0 or more",
                            config->first_core);
    }
    if (config->cores < 0 || config->cores > dl_cpu_count()) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d cores; this process may use 1 to %d (0 means all of them)",
                            config->cores, dl_cpu_count());
    }
    for (int w = 0; config->slow != NULL && w < config->workers; w++) {
        if (config->slow[w] >= 1 && isfinite(config->slow[w])) continue;
        return dl_error_set(err, DL_ERR_RANGE, "slowdown factor %g of worker %d; must be 1 or more",
                            config->slow[w], w);
    }
    return DL_OK;
}

static dl_status check_work(const dl_train_config *config, dl_error *err)
{
    const dl_train_work *work = &config->work;
    const double most = most_spread(work->kind);
    if (work->kind == DL_TRAIN_WORK_NONE) return DL_OK;
    if (config->device != NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "drawn numbers of samples (--work) are supported on the processor "
                            "only");
    }
    if (work->spread > 0 && work->spread <= most) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "--work with a %s spread of %g; must be above 0 and at most %g",
                        dl_train_work_names[work->kind], work->spread, most);
}

static dl_status check_dispatch(const dl_train_config *config, dl_error *err)
{
    if (config->dispatch != DL_DISPATCH_SINGLE) return DL_OK;
    if (config->device == NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "--dispatch single needs a GPU");
    }
    if (config->sync == DL_SYNC_ASYNC || config->sync == DL_SYNC_SOFTSYNC) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "%s needs a thread for each worker; a single thread would run them "
                            "one after another",
                            dl_sync_names[config->sync]);
    }
    if (config->server_threads > 1) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d server threads; must be 1 with --dispatch single",
                            config->server_threads);
    }
    return DL_OK;
}

static dl_status check_device(const dl_train_config *config, dl_error *err)
{
    if (config->device == NULL && config->devices > 0) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "--gpus needs a GPU (--device)");
    }
    if (config->device == NULL && config->device_settings.math != DL_DEVICE_MATH_FP32) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "precision %s needs a GPU; the processor computes in float or double",
                            dl_device_math_names[config->device_settings.math]);
    }
    if (config->device == NULL) return DL_OK;
    int count;
    if (config->precision != config->device->backend->precision) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "device %s computes in %s only",
                            config->device->name,
                            config->precision == DL_DOUBLE ? "float" : "double");
    }
    return dl_train_device_count(config, &count, err);
}

dl_status dl_train_device_count(const dl_train_config *config, int *count, dl_error *err)
{
    int all = 0;
    const dl_status status = config->device->count(&all, err);
    if (status != DL_OK) return status;
    if (config->first_device < 0 || config->first_device >= all) {
        return dl_error_set(err, DL_ERR_RANGE, "no device %s:%d; there %s %d, counted from 0",
                            config->device->name, config->first_device, all == 1 ? "is" : "are",
                            all);
    }
    int rest = all - config->first_device;
    if (config->devices < 0 || config->devices > rest) {
        return dl_error_set(err, DL_ERR_RANGE, "%d devices from %s:%d on; there %s %d",
                            config->devices, config->device->name, config->first_device,
                            rest == 1 ? "is" : "are", rest);
    }
    if (config->devices > 0) rest = config->devices;
    const int workers = config->workers / dl_train_rank_count(config);
    *count = workers < rest ? workers : rest;
    return DL_OK;
}

static bool is_of_processor(dl_quantise kind)
{
    return kind == DL_QUANTISE_INT8 || kind == DL_QUANTISE_TOPK || kind == DL_QUANTISE_FP4;
}

static dl_status check_message(const dl_train_config *config, dl_error *err)
{
    if (config->device != NULL && is_of_processor(config->quantise)) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "%s messages are supported on the processor only; GPUs support fp16 "
                            "and 1bit",
                            dl_quantise_names[config->quantise]);
    }
    if (config->quantise == DL_QUANTISE_TOPK &&
        !(config->topk_frac > 0 && config->topk_frac <= 1)) {
        return dl_error_set(err, DL_ERR_RANGE, "topk fraction %g; must be above 0 and at most 1",
                            config->topk_frac);
    }
    return DL_OK;
}

static dl_status check_where(const dl_train_config *config, dl_error *err)
{
    const bool exchanges_gradients =
        config->sync != DL_SYNC_NONE && config->sync != DL_SYNC_AVERAGE;
    const char *mode = dl_sync_names[config->sync];
    int devices = 0;
    if (config->quantise != DL_QUANTISE_NONE && exchanges_gradients &&
        dl_train_is_collective(config)) {
        return dl_error_set(
            err, DL_ERR_UNSUPPORTED,
            "NCCL cannot sum compressed messages; %s with --where cpu or gpu:N decompresses them "
            "first",
            mode);
    }
    if (config->quantise != DL_QUANTISE_NONE && config->sync == DL_SYNC_NONE) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "mode none sends nothing to compress; ps, allreduce, async and "
                            "softsync send gradients, average parameters");
    }
    dl_status status = check_message(config, err);
    if (status != DL_OK) return status;
    if (config->where < DL_TRAIN_WHERE_GPU) return DL_OK;
    if (config->device == NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "without a GPU (--device cuda), vectors are exchanged in host memory "
                            "only (--where cpu)");
    }
    if (config->where == DL_TRAIN_WHERE_ALLREDUCE) {
        if (dl_train_is_collective(config)) return DL_OK;
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "--where allreduce needs --sync allreduce or average, not %s; "
                            "servers are at cpu or gpu:N",
                            mode);
    }
    if (config->sync == DL_SYNC_NONE) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "--where gpu:N needs a mode that exchanges vectors, not none");
    }
    status = config->device->count(&devices, err);
    if (status != DL_OK) return status;
    if (config->where_device < 0 || config->where_device >= devices) {
        return dl_error_set(err, DL_ERR_RANGE, "no device %s:%d to exchange on; there %s %d",
                            config->device->name, config->where_device, devices == 1 ? "is" : "are",
                            devices);
    }
    if (config->server_threads > 1) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d server threads; must be 1 if a GPU is the server",
                            config->server_threads);
    }
    if (config->staleness_rate) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "--staleness-rate needs a server on the processor (--where cpu)");
    }
    return DL_OK;
}

static dl_status check_server(const dl_train_config *config, dl_error *err)
{
    if (config->sync == DL_SYNC_SOFTSYNC && config->softsync_n > config->workers) {
        return dl_error_set(err, DL_ERR_RANGE, "softsync's n is %d; must be 1 to %d, the workers",
                            config->softsync_n, config->workers);
    }
    if (!config->staleness_rate) return DL_OK;
    if (strcmp(config->optimizer.name, "sgd") != 0) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "--staleness-rate needs --optimizer sgd; steps of %s do not scale "
                            "with the gradient",
                            config->optimizer.name);
    }
    return DL_OK;
}

/* Checks the settings of an average against each other. */
static dl_status check_division(const dl_train_config *config, dl_error *err)
{
    if (config->interval % config->fragments != 0) {
        return dl_error_set(err, DL_ERR_RANGE, "%d fragments; must divide the interval of %d steps",
                            config->fragments, config->interval);
    }
    if (config->lag >= config->interval) {
        return dl_error_set(err, DL_ERR_RANGE, "lag %d; must be less than the interval of %d steps",
                            config->lag, config->interval);
    }
    if (config->sites != 0 && config->workers % config->sites != 0) {
        return dl_error_set(err, DL_ERR_RANGE, "%d sites; must divide the number of workers, %d",
                            config->sites, config->workers);
    }
    return DL_OK;
}

static dl_status check_by_speed(const dl_train_config *config, dl_error *err)
{
    const bool divided = config->fragments > 1, late = config->lag > 0;
    if (divided || late || config->sites != 0) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "--interval-by-speed cannot be combined with %s",
                            divided ? "--fragments"
                            : late  ? "--lag"
                                    : "--sites");
    }
    if (config->steps % config->interval != 0) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%lld steps; with --interval-by-speed, must be a multiple of the "
                            "interval of %d steps",
                            (long long)config->steps, config->interval);
    }
    return DL_OK;
}

/* Checks an average: its fragments, their merging, their messages. */
static dl_status check_average(const dl_train_config *config, dl_error *err)
{
    const bool quantised = config->quantise != DL_QUANTISE_NONE, late = config->lag > 0;
    const bool divided = config->fragments > 1, two_levels = config->sites != 0;
    if (config->sync != DL_SYNC_AVERAGE) return DL_OK;
    dl_status status = check_division(config, err);
    if (status == DL_OK && config->interval_by_speed) status = check_by_speed(config, err);
    if (status != DL_OK) return status;
    if (!quantised && !late && !divided && !two_levels && !config->interval_by_speed) return DL_OK;
    if (config->device != NULL) {
        return dl_error_set(
            err, DL_ERR_UNSUPPORTED,
            "--fragments, --lag, --sites, --interval-by-speed and --compress of averages are "
            "supported on the processor only");
    }
    if (config->average_state && (quantised || late)) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "--average-state cannot be combined with %s%s",
                            late ? "--lag" : "--compress ",
                            late ? "" : dl_quantise_names[config->quantise]);
    }
    return DL_OK;
}

/* Checks the settings of async_average. */
static dl_status check_merge(const dl_train_config *config, dl_error *err)
{
    if (config->sync != DL_SYNC_ASYNC_AVERAGE) return DL_OK;
    if (config->device != NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "async_average runs on the processor only");
    }
    if (config->quantise != DL_QUANTISE_NONE) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "async_average sends parameters uncompressed, not as %s",
                            dl_quantise_names[config->quantise]);
    }
    if (config->evaluate_every > 0) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "async_average is evaluated at the end only, not during the run");
    }
    return dl_merge_check(&config->merge, config->workers, err);
}

static dl_status check_outer(const dl_train_config *config, dl_error *err)
{
    if (config->outer.kind == DL_OUTER_NONE) return DL_OK;
    if (dl_train_is_collective(config) || config->where == DL_TRAIN_WHERE_GPU) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "--outer needs averages in host memory (--where cpu)");
    }
    return DL_OK;
}

dl_status dl_train_check_config(const dl_train_config *config, dl_error *err)
{
    dl_status status = dl_train_check_limits(config, err);
    if (status == DL_OK) status = check_workers(config, err);
    if (status == DL_OK && config->ranks != NULL) {
        status = dl_train_check_ranks(config, dl_train_rank_count(config), err);
    }
    if (status == DL_OK) status = check_device(config, err);
    if (status == DL_OK) status = check_work(config, err);
    if (status == DL_OK) status = check_dispatch(config, err);
    if (status != DL_OK) return status;
    status = dl_train_check_modes(config, false, err);
    if (status == DL_OK) status = check_average(config, err);
    if (status != DL_OK) return status;
    if ((config->sync == DL_SYNC_AVERAGE || config->sync == DL_SYNC_PS) &&
        config->server_threads > config->workers) {
        return dl_error_set(err, DL_ERR_RANGE, "%d server threads; must be 1 to %d, the workers",
                            config->server_threads, config->workers);
    }
    if (!(config->evaluate_every >= 0)) {
        return dl_error_set(err, DL_ERR_RANGE, "%g steps between evaluations; must be 0 or more",
                            config->evaluate_every);
    }
    status = check_where(config, err);
    if (status == DL_OK) status = check_merge(config, err);
    if (status == DL_OK) status = check_outer(config, err);
    return status == DL_OK ? check_server(config, err) : status;
}

dl_status dl_train_check(const dl_train_config *config, const dl_data_set *data, dl_error *err)
{
    const dl_status status = dl_train_check_config(config, err);
    return status == DL_OK ? dl_train_check_data(data, config->model, err) : status;
}

dl_status dl_train_check_data(const dl_data_set *data, const char *model, dl_error *err)
{
    const dl_model_table *table = NULL;
    const dl_status status = dl_model_table_find(&table, model, err);
    if (status != DL_OK) return status;
    if (data->count < 1 || data->count > UINT32_MAX) {
        return dl_error_set(err, DL_ERR_DATA, "data set '%s' has %zu samples; must be 1 to %u",
                            data->name, data->count, UINT32_MAX);
    }
    if (data->sample_bytes != dl_shape_count(table->in) ||
        data->classes != dl_model_table_classes(table)) {
        return dl_error_set(err, DL_ERR_DATA,
                            "data set '%s' has samples of %zu values in %d classes, but model '%s' "
                            "takes %zu in %d",
                            data->name, data->sample_bytes, data->classes, model,
                            dl_shape_count(table->in), dl_model_table_classes(table));
    }
    return DL_OK;
}

bool dl_train_is_collective(const dl_train_config *config)
{
    const bool unsaid = config->where == DL_TRAIN_WHERE_AUTO;
    if (config->device == NULL) return false;
    if (config->sync == DL_SYNC_AVERAGE) return config->where == DL_TRAIN_WHERE_ALLREDUCE;
    return config->sync == DL_SYNC_ALLREDUCE &&
           (unsaid || config->where == DL_TRAIN_WHERE_ALLREDUCE);
}

int dl_train_rank_count(const dl_train_config *config)
{
    return config->ranks != NULL ? config->ranks->size : 1;
}

dl_status dl_train_check_ranks(const dl_train_config *config, int ranks, dl_error *err)
{
    const char *mode = dl_sync_names[config->sync];
    if (config->workers % ranks != 0) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d workers cannot be shared equally by %d ranks; the total number "
                            "of workers must be a multiple of the number of ranks",
                            config->workers, ranks);
    }
    if (config->sync == DL_SYNC_NONE) {
        return dl_error_set(
            err, DL_ERR_UNSUPPORTED,
            "mode none exchanges nothing between ranks; use allreduce or average, or --ranks off "
            "for separate runs");
    }
    if (config->sync != DL_SYNC_ALLREDUCE && config->sync != DL_SYNC_AVERAGE) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "%s needs a server in the memory of one process; between ranks only "
                            "allreduce and average are supported",
                            mode);
    }
    if (config->where == DL_TRAIN_WHERE_GPU) {
        return dl_error_set(
            err, DL_ERR_UNSUPPORTED,
            "--where gpu:N is for one process; ranks exchange in host memory (cpu) or between "
            "GPUs (allreduce)");
    }
    if (config->quantise != DL_QUANTISE_NONE && config->sync != DL_SYNC_AVERAGE) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "gradients cannot be compressed between ranks");
    }
    if (config->sites % ranks != 0) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d sites over %d ranks; a site is within one rank, so the number of "
                            "sites must be a multiple of the number of ranks",
                            config->sites, ranks);
    }
    if (config->sites > 0 && config->lag > 0) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "--sites over several ranks cannot be combined with --lag");
    }
    if (config->server_threads != 1) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d server threads; must be 1 over several ranks, each of which "
                            "exchanges with one thread",
                            config->server_threads);
    }
    return DL_OK;
}

int dl_train_gradients_per_update(const dl_train_config *config)
{
    return config->sync == DL_SYNC_SOFTSYNC ? config->workers / config->softsync_n : 1;
}

void dl_train_shuffle(uint64_t seed, int64_t epoch, uint32_t *order, uint32_t count)
{
    dl_random stream;
    dl_random_init(&stream, seed, 0, (uint32_t)epoch, 0);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    dl_random_shuffle(&stream, order, count);
}

void dl_train_reader_init(dl_train_reader *reader, const dl_data_set *data, uint64_t seed,
                          int share)
{
    *reader = (dl_train_reader){
        .data = data,
        .seed = seed,
        .share = share,
        .order = dl_calloc(data->count, sizeof *reader->order, "order of samples"),
        .samples = dl_calloc((size_t)share, sizeof *reader->samples, "samples of a batch")};
    dl_train_shuffle(seed, 0, reader->order, (uint32_t)data->count);
}

void dl_train_reader_free(dl_train_reader *reader)
{
    free(reader->order);
    free(reader->samples);
}

void dl_train_reader_fill(dl_train_reader *reader, dl_model *model, int64_t first, int samples)
{
    const dl_data_set *data = reader->data;
    const int64_t count = (int64_t)data->count;
    for (int i = 0; i < samples; i++) {
        const int64_t epoch = (first + i) / count;
        if (epoch != reader->epoch) {
            dl_train_shuffle(reader->seed, epoch, reader->order, (uint32_t)count);
            reader->epoch = epoch;
        }
        reader->samples[i] = reader->order[(first + i) % count];
    }
    dl_data_set_batch(data, reader->samples, samples, dl_model_precision(model),
                      dl_model_input(model), dl_model_labels(model));
}

int dl_train_senders(const dl_train_config *config)
{
    return config->sites > 0 ? config->sites : config->workers;
}

int dl_train_interval_of(const dl_train_config *whole, int worker)
{
    if (!whole->interval_by_speed || whole->slow == NULL) return whole->interval;
    double fastest = whole->slow[0];
    for (int w = 1; w < whole->workers; w++)
        fastest = fmin(fastest, whole->slow[w]);
    const double own = round(whole->interval * fastest / whole->slow[worker]);
    return own > 1 ? (int)own : 1;
}

int64_t dl_train_own_steps(const dl_train_worker *worker, int64_t steps)
{
    const int interval = worker->shared->config->interval;
    return worker->interval == interval ? steps : steps / interval * worker->interval;
}

int64_t dl_train_run_steps(const dl_train_worker *worker, int64_t own_steps)
{
    const int interval = worker->shared->config->interval;
    return worker->interval == interval ? own_steps : own_steps / worker->interval * interval;
}

bool dl_train_keeps_start(const dl_train_config *config)
{
    return config->sync == DL_SYNC_AVERAGE &&
           (config->outer.kind != DL_OUTER_NONE || config->quantise != DL_QUANTISE_NONE);
}
