/* What a trace says about its process: meta keys program, version, kind, clock, host, pid, command,
 * preset, graphs, and where the launcher told them rank, world_size, local_rank. */
#ifndef DL_PROFILER_INJECT_CAPTURE_META_H
#define DL_PROFILER_INJECT_CAPTURE_META_H

#include "profiler/inject/settings.h"
#include "trace/dlt/dlt.h"

/* Writes the keys of the calling process. */
void dl_capture_meta_process(dl_trace_writer *writer, const dl_capture_settings *settings);

#endif
