/* Lanes of threads: their calls, and the time between them. */
#include "calibrate/replay/build_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"

/* Minimum gap in ns between two calls of a thread, without any record of the thread, that may be a
 * wait for another thread. */
#define UNTRACED_NS 20000

typedef struct role_rule {
    const char *part; /* part of a function name in CUDA's runtime or driver or in HIP */
    call_role role;
} role_rule;

/* The first rule whose part occurs in the name applies. */
static const role_rule role_rules[] = {
    {"DeviceSynchronize", CALL_SYNC_DEVICE},
    {"CtxSynchronize", CALL_SYNC_DEVICE},
    {"StreamSynchronize", CALL_SYNC_STREAM},
    {"EventSynchronize", CALL_SYNC_EVENT},
    {"EventRecord", CALL_EVENT_RECORD},
    {"StreamWaitEvent", CALL_STREAM_WAIT},
    {"Memcpy", CALL_COPY},
    {"Memset", CALL_LAUNCH},
    {"Launch", CALL_LAUNCH},
    {"Malloc", CALL_MEMORY},
    {"Free", CALL_MEMORY},
    {"HostAlloc", CALL_MEMORY},
    {"MemAlloc", CALL_MEMORY},
    {"HostRegister", CALL_MEMORY},
    {"HostUnregister", CALL_MEMORY},
    {"ModuleUnload", CALL_MEMORY},
};

static call_role role_of(const char *name)
{
    for (size_t i = 0; i < DL_LENGTH(role_rules); i++) {
        if (strstr(name, role_rules[i].part) != NULL) return role_rules[i].role;
    }
    return CALL_OTHER;
}

static void find_roles(replay_builder *b)
{
    const dl_trace *trace = b->trace;
    enum { UNKNOWN = UINT8_MAX };
    b->roles = dl_calloc(trace->string_count, 1, "replay calls");
    memset(b->roles, UNKNOWN, trace->string_count);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_CALL || b->roles[a->name] != UNKNOWN) continue;
        b->roles[a->name] = (uint8_t)role_of(trace->strings[a->name]);
    }
}

/* A moment of a thread: a call, or a boundary of a range. */
typedef struct moment {
    uint32_t thread;
    uint32_t activity; /* activity of a call; DL_REPLAY_NONE for a boundary */
    int64_t start_ns, end_ns;
} moment;

DL_ORDER(by_thread_and_time, moment, DL_BY(thread), DL_BY(start_ns), DL_BY_DESCENDING(end_ns),
         DL_BY(activity));

static moment *list_moments(const replay_builder *b, size_t *count)
{
    const dl_trace *trace = b->trace;
    moment *moments = NULL;
    *count = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        int64_t end_ns = a->start_ns + a->duration_ns;
        if (a->kind == DL_ACTIVITY_CALL) {
            DL_APPEND(moments, *count, "replay calls") =
                (moment){a->thread, (uint32_t)i, a->start_ns, end_ns};
        } else if (a->kind == DL_ACTIVITY_RANGE) {
            DL_APPEND(moments, *count, "replay calls") =
                (moment){a->thread, DL_REPLAY_NONE, a->start_ns, a->start_ns};
            DL_APPEND(moments, *count, "replay calls") =
                (moment){a->thread, DL_REPLAY_NONE, end_ns, end_ns};
        }
    }
    dl_sort(moments, *count, sizeof *moments, by_thread_and_time);
    return moments;
}

static uint32_t add_piece(replay_builder *b, uint32_t lane, int64_t from_ns, int64_t to_ns)
{
    return dl_replay_graph_add(b->graph, lane,
                               &(dl_replay_node){.kind = DL_REPLAY_HOST,
                                                 .rank = b->rank_number,
                                                 .activity = DL_REPLAY_NONE,
                                                 .recorded_ns = from_ns,
                                                 .duration_ns = to_ns - from_ns});
}

/* Adds the thread's time from at_ns to to_ns, in which borders[count] of ranges are its only
 * records, as one node; but a span of UNTRACED_NS or more without any record becomes a separate
 * node. */
