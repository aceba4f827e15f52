/* The steps of a trace: each worker's STEP records with what lies inside them, summed by part.
 *
 * A worker's STEP record closes a step; its earlier records since its last STEP that do not begin
 * before the step belong to it. What they leave of the step is dispatch, the host's own time. BENCH
 * records are no part of steps.
 *
 * Warm-up. The first steps of a run pay once for page faults, cold caches and sleeping cores. A
 * worker's leading steps are flagged as long as each one lasts more than WARMUP_FACTOR = 1.25 times
 * the median of all steps of this worker and more than their 90th percentile; at most a tenth of
 * its steps (rounded up) and at most 10. The first step that is not slow ends the warm-up: later
 * slow steps are noise and stay.
 */
#ifndef DL_TRACE_STEPS_H
#define DL_TRACE_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/dlt.h"

/* Where the time of a step goes. */
typedef enum dl_part {
    DL_PART_COMPUTE,
    DL_PART_DISPATCH,      /* what no record covers */
    DL_PART_COMMUNICATION, /* COPY */
    DL_PART_AVERAGING,
    DL_PART_WAITING,
    DL_PART_INPUT,
    DL_PART_SLOWDOWN,
    DL_PART_COUNT
} dl_part;

/* "compute", "dispatch", "communication", ...; as the columns of results are named. */
const char *dl_part_name(dl_part part);

typedef struct dl_step {
    uint32_t worker, step, samples; /* as in the STEP record */
    bool warmup;
    int64_t start_ns, duration_ns;
    int64_t staleness;              /* DL_NO_STALENESS if the mode has none */
    int64_t part_ns[DL_PART_COUNT]; /* sum = duration_ns, unless its records overlap */
    size_t first;                   /* place of the step's first record in dl_steps.order */
    size_t record_count;            /* its records there, the STEP record (last) included */
} dl_step;

/* Owns its arrays; release with dl_steps_free. Indices stay valid as long as the trace is. */
typedef struct dl_steps {
    dl_step *steps; /* [count] by worker, then in order of time */
    size_t count;
    size_t *worker_first;  /* [worker_count + 1]: worker w has steps worker_first[w] to before
                              worker_first[w + 1] */
    uint32_t worker_count; /* as in the trace */
    size_t *order;         /* indices into trace->records, by worker, each in its own order */
    size_t outside_count;  /* records that lie in no step (cut run, work before the first step) */
    size_t overlap_count;  /* steps whose records cover more than the step; dispatch 0 there */
} dl_steps;

/* Finds the steps of `trace`; zero `steps` before. A trace without steps gives count 0. */
void dl_steps_init(dl_steps *steps, const dl_trace *trace);
void dl_steps_free(dl_steps *steps);

/* Record number i (0 .. step->record_count - 1) of a step of `steps`. Borrowed from the trace. */
const dl_record *dl_steps_record(const dl_steps *steps, const dl_trace *trace, const dl_step *step,
                                 size_t i);

#endif
