/* Costs of a step on a device, from a replay of its work. */
#include "calibrate/replay/step_costs.h"

#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "calibrate/replay/build.h"
#include "calibrate/replay/graph.h"
#include "calibrate/replay/report.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/units.h"
#include "sim/workloads/roofline.h"
#include "trace/activity/activity.h"
#include "trace/activity/added_gradients.h"

/* Minimum fraction of a step at which external waits of threads are noted. */
#define WAITS_NAMED_FRAC 0.01

/* State while processing one trace. */
typedef struct taking {
    const dl_trace *trace;
    const dl_step_line *line;
    dl_replay_run run;
    dl_step_phases phases;
    dl_launches launches;
    dl_spans collectives;
    double *work_ns; /* [line.work_count] device time of each work alone, including its spacing and
                      * a kept external wait before it; 0 for collectives */
    uint8_t *timed;  /* [line.count] 1: the step's whole time is known */
    bool ends_open;  /* nothing follows the only timed step */
    dl_notes *notes;
} taking;

static uint32_t number_of(const taking *t, size_t work)
{
    return t->run.ranks[0].node_of[t->line->work[work]];
}

/* Finds the steps whose whole time is known: regular steps followed by a regular one. Other work
 * may start without the host's time between steps, and the last step of a trace ends with its work.
 * If no two regular steps are consecutive, takes the regular steps that are followed by any part;
 * if the only regular step is the trace's last, takes that one. */
static void find_timed(taking *t)
{
    const dl_step_line *line = t->line;
    size_t count = 0;
    t->timed = dl_calloc(line->count, 1, "steps");
    for (int strict = 1; strict >= 0 && count == 0; strict--) {
        for (size_t s = 0; s + 1 < line->count; s++) {
            t->timed[s] = line->steps[s].label == DL_STEP_REGULAR &&
                          (!strict || line->steps[s + 1].label == DL_STEP_REGULAR);
            count += t->timed[s];
        }
    }
    if (count > 0) return;
    t->timed[line->count - 1] = 1;
    t->ends_open = true;
    dl_notes_add(t->notes,
                 "one step, the last of the trace: it is taken to the end of its work and "
                 "of its launches, without errors and without scatter");
}

/* Sets ns[line.count] to the recorded times of the steps, and leaves out a pause. */
static void leave_out_pause(taking *t, double *ns)
{
    const dl_external_waits *waits = &t->run.waits_of_threads;
    double longest_ns = 0;
    for (size_t s = 0; s < t->line->count; s++) {
        ns[s] = (double)t->line->steps[s].duration_ns;
        if (t->timed[s]) longest_ns = fmax(longest_ns, ns[s]);
    }
    const bool waited = 2 * (double)waits->longest_ns > longest_ns;
    dl_steps_leave_out_pause(t->timed, ns, t->line->count, waited ? waits->where : NULL, t->notes);
}

static void widen(dl_replay_time *span, const dl_replay_time *time)
{
    if (time->start_ns < span->start_ns) span->start_ns = time->start_ns;
    if (time->end_ns > span->end_ns) span->end_ns = time->end_ns;
}

/* Returns the span from the start of the first call that launches work of the step to the end of
 * the last such call; start INT64_MAX, end 0 if no call is known. */
static dl_replay_time launches_of(const taking *t, const dl_activity_step *step,
                                  const dl_replay_time *times)
{
    dl_replay_time span = {.start_ns = INT64_MAX};
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_activity *call =
            dl_launches_find(&t->launches, t->trace->activities[t->line->work[w]].correlation);
        if (call == NULL) continue;
        const uint32_t node = t->run.ranks[0].node_of[call - t->trace->activities];
        if (node != DL_REPLAY_NONE) widen(&span, &times[node]);
    }
    return span;
}

/* Writes to steps_ns[line.count] the host's time of each timed step with known launches, from its
 * first launch to the next step's first launch, and marks these steps in known[line.count]. */
