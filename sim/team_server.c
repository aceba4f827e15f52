/* What the server has got, and whose parameters are of when. */
#include "sim/team.h"

void dl_team_advance_clock(dl_team *team, int worker, int64_t clock)
{
    dl_worker *w = &team->workers[worker];
    const bool was_least = w->clock == team->least_clock && clock > w->clock;
    w->clock = clock;
    if (!was_least || --team->least_clock_count > 0) return;
    team->least_clock = clock;
    for (int i = 0; i < team->config.workers; i++) {
        const int64_t other = team->workers[i].clock;
        if (other < team->least_clock) {
            team->least_clock = other;
            team->least_clock_count = 0;
        }
        team->least_clock_count += other == team->least_clock;
    }
}

void dl_team_contribute(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    if (dl_team_is_applied(team, worker)) w->contributions = 0;
    /* The next update will find this version. */
    w->staleness = (int)(team->version - w->read_version);
    w->contributed_version = team->version;
    w->contributions++;
    w->computes = false;
    team->gradients++;
    dl_team_advance_clock(team, worker, w->steps_done + 1);
    const dl_team_observer *observer = team->config.observer;
    if (observer != NULL && observer->contribute != NULL) {
        observer->contribute(observer->user, worker, w->steps_done, w->read_version);
    }
}

void dl_team_drop(dl_team *team, int worker)
{
    team->workers[worker].dropped++;
}

/* The contributions are the worker's last steps with a staleness. */
void dl_team_leave_over(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    if (dl_team_is_applied(team, worker)) return;
    w->left_over = w->contributions;
    int64_t left = w->contributions;
    for (int64_t s = w->steps_done - 1; left > 0; s--) {
        if (w->staleness_log[s] == DL_NO_STALENESS_YET) continue;
        w->staleness_log[s] = DL_NO_STALENESS_YET;
        left--;
    }
}

void dl_team_update(dl_team *team)
{
    team->version++;
    team->gradients = 0;
    const dl_team_observer *observer = team->config.observer;
    if (observer != NULL && observer->update != NULL) {
        observer->update(observer->user, team->version, team->engine.now_ns);
    }
}

void dl_team_read(dl_team *team, int worker)
{
    team->workers[worker].read_version = team->version;
    team->workers[worker].computes = true;
}

bool dl_team_is_outdated(const dl_team *team, int worker)
{
    return team->version > team->workers[worker].read_version;
}

bool dl_team_is_applied(const dl_team *team, int worker)
{
    return team->version > team->workers[worker].contributed_version;
}
