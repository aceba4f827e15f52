/* Reads the traces of other profilers into dl_trace, so that summaries, step finding and export
 * work on them as on our own. Which reader a file needs is decided by its first bytes, never from
 * its name.
 *
 *   kineto   PyTorch's and MXNet's profilers (Chrome-trace JSON), plain or gzipped
 *   nsys     Nsight Systems' SQLite exports
 *   archive  .tar and .tar.gz of PyTorch's traces, several ranks in one
 *   dlt      our own .dlt                                                 trace/dlt/dlt.h
 *
 * Activities are those of activity.h. Beyond it, where a trace has them: the identity of a
 * framework's operator is RANGE.object, and CALL.object of the calls made within it, so kernel ->
 * (correlation) -> launch call -> (object) -> operator. Where it lacks them (0), the operator is
 * the innermost RANGE of the call's thread around the call's start.
 *
 * Meta keys, where known: rank, world_size, host, command, clock = "realtime", device.N.name,
 * thread.N, framework, nccl_version, record_shapes = 1, unprofiled_step_ns, children_step_ns,
 * take_ns and take_processor_ns, step_faults and step_kernel_ns, operator_threads (median step
 * before the recording, processor time of child processes a step, medians of taking a batch from
 * these, page faults of a step and its time in the kernel, threads that operators use, which dlprof
 * run adds to traces of PyTorch's profiler), and where the trace has shapes batch_samples, the first dimension of what most calls
 * of the operator batch_samples_of take in, which is that of the samples unless they are not in
 * rows; parameter_bytes of what an optimizer of MXNet's updates. What a trace lacks or a reader
 * had to guess is one sentence each in `notes`. */
#ifndef DL_TRACE_READERS_READER_H
#define DL_TRACE_READERS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "trace/activity/kernel_class.h"
#include "trace/dlt/dlt.h"
#include "trace/print.h"

#define DL_META_SAMPLES "batch_samples"
#define DL_META_SAMPLES_OF "batch_samples_of"
#define DL_META_PARAMETER_BYTES "parameter_bytes"

/* Which of a program's ranges are calls of collectives, and which ones: by patterns, for libraries
 * have many names for one thing and new ones come.
 *
 * Built in: ranges "nccl:all_reduce", "rccl:...", "gloo:...", and what PyTorch's c10d calls its
 * collectives ("_allgather_base", "reduce_scatter_tensor_coalesced", "all_to_allv"). Capitals, '_',
 * '-' and blanks do not count. Names of kernels are classified by kernel_class.h.
 *
 * A file of patterns adds to both, for libraries that are not built in:
 *
 *   [pattern token exchange]                    ; any name
 *   text       = my_lib::exchange|^token_*_a2a  ; in names of kernels and ranges; '|' between
 *                                               ; several, '*' = any text, '^' = the name's start;
 *                                               ; capitals count
 *   collective = AlltoAll
 *   algorithm  = direct                         ; may be left out; shown in summaries
 *
 * Names and meaning of c10d's: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp. */

typedef struct dl_comm_pattern {
    char *text;             /* owned; lower case, without '_' and so on */
    const char *collective; /* "AllReduce", ...; constant */
} dl_comm_pattern;

/* The user's own patterns, which go before those built in; {0} = none. Release with
 * dl_comm_patterns_free. */
typedef struct dl_comm_patterns {
    dl_comm_pattern *patterns; /* [count] */
    size_t count;
    dl_kernel_rule *rules; /* [rule_count] of files, texts owned; for ranges too. A program hands
                            * them to dl_kernel_use_rules for kernels */
    size_t rule_count;
} dl_comm_patterns;

/* Adds "TEXT=COLLECTIVE": ranges that hold TEXT are calls of COLLECTIVE ("AllReduce", "AllGather",
 * "ReduceScatter", "AlltoAll", "Broadcast", "Reduce", "Gather", "Scatter", "Send", "Recv").
 * DL_ERR_PARSE without '=' or TEXT, DL_ERR_NAME for another COLLECTIVE. */
dl_status dl_comm_patterns_add(dl_comm_patterns *patterns, const char *rule,
                               dl_error *err) DL_MUST_CHECK;

/* Adds the patterns of a file as above. Errors name file and line: DL_ERR_IO, DL_ERR_PARSE,
 * DL_ERR_NAME (a section, key, collective or algorithm, with the nearest name), DL_ERR_DATA (no
 * text or collective). Algorithms: ring, tree, direct, hierarchical, pairwise, nvls, collnet. */
dl_status dl_comm_patterns_read(dl_comm_patterns *patterns, const char *path,
                                dl_error *err) DL_MUST_CHECK;

