#include "sim/sync/lag.h"

/* The update that a step computes is of the exchange that ended before it began. */
static void advance_worker(dl_team *team, int worker, bool updates)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, updates); break;
    case 1: dl_team_wait(team, worker, dl_team_helper_is_idle); break;
    default:
        dl_team_hand_over(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

void dl_lag_advance(dl_team *team, int agent, dl_exchange_fn exchange, bool updates)
{
    const bool helpers = team->config.helpers, is_helper = agent >= team->config.workers;
    if (helpers && !is_helper) {
        advance_worker(team, agent, updates);
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
