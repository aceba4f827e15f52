/* How long the steps of a run take, as recorded and as re-timed. Steps are delimited on the device:
 * a step begins with the earliest start of its works, but not before the step before it, and lasts
 * until the next one begins, the last one until the last of its works has ended. A device on which
 * no steps were found counts as one step. */
#ifndef DL_CALIBRATE_REPLAY_STEP_TIMES_H
#define DL_CALIBRATE_REPLAY_STEP_TIMES_H

#include "calibrate/replay/build.h"
#include "calibrate/replay/retime.h"
#include "trace/activity/activity_steps.h"

typedef struct dl_replay_step {
    uint16_t rank;
    uint32_t device;
    size_t number;       /* on its device */
    dl_step_label label; /* OTHER if none were found, `whole` then */
    bool whole;          /* all of the device's work */
    int64_t recorded_ns; /* durations */
    int64_t replayed_ns;
    int64_t start_ns, end_ns; /* replayed, since the graph's origin */
    uint32_t ends_with;       /* node whose start, or of the last step whose end, is end_ns */
    bool at_end;              /* it is the end of ends_with */
} dl_replay_step;

/* Owns its array; release with dl_replay_steps_free. */
typedef struct dl_replay_steps {
    dl_replay_step *items; /* [count] by rank, device and number */
    size_t count;
} dl_replay_steps;

/* Times the steps of one rank; lines are of the rank's own activities. Appends to `steps`, zeroed
 * before the first rank. `times` are those of dl_replay_retime. */
void dl_replay_steps_add(dl_replay_steps *steps, const dl_replay_run *run, size_t rank,
                         const dl_activity_steps *found, const dl_replay_time *times);
/* The same of one line with works: as many items as it has steps, or one. */
void dl_replay_line_add(dl_replay_steps *steps, const dl_replay_run *run, size_t rank,
                        const dl_step_line *line, const dl_replay_time *times);

/* Mean replayed duration of the regular steps of a line of the first rank; 0 without any. */
double dl_replay_mean_step_ns(const dl_replay_run *run, const dl_step_line *line,
                              const dl_replay_time *times);

void dl_replay_steps_free(dl_replay_steps *steps);

/* replayed / recorded - 1; 0 for a step of no time. */
double dl_replay_step_error(const dl_replay_step *step);

#endif
