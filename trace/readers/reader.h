/* Reads the traces of other profilers into dl_trace, so that summaries, step detection and export
 * apply to them. A file's first bytes determine its reader, never its name.
 *
 *   kineto   PyTorch's profiler (Chrome-trace JSON), plain or gzipped
 *   nsys     Nsight Systems' SQLite exports
 *   archive  .tar and .tar.gz of PyTorch's traces, several ranks in one
 *   dlt      dlscale's own .dlt                                           trace/dlt/dlt.h
 *
 * Activities are those of activity.h. If a trace identifies a framework's operators, the identity
 * is the object of the operator's RANGE and of the CALLs within it, which links kernel ->
 * (correlation) -> launch call -> (object) -> operator. Otherwise object is 0, and the operator is
 * the innermost RANGE of the call's thread around the call's start.
 *
 * Meta keys, if known: rank, world_size, pid, host, command, clock ("realtime"; "session" if times
 * count from the start of a recording whose time of day is unknown), device.N.name, thread.N,
 * process.N, framework, distributed_backend, nccl_version, trace_name, record_shapes = 1, profiler,
 * schema, invalid_records (number of rejected activities). dlprof run adds to traces of PyTorch's
 * profiler: unprofiled_step_ns (median step before the recording), children_step_ns (processor time
 * of child processes per step), take_ns and take_processor_ns (median time and processor time of
 * taking a batch from child processes), step_faults and step_kernel_ns (page faults and kernel time
 * per step), operator_threads (threads that operators use). If the trace has shapes: batch_samples,
 * the samples of a pass: the most frequent first dimension of the inputs of the operator
 * batch_samples_of or, if it alone equals the number of the loss's targets, the second dimension;
 * batch_samples_or, the number of samples if sequence positions come first; input_sizes and
 * input_calls, the number of different input sizes (in elements) and of calls of this operator.
 * parameter_bytes: bytes of all parameters that the program updates. `notes` has one sentence for
 * each missing or inferred datum. */
#ifndef DL_TRACE_READERS_READER_H
#define DL_TRACE_READERS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "trace/activity/kernel_class.h"
#include "trace/dlt/dlt.h"
#include "trace/print.h"

#define DL_META_MERGED "merged" /* set if the host's calls are of several processes */
#define DL_META_SAMPLES "batch_samples"
/* Groups of a job whose collectives do not name theirs: "mesh_tp of 2 ranks, ..." */
#define DL_META_UNGROUPED "ungrouped_collectives"
#define DL_META_SAMPLES_OF "batch_samples_of"
#define DL_META_SAMPLES_OR "batch_samples_or" /* samples if sequence positions come first */
#define DL_META_INPUT_SIZES "input_sizes"
#define DL_META_INPUT_CALLS "input_calls"
#define DL_META_PARAMETER_BYTES "parameter_bytes"

/* Recognition of ranges as calls of collectives by patterns, since libraries have many names for
 * the same collective.
 *
 * Built in: ranges "nccl:all_reduce", and likewise with "rccl:", "xccl:", "hccl:", "ucc:" or
 * "gloo:", followed by names of collectives in PyTorch's c10d ("_allgather_base",
 * "reduce_scatter_tensor_coalesced", "all_to_allv"). Case, '_', '-' and blanks are ignored.
 * kernel_class.h classifies names of kernels.
 *
 * Rules of the user extend both for other libraries. "my_lib::exchange|^token_*_a2a=AlltoAll": '|'
 * separates alternatives, '*' is any text, '^' the name's start; case counts.
 *
 * Source of c10d's names: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp. */

/* Parses the rule "PATTERNS=COLLECTIVE" (COLLECTIVE: "AllReduce", "AllGather", "ReduceScatter",
 * "AlltoAll", "Broadcast", "Reduce", "Gather", "Scatter", "Send", "Recv"), to be passed to
 * dl_kernel_use_rules; free() its patterns. Returns DL_ERR_PARSE without '=', or if a pattern
 * matches every name, and DL_ERR_NAME for another COLLECTIVE. */
dl_status dl_comm_rule_parse(const char *text, dl_kernel_rule *rule, dl_error *err) DL_MUST_CHECK;

/* Returns the collective that the range `text` calls, or NULL; a constant text. */
const char *dl_comm_of_range(const char *text);

