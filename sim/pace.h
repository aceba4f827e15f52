/* How long the runs of a command will take, from their own first seconds.
 *
 * Nothing tells before a start what the events of a run cost: the same exchange is a formula on one
 * machine and a million flows on another. So the first PROBE of processor time that the runs
 * themselves take is the measurement: what part of their steps is done by then, a run counting as
 * dl_run_weight says, gives the time of all. The heaviest runs come first, so that the estimate is not
 * of small ones. It is said once where it is 20 s or more. The command ends where it is beyond
 * the limit: three times at first, later, as one that does not go on at all, twice.
 *
 * Results do not depend on it: a command ends as it would without a limit, or fails. */
#ifndef DL_SIM_PACE_H
#define DL_SIM_PACE_H

#include <pthread.h>
#include <stdatomic.h>

#include "sim/run.h"

#define DL_PACE_LIMIT_S 600.0
#define DL_PACE_PROBE_S 2.0

typedef struct dl_pace {
    double limit_s;                /* INFINITY: none */
    int ways;                      /* threads of all ranks */
    int64_t (*clock_ns)(void);     /* processor time of the calling thread; a test's own */
    void (*say)(const char *text); /* one line, once; NULL: nothing is said */
    /* Guarded by the mutex: */
    pthread_mutex_t mutex;
    double left, done; /* weights of what is to be done, and of what this process has done */
    double least;      /* a step of the heaviest run: more than what is done before its end */
    double spent_s;    /* processor time of this process for that */
    double estimate_s; /* of all, past and to come, on all threads; NaN: not known yet */
    bool has_said;
    atomic_bool is_over; /* read without it */
} dl_pace;

/* A run at hand, on the stack of its thread. */
typedef struct dl_pace_run {
    dl_pace *pace;
    dl_run_watch watch; /* for its dl_run_config */
    double weight, noted;
    int64_t noted_ns, set_up_ns;
} dl_pace_run;

void dl_pace_init(dl_pace *pace, double limit_s, int ways, void (*say)(const char *text));
void dl_pace_free(dl_pace *pace);

/* Processor time of a run of the point, in an arbitrary unit: steps of its workers, times the
 * messages of each for a server. */
double dl_run_weight(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* More is to be done; or less, if another rank or a journal has it. */
void dl_pace_expect(dl_pace *pace, double weight);

/* To be called before and after a run of `weight` (config.watch = &run->watch); with `pace` NULL
 * they do nothing. dl_pace_end returns `status`, or DL_ERR_RANGE with a way out if the limit has
 * ended the run. */
void dl_pace_start(dl_pace_run *run, dl_pace *pace, double weight);
dl_status dl_pace_end(dl_pace_run *run, dl_status status, const char *path, dl_error *err);

#endif
