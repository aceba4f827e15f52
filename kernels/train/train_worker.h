/* Inside of training (train*.c; nobody else includes this): what the workers share, what each has,
 * and the table of sync modes.
 *
 *   dl_train_run   builds the shared part, starts one thread a worker, joins, makes the result
 *   worker thread  pins itself, builds its model (so that its memory is near its core), waits for
 *                  the common start, then: step = input, forward, backward, slowdown, exchange
 *   single thread  the same for all workers in turn, phase by phase (train_single.c)
 *   sync mode      `phases`: everything of a step behind the backward pass; all workers meet
 * between one phase and the next marks          train_marks.c: the records of a step, of the host
 * and of a device
 */
#ifndef DL_KERNELS_TRAIN_WORKER_H
#define DL_KERNELS_TRAIN_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/exchange.h"
#include "kernels/model.h"
#include "kernels/optimizer.h"
#include "kernels/train/train.h"
#include "kernels/train/train_points.h"

/* Names of records behind the model's operations; dl_train_event_names has the same order. */
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

/* One sync mode; its name is in dl_sync_names. */
typedef struct dl_sync_mode {
    bool
        slots; /* workers push to slots of the server; else slots[w] is the gradients of worker w */
    bool result; /* there is a vector for averages */
    bool server; /* the server has parameters and an optimizer of its own; workers have none */
    bool free_running; /* nobody waits for the others' steps: the first to end ends the run */
    bool collective; /* the first phase is the devices' reduction, behind which nobody need meet */
    /* collective: the record of the first phase's reduction, behind those of all workers that the
     * thread issues for; NULL: none */
    void (*reduced)(dl_train_worker *worker);
    /* Update and exchange of step `worker->step`, the gradients being ready. Afterwards the
     * worker's parameters are those of its next step. NULL: this worker does nothing. */
    int phase_count;
    void (*phases[DL_SYNC_PHASES_MAX])(dl_train_worker *worker);
} dl_sync_mode;

/* The mode of a configuration. */
const dl_sync_mode *dl_sync_mode_of(const dl_train_config *config);

/* How many phases step `worker->step` has: averaging falls out between intervals. */
int dl_sync_phases(const dl_train_worker *worker);

/* What all workers see. Everything is set before the threads start; afterwards vectors are ordered
 * by the barrier or the lock as train_sync.c says. */
struct dl_train_shared {
    const dl_train_config *config; /* as if this process were all: `own`, without ranks */
    const dl_train_config *whole;  /* of all ranks together */
    dl_train_config own;
    dl_rank_group *ranks; /* NULL: this process is all */
    int first_worker;     /* number of worker 0 in the whole run */
    const dl_data_set *data;
    const dl_train_observer *observer; /* or NULL */
    const dl_sync_mode *mode;
    const dl_backend *backend; /* of the workers' models; of the server where it is on a device */
    int batch_per_worker;
    int cores;    /* that the workers are spread over */
    dl_wait wait; /* SPIN or BLOCK */

    size_t count, bytes;             /* of one vector of parameters or gradients */
    size_t state_count, state_bytes; /* of one worker's optimizer state; 0 unless averaged */
    int operations;                  /* of the model: the first names of events */

    void **slots;       /* [workers] vectors that averages are taken of */
    void **state_slots; /* [workers] the same for optimizer states */
    void *result;       /* averaged parameters or gradients */
    void *state_result;
    void *parameters;        /* the server's; all these in its memory, see train_exchange.c */
    dl_quantise_plan plan;   /* of messages of gradients */
    void **messages;         /* [workers] at the server; NULL: gradients are sent as they are */
    void *blocks;            /* of the plan, on the server's device */
    dl_optimizer *optimizer; /* the server's */
    int64_t version;         /* updates applied by the server (async, softsync); under the lock */
    void **pending;          /* [pending_count] gradients of the next update; under the lock */
    void **spares;           /* [spare_count] vectors that nobody uses; under the lock */
    int pending_count, spare_count;
    atomic_bool ended;       /* free_running: a worker has done all its steps */
    atomic_bool failed;      /* a worker's device has; all end as when they are asked to stop */
    atomic_bool agreed_stop; /* over ranks: one of them was asked to stop, or has failed */
    atomic_llong last_step;  /* the run's end, in steps of a worker; worker 0 lowers it to stop */

    dl_barrier barrier;
    dl_lock lock;

    /* The start: workers report that they are ready, dl_train_run says go or not. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int ready;         /* threads that have finished setting up */
    int64_t published; /* `version`, for those who wait for an update (softsync with a bound) */
    enum { DL_TRAIN_HOLD, DL_TRAIN_GO, DL_TRAIN_CANCEL } gate;

    dl_train_worker *workers; /* [config->workers] */
    dl_train_points points;   /* of worker 0's thread */
};

