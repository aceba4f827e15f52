/* The functions that re-time traces, on damaged ones: the builder, the replay, collectives and
 * ranks, the costs of a step. */
#include <gsl/gsl_errno.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/replay/collectives.h"
#include "calibrate/replay/report.h"
#include "calibrate/replay/step_costs.h"
#include "tests/calibrate/made_ranks.h"
#include "tests/fuzz/fuzz_driver.h"

/* An activity in the input: it is valid for any bytes. */
typedef struct coded {
    uint8_t kind, way, name, stream, device, thread;
    uint8_t shift; /* of both times, in bits: from 1 ns to beyond the range of replay */
    uint8_t count;
    uint16_t correlation, object;
    uint32_t bytes, start, duration;
} coded;

enum { NAMES_MAX = 256, SEEDS = 3, CODED_MAX = 4000 };
static char no_name[] = "";
static char *names[NAMES_MAX] = {no_name};
static size_t name_count = 1;

static uint8_t name_of(const char *text)
{
    size_t i = 0;
    while (i < name_count && strcmp(names[i], text) != 0)
        i++;
    if (i == name_count && name_count < NAMES_MAX) names[name_count++] = dl_strdup(text);
    return (uint8_t)(i < NAMES_MAX ? i : 0);
}

/* Communicators and collectives have peers in place of ways. */
static bool has_peer(uint8_t kind)
{
    return kind == DL_ACTIVITY_COMM || kind == DL_ACTIVITY_COLLECTIVE;
}

#define PEERS 4 /* a way of PEERS: an unknown peer */

static coded encode(const dl_activity *a, const dl_trace *trace)
{
    const uint32_t peer = a->peer < PEERS ? a->peer : PEERS;
    return (coded){
        .kind = a->kind,
        .way = (uint8_t)(has_peer(a->kind) ? peer : (uint32_t)a->copy | (uint32_t)a->memory << 4),
        .name = name_of(trace->strings[a->name]),
        .stream = (uint8_t)a->stream,
        .device = (uint8_t)a->device,
        .thread = (uint8_t)a->thread,
        .count = (uint8_t)a->count,
        .correlation = (uint16_t)a->correlation,
        .object = (uint16_t)a->object,
        .bytes = (uint32_t)a->bytes,
        .start = (uint32_t)a->start_ns,
        .duration = (uint32_t)a->duration_ns};
}

static dl_activity decode(const coded *c)
{
    dl_activity a = {.kind = (uint8_t)(1 + (c->kind - 1u) % (DL_ACTIVITY_KIND_END - 1)),
                     .copy = (uint8_t)((c->way & 15) % DL_COPY_DIRECTION_END),
                     .memory = (uint8_t)((c->way >> 4) % DL_HOST_MEMORY_END),
                     .name = (uint32_t)(c->name % name_count),
                     .stream = c->stream,
                     .device = c->device % 3u,
                     .thread = c->thread,
                     .correlation = c->correlation,
                     .count = c->count,
                     .bytes = c->bytes,
                     .object = c->object,
                     .start_ns = (int64_t)c->start << c->shift % 30,
                     .duration_ns = (int64_t)c->duration << c->shift % 30};
    if (a.kind == DL_ACTIVITY_MARK || a.kind == DL_ACTIVITY_COMM) a.duration_ns = 0;
    if (has_peer(a.kind)) {
        const uint32_t peer = c->way % (PEERS + 1);
        a.copy = a.memory = 0;
        a.peer = peer < PEERS ? peer : DL_RANK_UNKNOWN;
        a.detail = a.kind == DL_ACTIVITY_COMM ? (uint32_t)(c->thread % name_count) : 0;
    }
    return a;
}

/* Returns a rank of a small run as a seed. */
static dl_fuzz_seed make_seed(const made_model *model)
{
    made_run *run = made_run_new(model);
    const dl_trace *trace = &run->ranks[0].trace;
    coded *all = dl_calloc(trace->activity_count, sizeof *all, "seed");
    for (size_t i = 0; i < trace->activity_count; i++)
        all[i] = encode(&trace->activities[i], trace);
    const dl_fuzz_seed seed = {all, trace->activity_count * sizeof *all};
    made_run_free(run);
    return seed;
}

/* Returns the seed with a send to rank 1 and a receive before each collective, as of a stage. */
static dl_fuzz_seed add_sends(const dl_fuzz_seed *seed)
{
    const size_t count = seed->bytes / sizeof(coded);
    const coded *from = seed->data;
    coded *all = dl_calloc(3 * count, sizeof *all, "seed");
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        all[made++] = from[i];
        if (from[i].kind != DL_ACTIVITY_COLLECTIVE) continue;
        for (int sends = 0; sends < 2; sends++) {
            coded *one = &all[made++];
            *one = from[i];
            one->name = name_of(sends ? "Send" : "Recv");
            one->way = 1;
            one->start -= one->start > 2 ? 2 : 0;
        }
    }
    return (dl_fuzz_seed){all, made * sizeof *all};
}

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static dl_fuzz_seed made[SEEDS];
    made_model model = {.ranks = 2,
                        .steps = 4,
                        .layers = 2,
                        .kernel_us = 30,
                        .gap_us = 5,
                        .update_us = 3,
                        .buckets = 2,
                        .bytes = 1000000,
                        .latency_us = 10,
                        .ns_per_byte = 0.01,
                        .slowdown = 1.05,
                        .jitter = 0.02,
                        .autograd = true,
                        .sync = true,
                        .side = true,
                        .marks = true,
                        .seed = 1};
    gsl_set_error_handler_off();
    made[0] = make_seed(&model);
    model.autograd = model.sync = model.side = model.marks = false;
    model.bare = model.item = true;
    model.gap_us = 40;
    model.input = 5000;
    model.checkpoint_every = 2;
    made[1] = make_seed(&model);
    name_of("[0, 1, ..., 7]");
    made[2] = add_sends(&made[0]);
    *seeds = made;
    return SEEDS;
}

