/* Fits a machine file's [kernels] to a trace of dlprof bench shapes: three numbers for the products
 * of each pass, and those of kernels that move data.
 *
 *   time = fixed + (bytes of weights) / rate + max(flop / flop rate, (other bytes) / rate)
 *
 * as dlsim prices a product (sim/workloads/roofline.h). The numbers minimize the squares of
 * log(fitted / measured) over the medians of the spread shapes. Their relative standard errors are
 * those of the jackknife, from fits without one shape each. The products of the trace's network are
 * not fitted; they test the fit. */
#ifndef DL_CALIBRATE_SHAPES_H
#define DL_CALIBRATE_SHAPES_H

#include <stdio.h>

#include "calibrate/fit.h"
#include "common/machine.h"
#include "trace/dlt/dlt.h"
#include "trace/shape.h"

/* A shape and the median of its times. */
typedef struct dl_shape_time {
    dl_shape_product product;
    int64_t step_count; /* in the network's step; 0: a spread shape */
    dl_estimate time_ns;
    double drift; /* last over first time */
} dl_shape_time;

/* A number of a fit. */
typedef struct dl_shape_number {
    double value, error_frac; /* relative standard error */
    bool at_limit;            /* the shapes do not determine it: at the end of its range */
} dl_shape_number;

/* Absolute relative errors of times. */
typedef struct dl_shape_errors {
    size_t count;
    double mean, median, max;
    size_t worst;    /* its place among the times */
    double sum_frac; /* of the sum over a step: predicted over measured - 1 */
} dl_shape_errors;

typedef struct dl_shape_fit {
    dl_shape_number flop_per_s, bytes_per_s, fixed_ns;
    size_t shapes;
    dl_shape_errors inside;   /* of each spread shape by the fit without it */
    dl_shape_errors left_out; /* of the network's products */
} dl_shape_fit;

typedef struct dl_shapes {
    const char *path, *device, *workload, *batch; /* borrowed from the trace */
    bool on_cores;
    dl_arithmetic arithmetic; /* fp32 or tf32 */
    int64_t threads;
    double memory_bytes;
    dl_shape_time *times; /* [count], in the order of the trace */
    size_t count;
    dl_shape_fit passes[DL_PRODUCT_PASSES];
    dl_shape_errors all; /* left out, of all passes */
    dl_shape_number move_bytes_per_s, move_ns;
    double drift; /* median over spread shapes of the last time over the first one */
} dl_shapes;

/* Fits `shapes`, zeroed, to the trace, which must outlive it. DL_ERR_DATA if it is no such trace,
 * lacks a pass, or has fewer than four spread shapes of one. Release with dl_shapes_free. */
dl_status dl_shapes_fit(dl_shapes *shapes, const dl_trace *trace, dl_error *err) DL_MUST_CHECK;
void dl_shapes_free(dl_shapes *shapes);

void dl_shapes_print(const dl_shapes *shapes, FILE *out);

/* Writes the text of a machine file, which the caller frees: `base`, the text of one, with the
 * kernels of its only [gpu_model] after it; NULL: a machine whose device are the cores.
 * DL_ERR_DATA, DL_ERR_USAGE if that is impossible. */
dl_status dl_shapes_machine(const dl_shapes *shapes, const char *base, const char *base_name,
                            char **text, dl_error *err) DL_MUST_CHECK;

#endif