/* A record of the present step whose times are still to be found: between mark `from` and mark
 * `to` of its device, or between two times of the host. */
typedef struct dl_train_pending {
    dl_record fields;
    bool on_device;
    size_t from, to;
    int64_t start_ns, end_ns; /* of the host: of the record, or of all that was issued with it */
    size_t first;             /* mark at start_ns */
} dl_train_pending;

struct dl_train_worker {
    dl_train_shared *shared;
    int index;
    pthread_t thread;
    dl_status status; /* of setting up; later that of the device */
    dl_error err;

    dl_device *device;         /* NULL: the processor */
    dl_device *server;         /* where = gpu: place on the server's device, or `device` itself */
    void *message, *residual;  /* what the worker's gradients become; NULL: not wanted */
    void *blocks;              /* of the plan, on the worker's device */
    dl_train_pending *pending; /* of the present step, on a device with an observer */
    size_t pending_count, pending_capacity;
    size_t marks;      /* put in this step */
    bool issuing;      /* marks[...first_mark] was put, and the device was not waited for since */
    size_t first_mark; /* put when the device was idle, at issue_ns */
    size_t first_pending;
    int64_t issue_ns;

    dl_model *model;
    dl_optimizer *optimizer; /* NULL where the server updates */
    uint32_t *order;         /* [data->count] permutation of the present epoch */
    int64_t epoch;           /* that `order` is of; -1 = none yet */
    uint32_t *samples;       /* [batch_per_worker] of this step */

    int64_t step;
    int64_t border_ns;    /* end of the last record, start of the next */
    int64_t read_version; /* version of the parameters in use (async, softsync) */
    bool computes;        /* it has pulled, and not contributed since; under the lock */
    int64_t staleness;    /* of the gradient applied last, or DL_NO_STALENESS */
    int64_t *step_ns;     /* [step_capacity], of which [step] are done */
    int64_t step_capacity;
    int64_t start_ns, end_ns; /* of all steps */
    double first_loss, last_loss;
};

/* Whether a run can have these settings (train_config.c); over ranks, also dl_train_check_ranks.
 * Whether the set is of the shape of the model, which is called `name`. */
dl_status dl_train_check_config(const dl_train_config *config, dl_error *err) DL_MUST_CHECK;
dl_status dl_train_check_data(const dl_data_set *data, const dl_model *model, const char *name,
                              dl_error *err) DL_MUST_CHECK;

/* train_points.c: keeps the worker's parameters if a point is due behind its step; whether it has
 * taken time. Updates and samples that worker 0's parameters have in them behind `steps` steps. */
bool dl_train_note_point(dl_train_worker *worker);
int64_t dl_train_updates(const dl_train_worker *worker, int64_t steps);
int64_t dl_train_samples(const dl_train_worker *worker, int64_t steps);

/* Thread function of one worker (a dl_train_worker *). */
void *dl_train_worker_run(void *worker);

/* Thread function for all workers of a run (a dl_train_shared *). */
void *dl_train_single_run(void *shared);

/* train_result.c: what the run came to, once all workers have ended, whose lists of durations become
 * the result's. A failing one leaves *result as it was. */
dl_status dl_train_make_result(dl_train_shared *shared, dl_train_result *result,
                               dl_error *err) DL_MUST_CHECK;

/* Pins the calling thread to the worker's core. */
dl_status dl_train_worker_pin(dl_train_worker *worker);
/* Makes the worker's model and all else that it needs; on a device, runs it once so that nothing is
 * chosen or allocated later. The result also goes to worker->status. */
void dl_train_worker_set_up(dl_train_worker *worker);

/* Tells the main thread that the calling one is ready (or failed); returns whether to start. */
bool dl_train_wait_at_gate(dl_train_shared *shared);

/* The parts of a step in order, without the exchange. begin: at start_ns. end: waits for the
 * device, tells the observer; returns the start of the next step. */
void dl_train_step_begin(dl_train_worker *worker, int64_t start_ns);
void dl_train_step_compute(dl_train_worker *worker);
int64_t dl_train_step_end(dl_train_worker *worker, int64_t start_ns);
/* Behind the exchange, when all is issued. */
void dl_train_meet_beside(dl_train_worker *worker);

/* Whether the run goes on behind the step that the worker has done. */
bool dl_train_goes_on(dl_train_worker *worker);

/* All that the calling thread issues goes to the worker's device from now on. */
void dl_train_use(const dl_train_worker *worker);

/* Releases what the worker owns. */
void dl_train_worker_free(dl_train_worker *worker);

/* train_marks.c. Ends one interval of the worker's time line, which the host was busy with: records
 * it from the last border to now, which is the next border. `fields`: kind, phase and what else
 * applies; worker, step, samples and times are filled in. Without an observer it does nothing and
 * reads no clock. */
