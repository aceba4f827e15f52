/* Estimate of a command's run time, extrapolated from the first seconds of its runs.
 *
 * The cost of a run's events cannot be known before it starts: the same exchange is a formula on
 * one machine and a million flows on another. So the first DL_PACE_PROBE_S of processor time serve
 * as the measurement: the fraction of all steps done by then, runs weighted by dl_run_weight, gives
 * the total time. The heaviest runs come first, so that the estimate does not rest on small ones.
 * They are often the dearest for their weight, so the estimate may be several times too large and
 * is not reported. Instead, the finished share of the work is reported if the estimate is 20 s or
 * more, and again each time that four times as much processor time has passed. The command ends if
 * the estimate exceeds the limit by a factor that depends on the processor time spent so far
 * (firmness in pace.c).
 *
 * The estimate does not affect results: a command gives the same results as without a limit, or
 * fails. */
#ifndef DL_SIM_PACE_H
#define DL_SIM_PACE_H

#include <pthread.h>
#include <stdatomic.h>

#include "sim/run.h"

#define DL_PACE_LIMIT_S 600.0
#define DL_PACE_PROBE_S 2.0

typedef struct dl_pace {
    double limit_s;                /* INFINITY: no limit */
    int ways;                      /* number of threads on all ranks */
    int64_t (*clock_ns)(void);     /* processor time of the calling thread; tests replace it */
    void (*say)(const char *text); /* reports progress in one line; NULL: no report */
    /* Protected by the mutex: */
    pthread_mutex_t mutex;
    double left, done;   /* weights of the remaining work, and of this process's finished work */
    double least;        /* weight of one step of the heaviest run so far: an upper bound of the
                        * finished work while `done` is 0 */
    double spent_s;      /* processor time that this process spent on finished work */
    double estimate_s;   /* run time of the whole command, past and future, on all threads; NaN:
                        * unknown */
    double said_s;       /* spent_s from which progress is reported next */
    atomic_bool is_over; /* the estimate has exceeded the limit: runs end; read without the mutex */
} dl_pace;

/* A run in progress, on the stack of its thread. */
typedef struct dl_pace_run {
    dl_pace *pace;
    dl_run_watch watch; /* to be set in its dl_run_config */
    double weight, noted;
    int64_t noted_ns, set_up_ns;
} dl_pace_run;

void dl_pace_init(dl_pace *pace, double limit_s, int ways, void (*say)(const char *text));
void dl_pace_free(dl_pace *pace);

/* Relative processor time of a run of the point: steps x workers (of a split model: x GPUs), and if
 * the point has a server on the GPUs' hosts, x messages per step from each worker to it. */
double dl_run_weight(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* Adds to the remaining work; a negative weight for a run that another rank does or the journal
 * holds. */
void dl_pace_expect(dl_pace *pace, double weight);

/* Call these before and after a run of `weight` (config.watch = &run->watch); no effect if `pace`
 * is NULL. dl_pace_end returns `status`, or DL_ERR_RANGE with a remedy if the estimate exceeds the
 * limit and work is left. */
void dl_pace_start(dl_pace_run *run, dl_pace *pace, double weight);
dl_status dl_pace_end(dl_pace_run *run, dl_status status, const char *path, dl_error *err);

#endif
