#include "sim/team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"
#include "sim/platform/platform.h"
#include "sim/sync/mode.h"

#define LINE_BYTES 64
_Static_assert(sizeof(void *) < 8 || sizeof(dl_worker) == 3 * LINE_BYTES,
               "a worker has three lines of the cache");

const char *const dl_worker_state_names[DL_STATE_COUNT] = {"compute",   "update",   "push", "pull",
                                                           "average",   "barrier",  "lock", "wait",
                                                           "allreduce", "dispatch", "input"};

static bool try_lock(dl_team *team, int worker);

static void init_worker(dl_team *team, int number)
{
    dl_worker *worker = &team->workers[number];
    worker->computes = true;
    dl_noise_init(&worker->noise, &team->noise, (uint32_t)number);
}

double dl_team_compute_ns(const dl_team *team, int worker)
{
    const dl_workload *workload = team->config.workload;
    const double slow = team->config.slow != NULL ? team->config.slow[worker] : 1;
    return workload->input_ns + slow * workload->compute_ns + workload->dispatch_ns;
}

static double alone_ns(const dl_team *team, int worker)
{
    const dl_team_config *config = &team->config;
    if (config->alone_ns != NULL) return config->alone_ns[worker];
    return dl_team_compute_ns(team, worker) + config->workload->update_ns;
}

/* Sets the workers' intervals: the point's or, with config.interval_by_speed, intervals in
 * proportion to speed, from step times without noise. */
static void set_intervals(dl_team *team)
{
    const dl_team_config *config = &team->config;
    const double interval = config->option != NULL ? config->option[DL_SYNC_INTERVAL] : 1;
    double fastest_ns = INFINITY;
    for (int w = 0; w < config->workers; w++)
        fastest_ns = fmin(fastest_ns, alone_ns(team, w));
    for (int w = 0; w < config->workers; w++) {
        const double step_ns = alone_ns(team, w);
        const bool slower = config->interval_by_speed && step_ns > fastest_ns;
        const double own = slower ? round(interval * fastest_ns / step_ns) : interval;
        team->workers[w].interval = own > 1 ? (int64_t)own : 1;
    }
}

/* Calls a function of all companions that have it. */
#define COMPANIONS_DO(team, function, arguments)                                                 \
    do {                                                                                         \
        for (int c = 0; c < DL_TEAM_COMPANIONS_MAX; c++) {                                       \
            const dl_team_companion *companion = (team)->config.companions[c];                   \
            if (companion != NULL && companion->function != NULL) companion->function arguments; \
        }                                                                                        \
    } while (0)

void dl_team_init(dl_team *team, const dl_team_config *config)
{
    const int agents = config->workers * (config->comm_threads ? 2 : 1);
    const size_t count = (size_t)agents;
    *team = (dl_team){
        .config = *config,
        .agents = agents,
        .workers_block = dl_calloc(count + 1, sizeof(dl_worker), "workers"),
        .arrived = dl_calloc(count, sizeof(int), "barrier"),
        .queue = dl_calloc(count, sizeof(int), "lock queue"),
        .waiting = dl_calloc(count, sizeof(dl_waiting), "waiting workers"),
        .spinning = agents <= config->cores,
        .lock_owner = -1,
        .least_clock_count = config->workers,
        .present = config->workers,
    };
    char *block = team->workers_block;
    team->workers = (dl_worker *)(void *)(block + (LINE_BYTES - (uintptr_t)block % LINE_BYTES));
    dl_ask_for_huge_pages(block, count * sizeof *team->workers);
    if (team->config.platform->ran_ns != NULL)
        team->on_core = dl_calloc(count, sizeof *team->on_core, "workers on cores");
    if (config->keeps_logs) {
        const size_t steps = (size_t)config->workers * (size_t)config->steps;
        team->step_ns = dl_calloc(steps, sizeof *team->step_ns, "step times");
        team->staleness = dl_calloc(steps, sizeof *team->staleness, "staleness");
    }
    /* Largest number of pending events: one release per agent, and those of the platform and the
     * companions. */
    int events = agents + team->config.platform->init(team);
    for (int c = 0; c < DL_TEAM_COMPANIONS_MAX; c++)
        if (config->companions[c] != NULL)
            events += config->companions[c]->events +
                      config->companions[c]->events_a_worker * config->workers;
    dl_engine_init(&team->engine, events);
    dl_engine_add_state(&team->engine,
                        (dl_engine_state){(const char *)team->workers, sizeof *team->workers,
                                          2 * LINE_BYTES, 0, agents});
    dl_noise_source_init(&team->noise, config->noise, config->seed, config->replicate);
    for (int w = 0; w < config->workers; w++)
        init_worker(team, w);
    set_intervals(team);
    COMPANIONS_DO(team, init, (team));
    for (int comm = config->workers; comm < agents; comm++)
        team->workers[comm].noise_factor = 1;
}

