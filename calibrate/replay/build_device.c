/* Lanes of streams and nodes of operations. */
#include "calibrate/replay/build_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"

typedef struct device_work {
    uint64_t stream; /* device << 32 | stream */
    int64_t start_ns, end_ns;
    uint32_t activity, slot; /* slot: number of the stream's lane; 0: the main lane */
} device_work;

DL_ORDER(by_stream_and_time, device_work, DL_BY(stream), DL_BY(start_ns), DL_BY(end_ns),
         DL_BY(activity));

DL_ORDER(by_slot_and_time, device_work, DL_BY(slot), by_stream_and_time(a, b));

static device_work *list_works(const dl_trace *trace, size_t *count)
{
    device_work *works = dl_calloc(trace->activity_count, sizeof *works, "replay works");
    *count = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (!dl_activity_is_device_work(a)) continue;
        works[(*count)++] = (device_work){.stream = (uint64_t)a->device << 32 | a->stream,
                                          .start_ns = a->start_ns,
                                          .end_ns = a->start_ns + a->duration_ns,
                                          .activity = (uint32_t)i};
    }
    qsort(works, *count, sizeof *works, by_stream_and_time);
    return works;
}

/* Assigns each of works[count] of one stream to the first lane that is free at its start, or at
 * most DL_REPLAY_OVERLAP_NS later. The lanes are the leaves of a tree, from index `leaves`; a leaf
 * holds the end of its lane's last work, an inner node the minimum of its children. */
static void share_out(device_work *works, size_t count)
{
    size_t leaves = 1;
    while (leaves < count)
        leaves *= 2;
    DL_AUTOFREE int64_t *least_ns = dl_calloc(2 * leaves, sizeof *least_ns, "replay lanes");
    for (size_t node = 1; node < 2 * leaves; node++)
        least_ns[node] = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        const int64_t free_ns = works[i].start_ns + DL_REPLAY_OVERLAP_NS;
        size_t node = 1;
        while (node < leaves)
            node = least_ns[2 * node] <= free_ns ? 2 * node : 2 * node + 1;
        works[i].slot = (uint32_t)(node - leaves);
        least_ns[node] = works[i].end_ns;
        while ((node /= 2) > 0)
            least_ns[node] = least_ns[2 * node] < least_ns[2 * node + 1] ? least_ns[2 * node]
                                                                         : least_ns[2 * node + 1];
    }
}

static dl_replay_kind kind_of(const dl_activity *a, dl_kernel_class class)
{
    switch (a->kind) {
    case DL_ACTIVITY_MEMCPY: return DL_REPLAY_COPY;
    case DL_ACTIVITY_MEMSET: return DL_REPLAY_MEMSET;
    case DL_ACTIVITY_GRAPH: return DL_REPLAY_GRAPH;
    default: return class == DL_KERNEL_COLLECTIVE ? DL_REPLAY_COLLECTIVE : DL_REPLAY_KERNEL;
    }
}

static void add_lane(replay_builder *b, const device_work *works, size_t count, size_t placed)
{
    stream_works *to = &DL_APPEND(b->streams, b->stream_count, "replay streams");
    *to = (stream_works){.device = (uint32_t)(works[0].stream >> 32),
                         .stream = (uint32_t)works[0].stream,
                         .nodes = b->stream_nodes + placed,
                         .launch_ns = b->stream_launch_ns + placed,
                         .count = count};
    to->lane = dl_replay_graph_add_lane(b->graph, &(dl_replay_lane){.is_stream = true,
                                                                    .rank = b->rank_number,
                                                                    .device = to->device,
                                                                    .stream = to->stream});
    int64_t launched_ns = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &b->trace->activities[works[i].activity];
        dl_kernel_class class = a->kind == DL_ACTIVITY_KERNEL ? b->classes[a->name] : 0;
        uint32_t id = dl_replay_graph_add(b->graph, to->lane,
                                          &(dl_replay_node){.kind = (uint8_t)kind_of(a, class),
                                                            .class = (uint8_t) class,
                                                            .rank = b->rank_number,
                                                            .activity = works[i].activity,
                                                            .recorded_ns = a->start_ns,
                                                            .duration_ns = a->duration_ns});
        b->rank->node_of[works[i].activity] = id;
        const dl_activity *call = dl_launches_find(&b->launches, a->correlation);
        if (call != NULL && call->start_ns > launched_ns) launched_ns = call->start_ns;
        if (call == NULL) b->rank->unlaunched++;
        b->launcher[id - b->first_node] =
            call == NULL ? DL_REPLAY_NONE : (uint32_t)(call - b->trace->activities);
        b->stream_of[id - b->first_node] = b->stream_count - 1;
        to->nodes[i] = id;
        to->launch_ns[i] = launched_ns;
    }
}