static void host_steps_ns(const taking *t, const dl_replay_time *times, double *steps_ns,
                          uint8_t *known)
{
    int64_t next_ns = INT64_MAX;
    for (size_t s = t->line->count; s-- > 0;) {
        const dl_replay_time span = launches_of(t, &t->line->steps[s], times);
        if (t->ends_open && s + 1 == t->line->count) next_ns = span.end_ns;
        known[s] = t->timed[s] && span.start_ns != INT64_MAX && next_ns != INT64_MAX;
        steps_ns[s] = (double)(next_ns - span.start_ns);
        if (span.start_ns != INT64_MAX) next_ns = span.start_ns;
    }
}

/* Returns the span from the start of the step's first work to the end of its last. */
static dl_replay_time works_of(const taking *t, const dl_activity_step *step,
                               const dl_replay_time *times)
{
    dl_replay_time span = {.start_ns = INT64_MAX};
    for (size_t w = step->first; w < step->first + step->count; w++)
        widen(&span, &times[number_of(t, w)]);
    return span;
}

/* Mean device time, in ns, of all regular steps except one at the start of the trace: from the end
 * of the work of the preceding step or other part to the end of the step's own work. Starts do not
 * delimit steps, because unconstrained operations, such as copies of the next input, may start at
 * any time. */
static double device_step_ns(const taking *t, const dl_replay_time *times)
{
    double sum_ns = 0, count = 0;
    /* The only regular step may be at the start of the trace; it is then timed from its own
     * start. */
    const bool only = t->line->regular_count == 1;
    int64_t before_ns = only ? works_of(t, &t->line->steps[0], times).start_ns : 0;
    for (size_t s = 0; s < t->line->count; s++) {
        int64_t end_ns = works_of(t, &t->line->steps[s], times).end_ns;
        if (end_ns < before_ns) end_ns = before_ns;
        if ((s > 0 || only) && t->line->steps[s].label == DL_STEP_REGULAR) {
            sum_ns += (double)(end_ns - before_ns);
            count++;
        }
        before_ns = end_ns;
    }
    return sum_ns / count;
}

/* Additional node kind: external waits of devices; DL_REPLAY_EXTERNAL is for threads. */
#define EXTERNAL_OF_DEVICE DL_REPLAY_KIND_END

static unsigned kind_bit(const dl_replay_graph *graph, size_t node)
{
    return 1u << (dl_external_is_of_device(graph, (uint32_t)node) ? EXTERNAL_OF_DEVICE
                                                                  : graph->nodes[node].kind);
}

/* Replays the graph with zero time for nodes of the given kinds: times[node_count]. */
static dl_status replay_without(taking *t, unsigned kinds, dl_replay_time *times, dl_error *err)
{
    dl_replay_graph *g = &t->run.graph;
    DL_AUTOFREE int64_t *kept = dl_calloc(g->node_count, sizeof *kept, "replay");
    for (size_t n = 0; n < g->node_count; n++) {
        kept[n] = g->nodes[n].duration_ns;
        if (kinds & kind_bit(g, n)) g->nodes[n].duration_ns = 0;
    }
    const dl_status status = dl_replay_simulate(g, times, err);
    for (size_t n = 0; n < g->node_count; n++)
        g->nodes[n].duration_ns = kept[n];
    return status;
}

static dl_status device_step_without(taking *t, unsigned kinds, double *step_ns, dl_error *err)
{
    DL_AUTOFREE dl_replay_time *times = dl_calloc(t->run.graph.node_count, sizeof *times, "replay");
    const dl_status status = replay_without(t, kinds, times, err);
    if (status == DL_OK) *step_ns = device_step_ns(t, times);
    return status;
}

/* The host's mean time of a step with zero time for nodes of some kinds; NaN if no launches are
 * known. `usual_ns` excludes interrupted steps. */
typedef struct host_step {
    double usual_ns, mean_ns;
} host_step;

