/* Threads that wait for one another.
 *
 * Nothing is recorded of such waits (futures, condition variables), but of threads that take turns
 * (a training loop and its backward pass) one is quiet just while the other is busy. So a quiet
 * time [a, b) of thread A is a wait for thread B if B was quiet at a, became busy after it, and has
 * become quiet again, at d, before b, in the later half of A's quiet: B's burst lies within it.
 * (Where the trace begins with A's quiet, B may be busy at once.) A then goes on when B's burst
 * ends, and b - d, its waking up, stays A's own time. Of several B the last one to end counts. Any
 * other quiet is kept as time of the thread: it computes, or waits for what is not in the trace
 * (input from other processes). */
#include <stdlib.h>

#include "calibrate/replay/build_state.h"
#include "common/alloc.h"

/* Last of quiets[count] of a lane that begins at `time_ns` or before, plus 1; 0 = none. */
static size_t find_quiet(const replay_quiet *quiets, size_t count, int64_t time_ns)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (quiets[middle].from_ns <= time_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The quiet of the other thread with which its burst within `quiet` ends, or NULL. */
static const replay_quiet *burst_end(const replay_quiet *others, size_t count,
                                     const replay_quiet *quiet, int64_t begin_ns)
{
    size_t at_begin = find_quiet(others, count, quiet->from_ns);
    size_t at_end = find_quiet(others, count, quiet->to_ns);
    if (at_end <= at_begin) return NULL;
    if (quiet->from_ns > begin_ns &&
        (at_begin == 0 || others[at_begin - 1].to_ns <= quiet->from_ns))
        return NULL;
    const replay_quiet *end = &others[at_end - 1];
    if (end->to_ns < quiet->to_ns) return NULL;
    return quiet->to_ns - end->from_ns <= end->from_ns - quiet->from_ns ? end : NULL;
}

/* The quiets of one thread. */
typedef struct thread_quiets {
    const replay_quiet *quiets;
    size_t count;
} thread_quiets;

static void resolve(replay_builder *b, const thread_quiets *threads, size_t count,
                    const replay_quiet *quiet)
{
    const replay_quiet *best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (threads[i].quiets->lane == quiet->lane) continue;
        const replay_quiet *other =
            burst_end(threads[i].quiets, threads[i].count, quiet, b->begin_ns);
        if (other != NULL && (best == NULL || other->from_ns > best->from_ns)) best = other;
    }
    uint32_t after = b->graph->next[quiet->before];
    if (best == NULL || after == DL_REPLAY_NONE) return;
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
    thread_quiets *threads = dl_calloc(b->graph->lane_count, sizeof *threads, "replay threads");
    size_t count = 0;
    for (size_t first = 0, end; first < b->quiet_count; first = end) {
        for (end = first; end < b->quiet_count && b->quiets[end].lane == b->quiets[first].lane;)
            end++;
        threads[count++] = (thread_quiets){&b->quiets[first], end - first};
    }
    for (size_t i = 0; i < b->quiet_count; i++)
        resolve(b, threads, count, &b->quiets[i]);
    free(threads);
}
