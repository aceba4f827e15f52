#include "calibrate/replay/collectives.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/replay/graph.h"
#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/collectives.h"

/* Maximum number of other steps whose latenesses are used. */
#define MOST_TURNS 16

static dl_collective_kernels kernels_of(const dl_trace *trace)
{
    DL_SCOPED(dl_launches) launches = {0};
    dl_collective_kernels list = {0};
    DL_AUTOFREE uint8_t *classes = dl_kernel_classes(trace);
    dl_launches_init(&launches, trace->activities, trace->activity_count);
    dl_collective_kernels_find(&list, trace->activities, trace->activity_count, trace->strings,
                               classes, &launches);
    return list;
}

/* Kernels of one rank by name, then by start. */
DL_ORDER(by_name_and_start, dl_collective_kernel, DL_BY_TEXT(name), DL_BY(start_ns),
         DL_BY(activity));

DL_ORDER(by_last_start, dl_instance, DL_BY(last_ns), DL_BY(nodes[0]));

/* Returns the index of the first kernel of `name`, and the number of such kernels in *count. */
static size_t find_name(const dl_collective_kernels *list, const char *name, size_t *count)
{
    size_t first;
    DL_BISECT(first, list->count, strcmp(list->kernels[first].name, name) < 0);
    *count = 0;
    while (first + *count < list->count && strcmp(list->kernels[first + *count].name, name) == 0)
        ++*count;
    return first;
}

/* Adds the instance that consists of kernels[rank], one kernel of each rank. */
static void add(dl_instances *instances, const dl_replay_run *run,
                const dl_collective_kernel *const *kernels)
{
    const double ranks = (double)run->rank_count;
    dl_instance m = {.name = dl_strdup(kernels[0]->name),
                     .object = kernels[0]->object,
                     .ranks = kernels[0]->ranks,
                     .integers = kernels[0]->integers,
                     .nodes = dl_calloc(run->rank_count, sizeof *m.nodes, "collectives"),
                     .last_ns = INT64_MIN};
    double end_ns = 0;
    for (size_t r = 0; r < run->rank_count; r++) {
        const dl_activity *a = &run->ranks[r].trace->activities[kernels[r]->activity];
        m.nodes[r] = run->ranks[r].node_of[kernels[r]->activity];
        m.bytes += (double)kernels[r]->bytes / ranks;
        if (a->start_ns > m.last_ns) m.last_ns = a->start_ns;
        end_ns += (double)(a->start_ns + a->duration_ns - kernels[0]->start_ns) / ranks;
    }
    m.end_ns = kernels[0]->start_ns + (int64_t)end_ns;
    instances->instances[instances->count++] = m;
}

/* Adds the instances of one name if all ranks have `count` kernels of it; those of the first rank
 * start at index `first`. */
static void add_name(dl_instances *instances, const dl_replay_run *run,
                     const dl_collective_kernels *ranks, size_t first, size_t count)
{
    const char *name = ranks[0].kernels[first].name;
    DL_AUTOFREE size_t *starts = dl_calloc(run->rank_count, sizeof *starts, "collectives");
    DL_AUTOFREE const dl_collective_kernel **kernels =
        dl_calloc(run->rank_count, sizeof *kernels, "collectives");
    bool all_have_it = true;
    for (size_t r = 0; r < run->rank_count; r++) {
        size_t others;
        starts[r] = find_name(&ranks[r], name, &others);
        all_have_it = all_have_it && others == count;
    }
    for (size_t k = 0; k < count && all_have_it; k++) {
        for (size_t r = 0; r < run->rank_count; r++)
            kernels[r] = &ranks[r].kernels[starts[r] + k];
        add(instances, run, kernels);
    }
}

void dl_instances_find(dl_instances *instances, const dl_replay_run *run)
{
    DL_AUTOFREE dl_collective_kernels *ranks =
        dl_calloc(run->rank_count, sizeof *ranks, "collectives");
    size_t kernels = 0, count;
    for (size_t r = 0; r < run->rank_count; r++) {
        ranks[r] = kernels_of(run->ranks[r].trace);
        dl_sort(ranks[r].kernels, ranks[r].count, sizeof *ranks[r].kernels, by_name_and_start);
        kernels += ranks[r].count;
    }
    instances->instances = dl_calloc(ranks[0].count, sizeof *instances->instances, "collectives");
    for (size_t first = 0; first < ranks[0].count; first += count) {
        find_name(&ranks[0], ranks[0].kernels[first].name, &count);
        add_name(instances, run, ranks, first, count);
    }
    instances->left_alone = kernels - instances->count * run->rank_count;
    dl_sort(instances->instances, instances->count, sizeof *instances->instances, by_last_start);
    for (size_t r = 0; r < run->rank_count; r++) {
        dl_collective_kernels_free(&ranks[r]);
    }
}

