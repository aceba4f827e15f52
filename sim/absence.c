#include "sim/absence.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"
#include "sim/platform/platform.h"
#include "sim/team.h"

#define NONE (-1)
/* Point number of the random streams (common/random.h); sim/noise.c lists the others. */
#define ABSENCE_STREAM 2
#define NUMBERS_A_DRAW 2 /* 32-bit random numbers per uniform draw */

const char *const dl_together_names[] = {"worker", "site", NULL};

typedef struct dl_absentee {
    dl_absence absence; /* the current absence, or the next one if the worker is present */
    size_t number;      /* listed: index from which the next absence is searched; random: number of
                         * failures drawn */
    int change;         /* id of the pending event that starts or ends the absence, or NONE */
    bool due;
    int64_t since_ns; /* start of the current absence, or NONE */
    int64_t away_ns;  /* total time of completed absences since the end of the warm-up */
    int64_t ended_ns; /* compute time up to the end of the worker's last step, or up to the start of
                       * its latest absence */
    int64_t cut_ns;   /* compute time of aborted steps since the end of the warm-up */
} dl_absentee;

static void init(dl_team *team)
{
    const int workers = team->config.workers;
    team->absentees = dl_calloc((size_t)workers, sizeof *team->absentees, "absences of workers");
    for (int w = 0; w < workers; w++)
        team->absentees[w] = (dl_absentee){.change = NONE, .since_ns = NONE};
}

/* Number of the worker's failure unit: the worker itself or its site. */
static int unit_of(const dl_team *team, int worker)
{
    const dl_platform *platform = team->config.platform;
    if (team->config.absences.together != DL_TOGETHER_SITE) return worker;
    DL_ASSERT(platform->domain != NULL, "workers on %s have no sites", platform->name);
    return platform->domain(team, worker);
}

/* Draws the failure that follows a->absence; a->absence.to_s is 0 before the first one. */
static void draw_failure(const dl_team *team, int worker, dl_absentee *a)
{
    const dl_absences *absences = &team->config.absences;
    dl_random stream;
    dl_random_init(&stream, team->config.seed, team->config.replicate, ABSENCE_STREAM,
                   (uint32_t)unit_of(team, worker));
    dl_random_seek(&stream, NUMBERS_A_DRAW * (uint64_t)a->number++);
    const double up_s = -absences->mtbf_s * log1p(-dl_random_uniform(&stream));
    const double from_s = a->absence.to_s + up_s;
    a->absence = (dl_absence){worker, from_s, from_s + absences->away_s};
}

static bool find_listed(const dl_absences *absences, int worker, dl_absentee *a)
{
    while (a->number < absences->count && absences->listed[a->number].worker != worker)
        a->number++;
    if (a->number == absences->count) return false;
    a->absence = absences->listed[a->number++];
    return true;
}

/* Schedules `handler` at time_s, or now if that has passed; returns the event's id. */
static int at(dl_team *team, double time_s, dl_event_fn handler, int worker)
{
    const int64_t at_ns = dl_ns_ceil(dl_s_to_ns(time_s)), now_ns = team->engine.now_ns;
    return dl_engine_after(&team->engine, at_ns > now_ns ? at_ns - now_ns : 0, handler, team,
                           worker);
}

static void on_due(void *user, int worker)
{
    dl_team *team = user;
    dl_absentee *a = &team->absentees[worker];
    const dl_worker *w = &team->workers[worker];
    a->change = NONE;
    if (w->steps_done == team->config.steps) return;
    a->due = true;
    dl_team_cut(team, worker);
    dl_team_wake(team);
}

static void plan(dl_team *team, int worker)
{
    const dl_absences *absences = &team->config.absences;
    dl_absentee *a = &team->absentees[worker];
    if (absences->mtbf_s > 0) {
        draw_failure(team, worker, a);
    } else if (!find_listed(absences, worker, a)) {
        return;
    }
    /* Absences that would start after the maximum run time are not scheduled. */
    if (a->absence.from_s < dl_ns_to_s((double)DL_NS_MAX))
        a->change = at(team, a->absence.from_s, on_due, worker);
}

