/* Runs of GPUs without an event for each worker. If workers are coupled only by a collective that
 * all wait for, a worker's time between two collectives depends only on its steps: with the noise
 * factor f of step k, and launch times a (serial part) and b,
 *
 *   launch of step k   from l(k) = max(end of the launch before, end of step k - ahead - 1)
 *   start              s(k) = max(end of step k - 1, l(k) + a)
 *   computed           c(k) = max(s(k) + f work, l(k) + a + b)
 *
 * and the collective starts at the maximum of c(k) over all workers. It runs on the network as
 * usual, so a step costs O(workers) without a queue. Times are rounded like those of events. If a
 * result depends on the order of events within 1 ns, the run is undecided and must be repeated with
 * events. */
#include "sim/platform/gpu_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

#define AHEAD_MOST 64        /* largest number of steps per worker whose ends are stored */
#define STEPS_MOST (1 << 20) /* largest number of steps per worker if there are several workers */
#define NEVER INT64_MAX

/* The host thread of one worker. */
typedef struct launcher {
    int64_t launched_ns; /* end of the last launch */
    int64_t *ends; /* [slots] ends of the worker's latest steps, by step number modulo slots */
} launcher;

typedef struct direct {
    dl_team *team;
    dl_gpus *gpus;
    int64_t steps, warmup;
    bool launches; /* launches take time; false: no launchers */
    int slots;     /* ahead + 1, or the number of steps if that is less */
    int64_t launch_ns;
    /* For find_clock_lag; NULL for one worker. first_start_ns[steps + 1]: by step, when the first
     * worker starts it after the warm-up. all_done_ns[steps + 1]: by number of steps, when the last
     * worker has done them. */
    int64_t *first_start_ns, *all_done_ns;
    int64_t end_ns; /* latest event so far */
} direct;

/* A worker's step up to the end of computing. */
typedef struct computed {
    int64_t start_ns, compute_ns, dispatch_ns, end_ns;
    double noise;
} computed;

