#include "trace/training/summary.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "trace/distribution.h"

#define WARMUP_FACTOR 1.25
#define WARMUP_STEPS_MAX 10

const char *dl_part_name(dl_part part)
{
    static const char *const names[DL_PART_COUNT] = {
        "compute", "dispatch", "communication", "averaging", "waiting", "input", "slowdown"};
    return (unsigned)part < DL_PART_COUNT ? names[part] : "unknown";
}

/* Returns the part of a record other than STEP and BENCH. */
static dl_part part_of(dl_record_kind kind)
{
    switch (kind) {
    case DL_RECORD_COPY: return DL_PART_COMMUNICATION;
    case DL_RECORD_AVERAGE: return DL_PART_AVERAGING;
    case DL_RECORD_WAIT: return DL_PART_WAITING;
    case DL_RECORD_INPUT: return DL_PART_INPUT;
    case DL_RECORD_SLOWDOWN: return DL_PART_SLOWDOWN;
    default: return DL_PART_COMPUTE;
    }
}

/* Counting sort by worker, stable within each worker. order_first[w] is the index of worker w's
 * first record. Returns the number of STEP records. */
static size_t group_by_worker(dl_steps *steps, const dl_trace *trace, size_t *order_first)
{
    size_t step_count = 0, *next = order_first + 1;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        if (record->kind == DL_RECORD_BENCH) continue;
        next[record->worker]++;
        step_count += record->kind == DL_RECORD_STEP;
    }
    for (uint32_t w = 0; w < trace->worker_count; w++)
        order_first[w + 1] += order_first[w];
    DL_AUTOFREE size_t *place = dl_calloc(trace->worker_count, sizeof *place, "trace order");
    for (uint32_t w = 0; w < trace->worker_count; w++)
        place[w] = order_first[w];
    steps->order = dl_calloc(order_first[trace->worker_count], sizeof *steps->order, "trace order");
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        if (record->kind != DL_RECORD_BENCH) steps->order[place[record->worker]++] = i;
    }
    return step_count;
}

/* Sums the step's records, from steps->order[step->first], into the parts; returns true if they are
 * longer than the step. */
static bool sum_parts(const dl_steps *steps, const dl_trace *trace, dl_step *step)
{
    int64_t left_ns = step->duration_ns;
    bool overlap = false;
    for (size_t i = 0; i + 1 < step->record_count; i++) {
        const dl_record *record = dl_steps_record(steps, trace, step, i);
        /* Limited to the remaining time: sums of durations of an invalid trace could exceed 64
         * bits. */
        overlap |= record->duration_ns > left_ns;
        int64_t counted_ns = record->duration_ns < left_ns ? record->duration_ns : left_ns;
        step->part_ns[part_of(record->kind)] += counted_ns;
        left_ns -= counted_ns;
    }
    step->part_ns[DL_PART_DISPATCH] = left_ns;
    return overlap;
}

/* Adds the step that ends at order[last] and whose records start at order[first] or later. */
static void add_step(dl_steps *steps, const dl_trace *trace, size_t first, size_t last)
{
    const dl_record *mark = &trace->records[steps->order[last]];
    while (first < last && trace->records[steps->order[first]].start_ns < mark->start_ns) {
        first++;
        steps->outside_count++;
    }
    dl_step *step = &steps->steps[steps->count++];
    *step = (dl_step){.worker = mark->worker,
                      .step = mark->step,
                      .samples = mark->samples,
                      .start_ns = mark->start_ns,
                      .duration_ns = mark->duration_ns,
                      .staleness = mark->staleness,
                      .first = first,
                      .record_count = last + 1 - first};
    steps->overlap_count += sum_parts(steps, trace, step);
}

static void flag_warmup(dl_step *steps, size_t count)
{
    if (count == 0) return;
    DL_AUTOFREE double *durations_ns = dl_calloc(count, sizeof *durations_ns, "step times");
    for (size_t i = 0; i < count; i++)
        durations_ns[i] = (double)steps[i].duration_ns;
    dl_distribution all = dl_distribution_of(durations_ns, count);
    size_t most = (count + 9) / 10;
    if (most > WARMUP_STEPS_MAX) most = WARMUP_STEPS_MAX;
    for (size_t i = 0; i < most; i++) {
        double duration_ns = (double)steps[i].duration_ns;
        if (duration_ns <= WARMUP_FACTOR * all.p50 || duration_ns <= all.p90) return;
        steps[i].warmup = true;
    }
}

static void find_worker_steps(dl_steps *steps, const dl_trace *trace, size_t first, size_t end)
{
    size_t steps_before = steps->count;
    for (size_t i = first; i < end; i++) {
        if (trace->records[steps->order[i]].kind != DL_RECORD_STEP) continue;
        add_step(steps, trace, first, i);
        first = i + 1;
    }
    steps->outside_count += end - first;
    flag_warmup(steps->steps + steps_before, steps->count - steps_before);
}

void dl_steps_init(dl_steps *steps, const dl_trace *trace)
{
    uint32_t workers = trace->worker_count;
    *steps = (dl_steps){.worker_count = workers};
    DL_AUTOFREE size_t *order_first =
        dl_calloc((size_t)workers + 1, sizeof *order_first, "trace order");
    size_t step_count = group_by_worker(steps, trace, order_first);
    steps->steps = dl_calloc(step_count, sizeof *steps->steps, "steps");
    steps->worker_first = dl_calloc((size_t)workers + 1, sizeof *steps->worker_first, "steps");
    for (uint32_t w = 0; w < workers; w++) {
        find_worker_steps(steps, trace, order_first[w], order_first[w + 1]);
        steps->worker_first[w + 1] = steps->count;
    }
}

void dl_steps_free(dl_steps *steps)
{
    free(steps->steps);
    free(steps->worker_first);
    free(steps->order);
    *steps = (dl_steps){0};
}

const dl_record *dl_steps_record(const dl_steps *steps, const dl_trace *trace, const dl_step *step,
                                 size_t i)
{
    return &trace->records[steps->order[step->first + i]];
}
