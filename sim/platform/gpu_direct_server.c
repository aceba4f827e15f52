/* Runs of GPUs that exchange with one server (async, ssp, softsync, ps, average), without the
 * engine and its network, but bit by bit as by them: the same events in the same order
 * (sim/platform/gpu_events.h), each with a few bytes of state. Copies to a server on a GPU share
 * one way, those from it another (sim/platform/gpu_way.h); those of a server in host memory share
 * that (sim/platform/gpu_hub.h). */
#include "sim/platform/gpu_events.h"
#include "sim/platform/gpu_hub.h"
#include "sim/platform/gpu_way.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/sync/mode.h"

#define WORKER_BITS DL_GPU_EVENT_WORKER_BITS
#define WORKERS_MOST (1 << WORKER_BITS)
#define AHEAD_MOST 64
#define STEPS_MOST (1 << 20)
#define LINE_BYTES 64

/* Kinds of events: those that come a fixed time after their cause, ends of computing, ends of
 * copies, of which each way has one, and sharing, which comes at once; and the ways. */
enum {
    LAUNCH,     /* of a step starts */
    LAUNCH_END, /* of a step */
    PUSH,       /* a copy to the server, after its latency */
    PULL,
    SERVE,
    LOCK, /* the worker has it */
    RELEASE,
    LINES,
    COMPUTED = DL_GPU_EVENT_VARIES,
    COPIED = DL_GPU_EVENT_SINGLE, /* and which way */
    SHARE = COPIED + 3,
    WAY_IN = 0,
    WAY_OUT,
    MEMORY, /* of the server: one at a time */
    WAYS
};

_Static_assert(DL_WAY_WORKER_BITS == WORKER_BITS, "workers are numbered alike");
_Static_assert(LINES == DL_GPU_EVENT_LINES && COPIED + WAYS == SHARE && SHARE < DL_GPU_EVENT_KINDS,
               "kinds of events");
_Static_assert((int)WAY_IN == (int)DL_HUB_IN && (int)WAY_OUT == (int)DL_HUB_OUT, "ways alike");

/* The worker's state: what its GPU waits for; or that a copy's latency is not everyone's. */
typedef enum phase { IDLE, FOR_LAUNCH, FOR_LAUNCH_END, BEFORE_PUSH, BEFORE_PULL } phase;

typedef struct served {
    dl_team *team;
    dl_gpus *gpus;
    const dl_noise_source *noise;
    dl_worker *agents; /* the team's */
    int workers;
    dl_gpu_events events;
    dl_gpu_hub *hub; /* of a server in host memory; NULL: the ways are those of one on a GPU */
    int next_bundle; /* of the hub, whose copy is the next to end */
    dl_gpu_way ways[WAYS];
    int threads;         /* of the server */
    int64_t serving_ns;  /* what it always takes to serve one worker at a time; else DL_NS_MAX */
    bool is_dirty[WAYS]; /* to be shared anew */
    int dirty[WAYS], dirty_count;
    bool shares;        /* a SHARE is due */
    dl_gpu_ended ended; /* copies whose ends are to be reported */
    uint32_t *queue;    /* [workers] ring of who waits for the lock */
    uint32_t queue_first, queue_count;
    int owner;
    int *waiting; /* [workers] at the barrier or for the slowest, in the order of arrival */
    int waiting_count;
    int64_t woken_clock; /* the least clock when those who wait were looked at last */
    int32_t *clocks;     /* [steps + 2] workers with this clock */
    int64_t least_clock;
    double slow;           /* of all, or */
    const double *slow_of; /* of each */
    double moved_bytes, sent_bytes;
    int staying; /* the first workers copy within their domain (dl_machine_domain), the others do
                    not */
    bool waits_for_all; /* at a barrier before an exchange: ps, average */
    bool with_update;   /* they update in each step: average */
    bool counts; /* an update needs `needed` gradients: softsync, kbatchasync; else async, ssp */
    int64_t needed;
    double bound;
    int64_t ahead, interval;
} served;

/* The worker's state is asked for before it is needed. */
static inline void prefetch(const served *s, uint64_t worker)
{
    __builtin_prefetch(&s->agents[worker]);
    __builtin_prefetch((const char *)&s->agents[worker] + LINE_BYTES);
}

/* --- copies ---------------------------------------------------------------------------------- */

