/* Builder of a dl_trace, for the readers of other profilers' files. */
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
    uint64_t *hashes; /* [string_room] hashes of the strings */
    size_t slot_count;
    uint64_t invalid; /* number of rejected activities */
} dl_trace_builder;

/* Initializes an empty, complete trace with the name `path`. */
void dl_trace_builder_init(dl_trace_builder *builder, const char *path);
void dl_trace_builder_free(dl_trace_builder *builder);

/* Returns the id of text[bytes], the same for equal texts; 0 for the empty text. An embedded NUL
 * ends the text. */
uint32_t dl_trace_builder_intern(dl_trace_builder *builder, const char *text, size_t bytes);
uint32_t dl_trace_builder_name(dl_trace_builder *builder, const char *text);

/* Appends a copy if the activity is valid (dl_activity_valid); otherwise counts it as invalid. */
void dl_trace_builder_append(dl_trace_builder *builder, const dl_activity *activity);

/* Sets a meta key unless it exists. `key` is copied, the value is formatted. */
void dl_trace_builder_meta(dl_trace_builder *builder, const char *key, const char *format, ...)
    DL_PRINTF(3, 4);

/* Moves the trace to *trace, with late ends truncated and, if activities were rejected, the meta
 * key "invalid_records"; the builder is empty afterwards. */
void dl_trace_builder_finish(dl_trace_builder *builder, dl_trace *trace);

/* Returns DL_ERR_FORMAT, with the kind of the file and an alternative, if `path`, which begins with
 * begin[bytes], is a profiler's file other than a trace of activities; else DL_OK. */
dl_status dl_foreign_refuse(const char *path, const char *begin, size_t bytes,
                            dl_error *err) DL_MUST_CHECK;

/* Reader of PyTorch's traces: Chrome-trace JSON as written by its profiler (libkineto) since
 * PyTorch 1.8, on NVIDIA and AMD GPUs; also gzipped, or rewritten by other programs.
 *
 *   event                                    becomes
 *   kernel, Kernel, gpu_op                   KERNEL
 *   gpu_memcpy, Memcpy; gpu_memset, Memset   MEMCPY; MEMSET. A copy without a size (ROCm) gets the
 *                                            size of the hipMemcpy call with its correlation
 *   *_runtime, Runtime, *_driver             CALL; object = External id of its operator
 *   cuda_sync                                SYNC; object = event << 32 | correlation of its record
 *   (and for each awaited record)            EVENT of that object, at the call that recorded it
 *   cpu_op, Operator, user_annotation        RANGE, detail = its category; object = External id
 *   overhead                                 OVERHEAD
 *   record_param_comms, nccl:* ranges,       COLLECTIVE, from the first of these three sources that
 *     args of collectives' kernels             the file has; and COMM for each process group
 *
 * Ignored: flows (they repeat correlations), gpu_user_annotation (repeats ranges), instants;
 * counted in notes: python_function, events of other categories.
 *
 * Times are microseconds whatever displayTimeUnit says, from baseTimeNanoseconds (0 if missing);
 * they are converted to ns without floating point. A call's External id is used only where it
 * differs from the correlation: PyTorch 1.12 to 2.2 writes the correlation there. Text:
 * json_events.h. */

extern const dl_trace_reader dl_kineto_reader;

/* Reads the text from `read` into `item`, which must be zeroed. `name` becomes the trace's path,
 * and gives its rank ("..._rank3.json") if the text does not. Returns the errors of dl_read. */
dl_status dl_kineto_read_text(dl_read_trace *item, const char *name, dl_json_source *read,
                              void *source, dl_error *err) DL_MUST_CHECK;

/* Reader of Nsight Systems' SQLite exports (nsys export --type sqlite), schemas 3.x.
 *
 *   table                              becomes
 *   CUPTI_ACTIVITY_KIND_KERNEL         KERNEL
 *   ..._MEMCPY, ..._MEMSET             MEMCPY, MEMSET
 *   ..._GRAPH_TRACE                    GRAPH
 *   ..._RUNTIME                        CALL, without the version after its name ("_v7000")
 *   ..._SYNCHRONIZATION                SYNC; object = eventSyncId, before schema 3.24 eventId
 *   ..._CUDA_EVENT                     EVENT
 *   ..._OVERHEAD, PROFILER_OVERHEAD    OVERHEAD
 *   NVTX_EVENTS                        RANGE, MARK; PyTorch's "aten::mul, seq = 1, op_id = 2" gets
 *                                      the name aten::mul and object 2; COLLECTIVE, without bytes,
 *                                      if the range calls one
 *
 * The reader creates one trace per process with device work; without any, one per process that
 * calls CUDA, but at least one. Tables and columns differ between versions, and tables of
 * activities that never occurred are missing: absent data count as unknown. Ranks are not recorded:
 * several processes are numbered by host and device. Times in the file count from the start of the
 * session, which is added if it is recorded. */

extern const dl_trace_reader dl_nsys_reader;

/* Reader of archives (.tar, .tar.gz) of traces, usually one per rank: each member that is
 * Chrome-trace JSON, plain or gzipped, becomes a separate trace. Requires libarchive.
 *
 * Members are read in sequence from the stream, so memory holds only the traces' records and one
 * window of text, whatever the archive's size. A trace's path is the archive's path followed by the
 * member's name; traces are ordered by rank. A note of the first trace names members of other
 * kinds. */

extern const dl_trace_reader dl_archive_reader;

#endif
