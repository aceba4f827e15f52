/* Cost of failures to a job that stops when one GPU, worker or node fails (any mode without a
 * syncer): it restarts from its last checkpoint and repeats the steps since then. Computed
 * analytically from a simulated step time; times in seconds.
 *
 * A checkpoint stops the job for checkpoint_s after every checkpoint_steps steps, except at the
 * end. After a failure the job is down for restart_s, which includes detection, restart and
 * loading. */
#ifndef DL_SIM_FAILURES_H
#define DL_SIM_FAILURES_H

#include <stddef.h>
#include <stdint.h>

typedef struct dl_failures {
    /* Mean times between failures of one GPU (or worker on cores) and of one whole node, with
     * exponential distributions; 0: no such failures. If both are 0, failures are those of at_s. */
    double mtbf_s, node_mtbf_s;
    double *at_s; /* [at_count] ascending; seconds since the start of the job */
    size_t at_count;
    double restart_s, checkpoint_s;
    int64_t checkpoint_steps; /* steps between checkpoints; 0: none, the job starts over */
    int64_t steps;            /* steps of the job; 0: as in the scenario */
} dl_failures;

/* Whether failures or checkpoints are given. */
static inline int dl_failures_given(const dl_failures *failures)
{
    return failures->mtbf_s > 0 || failures->node_mtbf_s > 0 || failures->at_count > 0 ||
           failures->checkpoint_steps > 0;
}

/* Mean time in seconds between failures of a job on `parts` GPUs (or workers on cores) and `nodes`
 * nodes; 0: no random failures. */
double dl_failures_mean_s(const dl_failures *failures, int parts, int nodes);

/* Fraction of the job's time spent in steps that are not repeated: with the failures of at_s, or,
 * for random failures with mean_s = M > 0 and restart_s = R, from the job's expected time (Daly,
 * FGCS 22 (2006), equation 20, including failures during a restart):
 *
 *   M e^(R / M) (e^((work + checkpoint) / M) - 1)   for the work between two checkpoints. */
double dl_failures_goodput(const dl_failures *failures, double mean_s, int64_t steps,
                           double step_s);

/* The checkpoint_steps, 1 to steps, with the highest goodput; about sqrt(2 checkpoint_s M) of work
 * (Young, CACM 17, 1974). 0 if mean_s is 0. */
int64_t dl_failures_best_steps(const dl_failures *failures, double mean_s, int64_t steps,
                               double step_s);

#endif
