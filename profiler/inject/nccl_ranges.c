#include "profiler/inject/nccl_ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/inject/capture.h"

typedef enum role { COLLECTIVE, MAKES_COMM } role;

/* The functions by number - 1. The text behind "nccl" names a COLLECTIVE. */
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
    uint8_t id; /* less NVTX_PAYLOAD_SCHEMA_ID_STATIC_START */
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

/* Id of a collective's name. The same for equal texts, so that two threads may both look it up. */
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

/* Communicators that have been told, one after the other. */
typedef struct told {
    uint64_t object;
    uint32_t rank;
    struct told *next;
} told;

static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static told *told_first;

/* Whether it is the first time that this communicator is told. */
static bool tell(uint64_t object, uint32_t rank)
{
    told *made = malloc(sizeof *made);
    pthread_mutex_lock(&told_lock);
    const told *one = told_first;
    while (one != NULL && (one->object != object || one->rank != rank))
        one = one->next;
    if (one == NULL && made != NULL) {
        *made = (told){object, rank, told_first};
        told_first = made;
    }
    pthread_mutex_unlock(&told_lock);
    if (one != NULL) free(made);
    return one == NULL;
}

void dl_nccl_comm_made(const dl_activity *comm)
{
    if (comm->object == 0 || tell(comm->object, comm->peer)) dl_capture_append(comm);
}

void dl_nccl_end(const dl_activity *range, uint32_t function, const dl_nccl_values *values,
                 int64_t end_ns)
{
    if (!has_role(function, MAKES_COMM)) return;
    if (!values->has[DL_NCCL_RANK] || !values->has[DL_NCCL_RANKS]) return;
    /* The call failed: there is no communicator. Old NCCL tells no hash at all. */
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
    dl_nccl_comm_made(&comm);
}
