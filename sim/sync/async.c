/* Asynchronous parameter server: whoever is done pushes, has its gradient applied under the server's
 * lock, and pulls (dl_team_pull_locked says when the next one has its turn). */
#include "sim/sync/mode.h"
#include "sim/team_exchange.h"

static void advance(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_push(team, worker, DL_CONTENT_GRADIENTS); break;
    case 2: dl_team_lock(team, worker); break;
    case 3: dl_team_serve(team, worker, 1); break;
    case 4:
        dl_team_contribute(team, worker);
        dl_team_update(team);
        dl_team_read(team, worker);
        dl_team_pull_locked(team, worker);
        break;
    default:
        dl_team_leave(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

const dl_mode dl_mode_async = {
    .name = "async",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_WHERE,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_LOCK,
    .staleness = DL_MODE_STALENESS_SOME,
    .advance = advance,
};
