/* What NCCL says about its calls in its NVTX domain, as activities.
 *
 * NCCL wraps each public function in a range of its domain "NCCL", named as the function. Those of
 * collectives and of Send and Recv carry the communicator's hash, the bytes of one rank and the
 * root or peer: they become COLLECTIVE activities instead of RANGEs. Functions that make a
 * communicator tell its hash, rank and size when the range ends: a COMM activity is recorded beside
 * the RANGE then. The fields are found by the names of the schema's entries (as in NCCL 2.28.9;
 * earlier versions have fewer of them, and what is missing stays 0); where a schema was not
 * registered, by the ids and structures that NCCL fixes in src/include/nvtx.h.
 */
#ifndef DL_PROFILER_INJECT_NCCL_RANGES_H
#define DL_PROFILER_INJECT_NCCL_RANGES_H

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

/* Where a schema has them: entry index or -1. */
typedef struct dl_nccl_fields {
    int index[DL_NCCL_FIELD_COUNT];
} dl_nccl_fields;

/* What payloads said. */
typedef struct dl_nccl_values {
    uint64_t value[DL_NCCL_FIELD_COUNT];
    bool has[DL_NCCL_FIELD_COUNT];
} dl_nccl_values;

/* Finds the fields by the entries' names. */
dl_nccl_fields dl_nccl_fields_find(const dl_payload_layout *layout);

/* Adds what `payload` says to *values, by its schema's layout and fields; both NULL if the schema
 * is not known. */
void dl_nccl_read(dl_nccl_values *values, const dl_payload_layout *layout,
                  const dl_nccl_fields *fields, const nvtxPayloadData_t *payload);

/* Number of the NCCL function `name` ("ncclAllReduce"), below DL_NCCL_FUNCTION_LIMIT; 0 for one
 * that is not known. */
uint32_t dl_nccl_function(const char *name);
#define DL_NCCL_FUNCTION_LIMIT 256

/* Makes the RANGE that begins in the NCCL domain a COLLECTIVE if it is one. */
void dl_nccl_begin(dl_activity *range, uint32_t function, const dl_nccl_values *values);

/* Records the COMM that the range's function has made by end_ns, if it has. */
void dl_nccl_end(const dl_activity *range, uint32_t function, const dl_nccl_values *values,
                 int64_t end_ns);

/* Records the COMM, unless one of its communicator and rank is there already: NVTX and the plugin
 * tell of the same one. */
void dl_nccl_comm_made(const dl_activity *comm);

#endif
