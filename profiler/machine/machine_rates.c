#include "profiler/machine/machine_rates.h"

#include <string.h>

/* Dense products with sums in fp32, over fp32's rate: NVIDIA's white papers and data sheets of
 * P100, V100, T4, A100, A10, L4, H100, B200. GeForce cards since Turing do half of that with such
 * sums (appendices of the white papers on TU102, GA102, AD102). Single products are slower still,
 * such as A10G, L40, H20, which is why files call these rates assumed. 0 = no such cores. */
static const struct {
    int major, minor;
    double fp16, tf32;
    double geforce; /* part of it */
} ratios[] = {
    {6, 0, 2, 0, 1},   {7, 0, 8, 0, 1},   {7, 5, 8, 0, 0.5}, {8, 0, 16, 8, 1},
    {8, 6, 4, 2, 0.5}, {8, 9, 4, 2, 0.5}, {9, 0, 16, 8, 1},  {10, 0, 32, 16, 1},
};

/* Of compute capability 7.5, but not of 7.0 and later ones, there are cards without tensor cores.
 */
static bool has_tensor_cores(const dl_box_gpu *gpu)
{
    return gpu->major != 7 || gpu->minor != 5 || strstr(gpu->name, "RTX") != NULL ||
           strstr(gpu->name, "T4") != NULL;
}

dl_gpu_rates dl_gpu_rates_find(const dl_box_gpu *gpu)
{
    dl_gpu_rates rates = {
        .fp32_flop_per_s = 2 * gpu->cores * gpu->clock_hz,
        .memory_bytes_per_s = 2 * gpu->memory_clock_hz * gpu->memory_bus_bits / 8,
    };
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
        if (ratios[i].major != gpu->major || ratios[i].minor != gpu->minor) continue;
        if (!has_tensor_cores(gpu)) continue;
        const double part = strstr(gpu->name, "GeForce") != NULL ? ratios[i].geforce : 1;
        rates.fp16_flop_per_s = rates.fp32_flop_per_s * ratios[i].fp16 * part;
        rates.tf32_flop_per_s = rates.fp32_flop_per_s * ratios[i].tf32 * part;
    }
    return rates;
}
