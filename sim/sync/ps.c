/* Synchronous parameter server: push, the server's threads sum and update a slice each, pull. */
#include "sim/sync/mode.h"

static void advance(dl_team *team, int worker)
{
    const dl_workload *workload = team->config.workload;
    double bytes = workload->parameter_bytes;
    int threads = team->config.server_threads;
    dl_worker *w = &team->workers[worker];
    if (w->stage == 3 && worker >= threads) w->stage++;
    switch (w->stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_move(team, worker, DL_STATE_PUSH, dl_workload_copy(workload, bytes)); break;
    case 2: dl_team_barrier(team, worker); break;
    case 3:
        dl_team_move(team, worker, DL_STATE_AVERAGE,
                     dl_workload_update(workload, bytes / threads, team->config.workers));
        break;
    case 4: dl_team_barrier(team, worker); break;
    case 5: dl_team_move(team, worker, DL_STATE_PULL, dl_workload_copy(workload, bytes)); break;
    default: dl_team_end_step(team, worker); break;
    }
}

const dl_mode dl_mode_ps = {
    .name = "ps",
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance,
};
