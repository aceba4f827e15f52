/* The workers of one run and what a sync mode lets them do: compute, move bytes, wait for each
 * other.
 *
 * A worker is a thread or a GPU (sim/platform/platform.h) and a small state machine: its mode's
 * advance() is called when the step starts and whenever what it started last has ended, and starts
 * exactly one thing more. The stage counts from 0 in each step and belongs to the mode.
 *
 * Waiting. With a core for each worker, threads spin: all leave a barrier barrier_ns after the last
 * arrival, the next one in the queue has the lock lock_ns after its release. With fewer cores they
 * block: the last one to arrive goes on at once, the others have work again wakeup_ns later, at the
 * end of their core's queue. Alone, nobody waits.
 *
 * The lock. Spinning, it is handed over in the order of arrival and belongs to its next owner from
 * the release on. Blocking, it is a mutex: a release makes it free and wakes the one that has slept
 * longest, which tries again when it has its core, and sleeps again if another one was faster.
 *
 * Who waits for a condition goes on as after a barrier: at once if it holds already, else
 * barrier_ns or wakeup_ns after it has come to hold.
 *
 * The server. What it has got of gradients since its last update is contributed; an update applies
 * all of it. A worker's clock is the number of steps of which it has contributed the gradient; in a
 * mode without contributions, of steps done.
 *
 * Communication threads. With config.comm_threads, each worker has one, which exchanges for it
 * while the worker computes on: a separate state machine, number workers + worker, for which
 * advance() is called too; on a CPU box a thread more. Its stage counts from 0 in each exchange.
 * Only these then arrive at barriers, and threads spin only if there is a core for them too. An
 * agent is either.
 *
 * The run. Every worker does `steps` steps; when the first one has done them, nobody starts a step
 * any more, and who waits for a condition goes on: so all statistics are of a time in which all
 * workers work, and a slow one has fewer. With config.each_ends every worker does all its steps.
 *
 * Times are ns from the common start. A worker's activities follow each other without gaps from 0
 * to the end of its last step.
 */
#ifndef DL_SIM_TEAM_H
#define DL_SIM_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/absence.h"
#include "sim/engine.h"
#include "sim/noise.h"
#include "sim/tally.h"
#include "sim/workload.h"

typedef enum dl_worker_state {
    DL_STATE_COMPUTE, /* input, dispatch, forward, backward, an update that follows at once */
    DL_STATE_UPDATE,  /* the optimizer on the worker, where an exchange lies before it */
    DL_STATE_PUSH,
    DL_STATE_PULL,
    DL_STATE_AVERAGE, /* averaging, and the server's update */
    DL_STATE_BARRIER,
    DL_STATE_LOCK,
    DL_STATE_WAIT, /* for a condition */
    DL_STATE_ALLREDUCE,
    DL_STATE_DISPATCH, /* of a GPU: for the host to issue the step */
    DL_STATE_INPUT,    /* for its batch */
    DL_STATE_COUNT
} dl_worker_state;

/* "compute", "update", "push", "pull", "average", "barrier", "lock", "wait",
 * "allreduce", "dispatch", "input". */
extern const char *const dl_worker_state_names[DL_STATE_COUNT];

/* What workers exchange, whatever machine they are on. Where there are slices, all workers start it
 * between two barriers, and those that have no slice are done at once. */
typedef enum dl_exchange_kind {
    DL_AVERAGE,      /* all workers' vectors are averaged, in slices by as many workers */
    DL_SUM,          /* the server adds up all workers' gradients and applies the sum, in slices */
    DL_OUTER_UPDATE, /* after an average, in its slices: a momentum update by what the average
                        differs from the parameters before (block momentum, DiLoCo's outer step) */
    DL_APPLY,        /* the server adds up `gradients` and applies the sum, for the one worker that
                     asks */
    DL_ADD,          /* the server adds the gradients of the one worker that asks to the `gradients`
                     that it has summed */
    DL_UPDATE,       /* the server applies what it has summed, for the one worker that asks */
    DL_BLEND,        /* the elastic update of the server's vector with that of a worker that has the
                     lock */
    DL_BLEND_OWN,    /* that of the worker's own vector with one that it has pulled */
    DL_PUSH,         /* the worker's vectors to the server */
    DL_PULL,         /* the server's to the worker */
    DL_FETCH,        /* what is averaged, from those who have it to the worker */
    DL_REDUCE_INSIDE, /* gradients of the workers of a site, which all start it; on GPUs only */
    DL_GATHER         /* the parts that workers have updated, to all; on GPUs only */
} dl_exchange_kind;

