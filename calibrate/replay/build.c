#include "calibrate/replay/build.h"

#include <stdlib.h>

#include "calibrate/replay/build_internal.h"
#include "calibrate/replay/external.h"
#include "common/alloc.h"
#include "trace/activity/kernel_class.h"

static int64_t first_time(const dl_trace *trace)
{
    int64_t first_ns = INT64_MAX;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        bool counts = dl_activity_is_device_work(a) || a->kind == DL_ACTIVITY_CALL ||
                      a->kind == DL_ACTIVITY_RANGE;
        if (counts && a->start_ns < first_ns) first_ns = a->start_ns;
    }
    return first_ns;
}

static void free_builder(replay_builder *b)
{
    dl_launches_free(&b->launches);
    free(b->classes);
    free(b->roles);
    free(b->calls);
    free(b->untraced);
    free(b->launcher);
    free(b->streams);
    free(b->stream_nodes);
    free(b->stream_launch_ns);
    free(b->stream_of);
    free(b->first_work);
}

/* Checks that times plus a tolerance, and the numbers of nodes, fit their types. */
static dl_status check_range(const dl_trace *trace, dl_error *err)
{
    if (trace->activity_count > INT32_MAX / 8)
        return dl_error_set_at(err, DL_ERR_RANGE, trace->path, 0, "%zu activities are too many",
                               trace->activity_count);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->start_ns + a->duration_ns > INT64_MAX / 2)
            return dl_error_set_at(err, DL_ERR_RANGE, trace->path, 0,
                                   "activity %zu ends after the year 2116", i);
    }
    return DL_OK;
}

static dl_status build_rank(dl_replay_run *run, const dl_trace *trace, size_t number, dl_error *err)
{
    dl_status status = check_range(trace, err);
    if (status != DL_OK) return status;
    dl_replay_rank *rank = &run->ranks[number];
    rank->trace = trace;
    rank->node_of = dl_calloc(trace->activity_count, sizeof *rank->node_of, "replay nodes");
    for (size_t i = 0; i < trace->activity_count; i++)
        rank->node_of[i] = DL_REPLAY_NONE;
    replay_builder b = {.graph = &run->graph,
                        .rank = rank,
                        .rank_number = (uint16_t)number,
                        .trace = trace,
                        .begin_ns = first_time(trace)};
    DL_SCOPED(replay_events) events;
    b.classes = dl_kernel_classes(trace);
    dl_launches_init(&b.launches, trace->activities, trace->activity_count);
    replay_events_init(&events, trace);
    replay_build_streams(&b);
    replay_build_host(&b);
    replay_build_launches(&b);
    replay_build_threads(&b);
    replay_build_waits(&b, &events);
    replay_build_queues(&b);
    replay_build_events(&b, &events);
    replay_build_timed(&b);
    free_builder(&b);
    if (rank->work_count > 0) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0, "it holds no work of a device");
}

dl_status dl_replay_build(dl_replay_run *run, const dl_trace *const *traces, size_t count,
                          dl_error *err)
{
    run->ranks = dl_calloc(count, sizeof *run->ranks, "replay ranks");
    run->rank_count = count;
    for (size_t i = 0; i < count; i++) {
        dl_status status = build_rank(run, traces[i], i, err);
        if (status != DL_OK) return status;
    }
    run->waits_of_devices.removed = true;
    dl_external_find(run);
    return DL_OK;
}

void dl_replay_run_free(dl_replay_run *run)
{
    for (size_t i = 0; i < run->rank_count; i++)
        free(run->ranks[i].node_of);
    free(run->ranks);
    dl_replay_graph_free(&run->graph);
    *run = (dl_replay_run){0};
}
