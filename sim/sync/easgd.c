/* Asynchronous elastic averaging (Zhang, Choromanska & LeCun 2015): after every `interval` local
 * steps a worker and the server's centre move towards each other. Under the lock it pushes its
 * parameters, pulls the centre, and the server blends the two into the new centre; outside it
 * blends its own. Each blend costs an [average] of two vectors. */
#include "sim/sync/mode.h"
#include "sim/team_exchange.h"

static void end_step(dl_team *team, int worker, int64_t local_updates)
{
    team->workers[worker].local_updates = local_updates;
    dl_team_end_step(team, worker);
}

static void advance(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    switch (w->stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    case 1:
        if (w->local_updates + 1 < (int64_t)team->config.option[DL_SYNC_INTERVAL]) {
            end_step(team, worker, w->local_updates + 1);
        } else {
            dl_team_push(team, worker, DL_CONTENT_PARAMETERS);
        }
        break;
    case 2: dl_team_lock(team, worker); break;
    case 3: dl_team_pull(team, worker, DL_CONTENT_PARAMETERS); break;
    case 4: dl_team_blend(team, worker); break;
    case 5:
        dl_team_update(team);
        dl_team_unlock(team, worker);
        dl_team_blend_own(team, worker);
        break;
    default: end_step(team, worker, 0); break;
    }
}

const dl_mode dl_mode_easgd = {
    .name = "easgd",
    .options =
        DL_SYNC_ANY | 1u << DL_SYNC_INTERVAL | 1u << DL_SYNC_MOVING_RATE | 1u << DL_SYNC_WHERE,
    .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_LOCK,
    .staleness = DL_MODE_STALENESS_NONE,
    .advance = advance,
};
