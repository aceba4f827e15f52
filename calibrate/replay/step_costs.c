#include "calibrate/replay/step_costs.h"

#include <gsl/gsl_statistics_double.h>
#include <gsl/gsl_statistics_float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/units.h"
#include "trace/activity_launches.h"

/* What is at hand while one trace is looked at. */
typedef struct taking {
    const dl_trace *trace;
    const dl_step_line *line;
    dl_replay_run run;
    dl_step_phases phases;
    dl_launches launches;
    dl_notes *notes;
} taking;

static const dl_step_line *busiest(const dl_activity_steps *steps)
{
    const dl_step_line *best = NULL;
    for (size_t i = 0; i < steps->count; i++) {
        const dl_step_line *line = &steps->lines[i];
        if (line->device == DL_NO_DEVICE) continue;
        if (best == NULL || line->work_count > best->work_count) best = line;
    }
    return best;
}

/* The mean regular step when the run's works are at `times`, on the host: from the first of its
 * launches to that of the next step, of the last step to the end of its last launch. */
static double host_step_ns(const taking *t, const dl_replay_time *times)
{
    double sum_ns = 0;
    int64_t next_ns = -1;
    for (size_t s = t->line->count; s-- > 0;) {
        const dl_activity_step *step = &t->line->steps[s];
        int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;
        for (size_t w = step->first; w < step->first + step->count; w++) {
            const dl_activity *call =
                dl_launches_find(&t->launches, t->trace->activities[t->line->work[w]].correlation);
            if (call == NULL) continue;
            const uint32_t node = t->run.ranks[0].node_of[call - t->trace->activities];
            if (node == DL_REPLAY_NONE) continue;
            if (times[node].start_ns < start_ns) start_ns = times[node].start_ns;
            if (times[node].end_ns > end_ns) end_ns = times[node].end_ns;
        }
        if (start_ns == INT64_MAX) continue;
        if (step->label == DL_STEP_REGULAR) {
            sum_ns += (double)((next_ns >= 0 ? next_ns : end_ns) - start_ns);
        }
        next_ns = start_ns;
    }
    return sum_ns / (double)t->line->regular_count;
}

/* The mean step when nodes of some kinds take no time, on the device or on the host. */
static dl_status step_without(taking *t, unsigned kinds, bool on_host, double *step_ns,
                              dl_error *err)
{
    dl_replay_graph *g = &t->run.graph;
    int64_t *kept = dl_calloc(g->node_count, sizeof *kept, "replay");
    dl_replay_time *times = dl_calloc(g->node_count, sizeof *times, "replay");
    for (size_t n = 0; n < g->node_count; n++) {
        kept[n] = g->nodes[n].duration_ns;
        if (kinds & 1u << g->nodes[n].kind) g->nodes[n].duration_ns = 0;
    }
    const dl_status status = dl_replay_retime(g, times, err);
    if (status == DL_OK) {
        *step_ns =
            on_host ? host_step_ns(t, times) : dl_replay_mean_step_ns(&t->run, times, t->line);
    }
    for (size_t n = 0; n < g->node_count; n++)
        g->nodes[n].duration_ns = kept[n];
    free(kept);
    free(times);
    return status;
}

static const dl_replay_node *node_of(const taking *t, size_t work)
{
    return &t->run.graph.nodes[t->run.ranks[0].node_of[t->line->work[work]]];
}

static dl_step_mean mean_of(const double *values, size_t count)
{
    return (dl_step_mean){gsl_stats_mean(values, 1, count),
                          gsl_stats_sd(values, 1, count) / sqrt((double)count)};
}

/* Device time of a step's works of one phase, in ns; of those before `end` only. */
static double phase_ns(const taking *t, const dl_activity_step *step, dl_phase phase, size_t end)
{
    double sum_ns = 0;
    for (size_t w = step->first; w < end; w++) {
        const dl_replay_node *node = node_of(t, w);
        if (t->phases.phases[w] != phase || node->kind == DL_REPLAY_COLLECTIVE) continue;
        sum_ns += (double)(node->duration_ns + node->spacing_ns);
    }
    return sum_ns;
}

static double input_bytes(const taking *t, const dl_activity_step *step)
{
    double bytes = 0;
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_activity *a = &t->trace->activities[t->line->work[w]];
        if (a->kind == DL_ACTIVITY_MEMCPY && a->copy == DL_COPY_H2D) bytes += (double)a->bytes;
    }
    return bytes;
}

/* Sorts of works: the classes of kernels, then copies and memsets. */
enum { SORT_COPY = DL_KERNEL_CLASS_END, SORT_MEMSET, SORTS };
#define PHASES 3 /* forward, backward, update */

static size_t sort_of(const dl_replay_node *node)
{
    return node->kind == DL_REPLAY_COPY     ? SORT_COPY
           : node->kind == DL_REPLAY_MEMSET ? SORT_MEMSET
                                            : node->class;
}

