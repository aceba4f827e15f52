/* The streams of one trace writer, for threads that come and go: each thread appends through a
 * stream that no other thread uses meanwhile, and leaves it to the next one when it ends. Another
 * thread may write what they hold, or close them under the hands of those that append.
 *
 * One pool a process. In a forked child nothing of it may be used, since its locks are as the other
 * threads left them. */
#ifndef DL_PROFILER_INJECT_STREAM_POOL_H
#define DL_PROFILER_INJECT_STREAM_POOL_H

#include "trace/dlt/dlt.h"

/* Begins with the writer, borrowed until dl_stream_pool_close. Once. */
void dl_stream_pool_open(dl_trace_writer *writer);

/* Appends a copy of a valid *activity. Does nothing when closed. Any thread. */
void dl_stream_pool_append(const dl_activity *activity);

/* Writes what the calling thread has appended. */
void dl_stream_pool_flush_own(void);

/* Writes what all streams hold. Any thread. */
void dl_stream_pool_flush(void);

/* Writes it for the last time: appends do nothing from here on, and the writer may be closed. */
void dl_stream_pool_close(void);

/* Nothing is given back from here on when a thread ends. Takes no lock: for forked children. */
void dl_stream_pool_forget(void);

#endif
