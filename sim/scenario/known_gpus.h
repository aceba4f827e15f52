/* The GPUs of the machines that come with the program, found by device name. */
#ifndef DL_SIM_SCENARIO_KNOWN_GPUS_H
#define DL_SIM_SCENARIO_KNOWN_GPUS_H

#include "common/machine.h"

/* Finds the GPU whose name, the longest if several match, is in `device` ("Tesla V100-SXM2-16GB":
 * v100), in the data sheets of scenarios/machines/gpus.csv and the machine files there. *model gets
 * its rates of single precision and memory and a copy of its name, to be freed by the caller.
 * False: none. */
bool dl_known_gpu(const char *device, dl_gpu_model *model);

#endif