static void free_tallies(dl_team_tallies *tallies)
{
    dl_tally_free(&tallies->steps);
    free(tallies->staleness);
    free(tallies->worker_sum);
    free(tallies->worker_count);
    free(tallies->pending);
}

void dl_team_free(dl_team *team)
{
    free(team->step_ns);
    free(team->staleness);
    free(team->on_core);
    free_tallies(&team->tallies);
    COMPANIONS_DO(team, free, (team));
    free(team->workers_block);
    free(team->arrived);
    free(team->queue);
    free(team->waiting);
    const struct dl_platform *platform = team->config.platform;
    if (platform != NULL && platform->free != NULL) platform->free(team);
    dl_engine_free(&team->engine);
    *team = (dl_team){0};
}

static void enter(dl_team *team, int worker, dl_worker_state state)
{
    team->workers[worker].state = (uint8_t)state;
    team->workers[worker].state_start_ns = team->engine.now_ns;
    if (team->on_core != NULL)
        team->on_core[worker].ran_ns = team->config.platform->ran_ns(team, worker);
}

dl_spent dl_spent_of(dl_worker_state state)
{
    switch (state) {
    case DL_STATE_COMPUTE: return DL_SPENT_COMPUTE;
    case DL_STATE_UPDATE: return DL_SPENT_UPDATE;
    case DL_STATE_DISPATCH: return DL_SPENT_DISPATCH;
    case DL_STATE_INPUT: return DL_SPENT_INPUT;
    case DL_STATE_PUSH:
    case DL_STATE_PULL:
    case DL_STATE_ALLREDUCE: return DL_SPENT_COPIES;
    case DL_STATE_AVERAGE: return DL_SPENT_AVERAGE;
    case DL_STATE_BARRIER:
    case DL_STATE_LOCK:
    case DL_STATE_WAIT:
    case DL_STATE_COUNT: break;
    }
    return DL_SPENT_WAITING;
}

/* Adds the time since the state's start to its sum. */
static void account(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    int64_t start_ns = w->state_start_ns, end_ns = team->engine.now_ns;
    int64_t own_ns = end_ns - start_ns;
    const dl_spent spent = dl_spent_of(w->state);
    dl_on_core *on_core = team->on_core != NULL ? &team->on_core[worker] : NULL;
    if (on_core != NULL && spent != DL_SPENT_WAITING && spent != DL_SPENT_INPUT)
        own_ns = team->config.platform->ran_ns(team, worker) - on_core->ran_ns;
    w->spent_ns[spent] += own_ns;
    if (on_core != NULL) on_core->queue_ns += end_ns - start_ns - own_ns;
    const dl_team_observer *observer = team->config.observer;
    if (observer != NULL && observer->state != NULL && end_ns > start_ns) {
        observer->state(observer->user, worker, w->state, start_ns, end_ns);
    }
}

/* Ends the worker's action and calls its mode. */
static void end(dl_team *team, int worker)
{
    account(team, worker);
    team->stages_ended++;
    team->config.advance(team, worker);
}

void dl_team_change(dl_team *team, int worker, dl_worker_state state)
{
    account(team, worker);
    enter(team, worker, state);
}

void dl_team_done(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    bool was_woken = w->tries_lock;
    w->tries_lock = false;
    if (was_woken && !try_lock(team, worker)) return;
    end(team, worker);
}

static void on_release(void *user, int worker)
{
    end(user, worker);
}

void dl_team_compute(dl_team *team, int worker, bool with_update)
{
    team->workers[worker].updates_at_once = with_update;
    enter(team, worker, DL_STATE_COMPUTE);
    team->config.platform->compute(team, worker);
}

void dl_team_local_update(dl_team *team, int worker)
{
    enter(team, worker, DL_STATE_UPDATE);
    team->config.platform->update(team, worker);
}

