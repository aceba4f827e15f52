#include "profiler/run/run_meta.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/options.h"
#include "common/units.h"
#include "profiler/inject/settings.h"
#include "profiler/workload_options.h"

dl_status dl_run_sizes_find(const dl_train_config *config, dl_run_sizes *sizes, dl_error *err)
{
    dl_model *model = NULL;
    dl_optimizer *optimizer = NULL;
    dl_status status = dl_model_create(&model, config->model, config->precision, 1, 0, err);
    if (status != DL_OK) return status;
    const size_t count = dl_model_parameter_count(model);
    status = dl_optimizer_create(&optimizer, &config->optimizer, config->precision, count, err);
    if (status == DL_OK) {
        size_t state_count;
        dl_optimizer_state(optimizer, &state_count);
        sizes->parameters = count;
        sizes->parameter_bytes = dl_model_parameter_bytes(model);
        sizes->state_bytes = state_count * (sizes->parameter_bytes / count);
        const dl_model_memory memory = dl_model_memory_use(model);
        sizes->gradient_bytes = memory.gradient_bytes;
        sizes->activation_bytes = memory.activation_bytes + memory.activation_gradient_bytes;
    }
    dl_optimizer_destroy(optimizer);
    dl_model_destroy(model);
    return status;
}

void dl_device_meta(dl_trace_writer *writer, const dl_train_config *config)
{
    int count;
    if (config->device == NULL) return;
    if (dl_train_device_count(config, &count, NULL) == DL_OK) {
        dl_trace_writer_metaf(writer, "device_count", "%d", count);
        dl_trace_writer_metaf(writer, "shared_gpu", "%d",
                              count < config->workers / dl_train_rank_count(config));
    }
    dl_trace_writer_metaf(writer, "dispatch", "%s", dl_dispatch_names[config->dispatch]);
    dl_trace_writer_metaf(writer, "host_memory", "%s",
                          dl_host_memory_names[config->device_settings.pageable]);
    dl_trace_writer_metaf(writer, "math", "%s", dl_device_math_names[config->device_settings.math]);
    DL_AUTOFREE char *where = dl_device_where_text(config);
    dl_trace_writer_metaf(writer, "where", "%s", where);
}

void dl_device_memory_meta(dl_trace_writer *writer, const dl_train_result *result)
{
    if (result->device_bytes > 0) {
        dl_trace_writer_metaf(writer, "device_memory_bytes", "%zu", result->device_bytes);
    }
}

static void put_start(dl_trace_writer *writer)
{
    const time_t now = time(NULL);
    struct tm utc;
    char text[32];
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    dl_trace_writer_metaf(writer, "wall_start", "%s", text);
    dl_trace_writer_metaf(writer, "clock_start_ns", "%" PRId64, dl_clock_ns());
}

/* Writes host and pid, which dlprof run's trace of this process has too, and its preset if it
 * records this process. */
static void put_process(dl_trace_writer *writer, bool on_device)
{
    char host[HOST_NAME_MAX + 1] = "";
    dl_capture_settings settings;
    dl_error err = {0};
    gethostname(host, sizeof host - 1);
    dl_trace_writer_metaf(writer, "host", "%s", host);
    dl_trace_writer_metaf(writer, "pid", "%d", (int)getpid());
    if (!on_device || getenv("CUDA_INJECTION64_PATH") == NULL ||
        dl_capture_settings_from_environment(&settings, environ, &err) != DL_OK ||
        settings.output[0] == '\0')
        return;
    dl_trace_writer_metaf(writer, "captured", "%s", dl_capture_preset_names[settings.preset]);
}

void dl_run_meta_common(dl_trace_writer *writer, const char *kind, const char *command,
                        const char *data, const dl_train_config *config, const dl_run_sizes *sizes)
{
    DL_AUTOFREE char *device = dl_device_text(config);
    dl_trace_writer_metaf(writer, "program", "dlprof");
    dl_trace_writer_metaf(writer, "version", "%s", dl_version());
    dl_trace_writer_metaf(writer, "command", "%s", command);
    dl_trace_writer_metaf(writer, "kind", "%s", kind);
    dl_trace_writer_metaf(writer, "model", "%s", config->model);
    dl_trace_writer_metaf(writer, "precision", "%s", dl_precision_text(config));
    dl_trace_writer_metaf(writer, "parameters", "%zu", sizes->parameters);
    dl_trace_writer_metaf(writer, "parameter_bytes", "%zu", sizes->parameter_bytes);
    dl_trace_writer_metaf(writer, "optimizer", "%s", config->optimizer.name);
    dl_trace_writer_metaf(writer, "state_bytes", "%zu", sizes->state_bytes);
    dl_trace_writer_metaf(writer, "gradient_bytes", "%zu", sizes->gradient_bytes);
    dl_trace_writer_metaf(writer, "activation_bytes", "%zu", sizes->activation_bytes);
    dl_trace_writer_metaf(writer, "seed", "%" PRIu64, config->seed);
    dl_trace_writer_metaf(writer, "data", "%s", data);
    dl_trace_writer_metaf(writer, "device", "%s", device);
    dl_trace_writer_metaf(writer, "cores", "%d", dl_train_cores(config));
    dl_device_meta(writer, config);
    put_process(writer, config->device != NULL);
    put_start(writer);
}