static void mark_dirty(served *s, int which)
{
    if (s->is_dirty[which]) return;
    s->is_dirty[which] = true;
    s->dirty[s->dirty_count++] = which;
}

static void on_hub(void *served, int number);

/* The same where the server is in host memory. */
static void join_hub(served *s, int which, int worker)
{
    const int number = which << WORKER_BITS | worker;
    s->team->engine.now_ns = s->events.now_ns;
    if (which == MEMORY) {
        dl_gpu_hub_serve(s->hub, s->waits_for_all ? worker : 0, s->ways[MEMORY].bytes, on_hub, s,
                         number);
    } else {
        dl_gpu_hub_copy(s->hub, worker, which, s->ways[which].bytes, on_hub, s, number);
    }
}

/* Shares the way among its copies, and schedules the next end. */
static void share(served *s, int which)
{
    dl_gpu_events_set(&s->events, COPIED + which, dl_gpu_way_share(&s->ways[which]));
}

static void on_copied(served *s, int which, int worker);

/* As the network's synchronize; but that shares what has parted after all else. It comes to the
 * same: the order is that of two ways' next ends, if they come at one ns, and then they are of
 * workers at unlike stages, who have nothing to do with one another before what takes no time. */
static void synchronize(served *s)
{
    for (int i = 0; i < s->dirty_count; i++) {
        const int which = s->dirty[i];
        dl_gpu_way *v = &s->ways[which];
        dl_gpu_way_end(v, s->events.now_ns, which, &s->ended);
        if (v->count > 0) prefetch(s, (uint64_t)v->copies[v->first].worker);
        share(s, which);
        s->is_dirty[which] = false;
    }
    s->dirty_count = 0;
    const size_t count = s->ended.count;
    for (size_t i = 0; i < count; i++) {
        const uint32_t *one = &s->ended.items[i];
        if (i + 2 < count) prefetch(s, one[2] & (WORKERS_MOST - 1));
        if (i + 1 == count) s->ended.count = 0; /* what follows on it is all that is left to do */
        on_copied(s, (int)(*one >> WORKER_BITS), (int)(*one & (WORKERS_MOST - 1)));
    }
}

/* Whether what comes `delay_ns` after now, scheduled last of all in an event, is the next event;
 * then it is that event now. */
static bool goes_on(served *s, int64_t delay_ns)
{
    return s->hub == NULL && s->ended.count == 0 && dl_gpu_events_go_on(&s->events, delay_ns);
}

/* A copy starts to move bytes. */
static void join(served *s, int which, int worker)
{
    if (s->hub != NULL) {
        join_hub(s, which, worker);
        return;
    }
    const bool is_next = goes_on(s, 0);
    if (is_next && which == MEMORY && goes_on(s, s->serving_ns)) {
        s->ways[MEMORY].ended++;
        on_copied(s, MEMORY, worker);
        return;
    }
    dl_gpu_way_join(&s->ways[which], s->events.now_ns, worker);
    mark_dirty(s, which);
    if (is_next) {
        synchronize(s);
    } else if (!s->shares) {
        s->shares = true;
        dl_gpu_events_at_once(&s->events, SHARE, 0);
    }
}

static void on_hub(void *user, int number)
{
    on_copied(user, number >> WORKER_BITS, number & (WORKERS_MOST - 1));
}

/* As a network's driver. */
static void settle_hub(void *user)
{
    served *s = user;
    dl_gpu_events_at_once(&s->events, SHARE, 0);
}

static void end_in_hub(void *user, int64_t delay_ns, int bundle)
{
    served *s = user;
    s->next_bundle = bundle;
    dl_gpu_events_set(&s->events, COPIED, delay_ns);
}

/* Shares are due, or a copy that ends. */
static void on_shares(served *s, int kind)
{
    s->team->engine.now_ns = s->events.now_ns;
    if (s->hub != NULL && kind == SHARE) {
        dl_network_settle(&s->hub->network);
    } else if (s->hub != NULL) {
        dl_network_end_next(&s->hub->network, s->next_bundle);
    } else if (kind == SHARE) {
        s->shares = false;
        synchronize(s);
    } else {
        mark_dirty(s, kind - COPIED);
        synchronize(s);
    }
}

/* --- a worker's step ------------------------------------------------------------------------- */

