#include "profiler/inject/nccl.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/inject/capture.h"
#include "profiler/inject/nvtx_open.h"

typedef enum role { COLLECTIVE, MAKES_COMM } role;

/* NCCL's functions; function number n has index n - 1. The text after "nccl" becomes the name of a
 * COLLECTIVE. */
static const struct {
    const char *name;
    role role;
} functions[] = {
    {"ncclAllReduce", COLLECTIVE},
    {"ncclAllGather", COLLECTIVE},
    {"ncclReduceScatter", COLLECTIVE},
    {"ncclBroadcast", COLLECTIVE},
    {"ncclBcast", COLLECTIVE},
    {"ncclReduce", COLLECTIVE},
    {"ncclAlltoAll", COLLECTIVE},
    {"ncclGather", COLLECTIVE},
    {"ncclScatter", COLLECTIVE},
    {"ncclSend", COLLECTIVE},
    {"ncclRecv", COLLECTIVE},
    {"ncclCommInitRank", MAKES_COMM},
    {"ncclCommInitRankConfig", MAKES_COMM},
    {"ncclCommInitRankScalable", MAKES_COMM},
    {"ncclCommInitAll", MAKES_COMM},
    {"ncclCommSplit", MAKES_COMM},
    {"ncclCommShrink", MAKES_COMM},
};

#define FUNCTION_COUNT (sizeof functions / sizeof functions[0])

_Static_assert(FUNCTION_COUNT < DL_NCCL_FUNCTION_LIMIT, "numbers fit");

/* Names of the entries in NCCL's schemas; a field may have two. */
static const struct {
    const char *name;
    dl_nccl_field field;
} entry_names[] = {
    {"NCCL communicator ID", DL_NCCL_COMM},
    {"Message size [bytes]", DL_NCCL_BYTES},
    {"Root", DL_NCCL_PEER},
    {"Peer rank", DL_NCCL_PEER},
    {"No. of ranks", DL_NCCL_RANKS},
    {"Rank", DL_NCCL_RANK},
    {"CUDA device", DL_NCCL_DEVICE},
};

/* NCCL's structures by its fixed schema ids, in the order of dl_nccl_field. */
#define ENTRY(at, size, how)                                               \
    {                                                                      \
        .name = (char *)"", .offset = (at), .bytes = (size), .form = (how) \
    }

static dl_payload_entry call_entries[] = {
    ENTRY(0, 8, DL_PAYLOAD_UNSIGNED),
    ENTRY(8, 8, DL_PAYLOAD_UNSIGNED),
    ENTRY(16, 4, DL_PAYLOAD_SIGNED),
};
static dl_payload_entry comm_entries[] = {
    ENTRY(0, 8, DL_PAYLOAD_UNSIGNED),
    ENTRY(8, 4, DL_PAYLOAD_SIGNED),
    ENTRY(12, 4, DL_PAYLOAD_SIGNED),
    ENTRY(16, 4, DL_PAYLOAD_SIGNED),
};
static const dl_payload_layout call_layout = {.entries = call_entries, .count = 3};
static const dl_payload_layout comm_layout = {.entries = comm_entries, .count = 4};
static const dl_nccl_fields call_fields = {{0, 1, -1, -1, -1, -1}};
static const dl_nccl_fields rooted_fields = {{0, 1, 2, -1, -1, -1}};
static const dl_nccl_fields comm_fields = {{0, -1, -1, 1, 2, 3}};

static const struct {
    uint8_t id; /* schema id less NVTX_PAYLOAD_SCHEMA_ID_STATIC_START */
    const dl_payload_layout *layout;
    const dl_nccl_fields *fields;
} fixed[] = {
    {0, &comm_layout, &comm_fields},    /* CommInitRank */
    {4, &call_layout, &call_fields},    /* AllGather */
    {5, &call_layout, &call_fields},    /* AllReduce */
    {6, &call_layout, &rooted_fields},  /* Broadcast */
    {7, &call_layout, &call_fields},    /* ReduceScatter */
    {8, &call_layout, &rooted_fields},  /* Reduce */
    {9, &call_layout, &rooted_fields},  /* Send */
    {10, &call_layout, &rooted_fields}, /* Recv */
    {11, &comm_layout, &comm_fields},   /* CommInitRankConfig */
    {12, &comm_layout, &comm_fields},   /* CommInitRankScalable */
    {16, &call_layout, &call_fields},   /* AlltoAll */
    {17, &call_layout, &rooted_fields}, /* Gather */
    {18, &call_layout, &rooted_fields}, /* Scatter */
};

dl_nccl_fields dl_nccl_fields_find(const dl_payload_layout *layout)
{
    dl_nccl_fields fields;
    for (int f = 0; f < DL_NCCL_FIELD_COUNT; f++)
        fields.index[f] = -1;
    for (size_t i = 0; i < sizeof entry_names / sizeof entry_names[0]; i++) {
        const int found = dl_payload_find(layout, entry_names[i].name);
        if (found >= 0) fields.index[entry_names[i].field] = found;
    }
    return fields;
}

