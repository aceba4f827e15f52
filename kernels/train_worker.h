/* Inside of training (train.c, train_worker.c, train_sync.c; nobody else includes this): what the
 * workers share, what each has, and the table of sync modes.
 *
 *   dl_train_run   builds the shared part, starts one thread a worker, joins, makes the result
 *   worker thread  pins itself, builds its model (so that its memory is near its core), waits for
 *                  the common start, then: step = input, forward, backward, slowdown, exchange
 *   sync mode      `exchange`: everything of a step behind the backward pass
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
#include "kernels/train.h"

/* Names of records behind the model's operations; dl_train_event_names has the same order. */
typedef enum dl_train_name {
    DL_TRAIN_NAME_INPUT,
    DL_TRAIN_NAME_GRADIENTS,
    DL_TRAIN_NAME_PARAMETERS,
    DL_TRAIN_NAME_STATE,
    DL_TRAIN_NAME_BARRIER,
    DL_TRAIN_NAME_LOCK,
    DL_TRAIN_NAME_SLOWDOWN,
    DL_TRAIN_NAME_STEP,
    DL_TRAIN_NAME_COUNT
} dl_train_name;

typedef struct dl_train_shared dl_train_shared;
typedef struct dl_train_worker dl_train_worker;

/* One sync mode; its name is in dl_sync_names. */
typedef struct dl_sync_mode {
    bool
        slots; /* workers push to slots of the server; else slots[w] is the gradients of worker w */
    bool result; /* there is a vector for averages */
    bool server; /* the server has parameters and an optimizer of its own; workers have none */
    bool free_running; /* nobody waits for the others' steps: the first to end ends the run */
    /* Update and exchange of step `worker->step`, the gradients being ready. Afterwards the
     * worker's parameters are those of its next step. */
    void (*exchange)(dl_train_worker *worker);
} dl_sync_mode;

/* By dl_sync. */
extern const dl_sync_mode dl_sync_modes[];

/* What all workers see. Everything is set before the threads start; afterwards vectors are ordered
 * by the barrier or the lock as train_sync.c says. */
struct dl_train_shared {
    const dl_train_config *config;
    const dl_data_set *data;
    const dl_train_observer *observer; /* or NULL */
    const dl_sync_mode *mode;
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
    void *parameters;        /* the server's */
    dl_optimizer *optimizer; /* the server's */
    int64_t version;         /* updates applied by the server (async); under the lock */
    atomic_bool ended;       /* free_running: a worker has done all its steps */
    atomic_llong last_step;  /* the run's end, in steps of a worker; worker 0 lowers it to stop */

    dl_barrier barrier;
    dl_lock lock;

    /* The start: workers report that they are ready, dl_train_run says go or not. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int ready; /* workers that have finished setting up */
    enum { DL_TRAIN_HOLD, DL_TRAIN_GO, DL_TRAIN_CANCEL } gate;

    dl_train_worker *workers; /* [config->workers] */
};

struct dl_train_worker {
    dl_train_shared *shared;
    int index;
    pthread_t thread;
    dl_status status; /* of setting up */
    dl_error err;

    dl_model *model;
    dl_optimizer *optimizer; /* NULL where the server updates */
    uint32_t *order;         /* [data->count] permutation of the present epoch */
    int64_t epoch;           /* that `order` is of; -1 = none yet */
    uint32_t *samples;       /* [batch_per_worker] of this step */

    int64_t step;
    int64_t border_ns;        /* end of the last record, start of the next */
    int64_t read_version;     /* version of the parameters in use (async) */
    int64_t staleness;        /* of the gradient applied last, or DL_NO_STALENESS */
    int64_t *step_ns;         /* [steps] */
    int64_t start_ns, end_ns; /* of all steps */
    double first_loss, last_loss;
};

/* Thread function of one worker (a dl_train_worker *). */
void *dl_train_worker_run(void *worker);

/* Releases what the worker owns. */
void dl_train_worker_free(dl_train_worker *worker);

/* Ends one interval of the worker's time line: records it from the last border to now, which is the
 * next border. `fields`: kind, phase and what else applies; worker, step, samples and times are
 * filled in. Without an observer it does nothing and reads no clock. */
void dl_train_mark(dl_train_worker *worker, dl_record fields);

/* `name` as the number that records carry. */
uint32_t dl_train_name_id(const dl_train_shared *shared, dl_train_name name);

/* Updates the worker's own parameters, operation by operation, each with its record. */
void dl_train_update(dl_train_worker *worker);

#endif
