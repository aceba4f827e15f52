/* Waits for device operations: by other streams, through events, and by host threads. */
#include "calibrate/replay/build_internal.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/replay/graph.h"
#include "common/alloc.h"
#include "common/sort.h"

DL_ORDER_OF_POINTERS(by_object_and_time, dl_activity, DL_BY(object), DL_BY(start_ns));

void replay_events_init(replay_events *events, const dl_trace *trace)
{
    *events = (replay_events){0};
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (trace->activities[i].kind != DL_ACTIVITY_EVENT) continue;
        DL_APPEND(events->items, events->count, "replay events") = &trace->activities[i];
    }
    dl_sort(events->items, events->count, sizeof *events->items, by_object_and_time);
}

void replay_events_free(replay_events *events)
{
    free(events->items);
    *events = (replay_events){0};
}

/* Returns the last record of the event `object` at or before `time_ns`, or NULL. */
static const dl_activity *replay_events_find(const replay_events *events, uint64_t object,
                                             int64_t time_ns)
{
    size_t next;
    DL_BISECT(next, events->count,
              events->items[next]->object < object || (events->items[next]->object == object &&
                                                       events->items[next]->start_ns <= time_ns));
    if (next == 0 || events->items[next - 1]->object != object) return NULL;
    return events->items[next - 1];
}

/* Streams that wait for each other's events.
 *
 * If the trace holds SYNC and EVENT activities with the event's identity (Nsight Systems; CUPTI;
 * PyTorch with cuda_sync), both ends are recorded. Otherwise only the calls are known,
 * cudaEventRecord and cudaStreamWaitEvent without stream or event, and these rules infer an edge:
 *
 *   waiting stream    the stream of the next work that the same thread launches;
 *   recorded stream   if the thread recorded an event since its previous wait: the stream of its
 *                     last launch before the record, and the work is the last one launched there
 *                     before the record. If that is the waiting stream itself, or there is no such
 *                     record: every other stream, with its last work launched before the record
 *                     or, without one, before the wait;
 *   refuted           a work that ended after the waiting one began: the event was an earlier one.
 *                     No edge is made; the wait is left to the edges inferred from times. */

/* In traces with whole microseconds, a work's end may lie this much after the start of the work
 * that waited for it. */
#define ROUNDING_NS 2000

#define NO_STREAM SIZE_MAX

typedef struct pending_wait {
    size_t source; /* stream, or NO_STREAM: any other stream */
    int64_t time_ns;
} pending_wait;

/* Latest calls of a thread. */
typedef struct thread_state {
    size_t launched; /* stream of its last launch, or NO_STREAM */
    bool recorded;   /* the thread recorded an event since its last wait */
    pending_wait record;
    pending_wait *waits; /* [wait_count] waits since its last launch */
    size_t wait_count;
} thread_state;

typedef struct event_walk {
    replay_builder *b;
    thread_state *threads; /* [thread_count] */
    uint8_t *known;        /* [activity_count] 1: both ends of this call's wait are recorded */
} event_walk;

static void add_event(replay_builder *b, uint32_t from, uint32_t to, dl_replay_origin origin)
{
    dl_replay_graph_add_edge(
        b->graph, &(dl_replay_edge){
                      .from = from, .to = to, .kind = DL_REPLAY_EVENT, .origin = (uint8_t)origin});
}

static void satisfy_wait(replay_builder *b, const pending_wait *wait, uint32_t work, size_t target)
{
    int64_t start_ns = b->graph->nodes[work].recorded_ns;
    for (size_t s = 0; s < b->stream_count; s++) {
        if (s == target || (wait->source != NO_STREAM && wait->source != s)) continue;
        size_t place = replay_launched_before(&b->streams[s], wait->time_ns);
        if (place == 0) continue;
        uint32_t from = b->streams[s].nodes[place - 1];
        if (replay_work_end(b, from) <= start_ns + ROUNDING_NS)
            add_event(b, from, work, DL_REPLAY_INFERRED);
    }
}

static void launch(event_walk *walk, thread_state *state, uint32_t work)
{
    size_t target = walk->b->stream_of[work - walk->b->first_node];
    for (size_t i = 0; i < state->wait_count; i++) {
        if (state->waits[i].source == target) state->waits[i].source = NO_STREAM;
        satisfy_wait(walk->b, &state->waits[i], work, target);
    }
    state->wait_count = 0;
    state->launched = target;
}

static void wait_for(thread_state *state, const replay_call *call)
{
    DL_APPEND(state->waits, state->wait_count, "replay events") =
        state->recorded ? state->record : (pending_wait){NO_STREAM, call->start_ns};
    state->recorded = false;
}