static int64_t first_start(const replay_builder *b, const stream_works *works)
{
    return b->graph->nodes[works->nodes[0]].recorded_ns;
}

/* Sets the begin of streams' lanes, sorted by device. The state of a device before the trace is
 * unknown, so its first work starts as recorded, and so does the first work of a stream whose first
 * launch is not recorded. The first work of any other stream is delayed only by its launch and by
 * edges. */
static void free_begins(replay_builder *b)
{
    DL_GROUPS (first, end, b->stream_count, b->streams[end].device == b->streams[first].device) {
        int64_t begin_ns = INT64_MAX;
        for (size_t s = first; s < end; s++) {
            if (first_start(b, &b->streams[s]) < begin_ns)
                begin_ns = first_start(b, &b->streams[s]);
        }
        for (size_t s = first; s < end; s++) {
            const stream_works *works = &b->streams[s];
            if (first_start(b, works) > begin_ns &&
                b->launcher[works->nodes[0] - b->first_node] != DL_REPLAY_NONE)
                b->graph->lanes[works->lane].begin_ns = b->begin_ns;
        }
    }
}

void replay_build_streams(replay_builder *b)
{
    size_t count;
    DL_AUTOFREE device_work *works = list_works(b->trace, &count);
    b->rank->work_count = count;
    b->first_node = (uint32_t)b->graph->node_count;
    b->launcher = dl_calloc(count, sizeof *b->launcher, "replay launches");
    b->stream_of = dl_calloc(count, sizeof *b->stream_of, "replay streams");
    b->stream_nodes = dl_calloc(count, sizeof *b->stream_nodes, "replay streams");
    b->stream_launch_ns = dl_calloc(count, sizeof *b->stream_launch_ns, "replay streams");
    DL_GROUPS (first, end, count, works[end].stream == works[first].stream) {
        share_out(&works[first], end - first);
        dl_sort(&works[first], end - first, sizeof *works, by_slot_and_time);
    }
    DL_GROUPS (first, end, count,
               works[end].stream == works[first].stream && works[end].slot == works[first].slot)
        add_lane(b, &works[first], end - first, first);
    free_begins(b);
}

size_t replay_launched_before(const stream_works *works, int64_t time_ns)
{
    size_t place;
    DL_BISECT(place, works->count, works->launch_ns[place] < time_ns);
    return place;
}

/* Launch edges, launch latencies and the spacing of operations. */

/* Maximum gap between two operations that counts as spacing; longer gaps have another cause. In
 * traces of PyTorch on V100, A100 and MI300X the median is 0.5 to 2 us. */
#define LONGEST_SPACING_NS 20000

/* Maximum time from a launch on an idle stream to the start of its work that counts as latency; in
 * longer ones the work waited for something else. */
#define LONGEST_LATENCY_NS 100000

/* Spacing varies with the device's clock and load, so each window of the trace with enough
 * operations of a class has its own typical value. */
#define WINDOW_NS 50000000
#define FEWEST_IN_WINDOW 16

/* Operations with equal keys share one typical value; all ids are below 2^32, kinds below 16. */
typedef struct sort_key {
    uint32_t call;   /* name of the launching call */
    uint32_t what;   /* kernel: its name; other operations: number of bits of their size; 0 for
                      * latencies */
    uint32_t kinds;  /* kind, direction and memory of the operation; for spacings also the kind of
                      * the previous one */
    uint32_t window; /* >= 1: part of the trace; 0: the whole trace */
} sort_key;

/* One measured value of an operation with this key. */
typedef struct sample {
    sort_key sort;
    int64_t value_ns;
} sample;

typedef struct samples {
    sample *items; /* [count]; sorted by key and value once all are added */
    size_t count;
} samples;

DL_ORDER(compare_sorts, sort_key, DL_BY(call), DL_BY(kinds), DL_BY(what), DL_BY(window));

DL_ORDER(by_sort_and_value, sample, compare_sorts(&a->sort, &b->sort), DL_BY(value_ns));

static void add_sample(samples *to, sort_key sort, int64_t value_ns)
{
    to->items[to->count++] = (sample){sort, value_ns > 0 ? value_ns : 0};
}