static void release(dl_team *team, int worker)
{
    const dl_workload *workload = team->config.workload;
    double delay_ns = team->spinning ? workload->barrier_ns : workload->wakeup_ns;
    dl_engine_after_about(&team->engine, dl_ns_ceil(delay_ns), on_release, team, worker, worker);
}

void dl_team_barrier(dl_team *team, int worker)
{
    enter(team, worker, DL_STATE_BARRIER);
    team->arrived[team->arrived_count++] = worker;
    team->late_ns = team->arrived_count > 1 ? team->engine.now_ns - team->arrived_ns : 0;
    team->arrived_ns = team->engine.now_ns;
    if (team->arrived_count < team->present) return;
    bool last_goes_on = !team->spinning || team->present == 1;
    int released = team->arrived_count - (last_goes_on ? 1 : 0);
    team->arrived_count = 0;
    for (int i = 0; i < released; i++) {
        release(team, team->arrived[i]);
    }
    if (last_goes_on) end(team, worker);
}

void dl_team_release_barrier(dl_team *team)
{
    if (team->arrived_count == 0 || team->arrived_count < team->present) return;
    const int released = team->arrived_count;
    team->arrived_count = 0;
    for (int i = 0; i < released; i++)
        release(team, team->arrived[i]);
}

void dl_team_wait(dl_team *team, int worker, dl_team_condition condition)
{
    enter(team, worker, DL_STATE_WAIT);
    if (team->stopping || condition(team, worker)) {
        end(team, worker);
        return;
    }
    team->waiting[team->waiting_count++] = (dl_waiting){worker, condition};
}

void dl_team_wake(dl_team *team)
{
    int left = 0;
    for (int i = 0; i < team->waiting_count; i++) {
        const dl_waiting one = team->waiting[i];
        if (team->stopping || one.condition(team, one.worker)) {
            release(team, one.worker);
        } else {
            team->waiting[left++] = one;
        }
    }
    team->waiting_count = left;
}

void dl_team_cut(dl_team *team, int worker)
{
    const dl_worker_state state = team->workers[worker].state;
    if (state == DL_STATE_COMPUTE || state == DL_STATE_DISPATCH || state == DL_STATE_INPUT) {
        team->config.platform->cut(team, worker);
    }
}

int dl_team_worker(const dl_team *team, int agent)
{
    return agent % team->config.workers;
}

int dl_team_exchanger(const dl_team *team, int worker)
{
    return team->config.comm_threads ? team->config.workers + worker : worker;
}

bool dl_team_comm_is_idle(const dl_team *team, int worker)
{
    const dl_worker *comm = &team->workers[dl_team_exchanger(team, worker)];
    return comm->exchanged == comm->handed_over;
}

static void start_exchange(dl_team *team, int comm)
{
    team->workers[comm].stage = 0;
    enter(team, comm, DL_STATE_WAIT);
    release(team, comm);
}

void dl_team_hand_over(dl_team *team, int worker)
{
    const int comm = dl_team_exchanger(team, worker);
    const bool is_idle = dl_team_comm_is_idle(team, worker);
    team->workers[comm].handed_over++;
    if (is_idle) start_exchange(team, comm);
}

void dl_team_exchanged(dl_team *team, int comm)
{
    team->workers[comm].exchanged++;
    dl_team_wake(team);
    if (!dl_team_comm_is_idle(team, dl_team_worker(team, comm))) start_exchange(team, comm);
}

/* Takes the lock if it is free; otherwise queues the worker for it and returns false. */
static bool try_lock(dl_team *team, int worker)
{
    if (team->lock_owner >= 0) {
        int place = (team->queue_first + team->queue_count++) % team->agents;
        team->queue[place] = worker;
        return false;
    }
    team->lock_owner = worker;
    team->lock_since_ns = team->engine.now_ns;
    return true;
}

void dl_team_lock(dl_team *team, int worker)
{
    enter(team, worker, DL_STATE_LOCK);
    if (try_lock(team, worker)) end(team, worker);
}

/* A sleeping worker has woken up: it tries to take the lock once it has its core. */
static void on_wakeup(void *user, int worker)
{
    dl_team *team = user;
    team->workers[worker].tries_lock = true;
    team->config.platform->take_core(team, worker);
}

static int pop_queue(dl_team *team)
{
    int worker = team->queue[team->queue_first];
    team->queue_first = (team->queue_first + 1) % team->agents;
    team->queue_count--;
    return worker;
}