/* Returns the slowed workers and their factors as "1:2,3:1.5". free() it. */
static char *slow_text(const dl_train_config *config)
{
    char *text = dl_strdup("");
    for (int w = 0; config->slow != NULL && w < config->workers; w++) {
        if (config->slow[w] <= 1) continue;
        dl_extend(&text, "%s%d:%g", text[0] != '\0' ? "," : "", w, config->slow[w]);
    }
    return text;
}

void dl_run_meta_training(dl_trace_writer *writer, const dl_train_config *config)
{
    DL_AUTOFREE char *slow = slow_text(config);
    dl_trace_writer_metaf(writer, "sync", "%s", dl_sync_names[config->sync]);
    dl_trace_writer_metaf(writer, "compress", "%s", dl_quantise_names[config->quantise]);
    if (config->quantise == DL_QUANTISE_TOPK) {
        dl_trace_writer_metaf(writer, "topk_frac", "%g", config->topk_frac);
    }
    dl_trace_writer_metaf(writer, "interval", "%d", config->interval);
    if (config->interval_by_speed) dl_trace_writer_metaf(writer, "interval_by_speed", "1");
    dl_trace_writer_metaf(writer, "average_state", "%d", config->average_state);
    if (config->sites > 0) {
        dl_trace_writer_metaf(writer, "inside", "allreduce");
        dl_trace_writer_metaf(writer, "sites", "%d", config->sites);
    }
    dl_trace_writer_metaf(writer, "fragments", "%d", config->fragments);
    dl_trace_writer_metaf(writer, "lag", "%d", config->lag);
    dl_trace_writer_metaf(writer, "mixing", "%g", config->mixing);
    if (config->outer.kind != DL_OUTER_NONE) {
        dl_trace_writer_metaf(writer, "outer", "%s", dl_outer_names[config->outer.kind]);
        dl_trace_writer_metaf(writer, "outer_rate", "%g", config->outer.rate);
        dl_trace_writer_metaf(writer, "outer_momentum", "%g", config->outer.momentum);
    }
    if (config->sync == DL_SYNC_SOFTSYNC) {
        dl_trace_writer_metaf(writer, "n", "%d", config->softsync_n);
        dl_trace_writer_metaf(writer, "bound", "%" PRId64, config->bound);
    }
    if (config->sync == DL_SYNC_ASYNC_AVERAGE) {
        const dl_merge_config *merge = &config->merge;
        dl_trace_writer_metaf(writer, "bound", "%" PRId64, config->bound);
        dl_trace_writer_metaf(writer, "quorum", "%d", merge->quorum);
        dl_trace_writer_metaf(writer, "quorum_max", "%d", merge->quorum_max);
        dl_trace_writer_metaf(writer, "grace_s", "%g", merge->grace_s);
        dl_trace_writer_metaf(writer, "grace", "%s", dl_merge_grace_names[merge->adaptive]);
        dl_trace_writer_metaf(writer, "scan_s", "%g", merge->scan_s);
        dl_trace_writer_metaf(writer, "weight_power", "%g", merge->weight_power);
        dl_trace_writer_metaf(writer, "wait_s", "%g", merge->wait_s);
    }
    dl_trace_writer_metaf(writer, "staleness_rate", "%d", config->staleness_rate);
    dl_trace_writer_metaf(writer, "rate_drop_epochs", "%g", config->drop_epochs);
    dl_trace_writer_metaf(writer, "server_threads", "%d", config->server_threads);
    dl_trace_writer_metaf(writer, "workers", "%d", config->workers);
    if (config->threads > 1) dl_trace_writer_metaf(writer, "worker_threads", "%d", config->threads);
    dl_trace_writer_metaf(writer, "batch", "%d", config->batch);
    dl_trace_writer_metaf(writer, "steps", "%" PRId64, config->steps);
    dl_trace_writer_metaf(writer, "slow", "%s", slow);
    if (config->work.kind != DL_TRAIN_WORK_NONE) {
        dl_trace_writer_metaf(writer, "work", "%s:%g", dl_train_work_names[config->work.kind],
                              config->work.spread);
    }
    dl_trace_writer_metaf(writer, "wait", "%s", dl_wait_names[dl_train_wait(config)]);
}

void dl_run_meta_uploads(dl_trace_writer *writer, const dl_merge_counts *uploads)
{
    dl_trace_writer_metaf(writer, "uploads_applied", "%" PRId64, uploads->applied);
    dl_trace_writer_metaf(writer, "uploads_too_stale", "%" PRId64, uploads->too_stale);
    dl_trace_writer_metaf(writer, "uploads_superseded", "%" PRId64, uploads->superseded);
    dl_trace_writer_metaf(writer, "uploads_unmerged", "%" PRId64, uploads->unmerged);
    dl_trace_writer_metaf(writer, "merges", "%" PRId64, uploads->merges);
}

void dl_run_meta_disturbed(dl_trace_writer *writer, const dl_cpu_disturbance *disturbed)
{
    if (isnan(disturbed->others_frac)) return;
    dl_trace_writer_metaf(writer, "others_permille", "%.0f", 1000 * disturbed->others_frac);
    dl_trace_writer_metaf(writer, "steal_permille", "%.0f", 1000 * disturbed->steal_frac);
}