/* Mean of the values of the sorted items[count] up to three medians + 1 us. */
static int64_t trimmed_mean(const sample *items, size_t count)
{
    int64_t limit_ns = 3 * items[count / 2].value_ns + 1000, sum_ns = 0;
    size_t summed = 0;
    for (; summed < count && items[summed].value_ns <= limit_ns; summed++)
        sum_ns += items[summed].value_ns;
    return sum_ns / (int64_t)summed;
}

/* Replaces the samples of each key by one, their typical value; drops those of windows with fewer
 * than FEWEST_IN_WINDOW. */
static void condense(samples *s)
{
    qsort(s->items, s->count, sizeof *s->items, by_sort_and_value);
    size_t kept = 0;
    DL_GROUPS (first, end, s->count,
               compare_sorts(&s->items[end].sort, &s->items[first].sort) == 0) {
        sort_key sort = s->items[first].sort;
        if (sort.window != 0 && end - first < FEWEST_IN_WINDOW) continue;
        int64_t value_ns = trimmed_mean(&s->items[first], end - first);
        s->items[kept++] = (sample){sort, value_ns};
    }
    s->count = kept;
}

/* Returns the typical value for `sort` in its window, else in the whole trace, else for the nearest
 * preceding key, or for the first one; 0 if there are no samples. */
static int64_t typical(const samples *s, sort_key sort)
{
    size_t i; /* first sample with a key >= `sort` */
    DL_BISECT(i, s->count, compare_sorts(&s->items[i].sort, &sort) < 0);
    if (i < s->count && compare_sorts(&s->items[i].sort, &sort) == 0) return s->items[i].value_ns;
    if (sort.window != 0) {
        sort.window = 0;
        return typical(s, sort);
    }
    return i > 0 ? s->items[i - 1].value_ns : s->count > 0 ? s->items[0].value_ns : 0;
}

static uint32_t kinds_of_work(const dl_activity *work)
{
    return (uint32_t)work->kind << 8 | (uint32_t)work->copy << 4 | work->memory;
}

static sort_key latency_sort(const dl_activity *work, const dl_activity *call)
{
    return (sort_key){.call = call->name, .kinds = kinds_of_work(work)};
}

/* Returns the key of a spacing. Operations of a launched graph follow one another faster than those
 * launched individually; kernels differ by their parameters, copies by their sizes. */
static sort_key spacing_sort(const replay_builder *b, const dl_activity *before,
                             const dl_activity *work, const dl_activity *call)
{
    sort_key sort = {.call = call == NULL ? 0 : call->name,
                     .kinds = (uint32_t)before->kind << 16 | kinds_of_work(work)};
    sort.window = 1 + (uint32_t)((work->start_ns - b->begin_ns) / WINDOW_NS);
    if (work->kind == DL_ACTIVITY_KERNEL) {
        sort.what = work->name;
    } else {
        for (uint64_t bytes = work->bytes; bytes > 0; bytes /= 2)
            sort.what++;
    }
    return sort;
}

static const dl_activity *launch_of(const replay_builder *b, uint32_t node)
{
    uint32_t call = b->launcher[node - b->first_node];
    return call == DL_REPLAY_NONE ? NULL : &b->trace->activities[call];
}

static const dl_activity *work_of(const replay_builder *b, uint32_t node)
{
    return &b->trace->activities[b->graph->nodes[node].activity];
}

int64_t replay_work_end(const replay_builder *b, uint32_t node)
{
    const dl_activity *work = work_of(b, node);
    return work->start_ns + work->duration_ns;
}

/* Adds a sample of an operation's latency or spacing, whichever determined its start. */
static void sample_work(const replay_builder *b, uint32_t before, uint32_t node, samples *latency,
                        samples *spacing)
{
    const dl_activity *work = work_of(b, node), *call = launch_of(b, node);
    int64_t free_ns = before == DL_REPLAY_NONE ? INT64_MIN : replay_work_end(b, before);
    if (call != NULL && free_ns <= call->start_ns) {
        int64_t value_ns = work->start_ns - call->start_ns;
        if (value_ns < LONGEST_LATENCY_NS) add_sample(latency, latency_sort(work, call), value_ns);
        return;
    }
    if (before == DL_REPLAY_NONE) return;
    int64_t value_ns = work->start_ns - free_ns;
    bool early = call == NULL || call->start_ns < free_ns - LONGEST_SPACING_NS;
    if (!early || value_ns >= LONGEST_SPACING_NS) return;
    sort_key sort = spacing_sort(b, work_of(b, before), work, call);
    add_sample(spacing, sort, value_ns);
    sort.window = 0;
    add_sample(spacing, sort, value_ns);
}

