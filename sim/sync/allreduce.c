/* Gradients: each of n workers averages 1/n of all n vectors, then copies the whole result. */
#include "sim/sync/mode.h"
#include "sim/team_exchange.h"

static void advance(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_barrier(team, worker); break;
    case 2: dl_team_average(team, worker, DL_CONTENT_GRADIENTS, team->config.workers); break;
    case 3: dl_team_barrier(team, worker); break;
    case 4:
        if (worker == 0) dl_team_update(team);
        dl_team_pull(team, worker, DL_CONTENT_GRADIENTS);
        break;
    case 5: dl_team_local_update(team, worker); break;
    default: dl_team_end_step(team, worker); break;
    }
}

const dl_mode dl_mode_allreduce = {
    .name = "allreduce",
    .options = DL_SYNC_ANY,
    .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance,
};
