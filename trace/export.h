/* A trace as Chrome-trace JSON, for Perfetto and chrome://tracing.
 *
 * One process = the run. Worker w has two tracks: tid 2 w + 1 its steps, tid 2 w + 2 what lies in
 * them. Times count from the begin of the trace's first record (the least start), to the ns.
 *
 *   record     category          name                     args
 *   STEP       user_annotation   "step 12"                samples, staleness
 *   COMPUTE    cpu_op            "conv1.forward"          samples
 *   COPY       memcpy            "push", "pull"           bytes
 *   AVERAGE    average           "average"                bytes, vectors, threads
 *   WAIT       wait              "barrier", "lock"
 *   INPUT      input             "input"                  samples, bytes
 *   SLOWDOWN   slowdown          "slowdown"
 *   BENCH      bench             "copy", "average", ...   bytes, vectors, threads, samples
 *
 * Args that are 0 are left out. In asynchronous modes each worker has a counter "staleness w" that
 * takes a step's staleness at the step's end. A record without a name is called after its kind.
 */
#ifndef DL_TRACE_EXPORT_H
#define DL_TRACE_EXPORT_H

#include "trace/dlt.h"

/* Writes `path`. Errors as dl_chrome_trace_open and _close report it. */
dl_status dl_trace_export(const dl_trace *trace, const char *path, dl_error *err) DL_MUST_CHECK;

#endif
