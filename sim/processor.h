/* Cores as a shared resource: threads pinned to cores, one at a time on each, in turn.
 *
 *   core 0   [thread 0: runs] <- [thread 2] <- [thread 4]     the runnable threads pinned to it
 *   core 1   [thread 1: runs] <- [thread 3]
 *
 * A thread with work is runnable. A core runs the first of its queue; when others wait, the first
 * goes to the end of the queue each time that `slice_ns` has passed since it came to the front.
 * Work is in ns at full speed. A running thread progresses at a speed > 0 that a callback sets, and
 * which is asked anew whenever who runs or who is runnable changes; in between, progress is linear.
 * A thread whose work is done and that is given new work in the same instant keeps its place and
 * its slice.
 *
 * What it leaves out: migration, priorities, the cost of a switch itself, wake-ups that preempt.
 */
#ifndef DL_SIM_PROCESSOR_H
#define DL_SIM_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"

/* Sets speed[i] > 0 of thread running[i], i < count; `runnable` >= count threads have work. */
typedef void (*dl_processor_speed_fn)(void *user, const int *running, int count, int runnable,
                                      double *speed);

typedef struct dl_processor_config {
    dl_engine *engine; /* borrowed until free */
    int cores;         /* >= 1 */
    int threads;       /* >= 1; thread t is pinned to core t mod cores */
    double slice_ns;   /* > 0; only matters when threads > cores */
    dl_processor_speed_fn speed;
    dl_event_fn done; /* done(user, thread): its work is finished; may start its next work */
    void *user;       /* of both callbacks */
} dl_processor_config;

typedef struct dl_thread {
    int next; /* in the core's queue, -1 = last */
    bool has_work;
    double left_ns; /* work left, at full speed */
    double speed;   /* while it runs */
    int64_t end_ns; /* when it will be done at this speed */
} dl_thread;

typedef struct dl_core {
    int head, tail;        /* queue of runnable threads, -1 = empty; the head runs */
    int64_t slice_end_ns;  /* of the head */
    int64_t busy_since_ns; /* valid while the queue is not empty */
    int64_t busy_ns;       /* closed busy periods */
} dl_core;

typedef struct dl_processor {
    dl_processor_config config;
    dl_thread *threads; /* [threads] */
    dl_core *cores;     /* [cores] */
    int *running;       /* [cores] heads, in the order of cores */
    double *speeds;     /* [cores] */
    int running_count, runnable;
    int64_t slice_ns;
    int64_t updated_ns; /* progress is accounted for up to here */
    int timer;          /* pending event, -1 = none */
    bool updating;      /* inside the timer's handler */
} dl_processor;

/* Needs room for one pending event in the engine. */
void dl_processor_init(dl_processor *processor, const dl_processor_config *config);
void dl_processor_free(dl_processor *processor);

/* Gives `thread`, which must have none, `work_ns` >= 0 of work. It joins its core's queue at the
 * end, or keeps its place when called from its own done callback. O(cores). */
void dl_processor_start(dl_processor *processor, int thread, double work_ns);

/* Time in ns, up to now, during which the core had a thread to run. */
int64_t dl_processor_busy_ns(const dl_processor *processor, int core);

#endif
