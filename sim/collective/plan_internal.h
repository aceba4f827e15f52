/* Interface between plan.c, which builds a plan and runs it transfer by transfer, and plan_alone.c,
 * which runs it as one event. */
#ifndef DL_SIM_COLLECTIVE_PLAN_INTERNAL_H
#define DL_SIM_COLLECTIVE_PLAN_INTERNAL_H

#include "sim/collective/plan.h"

/* Values of dl_plan.start_ns for transfers that are not running. */
#define DL_TRANSFER_WAITS (-1)
#define DL_TRANSFER_ENDED (-2)

/* Starts a transfer whose bytes move after `delay_ns`; without bytes it ends then. */
void dl_plan_start_in(dl_plan *plan, int transfer, int64_t delay_ns);

/* Ends a transfer of the plan `user`: starts those that waited only for it. */
void dl_plan_transfer_ended(void *user, int transfer);

/* Unfolds a folded plan; no effect on others. The computed time on idle links is kept. */
void dl_plan_unfold(dl_plan *plan);

/* Runs the plan as one event if its links are idle, its time on them is known, and not too many
 * claims of earlier runs were broken; otherwise returns false. */
bool dl_plan_run_alone(dl_plan *plan);

/* Hash of all inputs of a plan's run on a separate network. */
typedef struct dl_plan_key {
    uint64_t a, b;
} dl_plan_key;

/* dl_plan_recall finds a run stored by this process under `key`: its time, and the bytes on each
 * link in link_bytes[links]; false: not stored. dl_plan_remember stores a run, and may replace
 * older entries. Thread-safe. */
bool dl_plan_recall(dl_plan_key key, int64_t *time_ns, double *link_bytes, int links);
void dl_plan_remember(dl_plan_key key, int64_t time_ns, const double *link_bytes, int links);

#endif
