/* The workers of one run and the actions of a sync mode: compute, move bytes, wait for each other.
 *
 * A worker is a thread or a GPU (sim/platform/platform.h) and a small state machine: its mode's
 * advance() is called when the step starts and whenever the last action has ended, and starts
 * exactly one further action. The stage counts from 0 in each step and belongs to the mode.
 *
 * Waiting. With a core for each worker, threads spin: all leave a barrier barrier_ns after the last
 * arrival, the next one in the queue has the lock lock_ns after its release. With fewer cores they
 * block: the last one to arrive continues at once, the others wake wakeup_ns later, at the end of
 * their core's queue. A single worker never waits.
 *
 * The lock. With spinning threads it is handed over in the order of arrival and belongs to its next
 * owner from the release on. With blocking ones it is a mutex: a release frees it and wakes the
 * thread that has slept longest, which tries again once it has its core, and sleeps again if
 * another one was faster.
 *
 * A worker that waits for a condition continues as after a barrier: at once if it holds already,
 * else barrier_ns or wakeup_ns after it becomes true.
 *
 * The server collects gradients that workers contribute; an update applies all those since the
 * previous one. A worker's clock is the number of steps whose gradient it has contributed or, in a
 * mode without contributions, the number of steps done.
 *
 * Communication threads. With config.comm_threads, each worker has one, which exchanges for it
 * while the worker computes: a separate state machine, number workers + worker, for which advance()
 * is called too; on a CPU machine, a further thread. Its stage counts from 0 in each exchange.
 * Barriers are then for communication threads only, and threads spin only if each of these has a
 * core, too. An agent is a worker or a communication thread.
 *
 * The run. When the first worker has done `steps` steps, no worker starts another step, and those
 * that wait for a condition continue: so all statistics cover a time in which all workers work, and
 * a slow one does fewer steps. With config.each_ends every worker does all `steps` steps.
 *
 * Times are ns from the common start. A worker's states follow each other without gaps from 0 to
 * the end of its last step.
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
    DL_STATE_UPDATE,  /* the optimizer on the worker, after an exchange */
    DL_STATE_PUSH,
    DL_STATE_PULL,
    DL_STATE_AVERAGE, /* averaging, and the server's update */
    DL_STATE_BARRIER,
    DL_STATE_LOCK,
    DL_STATE_WAIT, /* for a condition */
    DL_STATE_ALLREDUCE,
    DL_STATE_DISPATCH, /* of a GPU: waits for the host to issue the step */
    DL_STATE_INPUT,    /* waits for its batch */
    DL_STATE_COUNT
} dl_worker_state;

/* "compute", "update", "push", "pull", "average", "barrier", "lock", "wait",
 * "allreduce", "dispatch", "input". */
extern const char *const dl_worker_state_names[DL_STATE_COUNT];

/* Exchanges of workers, independent of the machine. With slices, all workers start the exchange
 * between two barriers, and those without a slice end it immediately. */
typedef enum dl_exchange_kind {
    DL_AVERAGE,       /* all workers' vectors are averaged, in slices by as many workers */
    DL_SUM,           /* the server sums all workers' gradients and applies the sum, in slices */
    DL_OUTER_UPDATE,  /* after an average, in its slices: a momentum update with the difference of
                         the average from the previous parameters (block momentum, DiLoCo's outer
                         step) */
    DL_APPLY,         /* the server sums `gradients` and applies the sum, for the worker that
                         asks */
    DL_ADD,           /* the server adds the asking worker's gradients to its sum of `gradients` */
    DL_UPDATE,        /* the server applies its sum, for the worker that asks */
    DL_BLEND,         /* elastic update of the server's vector with that of the worker with the
                         lock */
    DL_BLEND_OWN,     /* the same for the worker's own vector with one that it has pulled */
    DL_PUSH,          /* the worker's vectors to the server */
    DL_PULL,          /* the server's to the worker */
    DL_FETCH,         /* averaged parameters, from their holders to the worker */
    DL_REDUCE_INSIDE, /* sum of the gradients of a site's workers, all of which start it; on GPUs */
    DL_GATHER         /* parts updated by workers, to all; on GPUs only */
} dl_exchange_kind;

typedef struct dl_exchange {
    dl_exchange_kind kind;
    bool with_state;   /* push, pull, average: with the optimizer's state */
    bool as_learned;   /* push, average: messages carry the parameters' difference from those of
                          the last average */
    bool as_upload;    /* push: the change since the last upload, to a syncer; the worker keeps the
                          parameters it continues from */
    int slices;        /* average, sum, filter: 1 .. workers */
    int64_t gradients; /* apply, add */
    int servers;       /* push, pull: number of agents, the first ones, that each read, or have
                          written, an equal part of it; 0: not given */
    bool in_place;     /* pull: into the buffer they have read */
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
    DL_EXCHANGES_GRADIENTS,  /* of all workers in each step: one sum and update */
    DL_EXCHANGES_PARAMETERS, /* averages, at intervals */
    DL_EXCHANGES_UPLOADS     /* gradients of each worker when it has them */
} dl_exchanges;