typedef struct dl_exchange {
    dl_exchange_kind kind;
    bool with_state; /* push, pull, average: with the optimizer's state */
    bool as_learned; /* push, average: of parameters, of which messages have the difference from
                          those of the last average */
    bool as_upload;  /* push: what was learned since the last upload, to a syncer; the worker keeps
                          the parameters that it goes on from */
    int slices;      /* average, sum, filter: 1 .. workers */
    int64_t gradients; /* apply, add */
    int servers;   /* push, pull: of how many agents, the first ones, each reads, or has written, an
                    equal part of it; 0: not given */
    bool in_place; /* pull: into what they have read */
} dl_exchange;

#define DL_NO_STALENESS_YET (-1)

typedef struct dl_team dl_team;
struct dl_platform;
struct dl_syncer;
struct dl_syncer_config;
struct dl_members;

/* Vectors that the workers exchange. */
typedef enum dl_exchanges {
    DL_EXCHANGES_NOTHING,
    DL_EXCHANGES_GRADIENTS,  /* of all workers in each step: one sum, one update */
    DL_EXCHANGES_PARAMETERS, /* once in a while: averages */
    DL_EXCHANGES_UPLOADS     /* gradients of each worker as it has them */
} dl_exchanges;

/* What a worker's time in its states is added up as. */
typedef enum dl_spent {
    DL_SPENT_COMPUTE,
    DL_SPENT_UPDATE,
    DL_SPENT_DISPATCH,
    DL_SPENT_INPUT,
    DL_SPENT_COPIES, /* push, pull, allreduce */
    DL_SPENT_AVERAGE,
    DL_SPENT_WAITING, /* barrier, lock, wait */
    DL_SPENT_COUNT
} dl_spent;

/* What the time in a state is added up as. */
dl_spent dl_spent_of(dl_worker_state state);

/* Whether a worker that waits may go on. What has become true must stay so. */
typedef bool (*dl_team_condition)(const dl_team *team, int worker);

/* A part of a run beside its workers' steps: absences, averages that workers come to and leave, a
 * syncer. Functions may be NULL. */
typedef struct dl_team_companion {
    int events, events_a_worker;                  /* pending at most */
    void (*init)(dl_team *team);                  /* the team has its workers */
    void (*start)(dl_team *team);                 /* all workers have started their first step */
    void (*warmed_up)(dl_team *team, int worker); /* the worker's time counts from now on */
    void (*close)(dl_team *team); /* the run stops: nothing that is planned takes place any more */
    void (*ended)(dl_team *team); /* the engine has handled all events */
    void (*free)(dl_team *team);
} dl_team_companion;

#define DL_TEAM_COMPANIONS_MAX 2

/* Watches a run; any function may be NULL. */
typedef struct dl_team_observer {
    void *user;
    void (*state)(void *user, int worker, dl_worker_state state, int64_t start_ns, int64_t end_ns);
    void (*step)(void *user, int worker, int64_t step, int64_t start_ns, int64_t end_ns,
                 int staleness); /* DL_NO_STALENESS_YET: the mode has none */
    /* dl_team_contribute of the worker's step, with parameters of version `read`; dl_team_update to
     * `version`. */
    void (*contribute)(void *user, int worker, int64_t step, int64_t read, int64_t now_ns);
    void (*update)(void *user, int64_t version, int64_t now_ns);
    /* A collective of the workers' GPUs, by dl_collective_kind_names, and which one of the step. */
    void (*collective)(void *user, const char *kind, int place, double bytes, int64_t start_ns,
                       int64_t end_ns);
    /* Of a syncer (sim/sync/syncer.h): what of `event`, by its dl_syncer_event; the worker has
     * ended `steps` steps. */
    void (*syncer)(void *user, int event, int worker, int64_t steps, int64_t version,
                   int64_t now_ns);
    /* Once one of these has set it, the run ends with the next step of a worker, and has no
     * figures. Not of split models. */
    const bool *is_enough;
    /* Only of split models (sim/island/island.h), whose GPUs count as workers here. */
    void (*pass)(void *user, int gpu, bool forward, int micro_batch, int64_t start_ns,
                 int64_t end_ns);
} dl_team_observer;