/* Returns whether the host delayed the work on an idle stream: the driver first copied pageable
 * memory to a staging buffer, or the call took long (the first launch of a kernel loads its code).
 * The time until the device starts is then host time, and is kept as recorded. */
static bool host_held(const replay_builder *b, uint32_t node, const dl_activity *call)
{
    const dl_activity *work = work_of(b, node);
    uint32_t before = b->graph->before[node];
    bool staged = work->kind == DL_ACTIVITY_MEMCPY && work->copy == DL_COPY_H2D &&
                  work->memory == DL_MEMORY_PAGEABLE;
    int64_t latency_ns = work->start_ns - call->start_ns;
    return (staged || call->duration_ns > LONGEST_LATENCY_NS) && latency_ns >= 0 &&
           latency_ns < call->duration_ns + LONGEST_LATENCY_NS &&
           (before == DL_REPLAY_NONE ||
            replay_work_end(b, before) + LONGEST_SPACING_NS < work->start_ns);
}

static void add_launch(replay_builder *b, uint32_t node, const samples *latency)
{
    const dl_activity *call = launch_of(b, node), *work = work_of(b, node);
    if (call == NULL) return;
    dl_replay_edge edge = {.from = b->rank->node_of[call - b->trace->activities],
                           .to = node,
                           .lag_ns = typical(latency, latency_sort(work, call)),
                           .kind = DL_REPLAY_LAUNCH,
                           .from_start = 1};
    if (host_held(b, node, call)) {
        edge.lag_ns = work->start_ns - call->start_ns;
        /* A longer call would delay the work. Calls of copies may wait for the end of their own
         * copy. */
        if (edge.lag_ns >= call->duration_ns && b->roles[call->name] == CALL_LAUNCH) {
            edge.lag_ns -= call->duration_ns;
            edge.from_start = 0;
        }
    }
    dl_replay_graph_add_edge(b->graph, &edge);
}

static void index_launches(replay_builder *b)
{
    size_t nodes = b->graph->node_count;
    b->first_work = dl_calloc(nodes, sizeof *b->first_work, "replay launches");
    memset(b->first_work, 0xff, nodes * sizeof *b->first_work);
    for (size_t i = b->rank->work_count; i-- > 0;) {
        uint32_t call = b->launcher[i];
        if (call == DL_REPLAY_NONE) continue;
        b->first_work[b->rank->node_of[call]] = b->first_node + (uint32_t)i;
    }
    for (size_t i = 0; i < b->call_count; i++) {
        if (b->calls[i].role != CALL_LAUNCH && b->calls[i].role != CALL_COPY) continue;
        b->rank->launch_calls++;
        b->rank->launches_without += b->first_work[b->calls[i].node] == DL_REPLAY_NONE;
    }
}

void replay_build_launches(replay_builder *b)
{
    size_t works = b->rank->work_count;
    samples latency = {.items = dl_calloc(works, sizeof(sample), "replay latencies")};
    samples spacing = {.items = dl_calloc(2 * works, sizeof(sample), "replay spacings")};
    for (size_t i = 0; i < works; i++) {
        uint32_t node = b->first_node + (uint32_t)i;
        sample_work(b, b->graph->before[node], node, &latency, &spacing);
    }
    condense(&latency);
    condense(&spacing);
    for (size_t i = 0; i < works; i++) {
        uint32_t node = b->first_node + (uint32_t)i, before = b->graph->before[node];
        add_launch(b, node, &latency);
        if (before != DL_REPLAY_NONE) {
            sort_key sort =
                spacing_sort(b, work_of(b, before), work_of(b, node), launch_of(b, node));
            b->graph->nodes[node].spacing_ns = typical(&spacing, sort);
        }
    }
    free(latency.items);
    free(spacing.items);
    index_launches(b);
}

/* Launches that find the queue of a stream full.
 *
 * A stream queues a limited number of operations (1022 on V100 and driver 525); a launch beyond the
 * limit blocks until an operation has ended. The trace shows the limit: launches that take much
 * longer than usual all return with the same number of outstanding operations. If at least
 * FEWEST_BLOCKED launches of a stream, and half of the slow ones, agree within AGREEMENT, that
 * number is the limit, and each launch waits for the end of the work that many positions earlier;
 * only the time after this end is the launch's duration. */

