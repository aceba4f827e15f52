/* How much slower a device computes beside collectives: the same work of a step in steps where a
 * collective ran beside all of it, against steps where none did.
 *
 * The same work: the k-th launch in a step of the same kernel in the same launch shape. Times are
 * taken over how fast the step was, by works that no collective ran beside in any step: on the rank
 * that is slow in a step collectives are short, so that works run alone in slow steps above all.
 *
 * Of each work that was seen both ways the ratio of the mean times is taken; the slowdown is their
 * median, weighted with the durations and with how often both were seen, as single ratios scatter
 * widely. Its standard error is that of a weighted median by resampling the ratios (bootstrap),
 * joined by what the scatter of equal works leaves open.
 *
 * Works that a collective ran beside for a part are left out: the share depends on the work's own
 * length, which would be taken for a slowdown. */
#ifndef DL_CALIBRATE_REPLAY_OVERLAP_H
#define DL_CALIBRATE_REPLAY_OVERLAP_H

#include "calibrate/replay/spans.h"
#include "trace/activity/activity_steps.h"
#include "trace/dlt.h"

typedef struct dl_overlap_slowdown {
    size_t works;  /* that were seen both ways */
    double factor; /* 1 = not slower, or unknown */
    double error;
    double alone_ns; /* time of these works in a step, alone: what the factor rests on */
    bool known;      /* works were seen, and the error is at most DL_OVERLAP_ERROR_MAX */
} dl_overlap_slowdown;

/* Works shorter than this are left out: trace times are as coarse as a microsecond. */
#define DL_OVERLAP_SHORTEST_NS 5000

/* Slowdowns are 1.03 to 1.3: one that is off by more tells nothing. */
#define DL_OVERLAP_ERROR_MAX 0.05

/* When collectives ran on each device. Release with dl_spans_free. */
dl_spans dl_collective_spans(const dl_trace *trace);

/* Of the regular steps of `line`. O(n log n). */
dl_overlap_slowdown dl_overlap_slowdown_find(const dl_trace *trace, const dl_step_line *line,
                                             const dl_spans *collectives);

#endif