static dl_status host_step_without(taking *t, unsigned kinds, host_step *step, dl_notes *notes,
                                   dl_error *err)
{
    DL_AUTOFREE dl_replay_time *times = dl_calloc(t->run.graph.node_count, sizeof *times, "replay");
    DL_AUTOFREE double *steps_ns = dl_calloc(t->line->count, sizeof *steps_ns, "steps");
    DL_AUTOFREE double *works = dl_calloc(t->line->count, sizeof *works, "steps");
    DL_AUTOFREE uint8_t *known = dl_calloc(t->line->count, 1, "steps");
    const dl_status status = replay_without(t, kinds, times, err);
    if (status != DL_OK) return status;
    host_steps_ns(t, times, steps_ns, known);
    for (size_t s = 0; s < t->line->count; s++)
        works[s] = (double)t->line->steps[s].count;
    step->mean_ns = dl_steps_mean(known, steps_ns, t->line->count).value;
    dl_steps_leave_out_interrupted(known, steps_ns, works, t->line->count, notes);
    step->usual_ns = dl_steps_mean(known, steps_ns, t->line->count).value;
    return DL_OK;
}

static bool is_input(const dl_activity *a)
{
    return a->kind == DL_ACTIVITY_MEMCPY && a->copy == DL_COPY_H2D && a->bytes > 0;
}

/* Duration in ns of the kept external wait of the device right before the work; 0 if there is
 * none. */
static double wait_before_ns(const taking *t, size_t work)
{
    const dl_replay_graph *g = &t->run.graph;
    const uint32_t before = g->before[number_of(t, work)];
    if (before == DL_REPLAY_NONE || !dl_external_is_of_device(g, before)) return 0;
    return (double)(g->nodes[before].duration_ns + g->nodes[before].spacing_ns);
}

/* Removes separately charged costs from the operations' times: the slowdown beside collectives, and
 * copies of input. */
static void take_apart(taking *t, double slowdown)
{
    dl_replay_graph *g = &t->run.graph;
    for (size_t n = 0; n < g->node_count; n++) {
        dl_replay_node *node = &g->nodes[n];
        if (!dl_replay_node_is_work(node) || node->kind == DL_REPLAY_COLLECTIVE) continue;
        const dl_activity *a = &t->trace->activities[node->activity];
        if (is_input(a)) node->duration_ns = node->spacing_ns = 0;
        if (node->kind != DL_REPLAY_KERNEL || slowdown <= 1) continue;
        const int64_t covered_ns =
            dl_spans_covered(&t->collectives, a->device, a->start_ns, a->start_ns + a->duration_ns);
        node->duration_ns -= llround((double)covered_ns * (1 - 1 / slowdown));
    }
    t->work_ns = dl_calloc(t->line->work_count, sizeof *t->work_ns, "works");
    for (size_t w = 0; w < t->line->work_count; w++) {
        const dl_replay_node *node = &g->nodes[number_of(t, w)];
        if (node->kind == DL_REPLAY_COLLECTIVE) continue;
        t->work_ns[w] = (double)(node->duration_ns + node->spacing_ns) + wait_before_ns(t, w);
    }
}

static double input_bytes(const taking *t, const dl_activity_step *step)
{
    double bytes = 0;
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_activity *a = &t->trace->activities[t->line->work[w]];
        if (is_input(a)) bytes += (double)a->bytes;
    }
    return bytes;
}

/* Categories of operations: the kernel classes, then copies, memsets, external waits. */
enum { SORT_COPY = DL_KERNEL_CLASS_END, SORT_MEMSET, SORT_EXTERNAL, SORTS };
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
    const char *name = sort == SORT_COPY       ? "memcpy"
                       : sort == SORT_MEMSET   ? "memset"
                       : sort == SORT_EXTERNAL ? "external"
                                               : dl_kernel_class_name((dl_kernel_class)sort);
    snprintf(op->name, sizeof op->name, "%s.%s", name, phases[phase]);
    for (char *c = op->name; *c != '\0'; c++) {
        if (*c == '/') *c = '_';
    }
}

/* Time of operations by phase and category, and the part of it in starts, ends and gaps; ns. */
typedef struct work_sums {
    double ns[PHASES][SORTS], starts_ns[PHASES][SORTS];
} work_sums;

