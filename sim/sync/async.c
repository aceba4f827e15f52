/* Asynchronous parameter server: whoever is done pushes, and under the server's lock has its
 * gradient applied and pulls. */
#include "sim/sync/mode.h"

static void advance(dl_team *team, int worker)
{
    const dl_workload *workload = team->config.workload;
    double bytes = workload->parameter_bytes;
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_move(team, worker, DL_STATE_PUSH, dl_workload_copy(workload, bytes)); break;
    case 2: dl_team_lock(team, worker); break;
    case 3:
        dl_team_move(team, worker, DL_STATE_AVERAGE, dl_workload_update(workload, bytes, 1));
        break;
    case 4:
        dl_team_apply(team, worker);
        dl_team_read(team, worker);
        dl_team_move(team, worker, DL_STATE_PULL, dl_workload_copy(workload, bytes));
        break;
    default:
        dl_team_unlock(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

const dl_mode dl_mode_async = {
    .name = "async",
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_LOCK,
    .staleness = DL_MODE_STALENESS_SOME,
    .advance = advance,
};
