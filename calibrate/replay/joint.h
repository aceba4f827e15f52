/* All ranks of a run together: what one rank's trace holds as waiting comes out of the others'
 * starts. The collectives' recorded starts and durations are thrown away; each ends on all ranks
 * together, its transfer's time (transfer.h) after the last rank's kernel has begun. A collective's
 * own recorded time is never used for it: its line is fitted to the others. */
#ifndef DL_CALIBRATE_REPLAY_JOINT_H
#define DL_CALIBRATE_REPLAY_JOINT_H

#include "calibrate/replay/transfer.h"

/* One meeting, replayed. */
typedef struct dl_joint_meeting {
    const dl_meeting *meeting; /* borrowed */
    double transfer_ns;        /* modelled; NaN = size or line unknown, recorded time kept */
    int64_t recorded_ns;       /* from the last start to the mean end */
    int64_t worst_end_ns;      /* replayed end - recorded end, of the rank where that is farthest */
} dl_joint_meeting;

/* Owns its array; release with dl_joint_free. */
typedef struct dl_joint {
    dl_joint_meeting *meetings; /* [count] as those given */
    size_t count;
    int64_t worst_end_ns; /* of all, without sign */
} dl_joint;

/* Makes the meetings groups of the run's graph, times it, and compares; zero `joint` before. The
 * graph keeps the groups. At least two ranks on a common clock. DL_ERR_DATA if ranks have no
 * collective in common, or if the graph holds a circle. */
dl_status dl_joint_replay(dl_joint *joint, dl_replay_run *run, const dl_meetings *meetings,
                          dl_error *err) DL_MUST_CHECK;
void dl_joint_free(dl_joint *joint);

#endif