static void sum_works(const taking *t, const dl_activity_step *step, work_sums *sums)
{
    const bool known = t->phases.known_steps > 0;
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_phase phase = known ? (dl_phase)t->phases.phases[w] : DL_PHASE_FORWARD;
        if (phase == DL_PHASE_NONE) continue;
        const dl_replay_node *node = &t->run.graph.nodes[number_of(t, w)];
        const double wait_ns = wait_before_ns(t, w);
        const size_t p = phase - DL_PHASE_FORWARD;
        sums->ns[p][SORT_EXTERNAL] += wait_ns;
        if (t->work_ns[w] <= 0) continue;
        const double own_ns = t->work_ns[w] - wait_ns;
        sums->ns[p][sort_of(node)] += own_ns;
        sums->starts_ns[p][sort_of(node)] += fmin(own_ns, DL_ROOFLINE_KERNEL_NS);
    }
}

/* Sets the operations, with means scaled to sum to device_ns, and the phases. */
static void take_means(const taking *t, dl_step_costs *costs)
{
    const size_t steps = t->line->count;
    DL_AUTOFREE work_sums *sums = dl_calloc(steps, sizeof *sums, "operations");
    DL_AUTOFREE double *values = dl_calloc(steps, sizeof *values, "steps");
    DL_AUTOFREE double *inputs = dl_calloc(steps, sizeof *inputs, "steps");
    DL_AUTOFREE uint8_t *regular = dl_steps_regular(t->line);
    double all = 0;
    costs->ops = dl_calloc((size_t)PHASES * SORTS, sizeof *costs->ops, "operations");
    for (size_t s = 0; s < steps; s++) {
        if (!regular[s]) continue;
        sum_works(t, &t->line->steps[s], &sums[s]);
        inputs[s] = input_bytes(t, &t->line->steps[s]);
        for (size_t i = 0; i < (size_t)PHASES * SORTS; i++)
            all += sums[s].ns[i / SORTS][i % SORTS] / (double)t->line->regular_count;
    }
    const double scale = all > 0 ? costs->device_ns / all : 0;
    dl_step_mean *const phases[PHASES] = {&costs->forward_ns, &costs->backward_ns,
                                          &costs->update_ns};
    for (size_t p = 0; p < PHASES; p++) {
        DL_AUTOFREE double *phase = dl_calloc(steps, sizeof *phase, "steps");
        for (size_t i = 0; i < SORTS; i++) {
            dl_step_op op = {0};
            for (size_t s = 0; s < steps; s++) {
                values[s] = scale * sums[s].ns[p][i];
                phase[s] += values[s];
                op.starts_ns += scale * sums[s].starts_ns[p][i] / (double)t->line->regular_count;
            }
            op.ns = dl_steps_mean(regular, values, steps);
            if (op.ns.value <= 0) continue;
            name_op(&op, i, p);
            costs->ops[costs->op_count++] = op;
        }
        *phases[p] = dl_steps_mean(regular, phase, steps);
    }
    costs->input_bytes = dl_steps_mean(regular, inputs, steps);
}

/* Sets the rate of all larger copies from and to pageable memory: their bytes over their time. */
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

/* Plausible rates of an update, which reads and writes each parameter: at most 8 TB/s, the fastest
 * GPU memory so far (B200), and at least 20 GB/s: 300 GB/s (T4) divided by the 15 passes that an
 * unfused optimizer makes over its tensors. */
#define UPDATE_MOST_BYTES_PER_S 8e12
#define UPDATE_LEAST_BYTES_PER_S 20e9

DL_ORDER(compare_bytes, uint64_t, DL_COMPARE(*a, *b));

/* Returns the distinct sizes of copies to the device in regular steps, sorted; owned by the
 * caller. */
static uint64_t *sizes_of_inputs(const taking *t, size_t *count)
{
    uint64_t *sizes = dl_calloc(t->line->work_count, sizeof *sizes, "sizes of inputs");
    size_t found = 0, kept = 0;
    for (size_t s = 0; s < t->line->count; s++) {
        const dl_activity_step *step = &t->line->steps[s];
        for (size_t w = step->first;
             step->label == DL_STEP_REGULAR && w < step->first + step->count; w++) {
            const dl_activity *a = &t->trace->activities[t->line->work[w]];
            if (is_input(a)) sizes[found++] = a->bytes;
        }
    }
    dl_sort(sizes, found, sizeof *sizes, compare_bytes);
    for (size_t i = 0; i < found; i++)
        if (kept == 0 || sizes[i] != sizes[kept - 1]) sizes[kept++] = sizes[i];
    *count = kept;
    return sizes;
}

