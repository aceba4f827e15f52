#include "sim/sync/lag.h"

static void advance_worker(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_wait(team, worker, dl_team_helper_is_idle); break;
    default:
        dl_team_hand_over(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

void dl_lag_advance(dl_team *team, int agent, dl_exchange_fn exchange)
{
    const bool helpers = team->config.helpers, is_helper = agent >= team->config.workers;
    if (helpers && !is_helper) {
        advance_worker(team, agent);
        return;
    }
    const int stage = team->workers[agent].stage++;
    if (!is_helper && stage == 0) {
        dl_team_compute(team, agent, false);
    } else if (!exchange(team, agent, is_helper ? stage : stage - 1)) {
        if (is_helper) {
            dl_team_exchanged(team, agent);
        } else {
            dl_team_end_step(team, agent);
        }
    }
}
