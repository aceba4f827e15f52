/* Rates of a GPU that follow from what its driver reports; 0 where that is not enough.
 *
 *   fp32_flop_per_s    = 2 cores clock                    a multiply-add a core and cycle
 *   memory_bytes_per_s = 2 memory_clock bus_bits / 8      two transfers a clock, as NVML counts it
 *   fp16, tf32         = fp32 x a ratio of the compute capability, see machine_rates.c
 *
 * They are peaks at the highest clock: the data sheets' for A100, V100, T4 (within 1 %), while data
 * sheets of H100 take a lower clock for tensor cores. */
#ifndef DL_PROFILER_MACHINE_RATES_H
#define DL_PROFILER_MACHINE_RATES_H

#include "profiler/machine/machine_box.h"

typedef struct dl_gpu_rates {
    double fp32_flop_per_s;
    double tf32_flop_per_s, fp16_flop_per_s; /* dense, sums in fp32 */
    double memory_bytes_per_s;
} dl_gpu_rates;

dl_gpu_rates dl_gpu_rates_find(const dl_box_gpu *gpu);

#endif
