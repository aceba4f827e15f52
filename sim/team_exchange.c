#include "sim/team_exchange.h"

static dl_work copy_work(const dl_workload *workload, dl_content content)
{
    dl_work work = dl_workload_copy(workload, workload->parameter_bytes);
    if (content != DL_CONTENT_PARAMETERS_AND_STATE) return work;
    return dl_work_add(work, dl_workload_copy(workload, workload->state_bytes));
}

void dl_team_push(dl_team *team, int worker, dl_content content)
{
    dl_team_move(team, worker, DL_STATE_PUSH, copy_work(team->config.workload, content));
}

void dl_team_pull(dl_team *team, int worker, dl_content content)
{
    dl_team_move(team, worker, DL_STATE_PULL, copy_work(team->config.workload, content));
}

void dl_team_average(dl_team *team, int worker, dl_content content, int parts)
{
    if (worker >= parts) {
        team->config.advance(team, worker);
        return;
    }
    const dl_workload *workload = team->config.workload;
    const int vectors = team->config.workers;
    dl_work work = dl_workload_average(workload, workload->parameter_bytes / parts, vectors);
    if (content == DL_CONTENT_PARAMETERS_AND_STATE) {
        work = dl_work_add(work,
                           dl_workload_average(workload, workload->state_bytes / parts, vectors));
    }
    dl_team_move(team, worker, DL_STATE_AVERAGE, work);
}

void dl_team_serve_all(dl_team *team, int worker, int parts)
{
    if (worker >= parts) {
        team->config.advance(team, worker);
        return;
    }
    const dl_workload *workload = team->config.workload;
    dl_team_move(
        team, worker, DL_STATE_AVERAGE,
        dl_workload_update(workload, workload->parameter_bytes / parts, team->config.workers));
}

void dl_team_serve_one(dl_team *team, int worker)
{
    const dl_workload *workload = team->config.workload;
    dl_team_move(team, worker, DL_STATE_AVERAGE,
                 dl_workload_update(workload, workload->parameter_bytes, 1));
}
