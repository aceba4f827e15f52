/* How long a collective takes once its last rank has come: a line for each kind of collective,
 * time = latency + bytes of one rank x ns_per_byte.
 *
 * Two ways to find the lines, by what is known:
 *
 *   of several ranks   the time from the last rank's start to the end of each meeting is known, and
 *                      the line is the least-squares one, both numbers >= 0; with one size only,
 *                      the mean time whatever the size
 *   of one rank        its kernels also hold the waiting for later ranks, so the line is the highest
 *                      through the origin that no recorded time lies below: what is above it is
 *                      lateness of the peers */
#ifndef DL_CALIBRATE_REPLAY_TRANSFER_H
#define DL_CALIBRATE_REPLAY_TRANSFER_H

#include "calibrate/replay/meetings.h"

/* Moments of sizes (x, bytes) and times (y, ns), about their means. */
typedef struct dl_transfer_sums {
    double mean_x, mean_y, xx, xy, yy;
} dl_transfer_sums;

typedef struct dl_transfer_line {
    const char *name; /* of the collective; borrowed from the meetings */
    double latency_ns, ns_per_byte;
    size_t meetings;       /* of known size that it is made from */
    double error_ns;       /* root mean square of what it misses; 0 of one rank's */
    dl_transfer_sums sums; /* of several ranks */
    double second;         /* of one rank: the second lowest ns per byte, for the line without the
                              lowest one; infinite if there is none */
} dl_transfer_line;

/* Owns its array; release with dl_transfer_free. */
typedef struct dl_transfer {
    dl_transfer_line *lines; /* [count] in order of name */
    size_t count;
} dl_transfer;

/* Finds the lines of all names of meetings that have at least one of known size; zero `transfer`
 * before. `run` has the durations. O(n log n). */
void dl_transfer_fit(dl_transfer *transfer, const dl_meetings *meetings, const dl_replay_run *run);

/* Time of a meeting by its line, in ns; NaN if there is none. */
double dl_transfer_ns(const dl_transfer *transfer, const dl_meeting *meeting);

/* The same by the line of the others, without this one of the meetings that the lines were fitted
 * to; NaN if it is alone. O(log n). */
double dl_transfer_ns_without(const dl_transfer *transfer, const dl_meeting *meeting,
                              const dl_replay_run *run);

void dl_transfer_free(dl_transfer *transfer);

#endif
