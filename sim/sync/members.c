#include "sim/sync/members.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "sim/platform/platform.h"

/* Stages of an absent worker, beyond all stages of the mode. */
enum { AWAY = 1000, BACK = AWAY, FETCHED };

typedef struct dl_members {
    bool *takes_part; /* [workers] takes part in averages */
    bool *holds;      /* [workers] waits for averages to end, so that no new one starts */
    bool *reduces;    /* [workers] is in a step whose gradients its site has not reduced yet */
    int64_t *joined;  /* [workers] steps done when the worker last joined */
    int64_t *ahead;   /* [workers] position minus steps done */
    int averaging;    /* number of workers that have reached an average, or take part in one */
    int holding;      /* number of workers with `holds` set */
    int64_t rounds;   /* number of averages that at least one communication thread has started */
} dl_members;

static void init(dl_team *team)
{
    const int workers = team->config.workers;
    dl_members *m = dl_calloc(1, sizeof *m, "members");
    *m = (dl_members){.takes_part = dl_calloc((size_t)workers, sizeof *m->takes_part, "members"),
                      .holds = dl_calloc((size_t)workers, sizeof *m->holds, "members"),
                      .reduces = dl_calloc((size_t)workers, sizeof *m->reduces, "members"),
                      .joined = dl_calloc((size_t)workers, sizeof *m->joined, "members"),
                      .ahead = dl_calloc((size_t)workers, sizeof *m->ahead, "members")};
    for (int w = 0; w < workers; w++)
        m->takes_part[w] = true;
    team->members = m;
}

static void free_all(dl_team *team)
{
    DL_AUTOFREE dl_members *members = team->members;
    free(members->takes_part);
    free(members->holds);
    free(members->reduces);
    free(members->joined);
    free(members->ahead);
}

const dl_team_companion dl_members_companion = {.init = init, .free = free_all};

int64_t dl_members_due(const dl_team *team, int worker, int64_t steps)
{
    return steps * team->config.fragments / team->workers[worker].interval;
}

/* Step, counted from the start of the run, after which exchange number `count` of the run is
 * due. */
static int64_t due_step(const dl_team *team, int worker, int64_t count)
{
    const int64_t fragments = team->config.fragments;
    return (count * team->workers[worker].interval + fragments - 1) / fragments;
}

