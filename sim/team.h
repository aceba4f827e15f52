/* The workers of one run, and the actions of a sync mode: compute, move bytes, wait for each other.
 *
 * A worker is a thread or a GPU (sim/platform/platform.h) with a small state machine: its mode's
 * advance() is called when the step starts and after each action; it starts exactly one further
 * action or ends the step. The stage counts from 0 in each step and belongs to the mode.
 *
 * Waiting. With a core for each worker, threads spin: all leave a barrier barrier_ns after the last
 * arrival, and the next one in the queue gets the lock lock_ns after its release. With fewer cores
 * they block: the last one to arrive continues immediately; the others wake wakeup_ns later, at the
 * end of their core's queue. A single worker never waits at a barrier or for the lock.
 *
 * The lock. Spinning threads get it in FIFO order, and it belongs to its next owner from the
 * release on. For blocking threads it is a mutex: a release frees it and wakes the thread that has
 * slept longest, which tries again once it has its core, and sleeps again if another thread was
 * faster.
 *
 * A worker that waits for a condition continues as after a barrier: immediately if the condition
 * already holds, otherwise barrier_ns or wakeup_ns after it becomes true.
 *
 * The server collects gradients that workers contribute; an update applies all those since the
 * previous update. A worker's clock is the number of steps whose gradient it has contributed or, in
 * a mode without contributions, the number of steps done.
 *
 * Communication threads. With config.comm_threads, each worker has one, which exchanges on its
 * behalf while the worker computes. It is a separate state machine with the number workers +
 * worker, for which advance() is called too; on a CPU machine it is an additional thread. Its stage
 * counts from 0 in each exchange. Barriers are then for communication threads only, and threads
 * spin only if each communication thread has a core, too. An agent is a worker or a communication
 * thread.
 *
 * The run. When the first worker has done `steps` steps, no worker starts another step, and workers
 * that wait for a condition continue. So all statistics cover a time in which all workers work, and
 * a slow worker does fewer steps. With config.each_ends every worker does all `steps` steps.
 *
 * Times are ns from the common start. A worker's states follow each other without gaps from 0 to
 * the end of its last step. */
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
    DL_STATE_COMPUTE, /* input, dispatch, forward, backward, and an update that directly follows */
    DL_STATE_UPDATE,  /* optimizer on the worker, after an exchange */
    DL_STATE_PUSH,
    DL_STATE_PULL,
    DL_STATE_AVERAGE, /* all other exchanges: averaging, summing, and the update on the server */
    DL_STATE_BARRIER,
    DL_STATE_LOCK,
    DL_STATE_WAIT, /* waits for a condition, or is absent */
    DL_STATE_ALLREDUCE,
    DL_STATE_DISPATCH, /* GPU waits for the host to launch the step */
    DL_STATE_INPUT,    /* waits for its batch of samples */
    DL_STATE_COUNT
} dl_worker_state;

extern const char *const dl_worker_state_names[DL_STATE_COUNT];

/* Exchanges of workers, independent of the machine. An exchange with slices is started by all
 * workers, between two barriers; workers without a slice end it immediately. */
typedef enum dl_exchange_kind {
    DL_AVERAGE,       /* averages all workers' vectors; each slice is averaged by one worker */
    DL_SUM,           /* the server sums all workers' gradients and applies the sum, in slices */
    DL_OUTER_UPDATE,  /* after an average, in its slices: a momentum update with the difference of
                         the average from the previous parameters (block momentum, DiLoCo's outer
                         step) */
    DL_APPLY,         /* the server sums `gradients` gradients and applies the sum, for the calling
                       * worker */
    DL_ADD,           /* the server adds the calling worker's gradients to its sum of `gradients` */
    DL_UPDATE,        /* the server applies its sum, for the calling worker */
    DL_BLEND,         /* elastic update of the server's vector with that of the worker that holds
                       * the lock */
    DL_BLEND_OWN,     /* elastic update of the worker's vector with a vector that it has pulled */
    DL_PUSH,          /* sends the worker's vectors to the server */
    DL_PULL,          /* sends the server's vectors to the worker */
    DL_FETCH,         /* copies averaged parameters from their holders to the worker */
    DL_REDUCE_INSIDE, /* sums the gradients of a site's workers, which all start it; GPUs only */
    DL_GATHER         /* sends the parts that workers have updated to all workers; GPUs only */
} dl_exchange_kind;

