/* Cores as a shared resource: threads pinned to cores, one at a time on each, in time slices.
 *
 *   core 0   [thread 0: runs] <- [thread 2] <- [thread 4]     the runnable threads pinned to it
 *   core 1   [thread 1: runs] <- [thread 3]
 *
 * A thread with work is runnable. A core runs the first of its queue. If others wait, the first
 * goes to the end of the queue at the timer's next tick, and ticks come every `slice_ns` on all
 * cores at once. A thread that wakes up (is given work while it has none) takes its core at once:
 * it has slept, so it has had less than the one that ran, which goes on after it (one that has not
 * started to run is not disturbed: threads that wake up together run in that order). That is what
 * Linux was seen to do with two threads a core and a 4 ms tick. Work is in ns at full speed. A
 * running thread progresses at a speed > 0 that a callback sets, and which is asked anew whenever
 * who runs or who is runnable changes; in between, progress is linear. A thread whose work is done
 * and that is given new work in the same instant keeps its place and its slice.
 *
 * What it leaves out: migration, priorities, the cost of a switch itself, and that a thread had
 * less than its share in the longer run is preferred.
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
    double slice_ns;   /* > 0; period of the timer tick; only matters when threads > cores */
    double tick_ns;    /* >= 0; time of a tick */
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
    int64_t ran_ns; /* time it has had a core, up to the processor's updated_ns */
} dl_thread;

typedef struct dl_core {
    int head, tail;        /* queue of runnable threads, -1 = empty; the head runs */
    int64_t head_since_ns; /* when the head came to the front */
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
    int64_t slice_ns, tick_ns;
    int64_t updated_ns; /* progress is accounted for up to here */
    int timer;          /* pending event, -1 = none */
    bool updating;      /* inside the timer's handler */
} dl_processor;

/* Needs room for one pending event in the engine. */
void dl_processor_init(dl_processor *processor, const dl_processor_config *config);
void dl_processor_free(dl_processor *processor);

/* Gives `thread`, which must have none, `work_ns` >= 0 of work. It takes its core, or keeps its
 * place when called from its own done callback. O(cores). */
void dl_processor_start(dl_processor *processor, int thread, double work_ns);

/* Lets what is left of the thread's work, if it has any, fall away: done is called as soon as it
 * has its core (at this very time if it runs). O(cores). */
void dl_processor_cut(dl_processor *processor, int thread);

/* Time in ns during which `thread` has had its core, up to the last change; exact in a done
 * callback of the thread. */
int64_t dl_processor_ran_ns(const dl_processor *processor, int thread);

/* Time in ns, up to now, during which the core had a thread to run. */
int64_t dl_processor_busy_ns(const dl_processor *processor, int core);

#endif
