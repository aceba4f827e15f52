#include "trace/activity/activity_label.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/status.h"

static dl_chrome_arg *add(dl_activity_label *label, const char *key)
{
    DL_ASSERT(label->arg_count < DL_LABEL_ARGS_MAX, "no room for '%s'", key);
    dl_chrome_arg *arg = &label->args[label->arg_count++];
    *arg = (dl_chrome_arg){.key = key};
    return arg;
}

static void add_number(dl_activity_label *label, const char *key, double value)
{
    add(label, key)->number = value;
}

static void add_positive(dl_activity_label *label, const char *key, double value)
{
    if (value > 0) add_number(label, key, value);
}

static void add_text(dl_activity_label *label, const char *key, const char *text)
{
    if (text[0] != '\0') add(label, key)->text = text;
}

/* Identities have 64 bits; a number of JSON has 53. */
static void add_object(dl_activity_label *label, const char *key, uint64_t object)
{
    if (object == 0) return;
    snprintf(label->object_text, sizeof label->object_text, "0x%" PRIx64, object);
    add_text(label, key, label->object_text);
}

static void add_place(dl_activity_label *label, const dl_activity *activity)
{
    add_number(label, "device", activity->device);
    add_number(label, "stream", activity->stream);
    add_positive(label, "correlation", activity->correlation);
    add_positive(label, "graph id", (double)(activity->object >> 32));
    add_positive(label, "graph node id", (double)(activity->object & UINT32_MAX));
}

static void add_triple(dl_activity_label *label, const char *key, const uint32_t *numbers)
{
    dl_chrome_arg *arg = add(label, key);
    arg->numbers = numbers;
    arg->number_count = 3;
}

static void describe_kernel(dl_activity_label *label, const dl_activity *activity,
                            const dl_trace *trace, const char *short_name)
{
    const char *shape = trace->strings[activity->detail], *symbol = trace->strings[activity->name];
    uint32_t *g = label->grid, *b = label->block, shared, registers;
    label->category = "kernel";
    label->title = short_name;
    add_place(label, activity);
    int read = sscanf(shape,
                      "grid %" SCNu32 "x%" SCNu32 "x%" SCNu32 " block %" SCNu32 "x%" SCNu32
                      "x%" SCNu32 " shared %" SCNu32 " regs %" SCNu32,
                      &g[0], &g[1], &g[2], &b[0], &b[1], &b[2], &shared, &registers);
    if (read == 8) {
        add_triple(label, "grid", label->grid);
        add_triple(label, "block", label->block);
        add_number(label, "shared memory", shared);
        add_number(label, "registers per thread", registers);
    } else {
        add_text(label, "launch shape", shape);
    }
    if (strcmp(symbol, short_name) != 0) add_text(label, "symbol", symbol);
}

static void describe_copy(dl_activity_label *label, const dl_activity *activity)
{
    static const char *const directions[DL_COPY_DIRECTION_END] = {
        [DL_COPY_UNKNOWN] = "",  [DL_COPY_H2D] = " HtoD",  [DL_COPY_D2H] = " DtoH",
        [DL_COPY_D2D] = " DtoD", [DL_COPY_PEER] = " PtoP", [DL_COPY_H2H] = " HtoH"};
    static const char *const memories[DL_HOST_MEMORY_END] = {
        [DL_MEMORY_UNKNOWN] = "Host",
        [DL_MEMORY_PAGEABLE] = "Pageable",
        [DL_MEMORY_PINNED] = "Pinned",
        [DL_MEMORY_MANAGED] = "Managed",
    };
    const char *host = memories[activity->memory], *device = "Device";
    bool from_host = activity->copy == DL_COPY_H2D || activity->copy == DL_COPY_H2H;
    bool to_host = activity->copy == DL_COPY_D2H || activity->copy == DL_COPY_H2H;
    label->category = "gpu_memcpy";
    if (activity->copy == DL_COPY_UNKNOWN) {
        label->title = "Memcpy";
    } else {
        snprintf(label->title_text, sizeof label->title_text, "Memcpy%s (%s -> %s)",
                 directions[activity->copy], from_host ? host : device, to_host ? host : device);
    }
    add_place(label, activity);
    add_number(label, "bytes", (double)activity->bytes);
    if (activity->duration_ns > 0) {
        double gigabytes_a_second = (double)activity->bytes / (double)activity->duration_ns;
        add_number(label, "memory bandwidth (GB/s)", gigabytes_a_second);
    }
    if (activity->copy == DL_COPY_PEER) add_number(label, "peer device", activity->peer);
}

static void describe_call(dl_activity_label *label, const dl_activity *activity)
{
    bool is_driver = strncmp(label->title, "cu", 2) == 0 && isupper((unsigned char)label->title[2]);
    label->category = is_driver ? "cuda_driver" : "cuda_runtime";
    add_positive(label, "correlation", activity->correlation);
}

static void describe_sync(dl_activity_label *label, const dl_activity *activity)
{
    static const char *const names[][2] = {{"event", "Event Sync"},
                                           {"stream", "Stream Sync"},
                                           {"context", "Context Sync"},
                                           {"stream wait", "Stream Wait Event"}};
    label->category = "cuda_sync";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(label->title, names[i][0]) == 0) label->title = names[i][1];
    }
    add_positive(label, "stream", activity->stream);
    add_positive(label, "correlation", activity->correlation);
    add_object(label, "wait_on_cuda_event_id", activity->object);
}

static void describe_host(dl_activity_label *label, const dl_activity *activity, const char *detail)
{
    switch (activity->kind) {
    case DL_ACTIVITY_CALL: describe_call(label, activity); break;
    case DL_ACTIVITY_SYNC: describe_sync(label, activity); break;
    case DL_ACTIVITY_COLLECTIVE:
        label->category = "collective_comm";
        add_number(label, "bytes", (double)activity->bytes);
        add_object(label, "communicator", activity->object);
        add_number(label, "peer", activity->peer);
        break;
    case DL_ACTIVITY_OVERHEAD: label->category = "overhead"; break;
    default:
        label->category = "user_annotation";
        add_text(label, "domain", detail);
        break;
    }
}

void dl_activity_label_init(dl_activity_label *label, const dl_activity *activity,
                            const dl_trace *trace, const char *short_name)
{
    label->arg_count = 0;
    label->title = trace->strings[activity->name];
    label->title_text[0] = '\0';
    switch (activity->kind) {
    case DL_ACTIVITY_KERNEL: describe_kernel(label, activity, trace, short_name); break;
    case DL_ACTIVITY_MEMCPY:
        label->title = label->title_text;
        describe_copy(label, activity);
        break;
    case DL_ACTIVITY_MEMSET:
        label->category = "gpu_memset";
        label->title = "Memset (Device)";
        add_place(label, activity);
        add_number(label, "bytes", (double)activity->bytes);
        break;
    case DL_ACTIVITY_GRAPH:
        label->category = "gpu_graph";
        label->title = label->title_text;
        snprintf(label->title_text, sizeof label->title_text, "graph %" PRIu64,
                 activity->object >> 32);
        add_place(label, activity);
        break;
    default: describe_host(label, activity, trace->strings[activity->detail]); break;
    }
    if (label->title[0] == '\0') {
        label->title = dl_activity_kind_name((dl_activity_kind)activity->kind);
    }
}
