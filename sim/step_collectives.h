/* Collectives that precede each step of a mode that reduces gradients on GPUs, in sequence, while
 * no GPU computes: the broadcast of the model's buffers ([broadcast] of the costs), and the
 * collectives of a trace of the program other than the gradient exchange ([trace NUMBER]
 * collective_K).
 *
 * A traced collective's name gives its kind (AlltoAll, AllGather, ...); its bytes and number of
 * ranks, at least 2, must be known. If it covered all traced ranks, all workers of a point take
 * part; if fewer (layers split over some GPUs, as by Megatron), groups of that many consecutive
 * workers take part, and the group size must divide the number of workers. A worker's bytes grow
 * with its batch, except those of a broadcast; its input of a gather, output of a scatter and
 * buffer of an all-to-all do not depend on the number of workers. As no overlap with compute is
 * assumed, and waits are not included, the result is an upper bound of their transfer times. */
#ifndef DL_SIM_STEP_COLLECTIVES_H
#define DL_SIM_STEP_COLLECTIVES_H

#include "sim/collective/collective.h"
#include "sim/costs/costs.h"

/* A collective that is called `calls` times in a row. */
typedef struct dl_step_collective {
    dl_collective_kind kind;
    int64_t calls; /* calls in a row, >= 1 */
    int group; /* workers per group; divides the number of workers; all groups run concurrently */
    double bytes; /* bytes per call, as in a dl_collective_config */
} dl_step_collective;

/* Converts a traced collective for `workers` > 1 with `samples` each; false: it is left out. */
bool dl_step_collective_of(const dl_cost_trace *trace, const dl_traced_collective *traced,
                           int workers, double samples, dl_step_collective *made);

/* The first trace that has collectives, from which they are taken; NULL: none. */
const dl_cost_trace *dl_step_collectives_trace(const dl_costs *costs);

/* Lists all collectives that precede a step in *list, which the caller frees; returns their
 * number. */
int dl_step_collectives_list(const dl_costs *costs, int workers, double samples,
                             dl_step_collective **list);

#endif