void dl_instances_free(dl_instances *instances)
{
    for (size_t i = 0; i < instances->count; i++) {
        free(instances->instances[i].name);
        free(instances->instances[i].nodes);
    }
    free(instances->instances);
    *instances = (dl_instances){0};
}

/* Relative difference below which sizes count as equal: rounding. */
#define SAME_SIZE 1e-12

DL_ORDER_OF_POINTERS(by_kind_name, dl_instance, DL_BY_TEXT(name), DL_COMPARE(a, b));

/* Time from the last rank's start to the end; with one rank, the whole kernel. */
static double time_of(const dl_instance *instance, const dl_replay_run *run)
{
    const int64_t ns = run->rank_count > 1 ? instance->end_ns - instance->last_ns
                                           : run->graph.nodes[instance->nodes[0]].duration_ns;
    return ns > 0 ? (double)ns : 0;
}

/* Adds point number `count` >= 1. */
static void add_point(dl_transfer_sums *s, size_t count, double x, double y)
{
    const double dx = x - s->mean_x, dy = y - s->mean_y, n = (double)count;
    s->mean_x += dx / n;
    s->mean_y += dy / n;
    s->xx += dx * (x - s->mean_x);
    s->xy += dx * (y - s->mean_y);
    s->yy += dy * (y - s->mean_y);
}

/* Sums without one of `count` >= 2 points. */
static dl_transfer_sums without_point(const dl_transfer_sums *s, size_t count, double x, double y)
{
    const double n = (double)count;
    dl_transfer_sums rest = *s;
    rest.mean_x -= (x - s->mean_x) / (n - 1);
    rest.mean_y -= (y - s->mean_y) / (n - 1);
    rest.xx -= (x - s->mean_x) * (x - rest.mean_x);
    rest.xy -= (x - s->mean_x) * (y - rest.mean_y);
    rest.yy -= (y - s->mean_y) * (y - rest.mean_y);
    return rest;
}

/* Fits the least-squares line with both coefficients >= 0; a negative one is constrained to 0. */
static void fit_line(dl_transfer_line *line, const dl_transfer_sums *s, size_t count)
{
    const double n = (double)count;
    const bool same = s->xx <= SAME_SIZE * n * s->mean_x * s->mean_x;
    line->ns_per_byte = same ? 0 : fmax(0, s->xy / s->xx);
    line->latency_ns = s->mean_y - line->ns_per_byte * s->mean_x;
    if (line->latency_ns < 0) {
        line->latency_ns = 0;
        line->ns_per_byte =
            (s->xy + n * s->mean_x * s->mean_y) / (s->xx + n * s->mean_x * s->mean_x);
    }
    const double slope = line->ns_per_byte;
    const double bias = s->mean_y - line->latency_ns - slope * s->mean_x;
    const double squares = s->yy - 2 * slope * s->xy + slope * slope * s->xx + n * bias * bias;
    line->error_ns = sqrt(fmax(0, squares) / n);
}

/* Fits the line of instances[count] of one name; with one rank, it passes through 0 with the least
 * time per byte. Returns false if none has a known size. */
static bool make_line(dl_transfer_line *line, dl_instance *const *instances, size_t count,
                      const dl_replay_run *run)
{
    double lowest = INFINITY;
    *line = (dl_transfer_line){.name = instances[0]->name, .second = INFINITY};
    for (size_t i = 0; i < count; i++) {
        const double bytes = instances[i]->bytes, ns = time_of(instances[i], run);
        if (bytes <= 0) continue;
        add_point(&line->sums, ++line->instances, bytes, ns);
        line->second = fmin(line->second, fmax(lowest, ns / bytes));
        lowest = fmin(lowest, ns / bytes);
    }
    if (line->instances == 0) return false;
    if (run->rank_count > 1) {
        fit_line(line, &line->sums, line->instances);
    } else {
        line->ns_per_byte = lowest;
    }
    return true;
}

void dl_transfer_fit(dl_transfer *transfer, const dl_instances *instances, const dl_replay_run *run)
{
    DL_AUTOFREE dl_instance **order = dl_calloc(instances->count, sizeof *order, "collectives");
    for (size_t i = 0; i < instances->count; i++)
        order[i] = &instances->instances[i];
    dl_sort(order, instances->count, sizeof(dl_instance *), by_kind_name);
    DL_GROUPS (first, end, instances->count, strcmp(order[end]->name, order[first]->name) == 0) {
        transfer->lines = dl_realloc(transfer->lines, transfer->count + 1, sizeof *transfer->lines,
                                     "collectives");
        dl_transfer_line *line = &transfer->lines[transfer->count];
        transfer->count += make_line(line, &order[first], end - first, run);
    }
}

