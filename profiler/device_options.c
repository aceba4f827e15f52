#include "profiler/device_options.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/names.h"
#include "common/units.h"
#include "kernels/device.h"

const char *const dl_host_memory_names[] = {"pinned", "pageable", NULL};

dl_device_options dl_device_options_default(void)
{
    return (dl_device_options){.device = "cpu", .where = "auto"};
}

static const dl_option own_options[DL_DEVICE_OPTION_COUNT] = {
    {.name = "device",
     .letter = 'd',
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_device_options, device),
     .argument = "DEVICE",
     .help = "cpu, cuda or cuda:NUMBER; worker w takes GPU NUMBER + w, or shares one"},
    {.name = "dispatch",
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_device_options, dispatch),
     .choices = dl_dispatch_names,
     .argument = "HOW",
     .help = "who issues work to the GPUs: a thread for each worker, or one for all"},
    {.name = "host-memory",
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_device_options, host_memory),
     .choices = dl_host_memory_names,
     .argument = "KIND",
     .help = "memory that is copied to and from GPUs"},
    {.name = "where",
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_device_options, where),
     .argument = "PLACE",
     .help = "where vectors meet: cpu, gpu:NUMBER, or allreduce between GPUs; auto is "
             "allreduce for --sync allreduce on GPUs, else cpu"},
    {.name = "compress",
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_device_options, quantise),
     .choices = dl_quantise_names,
     .argument = "TYPE",
     .help = "send gradients as half-precision numbers, or one bit each with error feedback"},
};

void dl_device_options_table(dl_device_options *options, dl_option *table)
{
    dl_options_bind(table, own_options, DL_DEVICE_OPTION_COUNT, options);
}

static const char *const where_names[] = {[DL_TRAIN_WHERE_AUTO] = "auto",
                                          [DL_TRAIN_WHERE_CPU] = "cpu",
                                          [DL_TRAIN_WHERE_GPU] = "gpu",
                                          [DL_TRAIN_WHERE_ALLREDUCE] = "allreduce"};
enum { WHERE_COUNT = DL_TRAIN_WHERE_ALLREDUCE + 1 };

/* "gpu" alone is the first worker's. */
static dl_status parse_where(const char *text, dl_train_config *config, dl_error *err)
{
    static const char gpu[] = "gpu:";
    const int found = dl_names_find(text, where_names, WHERE_COUNT);
    if (found >= 0) {
        config->where = (dl_train_where)found;
        config->where_device = config->first_device;
        return DL_OK;
    }
    int64_t number = 0;
    if (strncmp(text, gpu, sizeof gpu - 1) == 0 &&
        dl_parse_int(text + sizeof gpu - 1, 0, INT32_MAX, &number, NULL) == DL_OK) {
        config->where = DL_TRAIN_WHERE_GPU;
        config->where_device = (int)number;
        return DL_OK;
    }
    return dl_error_set(err, DL_ERR_USAGE,
                        "--where '%.64s'; must be auto, cpu, gpu, gpu:NUMBER or allreduce", text);
}

dl_status dl_device_options_apply(const dl_device_options *options, dl_train_config *config,
                                  dl_error *err)
{
    dl_device_choice choice;
    dl_status status = dl_device_parse(options->device, &choice, err);
    if (status != DL_OK) return status;
    const dl_device_type *type = NULL;
    if (choice.cuda) status = dl_device_load_cuda(&type, err);
    if (status != DL_OK) return status;
    config->device = type;
    config->first_device = choice.first;
    config->dispatch = (dl_dispatch)options->dispatch;
    config->device_settings.pageable =
        strcmp(dl_host_memory_names[options->host_memory], "pageable") == 0;
    config->quantise = (dl_quantise)options->quantise;
    return parse_where(options->where, config, err);
}

char *dl_device_text(const dl_train_config *config)
{
    char name[128];
    dl_device_info info;
    int count;
    if (config->device == NULL) return dl_strdup(dl_cpu_name(name, sizeof name));
    if (dl_train_device_count(config, &count, NULL) != DL_OK ||
        config->device->describe(config->first_device, &info, NULL) != DL_OK) {
        return dl_strdup(config->device->name);
    }
    return count == 1 ? dl_strdup(info.name) : dl_format("%d x %s", count, info.name);
}

char *dl_device_where_text(const dl_train_config *config)
{
    if (config->where == DL_TRAIN_WHERE_GPU) return dl_format("gpu:%d", config->where_device);
    return dl_strdup(where_names[dl_train_is_collective(config) ? DL_TRAIN_WHERE_ALLREDUCE
                                                                : DL_TRAIN_WHERE_CPU]);
}

static void put_number(dl_trace_writer *writer, const char *key, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    dl_trace_writer_meta(writer, key, text);
}

void dl_device_meta(dl_trace_writer *writer, const dl_train_config *config)
{
    int count;
    if (config->device == NULL) return;
    if (dl_train_device_count(config, &count, NULL) == DL_OK) {
        put_number(writer, "device_count", count);
        put_number(writer, "shared_gpu", count < config->workers / dl_train_rank_count(config));
    }
    dl_trace_writer_meta(writer, "dispatch", dl_dispatch_names[config->dispatch]);
    dl_trace_writer_meta(writer, "host_memory",
                         dl_host_memory_names[config->device_settings.pageable]);
    dl_trace_writer_meta(writer, "math", dl_device_math_names[config->device_settings.math]);
    char *where = dl_device_where_text(config);
    dl_trace_writer_meta(writer, "where", where);
    free(where);
}

void dl_device_memory_meta(dl_trace_writer *writer, const dl_train_result *result)
{
    char text[32];
    if (result->device_bytes == 0) return;
    snprintf(text, sizeof text, "%zu", result->device_bytes);
    dl_trace_writer_meta(writer, "device_memory_bytes", text);
}
