/* Parameters averaged after every `interval` local steps: push, average a slice each, pull. */
#include "sim/sync/mode.h"

static void end_step(dl_team *team, int worker, int64_t local_updates)
{
    team->workers[worker].local_updates = local_updates;
    dl_team_end_step(team, worker);
}

/* The copy of the parameters and, where it is averaged, of the optimizer's state. */
static void copy(dl_team *team, int worker, dl_worker_state direction)
{
    const dl_workload *workload = team->config.workload;
    dl_work work = dl_workload_copy(workload, workload->parameter_bytes);
    if (team->config.average_state) {
        work = dl_work_add(work, dl_workload_copy(workload, workload->state_bytes));
    }
    dl_team_move(team, worker, direction, work);
}

/* One slice of both. */
static void average(dl_team *team, int worker)
{
    const dl_team_config *config = &team->config;
    const dl_workload *workload = config->workload;
    double parts = config->server_threads;
    dl_work work =
        dl_workload_average(workload, workload->parameter_bytes / parts, config->workers);
    if (config->average_state) {
        work = dl_work_add(
            work, dl_workload_average(workload, workload->state_bytes / parts, config->workers));
    }
    dl_team_move(team, worker, DL_STATE_AVERAGE, work);
}

static void advance(dl_team *team, int worker)
{
    const dl_team_config *config = &team->config;
    dl_worker *w = &team->workers[worker];
    if (w->stage == 3 && worker >= config->server_threads) w->stage++;
    switch (w->stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    case 1:
        if (w->local_updates + 1 < config->interval) {
            end_step(team, worker, w->local_updates + 1);
        } else {
            copy(team, worker, DL_STATE_PUSH);
        }
        break;
    case 2: dl_team_barrier(team, worker); break;
    case 3: average(team, worker); break;
    case 4: dl_team_barrier(team, worker); break;
    case 5: copy(team, worker, DL_STATE_PULL); break;
    default: end_step(team, worker, 0); break;
    }
}

const dl_mode dl_mode_average = {
    .name = "average",
    .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_NONE,
    .has_interval = true,
    .advance = advance,
};