/* How workers on cores come by their batches (sim/platform/loaders.h). */
typedef struct dl_loading {
    int loaders; /* of each worker; 0: it makes its batches itself */
    int prefetch;
    double storage_bytes_per_ns; /* INFINITY: it limits nothing */
    double ahead_bytes;          /* >= 0; that storage reads on in a pause */
} dl_loading;

typedef struct dl_team_config {
    const struct dl_platform *platform;                          /* sim/platform/platform.h */
    const dl_team_companion *companions[DL_TEAM_COMPANIONS_MAX]; /* NULL = none */
    void *machine;               /* what the platform needs, borrowed until free; CPU: NULL */
    const dl_costs *costs;       /* the run's own; read by init only */
    const dl_workload *workload; /* borrowed until free */
    /* Of processes on cores. They reduce: an average takes reduce_ns from the last worker's arrival
     * on, is everywhere then, and nothing is pushed or pulled. Of that the others do as much as
     * they have time for before the last one arrives, until reduce_late_ns are left. Else a push
     * and a pull are half a round trip each (borrowed until free, NULL if there is none), which
     * takes so long while all workers keep cores busy; side_by_side is dl_side_by_side of them. */
    bool reduces;
    double reduce_ns, reduce_late_ns;
    const dl_collective_cost *roundtrip;
    double side_by_side;
    int cores, workers;
    dl_loading loading;    /* on cores */
    int64_t steps;         /* of a worker, those of the warm-up too */
    int64_t warmup;        /* of them, before those whose times in states count: of the fastest
                           * worker; each other one's count from the end of the step that it is in
                           * then */
    int64_t steady_after;  /* > 0: the run ends as soon as its steps repeat, see Repetition below,
                           * but not before each worker has done this many; no noise allowed */
    int64_t interval;      /* of the mode, with steady_after */
    bool pulls_under_lock; /* whatever the platform's server does: dlprof train's workers */
    bool keeps_logs;       /* of each step's time and staleness; needed by steady_after, a syncer */
    bool each_ends;        /* only of modes in which nobody waits for all */
    const double *option;  /* [DL_SYNC_SWEPT] of the point, for the mode; borrowed until free */
    /* Of workers that are unequally fast: the fastest one does the point's interval of local steps,
     * each other one as many as it can do in the same time, rounded, at least one. */
    bool interval_by_speed;
    const double *alone_ns; /* [workers] of a step without noise and exchange; NULL: as the workload
                             * and `slow` say; read by init only */
    const struct dl_syncer_config *syncer; /* sim/sync/syncer.h; NULL = none; borrowed until free */
    dl_absences absences; /* only with a syncer, or of mode average; borrowed until free */
    bool comm_threads;
    int server_threads; /* for the mode; 1..workers */
    bool average_state; /* for the mode, as the next two */
    bool outer_update, reduces_inside;
    bool gathers;  /* allreduce: after its own update each worker has all parameters gathered */
    int fragments; /* of the parameters, >= 1 */
    bool sums_on_arrival; /* for the mode: the server adds gradients as they come, by DL_ADD and
                             DL_UPDATE in place of DL_APPLY; on GPUs only */
    void (*advance)(dl_team *team, int worker);
    dl_exchanges exchanges;
    bool by_events; /* for tests: no run is worked out directly */
    const dl_noise_config *noise;
    uint64_t seed;
    uint32_t replicate;
    const double *slow;               /* [workers] factor on forward and backward; NULL = none */
    const dl_team_observer *observer; /* NULL = none */
} dl_team_config;

/* 192 bytes, of which there are as many as workers: what only some runs need lies elsewhere. Three
 * lines of the cache, the first two of which have what every step needs. */
typedef struct dl_worker {
    int16_t stage;            /* of the step, for the mode */
    uint8_t state;            /* dl_worker_state */
    bool computes : 1;        /* it has read, and not contributed since */
    bool updates_at_once : 1; /* its compute state has the update in it */
    bool tries_lock : 1;      /* woken to try for the lock, which it does when it has its core */
    int32_t staleness;        /* of this step's gradient */
    /* Steps, of which there are at most twice DL_STEPS_MAX (sim/sync/mode.h). */
    int32_t steps_done, clock;
    int64_t read_version;
    int64_t state_start_ns;
    int64_t spent_ns[DL_SPENT_COUNT]; /* without waiting for its core */
    int64_t step_start_ns;
    dl_noise noise;
    int32_t local_updates; /* since the workers last agreed, for the mode */
    int32_t interval;      /* local steps between two exchanges, for the mode */
    int32_t warm_up_steps; /* done during its warm-up */
    int32_t dropped;       /* whose gradient the mode has thrown away */
    union {
        int32_t
            contributions; /* with contributed_version; after the run, those that no update has */
        struct {           /* of a communication thread */
            int32_t handed_over, exchanged; /* exchanges got, and done */
        };
    };
    int64_t contributed_version; /* the server's, at the last contribution */
    int64_t measured_since_ns;   /* end of its warm-up */
    int64_t last_end_ns;         /* of its last step */
    double noise_factor;         /* of this step */
    double work_factor;          /* of this step: forward and backward, on cores input too */
} dl_worker;

