/* Stands in for NVIDIA's management library: eight GPUs at most, whose figures tests may change.
 * As a library of its own it can be opened in place of libnvidia-ml.so.1. */
#ifndef DL_TESTS_DOUBLES_NVML_DOUBLE_H
#define DL_TESTS_DOUBLES_NVML_DOUBLE_H

#include "profiler/machine/machine_gpu.h"

#define NVML_DOUBLE_MAX 8
#define NVML_DOUBLE_SWITCH NVML_DOUBLE_MAX /* the far end of a lane that is no GPU */
#define NVML_DOUBLE_NPU (NVML_DOUBLE_MAX + 1)

typedef struct nvml_double_state {
    int init_result;
    int gpus;
    unsigned buses[NVML_DOUBLE_MAX]; /* PCI addresses 0000:<bus>:00.0 */
    const char *name;
    double memory_gib;
    unsigned sm_mhz, memory_mhz, cores, bus_bits, lane_mb_per_s;
    int major, minor;
    int lanes[NVML_DOUBLE_MAX][NVML_DOUBLE_MAX + 2]; /* from a GPU to a GPU, a switch, an NPU */
    int peer[NVML_DOUBLE_MAX][NVML_DOUBLE_MAX];      /* 0 = they may copy */
} nvml_double_state;

extern nvml_double_state nvml_double;

/* Two A100 with twelve lanes of NVLink between them. */
nvml_double_state nvml_double_default(void);

/* All functions of the double. */
dl_nvml nvml_double_table(void);

#endif