typedef struct dl_exchange {
    dl_exchange_kind kind;
    bool with_state;   /* push, pull, average, fetch: includes the optimizer state */
    bool as_learned;   /* push, average: messages carry the parameters' difference from the last
                        * average */
    bool as_upload;    /* push: sends the change since the last upload to a syncer; the worker
                        * continues from its own parameters */
    int slices;        /* average, sum, outer update: number of slices, 1 to workers */
    int64_t gradients; /* apply, add: number of gradients */
    int servers;       /* push, pull: number of agents (numbered from 0) that each read, or have
                        * written, an equal part of the vector; 0: not given */
    bool in_place;     /* pull: into the buffer that the worker computes from */
} dl_exchange;

#define DL_NO_STALENESS_YET (-1)

typedef struct dl_team dl_team;
struct dl_platform;
struct dl_syncer;
struct dl_syncer_config;
struct dl_members;

/* Content of the workers' exchanges. */
typedef enum dl_exchanges {
    DL_EXCHANGES_NOTHING,
    DL_EXCHANGES_GRADIENTS,  /* one sum and update of all workers' gradients per step */
    DL_EXCHANGES_PARAMETERS, /* averages of parameters, at intervals */
    DL_EXCHANGES_UPLOADS     /* each worker's gradients, pushed separately to a server */
} dl_exchanges;

/* Counters of a worker's time by state. */
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

/* The counter to which time in a state is added. */
dl_spent dl_spent_of(dl_worker_state state);

/* Whether a waiting worker may continue. A condition must stay true once it is true. */
typedef bool (*dl_team_condition)(const dl_team *team, int worker);

/* A part of a run besides the workers' steps: absences, membership in averages, a syncer. Any
 * function may be NULL. */
typedef struct dl_team_companion {
    int events, events_a_worker;                   /* largest numbers of pending events: independent
                                                   * of the workers, plus per worker */
    void (*init)(dl_team *team);                   /* called when the team has its workers */
    void (*start)(dl_team *team);                  /* called when all workers have started their
                                                   * first step */
    void (*warmed_up)(dl_team *team, int worker);  /* called when the worker's warm-up ends, after
                                                   * which its time counts */
    void (*step_ended)(dl_team *team, int worker); /* called when the worker's step ends */
    void (*close)(dl_team *team);                  /* called when the run stops: cancels pending
                                                   * events */
    void (*ended)(dl_team *team); /* called when the engine has handled all events, unless the run
                                   * ended early (dl_team_run) */
    void (*free)(dl_team *team);
} dl_team_companion;

#define DL_TEAM_COMPANIONS_MAX 2

/* Callbacks that observe a run; any function may be NULL. */
typedef struct dl_team_observer {
    void *user;
    void (*state)(void *user, int worker, dl_worker_state state, int64_t start_ns, int64_t end_ns);
    void (*step)(void *user, int worker, int64_t step, int64_t start_ns, int64_t end_ns,
                 int staleness); /* staleness: DL_NO_STALENESS_YET if the mode has none */
    /* contribute: dl_team_contribute of the worker's step, with parameters of version `read`.
     * update: dl_team_update to `version`. */
    void (*contribute)(void *user, int worker, int64_t step, int64_t read, int64_t now_ns);
    void (*update)(void *user, int64_t version, int64_t now_ns);
    /* A collective of the workers' GPUs: kind from dl_collective_kind_names, and index in the
     * step. */
    void (*collective)(void *user, const char *kind, int place, double bytes, int64_t start_ns,
                       int64_t end_ns);
    /* A syncer's event (sim/sync/syncer.h): `event` is a dl_syncer_event, `steps` the number of
     * steps the worker has done. */
    void (*syncer)(void *user, int event, int worker, int64_t steps, int64_t version,
                   int64_t now_ns);
    /* A piece of work of a host thread (sim/platform/dispatch.h): the launch of a step of a worker
     * (in split models, of a rank), or a step's serial part (worker -1). */
    void (*host)(void *user, int thread, int worker, int64_t start_ns, int64_t end_ns);
    /* A link of the machine (dl_gpu_options.links) has moved bytes, from the start of the first
     * flow until it became idle. Collectives that share no link with other flows are not flows. */
    void (*link)(void *user, int link, double bytes, int64_t start_ns, int64_t end_ns);
    /* If a callback sets this, the run ends, without results, when any worker ends its step. Not
     * for split models. */
    const bool *is_enough;
    /* Only for split models (sim/island/island.h), whose GPUs are the workers of this observer. */
    void (*pass)(void *user, int gpu, bool forward, int micro_batch, int64_t start_ns,
                 int64_t end_ns);
} dl_team_observer;

