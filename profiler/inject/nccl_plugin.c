#include "profiler/inject/nccl_plugin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/inject/capture.h"
#include "profiler/inject/nccl_ranges.h"
#include "profiler/inject/nvtx_open.h"

#define EXPORT __attribute__((visibility("default")))

#define TEXT_BYTES 128
#define NCCL_SYSTEM_ERROR 2 /* ncclSystemError: NCCL goes on without us */

/* Of one communicator. */
typedef struct comm_context {
    uint64_t comm; /* 0 where each event tells it */
} comm_context;

/* Work that NCCL has planned, of whatever version. */
typedef struct planned {
    uint64_t comm, sequence;
    const char *function, *type, *algorithm, *protocol; /* the last two NULL for Send and Recv */
    size_t count;
    int peer;
    unsigned channels; /* 0 = not told */
} planned;

/* Bytes of an element of a type by NCCL's name of it, 0 if it is not known. */
static size_t type_bytes(const char *type)
{
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {
        {"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},      {"ncclUint32", 4},
        {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},    {"ncclFloat32", 4},
        {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1},
    };
    for (size_t i = 0; type != NULL && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i].name) == 0) return types[i].bytes;
    return 0;
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static void record_plan(const planned *plan)
{
    char text[TEXT_BYTES];
    int used = snprintf(text, sizeof text, "%s", or_empty(plan->function));
    if (plan->algorithm != NULL && used < TEXT_BYTES)
        used += snprintf(text + used, (size_t)(TEXT_BYTES - used), " %s %s", plan->algorithm,
                         or_empty(plan->protocol));
    if (plan->channels > 0 && used < TEXT_BYTES)
        snprintf(text + used, (size_t)(TEXT_BYTES - used), " %u channel%s", plan->channels,
                 plan->channels == 1 ? "" : "s");
    const dl_activity mark = {.kind = DL_ACTIVITY_MARK,
                              .name = dl_nvtx_text_id(text),
                              .detail = dl_nvtx_text_id(DL_NCCL_PLAN_DETAIL),
                              .thread = dl_capture_thread(),
                              .object = plan->comm,
                              .bytes = plan->count * type_bytes(plan->type),
                              .peer = (uint32_t)plan->peer,
                              .count = (uint32_t)plan->sequence,
                              .start_ns = dl_capture_now()};
    dl_capture_append(&mark);
}

static int make_context(void **to, int *mask, uint64_t comm)
{
    *mask = 0;
    *to = NULL;
    if (!dl_capture_active()) return 0;
    comm_context *made = malloc(sizeof *made);
    if (made == NULL) return NCCL_SYSTEM_ERROR;
    made->comm = comm;
    *to = made;
    *mask = DL_NCCL_EVENT_COLLECTIVE | DL_NCCL_EVENT_P2P;
    return 0;
}

static int init_v5(void **to, uint64_t comm, int *mask, const char *comm_name, int nodes, int ranks,
                   int rank, void (*log)(void))
{
    (void)comm_name;
    (void)nodes;
    (void)log;
    const int error = make_context(to, mask, comm);
    if (*to == NULL) return error;
    const dl_activity made = {.kind = DL_ACTIVITY_COMM,
                              .thread = dl_capture_thread(),
                              .peer = (uint32_t)rank,
                              .count = (uint32_t)ranks,
                              .object = comm,
                              .start_ns = dl_capture_now()};
    dl_nccl_comm_made(&made);
    return 0;
}

static int init_v4(void **to, int *mask, const char *comm_name, uint64_t comm, int nodes, int ranks,
                   int rank, void (*log)(void))
{
    return init_v5(to, comm, mask, comm_name, nodes, ranks, rank, log);
}

static int init_v3(void **to, int *mask)
{
    return make_context(to, mask, 0);
}

/* NCCL stops an event only if it has a handle, and old versions tell the events of a group only if
 * the group has one. */
