/* Replaces NVIDIA's management library: at most eight GPUs, whose figures tests may change. Built
 * as a separate library it can be opened instead of libnvidia-ml.so.1. */
#ifndef DL_TESTS_DOUBLES_NVML_DOUBLE_H
#define DL_TESTS_DOUBLES_NVML_DOUBLE_H

#include "profiler/machine/machine_gpu.h"

#define NVML_DOUBLE_MAX 8
#define NVML_DOUBLE_SWITCH NVML_DOUBLE_MAX /* remote end of a lane that is not a GPU */
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
    int peer[NVML_DOUBLE_MAX][NVML_DOUBLE_MAX];      /* 0 = they can copy directly */
} nvml_double_state;

extern nvml_double_state nvml_double;

/* Two A100s with twelve lanes of NVLink between them. */
nvml_double_state nvml_double_default(void);

/* All functions of the double. */
dl_nvml nvml_double_table(void);

#endif