/* The same from memory; `name` stands in error texts. `text` may hold any bytes. */
dl_status dl_comm_patterns_read_text(dl_comm_patterns *patterns, const char *name, const char *text,
                                     size_t bytes, dl_error *err) DL_MUST_CHECK;
void dl_comm_patterns_free(dl_comm_patterns *patterns);

/* The collective that the range `text` calls, or NULL. Constant text. */
const char *dl_comm_of_range(const dl_comm_patterns *patterns, const char *text);

/* The collective that c10d calls `name` ("allreduce_coalesced"), or NULL ("wait", "init"). A
 * barrier is an AllReduce, as NCCL has none. */
const char *dl_comm_of_name(const char *name);

/* Bytes of an element of a type as PyTorch writes it ("Float", "c10::BFloat16", "long int"); 0 =
 * unknown. */
size_t dl_comm_type_bytes(const char *type);

/* Bytes of one rank as NCCL counts them (collectives.h), from those that one rank gives
 * and gets: AllReduce, Broadcast, Reduce, Send, Recv, AllGather, Gather: what it gives; Scatter,
 * ReduceScatter: what it gets; AlltoAll: a peer's share of what it gives. `out_bytes` 0: not known,
 * ReduceScatter's is 1 / ranks of what it gives then. 0 = unknown. */
uint64_t dl_comm_rank_bytes(const char *collective, uint64_t in_bytes, uint64_t out_bytes,
                            uint32_t ranks);

/* One process of a file, one member of an archive. */
typedef struct dl_read_trace {
    dl_trace trace;
    dl_notes notes;
} dl_read_trace;

/* Owns everything; release with dl_read_free. */
typedef struct dl_read_traces {
    const char *reader;   /* its name; constant */
    dl_read_trace *items; /* [count], 1 or more after success */
    size_t count;
} dl_read_traces;

/* What the caller knows; {0} = nothing. */
typedef struct dl_read_options {
    dl_comm_patterns patterns; /* borrowed */
    /* Which of a file's processes: those whose meta key "rank" or "pid" is this; NULL = all. */
    const char *rank, *process;
} dl_read_options;

typedef struct dl_trace_reader {
    const char *name, *description;
    /* Whether a file that starts with start[bytes], unpacked, is for this reader. */
    bool (*recognises)(const char *begin, size_t bytes);
    dl_status (*read)(dl_read_traces *traces, const char *path, const dl_read_options *options,
                      dl_error *err);
} dl_trace_reader;

/* Files of traces in a folder, by their names (.dlt, .json, .json.gz, .sqlite), in the order of
 * these. Owns them; release with dl_trace_folder_free. */
typedef struct dl_trace_folder {
    char **files; /* [count] */
    size_t count;
} dl_trace_folder;

/* Zero `folder` before. DL_ERR_IO if there are none, with the first file that is there. */
dl_status dl_trace_folder_list(dl_trace_folder *folder, const char *path,
                               dl_error *err) DL_MUST_CHECK;
void dl_trace_folder_free(dl_trace_folder *folder);

/* Reads `path`; zero `traces` before. A folder is read as one file with the processes of all the
 * traces in it. DL_ERR_IO, or DL_ERR_FORMAT if no reader recognises it or the
 * file is malformed (with the byte's number); a file that only ends early is read up to there, its
 * trace not `complete`. DL_ERR_NAME, with those that there are, if it holds no process of the rank
 * or number that the options want. */
dl_status dl_read(dl_read_traces *traces, const char *path, const dl_read_options *options,
                  dl_error *err) DL_MUST_CHECK;
void dl_read_free(dl_read_traces *traces);

/* For readers: one more process in `traces`, zeroed; and one more sentence about it. */
dl_read_trace *dl_read_add(dl_read_traces *traces);
void dl_read_note(dl_read_trace *item, const char *format, ...) DL_PRINTF(2, 3);

/* A file's bytes from the start to the end, unpacked if it is gzipped. */

typedef struct dl_text_source dl_text_source;

/* Opens `path` (a gzip file of one or several members, or anything else as it is). DL_ERR_IO. */
dl_status dl_text_source_open(dl_text_source **source, const char *path,
                              dl_error *err) DL_MUST_CHECK;

/* Reads at most `room` bytes; fewer only at the end, 0 after it or after an error. The first
 * argument is a dl_text_source, so that it is a dl_json_source. */
size_t dl_text_source_read(void *source, char *into, size_t room);

/* Closes. A failure of reading or unpacking is reported here: DL_ERR_IO, DL_ERR_FORMAT (damaged).
 * *cut (may be NULL): the packed data end too early, which is no failure. */
dl_status dl_text_source_close(dl_text_source *source, bool *cut, dl_error *err) DL_MUST_CHECK;

#endif
