/* Writer of Chrome-trace JSON (the "JSON array/object format" that Perfetto and chrome://tracing
 * open), streaming: nothing is kept in memory. Times are int64 ns and are written as microseconds
 * with three decimals, exactly. Strings are escaped; invalid UTF-8 bytes become U+FFFD. Numbers
 * that JSON lacks (NaN, infinities) become null. */
#ifndef DL_COMMON_CHROME_TRACE_H
#define DL_COMMON_CHROME_TRACE_H

#include <stdint.h>

#include "common/output.h"

typedef struct dl_chrome_trace {
    dl_output file;
    int events; /* written so far */
} dl_chrome_trace;

/* One key = value of an event's args: `text` if it is not NULL, else the array
 * numbers[number_count] if that is not NULL, else `number`. */
typedef struct dl_chrome_arg {
    const char *key;
    const char *text;
    double number;
    const uint32_t *numbers;
    int number_count;
} dl_chrome_arg;

/* Opens `path` and writes the head. Errors of dl_output_open. */
dl_status dl_chrome_trace_open(dl_chrome_trace *trace, const char *path,
                               dl_error *err) DL_MUST_CHECK;

/* Writes the head to a stream of the caller's, which dl_chrome_trace_finish leaves open. */
void dl_chrome_trace_begin(dl_chrome_trace *trace, FILE *out);
void dl_chrome_trace_finish(dl_chrome_trace *trace);

/* Metadata: the name of a process, or of one of its threads. */
void dl_chrome_trace_process(dl_chrome_trace *trace, int pid, const char *name);
void dl_chrome_trace_thread(dl_chrome_trace *trace, int pid, int tid, const char *name);

/* Metadata with any name; viewers ignore names that they do not know. */
void dl_chrome_trace_metadata(dl_chrome_trace *trace, int pid, const char *name,
                              const dl_chrome_arg *args, int arg_count);

/* A complete event ("ph":"X"). duration_ns >= 0; args may be NULL where arg_count is 0. */
void dl_chrome_trace_slice(dl_chrome_trace *trace, int pid, int tid, const char *category,
                           const char *name, int64_t start_ns, int64_t duration_ns,
                           const dl_chrome_arg *args, int arg_count);

/* A moment of that thread ("ph":"i"). */
void dl_chrome_trace_instant(dl_chrome_trace *trace, int pid, int tid, const char *category,
                             const char *name, int64_t time_ns, const dl_chrome_arg *args,
                             int arg_count);

/* A flow arrow's start (is_start = 1) or end at a time inside a slice of that thread. */
void dl_chrome_trace_flow(dl_chrome_trace *trace, int pid, int tid, uint64_t id, int is_start,
                          const char *name, int64_t time_ns);

/* A counter track's value from time_ns on. */
void dl_chrome_trace_counter(dl_chrome_trace *trace, int pid, const char *name, int64_t time_ns,
                             double value);

/* Writes the tail, closes the file and puts it in its place. Errors of dl_output_close and of any
 * write. Always leaves the object closed. */
dl_status dl_chrome_trace_close(dl_chrome_trace *trace, dl_error *err) DL_MUST_CHECK;

#endif
