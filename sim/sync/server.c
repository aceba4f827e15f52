#include "sim/sync/server.h"

enum { ASYNC_LOCKED = 3, ASYNC_SERVED, ASYNC_WAITED, ASYNC_LOCKED_AGAIN, ASYNC_PULLED };

/* Whether an update now leaves no worker at a gradient that would be staler than the bound. */
static bool may_update(const dl_team *team, double bound)
{
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *other = &team->workers[w];
        if (other->computes && (double)(team->version + 1 - other->read_version) > bound) {
            return false;
        }
    }
    return true;
}

static void pull_locked(dl_team *team, int worker)
{
    team->workers[worker].stage = ASYNC_PULLED;
    dl_team_read(team, worker);
    dl_team_pull_locked(team, worker);
}

static void contribute(dl_team *team, int worker, const dl_server_rule *rule)
{
    dl_team_contribute(team, worker);
    const bool due = team->gradients >= rule->gradients;
    if (due && may_update(team, rule->bound)) {
        dl_team_serve(team, worker, team->gradients);
    } else if (due || rule->waits) {
        team->workers[worker].stage = ASYNC_WAITED;
        dl_team_unlock(team, worker);
        dl_team_wait(team, worker, dl_team_is_applied);
    } else {
        pull_locked(team, worker);
    }
}

void dl_server_async(dl_team *team, int worker, const dl_server_rule *rule)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_push(team, worker, DL_CONTENT_GRADIENTS); break;
    case 2: dl_team_lock(team, worker); break;
    case ASYNC_LOCKED: contribute(team, worker, rule); break;
    case ASYNC_SERVED:
        dl_team_update(team);
        dl_team_wake(team);
        pull_locked(team, worker);
        break;
    case ASYNC_WAITED: dl_team_lock(team, worker); break;
    case ASYNC_LOCKED_AGAIN: pull_locked(team, worker); break;
    default:
        dl_team_leave(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

enum { SYNC_COMPUTED = 1, SYNC_PUSHED, SYNC_SERVED, SYNC_WAITED, SYNC_PULLED };

static void pull(dl_team *team, int worker)
{
    team->workers[worker].stage = SYNC_PULLED;
    dl_team_read(team, worker);
    dl_team_pull(team, worker, DL_CONTENT_PARAMETERS);
}

/* The gradient came too late, or was cut short. */
static void drop(dl_team *team, int worker)
{
    dl_team_drop(team, worker);
    team->workers[worker].stage = SYNC_WAITED;
    dl_team_wait(team, worker, dl_team_is_outdated);
}

static void bring(dl_team *team, int worker, const dl_server_rule *rule)
{
    if (dl_team_is_outdated(team, worker) || team->gradients >= rule->gradients) {
        drop(team, worker);
        return;
    }
    dl_team_contribute(team, worker);
    if (team->gradients == rule->gradients) {
        dl_team_serve(team, worker, rule->gradients);
    } else if (rule->waits) {
        team->workers[worker].stage = SYNC_WAITED;
        dl_team_wait(team, worker, dl_team_is_outdated);
    } else {
        dl_team_end_step(team, worker);
    }
}

static void cut_the_others(dl_team *team, int worker)
{
    for (int w = 0; w < team->config.workers; w++) {
        if (w != worker) dl_team_cut(team, w);
    }
}

void dl_server_sync(dl_team *team, int worker, const dl_server_rule *rule)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case SYNC_COMPUTED:
        if (dl_team_is_outdated(team, worker)) {
            drop(team, worker);
        } else {
            dl_team_push(team, worker, DL_CONTENT_GRADIENTS);
        }
        break;
    case SYNC_PUSHED: bring(team, worker, rule); break;
    case SYNC_SERVED:
        dl_team_update(team);
        cut_the_others(team, worker);
        dl_team_wake(team);
        pull(team, worker);
        break;
    case SYNC_WAITED: pull(team, worker); break;
    default: dl_team_end_step(team, worker); break;
    }
}