/* Returns the collective of c10d's `name` ("allreduce_coalesced"), or NULL ("wait", "init"). A
 * barrier is an AllReduce, as NCCL has none. */
const char *dl_comm_of_name(const char *name);

/* Returns the bytes per element of a type in PyTorch's notation ("Float", "c10::BFloat16", "long
 * int"); 0: unknown. */
size_t dl_comm_type_bytes(const char *type);

/* Returns whether such a type is an integer of 32 or 64 bits, which no gradient has. */
bool dl_comm_type_counts(const char *type);

/* Returns the bytes of one rank as NCCL counts them (collectives.h), from one rank's input and
 * output. AllReduce, Broadcast, Reduce, Send, AllGather, Gather: the input. Recv, Scatter,
 * ReduceScatter: the output. AlltoAll: a peer's share of the input. If `out_bytes` is 0 (unknown),
 * the input is used, divided by `ranks` for Scatter and ReduceScatter. 0: unknown. */
uint64_t dl_comm_rank_bytes(const char *collective, uint64_t in_bytes, uint64_t out_bytes,
                            uint32_t ranks);

/* One process of a file, or one member of an archive. */
typedef struct dl_read_trace {
    dl_trace trace;
    dl_notes notes;
} dl_read_trace;

/* Owns all its memory; release with dl_read_free. */
typedef struct dl_read_traces {
    const char *reader;   /* name of the reader; constant */
    dl_read_trace *items; /* [count], at least one after success */
    size_t count;
} dl_read_traces;

/* Settings of the caller; {0}: none. */
typedef struct dl_read_options {
    /* Select a file's processes by meta key "rank" or "pid"; NULL: all. */
    const char *rank, *process;
} dl_read_options;

typedef struct dl_trace_reader {
    const char *name, *description;
    /* Returns whether this reader supports a file whose unpacked content starts with
     * begin[bytes]. */
    bool (*recognises)(const char *begin, size_t bytes);
    dl_status (*read)(dl_read_traces *traces, const char *path, dl_error *err);
} dl_trace_reader;

/* Trace files in a folder (.dlt, .json, .json.gz, .sqlite), sorted by name. Owns its names; release
 * with dl_trace_folder_free. */
typedef struct dl_trace_folder {
    char **files; /* [count] */
    size_t count;
} dl_trace_folder;

/* Fills `folder`, which must be zeroed. Returns DL_ERR_IO if there are no trace files, naming the
 * folder's first file. */
dl_status dl_trace_folder_list(dl_trace_folder *folder, const char *path,
                               dl_error *err) DL_MUST_CHECK;
void dl_trace_folder_free(dl_trace_folder *folder);

/* Reads `path` into `traces`, which must be zeroed. A folder is read as one file with the processes
 * of all its traces. Returns DL_ERR_IO; DL_ERR_FORMAT if no reader recognises the file or it is
 * malformed (with the byte offset); DL_ERR_NAME, listing the existing ones, if no process has the
 * rank or number given in the options. A truncated file is read up to its end, and its trace is not
 * `complete`. */
dl_status dl_read(dl_read_traces *traces, const char *path, const dl_read_options *options,
                  dl_error *err) DL_MUST_CHECK;
void dl_read_free(dl_read_traces *traces);

/* For readers: dl_read_add adds a zeroed process to `traces`; dl_read_note adds a sentence to its
 * notes. */
dl_read_trace *dl_read_add(dl_read_traces *traces);
void dl_read_note(dl_read_trace *item, const char *format, ...) DL_PRINTF(2, 3);

/* A file's bytes from start to end, unpacked if it is gzipped. */

typedef struct dl_text_source dl_text_source;

/* Opens `path`: a gzip file with one or more members, or any other file unchanged. Returns
 * DL_ERR_IO. */
dl_status dl_text_source_open(dl_text_source **source, const char *path,
                              dl_error *err) DL_MUST_CHECK;

/* Reads at most `room` bytes: fewer only at the end or on an error, then 0. `source` is a
 * dl_text_source; the function is a dl_json_source. */
size_t dl_text_source_read(void *source, char *into, size_t room);

/* Closes the source and reports a failure of reading or unpacking: DL_ERR_IO, DL_ERR_FORMAT
 * (damaged). Sets *cut (may be NULL) if the compressed data are truncated, which is not a
 * failure. */
dl_status dl_text_source_close(dl_text_source *source, bool *cut, dl_error *err) DL_MUST_CHECK;

#endif