/* A worker that waits. */
typedef struct dl_waiting {
    int worker;
    dl_team_condition condition;
} dl_waiting;

/* An agent that has a core among others. */
typedef struct dl_on_core {
    int64_t ran_ns;   /* on its core, when the state started */
    int64_t queue_ns; /* waiting in its core's run queue */
} dl_on_core;

/* A gradient that no update has in it yet. */
typedef struct dl_pending {
    int worker, staleness;
} dl_pending;

/* What a team without logs keeps of its steps. */
typedef struct dl_team_tallies {
    dl_tally steps;
    int64_t *staleness; /* [staleness_count] applied gradients by staleness */
    size_t staleness_count;
    int64_t *worker_sum, *worker_count; /* [workers] staleness of applied gradients */
    dl_pending *pending;
    size_t pending_count, pending_room;
} dl_team_tallies;

struct dl_team {
    dl_team_config config;
    dl_engine engine;
    void *machine;                 /* of the platform */
    struct dl_syncer *syncer;      /* NULL: there is none */
    struct dl_members *members;    /* NULL: all take part in all averages */
    struct dl_absentee *absentees; /* [workers] NULL: nobody is ever absent */
    dl_noise_source noise;
    dl_team_tallies tallies; /* without keeps_logs */
    int present;             /* workers that take part in averages */
    dl_worker *workers;      /* [agents]: the workers, then their communication threads */
    void *workers_block;     /* that they lie in, in lines of the cache */
    dl_on_core *on_core;     /* [agents] NULL: nobody waits for a core */
    /* With keeps_logs: [workers x steps]. */
    int64_t *step_ns;
    int32_t *staleness;
    int agents;
    bool spinning, stopping;
    bool is_direct; /* it was worked out directly (sim/platform/platform.h) */
    bool
        is_undecided; /* it was, and depends on the order of events at one ns, or workers that were taken to
                        * do the same did not: nothing of it is meant, it is to be run anew by events */
    bool is_warm;                  /* some worker has done the steps of the warm-up */
    int done;                      /* workers that have done all their steps */
    int64_t steps_ended;           /* of all workers */
    int64_t stages_ended;          /* of these and of those at hand, */
    int stage_most;                /* and the most that a step has had */
    int64_t warm_ns, warm_version; /* when it had, and `version` then; 0 without a warm-up */
    int64_t version;               /* updates that the server has applied */
    int64_t gradients;             /* contributed since the last one */
    dl_waiting *waiting;           /* [agents] for a condition, in the order of starting */
    int waiting_count;
    int *arrived; /* [workers] at the barrier, in the order of arrival */
    int arrived_count;
    int64_t arrived_ns; /* when the latest of them did */
    int64_t late_ns;    /* how long after the one before it the last of all arrived, last time */
    int *queue;         /* [agents] ring of who waits for the lock */
    int queue_first, queue_count, lock_owner;
    int64_t lock_since_ns, lock_busy_ns;
    int64_t drift_sum, drift_max, steps_started, clock_lag_max;
    int64_t least_clock; /* of all workers */
    int least_clock_count;
    double steady_steps_per_ns; /* of all workers; 0: not found */
};

/* [steps] the worker's logs, with keeps_logs. */
static inline int64_t *dl_team_step_log(const dl_team *team, int worker)
{
    return team->step_ns + (size_t)worker * (size_t)team->config.steps;
}

static inline int32_t *dl_team_staleness_log(const dl_team *team, int worker)
{
    return team->staleness + (size_t)worker * (size_t)team->config.steps;
}

/* Sets a team up at time 0. dl_team_free accepts a zeroed one. */
void dl_team_init(dl_team *team, const dl_team_config *config);
void dl_team_free(dl_team *team);

/* Runs to the end, until the engine says too_long, or until workers wait for what cannot come any
 * more (dl_team_is_stuck), or undecided: what was measured then means nothing. */
