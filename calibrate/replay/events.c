/* Streams that wait for one another's events.
 *
 * Where the trace holds SYNC and EVENT activities with the event's identity (Nsight Systems; CUPTI;
 * PyTorch with cuda_sync), both ends are recorded. Otherwise the calls alone are there, cudaEvent-
 * Record and cudaStreamWaitEvent without stream or event, and these rules infer an edge:
 *
 *   the waiting stream   is that of the next work that the same thread launches;
 *   the recorded stream  is, if the thread recorded an event since its wait before, that of its
 *                        last launch before the record, and the work is the last one launched there
 *                        before the record. If that is the waiting stream itself, or there is no
 *                        such record, every other stream counts, with its last work launched before
 *                        the wait;
 *   refuted              is a work that ended after the waiting one began: the event was an earlier
 *                        one, and no edge is made; what it explains is left to timed.c. */
#include <stdlib.h>
#include <string.h>

#include "calibrate/replay/build_state.h"
#include "common/alloc.h"

/* Clocks of traces with whole microseconds: an end may seem this much later than what waited. */
#define ROUNDING_NS 2000

#define NO_STREAM SIZE_MAX

typedef struct pending_wait {
    size_t source; /* stream, or NO_STREAM = any other */
    int64_t time_ns;
} pending_wait;

/* What a thread did last. */
typedef struct thread_state {
    size_t launched; /* stream of its last launch, or NO_STREAM */
    bool recorded;   /* an event since its last wait */
    pending_wait record;
    pending_wait *waits; /* [wait_count] since its last launch */
    size_t wait_count, wait_room;
} thread_state;

typedef struct event_walk {
    replay_builder *b;
    thread_state *threads; /* [thread_count] */
    uint8_t *known;        /* [activity_count] the wait's both ends are recorded */
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
    if (state->wait_count == state->wait_room) {
        state->wait_room = 2 * state->wait_room + 8;
        state->waits =
            dl_realloc(state->waits, state->wait_room, sizeof *state->waits, "replay events");
    }
    state->waits[state->wait_count++] =
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

/* The edge of a recorded wait of one stream for an event of another. */
static bool add_known(replay_builder *b, const dl_activity *event, const dl_activity *sync,
                      const dl_activity *call)
{
    uint32_t from = DL_REPLAY_NONE, to = DL_REPLAY_NONE;
    for (size_t s = 0; s < b->stream_count; s++) {
        const stream_works *works = &b->streams[s];
        if (works->stream == event->stream) {
            size_t place = replay_launched_before(works, event->start_ns);
            if (place > 0) from = works->nodes[place - 1];
        }
        if (works->stream == sync->stream && works->stream != event->stream) {
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
