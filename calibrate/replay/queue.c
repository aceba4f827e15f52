/* Launches that find the queue of a stream full.
 *
 * A stream takes a limited number of works ahead (1022 on V100 and driver 525); a launch beyond it
 * blocks until one has ended. The limit shows in the trace: launches that take much longer than
 * usual all return with the same number of works launched and not ended. Where at least
 * FEWEST_BLOCKED launches of a stream, and half of the slow ones, agree within AGREEMENT, that
 * number is the limit, and each launch waits for the end of the work so many places before its
 * own; of its time only what is left after that is its own. */
#include <stdlib.h>

#include "calibrate/replay/build_state.h"
#include "common/alloc.h"

/* Launches take 3 to 10 us; one of 60 us waited for something. */
#define SLOW_LAUNCH_NS 60000
/* and returns this long after the end that it waited for at most: 5 to 7 us on V100. */
#define LONGEST_RETURN_NS 15000
#define FEWEST_BLOCKED 10
#define SHALLOWEST_QUEUE 64
#define AGREEMENT 4

static int by_value(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static const dl_activity *launch_of(const replay_builder *b, uint32_t node)
{
    uint32_t call = b->launcher[node - b->first_node];
    return call == DL_REPLAY_NONE ? NULL : &b->trace->activities[call];
}

/* Works of the stream before place `place` + 1 that had not ended at `time_ns`. */
static size_t outstanding(const replay_builder *b, const stream_works *works, size_t place,
                          int64_t time_ns)
{
    size_t low = 0, high = place + 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (replay_work_end(b, works->nodes[middle]) <= time_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return place + 1 - low;
}

/* Whether the call can have returned because the work at end_place, the last that had ended then
 * (SIZE_MAX: none), did. */
static bool just_ended(const replay_builder *b, const stream_works *works, size_t end_place,
                       const dl_activity *call)
{
    if (end_place == SIZE_MAX) return false;
    int64_t end_ns = replay_work_end(b, works->nodes[end_place]);
    return call->start_ns + call->duration_ns - end_ns < LONGEST_RETURN_NS;
}

/* The limit of the stream's queue, or 0. */
static size_t find_depth(const replay_builder *b, const stream_works *works)
{
    size_t *depths = dl_calloc(works->count, sizeof *depths, "replay queue");
    size_t slow = 0, best = 0, depth = 0;
    for (size_t i = 0; i < works->count; i++) {
        const dl_activity *call = launch_of(b, works->nodes[i]);
        if (call == NULL || call->duration_ns < SLOW_LAUNCH_NS) continue;
        size_t ahead = outstanding(b, works, i, call->start_ns + call->duration_ns);
        if (ahead >= SHALLOWEST_QUEUE && just_ended(b, works, i - ahead, call))
            depths[slow++] = ahead;
    }
    qsort(depths, slow, sizeof *depths, by_value);
    for (size_t first = 0, end = 0; first < slow; first++) {
        while (end < slow && depths[end] <= depths[first] + AGREEMENT)
            end++;
        if (end - first <= best) continue;
        best = end - first;
        depth = depths[first + best / 2];
    }
    free(depths);
    return best >= FEWEST_BLOCKED && 2 * best >= slow ? depth : 0;
}

/* Has the launch wait for the last of works[.. place] that had ended when it returned. */
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
        /* The call's own time lies in its last node; the first of a copy's two takes none. */
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
