#include "calibrate/replay/recorded_step.h"

#include <stdlib.h>
#include <strings.h>

#include "calibrate/replay/collectives.h"
#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/csv.h"
#include "common/output.h"
#include "common/sort.h"

typedef struct cut {
    const dl_replay_run *run;
    const dl_replay_time *times;
    int64_t start_ns, end_ns; /* start and end of the step */
    int64_t done_ns;          /* end of its passes */
    int64_t update_ns;        /* duration of the update; the rest of [done_ns, end_ns) precedes the
                               * next step */
    uint8_t *taken;           /* [nodes] the node is part of the export */
    int64_t *issue_ns;        /* [nodes] issue time since the step's start */
    uint32_t *number;         /* [nodes] index of its task */
    uint32_t *lane;           /* [lanes of the graph] index of the exported lane, or
                               * DL_REPLAY_NONE */
    uint32_t *stack;          /* nodes whose predecessors are still to be taken */
    size_t stacked;
    uint32_t *first, *order; /* edges to node n: order[first[n]] .. order[first[n + 1] - 1] */
} cut;

static bool is_before(const cut *c, uint32_t node)
{
    return c->times[node].end_ns <= c->start_ns;
}

static void take(cut *c, uint32_t node)
{
    if (c->taken[node]) return;
    c->taken[node] = 1;
    c->stack[c->stacked++] = node;
}

static void delay(cut *c, uint32_t node, int64_t ns)
{
    if (ns - c->start_ns > c->issue_ns[node]) c->issue_ns[node] = ns - c->start_ns;
}

/* Returns whether the edge can be kept: its source event lies within the step. */
static bool is_inside(const cut *c, const dl_replay_edge *edge)
{
    return edge->from_start ? c->times[edge->from].start_ns >= c->start_ns
                            : !is_before(c, edge->from);
}

/* Takes the nodes that this node waited for, or their times if they precede the step. */
static void take_reasons(cut *c, uint32_t node)
{
    const dl_replay_graph *g = &c->run->graph;
    const uint32_t before = g->before[node];
    const dl_replay_lane *lane = &g->lanes[g->nodes[node].lane];
    if (c->times[node].start_ns < c->start_ns) return; /* already running at the step's start */
    if (before == DL_REPLAY_NONE) {
        delay(c, node, lane->begin_ns - g->origin_ns);
    } else if (is_before(c, before)) {
        delay(c, node, c->times[before].end_ns + g->nodes[node].spacing_ns);
    } else {
        take(c, before);
    }
    for (uint32_t i = c->first[node]; i < c->first[node + 1]; i++) {
        const dl_replay_edge *edge = &g->edges[c->order[i]];
        const dl_replay_time *from = &c->times[edge->from];
        if (is_inside(c, edge)) {
            take(c, edge->from);
        } else {
            delay(c, node, (edge->from_start ? from->start_ns : from->end_ns) + edge->lag_ns);
        }
    }
}

static void sort_edges(cut *c)
{
    const dl_replay_graph *g = &c->run->graph;
    for (size_t e = 0; e < g->edge_count; e++)
        c->first[g->edges[e].to + 2]++;
    for (size_t n = 0; n < g->node_count; n++)
        c->first[n + 2] += c->first[n + 1];
    for (size_t e = 0; e < g->edge_count; e++)
        c->order[c->first[g->edges[e].to + 1]++] = (uint32_t)e;
}

/* Time from the start of the update's first operation to the end of its last; if the step's phases
 * are unknown, all time after the passes. */
static int64_t update_of(const cut *c, const dl_step_line *line, const dl_activity_step *step,
                         const dl_step_phases *phases)
{
    int64_t first_ns = INT64_MAX, last_ns = 0;
    const int64_t rest_ns = c->end_ns - c->done_ns;
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_replay_time *time = &c->times[c->run->ranks[0].node_of[line->work[w]]];
        if (phases->known_steps == 0 || phases->phases[w] != DL_PHASE_UPDATE) continue;
        if (time->start_ns < first_ns) first_ns = time->start_ns;
        if (time->end_ns > last_ns) last_ns = time->end_ns;
    }
    if (first_ns < c->done_ns) first_ns = c->done_ns;
    if (last_ns > c->end_ns) last_ns = c->end_ns;
    return phases->known_steps == 0 ? rest_ns : last_ns > first_ns ? last_ns - first_ns : 0;
}

/* Takes the operations of the forward and backward passes (all operations if the phases are
 * unknown) and the collectives that end within the step, and the nodes that they wait for; sets
 * done_ns to the last end of these operations. */