void dl_team_unlock(dl_team *team, int worker)
{
    DL_ASSERT(team->lock_owner == worker, "worker %d releases the lock of worker %d", worker,
              team->lock_owner);
    if (team->queue_count > 0 && team->spinning) {
        team->lock_owner = pop_queue(team);
        dl_engine_after_about(&team->engine, dl_ns_ceil(team->config.workload->lock_ns), on_release,
                              team, team->lock_owner, team->lock_owner);
        return;
    }
    team->lock_owner = -1;
    team->lock_busy_ns += team->engine.now_ns - team->lock_since_ns;
    if (team->queue_count == 0) return;
    dl_engine_after(&team->engine, dl_ns_ceil(team->config.workload->wakeup_ns), on_wakeup, team,
                    pop_queue(team));
}

/* --- the server: contributions, and versions of parameters ---------------------------------- */

/* Sets the worker's clock, which must not decrease. */
static void advance_clock(dl_team *team, int worker, int64_t clock)
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

/* Whether the worker's current step is after its warm-up. */
static bool is_measured(const dl_team *team, const dl_worker *worker)
{
    return team->config.warmup == 0 || worker->warm_up_steps > 0;
}

static void add_pending(dl_team *team, int worker, int staleness)
{
    dl_team_tallies *t = &team->tallies;
    if (t->pending_count == t->pending_room) {
        t->pending_room = t->pending_room > 0 ? 2 * t->pending_room : 16;
        t->pending = dl_realloc(t->pending, t->pending_room, sizeof *t->pending, "gradients");
    }
    t->pending[t->pending_count++] = (dl_pending){worker, staleness};
}

static void grow_staleness(dl_team_tallies *t, size_t count)
{
    const size_t old = t->staleness_count;
    t->staleness_count = 2 * count;
    t->staleness = dl_realloc(t->staleness, t->staleness_count, sizeof *t->staleness, "staleness");
    memset(t->staleness + old, 0, (t->staleness_count - old) * sizeof *t->staleness);
}

static void tally_staleness(dl_team_tallies *tallies, int staleness)
{
    const size_t bin = (size_t)staleness;
    if (bin >= tallies->staleness_count) grow_staleness(tallies, bin + 1);
    tallies->staleness[bin]++;
}

/* Counts the pending gradients as applied by an update. */
static void apply_pending(dl_team *team)
{
    dl_team_tallies *t = &team->tallies;
    const size_t workers = (size_t)team->config.workers;
    if (t->pending_count > 0 && t->worker_sum == NULL) {
        t->worker_sum = dl_calloc(workers, sizeof *t->worker_sum, "staleness of workers");
        t->worker_count = dl_calloc(workers, sizeof *t->worker_count, "gradients of workers");
    }
    for (size_t i = 0; i < t->pending_count; i++) {
        const dl_pending *p = &t->pending[i];
        tally_staleness(t, p->staleness);
        t->worker_sum[p->worker] += p->staleness;
        t->worker_count[p->worker]++;
    }
    t->pending_count = 0;
}

void dl_team_contribute(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    if (dl_team_is_applied(team, worker)) w->contributions = 0;
    /* staleness if the next update includes this gradient */
    w->staleness = (int)(team->version - w->read_version);
    w->contributed_version = team->version;
    w->contributions++;
    w->computes = false;
    team->gradients++;
    if (!team->config.keeps_logs && is_measured(team, w)) add_pending(team, worker, w->staleness);
    advance_clock(team, worker, w->steps_done + 1);
    const dl_team_observer *observer = team->config.observer;
    if (observer != NULL && observer->contribute != NULL) {
        observer->contribute(observer->user, worker, w->steps_done, w->read_version,
                             team->engine.now_ns);
    }
}

void dl_team_drop(dl_team *team, int worker)
{
    team->workers[worker].dropped++;
}

/* At the end of a run: marks the worker's contributions since the last update as never applied, in
 * the log entries of its last steps that have a staleness. */
static void leave_over(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    if (dl_team_is_applied(team, worker)) w->contributions = 0;
    int64_t left = team->config.keeps_logs ? w->contributions : 0;
    for (int64_t s = w->steps_done - 1; left > 0; s--) {
        int32_t *staleness = &dl_team_staleness_log(team, worker)[s];
        if (*staleness == DL_NO_STALENESS_YET) continue;
        *staleness = DL_NO_STALENESS_YET;
        left--;
    }
}