/* Returns the gradients that are added in a pass. done[line.work_count]: as dl_step_calls_find sets
 * it. */
static dl_added_gradients find_added(taking *t, const double *done)
{
    const size_t count = t->line->work_count;
    DL_AUTOFREE int64_t *begins_ns = dl_calloc(count, sizeof *begins_ns, "launches");
    int64_t next_ns = INT64_MAX; /* threads launch slightly out of order */
    for (size_t w = count; w-- > 0; begins_ns[w] = next_ns) {
        const dl_activity *call =
            dl_launches_find(&t->launches, t->trace->activities[t->line->work[w]].correlation);
        if (call != NULL && call->start_ns < next_ns) next_ns = call->start_ns;
    }
    return dl_added_gradients_find(t->trace, t->line, &t->phases, begins_ns, done);
}

/* Sets parameter_bytes for a trace that shows no gradients: the bytes copied to the device before
 * the first timed step, of other sizes than the steps' input, unless the update's duration is
 * implausible for that many bytes. */
static void take_parameters(const taking *t, dl_step_costs *costs)
{
    double bytes = 0;
    size_t first = 0, size_count = 0;
    DL_AUTOFREE uint64_t *sizes = sizes_of_inputs(t, &size_count);
    while (!t->timed[first])
        first++;
    const int64_t first_ns = t->line->steps[first].start_ns;
    for (size_t i = 0; i < t->trace->activity_count; i++) {
        const dl_activity *a = &t->trace->activities[i];
        if (!is_input(a) || a->device != t->line->device || a->start_ns >= first_ns) continue;
        size_t at = 0;
        DL_BISECT(at, size_count, sizes[at] < a->bytes);
        if (at == size_count || sizes[at] != a->bytes) bytes += (double)a->bytes;
    }
    double starts_ns = 0; /* part of the update's time that is independent of the bytes */
    for (size_t i = 0; i < costs->op_count; i++)
        if (dl_ends_with(costs->ops[i].name, ".update")) starts_ns += costs->ops[i].starts_ns;
    const double update_s = dl_ns_to_s(costs->update_ns.value);
    if (bytes <= 0 || 2 * bytes > UPDATE_MOST_BYTES_PER_S * update_s ||
        2 * bytes < UPDATE_LEAST_BYTES_PER_S * (update_s - dl_ns_to_s(starts_ns)))
        return;
    costs->parameter_bytes = bytes;
    dl_notes_add(t->notes,
                 "assumed: the %s that are copied to the device before the steps are the "
                 "parameters; --parameter-bytes gives them",
                 DL_BYTES_TEXT(bytes));
}

/* Takes the given slowdown, or else the trace's own. */
static void take_slowdown(taking *t, dl_step_costs *costs, const dl_overlap_slowdown *given)
{
    t->collectives = dl_collective_spans(t->trace);
    costs->slowdown =
        given != NULL ? *given : dl_overlap_slowdown_find(t->trace, t->line, &t->collectives);
    if (costs->slowdown.known || t->collectives.count == 0) return;
    dl_notes_add(t->notes, "operations during collectives may have been slowed down by them; the "
                           "trace does not show by how much, so it is not corrected");
}

/* Keeps or removes the external waits. If the caller has not decided about the device's waits,
 * returns DL_ERR_DATA if a step without them is more than DL_STEP_SHORT_FRAC too short. */
