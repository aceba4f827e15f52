/* A multi-core host: threads on cores, one at a time on each, in time slices, and their speeds by
 * kind of work.
 *
 *   core 0   [thread 0: runs] <- [thread 2] <- [thread 4]     its runnable threads
 *   core 1   [thread 1: runs] <- [thread 3]
 *
 * A thread with work is runnable. A core runs the first thread of its queue. If others wait, the
 * first thread moves to the end of the queue at the timer's next tick; ticks come every `slice_ns`
 * on all cores simultaneously. A thread that wakes up (is given work while it has none) preempts
 * the running thread, which has had more time and continues after it; but not a thread that has not
 * started to run: threads that wake up simultaneously run in the order of waking. Linux was
 * observed to do this with two threads per core and a 4 ms tick. A thread whose work is done and
 * that is given new work at the same time keeps its place and its slice.
 *
 * A thread is pinned to its core, or migrates: when it wakes up and its core is busy, it moves to
 * an idle core; and a core with nothing left to run takes over the next such thread from the core
 * with the longest queue. So no core is idle while a thread that may run on it waits. This models
 * Linux' choice of a core at wake-up and its balancing of a core that becomes idle, not its
 * periodic balancing of busy cores.
 *
 * Work is in ns at full speed. Speeds change whenever the running or runnable threads change; in
 * between, progress is linear.
 *
 *   compute    speed 1 / sharing[k], k = sharers that have work at that moment (running or waiting
 *              for their time slice): caches, memory, clock, sibling hyper-threads. Sharers are the
 *              first threads; the others neither slow anyone down nor are slowed down
 *   bytes      copies and averages share the memory's total bandwidth max-min fairly; each alone
 *              moves its traffic in its full-speed time, which is the upper limit of its rate
 *
 * Not modelled: effects on caches and memory of threads that are not sharers; the memory traffic of
 * compute, which does not reduce the bandwidth for bytes (its cost to others is in sharing, which
 * counts threads of both kinds); NUMA; priorities; the cost of a context switch or migration; and
 * the preference for threads that had less than their share in the longer run. */
#ifndef DL_SIM_HOST_H
#define DL_SIM_HOST_H

#include "sim/engine.h"
#include "sim/workload.h"

typedef struct dl_host_config {
    dl_engine *engine;          /* borrowed until dl_host_free; needs room for one pending event */
    int cores;                  /* number of cores, >= 1 */
    int threads;                /* number of threads, >= 1; thread t is pinned to, or starts on,
                                 * core t mod cores */
    int pinned;                 /* 0 to threads: threads 0 to pinned - 1 are pinned, the others
                                 * migrate */
    int sharers;                /* 0 to threads: threads 0 to sharers - 1 slow each other down */
    double slice_ns;            /* > 0; period of the timer tick; matters when threads > cores */
    double tick_ns;             /* >= 0; time of the first tick */
    double memory_bytes_per_ns; /* total bandwidth, > 0; INFINITY = no limit */
    const dl_costs *costs;      /* gives `sharing`; read by dl_host_init only */
    dl_event_fn done;           /* done(user, thread): its work is finished; may give it new work */
    void *user;
} dl_host_config;

typedef struct dl_thread {
    int core;
    int next; /* next thread in the core's queue, -1 = last */
    bool has_work;
    double left_ns;      /* remaining work at full speed */
    double bytes_per_ns; /* bytes moved per ns at full speed; 0 = it computes */
    double rate;         /* bytes per ns while it runs; < 0 = not yet fixed while shares are
                          * computed */
    double speed;        /* > 0; valid while it runs */
    int64_t end_ns;      /* end of its work at this speed */
    int64_t ran_ns; /* time on its core up to the last change; exact when done is called for it */
} dl_thread;

typedef struct dl_core {
    int head, tail;        /* queue of runnable threads, -1 = empty; the head runs */
    int64_t head_since_ns; /* when the head became first */
    int64_t busy_since_ns; /* valid while the queue is not empty */
    int64_t busy_ns;       /* total of past busy periods */
} dl_core;

typedef struct dl_host {
    dl_host_config config;
    dl_thread *threads; /* [threads] */
    dl_core *cores;     /* [cores] */
    int *running;       /* [cores] heads of the queues, in the order of cores */
    double *sharing;    /* [threads + 1] slowdown by number of sharers */
    int running_count, runnable;
    int sharers; /* number of runnable sharers */
    int64_t slice_ns, tick_ns;
    int64_t updated_ns;   /* time up to which progress is accounted for */
    int timer;            /* id of the pending event, -1 = none */
    bool updating;        /* inside the timer's handler */
    double traffic_bytes; /* traffic of all work started so far */
} dl_host;

void dl_host_init(dl_host *host, const dl_host_config *config);
void dl_host_free(dl_host *host);

/* Gives `thread`, which must have no work, `work_ns` >= 0 of compute, or bytes to move. The thread
 * wakes up, or keeps its place when called from its done callback. O(cores). */
void dl_host_compute(dl_host *host, int thread, double work_ns);
void dl_host_move(dl_host *host, int thread, dl_work work);

/* Whether the thread's done callback is running, which may immediately give it new work. */
bool dl_host_is_ending(const dl_host *host, int thread);

/* Drops the rest of the thread's work, if any: done is called as soon as the thread has its core
 * (at the current time if it runs). O(cores). */
void dl_host_cut(dl_host *host, int thread);

/* Time in ns, up to now, during which the core had a thread to run. */
int64_t dl_host_busy_ns(const dl_host *host, int core);

#endif