/* What the worker was at has ended; what follows starts. */
static inline void account(const served *s, dl_worker *a, int state)
{
    a->spent_ns[state] += s->events.now_ns - a->state_start_ns;
    a->state_start_ns = s->events.now_ns;
}

static void start_work(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    const double factor = dl_noise_next(s->noise, &a->noise);
    double slow = s->slow_of != NULL ? s->slow_of[worker] : s->slow;
    slow *= dl_noise_next_work(s->noise, &a->noise);
    const dl_gpu_step *step = dl_gpu_step_of(s->gpus->config.steps, worker);
    a->state = IDLE;
    dl_gpu_events_in(&s->events, dl_ns_ceil(dl_gpus_work_ns(step, slow, s->with_update) * factor),
                     worker);
}

static void start_step(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    dl_team *team = s->team;
    const int64_t lag = a->steps_done - s->least_clock;
    if (lag > team->clock_lag_max) team->clock_lag_max = lag;
    if (s->waits_for_all) {
        const int64_t drift = a->steps_done % s->interval;
        if (drift > team->drift_max) team->drift_max = drift;
        team->drift_sum += drift;
    }
    team->steps_started++;
    a->step_start_ns = s->events.now_ns;
    a->stage = 0;
    if (a->started > 0) {
        start_work(s, worker);
    } else {
        a->state = FOR_LAUNCH;
    }
}

static void try_launch(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    /* The launches that have ended are less than ahead + 1 before the steps done. */
    if (a->launching || a->launched > s->ahead ||
        a->steps_done + a->launched == s->team->config.steps)
        return;
    a->launching = true;
    dl_gpu_events_after(&s->events, LAUNCH, worker);
}

/* A copy starts, and then moves bytes. */
static void start_copy(served *s, int which, int worker)
{
    s->moved_bytes += s->ways[which].bytes;
    if (goes_on(s, s->ways[which].latency_ns)) {
        join(s, which, worker);
        return;
    }
    if (s->hub == NULL || worker >= s->hub->apart_count) {
        dl_gpu_events_after(&s->events, which == WAY_IN ? PUSH : PULL, worker);
        return;
    }
    s->agents[worker].state = which == WAY_IN ? BEFORE_PUSH : BEFORE_PULL;
    dl_gpu_events_in(&s->events, dl_gpu_hub_latency(s->hub, worker, which), worker);
}

static void end_work(served *s, int worker);

static void on_launch(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    a->started++;
    dl_gpu_events_after(&s->events, LAUNCH_END, worker);
    if (a->state != FOR_LAUNCH) return;
    account(s, a, DL_SPENT_DISPATCH);
    start_work(s, worker);
}

static void on_launch_end(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    a->launched++;
    a->launching = false;
    try_launch(s, worker);
    if (a->state != FOR_LAUNCH_END) return;
    account(s, a, DL_SPENT_DISPATCH);
    end_work(s, worker);
}

static void on_computed(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    if (a->state == BEFORE_PUSH || a->state == BEFORE_PULL) {
        join(s, a->state == BEFORE_PUSH ? WAY_IN : WAY_OUT, worker);
        return;
    }
    account(s, a, DL_SPENT_COMPUTE);
    if (a->launched > 0) {
        end_work(s, worker);
    } else {
        a->state = FOR_LAUNCH_END;
    }
}

/* The worker's clock is `clock` now, and was one less. */
static void advance_clock(served *s, int64_t clock)
{
    s->clocks[clock - 1]--;
    s->clocks[clock]++;
    while (s->clocks[s->least_clock] == 0)
        s->least_clock++;
}

static void end_warm_up(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    dl_team *team = s->team;
    if (a->steps_done == team->config.warmup && !team->is_warm) {
        team->is_warm = true;
        team->warm_ns = s->events.now_ns;
        team->warm_version = team->version;
        team->drift_sum = team->drift_max = team->steps_started = team->clock_lag_max = 0;
    }
    if (!team->is_warm || a->is_measured || team->stopping) return;
    memset(a->spent_ns, 0, sizeof a->spent_ns);
    a->measured_since_ns = s->events.now_ns;
    a->warm_up_steps = a->steps_done;
    a->is_measured = true;
}

static void wake(served *s);