static void name_op(dl_step_op *op, size_t sort, size_t phase)
{
    static const char *const phases[PHASES] = {"forward", "backward", "update"};
    const char *name = sort == SORT_COPY     ? "memcpy"
                       : sort == SORT_MEMSET ? "memset"
                                             : dl_kernel_class_name((dl_kernel_class)sort);
    snprintf(op->name, sizeof op->name, "%s.%s", name, phases[phase]);
    for (char *c = op->name; *c != '\0'; c++) {
        if (*c == '/') *c = '_';
    }
}

/* Time of the step's works by phase and sort, added to sums[PHASES][SORTS]. */
static void sum_works(const taking *t, const dl_activity_step *step, double sums[PHASES][SORTS])
{
    const bool told = t->phases.told > 0;
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_replay_node *node = node_of(t, w);
        const dl_phase phase = told ? (dl_phase)t->phases.phases[w] : DL_PHASE_FORWARD;
        if (node->kind == DL_REPLAY_COLLECTIVE || phase == DL_PHASE_NONE) continue;
        sums[phase - DL_PHASE_FORWARD][sort_of(node)] +=
            (double)(node->duration_ns + node->spacing_ns);
    }
}

/* The operations, whose means are scaled so that they add up to device_ns; the phases; the noise. */
static void take_means(const taking *t, dl_step_costs *costs)
{
    const size_t steps = t->line->regular_count;
    double(*sums)[PHASES][SORTS] = dl_calloc(steps, sizeof *sums, "operations");
    double *values = dl_calloc(steps, sizeof *values, "steps"), all = 0;
    double *inputs = dl_calloc(steps, sizeof *inputs, "steps");
    costs->factors = dl_calloc(steps, sizeof *costs->factors, "steps");
    costs->ops = dl_calloc((size_t)PHASES * SORTS, sizeof *costs->ops, "operations");
    size_t k = 0;
    for (size_t s = 0; s < t->line->count; s++) {
        const dl_activity_step *step = &t->line->steps[s];
        if (step->label != DL_STEP_REGULAR) continue;
        sum_works(t, step, sums[k]);
        inputs[k] = input_bytes(t, step);
        costs->factors[k++] = (float)((double)step->duration_ns / costs->step_ns);
    }
    for (size_t i = 0; i < steps * PHASES; i++) {
        for (size_t sort = 0; sort < SORTS; sort++)
            all += sums[i / PHASES][i % PHASES][sort] / (double)steps;
    }
    const double scale = all > 0 ? costs->device_ns / all : 0;
    dl_step_mean *const phases[PHASES] = {&costs->forward_ns, &costs->backward_ns,
                                          &costs->update_ns};
    for (size_t p = 0; p < PHASES; p++) {
        for (size_t i = 0; i < SORTS; i++) {
            for (size_t s = 0; s < steps; s++)
                values[s] = scale * sums[s][p][i];
            dl_step_op op = {.ns = mean_of(values, steps)};
            if (op.ns.value <= 0) continue;
            name_op(&op, i, p);
            costs->ops[costs->op_count++] = op;
        }
        for (size_t s = 0; s < steps; s++) {
            values[s] = 0;
            for (size_t i = 0; i < SORTS; i++)
                values[s] += scale * sums[s][p][i];
        }
        *phases[p] = mean_of(values, steps);
    }
    costs->input_bytes = mean_of(inputs, steps);
    if (t->phases.told == 0) {
        dl_notes_add(t->notes, "forward and backward pass are not told apart: no range that is "
                               "named as a backward pass, nor kernels");
    }
    free(sums);
    free(values);
    free(inputs);
}

/* Bytes over time of all larger copies from and to pageable memory. */
static void take_copies(const taking *t, dl_step_costs *costs)
{
    double bytes = 0, ns = 0;
    for (size_t i = 0; i < t->trace->activity_count; i++) {
        const dl_activity *a = &t->trace->activities[i];
        if (a->kind != DL_ACTIVITY_MEMCPY || a->memory != DL_MEMORY_PAGEABLE ||
            (a->copy != DL_COPY_H2D && a->copy != DL_COPY_D2H) || a->bytes < 65536)
            continue;
        bytes += (double)a->bytes;
        ns += (double)a->duration_ns;
        costs->pageable_copies++;
    }
    if (ns > 0) costs->pageable_bytes_per_s = bytes / dl_ns_to_s(ns);
}

/* The works of the step that were launched before the time. Works lie in launch order. */
static size_t launched_before(const taking *t, const dl_activity_step *step, int64_t time_ns)
{
    size_t w = step->first;
    for (; w < step->first + step->count; w++) {
        const dl_activity *call =
            dl_launches_find(&t->launches, t->trace->activities[t->line->work[w]].correlation);
        if (call != NULL && call->start_ns >= time_ns) break;
    }
    return w;
}