/* How workers on cores load their batches (sim/platform/loaders.h). */
typedef struct dl_loading {
    int loaders; /* loader processes per worker; 0: the worker loads its batches itself */
    int prefetch;
    double storage_bytes_per_ns; /* rate of storage; INFINITY: no limit */
    double ahead_bytes;          /* bytes that storage reads ahead during a pause, >= 0 */
} dl_loading;

typedef struct dl_team_config {
    const struct dl_platform *platform;                          /* sim/platform/platform.h */
    const dl_team_companion *companions[DL_TEAM_COMPANIONS_MAX]; /* NULL = unused entry */
    void *machine;               /* the platform's configuration, borrowed until dl_team_free; CPU:
                                  * NULL */
    const dl_costs *costs;       /* costs of this run; read by dl_team_init only */
    const dl_workload *workload; /* borrowed until dl_team_free */
    /* Processes on cores. If `reduces`, an average, or the sum of a synchronous server, ends for
     * all workers reduce_ns after the last one arrives, and nothing is pushed or pulled; the
     * earlier workers begin the exchange meanwhile, which shortens that time to no less than
     * reduce_late_ns. Otherwise a push and a pull each take half of `roundtrip` (borrowed until
     * dl_team_free; NULL: none), which was measured while all workers kept their cores busy;
     * side_by_side is the workers' dl_side_by_side. */
    bool reduces;
    double reduce_ns, reduce_late_ns;
    const dl_collective_cost *roundtrip;
    double side_by_side;
    int cores, workers;
    dl_loading loading;    /* only for workers on cores */
    int64_t steps;         /* steps per worker, including warm-up */
    int64_t warmup;        /* steps of the fastest worker before measuring starts; every other
                            * worker is measured from the end of its step then in progress */
    int64_t steady_after;  /* > 0: the run ends once its steps repeat (see Repetition below), but
                            * not before each worker has done this many; requires no noise */
    int64_t interval;      /* averaging interval in steps, after which steps repeat; for
                            * steady_after and dl_team_exchanges */
    bool pulls_under_lock; /* workers hold the lock during pulls on every platform, as in dlprof
                            * train */
    bool keeps_logs;       /* logs each step's time and staleness; required by steady_after and a
                            * syncer */
    bool each_ends;        /* every worker does all its steps; only for modes in which nobody waits
                            * for all workers */
    const double *option;  /* [DL_SYNC_SWEPT] the point's options, for the mode; borrowed until
                            * dl_team_free */
    /* For workers of unequal speed: the fastest one does the point's interval of local steps; each
     * other worker does as many as fit into the same time, rounded, at least one. */
    bool interval_by_speed;
    const double *alone_ns; /* [workers] step times without noise and exchange; NULL: computed from
                             * the workload and `slow`; read by dl_team_init only */
    const struct dl_syncer_config *syncer; /* sim/sync/syncer.h; NULL = none; borrowed until
                                            * dl_team_free */
    dl_absences absences; /* only with a syncer or mode average; borrowed until dl_team_free */
    bool comm_threads;
    int server_threads; /* number of server threads, for the mode; 1 to workers */
    bool average_state; /* averages include the optimizer state; for the mode, like the next two
                         * members */
    bool outer_update, reduces_inside;
    bool gathers;         /* allreduce: each worker gathers all parameters after its update */
    int fragments;        /* parts into which the parameters are divided, >= 1 */
    bool sums_on_arrival; /* for the mode, GPUs only: the server sums gradients on arrival, by
                           * DL_ADD and DL_UPDATE instead of DL_APPLY */
    void (*advance)(dl_team *team, int worker);
    dl_exchanges exchanges;
    const dl_noise_config *noise;
    uint64_t seed;
    uint32_t replicate;
    const double *slow; /* [workers] factor on forward and backward times; NULL = none */
    const dl_team_observer *observer; /* NULL = no observer */
} dl_team_config;

/* Largest number of exchanges per worker in the run. */
static inline double dl_team_exchanges(const dl_team_config *config)
{
    return (double)config->steps * config->fragments / (double)config->interval;
}

/* One per agent, 192 bytes: three cache lines, of which the first two hold the data of every step.
 * Data that only some runs need is elsewhere. */