static void end_step(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    dl_team *team = s->team;
    if (team->config.keeps_logs) {
        dl_team_step_log(team, worker)[a->steps_done] = s->events.now_ns - a->step_start_ns;
        if (s->waits_for_all)
            dl_team_staleness_log(team, worker)[a->steps_done] = DL_NO_STALENESS_YET;
    } else if (a->is_measured) {
        dl_tally_add(&team->tallies.steps, s->events.now_ns - a->step_start_ns);
    }
    a->steps_done++;
    a->started--;
    a->launched--;
    if (s->waits_for_all) advance_clock(s, a->steps_done);
    if (team->config.warmup > 0) end_warm_up(s, worker);
    try_launch(s, worker);
    const bool is_done = a->steps_done == team->config.steps;
    if (is_done) {
        team->done++;
        if (!team->stopping) {
            team->stopping = true;
            wake(s);
        }
    }
    if (!team->stopping && !is_done) start_step(s, worker);
}

static void start_pull(served *s, int worker)
{
    if (worker >= s->staying) s->sent_bytes += s->ways[WAY_OUT].bytes;
    start_copy(s, WAY_OUT, worker);
}

/* --- each for itself ------------------------------------------------------------------------- */

enum { FIRST_LOCK, SECOND_LOCK }; /* to have the gradient applied; to pull after waiting */

static bool is_within_bound(const served *s, int worker)
{
    return (double)(s->agents[worker].steps_done + 1 - s->least_clock) <= s->bound;
}

/* Those who waited for the slowest go on. */
static void wake(served *s)
{
    if (s->waits_for_all || (s->woken_clock == s->least_clock && !s->team->stopping)) return;
    int left = 0;
    for (int i = 0; i < s->waiting_count; i++) {
        const int worker = s->waiting[i];
        if (s->team->stopping || is_within_bound(s, worker)) {
            dl_gpu_events_after(&s->events, RELEASE, worker);
        } else {
            s->waiting[left++] = worker;
        }
    }
    s->waiting_count = left;
    s->woken_clock = s->least_clock;
}

static void has_lock(served *s, int worker);

static void take_lock(served *s, int worker)
{
    if (s->owner >= 0) {
        uint32_t at = s->queue_first + s->queue_count++;
        if (at >= (uint32_t)s->workers) at -= (uint32_t)s->workers;
        s->queue[at] = (uint32_t)worker;
        return;
    }
    s->owner = worker;
    s->team->lock_since_ns = s->events.now_ns;
    has_lock(s, worker);
}

static void unlock(served *s)
{
    dl_team *team = s->team;
    if (s->queue_count > 0) {
        s->owner = (int)s->queue[s->queue_first];
        if (++s->queue_first == (uint32_t)s->workers) s->queue_first = 0;
        s->queue_count--;
        prefetch(s, s->queue[s->queue_first]);
        dl_gpu_events_after(&s->events, LOCK, s->owner);
        return;
    }
    s->owner = -1;
    team->lock_busy_ns += s->events.now_ns - team->lock_since_ns;
}

static void pull_locked(served *s, int worker)
{
    s->agents[worker].read_version = s->team->version;
    unlock(s);
    start_pull(s, worker);
}

/* The worker's gradient counts, for the update that has it or the next one. */
static int contribute(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    const int staleness = (int)(s->team->version - a->read_version);
    if (s->team->config.keeps_logs)
        dl_team_staleness_log(s->team, worker)[a->steps_done] = staleness;
    advance_clock(s, a->steps_done + 1);
    return staleness;
}

static void tally(served *s, int worker, int staleness)
{
    dl_team_tally_staleness(&s->team->tallies, staleness);
    s->agents[worker].staleness_sum += staleness;
}

/* Contributes to the next update; the one whose gradient is the last that is needed has it made. */
static void count_gradient(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    dl_team *team = s->team;
    const int64_t version = team->version;
    const int staleness = contribute(s, worker);
    if (a->contributed_version != version) a->contributions = 0;
    a->contributed_version = version;
    a->contributions++;
    if (!team->config.keeps_logs && a->is_measured) dl_team_add_pending(team, worker, staleness);
    if (++team->gradients >= s->needed) {
        dl_gpu_events_after(&s->events, SERVE, worker);
    } else {
        pull_locked(s, worker);
    }
}