static void take_step(cut *c, const dl_step_line *line, const dl_activity_step *step,
                      const dl_step_phases *phases)
{
    const bool known = phases->known_steps > 0;
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const uint32_t node = c->run->ranks[0].node_of[line->work[w]];
        const bool passes = !known || phases->phases[w] == DL_PHASE_FORWARD ||
                            phases->phases[w] == DL_PHASE_BACKWARD ||
                            c->run->graph.nodes[node].kind == DL_REPLAY_COLLECTIVE;
        if (!passes || c->times[node].end_ns > c->end_ns || is_before(c, node)) continue;
        take(c, node);
        if (c->times[node].end_ns > c->done_ns) c->done_ns = c->times[node].end_ns;
    }
    while (c->stacked > 0)
        take_reasons(c, c->stack[--c->stacked]);
}

typedef struct writer {
    dl_csv_writer csv;
    const cut *cut;
    int64_t rows;
} writer;

/* Writes a row: its name, then its cells; negative cells stay empty. */
static void row(writer *w, const char *name, const int64_t cells[8])
{
    dl_csv_text(&w->csv, name);
    for (int i = 0; i < 8; i++) {
        if (cells[i] < 0) {
            dl_csv_text(&w->csv, "");
        } else {
            dl_csv_int(&w->csv, cells[i]);
        }
    }
    dl_csv_end_row(&w->csv);
    w->rows++;
}

static void write_lanes(writer *w)
{
    const cut *c = w->cut;
    const dl_replay_graph *g = &c->run->graph;
    const int64_t begin_ns = c->end_ns - c->done_ns - c->update_ns;
    uint32_t lanes = 0, tasks = 0;
    for (size_t l = 0; l < g->lane_count; l++) {
        c->lane[l] = DL_REPLAY_NONE;
        for (uint32_t n = g->lanes[l].first; n != DL_REPLAY_NONE && c->lane[l] == DL_REPLAY_NONE;
             n = g->next[n])
            if (c->taken[n]) c->lane[l] = lanes;
        if (c->lane[l] == DL_REPLAY_NONE) continue;
        row(w, "lane", (int64_t[8]){-1, -1, -1, -1, -1, -1, -1, g->lanes[l].is_stream});
        lanes++;
    }
    for (size_t l = 0; l < g->lane_count; l++) {
        for (uint32_t n = g->lanes[l].first; n != DL_REPLAY_NONE; n = g->next[n]) {
            if (!c->taken[n]) continue;
            const dl_replay_node *node = &g->nodes[n];
            const bool begun = c->times[n].start_ns < c->start_ns;
            const bool follows = g->before[n] != DL_REPLAY_NONE && c->taken[g->before[n]];
            const int64_t work_ns = begun ? c->times[n].end_ns - c->start_ns : node->duration_ns;
            c->number[n] = tasks++;
            row(w, "task",
                (int64_t[8]){c->lane[l], work_ns, follows ? node->spacing_ns : 0,
                             c->issue_ns[n] + begin_ns, -1, -1, -1, -1});
        }
    }
}

static void write_edges(writer *w)
{
    const cut *c = w->cut;
    const dl_replay_graph *g = &c->run->graph;
    for (size_t e = 0; e < g->edge_count; e++) {
        const dl_replay_edge *edge = &g->edges[e];
        if (!c->taken[edge->to] || c->times[edge->to].start_ns < c->start_ns || !is_inside(c, edge))
            continue;
        row(w, "edge",
            (int64_t[8]){-1, -1, -1, -1, c->number[edge->from], c->number[edge->to], edge->lag_ns,
                         edge->from_start});
    }
}

/* Returns whether the exported collective of known size sums numbers: gradients. */
static bool sums(const cut *c, const dl_instance *one)
{
    const bool reduces =
        strcasecmp(one->name, DL_REDUCES) == 0 || strcasecmp(one->name, DL_SCATTERS) == 0;
    return reduces && !one->integers && c->taken[one->nodes[0]] && one->bytes >= 1;
}

/* Fraction of the bytes summed that other groups than the first may sum: norms, statistics. */
#define OTHERS_FRAC 1e-3

/* Checks that one process group sums: a recorded step has gradients, but neither sums of
 * activations nor shards. */
static dl_status check_groups(const cut *c, const char *path, dl_error *err)
{
    DL_SCOPED(dl_instances) found = {0};
    dl_instances_find(&found, c->run);
    double all = 0, most = 0;
    for (size_t i = 0; i < found.count; i++) {
        double own = 0;
        if (!sums(c, &found.instances[i])) continue;
        all += found.instances[i].bytes;
        for (size_t k = 0; k < found.count; k++) {
            const dl_instance *other = &found.instances[k];
            if (sums(c, other) && other->object == found.instances[i].object) own += other->bytes;
        }
        if (own > most) most = own;
    }
    if (all - most <= OTHERS_FRAC * all) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                           "--step: several process groups reduce in a step (dlcal info lists "
                           "them), not all of them gradients: dlcal costs tells them apart");
}

