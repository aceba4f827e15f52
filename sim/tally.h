/* A histogram of durations, as in HdrHistogram: bins are 1 ns wide below 2048 ns, and above at most
 * 2^-10 (about a thousandth) of their duration. Takes 442 KB for any number of durations. */
#ifndef DL_SIM_TALLY_H
#define DL_SIM_TALLY_H

#include <stdint.h>

typedef struct dl_tally {
    int64_t *bins; /* NULL: empty */
    int64_t count;
    double mean_ns, squares; /* sum of squared deviations from the mean */
} dl_tally;

/* Adds a duration, 0 to DL_NS_MAX ns. Accepts a zeroed object. O(1). */
void dl_tally_add(dl_tally *tally, int64_t ns);

/* Standard deviation in ns; 0 for fewer than two durations. */
double dl_tally_sd_ns(const dl_tally *tally);

/* The quantile `share` (0 to 1) in ns, to within a bin's width; 0 if empty. */
double dl_tally_quantile_ns(const dl_tally *tally, double share);

void dl_tally_free(dl_tally *tally);

#endif
