/* What recording a run costs: pairs of equal training runs, one with a trace and one without, in
 * random order within the pair, so that a drift of the machine cancels out. */
#ifndef DL_PROFILER_OVERHEAD_H
#define DL_PROFILER_OVERHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/train/train.h"
#include "profiler/progress.h"

#define DL_OVERHEAD_CONFIDENCE 0.95

typedef struct dl_overhead_config {
    const dl_train_config *train; /* its steps are chosen here */
    const dl_data_set *data;
    const char *path; /* the traces go here, one over the other */
    double seconds;   /* for everything; at least DL_OVERHEAD_PAIRS_MIN pairs are run */
    dl_progress *progress;
} dl_overhead_config;

#define DL_OVERHEAD_PAIRS_MIN 6 /* the fewest of which the interval has its confidence */

typedef struct dl_overhead {
    int pairs;
    int64_t steps; /* of each run */
    double records_per_step;
    double step_ns;         /* median over the runs without a trace */
    double extra_ns;        /* median over the pairs: with less without, per step */
    double low_ns, high_ns; /* interval of that median, distribution-free */
} dl_overhead;

dl_status dl_overhead_measure(const dl_overhead_config *config, dl_overhead *overhead,
                              dl_error *err) DL_MUST_CHECK;

/* Which order statistics of a sample, ranks low and count - 1 - low counted from 0, enclose the
 * median with a probability of at least `confidence`, whatever the distribution (binomial). Returns
 * low; 0 if there are too few values for it. */
size_t dl_overhead_median_interval(size_t count, double confidence);

#endif