static void has_lock(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    account(s, a, DL_SPENT_WAITING);
    if (a->stage == SECOND_LOCK) {
        pull_locked(s, worker);
    } else if (s->counts) {
        count_gradient(s, worker);
    } else {
        dl_gpu_events_after(&s->events, SERVE, worker);
    }
}

/* The server has applied several gradients. */
static void on_counted(served *s, int worker)
{
    dl_team *team = s->team;
    dl_team_tallies *t = &team->tallies;
    account(s, &s->agents[worker], DL_SPENT_AVERAGE);
    for (size_t i = 0; i < t->pending_count; i++)
        tally(s, t->pending[i].worker, t->pending[i].staleness);
    t->pending_count = 0;
    team->version++;
    team->gradients = 0;
    pull_locked(s, worker);
}

/* The server has applied the worker's gradient. */
static void on_applied(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    dl_team *team = s->team;
    account(s, a, DL_SPENT_AVERAGE);
    const int staleness = contribute(s, worker);
    if (!team->config.keeps_logs && a->is_measured) tally(s, worker, staleness);
    team->version++;
    wake(s);
    if (is_within_bound(s, worker)) {
        pull_locked(s, worker);
        return;
    }
    unlock(s);
    a->stage = SECOND_LOCK;
    if (team->stopping) { /* nobody waits any more */
        take_lock(s, worker);
    } else {
        s->waiting[s->waiting_count++] = worker;
    }
}

/* --- all together ---------------------------------------------------------------------------- */

/* Stages of an exchange: a barrier of all, the first workers have the server sum or average, a
 * barrier of all again. */
enum { BEFORE_SERVING, AFTER_SERVING };

static void reach_barrier(served *s, int worker)
{
    s->waiting[s->waiting_count++] = worker;
    if (s->waiting_count < s->workers) return;
    for (int i = 0; i < s->waiting_count; i++)
        dl_gpu_events_after(&s->events, RELEASE, s->waiting[i]);
    s->waiting_count = 0;
}

static void after_barrier(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    if (a->stage == BEFORE_SERVING) {
        a->stage = AFTER_SERVING;
        if (worker < s->threads) {
            dl_gpu_events_after(&s->events, SERVE, worker);
        } else {
            reach_barrier(s, worker);
        }
        return;
    }
    if (worker == 0) s->team->version++;
    start_pull(s, worker);
}

/* --- both ------------------------------------------------------------------------------------ */

static void end_work(served *s, int worker)
{
    dl_worker *a = &s->agents[worker];
    a->state = IDLE;
    if (s->waits_for_all && (a->steps_done + 1) % s->interval != 0) {
        end_step(s, worker);
        return;
    }
    start_copy(s, WAY_IN, worker);
}

static void on_release(served *s, int worker)
{
    account(s, &s->agents[worker], DL_SPENT_WAITING);
    if (s->waits_for_all) {
        after_barrier(s, worker);
    } else {
        take_lock(s, worker);
    }
}

static void on_copied(served *s, int which, int worker)
{
    dl_worker *a = &s->agents[worker];
    if (which == WAY_OUT) {
        account(s, a, DL_SPENT_COPIES);
        end_step(s, worker);
    } else if (which == MEMORY && s->counts) {
        on_counted(s, worker);
    } else if (which == MEMORY && !s->waits_for_all) {
        on_applied(s, worker);
    } else {
        account(s, a, which == WAY_IN ? DL_SPENT_COPIES : DL_SPENT_AVERAGE);
        if (s->waits_for_all) {
            reach_barrier(s, worker);
        } else {
            take_lock(s, worker);
        }
    }
}

static void happen(served *s, int kind, int worker)
{
    switch (kind) {
    case LAUNCH: on_launch(s, worker); break;
    case LAUNCH_END: on_launch_end(s, worker); break;
    case PUSH: join(s, WAY_IN, worker); break;
    case PULL: join(s, WAY_OUT, worker); break;
    case SERVE: join(s, MEMORY, worker); break;
    case LOCK: has_lock(s, worker); break;
    case RELEASE: on_release(s, worker); break;
    case COMPUTED: on_computed(s, worker); break;
    default: /* SHARE, or COPIED and which way */ on_shares(s, kind); break;
    }
}