/* No node starts before its predecessors have ended, and each lasts for its duration. */
static void check_times(const dl_replay_graph *g, const dl_replay_time *times)
{
    for (size_t n = 0; n < g->node_count; n++) {
        const dl_replay_node *node = &g->nodes[n];
        DL_ASSERT(times[n].start_ns >= 0, "node %zu begins at %lld", n,
                  (long long)times[n].start_ns);
        DL_ASSERT(node->group != DL_REPLAY_NONE ||
                      times[n].end_ns == times[n].start_ns + node->duration_ns,
                  "node %zu ends at %lld", n, (long long)times[n].end_ns);
        const uint32_t before = g->before[n];
        DL_ASSERT(before == DL_REPLAY_NONE ||
                      times[n].start_ns >= times[before].end_ns + node->spacing_ns,
                  "node %zu begins before the one before has ended", n);
    }
    for (size_t i = 0; i < g->edge_count; i++) {
        const dl_replay_edge *e = &g->edges[i];
        const int64_t from_ns = e->from_start ? times[e->from].start_ns : times[e->from].end_ns;
        DL_ASSERT(times[e->to].start_ns >= from_ns + e->lag_ns, "edge %zu is not kept", i);
    }
}

static void report(const dl_replay_run *run, const dl_activity_steps *steps,
                   const dl_replay_time *times, FILE *sink)
{
    dl_error err = {0};
    dl_replay_report report = {0};
    dl_replay_report_init(&report, run, steps, times);
    dl_replay_report_print(&report, 10, sink);
    dl_replay_report_print_line(&report, sink);
    dl_replay_report_write_json(&report, sink);
    dl_replay_report_free(&report);
    const dl_status status = dl_replay_timeline_write("/dev/null", run, times, &err);
    DL_ASSERT(status == DL_OK, "timeline: %s", err.text);
}

static void replay(const dl_trace *trace, const dl_activity_steps *steps, FILE *sink)
{
    DL_SCOPED(dl_replay_run) run = {0};
    DL_SCOPED(dl_instances) instances = {0};
    DL_SCOPED(dl_transfer) transfer = {0};
    dl_error err = {0};
    if (dl_replay_build(&run, &trace, 1, &err) == DL_OK) {
        DL_AUTOFREE dl_replay_time *times = dl_calloc(run.graph.node_count, sizeof *times, "test");
        if (dl_replay_simulate(&run.graph, times, &err) == DL_OK) {
            check_times(&run.graph, times);
            report(&run, steps, times, sink);
        }
        dl_instances_find(&instances, &run);
        dl_transfer_fit(&transfer, &instances, &run);
        for (size_t i = 0; i < steps->count; i++) {
            dl_prediction prediction;
            (void)!dl_predict_steps(&prediction, &run, &instances, &transfer, &steps->lines[i],
                                    &err);
        }
        (void)!dl_replay_scale(&run, "kernel", 2, NULL, &err);
        if (dl_replay_simulate(&run.graph, times, &err) == DL_OK) check_times(&run.graph, times);
    }
}

/* Replays the trace as two ranks. */
static void replay_twice(const dl_trace *trace)
{
    const dl_trace *traces[] = {trace, trace};
    DL_SCOPED(dl_replay_run) run = {0};
    DL_SCOPED(dl_instances) instances = {0};
    DL_SCOPED(dl_multi_rank) multi = {0};
    dl_error err = {0};
    if (dl_replay_build(&run, traces, 2, &err) == DL_OK) {
        dl_instances_find(&instances, &run);
        (void)!dl_multi_rank_replay(&multi, &run, &instances, &err);
    }
}

static void take_costs(const dl_trace *trace)
{
    DL_SCOPED(dl_step_costs) step = {0};
    DL_SCOPED(dl_costs) costs = {0};
    DL_SCOPED(dl_notes) notes = {0};
    dl_error err = {0};
    const dl_step_hints none = {0};
    if (dl_step_costs_take(&step, trace, 8, &none, NULL, DL_EXTERNAL_THREADS, &notes, &err) ==
        DL_OK) {
        const dl_status status = step.axes.stages > 1
                                     ? dl_stage_costs_combine(&costs, &step, 1, true, &notes, &err)
                                     : dl_step_costs_combine(&costs, &step, 1, &notes, &err);
        DL_ASSERT(status == DL_OK, "%s", err.text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static FILE *sink;
    if (sink == NULL) sink = fopen("/dev/null", "w");
    DL_ASSERT(sink != NULL, "no /dev/null");
    static dl_activity activities[CODED_MAX];
    static char path[] = "fuzz";
    dl_trace trace = {
        .path = path, .activities = activities, .strings = names, .string_count = name_count};
    for (; (trace.activity_count + 1) * sizeof(coded) <= bytes; trace.activity_count++) {
        coded c;
        if (trace.activity_count == CODED_MAX) break;
        memcpy(&c, data + trace.activity_count * sizeof c, sizeof c);
        activities[trace.activity_count] = decode(&c);
        DL_ASSERT(dl_activity_valid(&activities[trace.activity_count]), "activity %zu",
                  trace.activity_count);
    }
    DL_SCOPED(dl_activity_steps) steps = {0};
    dl_error err = {0};
    const dl_step_hints none = {0};
    if (dl_activity_steps_init(&steps, &trace, &none, &err) == DL_OK) {
        replay(&trace, &steps, sink);
        replay_twice(&trace);
        take_costs(&trace);
    }
    return 0;
}
