/* Host threads that launch the GPUs' steps.
 *
 *   single    one thread launches all GPUs' steps: serial part, then GPU 0, 1, ... n-1
 *             (TensorFlow's in-graph replication, MXNet, PyTorch's DataParallel)
 *   per_gpu   a thread each: serial part, then its GPU (one process a GPU)
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
 * Frameworks whose one call launches all GPUs' operations from a thread for each GPU (TensorFlow's
 * session.run) are `single`, too: CUDA's driver has one lock for all GPUs of a process, so that
 * their launches are serialized. The hand-over time of a simple lock grows in proportion to the
 * number of waiting threads (Boyd-Wickizer et al. 2012, "Non-scalable locks are dangerous", section
 * 3): contention_frac of the costs, which per_worker_ns includes already.
 *
 * Not modelled: threads without a core of their own, locks between them (Python's), noise. One
 * thread for all GPUs makes asynchronous workers wait for each other, as in reality.
 */
#ifndef DL_SIM_DISPATCH_H
#define DL_SIM_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"

typedef enum dl_dispatch_kind { DL_DISPATCH_SINGLE, DL_DISPATCH_PER_GPU } dl_dispatch_kind;

/* "single", "per_gpu". */
extern const char *const dl_dispatch_names[3];

typedef struct dl_dispatch_config {
    dl_engine *engine; /* borrowed until free; with room for one event a thread, at time 0 */
    dl_dispatch_kind kind;
    int workers;
    int ahead;                       /* steps, >= 0 */
    int64_t steps;                   /* launched for each worker */
    double serial_ns, per_worker_ns; /* >= 0 */
    const double *own_serial_ns;     /* [workers] >= 0: added to the serial part of each worker's
                                      * thread; NULL: none; read by init only */
    const double *own_launch_ns;     /* [workers] replaces per_worker_ns; NULL: none; borrowed */
    dl_event_fn progress; /* progress(user, worker): a launch of a waiting worker has started or
                           * ended */
    bool tells_all;       /* calls progress for all workers, waiting or not */
    void *user;
} dl_dispatch_config;

typedef struct dl_launch_thread {
    double serial_ns; /* total of all its workers */
    int first, count; /* range of its workers */
    int at;           /* worker being launched, counted from first; -1 = serial part */
    int step;         /* the one launched now or next */
    int awaited;      /* workers that must end a step before that launch */
    int waiting;      /* workers waiting for its launches */
    int64_t next_ns;  /* end of the current or last piece of work */
    bool busy;        /* else waiting for its GPUs */
    bool has_event;   /* at next_ns: only where somebody waits; else it is brought up to date on
                       * access */
} dl_launch_thread;

/* Numbers of a worker's steps whose launch has started, whose launch has ended, and that have
 * ended. */
typedef struct dl_launches {
    int started, launched, ended;
    bool waits; /* waits for a launch to start or end */
} dl_launches;

typedef struct dl_dispatch {
    dl_dispatch_config config;
    dl_launch_thread *threads; /* [thread_count] */
    int thread_count;          /* = the most pending events */
    dl_launches *launches;     /* [workers] */
} dl_dispatch;

/* dl_dispatch_free accepts a zeroed object. */
void dl_dispatch_init(dl_dispatch *dispatch, const dl_dispatch_config *config);
void dl_dispatch_free(dl_dispatch *dispatch);

/* The threads start launching step 0 now. */
void dl_dispatch_start(dl_dispatch *dispatch);

/* Whether the launch of the worker's step (counted from 0) has started, or ended. If not, progress
 * is called at the worker's next launch start or end. */
bool dl_dispatch_has_started(dl_dispatch *dispatch, int worker, int64_t step);
bool dl_dispatch_has_launched(dl_dispatch *dispatch, int worker, int64_t step);

/* The worker has ended its next step. */
void dl_dispatch_step_ended(dl_dispatch *dispatch, int worker);

/* Call when the engine has handled all events: the threads make the launches that they still can,
 * in a stopped run those before its end, and the engine's time advances to the last one's end. */
void dl_dispatch_end(dl_dispatch *dispatch);

#endif
