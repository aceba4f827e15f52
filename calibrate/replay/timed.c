/* Edges between streams that only the recorded times tell.
 *
 * A work may begin long after its launch and after the work before it although no event is known
 * that it waits for: the profiler did not record the event (ROCm's), or a work of another stream
 * fills the device and has to make room. In both cases it begins when a work of another stream
 * ends, or a little before: the last blocks of a large kernel leave room while they run. So of a
 * work that begins more than DL_REPLAY_SPREAD_NS after everything that is known to hold it back,
 *
 *   a work of another stream that ended at most LONGEST_HANDOVER_NS before it began is taken to
 *   have held it back: it begins `lag` after that end, the typical spacing of works;
 *   else one that still ran, but ended within LONGEST_TAIL_NS or a tenth of its duration: it begins
 *   after the same share of that one as recorded.
 *
 * The nearest end counts. What ends at no such moment stays unexplained. */
#include <stdlib.h>

#include "calibrate/replay/build_state.h"
#include "calibrate/replay/explain.h"
#include "common/alloc.h"

/* An event takes up to 20 us from a stream to another (MI300X). */
#define LONGEST_HANDOVER_NS 25000
#define LONGEST_TAIL_NS 25000

/* Place in `works` of the first that began at `time_ns` or after. */
static size_t begun_before(const replay_builder *b, const stream_works *works, int64_t time_ns)
{
    size_t low = 0, high = works->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->graph->nodes[works->nodes[middle]].recorded_ns < time_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* How far the end of `work` lies from `start_ns`, or INT64_MAX if it cannot have held it back. */
static int64_t distance(const replay_builder *b, uint32_t work, int64_t start_ns)
{
    int64_t late_ns = start_ns - replay_work_end(b, work);
    int64_t tail_ns = b->graph->nodes[work].duration_ns / 10;
    if (tail_ns < LONGEST_TAIL_NS) tail_ns = LONGEST_TAIL_NS;
    if (late_ns > LONGEST_HANDOVER_NS || late_ns < -tail_ns) return INT64_MAX;
    return late_ns < 0 ? -late_ns : late_ns;
}

/* The work of another stream of the device whose end lies nearest to the begin, or NONE. */
static uint32_t find_holder(const replay_builder *b, const stream_works *of, int64_t start_ns)
{
    uint32_t best = DL_REPLAY_NONE;
    int64_t best_ns = INT64_MAX;
    for (size_t s = 0; s < b->stream_count; s++) {
        const stream_works *works = &b->streams[s];
        if (works == of || works->device != of->device) continue;
        size_t place = begun_before(b, works, start_ns);
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
    int64_t *earliest_ns = dl_calloc(b->graph->node_count, sizeof *earliest_ns, "replay gaps");
    dl_replay_explain(b->graph, earliest_ns);
    for (size_t s = 0; s < b->stream_count; s++) {
        for (size_t i = 0; i < b->streams[s].count; i++) {
            uint32_t work = b->streams[s].nodes[i];
            int64_t start_ns = b->graph->nodes[work].recorded_ns;
            if (start_ns - earliest_ns[work] <= DL_REPLAY_SPREAD_NS) continue;
            uint32_t holder = find_holder(b, &b->streams[s], start_ns);
            if (holder != DL_REPLAY_NONE) hold_back(b, holder, work);
        }
    }
    free(earliest_ns);
}