static void run(served *s)
{
    int kind, worker;
    for (int w = 0; w < s->workers; w++)
        try_launch(s, w);
    for (int w = 0; w < s->workers; w++)
        start_step(s, w);
    while (dl_gpu_events_take(&s->events, &kind, &worker)) {
        if (s->events.soon >= 0) prefetch(s, (uint64_t)s->events.soon);
        happen(s, kind, worker);
    }
    s->team->is_undecided |= s->events.is_too_far;
}

/* --- whether a run can go so ----------------------------------------------------------------- */

bool dl_gpus_may_serve_directly(const dl_gpus *gpus)
{
    const dl_gpus_config *config = &gpus->config;
    const dl_gpu_options *options = config->options;
    return config->may_be_direct && !config->alone && !config->collective && !config->with_input &&
           !config->overlap && !config->slows && !config->elastic && !dl_server_is_wanted(gpus) &&
           config->inside_bytes <= 0 && config->before_count == 0 && config->workers > 1 &&
           config->workers < WORKERS_MOST && options->shards == 1 &&
           options->where != DL_WHERE_ALLREDUCE && config->server_threads <= config->workers &&
           options->dispatch == DL_DISPATCH_PER_GPU && options->ahead <= AHEAD_MOST &&
           !(options->reads_forward && options->ahead > 0) && !options->in_turn &&
           !options->pageable && options->compression.kind == DL_COMPRESS_NONE &&
           options->tensors == DL_TENSORS_SPLIT && !options->staged_stops &&
           !options->without_contention && options->machine.fabric.traffic_count == 0 &&
           config->workers <= dl_gpu_options_count(options);
}

/* As far as the mode is concerned. */
static bool is_coupled_so(const dl_team_config *config)
{
    switch (config->coupling) {
    case DL_COUPLING_PARAMETERS:
        return !config->interval_by_speed && !config->outer_update && !config->reduces_inside &&
               config->fragments == 1;
    case DL_COUPLING_SUMS:
    case DL_COUPLING_SERVER: return true;
    case DL_COUPLING_SOME: return !config->sums_on_arrival && isinf(config->option[DL_SYNC_BOUND]);
    case DL_COUPLING_NONE:
    case DL_COUPLING_GRADIENTS:
    case DL_COUPLING_OTHER: break;
    }
    return false;
}

static bool is_possible(const dl_team *team, const dl_gpus *gpus)
{
    const dl_team_config *config = &team->config;
    return dl_gpus_may_serve_directly(gpus) && is_coupled_so(config) && team->spinning &&
           config->observer == NULL && config->steady_after == 0 && config->syncer == NULL &&
           !config->each_ends && !dl_absences_given(&config->absences) && !config->comm_threads &&
           config->steps <= STEPS_MOST && gpus->server == NULL;
}

/* --- setting up ------------------------------------------------------------------------------ */

static void init_agents(served *s)
{
    s->agents = s->team->workers;
    for (int w = 0; w < s->workers; w++)
        s->agents[w].is_measured = s->team->config.warmup == 0;
}

/* Whether all are as slow as one another: then no array is asked. */
static void find_slow(served *s)
{
    const double *slow = s->team->config.slow;
    s->slow = slow != NULL ? slow[0] : 1;
    for (int w = 1; slow != NULL && w < s->workers; w++)
        if (slow[w] < s->slow || slow[w] > s->slow) s->slow_of = slow;
}

/* What a thread of the server does with what it gets. */
static dl_exchange exchange_of(const served *s)
{
    return (dl_exchange){
        .kind = !s->waits_for_all ? DL_APPLY
                : s->with_update  ? DL_AVERAGE
                                  : DL_SUM,
        .gradients = s->needed > 1 ? s->needed : 1,
        .with_state = s->with_update && s->team->config.average_state,
    };
}

/* Sets the bytes of each way. */
static bool set_bytes(served *s)
{
    const dl_workload *w = s->team->config.workload;
    const dl_exchange exchange = exchange_of(s);
    const double bytes = w->parameter_bytes + (exchange.with_state ? w->state_bytes : 0);
    s->ways[MEMORY].bytes = dl_gpus_serving_bytes(s->gpus, &exchange, bytes / s->threads);
    s->ways[WAY_IN].bytes = s->ways[WAY_OUT].bytes = bytes;
    return bytes > 0 && s->ways[MEMORY].bytes > 0;
}

