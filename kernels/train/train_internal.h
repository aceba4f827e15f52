/* Internals of training: the workers' shared state, each worker's state, and the sync modes' table.
 *
 *   dl_train_run   builds the shared part, starts one thread per worker, joins, makes the result
 *   worker thread  pins itself, builds its model (so that its memory is near its core), waits for
 *                  the common start, then: step = input, forward, backward, slowdown, exchange
 *   single thread  the same for all workers in turn, phase by phase
 *   sync mode      `phases`: everything of a step after the backward pass; all workers synchronize
 *                  between one phase and the next (train_sync.c)
 *   records        of a step, of the host and of a device (train_records.c) */
#ifndef DL_KERNELS_TRAIN_INTERNAL_H
#define DL_KERNELS_TRAIN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/exchange.h"
#include "kernels/model.h"
#include "kernels/optimizer.h"
#include "kernels/thread_team.h"
#include "kernels/train/schedule.h"
#include "kernels/train/train.h"

/* Names of records after the model's operations; dl_train_event_names has the same order. */
typedef enum dl_train_name {
    DL_TRAIN_NAME_INPUT,
    DL_TRAIN_NAME_GRADIENTS,
    DL_TRAIN_NAME_PARAMETERS,
    DL_TRAIN_NAME_STATE,
    DL_TRAIN_NAME_BARRIER,
    DL_TRAIN_NAME_LOCK,
    DL_TRAIN_NAME_SLOWDOWN,
    DL_TRAIN_NAME_QUANTISE,
    DL_TRAIN_NAME_DEQUANTISE,
    DL_TRAIN_NAME_STEP,
    DL_TRAIN_NAME_COUNT
} dl_train_name;

enum { DL_SYNC_PHASES_MAX = 3 };

typedef struct dl_train_shared dl_train_shared;

typedef struct dl_train_worker dl_train_worker;

typedef struct dl_train_syncer dl_train_syncer;

typedef struct dl_train_points {
    dl_train_point *items; /* [count] */
    int count;
    double due; /* number of steps after which the next point is due; 0: not yet known */
    double loss_sum;
    int64_t loss_count; /* number of losses in loss_sum */
} dl_train_points;

/* One sync mode; its name is in dl_sync_names. */
typedef struct dl_sync_mode {
    bool slots;  /* workers push to slots of the server; else slots[w] points to worker w's
                * gradients */
    bool result; /* there is a result vector for averages */
    bool server; /* the server has its own parameters and optimizer; workers have no optimizer */
    bool syncer; /* workers update their parameters, and a separate thread merges
                  * (train_syncer.c) */
    bool free_running; /* no worker waits for the others' steps; the first to finish ends the run */
    bool collective;   /* the first phase is the devices' reduction, after which workers need not
                          meet */
    /* collective: records the reduction of the first phase for the worker, after it was launched
     * for all workers of the calling thread; NULL: no record */
    void (*reduced)(dl_train_worker *worker);
    /* Update and exchange of step `worker->step`, with the gradients ready. Afterwards the worker's
     * parameters are those of its next step. A NULL phase does nothing. */
    int phase_count;
    void (*phases[DL_SYNC_PHASES_MAX])(dl_train_worker *worker);
} dl_sync_mode;

/* Fills a model's inputs from an endless sequence of samples, one permutation of the set after
 * another. Each reader of a run draws the same permutations, so that readers need not
 * synchronise. */
typedef struct dl_train_reader {
    const dl_data_set *data;
    uint64_t seed;
    int share;         /* samples of the largest batch */
    int64_t epoch;     /* epoch of `order` */
    uint32_t *order;   /* [data->count] permutation of the epoch */
    uint32_t *samples; /* [share] of the current batch */
} dl_train_reader;

void dl_train_reader_init(dl_train_reader *reader, const dl_data_set *data, uint64_t seed,
                          int share);
void dl_train_reader_free(dl_train_reader *reader);

/* Fills the model's inputs with positions first ... first + count - 1 of the sequence; count is at
 * most the share. */
void dl_train_reader_fill(dl_train_reader *reader, dl_model *model, int64_t first, int count);

/* State shared by all workers. Everything is set before the threads start; afterwards the barrier
 * or the lock orders accesses to vectors, as described in train_sync.c. */
