/* Interface between plan.c, which makes a plan and runs it transfer by transfer, and plan_alone.c,
 * which runs it as one event. */
#ifndef DL_SIM_COLLECTIVE_PLAN_INTERNAL_H
#define DL_SIM_COLLECTIVE_PLAN_INTERNAL_H

#include "sim/collective/plan.h"

/* Values of dl_plan.start_ns for transfers that do not run. */
#define DL_TRANSFER_WAITS (-1)
#define DL_TRANSFER_ENDED (-2)

/* Starts a transfer whose bytes move, or which ends if it has none, in `delay_ns`. */
void dl_plan_start_in(dl_plan *plan, int transfer, int64_t delay_ns);

/* Ends a transfer of the plan at `user`: starts those that waited only for it. */
void dl_plan_transfer_ended(void *user, int transfer);

/* Unfolds a folded plan; no effect on a whole one. The known time of a run alone is kept. */
void dl_plan_unfold(dl_plan *plan);

/* Runs the plan as one event, if its links are idle and its time on them is known; else returns
 * false. */
bool dl_plan_run_alone(dl_plan *plan);

/* A hash of all inputs of a plan's run on a separate network. */
typedef struct dl_plan_key {
    uint64_t a, b;
} dl_plan_key;

/* Looks up, and stores, the time of such a run in this process and the bytes on each link,
 * link_bytes[links]. False: not known, or no longer. Safe between threads. */
bool dl_plan_recall(dl_plan_key key, int64_t *time_ns, double *link_bytes, int links);
void dl_plan_remember(dl_plan_key key, int64_t time_ns, const double *link_bytes, int links);

#endif
