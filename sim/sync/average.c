/* Parameters averaged after every `interval` local steps: push, average a slice each, pull. */
#include "sim/sync/mode.h"
#include "sim/team_exchange.h"

static void end_step(dl_team *team, int worker, int64_t local_updates)
{
    team->workers[worker].local_updates = local_updates;
    dl_team_end_step(team, worker);
}

static void advance(dl_team *team, int worker)
{
    const dl_team_config *config = &team->config;
    const dl_content content =
        config->average_state ? DL_CONTENT_PARAMETERS_AND_STATE : DL_CONTENT_PARAMETERS;
    dl_worker *w = &team->workers[worker];
    switch (w->stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    case 1:
        if (w->local_updates + 1 < (int64_t)config->option[DL_SYNC_INTERVAL]) {
            end_step(team, worker, w->local_updates + 1);
        } else {
            dl_team_push(team, worker, content);
        }
        break;
    case 2: dl_team_barrier(team, worker); break;
    case 3: dl_team_average(team, worker, content, config->server_threads); break;
    case 4: dl_team_barrier(team, worker); break;
    case 5:
        if (worker == 0) dl_team_update(team);
        dl_team_pull(team, worker, content);
        break;
    default: end_step(team, worker, 0); break;
    }
}

const dl_mode dl_mode_average = {
    .name = "average",
    .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_NONE,
    .options = DL_SYNC_ANY | 1u << DL_SYNC_INTERVAL | 1u << DL_SYNC_AVERAGE_STATE |
               1u << DL_SYNC_SERVER_THREADS | 1u << DL_SYNC_WHERE,
    .advance = advance,
};