struct dl_train_shared {
    const dl_train_config *config; /* points to `own`: this process's part, as if without ranks */
    const dl_train_config *whole;  /* configuration of all ranks together */
    dl_train_config own;
    dl_rank_group *ranks; /* NULL: this process has all workers */
    int first_worker;     /* number of worker 0 in the whole run */
    const dl_data_set *data;
    const dl_train_observer *observer; /* or NULL */
    const dl_sync_mode *mode;
    const dl_backend *backend; /* of the workers' models, and of a server on a device */
    int batch_per_worker;      /* samples per worker and step; with `work`, their mean */
    dl_wait wait;              /* SPIN or BLOCK */

    size_t count, bytes;             /* numbers and bytes of one vector of parameters or
                                      * gradients */
    size_t state_count, state_bytes; /* numbers and bytes of one worker's optimizer state; 0 unless
                                      * averaged */
    int operations;                  /* number of the model's operations, whose names come first in
                                      * records */

    void **slots;              /* [workers] vectors to be averaged; average: [senders] */
    void **state_slots;        /* [senders] optimizer states to be averaged */
    dl_barrier *site_barriers; /* [sites] barriers of the sites' workers; NULL: no sites */
    void **site_means;         /* [sites] means of the sites' gradients */
    void **gradients;          /* [workers] with sites: each worker's gradients */
    void *result;              /* averaged parameters or gradients */
    void *state_result;
    void *velocity;          /* momentum of the outer optimizer, whose parameters are `parameters`
                              * or, in async_average, the syncer's `outer` */
    dl_quantise_plan *plans; /* [fragments] plans for messages of parameter changes; NULL: none */
    size_t message_bytes;    /* bytes of a worker's messages: its gradients, or all its fragments */
    void **all_slots;        /* rank 0: [senders of all ranks] vectors of decoded messages; NULL on
                              * other ranks */
    void *gathered;          /* rank 0: one message of each rank */
    atomic_llong *sent;      /* [fragments] with lag: number of sends by workers of this process */
    atomic_llong *averaged;  /* [fragments] with lag: number of averages */
    void *parameters;        /* the server's parameters; in average the common start
                              * (dl_train_keeps_start), in async_average the last version. Like the
                              * vectors above in the server's memory, see train_exchange.c */
    dl_quantise_plan plan;   /* plan for messages of gradients */
    void **messages;         /* messages at the server: [workers] or in average [senders]; NULL:
                              * uncompressed */
    void *blocks;            /* blocks of the plan, on the server's device */
    dl_optimizer *optimizer; /* optimizer of the server */
    dl_train_syncer *syncer; /* NULL: none; else `parameters` are its last version */
    int64_t version;         /* updates applied by the server (async, softsync); guarded by the
                              * lock */
    void **pending;          /* [pending_count] gradients of the next update; guarded by the lock */
    void **spares;           /* [spare_count] unused vectors; guarded by the lock */
    int pending_count, spare_count;
    atomic_bool ended;       /* free_running: a worker has done all its steps */
    atomic_bool failed;      /* a worker's device, or an exchange with other ranks, has failed: all
                              * end as when asked to stop */
    atomic_bool agreed_stop; /* over ranks: one of them was asked to stop, or failed */
    atomic_llong last_step;  /* number of steps at which the run ends, as in config.steps; worker 0
                              * lowers it to stop */

    dl_barrier barrier;
    dl_lock lock;

    dl_model *initial;        /* has the common initial parameters; freed after the set-up */
    pthread_barrier_t set_up; /* for the threads that lead workers, before the start */
    dl_status status;         /* result of the set-up of all workers; at the end, of the run */
    dl_error err;

    /* For threads that wait for an update (softsync with a bound) or for an average (with lag), and
     * for the syncer. Timed by CLOCK_MONOTONIC. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int64_t published; /* copy of `version`, guarded by the mutex */

    dl_train_worker *workers; /* [config->workers] */
    dl_train_points points;   /* written by worker 0's thread */
};

/* A record of the current step whose times are not known yet: between mark `from` and mark `to` of
 * its device, or between two times of the host. */
typedef struct dl_train_pending {
    dl_record fields;
    bool on_device;
    size_t from, to;
    int64_t start_ns, end_ns; /* host times: of the record, or of everything launched with it */
    size_t first;             /* mark recorded at start_ns */
} dl_train_pending;

struct dl_train_worker {
    dl_train_shared *shared;
    int index;
    dl_status status; /* status of the set-up; later of the device, or of exchanges with other
                       * ranks */
    dl_error err;
    bool lost_rank; /* `status` is due to another rank */

