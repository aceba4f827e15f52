/* Strip and predict: the collectives of one rank's trace are taken out, modelled ones are put in,
 * and the run is timed again, to see whether the model of a step holds with other communication.
 *
 * A modelled collective takes its transfer's time (transfer.h) and waits for later peers. When the
 * peers come, one rank cannot show; kept is how late they were in other steps: a step's
 * collectives, in order, take the latenesses that those of another regular step had, for each of
 * the other steps in turn, and the results are averaged. So no step is predicted from itself.
 *
 *   lateness = recorded duration - transfer, at least 0; all of it where the size is unknown
 *
 * Steps are delimited on the device: from a step's first work to that of the next one, of the last
 * one to the end of its work. Only regular ones count, and only theirs are changed. */
#ifndef DL_CALIBRATE_REPLAY_STRIP_H
#define DL_CALIBRATE_REPLAY_STRIP_H

#include "calibrate/replay/step_times.h"
#include "calibrate/replay/transfer.h"

/* Mean times of a regular step in ns. */
typedef struct dl_strip {
    size_t steps;       /* regular */
    size_t collectives; /* of a step, the mean */
    size_t unknown;     /* of all those in regular steps: of unknown size */
    double recorded_ns;
    double replayed_ns;  /* nothing changed */
    double empty_ns;     /* collectives take no time: nothing put back, linear speedup */
    double added_ns;     /* empty_ns and the sum of the transfers: nothing overlaps */
    double predicted_ns; /* transfers and latenesses put back */
} dl_strip;

/* Most other steps whose latenesses are tried. */
#define DL_STRIP_TURNS 16

/* Predicts the steps of `line`, found in the run's one rank. The graph is changed and restored.
 * DL_ERR_DATA with fewer than two regular steps, or if the graph holds a circle. */
dl_status dl_strip_predict(dl_strip *strip, dl_replay_run *run, const dl_meetings *meetings,
                           const dl_transfer *transfer, const dl_step_line *line,
                           dl_error *err) DL_MUST_CHECK;

#endif
