/* Activities laid out on tracks, as a viewer of time lines draws them: the slices of one track nest
 * or lie one after the other, so each has its place in a stack.
 *
 * A stream of a device (KERNEL, MEMCPY, MEMSET, GRAPH) has a track, and so has a thread of the host
 * (CALL, SYNC, RANGE, MARK, COLLECTIVE, OVERHEAD; a SYNC lies on the thread of its CALL, on thread
 * 0 if that is not known). EVENT, COMM and CLOCK lie on none. Where two slices of a track overlap
 * and neither holds the other, one moves to another track of the same stream or thread, numbered
 * by `lane`: the host's other slices make way for its CALLs (an NVTX range may begin and end
 * anywhere), otherwise the later one goes. A MARK is an instant and stays on lane 0.
 */
#ifndef DL_TRACE_ACTIVITY_TRACKS_H
#define DL_TRACE_ACTIVITY_TRACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/activity/activity_launches.h"

#define DL_NO_TRACK UINT32_MAX

typedef struct dl_track {
    bool is_stream;          /* of a device; otherwise a thread of the host */
    uint32_t thread;         /* of the host's */
    uint32_t device, stream; /* of a device's */
    uint32_t lane;           /* 0 = the track itself, 1.. = what had to make way */
    size_t first, count;     /* its activities: order[first] .. order[first + count - 1] */
} dl_track;

/* Owns its arrays; release with dl_activity_tracks_free. */
typedef struct dl_activity_tracks {
    dl_track *tracks; /* [count]: threads by number, then streams by device and number; lanes of one
                         behind one another */
    size_t count;
    uint32_t *order;    /* indices of activities, track by track; on a track by begin, of equal
                           begins the longer first, so that what holds comes before what is held */
    uint32_t *track_of; /* track of each activity, or DL_NO_TRACK */
} dl_activity_tracks;

/* Lays out activities[count], count < 2^32 - 1; zero `tracks` before. `launches` are of the same
 * activities. O(n log n), and O(n) for each lane more. */
void dl_activity_tracks_init(dl_activity_tracks *tracks, const dl_activity *activities,
                             size_t count, const dl_launches *launches);
void dl_activity_tracks_free(dl_activity_tracks *tracks);

#endif