static int64_t later(int64_t ns, int64_t delay_ns)
{
    return delay_ns < DL_NS_MAX - ns ? ns + delay_ns : DL_NS_MAX;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool can_launch(const dl_gpus *gpus)
{
    const dl_gpu_options *options = gpus->config.options;
    return options->dispatch == DL_DISPATCH_PER_GPU && !dl_gpus_reads_forward(gpus) &&
           !gpus->config.with_input && !gpus->shared && gpus->held == NULL;
}

/* Whether the exchange consists only of the collectives of all buckets, which start when all
 * workers wait for them. */
static bool is_collective(const dl_team_config *config, const dl_gpus *gpus)
{
    return gpus->config.plan.is_collective && !gpus->config.plan.as_ready &&
           gpus->reduction.before_count == 0 && !gpus->config.options->on_hosts &&
           gpus->config.plan.sharers == 1 && !gpus->config.plan.packs && !config->outer_update &&
           !config->reduces_inside && config->fragments == 1;
}

static bool is_possible(const dl_team *team, const dl_gpus *gpus)
{
    const dl_team_config *config = &team->config;
    const int64_t interval = team->workers[0].interval;
    if (config->observer != NULL || config->steady_after > 0 || config->syncer != NULL ||
        dl_absences_given(&config->absences) || config->comm_threads || !can_launch(gpus) ||
        gpus->traffic != NULL || (config->workers > 1 && config->steps > STEPS_MOST)) {
        return false;
    }
    switch (config->exchanges) {
    case DL_EXCHANGES_NOTHING: /* without noise, all workers' events have the same times */
        return config->workers == 1 || config->noise->kind != DL_NOISE_NONE;
    case DL_EXCHANGES_GRADIENTS: return is_collective(config, gpus);
    case DL_EXCHANGES_PARAMETERS:
        return is_collective(config, gpus) && !config->interval_by_speed &&
               config->steps % interval == 0 && config->warmup % interval == 0;
    case DL_EXCHANGES_UPLOADS: break;
    }
    return false;
}

/* Launches step k; returns when the GPU may start it. */
static int64_t launch(const direct *d, int worker, launcher *l, int64_t step)
{
    const int64_t ended_ns = step >= d->slots ? l->ends[step % d->slots] : 0;
    const int64_t serial_ns = dl_ns_ceil(d->gpus->dispatch.threads[worker].serial_ns);
    const int64_t started_ns = later(most(l->launched_ns, ended_ns), serial_ns);
    l->launched_ns = later(started_ns, d->launch_ns);
    return started_ns;
}

/* Computes the step that starts at start_ns. */
static computed compute(const direct *d, int worker, dl_noise *noise, launcher *l, int64_t step,
                        int64_t start_ns, bool with_update)
{
    const dl_team *team = d->team;
    const double factor = dl_noise_next(&team->noise, noise);
    double slow = team->config.slow != NULL ? team->config.slow[worker] : 1;
    slow *= dl_noise_next_work(&team->noise, noise);
    const double work_ns =
        dl_gpus_work_ns(dl_gpu_step_of(d->gpus->config.steps, worker), slow, with_update);
    const int64_t launched_ns = d->launches ? launch(d, worker, l, step) : start_ns;
    const int64_t from_ns = most(start_ns, launched_ns);
    const int64_t to_ns = later(from_ns, dl_ns_ceil(work_ns * factor));
    const int64_t end_ns = d->launches ? most(to_ns, l->launched_ns) : to_ns;
    return (computed){start_ns, to_ns - from_ns, from_ns - start_ns + end_ns - to_ns, end_ns,
                      factor};
}

static void note_computed(dl_worker *w, const computed *c)
{
    w->spent_ns[DL_SPENT_COMPUTE] += c->compute_ns;
    w->spent_ns[DL_SPENT_DISPATCH] += c->dispatch_ns;
}

/* Ends the worker's step; `warms`: its warm-up ends with this step at the latest. */
static void end_step(direct *d, int worker, int64_t start_ns, int64_t end_ns, bool warms)
{
    dl_team *team = d->team;
    dl_worker *w = &team->workers[worker];
    const int64_t done = ++w->steps_done;
    if (team->config.keeps_logs) {
        dl_team_step_log(team, worker)[done - 1] = end_ns - start_ns;
        dl_team_staleness_log(team, worker)[done - 1] = DL_NO_STALENESS_YET;
    } else if (d->warmup == 0 || w->warm_up_steps > 0) {
        dl_tally_add(&team->tallies.steps, end_ns - start_ns);
    }
    w->last_end_ns = end_ns;
    if (d->all_done_ns != NULL) d->all_done_ns[done] = most(d->all_done_ns[done], end_ns);
    d->end_ns = most(d->end_ns, end_ns);
    if (!warms || w->warm_up_steps > 0) return;
    memset(w->spent_ns, 0, sizeof w->spent_ns);
    w->measured_since_ns = end_ns;
    w->warm_up_steps = done;
}

static void note_start(direct *d, int64_t step, int64_t start_ns)
{
    if (d->first_start_ns != NULL && start_ns < d->first_start_ns[step])
        d->first_start_ns[step] = start_ns;
}

/* Finds the largest lead, in steps, of a worker that starts a step over the slowest one. Undecided
 * if the slowest one ends a step at the same time. */
static void find_clock_lag(direct *d)
{
    dl_team *team = d->team;
    int64_t least = d->steps, done = 0;
    if (d->all_done_ns == NULL) return;
    for (int w = 0; w < team->config.workers; w++) {
        if (team->workers[w].steps_done < least) least = team->workers[w].steps_done;
    }
    for (int64_t k = 1; k < d->steps; k++) {
        const int64_t start_ns = d->first_start_ns[k];
        if (start_ns == NEVER) continue;
        while (done < least && done + 1 < k && d->all_done_ns[done + 1] <= start_ns)
            done++;
        team->is_undecided |= done > 0 && d->all_done_ns[done] == start_ns;
        team->clock_lag_max = most(team->clock_lag_max, k - done);
    }
}

/* --- workers that wait for nobody ------------------------------------------------------------ */

/* Finds when the first worker has done all its steps, and when the first one has done its
 * warm-up. */
static void find_bounds(const direct *d, int64_t *ends, int64_t *stop_ns, int64_t *warm_ns)
{
    *stop_ns = *warm_ns = NEVER;
    for (int w = 0; w < d->team->config.workers; w++) {
        dl_noise noise = d->team->workers[w].noise;
        launcher l = {.ends = ends};
        int64_t now_ns = 0;
        for (int64_t k = 0; k < d->steps && now_ns < *stop_ns; k++) {
            now_ns = compute(d, w, &noise, &l, k, now_ns, true).end_ns;
            if (d->launches) ends[k % d->slots] = now_ns;
            if (k + 1 == d->warmup && now_ns < *warm_ns) *warm_ns = now_ns;
            if (k + 1 == d->steps && now_ns < *stop_ns) *stop_ns = now_ns;
        }
    }
    if (d->warmup == 0) *warm_ns = 0;
}

/* Runs the steps of one worker until any worker has done all its steps, then the launches that
 * follow. */
static void run_alone(direct *d, int worker, int64_t *ends, int64_t stop_ns, int64_t warm_ns)
{
    dl_team *team = d->team;
    dl_worker *w = &team->workers[worker];
    dl_noise noise = w->noise;
    launcher l = {.ends = ends};
    int64_t k = 0, now_ns = 0;
    for (; k < d->steps && now_ns < stop_ns; k++) {
        if (now_ns >= warm_ns) note_start(d, k, now_ns);
        const computed c = compute(d, worker, &noise, &l, k, now_ns, true);
        note_computed(w, &c);
        if (d->launches) ends[k % d->slots] = c.end_ns;
        end_step(d, worker, now_ns, c.end_ns,
                 d->warmup > 0 && c.end_ns >= warm_ns && c.end_ns <= stop_ns);
        now_ns = c.end_ns;
        team->is_undecided |= d->warmup > 0 && now_ns == warm_ns && k + 1 < d->warmup;
    }
    team->is_undecided |= now_ns == stop_ns && k < d->steps;
    const int64_t launches = k + d->slots < d->steps ? k + d->slots : d->steps;
    d->gpus->dispatch.threads[worker].step = launches;
    team->engine.handled += 2 * launches + k;
    for (; k < launches && d->launches; k++)
        (void)launch(d, worker, &l, k);
    d->end_ns = most(d->end_ns, l.launched_ns);
}

static void run_uncoupled(direct *d)
{
    dl_team *team = d->team;
    DL_AUTOFREE int64_t *ends = dl_calloc((size_t)d->slots, sizeof *ends, "ends of steps");
    int64_t stop_ns, warm_ns;
    find_bounds(d, ends, &stop_ns, &warm_ns);
    team->is_undecided |= stop_ns >= DL_NS_MAX;
    for (int w = 0; w < team->config.workers && !team->is_undecided; w++)
        run_alone(d, w, ends, stop_ns, warm_ns);
    team->warm_ns = warm_ns;
}

/* --- workers that wait for all --------------------------------------------------------------- */

/* Runs the collective that starts at start_ns; returns its end. */
static int64_t reduce(direct *d, int64_t start_ns)
{
    dl_engine *engine = &d->team->engine;
    dl_engine_after(engine, start_ns - engine->now_ns, dl_gpus_reduce_all, d->gpus, 0);
    dl_engine_run(engine);
    engine->handled--; /* it is the last worker's arrival, which run_coupled counts */
    return d->gpus->reduction.ended_ns;
}

/* Barrier, average, barrier. A worker's state_start_ns is the start of its wait. */
static int64_t exchange(direct *d, int64_t last_ns)
{
    dl_team *team = d->team;
    const int workers = team->config.workers;
    const int64_t barrier_ns = workers > 1 ? dl_ns_ceil(team->config.workload->barrier_ns) : 0;
    const int64_t start_ns = later(last_ns, barrier_ns);
    const int64_t reduced_ns = reduce(d, start_ns), end_ns = later(reduced_ns, barrier_ns);
    for (int w = 0; w < workers; w++) {
        dl_worker *worker = &team->workers[w];
        worker->spent_ns[DL_SPENT_WAITING] += start_ns - worker->state_start_ns + barrier_ns;
        worker->spent_ns[DL_SPENT_COPIES] += reduced_ns - start_ns;
    }
    if (workers > 1)
        team->engine.handled += 2 * (int64_t)workers; /* events: releases from both
                                                                    * barriers */
    team->version++;
    return end_ns;
}

/* Adds the worker's update after the exchange of gradients, which ends at from_ns; returns the end
 * of the update. */
static int64_t update_ns(const direct *d, int worker, int64_t from_ns)
{
    dl_worker *w = &d->team->workers[worker];
    const int64_t end_ns =
        later(from_ns, dl_ns_ceil(dl_gpu_step_of(d->gpus->config.steps, worker)->update_ns *
                                  w->noise_factor));
    w->spent_ns[DL_SPENT_UPDATE] += end_ns - from_ns;
    return end_ns;
}

/* Computes step k on all workers; returns when the last one is done. */
static int64_t compute_all(direct *d, launcher *launchers, int64_t step, bool with_update)
{
    int64_t last_ns = 0;
    for (int w = 0; w < d->team->config.workers; w++) {
        dl_worker *worker = &d->team->workers[w];
        const int64_t start_ns = worker->last_end_ns;
        if (step >= d->warmup) note_start(d, step, start_ns);
        const computed c = compute(d, w, &worker->noise, launchers != NULL ? &launchers[w] : NULL,
                                   step, start_ns, with_update);
        note_computed(worker, &c);
        worker->step_start_ns = start_ns;
        worker->state_start_ns = c.end_ns;
        worker->noise_factor = c.noise;
        last_ns = most(last_ns, c.end_ns);
    }
    return last_ns;
}

static void run_step(direct *d, launcher *launchers, int64_t step)
{
    dl_team *team = d->team;
    const bool gradients = team->config.exchanges == DL_EXCHANGES_GRADIENTS;
    const bool exchanges = gradients || (step + 1) % team->workers[0].interval == 0;
    const int64_t last_ns = compute_all(d, launchers, step, !gradients);
    const int64_t end_ns = exchanges ? exchange(d, last_ns) : 0;
    const bool warms = step + 1 == d->warmup;
    int64_t first_ns = NEVER;
    for (int w = 0; w < team->config.workers; w++) {
        dl_worker *worker = &team->workers[w];
        int64_t own_ns = exchanges ? end_ns : worker->state_start_ns;
        if (gradients) own_ns = update_ns(d, w, end_ns);
        end_step(d, w, worker->step_start_ns, own_ns, warms);
        if (launchers != NULL) launchers[w].ends[step % d->slots] = own_ns;
        if (own_ns < first_ns) first_ns = own_ns;
    }
    if (!warms) return;
    team->warm_ns = first_ns;
    team->warm_version = team->version;
}

/* Counts local steps for the statistics of drift, which each exchange resets to 0. */
static void count_drift(direct *d)
{
    dl_team *team = d->team;
    const bool local = team->config.exchanges == DL_EXCHANGES_PARAMETERS;
    const int64_t interval = local ? team->workers[0].interval : 1;
    for (int64_t k = d->warmup; k < d->steps; k++) {
        team->drift_sum += team->config.workers * (k % interval);
        team->drift_max = most(team->drift_max, k % interval);
        team->steps_started += team->config.workers;
    }
}

static void run_coupled(direct *d)
{
    dl_team *team = d->team;
    const size_t workers = (size_t)team->config.workers, slots = (size_t)d->slots;
    DL_AUTOFREE launcher *launchers = NULL;
    DL_AUTOFREE int64_t *ends = NULL;
    if (d->launches) {
        launchers = dl_calloc(workers, sizeof *launchers, "host threads");
        ends = dl_calloc(workers * slots, sizeof *ends, "ends of steps");
        for (size_t w = 0; w < workers; w++)
            launchers[w].ends = ends + w * slots;
    }
    for (int64_t k = 0; k < d->steps && !team->engine.too_long; k++)
        run_step(d, launchers, k);
    for (int w = 0; w < team->config.workers; w++)
        d->gpus->dispatch.threads[w].step = d->steps;
    const int64_t events = team->config.exchanges == DL_EXCHANGES_GRADIENTS ? 4 : 3;
    team->engine.handled += events * d->steps * team->config.workers;
    count_drift(d);
}

/* --- the run --------------------------------------------------------------------------------- */

bool dl_gpus_run_directly(dl_team *team)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const dl_team_config *config = &team->config;
    const dl_dispatch_config *dispatch = &gpus->dispatch.config;
    const int64_t slots = (int64_t)dispatch->ahead + 1;
    direct d = {
        .team = team,
        .gpus = gpus,
        .steps = config->steps,
        .warmup = config->warmup,
        .launches = dispatch->serial_ns > 0 || dispatch->per_worker_ns > 0,
        .slots = (int)(slots < config->steps ? slots : config->steps),
        .launch_ns = dl_ns_ceil(dispatch->per_worker_ns),
    };
    if (!is_possible(team, gpus) || (d.launches && d.slots > AHEAD_MOST)) return false;
    if (config->workers > 1) {
        const size_t room = (size_t)d.steps + 1;
        d.all_done_ns = dl_calloc(room, sizeof *d.all_done_ns, "clocks");
        d.first_start_ns = dl_calloc(room, sizeof *d.first_start_ns, "clocks");
        for (size_t k = 0; k < room; k++)
            d.first_start_ns[k] = NEVER;
    }
    if (config->exchanges == DL_EXCHANGES_NOTHING) {
        run_uncoupled(&d);
    } else {
        run_coupled(&d);
    }
    find_clock_lag(&d);
    team->is_direct = team->is_warm = team->stopping = true;
    team->done = config->workers;
    team->engine.too_long |= d.end_ns >= DL_NS_MAX;
    if (!team->engine.too_long) team->engine.now_ns = d.end_ns;
    free(d.all_done_ns);
    free(d.first_start_ns);
    return true;
}