    dl_device *device;         /* NULL: the processor */
    dl_device *server;         /* where = gpu: slot on the server's device, or `device` itself */
    void *message, *residual;  /* message and residual of the worker's gradients or, in average, of
                                * its parameter changes; NULL: not needed */
    void *learned;             /* average: parameter change to be encoded; NULL: not needed */
    int64_t merged;            /* with lag: rounds merged so far */
    void *blocks;              /* blocks of the plan, on the worker's device */
    dl_train_pending *pending; /* [pending_count] records of the current step, on a device with an
                                * observer */
    size_t pending_count, pending_capacity;
    size_t marks;      /* number of marks recorded in this step */
    bool launching;    /* mark `first_mark` was recorded, and the device has not been waited for
                        * since */
    size_t first_mark; /* recorded at launch_ns, when the device was idle */
    size_t first_pending;
    int64_t launch_ns;

    dl_thread_team *team; /* of the worker's threads */
    dl_model *model;
    dl_optimizer *optimizer; /* NULL where the server updates */
    dl_train_reader reader;

    int interval; /* local steps between two averages: config.interval or, by speed, the worker's
                   * own number */
    int64_t step;
    int samples;          /* samples in the current step */
    int64_t samples_done; /* samples in all earlier steps */
    int64_t boundary_ns;  /* end of the last record, start of the next */
    int64_t read_version; /* version of the parameters in use (async, softsync, async_average) */
    bool computes;        /* the worker has pulled and not yet contributed its gradient; guarded by
                           * the lock */
    int64_t staleness;    /* staleness of the last gradient applied, or DL_NO_STALENESS */
    int64_t *step_ns;     /* [step_capacity] durations of steps; the first `step` are done */
    int64_t step_capacity;
    int64_t start_ns, end_ns; /* start of the first step, end of the last */
    double first_loss, last_loss;
};

/* Returns the mode of a configuration. */
const dl_sync_mode *dl_sync_mode_of(const dl_train_config *config);

/* Returns the number of phases of step `worker->step`; steps between averages have fewer. */
int dl_sync_phases(const dl_train_worker *worker);

/* Checks each setting against the limits of its option. DL_ERR_RANGE. */
dl_status dl_train_check_limits(const dl_train_config *config, dl_error *err) DL_MUST_CHECK;

/* Checks that a run can have these settings (over ranks, see also dl_train_check_ranks), and that
 * the set has the model's shape. */
dl_status dl_train_check_config(const dl_train_config *config, dl_error *err) DL_MUST_CHECK;
dl_status dl_train_check_data(const dl_data_set *data, const char *model,
                              dl_error *err) DL_MUST_CHECK;

/* Updates and samples contained in worker 0's parameters after `steps` steps. With a syncer:
 * updates is the version of the syncer's parameters, and samples is not used. */
int64_t dl_train_updates(const dl_train_worker *worker, int64_t steps);
int64_t dl_train_samples(const dl_train_worker *worker, int64_t steps);

/* Makes the result of a run after all workers have ended, and takes over their lists of durations.
 * On failure *result stays as it was. */
dl_status dl_train_make_result(dl_train_shared *shared, dl_train_result *result,
                               dl_error *err) DL_MUST_CHECK;

/* From now on the calling thread launches everything on the worker's device. */
void dl_train_use(const dl_train_worker *worker);

/* Ends one interval of host work on the worker's time line: records it from the last boundary to
 * now, which is the next boundary. `fields`: kind, phase and any others that apply; worker, step,
 * samples and times are filled in. Without an observer it does nothing and reads no clock. */
void dl_train_mark(dl_train_worker *worker, dl_record fields);

/* Called before operations of the backend are launched: the device times them until
 * dl_train_synchronize. Does nothing on the processor. */
void dl_train_launch(dl_train_worker *worker);

/* Records one launched operation: on the processor as dl_train_mark, since it has ended; on a
 * device its times are determined at the end of the step. */
void dl_train_launched(dl_train_worker *worker, dl_record fields);

/* Waits until the device has done everything launched; a failure goes to worker->status. */
void dl_train_synchronize(dl_train_worker *worker);

/* Gives the observer all records of the step so far. */
void dl_train_emit(dl_train_worker *worker);

/* Gives the observer one record. */
void dl_train_emit_one(const dl_train_worker *worker, dl_record fields, int64_t start_ns,
                       int64_t end_ns);

/* Returns the index of `name` in records. */
uint32_t dl_train_name_id(const dl_train_shared *shared, dl_train_name name);

/* Makes the server's vectors that the mode needs. `model` has the common initial parameters.
 * Released with dl_train_server_free, also after a failure. */
dl_status dl_train_server_make(dl_train_shared *shared, dl_model *model,
                               dl_error *err) DL_MUST_CHECK;
void dl_train_server_free(dl_train_shared *shared);