static dl_status use_external(taking *t, dl_external external, dl_error *err)
{
    const dl_external_waits *waits = &t->run.waits_of_devices;
    DL_AUTOFREE dl_replay_time *times = dl_calloc(t->run.graph.node_count, sizeof *times, "replay");
    const dl_status status = dl_replay_simulate(&t->run.graph, times, err);
    double recorded_ns = 0, replayed_ns = 0;
    if (status == DL_OK)
        replayed_ns = dl_replay_mean_step_ns(&t->run, t->line, times, &recorded_ns);
    if (status != DL_OK) return status;
    const double short_frac = recorded_ns > 0 ? 1 - replayed_ns / recorded_ns : 0;
    if (external == DL_EXTERNAL_THREADS && short_frac > DL_STEP_SHORT_FRAC) {
        return dl_error_set_at(
            err, DL_ERR_DATA, t->trace->path, 0,
            "of a step of %s, the trace explains %s, %.0f %% less: %zu operations of the device "
            "start %s in total after their last known dependency (longest %s, before '%.60s'), "
            "waiting for events outside the trace. --external keep includes these waits as "
            "operations, --external remove leaves them out",
            DL_NS_TEXT(recorded_ns), DL_NS_TEXT(replayed_ns), 100 * short_frac, waits->count,
            DL_NS_TEXT(waits->total_ns), DL_NS_TEXT(waits->longest_ns),
            waits->where != NULL ? waits->where : "");
    }
    dl_external_use(&t->run, external);
    if (external == DL_EXTERNAL_KEEP && waits->count > 0) {
        dl_notes_add(t->notes,
                     "external waits of the device are kept as operations 'external' that do not "
                     "depend on the batch: without them a step of %s takes %s",
                     DL_NS_TEXT(recorded_ns), DL_NS_TEXT(replayed_ns));
    } else if (fabs(short_frac) > DL_STEP_SHORT_FRAC) {
        dl_notes_add(t->notes,
                     "these costs do not give the traced step: it took %s, and takes %s without "
                     "external waits of the device, which were left out",
                     DL_NS_TEXT(recorded_ns), DL_NS_TEXT(replayed_ns));
    }
    return DL_OK;
}

/* Sets the host's part of a step and its external waits. The host's work is the mean over the steps
 * that nothing interrupted. The waits are the mean over all timed steps, since a loader that stalls
 * every few steps causes few but long waits. */
static dl_status take_host(taking *t, unsigned works, dl_step_costs *costs, dl_error *err)
{
    const dl_external_waits *waits = &t->run.waits_of_threads;
    host_step all = {(double)NAN, (double)NAN}, busy;
    dl_status status = host_step_without(t, works, &all, t->notes, err);
    costs->host_ns = all.usual_ns;
    if (status != DL_OK || waits->count == 0 || isnan(all.mean_ns)) return status;
    status = host_step_without(t, works | 1u << DL_REPLAY_EXTERNAL, &busy, NULL, err);
    if (status != DL_OK) return status;
    const double waits_ns = fmax(0, all.mean_ns - busy.mean_ns);
    if (!waits->removed && waits_ns < WAITS_NAMED_FRAC * costs->step_ns) return DL_OK;
    costs->waits_ns = waits_ns;
    costs->host_ns = busy.usual_ns + waits_ns;
    DL_AUTOFREE char *where =
        waits->where != NULL ? dl_format(", in '%.60s'", waits->where) : dl_strdup("");
    if (waits->removed) {
        dl_notes_add(
            t->notes,
            "external waits of the host's threads, %zu in the trace, are left out (longest "
            "%s%s)",
            waits->count, DL_NS_TEXT(waits->longest_ns), where);
    } else {
        dl_notes_add(
            t->notes,
            "of the host's time, %s a step, %s are external waits, in which nothing in the "
            "trace runs (longest %s%s): waits for input or peers, or computations; they are "
            "[dispatch] external_ns, and --external remove leaves them out",
            DL_NS_TEXT(costs->host_ns), DL_NS_TEXT(costs->waits_ns), DL_NS_TEXT(waits->longest_ns),
            where);
    }
    return DL_OK;
}