/* Sums of a worker's time in its states. */
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

/* The sum to which time in a state is added. */
dl_spent dl_spent_of(dl_worker_state state);

/* Whether a waiting worker may continue. A condition that has become true must stay true. */
typedef bool (*dl_team_condition)(const dl_team *team, int worker);

/* A part of a run beside its workers' steps: absences, membership in averages, a syncer. Functions
 * may be NULL. */
typedef struct dl_team_companion {
    int events, events_a_worker;                  /* largest number pending */
    void (*init)(dl_team *team);                  /* the team has its workers */
    void (*start)(dl_team *team);                 /* all workers have started their first step */
    void (*warmed_up)(dl_team *team, int worker); /* the worker's time counts from now on */
    void (*close)(dl_team *team);                 /* the run stops: cancels pending events */
    void (*ended)(dl_team *team);                 /* the engine has handled all events */
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
    /* A collective of the workers' GPUs, by dl_collective_kind_names, and its index in the step. */
    void (*collective)(void *user, const char *kind, int place, double bytes, int64_t start_ns,
                       int64_t end_ns);
    /* An event of a syncer (sim/sync/syncer.h): `event` is a dl_syncer_event; the worker has done
     * `steps` steps. */
    void (*syncer)(void *user, int event, int worker, int64_t steps, int64_t version,
                   int64_t now_ns);
    /* Once a callback has set it, the run ends with the next step of a worker, without results. Not
     * for split models. */
    const bool *is_enough;
    /* Only of split models (sim/island/island.h), whose GPUs count as workers here. */
    void (*pass)(void *user, int gpu, bool forward, int micro_batch, int64_t start_ns,
                 int64_t end_ns);
} dl_team_observer;

/* How workers on cores get their batches (sim/platform/loaders.h). */
typedef struct dl_loading {
    int loaders; /* per worker; 0: the worker makes its batches itself */
    int prefetch;
    double storage_bytes_per_ns; /* INFINITY: no limit */
    double ahead_bytes;          /* >= 0; read ahead by storage in a pause */
} dl_loading;

typedef struct dl_team_config {
    const struct dl_platform *platform;                          /* sim/platform/platform.h */
    const dl_team_companion *companions[DL_TEAM_COMPANIONS_MAX]; /* NULL = none */
    void *machine;               /* the platform's configuration, borrowed until free; CPU: NULL */
    const dl_costs *costs;       /* the run's own; read by init only */
    const dl_workload *workload; /* borrowed until free */
    /* Processes on cores. If `reduces`, an average ends for all workers reduce_ns after the last
     * one arrives, and nothing is pushed or pulled; the earlier ones begin the exchange meanwhile,
     * which shortens that time to no less than reduce_late_ns. Otherwise a push and a pull take
     * half of `roundtrip` each (borrowed until free; NULL: none), measured while all workers keep
     * their cores busy; side_by_side is their dl_side_by_side. */
    bool reduces;
    double reduce_ns, reduce_late_ns;
    const dl_collective_cost *roundtrip;
    double side_by_side;
    int cores, workers;
    dl_loading loading;    /* on cores */
    int64_t steps;         /* per worker, warm-up included */
    int64_t warmup;        /* steps of the fastest worker before measuring starts; each other worker
                           is measured from the end of its step then in progress */
    int64_t steady_after;  /* > 0: the run ends once its steps repeat (see Repetition below), but
                              not before each worker has done this many; no noise allowed */
    int64_t interval;      /* of averages: steps repeat after it; for steady_after */
    bool pulls_under_lock; /* for any server of the platform: dlprof train's workers */
    bool keeps_logs;       /* of each step's time and staleness; needed by steady_after, a syncer */
    bool each_ends;        /* only in modes in which nobody waits for all */
    const double *option;  /* [DL_SYNC_SWEPT] of the point, for the mode; borrowed until free */
    /* For workers of unequal speed: the fastest one does the point's interval of local steps; each
     * other one does as many as fit into the same time, rounded, at least one. */
    bool interval_by_speed;
    const double *alone_ns; /* [workers] of a step without noise and exchange; NULL: from the
                               workload and `slow`; read by init only */
    const struct dl_syncer_config *syncer; /* sim/sync/syncer.h; NULL = none; borrowed until free */
    dl_absences absences; /* only with a syncer or mode average; borrowed until free */
    bool comm_threads;
    int server_threads; /* for the mode; 1..workers */
    bool average_state; /* for the mode, as the next two */
    bool outer_update, reduces_inside;
    bool gathers;         /* allreduce: each worker gathers all parameters after its update */
    int fragments;        /* of the parameters, >= 1 */
    bool sums_on_arrival; /* for the mode: the server sums gradients on arrival, by DL_ADD and
                             DL_UPDATE instead of DL_APPLY; on GPUs only */
    void (*advance)(dl_team *team, int worker);
    dl_exchanges exchanges;
    bool by_events; /* for tests: never computed directly */
    const dl_noise_config *noise;
    uint64_t seed;
    uint32_t replicate;
    const double *slow;               /* [workers] factor on forward and backward; NULL = none */
    const dl_team_observer *observer; /* NULL = none */
} dl_team_config;