/* Copies from the server's memory to the host's, before or after training. */
dl_status dl_train_server_get(const dl_train_shared *shared, void *to, const void *from,
                              size_t bytes, dl_error *err) DL_MUST_CHECK;

/* Allocates memory for the worker's messages, if the configuration needs it. */
void dl_train_make_message(dl_train_worker *worker);
void dl_train_free_message(dl_train_worker *worker);

/* Called in the thread of worker 0: a barrier of all ranks, at which they agree whether to stop. A
 * lost rank ends the run and is reported in worker->status. */
void dl_train_ranks_barrier(dl_train_worker *worker);

/* Number of senders for an average: all workers, or with sites the first of each. */
int dl_train_senders(const dl_train_config *config);

/* Local steps of worker `worker` of the whole run between two averages. */
int dl_train_interval_of(const dl_train_config *whole, int worker);

/* Converts `steps` of the run (whole intervals if intervals are by speed) to steps of the worker;
 * and the reverse. */
int64_t dl_train_own_steps(const dl_train_worker *worker, int64_t steps);
int64_t dl_train_run_steps(const dl_train_worker *worker, int64_t own_steps);

/* Whether the workers keep the common parameters that they start from: the outer optimizer's, or
 * the base of the differences sent in messages. */
bool dl_train_keeps_start(const dl_train_config *config);

/* --- shared by the sync modes (train_exchange.c) --- */

/* Updates the worker's own parameters, operation by operation, each with its record. */
void dl_train_update_replica(dl_train_worker *worker);

/* Copies from the worker's memory to the server's, and back. */
void dl_train_push(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name);
void dl_train_pull(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name);

/* Copies the worker's gradients to its slot, as a message if so configured; the server's parameters
 * to the worker. */
void dl_train_push_gradients(dl_train_worker *worker);
void dl_train_pull_parameters(dl_train_worker *worker);

/* Called before the server's arithmetic in the thread of `worker`: until dl_train_mark_average its
 * operations use the server's memory. */
void dl_train_serve(dl_train_worker *worker);

/* Sets numbers first ... first + count - 1 of `result` to the mean of n of the server's vectors;
 * first is 0 on a device. */
void dl_train_average_vectors(const dl_train_shared *shared, void *result, void *const *vectors,
                              int n, size_t first, size_t count);

/* Computes slice `index` of `parts` of a vector of `count` numbers. */
void dl_train_slice_of(size_t count, int parts, int index, size_t *first, size_t *size);

/* result[first ... first + count - 1] = mean of the senders' vectors there. `recorded`: bytes of
 * each vector averaged by all `parts` together. */
void dl_train_average(dl_train_worker *worker, void *result, void *const *vectors, size_t first,
                      size_t count, int parts, dl_train_name name, size_t recorded);

/* Ends the arithmetic of an exchange and records it as DL_RECORD_AVERAGE. */
void dl_train_mark_average(dl_train_worker *worker, dl_phase phase, dl_train_name name, int vectors,
                           int threads, size_t bytes);

/* dl_train_average over the senders of all ranks, in the thread of this rank's worker 0; `vectors`
 * are this process's. */
void dl_train_ranks_average(dl_train_worker *worker, void *result, void *const *vectors,
                            size_t count, dl_train_name name);

/* A recorded barrier of all ranks, in the thread of worker 0. */
void dl_train_ranks_meet(dl_train_worker *worker);

/* Ends this process's part because another rank was lost. */
void dl_train_end_by_loss(dl_train_worker *worker, dl_status status, const dl_error *why);

/* The phase of async and softsync (train_server.c). */
void dl_train_exchange_server(dl_train_worker *worker);

/* Called by a worker that has done all its steps: ends the run and wakes the waiting threads. */
void dl_train_free_running_end(dl_train_shared *shared);

/* --- mode async_average (train_syncer.c) --- */

/* The mode's phase. */
void dl_train_exchange_syncer(dl_train_worker *worker);

/* The syncer, if the mode has one; `model` as in dl_train_server_make. dl_train_syncer_start starts
 * its thread, before those of the workers (DL_ERR_SYSTEM); dl_train_syncer_join ends it, after
 * them; dl_train_syncer_take moves its counts and events to the result. */
void dl_train_syncer_make(dl_train_shared *shared, dl_model *model);
void dl_train_syncer_free(dl_train_shared *shared);
dl_status dl_train_syncer_start(dl_train_shared *shared, dl_error *err) DL_MUST_CHECK;
void dl_train_syncer_join(dl_train_shared *shared);
int64_t dl_train_syncer_version(const dl_train_shared *shared);
void dl_train_syncer_take(dl_train_shared *shared, dl_train_result *result);

