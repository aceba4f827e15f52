#include "sim/sync/members.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "sim/platform/platform.h"

/* Stages of a worker that is not there, above all of the mode's. */
enum { AWAY = 1000, BACK = AWAY, FETCHED };

typedef struct dl_members {
    bool *takes_part; /* [workers] */
    int64_t *joined;  /* [workers] steps that it had done when it joined last */
    int present;
    int averaging; /* that have come to an average, or are in it */
} dl_members;

dl_members *dl_members_new(const dl_team *team)
{
    const int workers = team->config.workers;
    dl_members *m = dl_calloc(1, sizeof *m, "members");
    *m = (dl_members){.takes_part = dl_calloc((size_t)workers, sizeof *m->takes_part, "members"),
                      .joined = dl_calloc((size_t)workers, sizeof *m->joined, "members"),
                      .present = workers};
    for (int w = 0; w < workers; w++)
        m->takes_part[w] = true;
    return m;
}

void dl_members_free(dl_members *members)
{
    if (members == NULL) return;
    free(members->takes_part);
    free(members->joined);
    free(members);
}

int dl_members_present(const dl_team *team)
{
    return team->members != NULL ? team->members->present : team->config.workers;
}

bool dl_members_has(const dl_team *team, int worker)
{
    return team->members == NULL || team->members->takes_part[worker];
}

int dl_members_rank(const dl_team *team, int worker)
{
    int rank = 0;
    if (team->members == NULL) return worker;
    for (int w = 0; w < worker; w++)
        rank += team->members->takes_part[w];
    return rank;
}

void dl_members_count(dl_team *team, int change)
{
    if (team->members == NULL) return;
    team->members->averaging += change;
    if (team->members->averaging == 0) dl_team_wake(team);
}

static void set_part(dl_team *team, int worker, bool takes_part)
{
    dl_members *m = team->members;
    m->takes_part[worker] = takes_part;
    m->present += takes_part ? 1 : -1;
    if (team->config.platform->members_changed != NULL) {
        team->config.platform->members_changed(team, worker);
    }
    dl_team_release_barrier(team);
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Its steps since the last average are lost; of those counted as done when it joined, none were. */
static void leave(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    const int64_t measured = w->steps_done - w->warm_up_steps;
    const int64_t own = w->steps_done - team->members->joined[worker];
    w->dropped += least_of(w->local_updates, least_of(own, measured));
    w->local_updates = 0;
    w->stage = BACK;
    if (team->members->takes_part[worker]) set_part(team, worker, false);
    dl_absence_begin(team, worker);
}

static bool nobody_averages(const dl_team *team, int worker)
{
    return team->members->averaging == 0 || dl_absence_is_due(team, worker);
}

/* As far in its interval as the one that is least far, it goes on as at the start of a step. */
static void join(dl_team *team, int worker)
{
    int64_t least = INT64_MAX;
    for (int w = 0; w < team->config.workers; w++) {
        const int64_t done = team->workers[w].local_updates;
        if (team->members->takes_part[w] && done < least) least = done;
    }
    dl_worker *w = &team->workers[worker];
    w->local_updates = least < INT64_MAX ? least : 0;
    w->stage = 1;
    team->members->joined[worker] = w->steps_done;
    set_part(team, worker, true);
    dl_team_compute(team, worker, true);
}

bool dl_members_advance(dl_team *team, int worker, int stage, bool in_average)
{
    dl_worker *w = &team->workers[worker];
    if (team->members == NULL) return false;
    if (stage < AWAY && (in_average || !dl_absence_is_due(team, worker))) return false;
    if (team->stopping) {
        dl_team_pause(team, worker);
        return true;
    }
    if (dl_absence_is_due(team, worker)) {
        leave(team, worker);
        return true;
    }
    if (!nobody_averages(team, worker)) {
        w->stage = stage;
        dl_team_wait(team, worker, nobody_averages);
    } else if (stage == BACK && team->members->present > 0) {
        w->stage = FETCHED;
        dl_team_exchange(team, worker,
                         (dl_exchange){.kind = DL_FETCH, .with_state = team->config.average_state});
    } else {
        join(team, worker);
    }
    return true;
}