/* Writes the exported collectives that sum gradients, in order of their starts. */
static void write_ready(writer *w)
{
    const cut *c = w->cut;
    DL_SCOPED(dl_instances) found = {0};
    dl_instances_find(&found, c->run);
    for (size_t i = 0; i < found.count; i++) {
        const dl_instance *one = &found.instances[i];
        if (!sums(c, one)) continue;
        row(w, "ready",
            (int64_t[8]){-1, -1, -1, -1, c->number[one->nodes[0]], -1, -1, (int64_t)one->bytes});
    }
}

static dl_status write_step(const char *path, const cut *c, int64_t batch, dl_error *err)
{
    static const char *const names[] = {"step_1", "lane", "work_ns", "spacing_ns", "issue_ns",
                                        "from",   "to",   "lag_ns",  "value"};
    dl_output out;
    dl_status status = dl_output_open(&out, path, err);
    if (status != DL_OK) return status;
    writer w = {.csv = {.out = out.out}, .cut = c};
    dl_csv_comment(&w.csv, "A recorded step (dlcal replay --step): a program of tasks on lanes");
    for (size_t i = 0; i < DL_LENGTH(names); i++)
        dl_csv_text(&w.csv, names[i]);
    dl_csv_end_row(&w.csv);
    row(&w, "batch", (int64_t[8]){-1, -1, -1, -1, -1, -1, -1, batch});
    row(&w, "update", (int64_t[8]){-1, -1, -1, -1, -1, -1, -1, c->update_ns});
    write_lanes(&w);
    write_edges(&w);
    write_ready(&w);
    row(&w, "end", (int64_t[8]){-1, -1, -1, -1, -1, -1, -1, w.rows});
    return dl_output_close(&out, err);
}

DL_ORDER(by_duration, dl_replay_step, DL_BY(replayed_ns), DL_BY(number));

/* Finds the step of median duration among the line's regular steps that are followed by a regular
 * one; returns false if there is none. */
static bool find_median(const dl_step_line *line, const dl_replay_steps *replayed,
                        dl_replay_step *found)
{
    DL_AUTOFREE dl_replay_step *some = dl_calloc(replayed->count, sizeof *some, "steps");
    size_t count = 0;
    for (size_t i = 0; i + 1 < replayed->count; i++) {
        const dl_replay_step *step = &replayed->items[i], *next = step + 1;
        if (step->device == line->device && next->device == line->device && !step->whole &&
            step->label == DL_STEP_REGULAR && next->label == DL_STEP_REGULAR)
            some[count++] = *step;
    }
    dl_sort(some, count, sizeof *some, by_duration);
    if (count > 0) *found = some[(count - 1) / 2];
    return count > 0;
}

dl_status dl_recorded_step_write(const char *path, const dl_replay_run *run,
                                 const dl_activity_steps *steps, const dl_replay_steps *replayed,
                                 const dl_replay_time *times, int64_t batch, double *step_ns,
                                 dl_error *err)
{
    const dl_step_line *line = dl_step_line_busiest(steps);
    dl_replay_step step;
    if (line == NULL || !find_median(line, replayed, &step))
        return dl_error_set_at(err, DL_ERR_DATA, run->ranks[0].trace->path, 0,
                               "--step: no regular step that another one follows");
    const size_t nodes = run->graph.node_count, edges = run->graph.edge_count;
    cut c = {.run = run,
             .times = times,
             .start_ns = step.start_ns,
             .end_ns = step.end_ns,
             .done_ns = step.start_ns,
             .taken = dl_calloc(nodes, 1, "step"),
             .issue_ns = dl_calloc(nodes, sizeof *c.issue_ns, "step"),
             .number = dl_calloc(nodes, sizeof *c.number, "step"),
             .lane = dl_calloc(run->graph.lane_count, sizeof *c.lane, "step"),
             .stack = dl_calloc(nodes, sizeof *c.stack, "step"),
             .first = dl_calloc(nodes + 2, sizeof *c.first, "step"),
             .order = dl_calloc(edges, sizeof *c.order, "step")};
    DL_SCOPED(dl_step_phases) phases = {0};
    dl_step_phases_find(&phases, run->ranks[0].trace, line);
    sort_edges(&c);
    take_step(&c, line, &line->steps[step.number], &phases);
    c.update_ns = update_of(&c, line, &line->steps[step.number], &phases);
    *step_ns = (double)step.replayed_ns;
    dl_status status = check_groups(&c, run->ranks[0].trace->path, err);
    if (status == DL_OK) status = write_step(path, &c, batch, err);
    free(c.taken);
    free(c.issue_ns);
    free(c.number);
    free(c.lane);
    free(c.stack);
    free(c.first);
    free(c.order);
    return status;
}