static void walk_calls(event_walk *walk)
{
    const replay_builder *b = walk->b;
    for (size_t i = 0; i < b->call_count; i++) {
        const replay_call *call = &b->calls[i];
        thread_state *state = &walk->threads[call->thread];
        uint32_t work = b->first_work[call->node];
        if (work != DL_REPLAY_NONE) launch(walk, state, work);
        if (call->role == CALL_EVENT_RECORD && state->launched != NO_STREAM) {
            state->record = (pending_wait){state->launched, call->start_ns};
            state->recorded = true;
        } else if (call->role == CALL_STREAM_WAIT && !walk->known[call->activity]) {
            wait_for(state, call);
        }
    }
}

/* Adds the edge of one stream's recorded wait for an event of another stream; returns false if a
 * work is not found or the times refute the edge. */
static bool add_known(replay_builder *b, const dl_activity *event, const dl_activity *sync,
                      const dl_activity *call)
{
    uint32_t from = DL_REPLAY_NONE, to = DL_REPLAY_NONE;
    for (size_t s = 0; s < b->stream_count; s++) {
        const stream_works *works = &b->streams[s];
        const bool is_own = works->stream == event->stream && works->device == event->device;
        if (is_own) {
            size_t place = replay_launched_before(works, event->start_ns);
            if (place > 0) from = works->nodes[place - 1];
        }
        if (!is_own && works->stream == sync->stream && works->device == sync->device) {
            size_t place = replay_launched_before(works, call->start_ns);
            if (place < works->count) to = works->nodes[place];
        }
    }
    if (from == DL_REPLAY_NONE || to == DL_REPLAY_NONE) return false;
    if (replay_work_end(b, from) > b->graph->nodes[to].recorded_ns + ROUNDING_NS) return false;
    add_event(b, from, to, DL_REPLAY_RECORDED);
    return true;
}

static void add_known_events(event_walk *walk, const replay_events *events)
{
    replay_builder *b = walk->b;
    const dl_trace *trace = b->trace;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *sync = &trace->activities[i];
        if (sync->kind != DL_ACTIVITY_SYNC ||
            strcmp(trace->strings[sync->name], "stream wait") != 0)
            continue;
        const dl_activity *call = dl_launches_find(&b->launches, sync->correlation);
        if (call == NULL) continue;
        const dl_activity *event = replay_events_find(events, sync->object, call->start_ns);
        if (event != NULL && add_known(b, event, sync, call))
            walk->known[call - trace->activities] = 1;
    }
}

void replay_build_events(replay_builder *b, const replay_events *events)
{
    event_walk walk = {.b = b,
                       .threads = dl_calloc(b->thread_count, sizeof *walk.threads, "replay events"),
                       .known = dl_calloc(b->trace->activity_count, 1, "replay events")};
    for (size_t i = 0; i < b->thread_count; i++)
        walk.threads[i].launched = NO_STREAM;
    add_known_events(&walk, events);
    if (b->stream_count > 1) walk_calls(&walk);
    for (size_t i = 0; i < b->thread_count; i++)
        free(walk.threads[i].waits);
    free(walk.threads);
    free(walk.known);
}

/* Host calls that wait for device operations.
 *
 *   ...DeviceSynchronize    waits for the last work launched before it on each stream
 *   ...StreamSynchronize    waits for the last work launched before it on the stream named in the
 *                           trace, else on the stream of the thread's last launch
 *   ...EventSynchronize     waits for the last work launched before the record of the event named
 *                           in the trace; without a name, like StreamSynchronize
 *   copies                  wait for their own copy, if it had ended when the call returned
 *   allocation and release  wait for all streams like DeviceSynchronize, if the last of these
 *                           operations ended during the call
 *
 * A work that ended after the call returned refutes the wait for it, and no edge is made. The
 * call's duration is the time from the end of the last awaited work (or from the call's start) to
 * its return. */

/* Clocks of host and device differ, and some traces have times in whole microseconds. */
#define RETURN_SLACK_NS 2000

/* State of the pass over the calls in order of time. */
typedef struct wait_walk {
    replay_builder *b;
    const replay_events *events;
    const stream_works **own; /* [thread_count] stream of the thread's last launch, or NULL */
} wait_walk;

/* Adds the edge unless the times refute it; sets *until_ns to the latest awaited end. */
static void wait_for_work(replay_builder *b, const replay_call *call, uint32_t work,
                          dl_replay_origin origin, int64_t *until_ns)
{
    int64_t end_ns = replay_work_end(b, work);
    if (end_ns > call->end_ns + RETURN_SLACK_NS) return;
    dl_replay_graph_add_edge(b->graph, &(dl_replay_edge){.from = work,
                                                         .to = call->returns,
                                                         .kind = DL_REPLAY_SYNC,
                                                         .origin = (uint8_t)origin});
    if (end_ns > call->end_ns) end_ns = call->end_ns;
    if (end_ns > *until_ns) *until_ns = end_ns;
}

