/* What a trace says in short: step times, where they go, operations, copies, staleness; for a
 * trace of micro-benchmarks a table of its samples.
 *
 * All of it is over the steps that are not warm-up (steps.h). A worker's samples a second are its
 * samples over the sum of its step times. Those of all workers are their samples, from the end of
 * the last warm-up step of any of them, over the time in which at least one is at a step: as the
 * simulator counts, and not the sum of the workers' rates, to which those that take turns on a core
 * would add up to more than the core can do. Time between steps (an evaluation) does not count.
 * Fractions are of the sum of step times. Quantiles: see distribution.h; staleness is a whole
 * number, and its quantile p is the least value that at least the fraction p of the steps does not
 * exceed.
 */
#ifndef DL_TRACE_SUMMARY_H
#define DL_TRACE_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/distribution.h"
#include "trace/dlt.h"
#include "trace/steps/steps.h"

/* Staleness 0 .. DL_STALENESS_BINS - 1 each have a bin; the last one more holds all above. */
#define DL_STALENESS_BINS 64

typedef struct dl_staleness_summary {
    uint64_t count; /* steps that have a staleness; 0 = a synchronous mode, the rest is 0 then */
    double mean, sd;
    int64_t p50, p90, max;
    uint64_t bins[DL_STALENESS_BINS + 1];
} dl_staleness_summary;

/* Of one worker, or of all (worker = 0 then). */
typedef struct dl_worker_summary {
    uint32_t worker;
    size_t warmup_count;     /* steps left out */
    dl_distribution step_ns; /* count = steps */
    uint64_t samples;
    double samples_per_s; /* 0 without steps */
    double part_frac[DL_PART_COUNT];
    dl_staleness_summary staleness;
} dl_worker_summary;

/* All records of one kind (not STEP, BENCH), name and phase. */
typedef struct dl_operation_summary {
    dl_record_kind kind;
    dl_phase phase;
    const char *name; /* borrowed from the trace; "" = none */
    uint64_t count;
    double mean_ns;
    double share_frac; /* of the sum of all workers' step times */
} dl_operation_summary;

typedef struct dl_copy_summary {
    dl_phase phase; /* push, pull */
    uint64_t count;
    double bytes; /* sum */
    double total_ns;
    double bytes_per_s; /* of one copy at a time: sum of bytes over sum of durations */
} dl_copy_summary;

/* All BENCH samples of equal name, bytes, vectors, threads, samples. A rate is 0 where the
 * benchmark has none: bytes_per_s of a copy is bytes over the median; of "average" and "update",
 * which read each vector and write one, (vectors + 1) bytes over it; samples_per_s is of "step". */
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
    dl_worker_summary *workers; /* [worker_count]: those that have steps */
    size_t worker_count;
    dl_worker_summary total;
    dl_operation_summary *operations; /* [operation_count] in order of first appearance */
    size_t operation_count;
    dl_copy_summary *copies; /* [copy_count] */
    size_t copy_count;
    dl_bench_summary *benches; /* [bench_count] by name, then parameters */
    size_t bench_count;
    char **warnings; /* [warning_count] sentences */
    size_t warning_count;
} dl_summary;

/* Summarises `trace`; zero `summary` before. Never fails: what is missing becomes a warning. */
void dl_summary_init(dl_summary *summary, const dl_trace *trace);
void dl_summary_free(dl_summary *summary);

/* Prints it for people, at most 80 columns (long names excepted). Write errors: ferror(out). */
void dl_summary_print(const dl_summary *summary, FILE *out);

/* Writes it as one JSON object; units are in the names of the members. Write errors: ferror(out).
 */
void dl_summary_write_json(const dl_summary *summary, FILE *out);

#endif
