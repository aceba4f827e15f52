#include "sim/sync/members.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/platform/platform.h"
#include "sim/sync/syncer.h"

#define NOT_YET (-1)

/* Stages of a worker that is not there, above all of the mode's. */
enum { AWAY = 1000, BACK = AWAY, FETCHED };

typedef struct member {
    bool takes_part, leaving;
    size_t absence; /* the next one, or the one at hand; all: none */
    int change;     /* event of its start or end; NOT_YET */
} member;

typedef struct dl_members {
    member *of; /* [workers] */
    int present;
    int averaging; /* that have come to an average, or are in it */
} dl_members;

dl_members *dl_members_new(const dl_team *team)
{
    const int workers = team->config.workers;
    dl_members *m = dl_calloc(1, sizeof *m, "members");
    *m = (dl_members){.of = dl_calloc((size_t)workers, sizeof *m->of, "members"),
                      .present = workers};
    for (int w = 0; w < workers; w++)
        m->of[w] = (member){.takes_part = true, .change = NOT_YET};
    return m;
}

void dl_members_free(dl_members *members)
{
    if (members == NULL) return;
    free(members->of);
    free(members);
}

int dl_members_present(const dl_team *team)
{
    return team->members != NULL ? team->members->present : team->config.workers;
}

bool dl_members_has(const dl_team *team, int worker)
{
    return team->members == NULL || team->members->of[worker].takes_part;
}

int dl_members_rank(const dl_team *team, int worker)
{
    int rank = 0;
    if (team->members == NULL) return worker;
    for (int w = 0; w < worker; w++)
        rank += team->members->of[w].takes_part;
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
    m->of[worker].takes_part = takes_part;
    m->present += takes_part ? 1 : -1;
    if (team->config.platform->members_changed != NULL) {
        team->config.platform->members_changed(team, worker);
    }
    dl_team_release_barrier(team);
}

static void plan_absence(dl_team *team, int worker);

static void on_return(void *user, int worker)
{
    dl_team *team = user;
    member *m = &team->members->of[worker];
    m->absence++;
    m->change = NOT_YET;
    plan_absence(team, worker);
    team->workers[worker].step_start_ns = team->engine.now_ns;
    dl_team_resume(team, worker);
}

static void leave(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    member *m = &team->members->of[worker];
    const dl_absence *absence = &team->config.absences[m->absence];
    const int64_t measured = w->steps_done - w->warm_up_steps;
    m->leaving = false;
    w->dropped += w->local_updates < measured ? w->local_updates : measured;
    w->local_updates = 0;
    w->stage = BACK;
    if (m->takes_part) set_part(team, worker, false);
    if (isinf(absence->to_s)) {
        dl_team_retire(team, worker);
        return;
    }
    dl_team_pause(team, worker);
    const int64_t back_ns = dl_ns_ceil(dl_s_to_ns(absence->to_s)), now_ns = team->engine.now_ns;
    m->change = dl_engine_after(&team->engine, back_ns > now_ns ? back_ns - now_ns : 0, on_return,
                                team, worker);
}

static void on_leave(void *user, int worker)
{
    dl_team *team = user;
    team->members->of[worker].change = NOT_YET;
    if (team->workers[worker].steps_done == team->config.steps) return;
    team->members->of[worker].leaving = true;
    dl_team_cut(team, worker);
    dl_team_wake(team);
}

/* The worker's next absence, if there is one. */
static void plan_absence(dl_team *team, int worker)
{
    const dl_team_config *config = &team->config;
    member *m = &team->members->of[worker];
    while (m->absence < config->absence_count && config->absences[m->absence].worker != worker)
        m->absence++;
    if (m->absence == config->absence_count) return;
    const int64_t from_ns = dl_ns_ceil(dl_s_to_ns(config->absences[m->absence].from_s));
    const int64_t now_ns = team->engine.now_ns;
    m->change = dl_engine_after(&team->engine, from_ns > now_ns ? from_ns - now_ns : 0, on_leave,
                                team, worker);
}

void dl_members_start(dl_team *team)
{
    for (int w = 0; w < team->config.workers; w++)
        plan_absence(team, w);
}

void dl_members_close(dl_team *team)
{
    for (int w = 0; w < team->config.workers; w++) {
        int *change = &team->members->of[w].change;
        if (*change != NOT_YET) dl_engine_cancel(&team->engine, *change);
        *change = NOT_YET;
    }
}

static bool nobody_averages(const dl_team *team, int worker)
{
    return team->members->averaging == 0 || team->members->of[worker].leaving;
}

/* As far in its interval as the one that is least far, it goes on as at the start of a step. */
static void join(dl_team *team, int worker)
{
    int64_t least = INT64_MAX;
    for (int w = 0; w < team->config.workers; w++) {
        const int64_t done = team->workers[w].local_updates;
        if (team->members->of[w].takes_part && done < least) least = done;
    }
    dl_worker *w = &team->workers[worker];
    w->local_updates = least < INT64_MAX ? least : 0;
    w->stage = 1;
    set_part(team, worker, true);
    dl_team_compute(team, worker, true);
}

bool dl_members_advance(dl_team *team, int worker, int stage, bool in_average)
{
    dl_worker *w = &team->workers[worker];
    if (team->members == NULL) return false;
    if (stage < AWAY && (in_average || !team->members->of[worker].leaving)) return false;
    if (team->stopping) {
        dl_team_pause(team, worker);
        return true;
    }
    if (team->members->of[worker].leaving) {
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
