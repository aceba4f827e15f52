/* Parameters averaged after every `interval` local steps: push, average a slice each, pull. */
#include "sim/sync/sync.h"

static void end_step(dl_team *team, int worker, int64_t local_updates)
{
    team->workers[worker].local_updates = local_updates;
    dl_team_end_step(team, worker);
}

static void advance(dl_team *team, int worker)
{
    const dl_team_config *config = &team->config;
    double bytes = config->workload->parameter_bytes +
                   (config->average_state ? config->workload->state_bytes : 0);
    int threads = config->server_threads;
    dl_worker *w = &team->workers[worker];
    if (w->stage == 3 && worker >= threads) w->stage++;
    switch (w->stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    case 1:
        if (w->local_updates + 1 < config->interval) {
            end_step(team, worker, w->local_updates + 1);
        } else {
            dl_team_copy(team, worker, DL_ACTIVITY_PUSH, bytes);
        }
        break;
    case 2: dl_team_barrier(team, worker); break;
    case 3: dl_team_average(team, worker, bytes / threads); break;
    case 4: dl_team_barrier(team, worker); break;
    case 5: dl_team_copy(team, worker, DL_ACTIVITY_PULL, bytes); break;
    default: end_step(team, worker, 0); break;
    }
}

const dl_sync_mode dl_sync_average = {
    .name = "average",
    .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,
    .wait = DL_SYNC_WAIT_BARRIER,
    .staleness = DL_SYNC_STALENESS_NONE,
    .has_interval = true,
    .advance = advance,
};