void dl_nccl_read(dl_nccl_values *values, const dl_payload_layout *layout,
                  const dl_nccl_fields *fields, const nvtxPayloadData_t *payload)
{
    for (size_t i = 0; layout == NULL && i < sizeof fixed / sizeof fixed[0]; i++) {
        if (payload->schemaId != (uint64_t)NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + fixed[i].id)
            continue;
        layout = fixed[i].layout;
        fields = fixed[i].fields;
    }
    for (int f = 0; layout != NULL && f < DL_NCCL_FIELD_COUNT; f++)
        values->has[f] |= dl_payload_read(layout, fields->index[f], payload, &values->value[f]);
}

uint32_t dl_nccl_function(const char *name)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (strcmp(name, functions[i].name) == 0) return (uint32_t)i + 1;
    return 0;
}

static bool has_role(uint32_t function, role wanted)
{
    return function > 0 && function <= FUNCTION_COUNT && functions[function - 1].role == wanted;
}

/* Id of a collective's name. Equal texts have equal ids, so two threads may both look it up. */
static uint32_t collective_name(uint32_t function)
{
    static _Atomic uint32_t ids[FUNCTION_COUNT];
    uint32_t id = atomic_load_explicit(&ids[function - 1], memory_order_relaxed);
    if (id == 0) {
        id = dl_capture_intern(functions[function - 1].name + strlen("nccl"));
        atomic_store_explicit(&ids[function - 1], id, memory_order_relaxed);
    }
    return id;
}

void dl_nccl_begin(dl_activity *range, uint32_t function, const dl_nccl_values *values)
{
    if (!has_role(function, COLLECTIVE)) return;
    range->kind = DL_ACTIVITY_COLLECTIVE;
    range->name = collective_name(function);
    range->detail = 0;
    range->bytes = values->value[DL_NCCL_BYTES];
    range->object = values->value[DL_NCCL_COMM];
    range->peer = (uint32_t)values->value[DL_NCCL_PEER];
}

/* List of the communicators reported so far. */
typedef struct reported_comm {
    uint64_t object;
    uint32_t rank;
    struct reported_comm *next;
} reported_comm;

static pthread_mutex_t reported_lock = PTHREAD_MUTEX_INITIALIZER;
static reported_comm *reported_first;

/* Whether this rank of the communicator is reported for the first time. */
static bool is_new_comm(uint64_t object, uint32_t rank)
{
    reported_comm *made = malloc(sizeof *made);
    pthread_mutex_lock(&reported_lock);
    const reported_comm *one = reported_first;
    while (one != NULL && (one->object != object || one->rank != rank))
        one = one->next;
    if (one == NULL && made != NULL) {
        *made = (reported_comm){object, rank, reported_first};
        reported_first = made;
    }
    pthread_mutex_unlock(&reported_lock);
    if (one != NULL) free(made);
    return one == NULL;
}

/* Records the COMM unless its communicator and rank are recorded already: NVTX and the plugin both
 * report it. */
static void nccl_comm_made(const dl_activity *comm)
{
    if (comm->object == 0 || is_new_comm(comm->object, comm->peer)) dl_capture_append(comm);
}

void dl_nccl_end(const dl_activity *range, uint32_t function, const dl_nccl_values *values,
                 int64_t end_ns)
{
    if (!has_role(function, MAKES_COMM)) return;
    if (!values->has[DL_NCCL_RANK] || !values->has[DL_NCCL_RANKS]) return;
    /* The call failed: there is no communicator. Old NCCL reports no hash at all. */
    if (values->has[DL_NCCL_COMM] && values->value[DL_NCCL_COMM] == 0) return;
    const dl_activity comm = {
        .kind = DL_ACTIVITY_COMM,
        .thread = range->thread,
        .device = (uint32_t)values->value[DL_NCCL_DEVICE],
        .peer = (uint32_t)values->value[DL_NCCL_RANK],
        .count = (uint32_t)values->value[DL_NCCL_RANKS],
        .object = values->value[DL_NCCL_COMM],
        .start_ns = end_ns,
    };
    nccl_comm_made(&comm);
}

#define EXPORT __attribute__((visibility("default")))

#define TEXT_BYTES 128
#define NCCL_SYSTEM_ERROR 2 /* ncclSystemError: NCCL continues without the plugin */

/* Context of one communicator. */
typedef struct comm_context {
    uint64_t comm; /* 0: each event contains the communicator */
} comm_context;

/* Work planned by NCCL, in any version. */
typedef struct planned {
    uint64_t comm, sequence;
    const char *function, *type, *algorithm, *protocol; /* the last two are NULL for Send and
                                                         * Recv */
    size_t count;
    int peer;
    unsigned channels; /* 0 = not reported */
} planned;

/* Bytes of an element of a type by NCCL's name of it, 0 if unknown. */
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
    nccl_comm_made(&made);
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

/* NCCL stops an event only if it has a handle, and old versions report the events of a group only
 * if the group has one. */
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

/* Starts an event of versions 2 and 3, whose events contain the communicator. */
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
