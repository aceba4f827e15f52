#include "calibrate/replay/timeline.h"

#include <stdio.h>

#include "common/chrome_trace.h"
#include "trace/activity/activity.h"

static void name_tracks(dl_chrome_trace *to, const dl_replay_run *run)
{
    char name[64];
    for (size_t r = 0; r < run->rank_count; r++) {
        snprintf(name, sizeof name, "replayed rank %zu", r);
        dl_chrome_trace_process(to, (int)r, name);
    }
    for (size_t i = 0; i < run->graph.lane_count; i++) {
        const dl_replay_lane *lane = &run->graph.lanes[i];
        if (lane->is_stream) {
            snprintf(name, sizeof name, "device %u stream %u", lane->device, lane->stream);
        } else {
            snprintf(name, sizeof name, "thread %u", lane->thread);
        }
        dl_chrome_trace_thread(to, lane->rank, (int)i, name);
    }
}

static const char *node_name(const dl_replay_run *run, const dl_replay_node *node)
{
    if (node->activity == DL_REPLAY_NONE) return "host";
    const dl_trace *trace = run->ranks[node->rank].trace;
    const dl_activity *activity = &trace->activities[node->activity];
    if (activity->kind == DL_ACTIVITY_MEMCPY)
        return dl_copy_direction_name((dl_copy_direction)activity->copy);
    const char *name = trace->strings[activity->name];
    return *name != '\0' ? name : dl_replay_kind_name((dl_replay_kind)node->kind);
}

dl_status dl_replay_timeline_write(const char *path, const dl_replay_run *run,
                                   const dl_replay_time *times, dl_error *err)
{
    dl_chrome_trace to;
    dl_status status = dl_chrome_trace_open(&to, path, err);
    if (status != DL_OK) return status;
    name_tracks(&to, run);
    for (size_t i = 0; i < run->graph.node_count; i++) {
        const dl_replay_node *node = &run->graph.nodes[i];
        if (times[i].end_ns <= times[i].start_ns) continue;
        const dl_chrome_arg args[] = {
            {.key = "recorded start us",
             .number = (double)(node->recorded_ns - run->graph.origin_ns) / 1e3},
        };
        dl_chrome_trace_slice(&to, node->rank, (int)node->lane,
                              dl_replay_kind_name((dl_replay_kind)node->kind), node_name(run, node),
                              times[i].start_ns, times[i].end_ns - times[i].start_ns, args, 1);
    }
    return dl_chrome_trace_close(&to, err);
}
