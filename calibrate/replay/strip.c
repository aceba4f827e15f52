#include "calibrate/replay/strip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* A collective of a regular step. */
typedef struct part {
    uint32_t node;
    const char *name;
    int64_t recorded_ns, transfer_ns; /* durations */
} part;

/* The collectives of each regular step, in order. */
typedef struct parts {
    part *parts;   /* [first[steps]] */
    size_t *first; /* [steps + 1] */
    size_t steps;
} parts;

static double recorded_step_ns(const dl_step_line *line)
{
    double sum_ns = 0;
    for (size_t s = 0; s < line->count; s++) {
        if (line->steps[s].label == DL_STEP_REGULAR) sum_ns += (double)line->steps[s].duration_ns;
    }
    return sum_ns / (double)line->regular_count;
}

/* The regular step that each activity is work of, from 1 on; 0 = none. */
static uint32_t *number_steps(const dl_trace *trace, const dl_step_line *line)
{
    uint32_t *step_of = dl_calloc(trace->activity_count, sizeof *step_of, "steps");
    uint32_t number = 0;
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *step = &line->steps[s];
        if (step->label != DL_STEP_REGULAR) continue;
        number++;
        for (size_t w = step->first; w < step->first + step->count; w++)
            step_of[line->work[w]] = number;
    }
    return step_of;
}

static parts take_parts(const dl_replay_run *run, const dl_meetings *meetings,
                        const dl_transfer *transfer, const dl_step_line *line, dl_strip *strip)
{
    parts p = {.steps = line->regular_count,
               .first = dl_calloc(line->regular_count + 2, sizeof *p.first, "collectives"),
               .parts = dl_calloc(meetings->count, sizeof *p.parts, "collectives")};
    uint32_t *step_of = number_steps(run->ranks[0].trace, line);
    const dl_replay_node *nodes = run->graph.nodes;
    /* first[s + 1] counts up to where step s ends, while its meetings are filed in order. */
    for (size_t i = 0; i < meetings->count; i++) {
        const uint32_t step = step_of[nodes[meetings->meetings[i].nodes[0]].activity];
        if (step > 0) p.first[step + 1]++;
    }
    for (size_t s = 0; s < p.steps; s++)
        p.first[s + 2] += p.first[s + 1];
    for (size_t i = 0; i < meetings->count; i++) {
        const dl_meeting *m = &meetings->meetings[i];
        const dl_replay_node *node = &nodes[m->nodes[0]];
        const uint32_t step = step_of[node->activity];
        if (step == 0) continue;
        const double ns = dl_transfer_ns(transfer, m);
        strip->unknown += isnan(ns);
        p.parts[p.first[step]++] = (part){.node = m->nodes[0],
                                          .name = m->name,
                                          .recorded_ns = node->duration_ns,
                                          .transfer_ns = isnan(ns) ? 0 : llround(ns)};
    }
    free(step_of);
    return p;
}

/* How late the peers were at the collective of that name, `number`th of its step. */
static int64_t lateness(const parts *p, size_t step, size_t number, const char *name)
{
    const size_t i = p->first[step] + number;
    if (i >= p->first[step + 1] || strcmp(p->parts[i].name, name) != 0) return 0;
    const int64_t ns = p->parts[i].recorded_ns - p->parts[i].transfer_ns;
    return ns > 0 ? ns : 0;
}

/* Sets the durations of all parts: with the latenesses of the step `turn` later; 0 = none and no
 * transfers either. */
static void put_in(dl_replay_graph *graph, const parts *p, size_t turn)
{
    for (size_t s = 0; s < p->steps; s++) {
        for (size_t i = p->first[s]; i < p->first[s + 1]; i++) {
            const part *c = &p->parts[i];
            const size_t other = (s + turn) % p->steps;
            graph->nodes[c->node].duration_ns =
                turn == 0 ? 0 : c->transfer_ns + lateness(p, other, i - p->first[s], c->name);
        }
    }
}

static void restore(dl_replay_graph *graph, const parts *p)
{
    for (size_t i = 0; i < p->first[p->steps]; i++)
        graph->nodes[p->parts[i].node].duration_ns = p->parts[i].recorded_ns;
}

static dl_status time_steps(const dl_replay_run *run, const dl_step_line *line,
                            dl_replay_time *times, double *step_ns, dl_error *err)
{
    const dl_status status = dl_replay_retime(&run->graph, times, err);
    if (status == DL_OK) *step_ns = dl_replay_mean_step_ns(run, line, times);
    return status;
}

/* Every other step in turn, or as many of them as there are turns, evenly. */
static dl_status take_turns(dl_strip *strip, dl_replay_run *run, const parts *p,
                            const dl_step_line *line, dl_replay_time *times, dl_error *err)
{
    const size_t others = p->steps - 1;
    const size_t turns = others < DL_STRIP_TURNS ? others : DL_STRIP_TURNS;
    dl_status status = DL_OK;
    for (size_t t = 0; t < turns && status == DL_OK; t++) {
        double step_ns = 0;
        put_in(&run->graph, p, 1 + t * others / turns);
        status = time_steps(run, line, times, &step_ns, err);
        strip->predicted_ns += step_ns / (double)turns;
    }
    return status;
}

static void sum_up(dl_strip *strip, const parts *p)
{
    double transfers_ns = 0;
    for (size_t i = 0; i < p->first[p->steps]; i++)
        transfers_ns += (double)p->parts[i].transfer_ns;
    strip->added_ns = strip->empty_ns + transfers_ns / (double)p->steps;
    strip->collectives = (p->first[p->steps] + p->steps / 2) / p->steps;
}

dl_status dl_strip_predict(dl_strip *strip, dl_replay_run *run, const dl_meetings *meetings,
                           const dl_transfer *transfer, const dl_step_line *line, dl_error *err)
{
    if (line->regular_count < 2) {
        return dl_error_set_at(err, DL_ERR_DATA, run->ranks[0].trace->path, 0,
                               "%zu regular steps: a step's collectives are predicted from those "
                               "of others, which takes two",
                               line->regular_count);
    }
    *strip = (dl_strip){.steps = line->regular_count, .recorded_ns = recorded_step_ns(line)};
    parts p = take_parts(run, meetings, transfer, line, strip);
    dl_replay_time *times = dl_calloc(run->graph.node_count, sizeof *times, "replay");
    dl_status status = time_steps(run, line, times, &strip->replayed_ns, err);
    if (status == DL_OK) {
        put_in(&run->graph, &p, 0);
        status = time_steps(run, line, times, &strip->empty_ns, err);
    }
    if (status == DL_OK) status = take_turns(strip, run, &p, line, times, err);
    restore(&run->graph, &p);
    sum_up(strip, &p);
    free(times);
    free(p.parts);
    free(p.first);
    return status;
}
