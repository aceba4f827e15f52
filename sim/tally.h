/* A histogram of durations: bins of a relative width of 2^-10, a thousandth, and of 1 ns below 1024
 * ns, as in HdrHistogram. 442 KB for any number of durations. */
#ifndef DL_SIM_TALLY_H
#define DL_SIM_TALLY_H

#include <stdint.h>

typedef struct dl_tally {
    int64_t *bins; /* NULL: nothing was added */
    int64_t count;
    double mean_ns, squares; /* sum of squared deviations from the mean */
} dl_tally;

/* Adds a duration in 0 .. DL_NS_MAX ns. Accepts a zeroed object; O(1). */
void dl_tally_add(dl_tally *tally, int64_t ns);

/* Standard deviation in ns; 0 for fewer than two. */
double dl_tally_sd_ns(const dl_tally *tally);

/* The quantile `share` (0..1) in ns, to within a bin's width; 0 if nothing was added. */
double dl_tally_quantile_ns(const dl_tally *tally, double share);

void dl_tally_free(dl_tally *tally);

#endif
