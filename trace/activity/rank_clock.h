/* Common clock for the traces of several ranks, derived from their common collectives.
 *
 * Clocks of hosts differ by up to milliseconds. A collective in which each rank needs the data of
 * all others (AllReduce, AllGather, ReduceScatter, all-to-all) ends on all ranks at nearly the same
 * time, independent of their starts, and on no rank before the last rank has started. So the offset
 * of rank r's clock from that of the first trace, over all common collectives k, is
 *
 *   offset  = median over k of (end of k on the first - end of k on r), limited to
 *   low     = max over k of (start of k on the first - end of k on r),
 *   high    = min over k of (end of k on the first - start of k on r).
 *
 * The bounds are certain; their distance is at most the sum of one collective's durations on both
 * ranks. `spread` is the median distance of the ends after the shift, caused by drifting clocks and
 * by collectives that end at different times; it limits the accuracy of times within a collective.
 *
 * Collectives are matched in order, on each rank's stream with the most such kernels. Sequences of
 * different length are shifted against each other: the shift with the most equal names is used; of
 * several, the one whose ends agree best, then the one with the smallest offset. Not supported are
 * drift, and ranks without such a collective in common with the first (pipeline neighbours).
 * Kernels whose name does not give the collective (RCCL's generic one) cannot be used. */
#ifndef DL_TRACE_ACTIVITY_RANK_CLOCK_H
#define DL_TRACE_ACTIVITY_RANK_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "trace/dlt/dlt.h"

typedef struct dl_rank_clock {
    int64_t offset_ns;       /* added to the trace's times */
    int64_t low_ns, high_ns; /* bounds of the true offset; low > high: the clock jumped, or the
                              * collectives differ */
    int64_t spread_ns;       /* >= 0 */
    size_t matched;          /* number of matched collectives */
} dl_rank_clock;

/* Finds clocks[count] of traces[count] (two or more, each of one rank); the first clock's offset is
 * 0. Returns DL_ERR_DATA, naming the file, if a trace has no such collective in common with the
 * first. */
dl_status dl_rank_clocks_find(dl_rank_clock *clocks, const dl_trace *const *traces, size_t count,
                              dl_error *err) DL_MUST_CHECK;

/* Adds the offset to all times of the trace. Returns DL_ERR_RANGE, with nothing changed, if a time
 * would leave its range. */
dl_status dl_rank_clock_apply(dl_trace *trace, int64_t offset_ns, dl_error *err) DL_MUST_CHECK;

#endif