static const dl_transfer_line *find_line(const dl_transfer *transfer, const char *name)
{
    size_t i;
    DL_BISECT(i, transfer->count, strcmp(transfer->lines[i].name, name) < 0);
    const bool found = i < transfer->count && strcmp(transfer->lines[i].name, name) == 0;
    return found ? &transfer->lines[i] : NULL;
}

static double by_line(const dl_transfer_line *line, const dl_instance *instance)
{
    return line->latency_ns + line->ns_per_byte * instance->bytes;
}

double dl_transfer_ns(const dl_transfer *transfer, const dl_instance *instance)
{
    const dl_transfer_line *line = find_line(transfer, instance->name);
    if (line == NULL || instance->bytes <= 0) return (double)NAN;
    return by_line(line, instance);
}

double dl_transfer_ns_without(const dl_transfer *transfer, const dl_instance *instance,
                              const dl_replay_run *run)
{
    const dl_transfer_line *line = find_line(transfer, instance->name);
    if (line == NULL || instance->bytes <= 0 || line->instances < 2) return (double)NAN;
    const double ns = time_of(instance, run);
    dl_transfer_line others = *line;
    if (run->rank_count == 1) {
        if (ns / instance->bytes <= line->ns_per_byte) others.ns_per_byte = line->second;
    } else {
        const dl_transfer_sums rest =
            without_point(&line->sums, line->instances, instance->bytes, ns);
        fit_line(&others, &rest, line->instances - 1);
    }
    return by_line(&others, instance);
}

void dl_transfer_free(dl_transfer *transfer)
{
    free(transfer->lines);
    *transfer = (dl_transfer){0};
}

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

/* Returns the number of each activity's regular step, from 1; 0: none. */
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

static parts take_parts(const dl_replay_run *run, const dl_instances *instances,
                        const dl_transfer *transfer, const dl_step_line *line,
                        dl_prediction *prediction)
{
    parts p = {.steps = line->regular_count,
               .first = dl_calloc(line->regular_count + 2, sizeof *p.first, "collectives"),
               .parts = dl_calloc(instances->count, sizeof *p.parts, "collectives")};
    DL_AUTOFREE uint32_t *step_of = number_steps(run->ranks[0].trace, line);
    const dl_replay_node *nodes = run->graph.nodes;
    /* While the instances are inserted in order, first[s + 1] grows from the start of step s to its
     * end. */
    for (size_t i = 0; i < instances->count; i++) {
        const uint32_t step = step_of[nodes[instances->instances[i].nodes[0]].activity];
        if (step > 0) p.first[step + 1]++;
    }
    for (size_t s = 0; s < p.steps; s++)
        p.first[s + 2] += p.first[s + 1];
    for (size_t i = 0; i < instances->count; i++) {
        const dl_instance *m = &instances->instances[i];
        const dl_replay_node *node = &nodes[m->nodes[0]];
        const uint32_t step = step_of[node->activity];
        if (step == 0) continue;
        const double ns = dl_transfer_ns(transfer, m);
        prediction->unknown += isnan(ns);
        p.parts[p.first[step]++] = (part){.node = m->nodes[0],
                                          .name = m->name,
                                          .recorded_ns = node->duration_ns,
                                          .transfer_ns = isnan(ns) ? 0 : llround(ns)};
    }
    return p;
}

/* Lateness in ns of the peers at collective `number` of the step; 0 if there is none, or its name
 * differs from `name`. */
static int64_t lateness(const parts *p, size_t step, size_t number, const char *name)
{
    const size_t i = p->first[step] + number;
    if (i >= p->first[step + 1] || strcmp(p->parts[i].name, name) != 0) return 0;
    const int64_t ns = p->parts[i].recorded_ns - p->parts[i].transfer_ns;
    return ns > 0 ? ns : 0;
}

/* Sets the duration of each part to its transfer time plus the lateness of the same part `turn`
 * steps later; with turn 0, sets it to 0. */
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

static dl_status time_steps(const dl_replay_run *run, const dl_step_line *line,
                            dl_replay_time *times, double *step_ns, dl_error *err)
{
    const dl_status status = dl_replay_simulate(&run->graph, times, err);
    if (status == DL_OK) *step_ns = dl_replay_mean_step_ns(run, line, times, NULL);
    return status;
}

/* Predicts the step's time as the average over the latenesses of all other steps, or of MOST_TURNS
 * evenly spaced ones if there are more. */
static dl_status take_turns(dl_prediction *prediction, dl_replay_run *run, const parts *p,
                            const dl_step_line *line, dl_replay_time *times, dl_error *err)
{
    const size_t others = p->steps - 1;
    const size_t turns = others < MOST_TURNS ? others : MOST_TURNS;
    dl_status status = DL_OK;
    for (size_t t = 0; t < turns && status == DL_OK; t++) {
        double step_ns = 0;
        put_in(&run->graph, p, 1 + t * others / turns);
        status = time_steps(run, line, times, &step_ns, err);
        prediction->predicted_ns += step_ns / (double)turns;
    }
    return status;
}