/* Largest number of exchanges of a worker in the run. */
static inline double dl_team_exchanges(const dl_team_config *config)
{
    return (double)config->steps * config->fragments / (double)config->interval;
}

/* 192 bytes, one per worker; data that only some runs need is elsewhere. Three cache lines, the
 * first two with the data of every step. */
typedef struct dl_worker {
    int16_t stage;            /* of the step, for the mode */
    uint8_t state;            /* dl_worker_state */
    bool computes : 1;        /* has read, and not contributed since */
    bool updates_at_once : 1; /* its compute state includes the update */
    bool tries_lock : 1;      /* woken; tries for the lock once it has its core */
    int32_t staleness;        /* of this step's gradient */
    /* Steps, of which there are at most twice DL_STEPS_MAX (sim/sync/mode.h). */
    int32_t steps_done, clock;
    int64_t read_version;
    int64_t state_start_ns;
    int64_t spent_ns[DL_SPENT_COUNT]; /* without waiting for its core */
    int64_t step_start_ns;
    dl_noise noise;
    int32_t local_updates; /* since the last exchange, for the mode */
    int32_t interval;      /* local steps between two exchanges, for the mode */
    int32_t warm_up_steps; /* done during its warm-up */
    int32_t dropped;       /* steps whose gradient the mode has dropped */
    union {
        int32_t contributions; /* with contributed_version; after the run, those in no update */
        struct {               /* of a communication thread */
            int32_t handed_over, exchanged; /* exchanges received, and done */
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

/* An agent that shares a core. */
typedef struct dl_on_core {
    int64_t ran_ns;   /* on its core, when the state started */
    int64_t queue_ns; /* waiting in its core's run queue */
} dl_on_core;

/* A gradient not yet in an update. */
typedef struct dl_pending {
    int worker, staleness;
} dl_pending;

/* Statistics that a team without logs keeps of its steps. */
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
    struct dl_members *members;    /* NULL: all workers take part in all averages */
    struct dl_absentee *absentees; /* [workers] NULL: nobody is ever absent */
    dl_noise_source noise;
    dl_team_tallies tallies; /* without keeps_logs */
    int present;             /* workers that take part in averages */
    dl_worker *workers;      /* [agents]: the workers, then their communication threads */
    void *workers_block;     /* allocation that holds them, aligned to cache lines */
    dl_on_core *on_core;     /* [agents] NULL: nobody waits for a core */
    /* With keeps_logs: [workers x steps]. */
    int64_t *step_ns;
    int32_t *staleness;
    int agents;
    bool spinning, stopping;
    bool is_direct;       /* computed directly (sim/platform/platform.h) */
    bool is_undecided;    /* computed directly, but depends on the order of events in one ns, or
                             workers assumed equal were not: results are invalid, and the run
                             must be repeated by events */
    bool is_warm;         /* some worker has done the steps of the warm-up */
    int done;             /* workers that have done all their steps */
    int64_t steps_ended;  /* of all workers */
    int64_t stages_ended; /* of ended and current steps, */
    int stage_most;       /* and the most of any step */
    int64_t warm_ns, warm_version; /* end of the warm-up, and `version` then; 0 without one */
    int64_t version;               /* updates that the server has applied */
    int64_t gradients;             /* contributed since the last one */
    dl_waiting *waiting;           /* [agents] for a condition, in the order of starting */
    int waiting_count;
    int *arrived; /* [workers] at the barrier, in the order of arrival */
    int arrived_count;
    int64_t arrived_ns; /* of the latest arrival */
    int64_t late_ns; /* delay between the last two arrivals of all workers, in the latest barrier */
    int *queue;      /* ring of agents that wait for the lock */
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

/* Runs to the end. Measurements are invalid if the run ended early: engine too_long or stopped,
 * workers that wait forever (dl_team_is_stuck), or is_undecided. */
void dl_team_run(dl_team *team);

/* Approximate completed fraction of the run's work: the larger of the fractions of ended steps and
 * of ended stages, those of unfinished steps included. While all workers queue for one server in
 * the first steps, only the latter grows. */
double dl_team_done_frac(const dl_team *team);

/* Repetition. Without noise the future depends only on how far each worker is in its step. So once
 * the last m steps of each worker took as long as the m steps before, and equally long for all
 * workers, all further steps will too, and the run can end. m is 1 to DL_TEAM_PERIODS intervals of
 * the mode. Buffers (ready batches, steps by which the host runs ahead) are not compared and must
 * have filled before, hence steady_after. Runs that drop gradients are not checked. */
#define DL_TEAM_PERIODS 4

/* Whether, after a run, no event is left although workers have steps to do. This happens if
 * something outside the mode blocks workers, such as one host thread that issues the steps of all
 * GPUs. */
bool dl_team_is_stuck(const dl_team *team);

/* Time of a worker's step on cores, without noise: input, dispatch, forward, backward. */
double dl_team_compute_ns(const dl_team *team, int worker);

/* Actions that a mode starts; each ends with a call of advance. */
void dl_team_compute(dl_team *team, int worker, bool with_update);
void dl_team_local_update(dl_team *team, int worker);
void dl_team_barrier(dl_team *team, int worker);

/* To be called when fewer workers use the barrier: releases it if all of these have arrived. */
void dl_team_release_barrier(dl_team *team);
void dl_team_lock(dl_team *team, int worker);

void dl_team_wait(dl_team *team, int worker, dl_team_condition condition);

/* Aborts the worker's computation, if any: its mode continues as if it were done. */
void dl_team_cut(dl_team *team, int worker);

/* Hands the worker's gradients to its communication thread, which starts exchanging them once it
 * has woken up and finished its previous exchange. Takes the worker no time. */
void dl_team_hand_over(dl_team *team, int worker);

/* The communication thread has done an exchange: wakes workers that wait for it, and starts its
 * next one, if any. */
void dl_team_exchanged(dl_team *team, int comm);

/* A condition: the worker's communication thread has done all exchanges handed to it. */
bool dl_team_comm_is_idle(const dl_team *team, int worker);

/* The worker of an agent, which is the worker itself or its communication thread. */
int dl_team_worker(const dl_team *team, int agent);

/* The agent that exchanges for the worker: its communication thread, or itself. */
int dl_team_exchanger(const dl_team *team, int worker);

/* Ends the step and, unless the run is over, starts the worker's next one. */
void dl_team_end_step(dl_team *team, int worker);

/* For a worker without an action in progress. dl_team_pause: it waits until dl_team_resume, which
 * calls its advance(). dl_team_retire: it does no further steps and counts as having done all. */
void dl_team_pause(dl_team *team, int worker);
void dl_team_resume(dl_team *team, int worker);
void dl_team_retire(dl_team *team, int worker);

/* For platforms: the worker's action has ended. */
void dl_team_done(dl_team *team, int worker);

/* For platforms: the worker's action counts as another state from now on. */
void dl_team_change(dl_team *team, int worker, dl_worker_state state);

/* Actions that take no time. dl_team_unlock: `worker` must own the lock. dl_team_contribute: the
 * next update includes the gradient of the worker's step, whose staleness is the number of updates
 * since the worker's last dl_team_read (at first, since the start). dl_team_drop: no update will
 * include it. dl_team_update counts an update of the shared parameters. dl_team_wake lets waiting
 * agents whose condition now holds continue. */
void dl_team_unlock(dl_team *team, int worker);
void dl_team_contribute(dl_team *team, int worker);
void dl_team_drop(dl_team *team, int worker);
void dl_team_update(dl_team *team);
void dl_team_read(dl_team *team, int worker);
void dl_team_wake(dl_team *team);

/* Conditions: there are newer parameters than the worker has read; an update includes its last
 * contribution. */
bool dl_team_is_outdated(const dl_team *team, int worker);
bool dl_team_is_applied(const dl_team *team, int worker);

/* Starts an exchange (dl_exchange_kind); it ends with a call of advance. */
void dl_team_exchange(dl_team *team, int agent, dl_exchange exchange);

/* A worker that has the lock pulls the current parameters, and leaves when it has them. The lock is
 * free after that or, if the platform serves while others pull, when the pull starts. */
void dl_team_pull_locked(dl_team *team, int worker);
void dl_team_leave(dl_team *team, int worker);

#endif