static bool find_ways(served *s)
{
    dl_gpu_way_set_memory(&s->ways[MEMORY], s->gpus);
    return dl_gpu_ways_find(s->gpus, &s->ways[WAY_IN], &s->ways[WAY_OUT]);
}

/* What one worker alone takes of the server's memory. */
static int64_t find_serving_ns(const served *s)
{
    dl_gpu_way alone = s->ways[MEMORY];
    dl_gpu_ended ended = {0};
    dl_gpu_way_join(&alone, 0, 0);
    const int64_t ns = dl_gpu_way_share(&alone);
    dl_gpu_way_end(&alone, ns, MEMORY, &ended);
    free(alone.copies);
    free(ended.items);
    return ended.count == 1 ? ns : DL_NS_MAX;
}

static void make_hub(served *s, const dl_network_driver *driver)
{
    dl_exchange exchange = exchange_of(s);
    if (exchange.gradients > s->workers) exchange.gradients = s->workers; /* as dl_gpus_exchange */
    s->hub = dl_calloc(1, sizeof *s->hub, "network");
    dl_gpu_hub_init(s->hub, s->gpus, driver, exchange, s->threads);
    for (int i = 0; i < DL_HUB_WAYS; i++)
        s->ways[i].latency_ns = s->hub->ways[i].latency_ns;
}

/* How long each kind of event comes after its cause. */
static void set_delays(served *s)
{
    const dl_workload *w = s->team->config.workload;
    const dl_dispatch_config *dispatch = &s->gpus->dispatch.config;
    const dl_exchange exchange = exchange_of(s);
    const int64_t delay_ns[LINES] = {
        [LAUNCH] = dl_ns_ceil(dispatch->serial_ns),
        [LAUNCH_END] = dl_ns_ceil(dispatch->per_worker_ns),
        [PUSH] = s->ways[WAY_IN].latency_ns,
        [PULL] = s->ways[WAY_OUT].latency_ns,
        [SERVE] = dl_gpus_serving_of(s->gpus, &exchange).latency_ns,
        [LOCK] = dl_ns_ceil(w->lock_ns),
        [RELEASE] = dl_ns_ceil(w->barrier_ns),
    };
    dl_gpu_events_init(&s->events, s->workers, delay_ns);
}

static void free_served(served *s)
{
    for (int i = 0; i < WAYS; i++)
        free(s->ways[i].copies);
    if (s->hub != NULL) dl_gpu_hub_free(s->hub);
    free(s->hub);
    dl_gpu_events_free(&s->events);
    free(s->ended.items);
    free(s->queue);
    free(s->waiting);
    free(s->clocks);
}

/* --- what comes out -------------------------------------------------------------------------- */

/* What the engine would have left in the worker. */
static void give_worker(const served *s, int worker)
{
    dl_worker *w = &s->team->workers[worker];
    const int64_t staleness = w->staleness_sum;
    w->last_end_ns = w->state_start_ns;
    s->gpus->dispatch.threads[worker].step = w->steps_done + w->launched;
    if (w->contributed_version != s->team->version) w->contributions = 0;
    dl_team_leave_over(s->team, worker);
    if (s->team->tallies.staleness_count == 0) return;
    const bool counts = s->team->config.warmup == 0 || w->warm_up_steps > 0;
    s->team->tallies.worker_sum[worker] = staleness;
    s->team->tallies.worker_count[worker] = counts ? w->steps_done - w->warm_up_steps : 0;
}

/* Exchanges that the worker has done. */
static int64_t exchanges_of(const served *s, int worker)
{
    return s->agents[worker].steps_done / (s->waits_for_all ? s->interval : 1);
}

static void note_hub(served *s)
{
    int most = s->workers - 1;
    for (int w = most - 1; w >= s->hub->apart_count; w--)
        most = exchanges_of(s, w) >= exchanges_of(s, most) ? w : most;
    dl_gpu_hub_note(s->hub, s->ways[WAY_IN].bytes, most, exchanges_of(s, most));
}

