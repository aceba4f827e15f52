#include "profiler/run/run_meta.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/options.h"
#include "common/units.h"
#include "profiler/inject/settings.h"
#include "profiler/workload_options.h"

const char *const dl_wait_names[] = {"auto", "spin", "block", NULL};

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

int dl_run_cores(const dl_train_config *config)
{
    const int allowed = dl_cpu_count();
    return config->cores > 0 && config->cores < allowed ? config->cores : allowed;
}

dl_wait dl_run_wait(const dl_train_config *config)
{
    if (config->wait != DL_WAIT_AUTO) return config->wait;
    return config->workers <= dl_run_cores(config) ? DL_WAIT_SPIN : DL_WAIT_BLOCK;
}

static void put(dl_trace_writer *writer, const char *key, const char *format, ...) DL_PRINTF(3, 4);

static void put(dl_trace_writer *writer, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *value = dl_vformat(format, args);
    va_end(args);
    dl_trace_writer_meta(writer, key, value);
    free(value);
}

void dl_device_meta(dl_trace_writer *writer, const dl_train_config *config)
{
    int count;
    if (config->device == NULL) return;
    if (dl_train_device_count(config, &count, NULL) == DL_OK) {
        put(writer, "device_count", "%d", count);
        put(writer, "shared_gpu", "%d", count < config->workers / dl_train_rank_count(config));
    }
    put(writer, "dispatch", "%s", dl_dispatch_names[config->dispatch]);
    put(writer, "host_memory", "%s", dl_host_memory_names[config->device_settings.pageable]);
    put(writer, "math", "%s", dl_device_math_names[config->device_settings.math]);
    char *where = dl_device_where_text(config);
    put(writer, "where", "%s", where);
    free(where);
}

void dl_device_memory_meta(dl_trace_writer *writer, const dl_train_result *result)
{
    if (result->device_bytes > 0) {
        put(writer, "device_memory_bytes", "%zu", result->device_bytes);
    }
}

static void put_start(dl_trace_writer *writer)
{
    const time_t now = time(NULL);
    struct tm utc;
    char text[32];
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    put(writer, "wall_start", "%s", text);
    put(writer, "clock_start_ns", "%" PRId64, dl_clock_ns());
}

/* Whether dlprof run records this process, and how; its own trace has the same host and pid. */
static void put_process(dl_trace_writer *writer, bool on_device)
{
    char host[HOST_NAME_MAX + 1] = "";
    dl_capture_settings settings;
    dl_error err = {0};
    gethostname(host, sizeof host - 1);
    put(writer, "host", "%s", host);
    put(writer, "pid", "%d", (int)getpid());
    if (!on_device || getenv("CUDA_INJECTION64_PATH") == NULL ||
        dl_capture_settings_from_environment(&settings, environ, &err) != DL_OK ||
        settings.output[0] == '\0')
        return;
    put(writer, "captured", "%s", dl_capture_preset_names[settings.preset]);
}

void dl_run_meta_common(dl_trace_writer *writer, const char *kind, const char *command,
                        const char *data, const dl_train_config *config, const dl_run_sizes *sizes)
{
    char *device = dl_device_text(config);
    put(writer, "program", "dlprof");
    put(writer, "version", "%s", dl_version());
    put(writer, "command", "%s", command);
    put(writer, "kind", "%s", kind);
    put(writer, "model", "%s", config->model);
    put(writer, "parameters", "%zu", sizes->parameters);
    put(writer, "parameter_bytes", "%zu", sizes->parameter_bytes);
    put(writer, "optimizer", "%s", config->optimizer.name);
    put(writer, "state_bytes", "%zu", sizes->state_bytes);
    put(writer, "gradient_bytes", "%zu", sizes->gradient_bytes);
    put(writer, "activation_bytes", "%zu", sizes->activation_bytes);
    put(writer, "seed", "%" PRIu64, config->seed);
    put(writer, "data", "%s", data);
    put(writer, "device", "%s", device);
    put(writer, "cores", "%d", dl_run_cores(config));
    dl_device_meta(writer, config);
    put_process(writer, config->device != NULL);
    put_start(writer);
    free(device);
}

/* "1:2,3:1.5": the slowed workers and their factors. */
static char *slow_text(const dl_train_config *config)
{
    char *text = dl_strdup("");
    for (int w = 0; config->slow != NULL && w < config->workers; w++) {
        if (config->slow[w] <= 1) continue;
        char *longer = dl_format("%s%s%d:%g", text, text[0] != '\0' ? "," : "", w, config->slow[w]);
        free(text);
        text = longer;
    }
    return text;
}

void dl_run_meta_training(dl_trace_writer *writer, const dl_train_config *config)
{
    char *slow = slow_text(config);
    put(writer, "sync", "%s", dl_sync_names[config->sync]);
    put(writer, "compress", "%s", dl_quantise_names[config->quantise]);
    put(writer, "interval", "%d", config->interval);
    put(writer, "average_state", "%d", config->average_state);
    if (config->sync == DL_SYNC_SOFTSYNC) {
        put(writer, "n", "%d", config->softsync_n);
        put(writer, "bound", "%" PRId64, config->bound);
    }
    put(writer, "staleness_rate", "%d", config->staleness_rate);
    put(writer, "rate_drop_epochs", "%g", config->drop_epochs);
    put(writer, "server_threads", "%d", config->server_threads);
    put(writer, "workers", "%d", config->workers);
    put(writer, "batch", "%d", config->batch);
    put(writer, "steps", "%" PRId64, config->steps);
    put(writer, "slow", "%s", slow);
    put(writer, "wait", "%s", dl_wait_names[dl_run_wait(config)]);
    free(slow);
}

void dl_run_meta_disturbed(dl_trace_writer *writer, const dl_cpu_disturbance *disturbed)
{
    if (isnan(disturbed->others_frac)) return;
    put(writer, "others_permille", "%.0f", 1000 * disturbed->others_frac);
    put(writer, "steal_permille", "%.0f", 1000 * disturbed->steal_frac);
}
