/* A dl_trace that grows: for the readers of other profilers' files. */
#ifndef DL_TRACE_READERS_READERS_INTERNAL_H
#define DL_TRACE_READERS_READERS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "trace/dlt/dlt.h"
#include "trace/readers/json_events.h"
#include "trace/readers/reader.h"

/* Owns the trace until dl_trace_builder_finish; release with dl_trace_builder_free. */
typedef struct dl_trace_builder {
    dl_trace trace;
    size_t string_room;
    uint32_t *slots;  /* [slot_count] hash table: string id, or 0 */
    uint64_t *hashes; /* [string_room] of the strings */
    size_t slot_count;
    uint64_t invalid; /* activities that were refused */
} dl_trace_builder;

/* An empty trace with the name `path`, complete. */
void dl_trace_builder_init(dl_trace_builder *builder, const char *path);
void dl_trace_builder_free(dl_trace_builder *builder);

/* Id of text[bytes], the same for equal texts; 0 for the empty one. A NUL within ends it. */
uint32_t dl_trace_builder_intern(dl_trace_builder *builder, const char *text, size_t bytes);
uint32_t dl_trace_builder_name(dl_trace_builder *builder, const char *text);

/* Appends a copy if it is valid (dl_activity_valid), else counts it as invalid. */
void dl_trace_builder_append(dl_trace_builder *builder, const dl_activity *activity);

/* Sets a meta key that is not yet there. `key` is copied, the value is formatted. */
void dl_trace_builder_meta(dl_trace_builder *builder, const char *key, const char *format, ...)
    DL_PRINTF(3, 4);

/* Moves the trace to *trace, with late ends cut and the meta key "invalid_records" set; the builder
 * is empty afterwards. */
void dl_trace_builder_finish(dl_trace_builder *builder, dl_trace *trace);

/* DL_ERR_FORMAT, saying what the file is and what to do, if `path`, which begins with begin[bytes],
 * is a profiler's file other than a trace of activities; else DL_OK. */
dl_status dl_foreign_refuse(const char *path, const char *begin, size_t bytes,
                            dl_error *err) DL_MUST_CHECK;

/* The reader of PyTorch's traces: Chrome-trace JSON as its profiler (libkineto) writes it since
 * PyTorch 1.8, on NVIDIA and AMD GPUs; also gzipped, or rewritten by other programs.
 *
 *   event                                    becomes
 *   kernel, Kernel                           KERNEL
 *   gpu_memcpy, Memcpy; gpu_memset, Memset   MEMCPY; MEMSET. A copy without a size (ROCm) gets the
 *                                            size of the hipMemcpy call with its correlation
 *   *_runtime, Runtime, *_driver             CALL; object = External id of its operator
 *   cuda_sync                                SYNC; object = event << 32 | correlation of its record
 *   (and for each record waited for)         EVENT of that object, at the call that recorded it
 *   cpu_op, Operator, user_annotation        RANGE, detail = its category; object = External id
 *   overhead                                 OVERHEAD
 *   record_param_comms, nccl:* ranges,       COLLECTIVE: of the first of the three that the file
 *     args of collectives' kernels             has; and COMM for each process group
 *
 * Not taken: flows (they repeat correlations), gpu_user_annotation (repeats ranges), instants,
 * python_function (counted in a note).
 *
 * Times are microseconds whatever displayTimeUnit says, from baseTimeNanoseconds (0 if missing);
 * they become ns without rounding. External ids link only where they differ from the correlation:
 * PyTorch 1.12 to 2.2 writes the correlation there. Text: json_events.h. */

extern const dl_trace_reader dl_kineto_reader;

/* Reads the text from `read` into zeroed `item`. `name` becomes the trace's path, and gives its
 * rank ("..._rank3.json") if the text does not. Errors as dl_read. */
dl_status dl_kineto_read_text(dl_read_trace *item, const char *name, dl_json_source *read,
                              void *source, const dl_read_options *options,
                              dl_error *err) DL_MUST_CHECK;

/* The reader of Nsight Systems' SQLite exports (nsys export --type sqlite), schemas 3.x.
 *
 *   table                              becomes
 *   CUPTI_ACTIVITY_KIND_KERNEL         KERNEL
 *   ..._MEMCPY, ..._MEMSET             MEMCPY, MEMSET
 *   ..._GRAPH_TRACE                    GRAPH
 *   ..._RUNTIME                        CALL, without the version after its name ("_v7000")
 *   ..._SYNCHRONIZATION                SYNC; object = eventSyncId, before schema 3.24 eventId
 *   ..._CUDA_EVENT                     EVENT
 *   ..._OVERHEAD, PROFILER_OVERHEAD    OVERHEAD
 *   NVTX_EVENTS                        RANGE, MARK; detail = domain; of PyTorch's texts "aten::mul,
 *                                      seq = 1, op_id = 2" the name, object = op_id; and
 *                                      COLLECTIVE, without bytes, of those that call one
 *
 * One trace per process with device work. Tables and columns differ between versions, and tables of
 * activities that never occurred are missing: absent data count as unknown. Ranks are not recorded:
 * several processes are numbered by device. Times count from the start of the session. */

extern const dl_trace_reader dl_nsys_reader;

/* The reader of archives (.tar, .tar.gz) of traces, usually one per rank: each member that is
 * Chrome-trace JSON, plain or gzipped, becomes a separate trace. Needs libarchive.
 *
 * Members are read in sequence from the stream, so memory holds only the traces' records and one
 * window of text, whatever the archive's size. A trace's path is the archive's path and the
 * member's name in it; traces are ordered by rank. Members of other kinds are named in a note of
 * the first trace. */

extern const dl_trace_reader dl_archive_reader;

#endif