int64_t dl_members_position(const dl_team *team, int worker)
{
    const int64_t ahead = team->members != NULL ? team->members->ahead[worker] : 0;
    return team->workers[worker].steps_done + ahead;
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

void dl_members_reduce(dl_team *team, int worker, bool reduces)
{
    if (team->members == NULL) return;
    team->members->reduces[worker] = reduces;
    if (reduces) dl_team_wake(team);
}

static void set_part(dl_team *team, int worker, bool takes_part)
{
    dl_members *m = team->members;
    m->takes_part[worker] = takes_part;
    team->present += takes_part ? 1 : -1;
    if (team->config.platform->members_changed != NULL) {
        team->config.platform->members_changed(team, worker);
    }
    dl_team_release_barrier(team);
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Number of a worker's steps since the last average of its parameters, at most `own`; with
 * fragments, the mean over the fragments. */
static int64_t lost_steps(const dl_team *team, int worker, int64_t own)
{
    const dl_worker *w = &team->workers[worker];
    const int64_t fragments = team->config.fragments, done = w->interval + w->local_updates;
    const int64_t due = dl_members_due(team, worker, done);
    int64_t sum = 0;
    for (int64_t f = 0; f < fragments; f++)
        sum += least_of(done - due_step(team, worker, due - f), own);
    return (sum + fragments / 2) / fragments;
}

static void release(dl_team *team, int worker)
{
    dl_members *m = team->members;
    if (!m->holds[worker]) return;
    m->holds[worker] = false;
    if (--m->holding == 0) dl_team_wake(team);
}

/* Makes the worker leave. Steps that were counted as done when it joined are not lost. */
static void leave(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    const int64_t measured = w->steps_done - w->warm_up_steps;
    const int64_t own = w->steps_done - team->members->joined[worker];
    const bool took_part = team->members->takes_part[worker];
    if (took_part) w->dropped += lost_steps(team, worker, least_of(own, measured));
    w->local_updates = 0;
    w->stage = BACK;
    release(team, worker);
    if (took_part) set_part(team, worker, false);
    dl_absence_begin(team, worker);
}

static bool is_of_site(const dl_team *team, int worker, int other)
{
    const dl_platform *platform = team->config.platform;
    return platform->domain(team, worker) == platform->domain(team, other);
}

/* Whether the returning worker's site is back. If sites reduce gradients in each step, returned
 * workers wait in their step for the rest of their site, and all other sites may wait for them. If
 * the rest had to wait for averages to end, there would be a deadlock: an average waits for all
 * members, among them the returned workers, which wait for the rest. */
static bool site_is_back(const dl_team *team, int worker)
{
    const dl_members *m = team->members;
    bool is_back = false;
    if (!team->config.reduces_inside) return false;
    for (int w = 0; w < team->config.workers; w++) {
        if (!m->takes_part[w] || !is_of_site(team, w, worker)) continue;
        if (!m->reduces[w] || !dl_team_comm_is_idle(team, w)) return false;
        is_back = true;
    }
    return is_back;
}

static bool nobody_averages(const dl_team *team, int worker)
{
    return team->members->averaging == 0 || dl_absence_is_due(team, worker) ||
           site_is_back(team, worker);
}

/* Condition of a communication thread: it may start an average. */
static bool may_start(const dl_team *team, int comm)
{
    return team->members->holding == 0 || team->workers[comm].exchanged < team->members->rounds;
}

bool dl_members_start(dl_team *team, int comm)
{
    const int64_t next = team->workers[comm].exchanged;
    if (team->members == NULL) return true;
    if (!may_start(team, comm)) {
        team->workers[comm].stage = 0;
        dl_team_wait(team, comm, may_start);
        return false;
    }
    if (next == team->members->rounds) team->members->rounds++;
    return true;
}

/* Position at which a worker joins: that of the least advanced member, in its site if that is back;
 * without other members, the start of an interval. With communication threads it takes part in the
 * first average that has not started, after at least one step. */
static int64_t position_to_join(const dl_team *team, int worker)
{
    const dl_members *m = team->members;
    const bool is_back = site_is_back(team, worker);
    int64_t least = INT64_MAX;
    for (int w = 0; w < team->config.workers; w++) {
        const int64_t position = dl_members_position(team, w);
        if (!m->takes_part[w] || (is_back && !is_of_site(team, w, worker))) continue;
        if (position < least) least = position;
    }
    if (is_back || (team->present > 0 && !team->config.comm_threads)) return least;
    if (team->present > 0) return least_of(least, due_step(team, worker, m->rounds + 1) - 1);
    return team->config.comm_threads ? due_step(team, worker, m->rounds) : 0;
}

/* Number of communication threads' averages that a joining worker skips: those that the others of
 * its site have finished, if the site is back; otherwise all that have started. */
static int64_t rounds_to_join(const dl_team *team, int worker)
{
    int64_t least = team->members->rounds;
    if (!site_is_back(team, worker)) return least;
    for (int w = 0; w < team->config.workers; w++) {
        if (team->members->takes_part[w] && is_of_site(team, w, worker))
            least = least_of(least, team->workers[dl_team_exchanger(team, w)].exchanged);
    }
    return least;
}

/* Makes the worker join, at the start of a step. */
static void join(dl_team *team, int worker)
{
    dl_members *m = team->members;
    dl_worker *w = &team->workers[worker];
    const int64_t position = position_to_join(team, worker);
    m->ahead[worker] = position - w->steps_done;
    w->local_updates = (int32_t)(position % w->interval);
    w->stage = 1;
    if (team->config.comm_threads) {
        dl_worker *comm = &team->workers[dl_team_exchanger(team, worker)];
        comm->handed_over = comm->exchanged = (int32_t)rounds_to_join(team, worker);
    }
    m->joined[worker] = w->steps_done;
    set_part(team, worker, true);
    release(team, worker);
    if (team->config.reduces_inside) dl_members_reduce(team, worker, true);
    dl_team_compute(team, worker, !team->config.reduces_inside);
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
        if (dl_team_comm_is_idle(team, worker)) {
            leave(team, worker);
        } else {
            w->stage = stage;
            dl_team_wait(team, worker, dl_team_comm_is_idle);
        }
        return true;
    }
    if (!nobody_averages(team, worker)) {
        w->stage = stage;
        team->members->holding += !team->members->holds[worker];
        team->members->holds[worker] = true;
        dl_team_wait(team, worker, nobody_averages);
    } else if (stage == BACK && team->present > 0) {
        w->stage = FETCHED;
        release(team, worker);
        dl_team_exchange(team, worker,
                         (dl_exchange){.kind = DL_FETCH, .with_state = team->config.average_state});
    } else {
        join(team, worker);
    }
    return true;
}
