/* Files left by the processes of a profiled run in its folder: a trace and, after a failure, a log,
 * both named <host>.<pid>.<start in ns> and .dlt, .json.gz (of PyTorch's profiler) or .log. */
#ifndef DL_PROFILER_RUN_TRACES_H
#define DL_PROFILER_RUN_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/json.h"
#include "common/status.h"
#include "trace/activity/summary.h"
#include "trace/dlt/dlt.h"

/* One process. Texts are owned. */
typedef struct dl_run_process {
    char *stem; /* path without its ending */
    char *host; /* from the name; "" if the name has another form */
    int64_t pid, start_ns;
    int64_t rank; /* meta key "rank"; -1 = not known */

    bool has_trace, by_torch; /* by_torch: from PyTorch's profiler */
    uint64_t trace_bytes;
    bool readable;  /* else `error` has the reason */
    dl_error error; /* error of reading the trace */
    bool complete;  /* the process wrote everything */
    char *stopped;  /* why the recording ended before the process; NULL = it did not */
    uint64_t counts[DL_ACTIVITY_KIND_END]; /* activities by kind */
    uint64_t activities;                   /* their sum */
    uint64_t lost;                         /* activities that were lost, according to the trace */
    dl_trace *trace;                       /* without its activities; NULL if it had none */
    dl_activity_summary summary;           /* of the activities; borrows `trace` */
    char *text, *json; /* the summary, printed; NULL if there are no activities */

    char *log; /* lines of the log without the newlines at its end; NULL = no log */
} dl_run_process;

typedef struct dl_run_traces {
    char *folder;
    dl_run_process *processes; /* sorted by rank, unknown ranks last; then by host, start and pid */
    size_t count;
    size_t trace_count;          /* processes with a trace */
    size_t device_process_count; /* processes with activities of a device */
    size_t torch_count;          /* processes recorded by PyTorch's profiler */
} dl_run_traces;

/* Reads all traces and logs of `folder`, one trace after the other in memory. An unreadable trace
 * is kept with its error; the call fails with DL_ERR_IO only if the folder cannot be read. Released
 * with dl_run_traces_free. */
dl_status dl_run_traces_collect(dl_run_traces *traces, const char *folder,
                                dl_error *err) DL_MUST_CHECK;
void dl_run_traces_free(dl_run_traces *traces);

/* Whether `folder` holds a trace or log by its name; false if it cannot be read. */
bool dl_run_traces_any(const char *folder);

/* Prints one line per process, with anything incomplete, missing or logged; a comparison of the
 * devices of several processes; and details of only the first process that used a device (else the
 * first with activities), as they are long. */
void dl_run_traces_print(const dl_run_traces *traces, FILE *out);

/* Prints only the lines of processes whose trace is incomplete, unreadable or has lost something,
 * or that left a log or no trace. */
void dl_run_traces_print_troubles(const dl_run_traces *traces, FILE *out);

/* Writes the list "processes" with one object per process. */
void dl_run_traces_write_json(const dl_run_traces *traces, dl_json *to);

#endif