/* The first regular step's all-reduces. */
static void take_gradients(const taking *t, dl_step_costs *costs)
{
    const dl_step_line *line = t->line;
    size_t s = 0;
    while (line->steps[s].label != DL_STEP_REGULAR)
        s++;
    const dl_activity_step *step = &line->steps[s];
    const size_t end = step->first + step->count;
    const double all_ns = phase_ns(t, step, DL_PHASE_BACKWARD, end);
    double bytes = 0;
    for (size_t i = 0; i < t->trace->activity_count && all_ns > 0; i++) {
        const dl_activity *a = &t->trace->activities[i];
        if (a->kind != DL_ACTIVITY_COLLECTIVE || a->bytes == 0 ||
            strcasecmp(t->trace->strings[a->name], "AllReduce") != 0)
            continue;
        const size_t w = launched_before(t, step, a->start_ns);
        if (w == step->first || w == end || t->phases.phases[w - 1] != DL_PHASE_BACKWARD) continue;
        costs->gradients = dl_realloc(costs->gradients, costs->gradient_count + 1,
                                      sizeof *costs->gradients, "gradients");
        bytes += (double)a->bytes;
        costs->gradients[costs->gradient_count++] = (dl_gradients_ready){
            .share = phase_ns(t, step, DL_PHASE_BACKWARD, w) / all_ns, .bytes = bytes};
    }
}

static char *copy_meta(const dl_trace *trace, const char *key)
{
    const char *value = dl_trace_meta(trace, key);
    return value != NULL ? dl_strdup(value) : NULL;
}

static dl_status take(taking *t, dl_step_costs *costs, dl_error *err)
{
    const unsigned host = 1u << DL_REPLAY_HOST | 1u << DL_REPLAY_CALL;
    const unsigned collectives = 1u << DL_REPLAY_COLLECTIVE;
    const unsigned works =
        collectives | 1u << DL_REPLAY_KERNEL | 1u << DL_REPLAY_COPY | 1u << DL_REPLAY_MEMSET;
    double sum_ns = 0;
    for (size_t s = 0; s < t->line->count; s++) {
        if (t->line->steps[s].label == DL_STEP_REGULAR) {
            sum_ns += (double)t->line->steps[s].duration_ns;
        }
    }
    dl_launches_init(&t->launches, t->trace->activities, t->trace->activity_count);
    costs->steps = t->line->regular_count;
    costs->step_ns = sum_ns / (double)costs->steps;
    dl_status status = dl_replay_build(&t->run, &t->trace, 1, err);
    if (status == DL_OK)
        status = step_without(t, host | collectives, false, &costs->device_ns, err);
    if (status == DL_OK) status = step_without(t, works, true, &costs->host_ns, err);
    if (status != DL_OK) return status;
    dl_step_phases_find(&t->phases, t->trace, t->line);
    take_means(t, costs);
    if (costs->op_count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, t->trace->path, 0,
                               "its %zu regular steps hold no work but collectives", costs->steps);
    }
    take_gradients(t, costs);
    take_copies(t, costs);
    costs->slowdown = dl_overlap_slowdown_find(t->trace, t->line);
    char key[32];
    snprintf(key, sizeof key, "device.%u.name", t->line->device);
    costs->device = copy_meta(t->trace, key);
    costs->framework = copy_meta(t->trace, "framework");
    return DL_OK;
}

dl_status dl_step_costs_take(dl_step_costs *costs, const dl_trace *trace, int64_t batch,
                             const dl_step_hints *hints, dl_notes *notes, dl_error *err)
{
    dl_activity_steps steps = {0};
    *costs = (dl_step_costs){.batch = batch};
    dl_status status = dl_activity_steps_init(&steps, trace->activities, trace->activity_count,
                                              trace->strings, trace->string_count, hints, err);
    taking t = {.trace = trace, .line = busiest(&steps), .notes = notes};
    if (status == DL_OK && (t.line == NULL || t.line->regular_count < 2)) {
        status = dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                                 "%zu regular steps%s%s: costs take two",
                                 t.line == NULL ? 0 : t.line->regular_count,
                                 t.line != NULL && t.line->reason != NULL ? ", " : "",
                                 t.line != NULL && t.line->reason != NULL ? t.line->reason : "");
    }
    if (status == DL_OK) status = take(&t, costs, err);
    dl_launches_free(&t.launches);
    dl_step_phases_free(&t.phases);
    dl_replay_run_free(&t.run);
    dl_activity_steps_free(&steps);
    return status;
}

void dl_step_costs_free(dl_step_costs *costs)
{
    free(costs->gradients);
    free(costs->factors);
    free(costs->ops);
    free(costs->device);
    free(costs->framework);
    *costs = (dl_step_costs){0};
}