static void add_time(replay_builder *b, uint32_t lane, int64_t at_ns, int64_t to_ns,
                     const moment *borders, size_t count)
{
    int64_t piece_ns = at_ns;
    for (size_t i = 0; i <= count; i++) {
        int64_t border_ns = i < count ? borders[i].start_ns : to_ns;
        if (border_ns > to_ns) border_ns = to_ns;
        if (border_ns - at_ns >= UNTRACED_NS) {
            uint32_t before = add_piece(b, lane, piece_ns, at_ns);
            DL_APPEND(b->untraced, b->untraced_count, "replay threads") = (replay_untraced){
                .lane = lane, .before = before, .from_ns = at_ns, .to_ns = border_ns};
            add_piece(b, lane, at_ns, border_ns);
            piece_ns = border_ns;
        }
        if (border_ns > at_ns) at_ns = border_ns;
    }
    if (to_ns > piece_ns) add_piece(b, lane, piece_ns, to_ns);
}

static bool may_wait(call_role role)
{
    return role == CALL_COPY || role == CALL_MEMORY || role == CALL_SYNC_DEVICE ||
           role == CALL_SYNC_STREAM || role == CALL_SYNC_EVENT;
}

static uint32_t add_call(replay_builder *b, uint32_t lane, const moment *m)
{
    const dl_activity *a = &b->trace->activities[m->activity];
    replay_call *call = &b->calls[b->call_count++];
    *call = (replay_call){.start_ns = m->start_ns,
                          .end_ns = m->end_ns,
                          .activity = m->activity,
                          .thread = (uint32_t)b->thread_count,
                          .role = b->roles[a->name]};
    dl_replay_node node = {.kind = DL_REPLAY_CALL,
                           .rank = b->rank_number,
                           .activity = m->activity,
                           .recorded_ns = m->start_ns,
                           .duration_ns = m->end_ns - m->start_ns};
    if (may_wait(call->role)) {
        dl_replay_node launch = node;
        launch.duration_ns = 0;
        call->node = dl_replay_graph_add(b->graph, lane, &launch);
        call->returns = dl_replay_graph_add(b->graph, lane, &node);
    } else {
        call->node = call->returns = dl_replay_graph_add(b->graph, lane, &node);
    }
    return call->node;
}

/* Adds the lane of one thread with moments[count]. */
static void add_thread(replay_builder *b, const moment *moments, size_t count)
{
    uint32_t lane = dl_replay_graph_add_lane(
        b->graph, &(dl_replay_lane){.rank = b->rank_number, .thread = moments[0].thread});
    uint32_t outer = DL_REPLAY_NONE;
    size_t next = 0; /* first moment after the previous call */
    int64_t at_ns = b->begin_ns, last_ns = at_ns;
    for (size_t i = 0; i < count; i++) {
        const moment *m = &moments[i];
        if (m->end_ns > last_ns) last_ns = m->end_ns;
        if (m->activity == DL_REPLAY_NONE) continue;
        if (outer != DL_REPLAY_NONE && m->start_ns < at_ns) {
            b->rank->node_of[m->activity] = outer;
            continue;
        }
        add_time(b, lane, at_ns, m->start_ns, &moments[next], i - next);
        outer = b->rank->node_of[m->activity] = add_call(b, lane, m);
        at_ns = m->end_ns;
        next = i + 1;
    }
    if (last_ns > at_ns) add_time(b, lane, at_ns, last_ns, &moments[next], count - next);
    DL_APPEND(b->untraced, b->untraced_count, "replay threads") = (replay_untraced){
        .lane = lane, .before = b->graph->lanes[lane].last, .from_ns = last_ns, .to_ns = INT64_MAX};
    b->thread_count++;
}

DL_ORDER(by_start, replay_call, DL_BY(start_ns), DL_BY(activity));

void replay_build_host(replay_builder *b)
{
    size_t count;
    find_roles(b);
    DL_AUTOFREE moment *moments = list_moments(b, &count);
    b->calls = dl_calloc(count, sizeof *b->calls, "replay calls");
    for (size_t first = 0, end; first < count; first = end) {
        bool calls = false;
        for (end = first; end < count && moments[end].thread == moments[first].thread; end++)
            calls |= moments[end].activity != DL_REPLAY_NONE;
        if (calls) add_thread(b, &moments[first], end - first);
    }
    qsort(b->calls, b->call_count, sizeof *b->calls, by_start);
}