void dl_train_mark(dl_train_worker *worker, dl_record fields);

/* Before operations of the backend are issued: what follows is timed by the device, until
 * dl_train_settle. On the processor nothing. */
void dl_train_issue(dl_train_worker *worker);
/* As dl_train_mark for one operation that was issued: on the processor, where it is done, the same;
 * on a device its end is found when the step is. */
void dl_train_issued(dl_train_worker *worker, dl_record fields);
/* Waits until the device has done all that was issued; a failure goes to worker->status. */
void dl_train_settle(dl_train_worker *worker);
/* Tells the observer all records of the step so far. */
void dl_train_tell(dl_train_worker *worker);
/* Tells the observer of one interval. */
void dl_train_tell_one(const dl_train_worker *worker, dl_record fields, int64_t start_ns,
                       int64_t end_ns);

/* `name` as the number that records carry. */
uint32_t dl_train_name_id(const dl_train_shared *shared, dl_train_name name);

/* train_exchange.c. Memory of the server: on the host, or on a device (then zeroed). put and get
 * copy from and to the host's memory, before and after training. */
void *dl_train_server_allocate(const dl_train_shared *shared, size_t bytes, const char *purpose);
void dl_train_server_release(const dl_train_shared *shared, void *memory);
dl_status dl_train_server_put(const dl_train_shared *shared, void *to, const void *from,
                              size_t bytes, dl_error *err) DL_MUST_CHECK;
dl_status dl_train_server_get(const dl_train_shared *shared, void *to, const void *from,
                              size_t bytes, dl_error *err) DL_MUST_CHECK;

/* Memory for messages of gradients, where the configuration wants them: the server's, a worker's. */
dl_status dl_train_make_messages(dl_train_shared *shared, const dl_model *model,
                                 dl_error *err) DL_MUST_CHECK;
void dl_train_free_messages(dl_train_shared *shared);
void dl_train_make_message(dl_train_worker *worker);
void dl_train_free_message(dl_train_worker *worker);

/* From the worker's memory to the server's, and back. The worker's gradients to its slot, as a
 * message if so configured; the server's parameters to the worker. */
void dl_train_push(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name);
void dl_train_pull(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name);
void dl_train_push_gradients(dl_train_worker *worker);
void dl_train_pull_parameters(dl_train_worker *worker);

/* Before the server's arithmetic in the thread of `worker`: what follows, up to
 * dl_train_mark_average, works on the server's memory. */
void dl_train_serve(dl_train_worker *worker);
/* Numbers first ... first + count - 1 of the mean of n of the server's vectors; first is 0 on a
 * device. */
void dl_train_average(const dl_train_shared *shared, void *result, void *const *vectors, int n,
                      size_t first, size_t count);
/* The record of that arithmetic, by `threads` workers on `vectors` vectors of `bytes` each. */
void dl_train_mark_average(dl_train_worker *worker, dl_phase phase, dl_train_name name, int vectors,
                           int threads, size_t bytes);

/* train_ranks.c. Sets what of `whole` is this process's: config, own, ranks, first_worker. */
dl_status dl_train_take_part(dl_train_shared *shared, dl_error *err) DL_MUST_CHECK;
/* In the thread of worker 0: all ranks meet, and agree whether to stop. A lost rank ends the run,
 * with worker->status saying so. */
void dl_train_ranks_meet(dl_train_worker *worker);
/* The same thread, behind that: the mean of `vectors` of all ranks' workers, with its record. */
void dl_train_ranks_average(dl_train_worker *worker, void *result, void *const *vectors,
                            size_t count, dl_train_name name);
/* Before the start: `status`, or DL_ERR_SYSTEM if another rank could not be set up. */
dl_status dl_train_ranks_ready(const dl_train_shared *shared, dl_status status,
                               dl_error *err) DL_MUST_CHECK;
/* A device has failed, for which those of other ranks must not wait. */
void dl_train_ranks_give_up(const dl_train_shared *shared);
/* sum[count] = sum of the vectors of all ranks' workers, worker by worker. */
dl_status dl_train_ranks_sum(const dl_train_shared *shared, double *const *vectors, size_t count,
                             double *sum, dl_error *err) DL_MUST_CHECK;
/* Makes the devices of all ranks' workers one group. */
dl_status dl_train_ranks_join(const dl_train_shared *shared, dl_device *const *devices,
                              dl_error *err) DL_MUST_CHECK;

/* train_server.c: gradients that an update waits for (async, softsync: workers / n); the exchange
 * of these modes. */
int dl_train_gradients_an_update(const dl_train_config *config);
void dl_train_exchange_server(dl_train_worker *worker);

/* Updates the worker's own parameters, operation by operation, each with its record. */
void dl_train_update(dl_train_worker *worker);

#endif