/* Bytes of the links that all copies of a way go over, as the network adds them up. */
static void note_carried(served *s)
{
    dl_gpus *gpus = s->gpus;
    if (s->hub != NULL) {
        note_hub(s);
        return;
    }
    gpus->carried = dl_calloc(WAYS * DL_WAY_LINKS, sizeof *gpus->carried, "links");
    for (int i = 0; i < WAYS; i++) {
        const dl_gpu_way *v = &s->ways[i];
        for (int l = 0; l < v->link_count; l++) {
            int at = gpus->carried_count++;
            for (; at > 0 && i != MEMORY && gpus->carried[at - 1].link > v->links[l]; at--)
                gpus->carried[at] = gpus->carried[at - 1];
            gpus->carried[at] = (dl_gpu_carried){i == MEMORY ? DL_CARRIED_BY_MEMORY : v->links[l],
                                                 v->capacity[l], dl_gpu_way_carried(v, l)};
        }
    }
}

static void give(served *s)
{
    dl_team *team = s->team;
    dl_gpus *gpus = s->gpus;
    const size_t workers = (size_t)s->workers;
    dl_team_tallies *t = &team->tallies;
    if (t->staleness_count > 0) {
        t->worker_sum = dl_calloc(workers, sizeof *t->worker_sum, "staleness of workers");
        t->worker_count = dl_calloc(workers, sizeof *t->worker_count, "gradients of workers");
    }
    for (int w = 0; w < s->workers; w++)
        give_worker(s, w);
    for (size_t i = 0; i < t->pending_count && t->worker_count != NULL; i++)
        t->worker_count[t->pending[i].worker]--; /* no update has it */
    gpus->moved_bytes = s->moved_bytes;
    /* No other site sends more than the server's, which sends each worker what it got from it. */
    if (s->staying < s->workers)
        gpus->sent_bytes[dl_machine_domain(&gpus->config.options->machine, gpus->servers[0].node)] =
            s->sent_bytes;
    team->engine.now_ns = s->events.now_ns;
    team->engine.handled = s->events.handled;
    team->is_direct = true;
    note_carried(s);
}

/* Which workers' copies leave their domains (dl_machine_domain); false if others follow on them. */
static bool find_domains(served *s)
{
    const dl_machine *m = &s->gpus->config.options->machine;
    const int domain = dl_machine_domain(m, s->gpus->servers[0].node);
    int leaving = 0;
    s->staying = 0;
    for (int w = 0; w < s->workers; w++) {
        const bool leaves = domain != dl_machine_domain(m, s->gpus->places[w].node);
        leaving += leaves;
        s->staying += !leaves && leaving == 0;
    }
    return s->staying + leaving == s->workers;
}

bool dl_gpus_serve_directly(dl_team *team)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const dl_team_config *config = &team->config;
    if (!is_possible(team, gpus)) return false;
    const size_t workers = (size_t)config->workers;
    served s = {
        .team = team,
        .gpus = gpus,
        .noise = &team->noise,
        .workers = config->workers,
        .owner = -1,
        .waits_for_all =
            config->coupling == DL_COUPLING_PARAMETERS || config->coupling == DL_COUPLING_SUMS,
        .with_update = config->coupling == DL_COUPLING_PARAMETERS,
        .counts = config->coupling == DL_COUPLING_SOME,
        .needed = config->update_gradients,
        .bound = config->option != NULL ? config->option[DL_SYNC_BOUND] : INFINITY,
        .ahead = gpus->dispatch.config.ahead,
        .interval = config->coupling == DL_COUPLING_PARAMETERS ? team->workers[0].interval : 1,
    };
    const bool on_host = gpus->servers[0].kind == DL_PLACE_HOST;
    const dl_network_driver driver = {settle_hub, end_in_hub, &s};
    s.threads = s.waits_for_all ? dl_gpus_serving_slices(gpus) : 1;
    if (!find_domains(&s) || !set_bytes(&s) || (!on_host && !find_ways(&s))) return false;
    if (on_host) make_hub(&s, &driver);
    s.serving_ns = on_host || s.waits_for_all ? DL_NS_MAX : find_serving_ns(&s);
    set_delays(&s);
    s.queue = dl_calloc(workers, sizeof *s.queue, "lock queue");
    s.waiting = dl_calloc(workers, sizeof *s.waiting, "waiting workers");
    s.clocks = dl_calloc((size_t)config->steps + 2, sizeof *s.clocks, "clocks");
    s.clocks[0] = s.workers;
    init_agents(&s);
    find_slow(&s);
    run(&s);
    give(&s);
    free_served(&s);
    return true;
}
