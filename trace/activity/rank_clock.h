/* One clock for the traces of several ranks, by the collectives that they ran together.
 *
 * Hosts' clocks differ by up to milliseconds. A collective in which each rank needs all others'
 * data (AllReduce, AllGather, ReduceScatter, all-to-all) ends on all ranks at nearly the same
 * time, whenever they began it, and on none before the last rank has started. So the offset of rank
 * r's clock from that of the first trace, over all collectives k that both ran, is
 *
 *   offset  = median over k of (end of k on the first - end of k on r), held within
 *   low     = max over k of (start of k on the first - end of k on r),
 *   high    = min over k of (end of k on the first - start of k on r).
 *
 * The bounds are certain; their distance is at most the sum of one collective's durations on both
 * ranks. `spread` is the median distance of the ends after the shift, caused by drifting clocks and
 * by collectives that end at different times; it limits the accuracy of times within a collective.
 *
 * Collectives are matched in order, on each rank's stream with the most such kernels. Sequences of
 * different length are shifted against each other: the shift with the most equal names is taken, of
 * several the one whose ends agree best, then the one with the smallest offset. Not covered are
 * drift, and ranks that share no such collective with the first (pipeline neighbours). Kernels
 * whose name does not give the collective (RCCL's generic one) cannot be used. */
#ifndef DL_TRACE_ACTIVITY_RANK_CLOCK_H
#define DL_TRACE_ACTIVITY_RANK_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "trace/dlt/dlt.h"

typedef struct dl_rank_clock {
    int64_t offset_ns;       /* added to the trace's times */
    int64_t low_ns, high_ns; /* bounds of the true offset; low > high: the clock jumped, or the
                                collectives were not the same */
    int64_t spread_ns;       /* >= 0 */
    size_t matched;          /* number of matched collectives */
} dl_rank_clock;

/* Finds clocks[count] of traces[count] (2 or more, each of one rank); the first one's is 0.
 * DL_ERR_DATA if a trace has no such collective in common with the first: the error names its
 * file. */
dl_status dl_rank_clocks_find(dl_rank_clock *clocks, const dl_trace *const *traces, size_t count,
                              dl_error *err) DL_MUST_CHECK;

/* Adds the offset to all times of the trace. DL_ERR_RANGE, with nothing changed, if one would leave
 * its range. */
dl_status dl_rank_clock_apply(dl_trace *trace, int64_t offset_ns, dl_error *err) DL_MUST_CHECK;

#endif
