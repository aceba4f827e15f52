/* Cost of recording another program. */
#ifndef DL_PROFILER_CAPTURE_COST_H
#define DL_PROFILER_CAPTURE_COST_H

#include <stdatomic.h>

#include "common/status.h"
#include "profiler/progress.h"
#include "trace/activity/capture_cost.h"

#define DL_OVERHEAD_CONFIDENCE 0.95

/* Returns the rank `low`, from 0, such that the order statistics of ranks low and count - 1 - low
 * enclose the median with a probability of at least `confidence`, for any distribution (binomial);
 * 0 if there are too few values. */
size_t dl_overhead_median_interval(size_t count, double confidence);

/* Median of values[count] and its distribution-free interval with a confidence of
 * DL_OVERHEAD_CONFIDENCE. Sorts the values. */
dl_capture_figure dl_overhead_figure(double *values, size_t count);

/* Cost of recording CUDA to a program: a loop of launches, copies, event recordings and waits in
 * child processes, bare and with the injected library under each preset, in alternating order. The
 * bare time of the same repetition is subtracted.
 *
 * An empty kernel is the worst case: with longer kernels earlier work hides the same cost if the
 * host is ahead of the device. */
typedef enum dl_launch_variant {
    DL_LAUNCH_BARE,
    DL_LAUNCH_NVTX, /* the library is loaded, but CUPTI is not used */
    DL_LAUNCH_LIGHT,
    DL_LAUNCH_DEFAULT,
    DL_LAUNCH_FULL,
    DL_LAUNCH_VARIANT_COUNT
} dl_launch_variant;

extern const char *const dl_launch_variant_names[DL_LAUNCH_VARIANT_COUNT]; /* "bare", "nvtx", ... */

/* Fewest repetitions that have an interval of 95 % (dl_overhead_median_interval). */
#define DL_LAUNCH_REPETITIONS_MIN 6

typedef struct dl_launch_config {
    const char *device_library; /* DL_DEVICE_CUDA_LIBRARY's path */
    const char *library;        /* path of the recorder's library */
    const char *cupti;          /* path of CUPTI; "" = search for it */
    const char *folder;         /* temporary traces go below it */
    double seconds;             /* time budget; never fewer repetitions than the minimum */
    const atomic_bool *stop;    /* once true: give up; NULL: never */
    dl_progress *progress;
} dl_launch_config;

typedef struct dl_launch_cost {
    double bare_ns[DL_CAPTURE_PER_RECORD];               /* median per call without recording */
    dl_capture_figures figures[DL_LAUNCH_VARIANT_COUNT]; /* BARE: zero; NVTX: no cost per record */
    double
        records_per_launch[DL_LAUNCH_VARIANT_COUNT]; /* activities divided by calls of any kind */
} dl_launch_cost;

/* Measures on device 0. The process must have a single thread and must not have used CUDA.
 * DL_ERR_UNSUPPORTED with the reason if there is no device or no CUPTI for it; DL_ERR_DATA if a
 * recording lacks launches, so that lost records never make it look cheap; DL_ERR_SYSTEM if stopped
 * or if a child fails. */
dl_status dl_launch_cost_measure(const dl_launch_config *config, dl_launch_cost *cost,
                                 dl_error *err) DL_MUST_CHECK;

#endif