/* --- mode average (train_average.c) --- */

/* The mode's three phases; with a lag dl_average_lagging is the only phase. */
void dl_average_push(dl_train_worker *worker);
void dl_average_combine(dl_train_worker *worker);
void dl_average_pull(dl_train_worker *worker);
void dl_average_lagging(dl_train_worker *worker);

/* Allocates the mode's shared memory besides the server's vectors; called before
 * dl_train_server_make, with the same `model`. */
void dl_average_make(dl_train_shared *shared, const dl_model *model);
void dl_average_free(dl_train_shared *shared);

/* Returns the last step of a run that was asked to stop when worker 0 had done `done` steps: far
 * enough ahead that every worker reads the new end before it reaches that step. */
int64_t dl_average_stop(const dl_train_config *config, int64_t done);

/* Returns the number of gradients per update (async, softsync: workers / n). */
int dl_train_gradients_per_update(const dl_train_config *config);

/* Whether a point is due after `steps` steps, with a point every `every` steps (0: never). If so,
 * the next one is due at the next multiple of `every`. */
bool dl_train_points_due(dl_train_points *points, int64_t steps, double every);

/* Adds the loss of a batch that was trained on. */
void dl_train_points_loss(dl_train_points *points, double loss);

/* Adds a point with the fields of `point`, except the loss, which is the mean since the last point.
 * Takes over point->parameters. */
void dl_train_points_add(dl_train_points *points, const dl_train_point *point);

/* Moves the points to a result, or releases them. */
void dl_train_points_take(dl_train_points *points, dl_train_result *result);
void dl_train_points_free(dl_train_points *points);

/* Returns values[count] converted to double; free() it. */
double *dl_train_as_double(const void *values, size_t count, dl_precision precision);

/* Makes order[count] the permutation of `epoch` that every worker of a run with that seed draws. */
void dl_train_shuffle(uint64_t seed, int64_t epoch, uint32_t *order, uint32_t count);

/* --- update rules (train_rules.c): of runs on the processor and of replays ------------------- */

/* vector[count] *= factor. */
void dl_train_scale(void *vector, size_t count, dl_precision precision, double factor);

/* Returns the factor on the learning rate of a gradient that is `staleness` updates stale. */
double dl_train_staleness_rate(int64_t staleness);

/* Begins an update: sets the learning rate (config.drop_epochs), given that gradients of `samples`
 * samples of a set of data_count have been applied, and counts the optimizer's step. */
void dl_train_begin_update(dl_optimizer *optimizer, const dl_train_config *config,
                           size_t data_count, int64_t samples);

/* A part of a vector of parameters. */
typedef struct dl_fragment {
    int index; /* 0..fragments - 1 */
    size_t first, count;
} dl_fragment;

/* Returns part `index` of `fragments` equal parts of a vector of `count` numbers, rounded to cache
 * lines. */
dl_fragment dl_fragment_of(size_t count, int fragments, int index);

/* Message plans (config->quantise, topk_frac) for the fragments of the model's parameters:
 * plans[fragments], in which numbers count from the fragment's first. No block mixes layers.
 * Released with dl_fragment_plans_free. */
dl_quantise_plan *dl_fragment_plans(const dl_model *model, const dl_train_config *config,
                                    int fragments);
void dl_fragment_plans_free(dl_quantise_plan *plans, int fragments);

/* Encodes a fragment's change from `start` to `parameters` as a message; all vectors begin with the
 * fragment's first number. `residual`: NULL, or the errors of earlier messages. Overwrites
 * change[]. */
void dl_train_encode_change(const dl_quantise_plan *plan, void *change, const void *parameters,
                            const void *start, void *residual, void *message,
                            dl_precision precision);

/* Ends an average of numbers first ... first + count - 1: sets `start`, from which all workers
 * continue, to the mean of their parameters, through the outer optimizer if there is one. If
 * quantised, `average` holds the mean of their changes, and becomes the mean of their
 * parameters. */
void dl_train_end_average(const dl_train_config *config, void *average, void *start, void *velocity,
                          size_t first, size_t count);

/* Turns sum[count], the sum of weight x change over the uploads, into a new version: `before` plus
 * the mean change. If `outer` is not NULL, the outer optimizer takes a step from `outer` towards
 * this version, and its result is the new version instead. */
void dl_train_end_merge(const dl_train_config *config, void *sum, int uploads, const void *before,
                        void *outer, void *velocity, size_t count);

#endif
