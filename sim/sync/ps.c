/* Synchronous parameter server: push, the server's threads sum and update a slice each, pull. */
#include "sim/sync/mode.h"
#include "sim/team_exchange.h"

static void advance(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_push(team, worker, DL_CONTENT_GRADIENTS); break;
    case 2: dl_team_barrier(team, worker); break;
    case 3: dl_team_serve_all(team, worker, team->config.server_threads); break;
    case 4: dl_team_barrier(team, worker); break;
    case 5:
        if (worker == 0) dl_team_update(team);
        dl_team_pull(team, worker, DL_CONTENT_PARAMETERS);
        break;
    default: dl_team_end_step(team, worker); break;
    }
}

const dl_mode dl_mode_ps = {
    .name = "ps",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_SERVER_THREADS | 1u << DL_SYNC_WHERE,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance,
};
