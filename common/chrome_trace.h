/* Streaming writer of Chrome-trace JSON (the "JSON array/object format" of Perfetto and
 * chrome://tracing); keeps nothing in memory. Times are int64 ns and are written exactly, as
 * microseconds with three decimals. Strings are escaped; invalid UTF-8 bytes become U+FFFD. Numbers
 * without a JSON form (NaN, infinities) become null. */
#ifndef DL_COMMON_CHROME_TRACE_H
#define DL_COMMON_CHROME_TRACE_H

#include <stdint.h>

#include "common/output.h"

typedef struct dl_chrome_trace {
    dl_output file;
    int events; /* number of events written */
} dl_chrome_trace;

/* A key = value pair of an event's args: `text` if it is not NULL, else the array
 * numbers[number_count] if that is not NULL, else `number`. */
typedef struct dl_chrome_arg {
    const char *key;
    const char *text;
    double number;
    const uint32_t *numbers;
    int number_count;
} dl_chrome_arg;

/* Opens `path` and writes the head. Returns the errors of dl_output_open. */
dl_status dl_chrome_trace_open(dl_chrome_trace *trace, const char *path,
                               dl_error *err) DL_MUST_CHECK;

/* dl_chrome_trace_begin writes the head to the caller's stream; dl_chrome_trace_finish writes the
 * tail and leaves the stream open. */
void dl_chrome_trace_begin(dl_chrome_trace *trace, FILE *out);
void dl_chrome_trace_finish(dl_chrome_trace *trace);

/* Write metadata: the name of a process, and of one of its threads. */
void dl_chrome_trace_process(dl_chrome_trace *trace, int pid, const char *name);
void dl_chrome_trace_thread(dl_chrome_trace *trace, int pid, int tid, const char *name);

/* Writes metadata with any name; viewers ignore unknown names. */
void dl_chrome_trace_metadata(dl_chrome_trace *trace, int pid, const char *name,
                              const dl_chrome_arg *args, int arg_count);

/* Writes a complete event ("ph":"X"). duration_ns >= 0; args may be NULL if arg_count is 0. */
void dl_chrome_trace_slice(dl_chrome_trace *trace, int pid, int tid, const char *category,
                           const char *name, int64_t start_ns, int64_t duration_ns,
                           const dl_chrome_arg *args, int arg_count);

/* Writes an instant event of the thread ("ph":"i"). */
void dl_chrome_trace_instant(dl_chrome_trace *trace, int pid, int tid, const char *category,
                             const char *name, int64_t time_ns, const dl_chrome_arg *args,
                             int arg_count);

/* Writes a flow arrow's start (is_start = 1) or end at a time inside a slice of the thread. */
void dl_chrome_trace_flow(dl_chrome_trace *trace, int pid, int tid, uint64_t id, int is_start,
                          const char *name, int64_t time_ns);

/* Writes the value of a counter track from time_ns. */
void dl_chrome_trace_counter(dl_chrome_trace *trace, int pid, const char *name, int64_t time_ns,
                             double value);

/* Writes the tail, closes the file and moves it to its path. Returns the errors of dl_output_close
 * and of any write. Always leaves the object closed. */
dl_status dl_chrome_trace_close(dl_chrome_trace *trace, dl_error *err) DL_MUST_CHECK;

#endif
