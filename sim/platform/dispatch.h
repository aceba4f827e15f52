/* Host threads that launch the GPUs' steps.
 *
 *   single    one thread launches the steps of all GPUs: serial part, then GPU 0, 1, ... n-1
 *             (TensorFlow's in-graph replication, MXNet, PyTorch's DataParallel)
 *   per_gpu   one thread per GPU: serial part, then its GPU (one process per GPU)
 *
 *   thread   [serial][gpu0][gpu1][serial][gpu0][gpu1]          serial_ns, per_worker_ns
 *   gpu0             [step 0       ]     [step 1       ]       starts when its launch starts,
 *   gpu1                   [step 0       ]     [step 1  ]      ends no earlier than its launch ends
 *
 * A thread launches a step when all of its GPUs have ended the step `ahead` + 1 before it. So with
 * ahead = 0 (every step ends with a read-back) the serial part and the launches add to the GPU's
 * time; with ahead >= 1 a step of n GPUs takes, in the steady state,
 *
 *   max(time on the GPU with its exchange, serial_ns + n per_worker_ns)
 *
 * Frameworks in which one call launches all GPUs' operations from one thread per GPU (TensorFlow's
 * session.run) are `single`, too: the CUDA driver has one lock for all GPUs of a process, so their
 * launches are serialized. The hand-over time of a simple lock grows in proportion to the number of
 * waiting threads (Boyd-Wickizer et al. 2012, "Non-scalable locks are dangerous", section 3):
 * contention_frac of the costs, which is already included in per_worker_ns.
 *
 * Not modelled: threads that share cores, locks between threads (such as Python's), noise. With one
 * thread for all GPUs, asynchronous workers wait for each other, as in reality. */
#ifndef DL_SIM_DISPATCH_H
#define DL_SIM_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"

typedef enum dl_dispatch_kind { DL_DISPATCH_SINGLE, DL_DISPATCH_PER_GPU } dl_dispatch_kind;

extern const char *const dl_dispatch_names[3];

typedef struct dl_dispatch_config {
    dl_engine *engine; /* borrowed until dl_dispatch_free, not used before dl_dispatch_start; needs
                        * room for one event per thread */
    dl_dispatch_kind kind;
    int workers;
    int ahead;                       /* number of steps that a thread may launch ahead, >= 0 */
    int64_t steps;                   /* number of steps launched for each worker */
    double serial_ns, per_worker_ns; /* times per step and per worker's launch, >= 0 */
    const double *own_serial_ns;     /* [workers] >= 0, added to the serial part of each worker's
                                      * thread; NULL: none; read by dl_dispatch_init only */
    const double *own_launch_ns; /* [workers] replaces per_worker_ns; NULL: not used; borrowed */
    dl_event_fn progress; /* progress(user, worker): a launch for a waiting worker has started or
                           * ended */
    bool tells_all;       /* calls progress for all workers, not only waiting ones */
    void *user;
    /* Observes each piece of work when it has been done: the launch of a worker, or the serial part
     * (worker -1). May be NULL. */
    void (*piece)(void *observer, int thread, int worker, int64_t start_ns, int64_t end_ns);
    void *observer;
} dl_dispatch_config;

typedef struct dl_launch_thread {
    double serial_ns; /* time of the serial part of a step for all its workers */
    int first, count; /* range of the workers it launches */
    int at;           /* worker being launched, relative to first; -1: serial part */
    int step;         /* step that is being launched or will be launched next */
    int awaited;      /* number of its workers that must first end an earlier step */
    int waiting;      /* number of workers waiting for its launches */
    int64_t since_ns; /* start of the current or last piece of work */
    int64_t next_ns;  /* end of that piece */
    bool busy;        /* false: waiting for its GPUs */
    bool has_event;   /* an event at next_ns is pending, only if a worker waits or with tells_all;
                       * otherwise the thread is brought up to date on access */
} dl_launch_thread;

/* Numbers of a worker's steps by state: launch started, launch ended, step ended. */
typedef struct dl_launches {
    int started, launched, ended;
    bool waits; /* the worker waits for a launch to start or end */
} dl_launches;

typedef struct dl_dispatch {
    dl_dispatch_config config;
    dl_launch_thread *threads; /* [thread_count] */
    int thread_count;          /* also the largest number of pending events */
    dl_launches *launches;     /* [workers] */
} dl_dispatch;

/* Initialises the threads, which have not launched any step. dl_dispatch_free accepts a zeroed
 * object. */
void dl_dispatch_init(dl_dispatch *dispatch, const dl_dispatch_config *config);
void dl_dispatch_free(dl_dispatch *dispatch);

/* Starts the launches of step 0 at the engine's time 0. */
void dl_dispatch_start(dl_dispatch *dispatch);

/* Whether the launch of the worker's step (counted from 0) has started, or ended. If not, progress
 * is called at the start or end of the worker's next launch. */
bool dl_dispatch_has_started(dl_dispatch *dispatch, int worker, int64_t step);
bool dl_dispatch_has_launched(dl_dispatch *dispatch, int worker, int64_t step);

/* Records that the worker has ended its next step. */
void dl_dispatch_step_ended(dl_dispatch *dispatch, int worker);

/* Call this when the engine has handled all events, or has stopped. In the first case the threads
 * do the remaining launches, and the engine's time advances to the end of the last one; otherwise
 * they do the launches up to the engine's time. */
void dl_dispatch_end(dl_dispatch *dispatch);

#endif