void dl_team_run(dl_team *team);

/* The part of the run's work that is done, about: the steps that have ended, or all stages that have,
 * of those at hand too. Where everybody waits for one server, those are most of it at first. */
double dl_team_done_frac(const dl_team *team);

/* Repetition. Without noise, what happens next depends on how far each worker is in its step, so
 * once m steps of every worker have taken as long as each one's m before, and all workers' equally
 * long, the next ones will too: the run need not go on. m is 1 to DL_TEAM_PERIODS intervals of the
 * mode. Stocks (batches made ahead, steps that the host is ahead) are not seen by that: they must
 * have filled before, hence steady_after. Runs that drop gradients are not looked at. */
#define DL_TEAM_PERIODS 4

/* After a run: nothing is left to happen, but workers have not done their steps. So it can come
 * where something beside the mode holds workers back, as one host thread that issues the steps of
 * all GPUs. */
bool dl_team_is_stuck(const dl_team *team);

/* A step of a worker on cores, without noise: input, dispatch, forward, backward. */
double dl_team_compute_ns(const dl_team *team, int worker);

/* What a mode starts; each ends with a call of advance. */
void dl_team_compute(dl_team *team, int worker, bool with_update);
void dl_team_local_update(dl_team *team, int worker);
void dl_team_barrier(dl_team *team, int worker);

/* Fewer workers come to the barrier than before: perhaps all are there. */
void dl_team_release_barrier(dl_team *team);
void dl_team_lock(dl_team *team, int worker);

void dl_team_wait(dl_team *team, int worker, dl_team_condition condition);

/* Cuts what the worker computes, if it does so, short: its mode goes on as if it were done. */
void dl_team_cut(dl_team *team, int worker);

/* The worker's gradients go to its communication thread, which starts the exchange as soon as it
 * has woken and has done the one before. Takes no time for the worker. */
void dl_team_hand_over(dl_team *team, int worker);

/* The communication thread has done an exchange: wakes who waits for it, and it starts the next one
 * it has got. */
void dl_team_exchanged(dl_team *team, int comm);

/* A condition: the worker's communication thread has done all exchanges that it has got. */
bool dl_team_comm_is_idle(const dl_team *team, int worker);

/* The worker that this agent is, or is the communication thread of. */
int dl_team_worker(const dl_team *team, int agent);

/* Who exchanges for the worker: its communication thread, or itself. */
int dl_team_exchanger(const dl_team *team, int worker);

/* Ends the step and, unless the run is over, starts the worker's next one. */
void dl_team_end_step(dl_team *team, int worker);

/* The worker, which has started nothing, waits until dl_team_resume, which calls its advance; or
 * will do no more steps, as if it had done all of them. */
void dl_team_pause(dl_team *team, int worker);
void dl_team_resume(dl_team *team, int worker);
void dl_team_retire(dl_team *team, int worker);

/* For platforms: what the worker was started on has ended. */
void dl_team_done(dl_team *team, int worker);

/* For platforms: from now on, what the worker is at counts as another state. */
void dl_team_change(dl_team *team, int worker, dl_worker_state state);

/* What takes no time. dl_team_unlock: `worker` must own the lock. dl_team_contribute: the next
 * update has the gradient of the worker's step in it, whose staleness is the number of updates
 * since the worker's last dl_team_read (since the start at first). dl_team_drop: no update will.
 * dl_team_update counts an update of the shared parameters. dl_team_wake lets those who wait, and
 * for whom their condition now holds, go on. */
void dl_team_unlock(dl_team *team, int worker);
void dl_team_contribute(dl_team *team, int worker);
void dl_team_drop(dl_team *team, int worker);
void dl_team_update(dl_team *team);
void dl_team_read(dl_team *team, int worker);
void dl_team_wake(dl_team *team);

/* Conditions: there are newer parameters than those that the worker has read; its last contribution
 * is in an update. */
bool dl_team_is_outdated(const dl_team *team, int worker);
bool dl_team_is_applied(const dl_team *team, int worker);

/* Starts an exchange, as dl_exchange_kind says; it ends with a call of advance. */
void dl_team_exchange(dl_team *team, int agent, dl_exchange exchange);

/* A worker that has the lock pulls the parameters as they are now, and leaves when it has them. The
 * lock is free after that or, where the platform serves while others pull, when the pull starts. */
void dl_team_pull_locked(dl_team *team, int worker);
void dl_team_leave(dl_team *team, int worker);

#endif