void dl_team_update(dl_team *team)
{
    team->version++;
    team->gradients = 0;
    apply_pending(team);
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

/* --- steps -------------------------------------------------------------------------------- */

static void start_step(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    const int64_t ahead = w->clock - team->least_clock;
    if (ahead > team->clock_lag_max) team->clock_lag_max = ahead;
    if (w->local_updates > team->drift_max) team->drift_max = w->local_updates;
    team->drift_sum += w->local_updates;
    team->steps_started++;
    w->stage = 0;
    w->staleness = DL_NO_STALENESS_YET;
    w->step_start_ns = team->engine.now_ns;
    w->noise_factor = dl_noise_next(&team->noise, &w->noise);
    w->work_factor = dl_noise_next_work(&team->noise, &w->noise);
    team->config.advance(team, worker);
}

/* Time in ns of `count` consecutive steps of the worker, the last of which is `before` steps before
 * its latest. */
static int64_t steps_ns(const dl_team *team, int worker, int64_t count, int64_t before)
{
    const int64_t *step_ns = dl_team_step_log(team, worker);
    int64_t sum = 0;
    for (int64_t s = 1; s <= count; s++)
        sum += step_ns[team->workers[worker].steps_done - before - s];
    return sum;
}

/* Tolerance of a period's time: each activity is rounded to 1 ns. */
#define STEADY_NS 2
#define STEADY_FRAC 1e-7

/* Whether each worker's last `count` steps took as long as the `count` steps before them, and as
 * those of all other workers. */
static bool repeats(const dl_team *team, int64_t count)
{
    const int64_t first_ns = steps_ns(team, 0, count, 0);
    const int64_t most_ns = STEADY_NS + (int64_t)(STEADY_FRAC * (double)first_ns);
    for (int w = 0; w < team->config.workers; w++) {
        if (llabs(steps_ns(team, w, count, 0) - first_ns) > most_ns) return false;
        if (llabs(steps_ns(team, w, count, count) - first_ns) > most_ns) return false;
    }
    return first_ns > 0;
}

/* Ends the run if its steps repeat. */
static void look_for_repetition(dl_team *team)
{
    const dl_team_config *config = &team->config;
    int64_t least = INT64_MAX;
    for (int w = 0; w < config->workers; w++) {
        const dl_worker *worker = &team->workers[w];
        if (worker->steps_done < config->steady_after || worker->dropped > 0) return;
        if (worker->steps_done < least) least = worker->steps_done;
    }
    for (int period = 1; period <= DL_TEAM_PERIODS; period++) {
        const int64_t count = period * config->interval;
        if (least - config->steady_after < 2 * count) return;
        if (!repeats(team, count)) continue;
        const int64_t two_ns = steps_ns(team, 0, 2 * count, 0);
        team->steady_steps_per_ns = 2.0 * (double)count * config->workers / (double)two_ns;
        team->engine.stopped = true;
        return;
    }
}

/* Restarts the counts of the whole team, at the end of its warm-up. */
static void start_measuring(dl_team *team)
{
    team->is_warm = true;
    team->warm_ns = team->engine.now_ns;
    team->warm_version = team->version;
    team->drift_sum = team->drift_max = team->steps_started = team->clock_lag_max = 0;
}

/* Ends the worker's warm-up. A worker whose first step after the team's warm-up ends while the run
 * stops keeps warm_up_steps 0. */
static void end_warm_up(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    if (w->steps_done == team->config.warmup && !team->is_warm) start_measuring(team);
    if (!team->is_warm || w->warm_up_steps > 0 || team->stopping) return;
    memset(w->spent_ns, 0, sizeof w->spent_ns);
    if (team->on_core != NULL) team->on_core[worker].queue_ns = 0;
    w->dropped = 0;
    COMPANIONS_DO(team, warmed_up, (team, worker));
    w->measured_since_ns = team->engine.now_ns;
    w->warm_up_steps = w->steps_done;
}

/* Stops the run when all workers have done their steps, or immediately with `at_once`. */
static void stop_if_done(dl_team *team, bool at_once)
{
    if (team->stopping || (!at_once && team->done < team->config.workers)) return;
    team->stopping = true;
    dl_team_wake(team);
    COMPANIONS_DO(team, close, (team));
}

void dl_team_pause(dl_team *team, int worker)
{
    enter(team, worker, DL_STATE_WAIT);
}

void dl_team_resume(dl_team *team, int worker)
{
    end(team, worker);
}

void dl_team_retire(dl_team *team, int worker)
{
    dl_team_pause(team, worker);
    team->done++;
    stop_if_done(team, false);
}

void dl_team_end_step(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    int64_t now_ns = team->engine.now_ns;
    if (team->config.keeps_logs) {
        dl_team_step_log(team, worker)[w->steps_done] = now_ns - w->step_start_ns;
        dl_team_staleness_log(team, worker)[w->steps_done] = w->staleness;
    } else if (is_measured(team, w)) {
        dl_tally_add(&team->tallies.steps, now_ns - w->step_start_ns);
    }
    w->last_end_ns = now_ns;
    COMPANIONS_DO(team, step_ended, (team, worker));
    const dl_team_observer *observer = team->config.observer;
    if (observer != NULL && observer->step != NULL) {
        observer->step(observer->user, worker, w->steps_done, w->step_start_ns, now_ns,
                       w->staleness);
    }
    if (observer != NULL && observer->is_enough != NULL && *observer->is_enough)
        team->engine.stopped = true;
    team->steps_ended++;
    if (w->stage > team->stage_most) team->stage_most = w->stage;
    advance_clock(team, worker, ++w->steps_done);
    end_warm_up(team, worker);
    if (team->config.steady_after > 0 && !team->stopping) look_for_repetition(team);
    if (team->engine.stopped) return;
    if (team->config.platform->step_ended != NULL) team->config.platform->step_ended(team, worker);
    const bool is_done = w->steps_done == team->config.steps;
    if (is_done) {
        team->done++;
        stop_if_done(team, !team->config.each_ends);
    }
    if (!team->stopping && !is_done) start_step(team, worker);
}

double dl_team_done_frac(const dl_team *team)
{
    const double steps = (double)team->config.steps * team->config.workers;
    const double of_workers = (double)team->config.workers / team->agents;
    const double stages = team->stage_most > 0 ? (double)team->stages_ended / team->stage_most : 0;
    return fmin(1, fmax((double)team->steps_ended, of_workers * stages) / steps);
}

bool dl_team_is_stuck(const dl_team *team)
{
    return !team->engine.too_long && !team->engine.stopped && !team->stopping;
}

/* Whether exchanges may remain incomplete at the end of the run because not all agents reach them:
 * communication threads, whose workers may be in different steps; workers with different intervals;
 * absent workers. */
static bool may_abandon(const dl_team *team)
{
    return team->stopping &&
           (team->config.comm_threads || team->config.interval_by_speed || team->members != NULL);
}

void dl_team_run(dl_team *team)
{
    const struct dl_platform *platform = team->config.platform;
    if (platform->start != NULL) platform->start(team);
    for (int w = 0; w < team->config.workers; w++)
        start_step(team, w);
    COMPANIONS_DO(team, start, (team));
    dl_engine_run(&team->engine);
    if (platform->ended != NULL) platform->ended(team);
    if (team->engine.too_long || team->engine.stopped) return;
    if (dl_team_is_stuck(team)) return;
    DL_ASSERT((team->arrived_count == 0 || may_abandon(team)) && team->lock_owner < 0,
              "the run ended with %d workers at the barrier, worker %d in the lock",
              team->arrived_count, team->lock_owner);
    for (int w = 0; w < team->config.workers; w++)
        leave_over(team, w);
    COMPANIONS_DO(team, ended, (team));
}

/* --- exchange -------------------------------------------------------------------------------- */

void dl_team_exchange(dl_team *team, int agent, dl_exchange exchange)
{
    enter(team, agent,
          exchange.kind == DL_PUSH                                ? DL_STATE_PUSH
          : exchange.kind == DL_PULL || exchange.kind == DL_FETCH ? DL_STATE_PULL
                                                                  : DL_STATE_AVERAGE);
    team->config.platform->exchange(team, agent, exchange);
}

static bool pulls_under_lock(const dl_team *team)
{
    return team->config.pulls_under_lock || !team->config.platform->serves_while_pulled;
}

void dl_team_pull_locked(dl_team *team, int worker)
{
    if (!pulls_under_lock(team)) dl_team_unlock(team, worker);
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PULL});
}

void dl_team_leave(dl_team *team, int worker)
{
    if (pulls_under_lock(team)) dl_team_unlock(team, worker);
}