/* Launches take 3 to 10 us; a launch of 60 us or more waited for something. */
#define SLOW_LAUNCH_NS 60000
/* Maximum time from the end of the awaited work to the return of the launch: 5 to 7 us on V100. */
#define LONGEST_RETURN_NS 15000
#define FEWEST_BLOCKED 10
#define SHALLOWEST_QUEUE 64
#define AGREEMENT 4

/* Number of the stream's operations up to `place` that had not ended at `time_ns`. */
static size_t outstanding(const replay_builder *b, const stream_works *works, size_t place,
                          int64_t time_ns)
{
    size_t ended;
    DL_BISECT(ended, place + 1, replay_work_end(b, works->nodes[ended]) <= time_ns);
    return place + 1 - ended;
}

/* Returns whether the work at end_place, the last one that had ended when the call returned
 * (SIZE_MAX: none), may have caused the return. */
static bool just_ended(const replay_builder *b, const stream_works *works, size_t end_place,
                       const dl_activity *call)
{
    if (end_place == SIZE_MAX) return false;
    int64_t end_ns = replay_work_end(b, works->nodes[end_place]);
    return call->start_ns + call->duration_ns - end_ns < LONGEST_RETURN_NS;
}

/* Returns the limit of the stream's queue; 0: unknown. */
static size_t find_depth(const replay_builder *b, const stream_works *works)
{
    DL_AUTOFREE size_t *depths = dl_calloc(works->count, sizeof *depths, "replay queue");
    size_t slow = 0, best = 0, depth = 0;
    for (size_t i = 0; i < works->count; i++) {
        const dl_activity *call = launch_of(b, works->nodes[i]);
        if (call == NULL || call->duration_ns < SLOW_LAUNCH_NS) continue;
        size_t ahead = outstanding(b, works, i, call->start_ns + call->duration_ns);
        if (ahead >= SHALLOWEST_QUEUE && just_ended(b, works, i - ahead, call))
            depths[slow++] = ahead;
    }
    qsort(depths, slow, sizeof *depths, dl_compare_sizes);
    for (size_t first = 0, end = 0; first < slow; first++) {
        while (end < slow && depths[end] <= depths[first] + AGREEMENT)
            end++;
        if (end - first <= best) continue;
        best = end - first;
        depth = depths[first + best / 2];
    }
    return best >= FEWEST_BLOCKED && 2 * best >= slow ? depth : 0;
}

/* Makes the launch wait for the last of works[place - AGREEMENT .. place] that had ended when it
 * returned, if there is one. */
static void wait_in_queue(replay_builder *b, const stream_works *works, size_t place,
                          const dl_activity *call)
{
    int64_t return_ns = call->start_ns + call->duration_ns;
    for (size_t back = 0; back <= AGREEMENT && back <= place; back++) {
        uint32_t work = works->nodes[place - back];
        int64_t end_ns = replay_work_end(b, work);
        if (end_ns > return_ns) continue;
        uint32_t node = b->rank->node_of[call - b->trace->activities];
        dl_replay_graph_add_edge(b->graph, &(dl_replay_edge){.from = work,
                                                             .to = node,
                                                             .kind = DL_REPLAY_QUEUE,
                                                             .origin = DL_REPLAY_INFERRED});
        /* The last node holds the call's time; the first of a copy's two nodes takes none. */
        uint32_t own = b->graph->nodes[node].duration_ns > 0 ? node : b->graph->next[node];
        if (end_ns <= call->start_ns || own == DL_REPLAY_NONE) return;
        if (b->graph->nodes[own].duration_ns > return_ns - end_ns)
            b->graph->nodes[own].duration_ns = return_ns - end_ns;
        b->graph->nodes[node].recorded_ns = end_ns;
        if (own != node && b->graph->nodes[own].recorded_ns < end_ns)
            b->graph->nodes[own].recorded_ns = end_ns;
        return;
    }
}

void replay_build_queues(replay_builder *b)
{
    for (size_t s = 0; s < b->stream_count; s++) {
        const stream_works *works = &b->streams[s];
        size_t depth = find_depth(b, works);
        if (depth == 0) continue;
        if (depth > b->rank->queue_depth) b->rank->queue_depth = depth;
        for (size_t i = depth; i < works->count; i++) {
            const dl_activity *call = launch_of(b, works->nodes[i]);
            if (call != NULL) wait_in_queue(b, works, i - depth, call);
        }
    }
}
