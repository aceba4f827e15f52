/* Reads the traces of other profilers into dl_trace, so that summaries, step finding and export
 * work on them as on our own. Which reader a file needs is told from its first bytes, never from
 * its name.
 *
 *   kineto   PyTorch's profiler (Chrome-trace JSON), plain or gzipped     kineto.h
 *   nsys     Nsight Systems' SQLite exports                               nsys.h
 *   archive  .tar and .tar.gz of PyTorch's traces, several ranks in one    archive.h
 *   dlt      our own .dlt                                                 trace/dlt.h
 *
 * Activities are those of activity.h. Beyond it, where a trace has them: the identity of a
 * framework's operator is RANGE.object, and CALL.object of the calls made within it, so kernel ->
 * (correlation) -> launch call -> (object) -> operator. Where it lacks them (0), the operator is
 * the innermost RANGE of the call's thread around the call's begin.
 *
 * Meta keys, where known: rank, world_size, host, command, clock = "realtime", device.N.name,
 * thread.N, framework, nccl_version. What a trace lacks or a reader had to guess is one sentence
 * each in `notes`. */
#ifndef DL_TRACE_READERS_READER_H
#define DL_TRACE_READERS_READER_H

#include <stddef.h>

#include "common/status.h"
#include "trace/dlt.h"
#include "trace/readers/comm_patterns.h"

/* One process of a file, one member of an archive. */
typedef struct dl_read_trace {
    dl_trace trace;
    char **notes; /* [note_count] sentences */
    size_t note_count;
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
} dl_read_options;

typedef struct dl_trace_reader {
    const char *name, *description;
    /* Whether a file that begins with begin[bytes], unpacked, is for this reader. */
    bool (*recognises)(const char *begin, size_t bytes);
    dl_status (*read)(dl_read_traces *traces, const char *path, const dl_read_options *options,
                      dl_error *err);
} dl_trace_reader;

/* Reads `path`; zero `traces` before. DL_ERR_IO, or DL_ERR_FORMAT if no reader recognises it or the
 * file is malformed (with the byte's number); a file that only ends early is read up to there, its
 * trace not `complete`. */
dl_status dl_read(dl_read_traces *traces, const char *path, const dl_read_options *options,
                  dl_error *err) DL_MUST_CHECK;
void dl_read_free(dl_read_traces *traces);

/* For readers: one more process in `traces`, zeroed; and one more sentence about it. */
dl_read_trace *dl_read_add(dl_read_traces *traces);
void dl_read_note(dl_read_trace *item, const char *format, ...) DL_PRINTF(2, 3);

#endif