/* Threads that wait for each other.
 *
 * Such waits (futures, condition variables) are not recorded, but if two threads alternate (a
 * training loop and its backward pass), one is untraced while the other is busy. So an untraced
 * span [a, b) of thread A is a wait for thread B if B was untraced at a, then became busy, became
 * untraced again at a time d < b in the second half of the span, and stayed so until b. (If the
 * trace starts with A's span, B may be busy from the start.) A then continues when B's burst ends
 * at d, and b - d, the wake-up, remains A's time. With several such threads B, the one that ends
 * last is used.
 *
 * Any other untraced span of a launching thread is the thread's time until the rest of the trace is
 * idle: no device operation runs, and all launching threads are in untraced spans. The rest of the
 * span, if it is DL_REPLAY_EXTERNAL_NS or more, is an external wait: for input from other
 * processes, or for a peer in an untraced library. (The thread may also compute; a trace without
 * samples cannot distinguish that from waiting.) */

/* Index of the last of untraced[count] of a lane that starts at or before `time_ns`, plus 1; 0:
 * none. */
static size_t find_untraced(const replay_untraced *untraced, size_t count, int64_t time_ns)
{
    size_t next;
    DL_BISECT(next, count, untraced[next].from_ns <= time_ns);
    return next;
}

/* Returns the other thread's untraced span that follows a burst ending within `span` (see above),
 * or NULL. */
static const replay_untraced *burst_end(const replay_untraced *others, size_t count,
                                        const replay_untraced *span, int64_t begin_ns)
{
    size_t at_begin = find_untraced(others, count, span->from_ns);
    size_t at_end = find_untraced(others, count, span->to_ns);
    if (at_end <= at_begin) return NULL;
    if (span->from_ns > begin_ns && (at_begin == 0 || others[at_begin - 1].to_ns <= span->from_ns))
        return NULL;
    const replay_untraced *end = &others[at_end - 1];
    if (end->to_ns < span->to_ns) return NULL;
    return span->to_ns - end->from_ns <= end->from_ns - span->from_ns ? end : NULL;
}

/* The untraced spans of one thread. */
typedef struct thread_untraced {
    const replay_untraced *untraced;
    size_t count;
    bool launches; /* the thread launches device operations */
} thread_untraced;

/* Starts of the device's operations, ascending, and for each the latest end of all operations up to
 * it. */
typedef struct device_times {
    int64_t *starts_ns, *ends_ns; /* [count] */
    size_t count;
} device_times;

typedef struct work_time {
    int64_t start_ns, end_ns;
} work_time;

DL_ORDER(by_start_of_work, work_time, DL_BY(start_ns), DL_BY(end_ns));

static device_times device_times_of(const replay_builder *b)
{
    const size_t count = b->rank->work_count;
    DL_AUTOFREE work_time *works = dl_calloc(count, sizeof *works, "replay threads");
    device_times times = {dl_calloc(count, sizeof(int64_t), "replay threads"),
                          dl_calloc(count, sizeof(int64_t), "replay threads"), count};
    for (size_t i = 0; i < count; i++) {
        const dl_replay_node *node = &b->graph->nodes[b->first_node + i];
        works[i] = (work_time){node->recorded_ns, node->recorded_ns + node->duration_ns};
    }
    dl_sort(works, count, sizeof *works, by_start_of_work);
    for (size_t i = 0; i < count; i++) {
        times.starts_ns[i] = works[i].start_ns;
        times.ends_ns[i] = works[i].end_ns;
        if (i > 0 && times.ends_ns[i - 1] > times.ends_ns[i])
            times.ends_ns[i] = times.ends_ns[i - 1];
    }
    return times;
}

/* Returns the time in the span from which the device and all other launching threads are idle until
 * the span's end; the span's end if there is no such time. */
