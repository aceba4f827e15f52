/* Calls of the host that wait for works of a device.
 *
 *   ...DeviceSynchronize    for the last work launched before it on each stream
 *   ...StreamSynchronize    for that of the stream that the trace names; where it names none, of
 *                           the stream to which the thread launched last
 *   ...EventSynchronize     for the last work launched before the record of the event that the
 *                           trace names; where it names none, as StreamSynchronize
 *   copies                  for their own copy, if that had ended when the call returned
 *   allocation and release  for all streams as DeviceSynchronize, if the last of these works ended
 *                           while the call lasted
 *
 * A work that ended after the call returned refutes the wait, and then the work is left out. The
 * call's own time is that from the end of the last work that it waited for (or from its begin) to
 * its return. */
#include <stdlib.h>
#include <string.h>

#include "calibrate/replay/build_state.h"
#include "common/alloc.h"

/* Clocks of host and device differ, and times of some traces are whole microseconds. */
#define RETURN_SLACK_NS 2000

/* Calls in order of time. */
typedef struct wait_walk {
    replay_builder *b;
    const replay_events *events;
    const stream_works **own; /* [thread_count] the stream that the thread launched to last, or
                                 NULL */
} wait_walk;

/* Adds the edge unless the times refute it; *until_ns becomes the latest end waited for. */
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

/* Waits for one stream: that of `sync`, or else the thread's own. */
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

/* Waits for the event that `sync` names, or as for a stream. */
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

/* The last end of the works launched before the call, on all streams. */
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

static void wait_for_copy(replay_builder *b, const replay_call *call, uint32_t copy,
                          int64_t *until_ns)
{
    if (copy != DL_REPLAY_NONE) wait_for_work(b, call, copy, DL_REPLAY_INFERRED, until_ns);
}

static void add_waits(const wait_walk *walk, const replay_call *call, const dl_activity *sync)
{
    replay_builder *b = walk->b;
    int64_t until_ns = call->start_ns, last_ns;
    switch ((call_role)call->role) {
    case CALL_SYNC_DEVICE: wait_for_all(b, call, DL_REPLAY_RECORDED, &until_ns); break;
    case CALL_SYNC_STREAM: wait_for_some_stream(walk, call, sync, &until_ns); break;
    case CALL_SYNC_EVENT: wait_for_event(walk, call, sync, &until_ns); break;
    case CALL_COPY: wait_for_copy(b, call, b->first_work[call->node], &until_ns); break;
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

/* What the trace says of each synchronising call: [node_count] activity of its SYNC, or NONE. */
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
    uint32_t *syncs = find_syncs(b);
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
    free(syncs);
}
