/* Fits a machine file's [kernels] to a trace of dlprof bench shapes: three numbers for the matrix
 * products of each pass, two for each kind of kernels that move data and for attention, and the
 * ratio of a layer's time in a loop to the sum of its kernels' times.
 *
 *   time = fixed + (bytes of weights) / rate + max(flop / flop rate, (other bytes) / rate)
 *
 * This is how dlsim prices a product (sim/workloads/roofline.h). The numbers minimize the squares
 * of log(fitted / measured) over the medians of the spread shapes, which cover the range of sizes
 * (profiler/bench/bench_shapes.h). Their relative standard errors are jackknife estimates, from
 * fits without one shape each. The products of the trace's network are not fitted; they test the
 * fit. */
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
    int64_t step_count; /* number of calls in the network's step; 0: a spread shape */
    dl_estimate time_ns;
    double drift; /* last time / first time */
} dl_shape_time;

/* A number of a fit. */
typedef struct dl_shape_number {
    double value, error_frac; /* relative standard error */
    bool at_limit; /* undetermined by the shapes: at the end of its range, or held at 0 */
} dl_shape_number;

/* Errors of times: absolute relative errors, except sum_frac. */
typedef struct dl_shape_errors {
    size_t count;
    double mean, median, max;
    size_t worst;    /* index in dl_shapes.times of the shape with the largest error */
    double sum_frac; /* signed error of the sum of the times, predicted / measured - 1: of a step's
                      * products, or (inside) of all shapes */
} dl_shape_errors;

/* A kind of moves, or a pass of attention: ns = fixed + (bytes, or flop) / per_s. */
typedef struct dl_shape_line {
    dl_shape_number per_s, fixed_ns; /* per_s.value 0: not measured */
    double inside_mean;              /* mean absolute relative error at the fitted times */
    double left_out_mean;            /* and at those of the network's sizes */
    size_t left_out;                 /* number of the latter */
} dl_shape_line;

typedef struct dl_shape_fit {
    dl_shape_number flop_per_s, bytes_per_s, fixed_ns;
    size_t shapes;
    dl_shape_errors inside;   /* errors at each spread shape of the fit without it */
    dl_shape_errors left_out; /* errors at the network's products of the pass other than spread
                               * shapes */
} dl_shape_fit;

typedef struct dl_shapes {
    const char *path, *device, *workload, *batch; /* borrowed from the trace */
    bool on_cores;
    dl_arithmetic arithmetic; /* fp32 or tf32 */
    int64_t threads;
    double others_frac; /* use of the processors by other programs meanwhile */
    double memory_bytes;
    dl_shape_time *times; /* [count], in the order of the trace */
    size_t count;
    dl_shape_fit passes[DL_PRODUCT_PASSES];
    dl_shape_errors all; /* errors at the network's products of all passes other than spread
                          * shapes */
    dl_shape_line moves[DL_MOVES], attention[2]; /* attention: forward, backward */
    dl_estimate
        sustained;     /* a layer's time / the sum of its kernels' times; count 0: not measured */
    int layer_kernels; /* number of a layer's kernels */
    const char *layer_note; /* why there is no layer, or what it lacks; "": nothing */
    dl_estimate launch_ns;  /* host time of a launch; count 0: not measured */
    double drift;           /* median over spread shapes of last time / first time; 1 without any */
} dl_shapes;

/* Fits `shapes`, which must be zeroed, to the trace, which must outlive it. Returns DL_ERR_DATA if
 * the trace is not of dlprof bench shapes, has fewer than four spread shapes of a pass, or gives no
 * rate of data movement. Release with dl_shapes_free. */
dl_status dl_shapes_fit(dl_shapes *shapes, const dl_trace *trace, dl_error *err) DL_MUST_CHECK;
void dl_shapes_free(dl_shapes *shapes);

/* Fraction of the processors used by other programs above which the report and the machine file
 * mention it: runs agreed at 0.06, but not at 0.5 (docs/studies/pytorch_on_cores.md). */
#define DL_SHAPES_OTHERS_FRAC 0.1

void dl_shapes_print(const dl_shapes *shapes, FILE *out);

/* Sets *text to a machine file, which the caller frees: `base`, the text of a machine file,
 * followed by the kernels of its only [gpu_model]; if `base` is NULL, a machine whose device is
 * its cores. Returns DL_ERR_USAGE if `base` is NULL but the trace is of a GPU; DL_ERR_DATA if
 * `base` has not exactly one model, or has these kernels already; and the errors of
 * dl_machine_read_text. */
dl_status dl_shapes_machine(const dl_shapes *shapes, const char *base, const char *base_name,
                            char **text, dl_error *err) DL_MUST_CHECK;

#endif
