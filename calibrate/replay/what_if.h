/* Changes of a replay graph: what if a sort of work took another time, or none. */
#ifndef DL_CALIBRATE_REPLAY_WHAT_IF_H
#define DL_CALIBRATE_REPLAY_WHAT_IF_H

#include "calibrate/replay/build.h"

/* Highest factor of dl_replay_parse_scale. */
#define DL_REPLAY_MOST 1000.0

/* Multiplies the time of all that `what` names by factor >= 0:
 *
 *   host, call, kernel, collective, copy, memset, graph     all nodes of that kind; kernel without
 *                                                           collectives
 *   convolution, gemm, ...                                  kernels of that class
 *   launch, spacing                                         launch latency; time between works
 *   any other text                                          kernels and calls whose name holds it
 *
 * With factor 0 the works' spacing goes too; their launches stay. Of a collective of several ranks
 * its transfer is scaled, not the waiting. *changed (may be NULL) becomes the number of nodes and
 * edges changed, which may be none of a kind or class; DL_ERR_USAGE if no name holds any other text, with the
 * nearest of the names above. */
dl_status dl_replay_scale(dl_replay_run *run, const char *what, double factor, size_t *changed,
                          dl_error *err) DL_MUST_CHECK;

/* Parses "CLASS=FACTOR" of an option; the text's part before '=' is copied to *what, to be freed.
 * DL_ERR_USAGE if it is not so. */
dl_status dl_replay_parse_scale(const char *text, char **what, double *factor,
                                dl_error *err) DL_MUST_CHECK;

#endif