static dl_status take(taking *t, dl_step_costs *costs, const dl_overlap_slowdown *given,
                      dl_external external, dl_error *err)
{
    const unsigned host = 1u << DL_REPLAY_HOST | 1u << DL_REPLAY_CALL | 1u << DL_REPLAY_EXTERNAL;
    const unsigned collectives = 1u << DL_REPLAY_COLLECTIVE;
    const unsigned works = collectives | 1u << DL_REPLAY_KERNEL | 1u << DL_REPLAY_COPY |
                           1u << DL_REPLAY_MEMSET | 1u << DL_REPLAY_GRAPH |
                           1u << EXTERNAL_OF_DEVICE;
    dl_launches_init(&t->launches, t->trace->activities, t->trace->activity_count);
    find_timed(t);
    dl_status status = dl_replay_build(&t->run, &t->trace, 1, err);
    if (status != DL_OK) return status;
    DL_AUTOFREE double *ns = dl_calloc(t->line->count, sizeof *ns, "steps");
    leave_out_pause(t, ns);
    dl_step_costs_take_times(costs, t->line, t->timed, ns, t->notes);
    status = use_external(t, external, err);
    if (status == DL_OK) {
        take_slowdown(t, costs, given);
        take_apart(t, costs->slowdown.known ? costs->slowdown.factor : 1);
        status = device_step_without(t, host | collectives, &costs->device_ns, err);
    }
    if (status == DL_OK) status = take_host(t, works, costs, err);
    if (status != DL_OK) return status;
    dl_step_costs_take_off_recording(costs, t->trace, t->line, t->timed, t->notes);
    dl_step_phases_find(&t->phases, t->trace, t->line);
    take_means(t, costs);
    if (costs->op_count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, t->trace->path, 0,
                               "its %zu regular steps hold no work but collectives and input",
                               t->line->regular_count);
    }
    DL_AUTOFREE uint8_t *classes = dl_kernel_classes(t->trace);
    DL_AUTOFREE double *done = dl_calloc(t->line->work_count, sizeof *done, "works");
    dl_gradient_source source = {
        .trace = t->trace,
        .line = t->line,
        .phases = &t->phases,
        .launches = &t->launches,
        .classes = classes,
        .communicators = dl_communicators_find(t->trace->activities, t->trace->activity_count)};
    dl_step_calls_find(&source, t->work_ns, done);
    const dl_added_gradients added = find_added(t, done);
    const dl_gradient_exchange gradients = dl_step_costs_take_exchange(costs, &source, t->notes);
    status = dl_step_axes_take(costs, &source, &gradients, t->notes, err);
    if (status == DL_OK && costs->gradient_count == 0) {
        costs->passes_apart = added.apart;
        if (!dl_step_costs_take_added(costs, &added, &t->phases, t->notes))
            take_parameters(t, costs);
    }
    free(added.items);
    if (status == DL_OK) dl_step_collectives_take(costs, &source, t->timed, &gradients, t->notes);
    free(source.calls);
    free(source.communicators.items);
    free(gradients.activations);
    if (status != DL_OK) return status;
    take_copies(t, costs);
    char key[32];
    snprintf(key, sizeof key, "device.%u.name", t->line->device);
    const char *name = dl_trace_meta(t->trace, key);
    costs->device = name != NULL ? dl_strdup(name) : NULL;
    return DL_OK;
}

dl_status dl_step_costs_take_device(dl_step_costs *costs, const dl_trace *trace,
                                    const dl_step_line *line, const dl_overlap_slowdown *slowdown,
                                    dl_external external, dl_notes *notes, dl_error *err)
{
    if (line == NULL || line->regular_count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "no regular step%s%s: define steps by --step-marks REGEX (names "
                               "of ranges), --step-period COUNT (kernels and copies per step) or "
                               "--one-step (the trace is one step)",
                               line != NULL && line->reason != NULL ? ", " : "",
                               line != NULL && line->reason != NULL ? line->reason : "");
    }
    taking t = {.trace = trace, .line = line, .notes = notes};
    const dl_status status = take(&t, costs, slowdown, external, err);
    dl_launches_free(&t.launches);
    dl_step_phases_free(&t.phases);
    dl_spans_free(&t.collectives);
    free(t.work_ns);
    free(t.timed);
    dl_replay_run_free(&t.run);
    return status;
}
