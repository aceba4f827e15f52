/* NCCL's calls, read from its NVTX domain, as activities.
 *
 * NCCL wraps each public function in a range of its domain "NCCL", named as the function. Ranges of
 * collectives and of Send and Recv carry the communicator's hash, the bytes of one rank and the
 * root or peer: they become COLLECTIVE activities instead of RANGEs. Functions that make a
 * communicator give its hash, rank and size when the range ends: then a COMM activity is recorded
 * beside the RANGE. Fields are found by the names of the schema's entries (as in NCCL 2.28.9;
 * earlier versions have fewer, and missing ones stay 0); without a registered schema, by the ids
 * and structures that NCCL fixes in src/include/nvtx.h. */
#ifndef DL_PROFILER_INJECT_NCCL_RANGES_H
#define DL_PROFILER_INJECT_NCCL_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "profiler/inject/nvtx_payload.h"
#include "trace/activity/activity.h"

#define DL_NCCL_DOMAIN "NCCL"

typedef enum dl_nccl_field {
    DL_NCCL_COMM,
    DL_NCCL_BYTES,
    DL_NCCL_PEER, /* root or peer */
    DL_NCCL_RANKS,
    DL_NCCL_RANK,
    DL_NCCL_DEVICE, /* CUDA ordinal */
    DL_NCCL_FIELD_COUNT
} dl_nccl_field;

/* Index of the schema entry of each field, or -1. */
typedef struct dl_nccl_fields {
    int index[DL_NCCL_FIELD_COUNT];
} dl_nccl_fields;

/* Values read from payloads. */
typedef struct dl_nccl_values {
    uint64_t value[DL_NCCL_FIELD_COUNT];
    bool has[DL_NCCL_FIELD_COUNT];
} dl_nccl_values;

/* Finds the fields by the entries' names. */
dl_nccl_fields dl_nccl_fields_find(const dl_payload_layout *layout);

/* Adds the values in `payload` to *values, by its schema's layout and fields; both NULL if the
 * schema is not known. */
void dl_nccl_read(dl_nccl_values *values, const dl_payload_layout *layout,
                  const dl_nccl_fields *fields, const nvtxPayloadData_t *payload);

/* Returns the number of the NCCL function `name` ("ncclAllReduce"), below DL_NCCL_FUNCTION_LIMIT; 0
 * if unknown. */
uint32_t dl_nccl_function(const char *name);

#define DL_NCCL_FUNCTION_LIMIT 256

/* Turns a RANGE that starts in the NCCL domain into a COLLECTIVE if it is one. */
void dl_nccl_begin(dl_activity *range, uint32_t function, const dl_nccl_values *values);

/* Records the COMM, if any, that the range's function has made by end_ns. */
void dl_nccl_end(const dl_activity *range, uint32_t function, const dl_nccl_values *values,
                 int64_t end_ns);

/* The NCCL profiler plugin: one table per version of the interface; NCCL looks them up by name in
 * the file NCCL_PROFILER_PLUGIN and uses the newest that it supports. The plugin is the only source
 * of the algorithm and protocol that NCCL chose, which the names of its kernels do not show.
 *
 *   communicator made         COMM, unless NVTX has reported it already (versions 5 and 4)
 *   work handed to a kernel   MARK with the text "AllReduce RING LL128 8 channels", detail
 *                             DL_NCCL_PLAN_DETAIL, object = communicator, bytes of one rank,
 *                             peer = root or peer, count = number of a collective in its
 *                             communicator (low 32 bits), which is the same on all ranks; 0 for
 *                             Send and Recv
 *
 * The declarations follow the structures that NCCL documents (plugins/profiler in its repository):
 * versions 5 (NCCL 2.28) to 2 (2.24). Version 1 (2.23 only) reports function, algorithm and
 * protocol by numbers internal to that release and is not supported. */
#define DL_NCCL_PLAN_DETAIL "NCCL plan"

/* Kinds of events, as bits of NCCL's activation mask; only those used here. */
#define DL_NCCL_EVENT_GROUP (1 << 0)
#define DL_NCCL_EVENT_COLLECTIVE (1 << 1)
#define DL_NCCL_EVENT_P2P (1 << 2)

/* First members of all event descriptors. */
typedef struct dl_nccl_event {
    union {
        uint64_t type;      /* in version 5 */
        uint8_t type_short; /* in versions 2 to 4 */
    };
    void *parent;
    int rank;
} dl_nccl_event;

/* Operation of a collective, and the method that NCCL chose for it. */
typedef struct dl_nccl_work {
    uint64_t sequence;
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *type; /* "ncclFloat32" */
} dl_nccl_work;

typedef struct dl_nccl_choice {
    uint8_t channels, warps;
    const char *algorithm, *protocol;
} dl_nccl_choice;

/* A collective in versions 5 and 4, 3, 2; Send and Recv likewise. NCCL's descriptors continue
 * beyond these declarations. */
typedef struct dl_nccl_collective_v5 {
    dl_nccl_event event;
    dl_nccl_work work;
    dl_nccl_choice choice;
} dl_nccl_collective_v5;

typedef struct dl_nccl_collective_v3 {
    dl_nccl_event event;
    const char *comm_name;
    uint64_t comm;
    dl_nccl_work work;
    dl_nccl_choice choice;
} dl_nccl_collective_v3;

typedef struct dl_nccl_collective_v2 {
    dl_nccl_event event;
    const char *comm_name;
    uint64_t comm;
    dl_nccl_work work;
    size_t traffic_bytes;
    dl_nccl_choice choice;
} dl_nccl_collective_v2;

typedef struct dl_nccl_p2p_v5 {
    dl_nccl_event event;
    const char *function;
    void *buffer;
    const char *type;
    size_t count;
    int peer;
    uint8_t channels;
} dl_nccl_p2p_v5;

typedef struct dl_nccl_p2p_v3 { /* also version 2 */
    dl_nccl_event event;
    const char *comm_name;
    uint64_t comm;
    const char *function;
    void *buffer;
    const char *type;
    size_t count;
    int peer;
} dl_nccl_p2p_v3;

/* Remaining members of a table. The functions return 0, ncclSuccess. `log` is NCCL's logger, which
 * is not used. */
#define DL_NCCL_PLUGIN_REST                                        \
    int (*start)(void *context, void **handle, void *event);       \
    int (*stop)(void *handle);                                     \
    int (*record_state)(void *handle, int state, void *arguments); \
    int (*finalize)(void *context)

typedef struct dl_nccl_plugin_v5 {
    const char *name;
    int (*init)(void **context, uint64_t comm, int *mask, const char *comm_name, int nodes,
                int ranks, int rank, void (*log)(void));
    DL_NCCL_PLUGIN_REST;
} dl_nccl_plugin_v5;

typedef struct dl_nccl_plugin_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm, int nodes,
                int ranks, int rank, void (*log)(void));
    DL_NCCL_PLUGIN_REST;
} dl_nccl_plugin_v4;

typedef struct dl_nccl_plugin_v3 { /* and version 2 */
    const char *name;
    int (*init)(void **context, int *mask);
    DL_NCCL_PLUGIN_REST;
} dl_nccl_plugin_v3;

extern const dl_nccl_plugin_v5 ncclProfiler_v5;
extern const dl_nccl_plugin_v4 ncclProfiler_v4;
extern const dl_nccl_plugin_v3 ncclProfiler_v3, ncclProfiler_v2;

#endif