typedef struct dl_worker {
    int16_t stage;            /* stage of the step, for the mode */
    uint8_t state;            /* dl_worker_state */
    bool computes : 1;        /* has read parameters and not contributed since */
    bool updates_at_once : 1; /* its compute state includes the update */
    bool tries_lock : 1;      /* woken up; tries to take the lock once it has its core */
    int32_t staleness;        /* staleness of this step's gradient */
    /* Numbers of steps, at most twice DL_STEPS_MAX (sim/sync/mode.h). */
    int32_t steps_done, clock;
    int64_t read_version;
    int64_t state_start_ns;
    int64_t spent_ns[DL_SPENT_COUNT]; /* excludes waiting for its core */
    int64_t step_start_ns;
    dl_noise noise;
    int32_t local_updates; /* local updates since the last exchange, for the mode */
    int32_t interval;      /* local steps between two exchanges, for the mode */
    int32_t warm_up_steps; /* steps done during its warm-up */
    int32_t dropped;       /* number of steps since its warm-up whose gradient the mode has
                            * dropped */
    union {
        int32_t contributions; /* contributions since contributed_version; after the run, those that
                                * no update includes */
        struct {               /* only for a communication thread */
            int32_t handed_over, exchanged; /* exchanges received, and exchanges done */
        };
    };
    int64_t contributed_version; /* the server's version at the last contribution */
    int64_t measured_since_ns;   /* end of the worker's warm-up */
    int64_t last_end_ns;         /* end of its last step */
    double noise_factor;         /* factor on this step's compute time */
    double work_factor;          /* work of this step over the mean: scales forward and backward, on
                                  * cores also input */
} dl_worker;

/* An agent that waits for a condition. */
typedef struct dl_waiting {
    int worker;
    dl_team_condition condition;
} dl_waiting;

/* An agent that shares a core. */
typedef struct dl_on_core {
    int64_t ran_ns;   /* time run on its core before the state started */
    int64_t queue_ns; /* time waited in its core's run queue */
} dl_on_core;

/* A gradient that no update includes yet. */
typedef struct dl_pending {
    int worker, staleness;
} dl_pending;

/* Step statistics of a team without logs. */
typedef struct dl_team_tallies {
    dl_tally steps;
    int64_t *staleness; /* [staleness_count] applied gradients by staleness */
    size_t staleness_count;
    int64_t *worker_sum, *worker_count; /* [workers] sum and number of the staleness of applied
                                         * gradients */
    dl_pending *pending;
    size_t pending_count, pending_room;
} dl_team_tallies;

struct dl_team {
    dl_team_config config;
    dl_engine engine;
    void *machine;                 /* platform's data */
    struct dl_syncer *syncer;      /* NULL: no syncer */
    struct dl_members *members;    /* NULL: all workers take part in all averages */
    struct dl_absentee *absentees; /* [workers] NULL: no absences */
    dl_noise_source noise;
    dl_team_tallies tallies; /* used without keeps_logs */
    int present;             /* number of workers that take part in averages */
    dl_worker *workers;      /* [agents]: the workers, then their communication threads */
    void *workers_block;     /* allocation that holds `workers`, which are aligned to cache lines */
    dl_on_core *on_core;     /* [agents] NULL: agents never wait for a core */
    /* [workers x steps] with keeps_logs. */
    int64_t *step_ns;
    int32_t *staleness;
    int agents;
    bool spinning, stopping;
    bool is_undecided;    /* workers assumed equal were not: results are invalid, and the run must
                           * be repeated with all workers */
    bool is_warm;         /* some worker has done the steps of the warm-up */
    int done;             /* number of workers that have done all their steps or have retired */
    int64_t steps_ended;  /* steps ended by all workers */
    int64_t stages_ended; /* stages of ended and current steps of all workers */
    int stage_most;       /* largest number of stages of any step */
    int64_t warm_ns, warm_version; /* end of the warm-up, and `version` at that time; 0 without
                                    * warm-up */
    int64_t version;               /* number of updates that the server has applied */
    int64_t gradients;             /* gradients contributed since the last update */
    dl_waiting *waiting;           /* [agents] agents that wait for a condition, in the order in
                                    * which they began to wait */
    int waiting_count;
    int *arrived; /* [workers] workers at the barrier, in the order of arrival */
    int arrived_count;
    int64_t arrived_ns; /* time of the latest arrival */
    int64_t late_ns; /* at the latest barrier: time between the last two arrivals of all workers */
    int *queue;      /* ring buffer of agents that wait for the lock */
    int queue_first, queue_count, lock_owner;
    int64_t lock_since_ns, lock_busy_ns;
    int64_t drift_sum, drift_max, steps_started, clock_lag_max;
    int64_t least_clock; /* smallest clock of all workers */
    int least_clock_count;
    double steady_steps_per_ns; /* steps per ns of all workers once steps repeat; 0: not found */
};

/* [steps] logs of one worker, with keeps_logs. */
static inline int64_t *dl_team_step_log(const dl_team *team, int worker)
{
    return team->step_ns + (size_t)worker * (size_t)team->config.steps;
}

