#include "sim/team_exchange.h"

#include "sim/platform/platform.h"

void dl_team_push(dl_team *team, int worker, dl_content content)
{
    dl_team_begin(team, worker, DL_STATE_PUSH);
    team->config.platform->push(team, worker, content);
}

void dl_team_pull(dl_team *team, int worker, dl_content content)
{
    dl_team_begin(team, worker, DL_STATE_PULL);
    team->config.platform->pull(team, worker, content);
}

void dl_team_pull_locked(dl_team *team, int worker)
{
    if (team->config.platform->serves_while_pulled) dl_team_unlock(team, worker);
    dl_team_pull(team, worker, DL_CONTENT_PARAMETERS);
}

void dl_team_leave(dl_team *team, int worker)
{
    if (!team->config.platform->serves_while_pulled) dl_team_unlock(team, worker);
}

void dl_team_average(dl_team *team, int worker, dl_content content, int parts)
{
    dl_team_begin(team, worker, DL_STATE_AVERAGE);
    team->config.platform->average(team, worker, content, parts);
}

void dl_team_serve_all(dl_team *team, int worker, int parts)
{
    dl_team_begin(team, worker, DL_STATE_AVERAGE);
    team->config.platform->serve_all(team, worker, parts);
}

void dl_team_serve(dl_team *team, int worker, int64_t gradients)
{
    dl_team_begin(team, worker, DL_STATE_AVERAGE);
    team->config.platform->serve(team, worker, gradients);
}

void dl_team_blend(dl_team *team, int worker)
{
    dl_team_begin(team, worker, DL_STATE_AVERAGE);
    team->config.platform->blend(team, worker);
}

void dl_team_blend_own(dl_team *team, int worker)
{
    dl_team_begin(team, worker, DL_STATE_AVERAGE);
    team->config.platform->blend_own(team, worker);
}

void dl_team_filter(dl_team *team, int worker, int parts)
{
    dl_team_begin(team, worker, DL_STATE_AVERAGE);
    team->config.platform->filter(team, worker, parts);
}
