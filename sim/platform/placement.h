/* Where workers are, as the number of them on each node: "431" is four on node 0, three on node 1,
 * one on node 2; "16+8" writes numbers of more than one digit. On its node, a worker has the first
 * GPU that is free. */
#ifndef DL_SIM_PLACEMENT_H
#define DL_SIM_PLACEMENT_H

#include "common/machine.h"
#include "common/status.h"

/* Puts the GPUs of all workers, counted over all nodes, ascending, into *gpus[*count], the
 * caller's to free. DL_ERR_PARSE: the text is none; DL_ERR_RANGE: the machine has fewer nodes, or
 * fewer GPUs on a node, or a node has no worker. */
dl_status dl_placement_gpus(const char *text, const dl_machine *machine, int **gpus, int *count,
                            dl_error *err) DL_MUST_CHECK;

#endif
