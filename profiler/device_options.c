#include "profiler/device_options.h"

#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "kernels/device.h"

const char *const dl_host_memory_names[] = {"pinned", "pageable", NULL};

dl_device_options dl_device_options_default(void)
{
    return (dl_device_options){.device = "cpu"};
}

void dl_device_options_table(dl_device_options *options, dl_option *table)
{
    const dl_option made[DL_DEVICE_OPTION_COUNT] = {
        {.name = "device",
         .letter = 'd',
         .type = DL_OPTION_TEXT,
         .target = &options->device,
         .argument = "DEVICE",
         .help = "cpu, cuda or cuda:NUMBER; worker w takes GPU NUMBER + w, or shares one"},
        {.name = "dispatch",
         .type = DL_OPTION_CHOICE,
         .target = &options->dispatch,
         .choices = dl_dispatch_names,
         .argument = "HOW",
         .help = "who issues work to the GPUs: a thread for each worker, or one for all"},
        {.name = "host-memory",
         .type = DL_OPTION_CHOICE,
         .target = &options->host_memory,
         .choices = dl_host_memory_names,
         .argument = "KIND",
         .help = "memory that is copied to and from GPUs"},
        {.name = "tf32",
         .type = DL_OPTION_FLAG,
         .target = &options->tf32,
         .help = "let a GPU round factors to TensorFloat-32"},
    };
    memcpy(table, made, sizeof made);
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
    config->device_settings.tf32 = options->tf32;
    return DL_OK;
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
        put_number(writer, "shared_gpu", count < config->workers);
    }
    dl_trace_writer_meta(writer, "dispatch", dl_dispatch_names[config->dispatch]);
    dl_trace_writer_meta(writer, "host_memory",
                         dl_host_memory_names[config->device_settings.pageable]);
    put_number(writer, "tf32", config->device_settings.tf32);
}