/* Restores the nodes' durations and completes the means. */
static void sum_up(dl_prediction *prediction, const parts *p, dl_replay_node *nodes)
{
    double transfers_ns = 0;
    for (size_t i = 0; i < p->first[p->steps]; i++) {
        nodes[p->parts[i].node].duration_ns = p->parts[i].recorded_ns;
        transfers_ns += (double)p->parts[i].transfer_ns;
    }
    prediction->added_ns = prediction->empty_ns + transfers_ns / (double)p->steps;
    prediction->collectives = (p->first[p->steps] + p->steps / 2) / p->steps;
}

dl_status dl_predict_steps(dl_prediction *prediction, dl_replay_run *run,
                           const dl_instances *instances, const dl_transfer *transfer,
                           const dl_step_line *line, dl_error *err)
{
    if (line->regular_count < 2) {
        return dl_error_set_at(err, DL_ERR_DATA, run->ranks[0].trace->path, 0,
                               "%zu regular steps: a step's collectives are predicted from those "
                               "of other steps, so two are needed",
                               line->regular_count);
    }
    *prediction =
        (dl_prediction){.steps = line->regular_count, .recorded_ns = recorded_step_ns(line)};
    parts p = take_parts(run, instances, transfer, line, prediction);
    DL_AUTOFREE dl_replay_time *times = dl_calloc(run->graph.node_count, sizeof *times, "replay");
    dl_status status = time_steps(run, line, times, &prediction->replayed_ns, err);
    if (status == DL_OK) {
        put_in(&run->graph, &p, 0);
        status = time_steps(run, line, times, &prediction->empty_ns, err);
    }
    if (status == DL_OK) status = take_turns(prediction, run, &p, line, times, err);
    sum_up(prediction, &p, run->graph.nodes);
    free(p.parts);
    free(p.first);
    return status;
}

/* Makes each instance a group with its modelled time, or its recorded time if that is unknown. */
static void add_groups(dl_multi_rank *multi, dl_replay_run *run, const dl_instances *instances)
{
    DL_SCOPED(dl_transfer) transfer = {0};
    dl_transfer_fit(&transfer, instances, run);
    for (size_t i = 0; i < instances->count; i++) {
        const dl_instance *m = &instances->instances[i];
        dl_multi_rank_instance *j = &multi->instances[i];
        *j = (dl_multi_rank_instance){.instance = m,
                                      .transfer_ns = dl_transfer_ns_without(&transfer, m, run),
                                      .recorded_ns = m->end_ns - m->last_ns};
        if (j->recorded_ns < 0) j->recorded_ns = 0;
        const int64_t ns = isnan(j->transfer_ns) ? j->recorded_ns : llround(j->transfer_ns);
        dl_replay_graph_add_group(&run->graph, m->nodes, run->rank_count, ns);
    }
}

static void compare(dl_multi_rank *multi, const dl_replay_run *run, const dl_replay_time *times)
{
    for (size_t i = 0; i < multi->count; i++) {
        dl_multi_rank_instance *j = &multi->instances[i];
        for (size_t r = 0; r < run->rank_count; r++) {
            const uint32_t node = j->instance->nodes[r];
            const dl_activity *a =
                &run->ranks[r].trace->activities[run->graph.nodes[node].activity];
            const int64_t recorded_ns = a->start_ns + a->duration_ns - run->graph.origin_ns;
            const int64_t error_ns = times[node].end_ns - recorded_ns;
            if (llabs(error_ns) > llabs(j->worst_end_ns)) j->worst_end_ns = error_ns;
        }
        if (llabs(j->worst_end_ns) > multi->worst_end_ns) {
            multi->worst_end_ns = llabs(j->worst_end_ns);
        }
    }
}

dl_status dl_multi_rank_replay(dl_multi_rank *multi, dl_replay_run *run,
                               const dl_instances *instances, dl_error *err)
{
    if (instances->count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, run->ranks[0].trace->path, 0,
                               "no collective that all %zu ranks call equally often",
                               run->rank_count);
    }
    multi->instances = dl_calloc(instances->count, sizeof *multi->instances, "collectives");
    multi->count = instances->count;
    add_groups(multi, run, instances);
    DL_AUTOFREE dl_replay_time *times = dl_calloc(run->graph.node_count, sizeof *times, "replay");
    const dl_status status = dl_replay_simulate(&run->graph, times, err);
    if (status == DL_OK) compare(multi, run, times);
    return status;
}

void dl_multi_rank_free(dl_multi_rank *multi)
{
    free(multi->instances);
    *multi = (dl_multi_rank){0};
}
