#include "calibrate/replay/step_times.h"

#include <stdlib.h>

#include "common/alloc.h"

/* A border between steps: the earliest start of works, or the latest end. */
typedef struct border {
    int64_t recorded_ns, replayed_ns;
    uint32_t node; /* that of the replayed one */
} border;

static border step_begin(const dl_replay_run *run, const dl_replay_rank *rank,
                         const dl_step_line *line, const dl_activity_step *step,
                         const dl_replay_time *times)
{
    border b = {INT64_MAX, INT64_MAX, DL_REPLAY_NONE};
    for (size_t i = 0; i < step->count; i++) {
        if (!dl_step_line_begins(line, step->first + i)) continue;
        uint32_t node = rank->node_of[line->work[step->first + i]];
        int64_t recorded_ns = run->graph.nodes[node].recorded_ns - run->graph.origin_ns;
        if (recorded_ns < b.recorded_ns) b.recorded_ns = recorded_ns;
        if (times[node].start_ns >= b.replayed_ns) continue;
        b.replayed_ns = times[node].start_ns;
        b.node = node;
    }
    return b;
}

static border work_end(const dl_replay_run *run, const dl_replay_rank *rank,
                       const dl_step_line *line, size_t first, const dl_replay_time *times)
{
    border b = {0, -1, DL_REPLAY_NONE};
    for (size_t i = first; i < line->work_count; i++) {
        const dl_activity *work = &rank->trace->activities[line->work[i]];
        uint32_t node = rank->node_of[line->work[i]];
        int64_t recorded_ns = work->start_ns + work->duration_ns - run->graph.origin_ns;
        if (recorded_ns > b.recorded_ns) b.recorded_ns = recorded_ns;
        if (times[node].end_ns <= b.replayed_ns) continue;
        b.replayed_ns = times[node].end_ns;
        b.node = node;
    }
    return b;
}

static dl_replay_step *append(dl_replay_steps *steps)
{
    steps->items =
        dl_realloc(steps->items, steps->count + 1, sizeof *steps->items, "replayed steps");
    return &steps->items[steps->count++];
}

void dl_replay_line_add(dl_replay_steps *steps, const dl_replay_run *run, size_t number,
                        const dl_step_line *line, const dl_replay_time *times)
{
    const dl_replay_rank *rank = &run->ranks[number];
    const dl_activity_step all = {.count = line->work_count};
    size_t count = line->count > 0 ? line->count : 1;
    const dl_activity_step *items = line->count > 0 ? line->steps : &all;
    border begin = step_begin(run, rank, line, &items[0], times);
    for (size_t i = 0; i < count; i++) {
        bool last = i + 1 == count;
        border end = last ? work_end(run, rank, line, items[i].first, times)
                          : step_begin(run, rank, line, &items[i + 1], times);
        if (end.recorded_ns < begin.recorded_ns) end.recorded_ns = begin.recorded_ns;
        if (end.replayed_ns < begin.replayed_ns) end.replayed_ns = begin.replayed_ns;
        *append(steps) = (dl_replay_step){
            .rank = (uint16_t)number,
            .device = line->device,
            .number = i,
            .label = line->count > 0 ? items[i].label : DL_STEP_OTHER,
            .whole = line->count == 0,
            .recorded_ns = end.recorded_ns - begin.recorded_ns,
            .replayed_ns = end.replayed_ns - begin.replayed_ns,
            .start_ns = begin.replayed_ns,
            .end_ns = end.replayed_ns,
            .ends_with = end.node,
            .at_end = last,
        };
        begin = end;
    }
}

void dl_replay_steps_add(dl_replay_steps *steps, const dl_replay_run *run, size_t rank,
                         const dl_activity_steps *found, const dl_replay_time *times)
{
    for (size_t i = 0; i < found->count; i++) {
        if (found->lines[i].work_count > 0)
            dl_replay_line_add(steps, run, rank, &found->lines[i], times);
    }
}

double dl_replay_mean_step_ns(const dl_replay_run *run, const dl_step_line *line,
                              const dl_replay_time *times)
{
    dl_replay_steps steps = {0};
    double sum_ns = 0;
    dl_replay_line_add(&steps, run, 0, line, times);
    for (size_t i = 0; i < line->count; i++) {
        if (line->steps[i].label == DL_STEP_REGULAR) sum_ns += (double)steps.items[i].replayed_ns;
    }
    dl_replay_steps_free(&steps);
    return line->regular_count > 0 ? sum_ns / (double)line->regular_count : 0;
}

void dl_replay_steps_free(dl_replay_steps *steps)
{
    free(steps->items);
    *steps = (dl_replay_steps){0};
}

double dl_replay_step_error(const dl_replay_step *step)
{
    if (step->recorded_ns == 0) return 0;
    return (double)step->replayed_ns / (double)step->recorded_ns - 1;
}