static void *handle_for(uint64_t type)
{
    static char group;
    return type == DL_NCCL_EVENT_GROUP ? &group : NULL;
}

static void record_collective(uint64_t comm, const dl_nccl_work *work, const dl_nccl_choice *choice)
{
    record_plan(&(planned){.comm = comm,
                           .sequence = work->sequence,
                           .function = work->function,
                           .type = work->type,
                           .algorithm = or_empty(choice->algorithm),
                           .protocol = choice->protocol,
                           .count = work->count,
                           .peer = work->root,
                           .channels = choice->channels});
}

static int start_v5_type(const comm_context *context, void **handle, void *event, uint64_t type)
{
    *handle = handle_for(type);
    if (context == NULL || !dl_capture_active()) return 0;
    if (type == DL_NCCL_EVENT_COLLECTIVE) {
        const dl_nccl_collective_v5 *call = event;
        record_collective(context->comm, &call->work, &call->choice);
    } else if (type == DL_NCCL_EVENT_P2P) {
        const dl_nccl_p2p_v5 *call = event;
        record_plan(&(planned){.comm = context->comm,
                               .function = call->function,
                               .type = call->type,
                               .count = call->count,
                               .peer = call->peer,
                               .channels = call->channels});
    }
    return 0;
}

static int start_v5(void *context, void **handle, void *event)
{
    return start_v5_type(context, handle, event, ((const dl_nccl_event *)event)->type);
}

static int start_v4(void *context, void **handle, void *event)
{
    return start_v5_type(context, handle, event, ((const dl_nccl_event *)event)->type_short);
}

static void start_p2p_v3(const dl_nccl_p2p_v3 *call)
{
    record_plan(&(planned){.comm = call->comm,
                           .function = call->function,
                           .type = call->type,
                           .count = call->count,
                           .peer = call->peer});
}

static void start_collective_v3(const void *event)
{
    const dl_nccl_collective_v3 *call = event;
    record_collective(call->comm, &call->work, &call->choice);
}

static void start_collective_v2(const void *event)
{
    const dl_nccl_collective_v2 *call = event;
    record_collective(call->comm, &call->work, &call->choice);
}

/* Versions whose events tell their communicator themselves. */
static int start_v3_type(const void *context, void **handle, void *event,
                         void (*start_collective)(const void *event))
{
    const uint8_t type = ((const dl_nccl_event *)event)->type_short;
    *handle = handle_for(type);
    if (context == NULL || !dl_capture_active()) return 0;
    if (type == DL_NCCL_EVENT_COLLECTIVE) {
        start_collective(event);
    } else if (type == DL_NCCL_EVENT_P2P) {
        start_p2p_v3(event);
    }
    return 0;
}

static int start_v3(void *context, void **handle, void *event)
{
    return start_v3_type(context, handle, event, start_collective_v3);
}

static int start_v2(void *context, void **handle, void *event)
{
    return start_v3_type(context, handle, event, start_collective_v2);
}

static int stop(void *handle)
{
    (void)handle;
    return 0;
}

static int record_state(void *handle, int state, void *arguments)
{
    (void)handle;
    (void)state;
    (void)arguments;
    return 0;
}

static int finalize(void *context)
{
    free(context);
    return 0;
}

#define NAME "dlprof"
EXPORT const dl_nccl_plugin_v5 ncclProfiler_v5 = {NAME, init_v5,      start_v5,
                                                  stop, record_state, finalize};
EXPORT const dl_nccl_plugin_v4 ncclProfiler_v4 = {NAME, init_v4,      start_v4,
                                                  stop, record_state, finalize};
EXPORT const dl_nccl_plugin_v3 ncclProfiler_v3 = {NAME, init_v3,      start_v3,
                                                  stop, record_state, finalize};
EXPORT const dl_nccl_plugin_v3 ncclProfiler_v2 = {NAME, init_v3,      start_v2,
                                                  stop, record_state, finalize};