static void on_return(void *user, int worker)
{
    dl_team *team = user;
    dl_absentee *a = &team->absentees[worker];
    a->away_ns += team->engine.now_ns - a->since_ns;
    a->since_ns = a->change = NONE;
    plan(team, worker);
    team->workers[worker].step_start_ns = team->engine.now_ns;
    dl_team_resume(team, worker);
}

static void start(dl_team *team)
{
    for (int w = 0; w < team->config.workers; w++)
        plan(team, w);
}

static void close_all(dl_team *team)
{
    for (int w = 0; w < team->config.workers; w++) {
        int *change = &team->absentees[w].change;
        if (*change != NONE) dl_engine_cancel(&team->engine, *change);
        *change = NONE;
    }
}

static void warmed_up(dl_team *team, int worker)
{
    dl_absentee *a = &team->absentees[worker];
    a->away_ns = a->ended_ns = a->cut_ns = 0;
}

static void free_all(dl_team *team)
{
    free(team->absentees);
}

/* Records the worker's compute time at the end of a step; an absence loses only compute time since
 * then. */
static void step_ended(dl_team *team, int worker)
{
    team->absentees[worker].ended_ns = team->workers[worker].spent_ns[DL_SPENT_COMPUTE];
}

const dl_team_companion dl_absences_companion = {
    .events_a_worker = 1,
    .init = init,
    .start = start,
    .warmed_up = warmed_up,
    .close = close_all,
    .free = free_all,
    .step_ended = step_ended,
};

bool dl_absence_is_due(const dl_team *team, int worker)
{
    return team->absentees != NULL && team->absentees[worker].due;
}

void dl_absence_begin(dl_team *team, int worker)
{
    dl_absentee *a = &team->absentees[worker];
    a->cut_ns += team->workers[worker].spent_ns[DL_SPENT_COMPUTE] - a->ended_ns;
    step_ended(team, worker);
    a->due = false;
    a->since_ns = team->engine.now_ns;
    if (isinf(a->absence.to_s)) {
        dl_team_retire(team, worker);
        return;
    }
    dl_team_pause(team, worker);
    a->change = at(team, a->absence.to_s, on_return, worker);
}

static int64_t last_end_ns(const dl_team *team)
{
    int64_t end_ns = 0;
    for (int w = 0; w < team->config.workers; w++) {
        if (team->workers[w].last_end_ns > end_ns) end_ns = team->workers[w].last_end_ns;
    }
    return end_ns;
}

double dl_absences_goodput(const dl_team *team)
{
    double useful_ns = 0, all_ns = 0;
    const int64_t end_ns = last_end_ns(team);
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *worker = &team->workers[w];
        const int64_t steps = worker->steps_done - worker->warm_up_steps;
        all_ns += (double)(end_ns - worker->measured_since_ns);
        if (steps <= worker->dropped) continue;
        const double useful = 1 - (double)worker->dropped / (double)steps;
        const int64_t cut_ns = team->absentees != NULL ? team->absentees[w].cut_ns : 0;
        useful_ns += useful * (double)(worker->spent_ns[DL_SPENT_COMPUTE] - cut_ns);
    }
    return useful_ns / all_ns;
}

double dl_absences_away(const dl_team *team)
{
    double away_ns = 0, all_ns = 0;
    const int64_t end_ns = last_end_ns(team);
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *worker = &team->workers[w];
        const dl_absentee *a = &team->absentees[w];
        all_ns += (double)(end_ns - worker->measured_since_ns);
        away_ns += (double)a->away_ns;
        if (a->since_ns != NONE && a->since_ns < end_ns) away_ns += (double)(end_ns - a->since_ns);
    }
    return away_ns / all_ns;
}
