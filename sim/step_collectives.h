/* The collectives that come before each step of mode allreduce on GPUs, one after another, while
 * nobody computes: the broadcast of the model's buffers ([broadcast] of the costs), and those that a
 * trace of the program shows beside the exchange of gradients ([trace NUMBER] collective_K).
 *
 * Of a trace's the names say the kind (AlltoAll, AllGather, ...), and bytes, calls and ranks must be
 * known. Of all traced ranks, all workers of a point take part, however many they are; of fewer
 * (layers that are split over some GPUs, as Megatron's), groups of as many workers, one after
 * another, whose number must divide the workers'. A worker's bytes grow with its batch; what it
 * hands in to a gather or gets of a scatter is the same for any number of workers, and so is its
 * buffer of an all-to-all. That none of them overlaps computing is assumed: it is the most that
 * they cost by their bytes, without waits. */
#ifndef DL_SIM_STEP_COLLECTIVES_H
#define DL_SIM_STEP_COLLECTIVES_H

#include "sim/collective/collective.h"
#include "sim/costs/costs.h"

/* One of them, `calls` times in a row. */
typedef struct dl_step_collective {
    dl_collective_kind kind;
    int64_t calls; /* >= 1 */
    int group;     /* workers, of which all groups run at once; it divides them */
    double bytes;  /* of a call, as of a dl_collective_config */
} dl_step_collective;

/* Converts a traced collective for `workers` > 1 with `samples` each; false: it is left out. */
bool dl_step_collective_of(const dl_cost_trace *trace, const dl_traced_collective *traced,
                           int workers, double samples, dl_step_collective *made);

/* The trace that collectives are taken from: the first one that has any; NULL: none. */
const dl_cost_trace *dl_step_collectives_trace(const dl_costs *costs);

/* Lists all of them in *list, which the caller frees; returns their number. */
int dl_step_collectives_list(const dl_costs *costs, int workers, double samples,
                             dl_step_collective **list);

#endif