/* Waits for the last work of each lane of the stream launched before `time_ns`. */
static void wait_for_stream(replay_builder *b, const replay_call *call, uint32_t device,
                            uint32_t stream, int64_t time_ns, dl_replay_origin origin,
                            int64_t *until_ns)
{
    for (size_t s = 0; s < b->stream_count; s++) {
        const stream_works *works = &b->streams[s];
        if (works->stream != stream || works->device != device) continue;
        size_t place = replay_launched_before(works, time_ns);
        if (place > 0) wait_for_work(b, call, works->nodes[place - 1], origin, until_ns);
    }
}

static void wait_for_all(replay_builder *b, const replay_call *call, dl_replay_origin origin,
                         int64_t *until_ns)
{
    for (size_t s = 0; s < b->stream_count; s++) {
        size_t place = replay_launched_before(&b->streams[s], call->start_ns);
        if (place > 0) wait_for_work(b, call, b->streams[s].nodes[place - 1], origin, until_ns);
    }
}

/* Waits for one stream: that of `sync`, or else the thread's last one. */
static void wait_for_some_stream(const wait_walk *walk, const replay_call *call,
                                 const dl_activity *sync, int64_t *until_ns)
{
    if (sync != NULL) {
        wait_for_stream(walk->b, call, sync->device, sync->stream, call->start_ns,
                        DL_REPLAY_RECORDED, until_ns);
        return;
    }
    const stream_works *own = walk->own[call->thread];
    if (own == NULL) return;
    wait_for_stream(walk->b, call, own->device, own->stream, call->start_ns, DL_REPLAY_INFERRED,
                    until_ns);
}

/* Waits for the event named by `sync`, or else as for a stream. */
static void wait_for_event(const wait_walk *walk, const replay_call *call, const dl_activity *sync,
                           int64_t *until_ns)
{
    const dl_activity *event =
        sync == NULL ? NULL : replay_events_find(walk->events, sync->object, call->start_ns);
    if (event == NULL) {
        wait_for_some_stream(walk, call, NULL, until_ns);
        return;
    }
    wait_for_stream(walk->b, call, event->device, event->stream, event->start_ns,
                    DL_REPLAY_RECORDED, until_ns);
}

/* Latest end of the operations launched before the call, on all streams. */
static int64_t last_end_before(const replay_builder *b, const replay_call *call)
{
    int64_t last_ns = INT64_MIN;
    for (size_t s = 0; s < b->stream_count; s++) {
        size_t place = replay_launched_before(&b->streams[s], call->start_ns);
        if (place == 0) continue;
        int64_t end_ns = replay_work_end(b, b->streams[s].nodes[place - 1]);
        if (end_ns > last_ns) last_ns = end_ns;
    }
    return last_ns;
}

static void add_waits(const wait_walk *walk, const replay_call *call, const dl_activity *sync)
{
    replay_builder *b = walk->b;
    int64_t until_ns = call->start_ns, last_ns;
    switch ((call_role)call->role) {
    case CALL_SYNC_DEVICE: wait_for_all(b, call, DL_REPLAY_RECORDED, &until_ns); break;
    case CALL_SYNC_STREAM: wait_for_some_stream(walk, call, sync, &until_ns); break;
    case CALL_SYNC_EVENT: wait_for_event(walk, call, sync, &until_ns); break;
    case CALL_COPY:
        if (b->first_work[call->node] != DL_REPLAY_NONE)
            wait_for_work(b, call, b->first_work[call->node], DL_REPLAY_INFERRED, &until_ns);
        break;
    case CALL_MEMORY:
        last_ns = last_end_before(b, call);
        if (last_ns > call->start_ns && last_ns <= call->end_ns)
            wait_for_all(b, call, DL_REPLAY_INFERRED, &until_ns);
        break;
    default: return;
    }
    b->graph->nodes[call->returns].duration_ns = call->end_ns - until_ns;
    b->graph->nodes[call->returns].recorded_ns = until_ns;
}

/* Finds the SYNC activity of each synchronizing call: [node_count], or NONE. */
static uint32_t *find_syncs(const replay_builder *b)
{
    const dl_trace *trace = b->trace;
    uint32_t *syncs = dl_calloc(b->graph->node_count, sizeof *syncs, "replay waits");
    memset(syncs, 0xff, b->graph->node_count * sizeof *syncs);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *sync = &trace->activities[i];
        if (sync->kind != DL_ACTIVITY_SYNC) continue;
        const dl_activity *call = dl_launches_find(&b->launches, sync->correlation);
        if (call == NULL) continue;
        syncs[b->rank->node_of[call - trace->activities]] = (uint32_t)i;
    }
    return syncs;
}