static inline int32_t *dl_team_staleness_log(const dl_team *team, int worker)
{
    return team->staleness + (size_t)worker * (size_t)team->config.steps;
}

/* Initialises a team at time 0. dl_team_free accepts a zeroed one. */
void dl_team_init(dl_team *team, const dl_team_config *config);
void dl_team_free(dl_team *team);

/* Runs to the end. Measurements are invalid if the run ended early: engine too_long or stopped,
 * workers waiting forever (dl_team_is_stuck), or is_undecided. */
void dl_team_run(dl_team *team);

/* Approximate completed fraction of the run's work: the larger of the fraction of ended steps and
 * the fraction of ended stages (including stages of unfinished steps). While all workers queue for
 * one server in the first steps, only the second one grows. */
double dl_team_done_frac(const dl_team *team);

/* Repetition. Without noise, the future depends only on the position of each worker in its step. So
 * once the last m steps of each worker took as long as the m steps before, and equally long for all
 * workers, all further steps will too, and the run can end. m is 1 to DL_TEAM_PERIODS intervals of
 * the mode. Buffers (ready batches, steps by which the host runs ahead) are not compared and must
 * have filled before; hence steady_after. Runs that drop gradients are not checked. */
#define DL_TEAM_PERIODS 4

/* Whether, after a run, no event is left although workers have steps to do. This happens if
 * something outside the mode blocks workers, such as one host thread that launches the steps of all
 * GPUs. */
bool dl_team_is_stuck(const dl_team *team);

/* Time in ns of a worker's step on cores, without noise: input, dispatch, forward, backward. */
double dl_team_compute_ns(const dl_team *team, int worker);

/* Actions that a mode starts; advance() is called at the end of each. */
void dl_team_compute(dl_team *team, int worker, bool with_update);
void dl_team_local_update(dl_team *team, int worker);
void dl_team_barrier(dl_team *team, int worker);

/* Call this after `present` has decreased: releases the barrier if all present workers have
 * arrived. */
void dl_team_release_barrier(dl_team *team);
void dl_team_lock(dl_team *team, int worker);

void dl_team_wait(dl_team *team, int worker, dl_team_condition condition);

/* Aborts the worker's computation, if any: its mode continues as after its end. */
void dl_team_cut(dl_team *team, int worker);

/* Hands the worker's gradients to its communication thread, which starts the exchange once it has
 * woken up and finished its previous exchange. Takes the worker no time. */
void dl_team_hand_over(dl_team *team, int worker);

/* The communication thread has finished an exchange: wakes workers that wait for it, and starts the
 * next exchange, if any. */
void dl_team_exchanged(dl_team *team, int comm);

/* Condition: the worker's communication thread has done all exchanges handed to it. */
bool dl_team_comm_is_idle(const dl_team *team, int worker);

/* The worker of an agent: the worker itself, or the owner of the communication thread. */
int dl_team_worker(const dl_team *team, int agent);

/* The agent that exchanges for the worker: its communication thread if it has one, otherwise
 * itself. */
int dl_team_exchanger(const dl_team *team, int worker);

/* Ends the step and, unless the run is over, starts the worker's next one. */
void dl_team_end_step(dl_team *team, int worker);

/* For a worker without an action in progress. dl_team_pause: it waits until dl_team_resume, which
 * calls advance(). dl_team_retire: it does no further steps and counts as having done all. */
void dl_team_pause(dl_team *team, int worker);
void dl_team_resume(dl_team *team, int worker);
void dl_team_retire(dl_team *team, int worker);

/* For platforms: ends the worker's action. */
void dl_team_done(dl_team *team, int worker);

/* For platforms: the rest of the worker's action counts as `state`. */
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

/* Conditions. dl_team_is_outdated: there are newer parameters than the worker has read.
 * dl_team_is_applied: an update includes the worker's last contribution. */
bool dl_team_is_outdated(const dl_team *team, int worker);
bool dl_team_is_applied(const dl_team *team, int worker);

/* Starts an exchange (dl_exchange_kind); advance() is called at its end. */
void dl_team_exchange(dl_team *team, int agent, dl_exchange exchange);

/* dl_team_pull_locked: a worker that holds the lock pulls the current parameters. The lock becomes
 * free at the end of the pull or, if the platform serves others during a pull, at its start.
 * dl_team_leave: called when the worker has the parameters; releases the lock if the worker still
 * holds it. */
void dl_team_pull_locked(dl_team *team, int worker);
void dl_team_leave(dl_team *team, int worker);

#endif
