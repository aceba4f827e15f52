/* What recording CUDA costs a program: a loop of launches, copies, event recordings and waits in
 * child processes, bare and with the injected library under each preset, in an alternating order.
 * The bare time of the same repetition is taken off.
 *
 * A kernel that does nothing is the dearest case: of a longer one, the same cost hides behind the
 * work before it if the host is ahead of the device. */
#ifndef DL_PROFILER_LAUNCH_COST_H
#define DL_PROFILER_LAUNCH_COST_H

#include <stdatomic.h>

#include "common/status.h"
#include "profiler/progress.h"
#include "trace/activity/capture_cost.h"

typedef enum dl_launch_variant {
    DL_LAUNCH_BARE,
    DL_LAUNCH_NVTX, /* the library is loaded, but CUPTI is not used */
    DL_LAUNCH_LIGHT,
    DL_LAUNCH_DEFAULT,
    DL_LAUNCH_FULL,
    DL_LAUNCH_VARIANT_COUNT
} dl_launch_variant;

extern const char *const dl_launch_variant_names[DL_LAUNCH_VARIANT_COUNT]; /* "bare", "nvtx", ... */

/* A child makes so many rounds of so many calls of each kind, and a round before that does not
 * count; its figure is the median round. A device's queue holds about a thousand launches before it
 * makes the host wait. */
#define DL_LAUNCH_ROUNDS 41
#define DL_LAUNCH_CALLS 250

/* The fewest of which an interval of 95 % exists (dl_overhead_median_interval). */
#define DL_LAUNCH_REPETITIONS_MIN 6
#define DL_LAUNCH_REPETITIONS_MAX 60

typedef struct dl_launch_config {
    const char *device_library; /* DL_DEVICE_CUDA_LIBRARY's path */
    const char *library;        /* of the recorder */
    const char *cupti;          /* "" = search for it */
    const char *folder;         /* temporary traces go below it */
    double seconds;             /* for everything; never fewer repetitions than the fewest */
    const atomic_bool *stop;    /* set: give up; may be NULL */
    dl_progress *progress;
} dl_launch_config;

typedef struct dl_launch_cost {
    double bare_ns[DL_CAPTURE_PER_RECORD];               /* of a call without recording: median */
    dl_capture_figures figures[DL_LAUNCH_VARIANT_COUNT]; /* of BARE zero; NVTX has no records */
    double records_per_launch[DL_LAUNCH_VARIANT_COUNT];  /* activities by calls of any kind */
} dl_launch_cost;

/* Measures on device 0. The process must have a single thread and must not have used CUDA.
 * DL_ERR_UNSUPPORTED with the reason where there is no device or no CUPTI for it; DL_ERR_DATA if a
 * recording lacks launches, so that nothing is cheap because it was lost; DL_ERR_SYSTEM if stopped
 * or if a child fails. */
dl_status dl_launch_cost_measure(const dl_launch_config *config, dl_launch_cost *cost,
                                 dl_error *err) DL_MUST_CHECK;

#endif
