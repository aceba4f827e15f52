/* Gradients: each of n workers averages 1/n of all n vectors, then copies the whole result. */
#include "sim/sync/lag.h"
#include "sim/sync/mode.h"
#include "sim/team_exchange.h"

static bool exchange(dl_team *team, int agent, int stage)
{
    switch (stage) {
    case 0: dl_team_barrier(team, agent); return true;
    case 1: dl_team_average(team, agent, DL_CONTENT_GRADIENTS, team->config.workers); return true;
    case 2: dl_team_barrier(team, agent); return true;
    case 3:
        if (dl_team_worker(team, agent) == 0) dl_team_update(team);
        dl_team_pull(team, agent, DL_CONTENT_GRADIENTS);
        return true;
    case 4:
        if (agent >= team->config.workers) return false;
        dl_team_local_update(team, agent);
        return true;
    default: return false;
    }
}

static void advance(dl_team *team, int agent)
{
    dl_lag_advance(team, agent, exchange, true);
}

const dl_mode dl_mode_allreduce = {
    .name = "allreduce",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_LAG,
    .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance,
};
