/* The GPUs of the machines that come with the program, found by device name. */
#ifndef DL_SIM_SCENARIO_KNOWN_GPUS_H
#define DL_SIM_SCENARIO_KNOWN_GPUS_H

#include "common/machine.h"

/* Whether a cost file's device ("NVIDIA A100-SXM4-80GB") is a machine file's model ("a100_80gb"):
 * each part of the model's name must consist of consecutive words of the device up to its first
 * comma; a "Ti" or "Super" after it denotes another GPU. */
bool dl_device_is_gpu(const char *device, const char *model);

/* Finds the GPU whose name is contained in `device` ("Tesla V100-SXM2-16GB": v100), the longest
 * name if several match, in the data sheets of scenarios/machines/gpus.csv and the machine files
 * there. Sets the fp32 rate, the memory rate and the name (a copy, freed by the caller) of *model;
 * other members are not valid. Returns false if there is none. */
bool dl_known_gpu(const char *device, dl_gpu_model *model);

#endif