void replay_build_waits(replay_builder *b, const replay_events *events)
{
    DL_AUTOFREE uint32_t *syncs = find_syncs(b);
    wait_walk walk = {.b = b,
                      .events = events,
                      .own = dl_calloc(b->thread_count, sizeof *walk.own, "replay waits")};
    for (size_t i = 0; i < b->call_count; i++) {
        const replay_call *call = &b->calls[i];
        const uint32_t sync = syncs[call->node], work = b->first_work[call->node];
        add_waits(&walk, call, sync == DL_REPLAY_NONE ? NULL : &b->trace->activities[sync]);
        if (work != DL_REPLAY_NONE)
            walk.own[call->thread] = &b->streams[b->stream_of[work - b->first_node]];
    }
    free(walk.own);
}

/* Edges between streams inferred from the recorded times only.
 *
 * An operation may start long after its launch and after the previous operation of its stream
 * although it waits for no known event: the profiler did not record the event (ROCm), or an
 * operation of another stream occupies the whole device. In both cases it starts when an operation
 * of another stream ends, or a little earlier: the last blocks of a large kernel leave room while
 * they run. If an operation starts more than DL_REPLAY_SPREAD_NS after all of its known
 * constraints, the cause is therefore
 *
 *   an operation of another stream that ended at most LONGEST_HANDOVER_NS before: the delayed
 *   operation starts `lag` after that end, the typical spacing of operations;
 *   or one that was still running, but ended within LONGEST_TAIL_NS or a tenth of its duration:
 *   the delayed operation starts after the same share of that duration as recorded.
 *
 * Of several such operations, the one with the nearest end is the cause. Delays without such an end
 * stay unexplained. */

/* An event takes up to 20 us from one stream to another (MI300X). */
#define LONGEST_HANDOVER_NS 25000
#define LONGEST_TAIL_NS 25000

/* Distance in ns of the end of `work` from `start_ns`; INT64_MAX if `work` cannot be the cause. */
static int64_t distance(const replay_builder *b, uint32_t work, int64_t start_ns)
{
    int64_t late_ns = start_ns - replay_work_end(b, work);
    int64_t tail_ns = b->graph->nodes[work].duration_ns / 10;
    if (tail_ns < LONGEST_TAIL_NS) tail_ns = LONGEST_TAIL_NS;
    if (late_ns > LONGEST_HANDOVER_NS || late_ns < -tail_ns) return INT64_MAX;
    return late_ns < 0 ? -late_ns : late_ns;
}

/* The work of another stream of the device whose end is nearest to the start, or NONE. */
static uint32_t find_holder(const replay_builder *b, const stream_works *of, int64_t start_ns)
{
    uint32_t best = DL_REPLAY_NONE;
    int64_t best_ns = INT64_MAX;
    for (size_t s = 0; s < b->stream_count; s++) {
        const stream_works *works = &b->streams[s];
        if (works == of || works->device != of->device) continue;
        size_t place; /* index of the first work that started at or after start_ns */
        DL_BISECT(place, works->count, b->graph->nodes[works->nodes[place]].recorded_ns < start_ns);
        for (size_t back = 1; back <= 2 && back <= place; back++) {
            int64_t ns = distance(b, works->nodes[place - back], start_ns);
            if (ns >= best_ns) continue;
            best_ns = ns;
            best = works->nodes[place - back];
        }
    }
    return best;
}

static void hold_back(replay_builder *b, uint32_t holder, uint32_t work)
{
    int64_t start_ns = b->graph->nodes[work].recorded_ns;
    bool running = replay_work_end(b, holder) > start_ns;
    dl_replay_graph_add_edge(
        b->graph,
        &(dl_replay_edge){.from = holder,
                          .to = work,
                          .lag_ns = running ? start_ns - b->graph->nodes[holder].recorded_ns
                                            : b->graph->nodes[work].spacing_ns,
                          .kind = running ? DL_REPLAY_ROOM : DL_REPLAY_EVENT,
                          .origin = DL_REPLAY_TIMED,
                          .from_start = running});
}

void replay_build_timed(replay_builder *b)
{
    if (b->stream_count < 2) return;
    DL_AUTOFREE int64_t *earliest_ns =
        dl_calloc(b->graph->node_count, sizeof *earliest_ns, "replay gaps");
    dl_replay_earliest_starts(b->graph, earliest_ns);
    for (size_t s = 0; s < b->stream_count; s++) {
        for (size_t i = 0; i < b->streams[s].count; i++) {
            uint32_t work = b->streams[s].nodes[i];
            int64_t start_ns = b->graph->nodes[work].recorded_ns;
            if (start_ns - earliest_ns[work] <= DL_REPLAY_SPREAD_NS) continue;
            uint32_t holder = find_holder(b, &b->streams[s], start_ns);
            if (holder != DL_REPLAY_NONE) hold_back(b, holder, work);
        }
    }
}
