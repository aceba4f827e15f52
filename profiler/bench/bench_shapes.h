/* Times of a transformer's kernels one by one and of a layer of them in a loop, on all cores or on
 * a GPU, for dlcal shapes.
 *
 * Measures products of ten shapes spread over the range of sizes, four of them with a small
 * dimension, and those of a network, separately in the three passes of a layer; and kernels that
 * move data, by kind, and attention at several sizes. Operands are normal random numbers, since on
 * GPUs products of zeros take less power. Every round runs all cases in a new order, and then, for
 * as long, the forward and backward pass of the network's last block: the ratio of its time to the
 * sum of its kernels' times in the same round is the sustained factor. On GPUs it also measures the
 * host's time to launch the kernels of a block of a few tokens. The change of the spread shapes
 * between the first round and the last is the machine's drift. Names and fields of the records:
 * trace/record.h. */
#ifndef DL_PROFILER_BENCH_SHAPES_H
#define DL_PROFILER_BENCH_SHAPES_H

#include <stdatomic.h>

#include "kernels/device.h"
#include "sim/workloads/architecture.h"
#include "trace/dlt/dlt.h"

#define DL_BENCH_SPREAD_SHAPES 10

typedef struct dl_bench_shapes_config {
    const dl_device_type *device; /* NULL: the processor */
    int number;                   /* index of the device */
    dl_device_settings settings;
    int threads; /* threads on the processor, pinned to cores 0, 1, ... */
    const dl_architecture *network;
    int64_t batch;           /* samples per step of the network */
    double seconds;          /* time budget; at least two rounds, after a warm-up round */
    bool quick;              /* two rounds, with small spread shapes */
    const atomic_bool *stop; /* once true: skip the rest; NULL: never */
} dl_bench_shapes_config;

/* Returns spread shape `index`, 0 .. DL_BENCH_SPREAD_SHAPES - 1. For GPUs rows, inputs and outputs
 * are four times those for cores; with `quick` they are a quarter of those for cores. */
dl_step_product dl_bench_spread_shape(int index, bool gpu, bool quick);

/* Appends the samples to `writer`. DL_ERR_RANGE if a product's matrices exceed what the library can
 * address, DL_ERR_SYSTEM if a device fails or lacks memory. */
dl_status dl_bench_shapes(dl_trace_writer *writer, const dl_bench_shapes_config *config,
                          dl_error *err) DL_MUST_CHECK;

#endif
