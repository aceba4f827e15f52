/* Summary of a trace: step times and their parts, operations, copies, staleness; for a trace of
 * micro-benchmarks, a table of its samples.
 *
 * All figures exclude warm-up steps (see below). A worker's samples per second are its samples
 * divided by the sum of its step times. The total rate is the samples of all workers after the last
 * warm-up step of any of them, divided by the time in which at least one worker is in a step. As in
 * the simulator, it is not the sum of the workers' rates, which exceeds a core's capacity if
 * workers share the core in turn. Time between steps (an evaluation) is excluded. Fractions are of
 * the sum of step times. Quantiles: see distribution.h; staleness is a whole number, and its
 * quantile p is the least value that at least the fraction p of the steps does not exceed. */
#ifndef DL_TRACE_TRAINING_SUMMARY_H
#define DL_TRACE_TRAINING_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/distribution.h"
#include "trace/dlt/dlt.h"
#include "trace/print.h"

/* Steps of a trace: each worker's STEP records with the records inside them, summed by part.
 *
 * A worker's STEP record closes a step. The worker's records since its last STEP belong to the step
 * unless they start before it. The rest of the step is dispatch, the host's time. BENCH records are
 * not part of steps.
 *
 * Warm-up. The first steps of a run include page faults, cold caches and the wake-up of cores. A
 * worker's leading steps are flagged as long as each one lasts more than WARMUP_FACTOR = 1.25 times
 * the median of all steps of this worker and more than their 90th percentile; at most a tenth of
 * its steps (rounded up) and at most 10. The first step that is not slow ends the warm-up: later
 * slow steps are noise and are kept. */

/* Parts of a step's time. */
typedef enum dl_part {
    DL_PART_COMPUTE,
    DL_PART_DISPATCH,      /* time not covered by any record */
    DL_PART_COMMUNICATION, /* COPY */
    DL_PART_AVERAGING,
    DL_PART_WAITING,
    DL_PART_INPUT,
    DL_PART_SLOWDOWN,
    DL_PART_COUNT
} dl_part;

/* Returns "compute", "dispatch", "communication", ..., as in names of result columns. */
const char *dl_part_name(dl_part part);

typedef struct dl_step {
    uint32_t worker, step, samples; /* as in the STEP record */
    bool warmup;
    int64_t start_ns, duration_ns;
    int64_t staleness;              /* DL_NO_STALENESS in modes without staleness */
    int64_t part_ns[DL_PART_COUNT]; /* sum = duration_ns: time of records beyond the step's is
                                     * cut */
    size_t first;                   /* index of the step's first record in dl_steps.order */
    size_t record_count;            /* number of its records in dl_steps.order, including the final
                                     * STEP record */
} dl_step;

/* Owns its arrays; release with dl_steps_free. Indices are valid as long as the trace. */
typedef struct dl_steps {
    dl_step *steps; /* [count] by worker, then by time */
    size_t count;
    size_t *worker_first;  /* [worker_count + 1] steps of worker w: worker_first[w] ..
                            * worker_first[w + 1] - 1 */
    uint32_t worker_count; /* as in the trace */
    size_t *order;         /* indices into trace->records, by worker, then in trace order */
    size_t outside_count;  /* records in no step (cut run, work before the first step) */
    size_t overlap_count;  /* steps whose records exceed the step's time; their dispatch is 0 */
} dl_steps;

/* Finds the steps of `trace` and fills `steps`, which must be zeroed. A trace without steps gives
 * count 0. */
void dl_steps_init(dl_steps *steps, const dl_trace *trace);
void dl_steps_free(dl_steps *steps);

/* Returns record i (0 .. step->record_count - 1) of a step of `steps`; borrowed from the trace. */
const dl_record *dl_steps_record(const dl_steps *steps, const dl_trace *trace, const dl_step *step,
                                 size_t i);

/* Staleness 0 .. DL_STALENESS_BINS - 1 have one bin each; one more bin holds all larger values. */
#define DL_STALENESS_BINS 64

typedef struct dl_staleness_summary {
    uint64_t count; /* steps with a staleness; 0: synchronous mode, all other members are 0 */
    double mean, sd;
    int64_t p50, p90, max;
    uint64_t bins[DL_STALENESS_BINS + 1];
} dl_staleness_summary;

/* Summary of one worker, or of all workers (worker = 0). */
typedef struct dl_worker_summary {
    uint32_t worker;
    size_t warmup_count;     /* omitted steps */
    dl_distribution step_ns; /* count = number of steps */
    uint64_t samples;
    double samples_per_s; /* 0 without steps */
    double part_frac[DL_PART_COUNT];
    dl_staleness_summary staleness;
} dl_worker_summary;

/* All records of one kind (not STEP, BENCH), name and phase. */
typedef struct dl_operation_summary {
    dl_record_kind kind;
    dl_phase phase;
    const char *name; /* borrowed from the trace; "": none */
    uint64_t count;
    double mean_ns;
    double share_frac; /* fraction of the sum of all workers' step times */
} dl_operation_summary;

typedef struct dl_copy_summary {
    dl_phase phase; /* push, pull */
    uint64_t count;
    double bytes; /* sum over the copies */
    double total_ns;
    double bytes_per_s; /* rate of single copies: sum of bytes over sum of durations */
} dl_copy_summary;

/* All BENCH samples of equal name, bytes, vectors, threads, samples. bytes_per_s is bytes /
 * median duration for "copy", and (vectors + 1) bytes / median duration for "average" and
 * "update", which read each vector and write one. samples_per_s is set for "step". A rate that
 * does not apply is 0. */
typedef struct dl_bench_summary {
    const char *name; /* borrowed from the trace */
    uint64_t bytes;
    uint32_t vectors, threads, samples;
    dl_distribution duration_ns;
    double bytes_per_s, samples_per_s;
} dl_bench_summary;

/* Owns its arrays and texts; release with dl_summary_free. Borrows the trace. */
typedef struct dl_summary {
    const dl_trace *trace;
    dl_worker_summary *workers; /* [worker_count] workers with steps */
    size_t worker_count;
    dl_worker_summary total;
    dl_operation_summary *operations; /* [operation_count] in order of first appearance */
    size_t operation_count;
    dl_copy_summary *copies; /* [copy_count] */
    size_t copy_count;
    dl_bench_summary *benches; /* [bench_count] by name, then parameters */
    size_t bench_count;
    dl_notes warnings;
} dl_summary;

/* Summarizes `trace` into `summary`, which must be zeroed. Never fails; missing data cause
 * warnings. */
void dl_summary_init(dl_summary *summary, const dl_trace *trace);
void dl_summary_free(dl_summary *summary);

/* Prints the summary as text of at most 80 columns (except for longer names). Write errors:
 * ferror(out). */
void dl_summary_print(const dl_summary *summary, FILE *out);

/* Writes the summary as one JSON object; member names include their units. Write errors:
 * ferror(out). */
void dl_summary_write_json(const dl_summary *summary, FILE *out);

/* Export of a trace as Chrome-trace JSON, for Perfetto and chrome://tracing.
 *
 * One process represents the run. Worker w has two tracks: tid 2 w + 1 for its steps, tid 2 w + 2
 * for the records in them. Times count from the least start of all records, to the ns.
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
 * Args that are 0 are omitted, except staleness. In asynchronous modes each worker has a counter
 * "staleness w", set to a step's staleness at its end. A record without a name gets the name of its
 * kind. */

/* Writes the export to `path`. Returns the errors of dl_chrome_trace_open and _close. */
dl_status dl_trace_export(const dl_trace *trace, const char *path, dl_error *err) DL_MUST_CHECK;

#endif
