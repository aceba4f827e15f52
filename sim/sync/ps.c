/* Synchronous parameter server: push, the server's threads sum and update a slice each, pull. */
#include "sim/sync/lag.h"
#include "sim/sync/mode.h"
#include "sim/team_exchange.h"

static bool exchange(dl_team *team, int agent, int stage)
{
    switch (stage) {
    case 0: dl_team_push(team, agent, DL_CONTENT_GRADIENTS); return true;
    case 1: dl_team_barrier(team, agent); return true;
    case 2: dl_team_serve_all(team, agent, team->config.server_threads); return true;
    case 3: dl_team_barrier(team, agent); return true;
    case 4:
        if (dl_team_worker(team, agent) == 0) dl_team_update(team);
        dl_team_pull(team, agent, DL_CONTENT_PARAMETERS);
        return true;
    default: return false;
    }
}

static void advance(dl_team *team, int agent)
{
    dl_lag_advance(team, agent, exchange, false);
}

const dl_mode dl_mode_ps = {
    .name = "ps",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_LAG | 1u << DL_SYNC_SERVER_THREADS | 1u << DL_SYNC_WHERE,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance,
};
