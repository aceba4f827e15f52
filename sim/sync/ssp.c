/* Stale synchronous parallel (Ho et al. 2013): as async, but a worker begins a step at most `bound`
 * clocks ahead of the slowest one.
 *
 * When worker i reads before its step c, its clock is c, and each other worker j has contributed at
 * least c - bound gradients (else i would not go on). While i is at that step its clock stays c, so
 * j may begin no step later than c + bound and contributes at most c + bound + 1 gradients. So j
 * makes at most 2 bound + 1 updates meanwhile, and the gradient is at most (2 bound + 1) (n - 1)
 * stale. With a bound that is never reached the mode is async. With bound 0 all wait for all, but
 * each gradient is still an update of its own. */
#include "sim/sync/mode.h"
#include "sim/team_exchange.h"

enum { CONTRIBUTED = 4, WAITED, LOCKED_AGAIN, PULLED };

static bool is_within_bound(const dl_team *team, int worker)
{
    const int64_t lag = team->workers[worker].clock - team->least_clock;
    return (double)lag <= team->config.option[DL_SYNC_BOUND];
}

static void pull(dl_team *team, int worker)
{
    team->workers[worker].stage = PULLED;
    dl_team_read(team, worker);
    dl_team_pull_locked(team, worker);
}

static void advance(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_push(team, worker, DL_CONTENT_GRADIENTS); break;
    case 2: dl_team_lock(team, worker); break;
    case 3: dl_team_serve(team, worker, 1); break;
    case CONTRIBUTED:
        dl_team_contribute(team, worker);
        dl_team_update(team);
        dl_team_wake(team);
        if (is_within_bound(team, worker)) {
            pull(team, worker);
        } else {
            dl_team_unlock(team, worker);
            dl_team_wait(team, worker, is_within_bound);
        }
        break;
    case WAITED: dl_team_lock(team, worker); break;
    case LOCKED_AGAIN: pull(team, worker); break;
    default:
        dl_team_leave(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

const dl_mode dl_mode_ssp = {
    .name = "ssp",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_BOUND | 1u << DL_SYNC_WHERE,
    .required = 1u << DL_SYNC_BOUND,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_LOCK | DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_SOME,
    .advance = advance,
};
