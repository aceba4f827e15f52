#include "calibrate/replay/joint.h"

#include <math.h>
#include <stdlib.h>

#include "calibrate/replay/retime.h"
#include "common/alloc.h"

/* Makes all meetings groups that take modelled times, where there is a model. */
static void add_groups(dl_joint *joint, dl_replay_run *run, const dl_meetings *meetings)
{
    dl_transfer transfer = {0};
    dl_transfer_fit(&transfer, meetings, run);
    for (size_t i = 0; i < meetings->count; i++) {
        const dl_meeting *m = &meetings->meetings[i];
        dl_joint_meeting *j = &joint->meetings[i];
        *j = (dl_joint_meeting){.meeting = m,
                                .transfer_ns = dl_transfer_ns_without(&transfer, m, run),
                                .recorded_ns = m->end_ns - m->last_ns};
        if (j->recorded_ns < 0) j->recorded_ns = 0;
        const int64_t ns = isnan(j->transfer_ns) ? j->recorded_ns : llround(j->transfer_ns);
        dl_replay_graph_add_group(&run->graph, m->nodes, run->rank_count, ns);
    }
    dl_transfer_free(&transfer);
}

static void compare(dl_joint *joint, const dl_replay_run *run, const dl_replay_time *times)
{
    for (size_t i = 0; i < joint->count; i++) {
        dl_joint_meeting *j = &joint->meetings[i];
        for (size_t r = 0; r < run->rank_count; r++) {
            const uint32_t node = j->meeting->nodes[r];
            const dl_activity *a =
                &run->ranks[r].trace->activities[run->graph.nodes[node].activity];
            const int64_t recorded_ns = a->start_ns + a->duration_ns - run->graph.origin_ns;
            const int64_t error_ns = times[node].end_ns - recorded_ns;
            if (llabs(error_ns) > llabs(j->worst_end_ns)) j->worst_end_ns = error_ns;
        }
        if (llabs(j->worst_end_ns) > joint->worst_end_ns) {
            joint->worst_end_ns = llabs(j->worst_end_ns);
        }
    }
}

dl_status dl_joint_replay(dl_joint *joint, dl_replay_run *run, const dl_meetings *meetings,
                          dl_error *err)
{
    if (meetings->count == 0) {
        return dl_error_set_at(err, DL_ERR_DATA, run->ranks[0].trace->path, 0,
                               "no collective that all %zu ranks carry out equally often",
                               run->rank_count);
    }
    joint->meetings = dl_calloc(meetings->count, sizeof *joint->meetings, "collectives");
    joint->count = meetings->count;
    add_groups(joint, run, meetings);
    dl_replay_time *times = dl_calloc(run->graph.node_count, sizeof *times, "replay");
    const dl_status status = dl_replay_retime(&run->graph, times, err);
    if (status == DL_OK) compare(joint, run, times);
    free(times);
    return status;
}

void dl_joint_free(dl_joint *joint)
{
    free(joint->meetings);
    *joint = (dl_joint){0};
}
