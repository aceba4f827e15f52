/* Times of matrix products by shape, and of kernels that only move data, on all of the cores or on
 * a GPU, for dlcal shapes.
 *
 * Measures ten shapes spread over the range of sizes, four of them with a small dimension, and the
 * shapes of a network, separately in the three passes of a layer. Operands are normal random
 * numbers, since on GPUs products of zeros take less power. Every round takes all cases in a new
 * order: the change of the spread shapes from the first round to the last one is the machine's
 * drift. Names and fields of the records: trace/record.h. */
#ifndef DL_PROFILER_BENCH_SHAPES_H
#define DL_PROFILER_BENCH_SHAPES_H

#include <stdatomic.h>

#include "kernels/device.h"
#include "sim/workloads/architecture.h"
#include "trace/dlt/dlt.h"

#define DL_BENCH_SPREAD_SHAPES 10

typedef struct dl_bench_shapes_config {
    const dl_device_type *device;    /* NULL: the processor */
    int number;                      /* of the device */
    dl_device_settings settings;     /* of the device */
    int threads;                     /* of the processor, pinned to cores 0, 1, ... */
    const dl_step_product *products; /* [count] of the network */
    size_t count;
    double seconds;          /* at least two rounds are made, after one that does not count */
    bool quick;              /* two rounds, spread shapes of a quarter in each dimension */
    const atomic_bool *stop; /* NULL: runs to its end */
} dl_bench_shapes_config;

/* The spread shape `index`; rows, inputs and outputs are four times larger for GPUs. */
dl_step_product dl_bench_spread_shape(int index, bool gpu, bool quick);

/* Appends the samples to `writer`. DL_ERR_RANGE if a product's matrices exceed what the library can
 * address, DL_ERR_SYSTEM if a device fails or lacks memory. */
dl_status dl_bench_shapes(dl_trace_writer *writer, const dl_bench_shapes_config *config,
                          dl_error *err) DL_MUST_CHECK;

#endif