static int64_t at_rest_ns(const device_times *device, const thread_untraced *threads, size_t count,
                          const replay_untraced *span)
{
    int64_t rest_ns = span->from_ns;
    size_t before;
    DL_BISECT(before, device->count, device->starts_ns[before] < span->to_ns);
    if (before > 0 && device->ends_ns[before - 1] > rest_ns) rest_ns = device->ends_ns[before - 1];
    for (size_t i = 0; i < count; i++) {
        const replay_untraced *others = threads[i].untraced;
        if (others->lane == span->lane || !threads[i].launches) continue;
        /* The other thread's span must extend to the end of this one; its last span has no end. A
         * thread is ignored before its first span. */
        const size_t at = find_untraced(others, threads[i].count, span->to_ns - 1);
        if (at == 0) continue;
        if (others[at - 1].to_ns < span->to_ns) return span->to_ns;
        if (others[at - 1].from_ns > rest_ns) rest_ns = others[at - 1].from_ns;
    }
    return rest_ns < span->to_ns ? rest_ns : span->to_ns;
}

/* Splits the span's node at rest_ns, unless the rest is shorter than DL_REPLAY_EXTERNAL_NS: the
 * node becomes the external wait after rest_ns, and a new node before it gets the thread's earlier
 * time. */
static void name_wait(replay_builder *b, uint32_t node, int64_t rest_ns, int64_t to_ns)
{
    dl_replay_graph *graph = b->graph;
    if (to_ns - rest_ns < DL_REPLAY_EXTERNAL_NS) return;
    dl_replay_node *span = &graph->nodes[node];
    const int64_t own_ns = rest_ns - span->recorded_ns;
    span->kind = DL_REPLAY_EXTERNAL;
    span->recorded_ns = rest_ns;
    span->duration_ns = to_ns - rest_ns;
    if (own_ns <= 0) return;
    dl_replay_graph_insert(graph, node,
                           &(dl_replay_node){.kind = DL_REPLAY_HOST,
                                             .rank = b->rank_number,
                                             .activity = DL_REPLAY_NONE,
                                             .recorded_ns = rest_ns - own_ns,
                                             .duration_ns = own_ns});
}

static void resolve(replay_builder *b, const device_times *device, const thread_untraced *threads,
                    size_t count, const thread_untraced *own, const replay_untraced *span)
{
    const replay_untraced *best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (&threads[i] == own) continue;
        const replay_untraced *other =
            burst_end(threads[i].untraced, threads[i].count, span, b->begin_ns);
        if (other != NULL && (best == NULL || other->from_ns > best->from_ns)) best = other;
    }
    uint32_t after = b->graph->next[span->before];
    if (after == DL_REPLAY_NONE) return;
    if (best == NULL) {
        if (own->launches && span->to_ns < INT64_MAX && span->from_ns > b->begin_ns)
            name_wait(b, after, at_rest_ns(device, threads, count, span), span->to_ns);
        return;
    }
    dl_replay_node *node = &b->graph->nodes[after];
    node->duration_ns -= best->from_ns - node->recorded_ns;
    node->recorded_ns = best->from_ns;
    dl_replay_graph_add_edge(b->graph, &(dl_replay_edge){.from = best->before,
                                                         .to = after,
                                                         .kind = DL_REPLAY_HANDOVER,
                                                         .origin = DL_REPLAY_INFERRED});
}

void replay_build_threads(replay_builder *b)
{
    DL_AUTOFREE thread_untraced *threads =
        dl_calloc(b->graph->lane_count, sizeof *threads, "replay threads");
    DL_AUTOFREE bool *launches =
        dl_calloc(b->graph->lane_count, sizeof *launches, "replay threads");
    size_t count = 0;
    for (size_t i = 0; i < b->call_count; i++) {
        const uint32_t node = b->calls[i].node;
        if (b->first_work[node] != DL_REPLAY_NONE) launches[b->graph->nodes[node].lane] = true;
    }
    DL_GROUPS (first, end, b->untraced_count, b->untraced[end].lane == b->untraced[first].lane)
        threads[count++] =
            (thread_untraced){&b->untraced[first], end - first, launches[b->untraced[first].lane]};
    device_times device = device_times_of(b);
    for (size_t t = 0; t < count; t++) {
        for (size_t i = 0; i < threads[t].count; i++)
            resolve(b, &device, threads, count, &threads[t], &threads[t].untraced[i]);
    }
    free(device.starts_ns);
    free(device.ends_ns);
}
