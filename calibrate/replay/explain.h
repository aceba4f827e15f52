/* What the edges of a graph leave unexplained: time that a work of a device is recorded to begin
 * after everything that the graph knows to hold it back. Replay leaves these times out; they are
 * found from the recorded times alone, so that a gap stays where it arose. */
#ifndef DL_CALIBRATE_REPLAY_EXPLAIN_H
#define DL_CALIBRATE_REPLAY_EXPLAIN_H

#include "calibrate/replay/graph.h"

/* Gaps up to this are the spread of launch latency and spacing, which are typical values. */
#define DL_REPLAY_SPREAD_NS 10000

/* For each node the time at which by recorded times all that it waits for is over: earliest[
 * node_count], given by the caller. */
void dl_replay_explain(const dl_replay_graph *graph, int64_t *earliest_ns);

#endif
