/* The collectives of a replayed run: which node of which rank takes part in which.
 *
 * Of one rank, each collective's kernel is a meeting of its own. Of several, the k-th kernel of a
 * name on one rank meets the k-th of that name on all others, provided that all ranks have equally
 * many of it; names of which they have not are left alone and counted. That needs ranks that all
 * belong to one group of the collective: subgroups whose members differ are not told apart. */
#ifndef DL_CALIBRATE_REPLAY_MEETINGS_H
#define DL_CALIBRATE_REPLAY_MEETINGS_H

#include "calibrate/replay/build.h"

typedef struct dl_meeting {
    char *name;      /* "AllReduce", "alltoall", ...: as the host's call says, else as the kernel's
                         name; "" = unknown */
    double bytes;    /* of one rank, the mean over the ranks; 0 = unknown */
    uint32_t ranks;  /* of the communicator; 0 = unknown */
    uint32_t *nodes; /* [rank_count of the run] */
    int64_t last_ns; /* recorded: when the last rank's kernel began, on the common clock, */
    int64_t end_ns;  /* and the mean of when they ended */
} dl_meeting;

/* Owns its arrays; release with dl_meetings_free. */
typedef struct dl_meetings {
    dl_meeting *meetings; /* [count] by last_ns */
    size_t count;
    size_t left_alone; /* kernels of names that the ranks have different numbers of */
} dl_meetings;

/* Finds the meetings of all ranks of `run`; zero `meetings` before. O(n log n). */
void dl_meetings_find(dl_meetings *meetings, const dl_replay_run *run);
void dl_meetings_free(dl_meetings *meetings);

#endif
