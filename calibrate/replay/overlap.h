/* How much slower a device computes beside collectives: the same work of a step in steps where a
 * collective ran beside all of it, against steps where none did.
 *
 * The same work: the k-th launch in a step of the same kernel in the same launch shape.
 * Of each that was seen both ways the ratio of the mean durations is taken; the slowdown is their
 * median, weighted with the durations, as single ratios scatter widely. The standard error is that
 * of a weighted median by resampling the ratios (bootstrap). */
#ifndef DL_CALIBRATE_REPLAY_OVERLAP_H
#define DL_CALIBRATE_REPLAY_OVERLAP_H

#include "trace/activity_steps.h"
#include "trace/dlt.h"

typedef struct dl_overlap_slowdown {
    size_t works;  /* that were seen both ways; 0 = the trace does not tell */
    double factor; /* 1 = not slower */
    double error;
    double alone_ns; /* time of these works in a step, alone: what the factor rests on */
} dl_overlap_slowdown;

/* Works shorter than this are left out: trace times are as coarse as a microsecond. */
#define DL_OVERLAP_SHORTEST_NS 5000

dl_overlap_slowdown dl_overlap_slowdown_find(const dl_trace *trace, const dl_step_line *line);

#endif
