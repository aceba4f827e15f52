/* Placement of workers as the number of workers per node: "431" is four on node 0, three on node 1,
 * one on node 2; "16+8" allows numbers of several digits. A worker gets the first free GPU of its
 * node. */
#ifndef DL_SIM_PLACEMENT_H
#define DL_SIM_PLACEMENT_H

#include "common/machine.h"
#include "common/status.h"

/* Lists the workers' GPUs, numbered over all nodes, in ascending order in *gpus[*count], which the
 * caller frees. DL_ERR_PARSE: invalid text; DL_ERR_RANGE: the machine has fewer nodes, or fewer
 * GPUs on a node, or a node has no worker. */
dl_status dl_placement_gpus(const char *text, const dl_machine *machine, int **gpus, int *count,
                            dl_error *err) DL_MUST_CHECK;

#endif
