/* The threads of one worker, among which the loops of its operations are divided. The processor's
 * backend finds the calling thread's team, so that layers and models do not depend on it. */
#ifndef DL_KERNELS_THREAD_TEAM_H
#define DL_KERNELS_THREAD_TEAM_H

#include <stddef.h>

#include "kernels/exchange.h"

typedef struct dl_thread_team dl_thread_team;

/* Makes a team of the worker's own thread and `threads` - 1 further threads, which the caller
 * starts; threads >= 1, wait is SPIN or BLOCK. Free with dl_thread_team_free (NULL is allowed),
 * after all calls of dl_thread_team_serve have returned. */
dl_thread_team *dl_thread_team_make(int threads, dl_wait wait);
void dl_thread_team_free(dl_thread_team *team);

/* Called by the worker's thread, the leader: from now on divides its loops among the team; NULL: no
 * longer divides them, the initial state of every thread. */
void dl_thread_team_lead(dl_thread_team *team);

/* Called by each further thread: computes parts of loops until the team is dismissed. */
void dl_thread_team_serve(dl_thread_team *team);

/* Called once by the leader, between two loops: dl_thread_team_serve returns in the other
 * threads. */
void dl_thread_team_dismiss(dl_thread_team *team);

/* Computes the numbers first .. last - 1 of a loop. */
typedef void (*dl_loop_part)(const void *loop, size_t first, size_t last);

/* Runs a loop over 0 .. count - 1 in parts, which the threads of the caller's team take as they
 * become free, and returns when all are done and their writes visible. Parts start at multiples of
 * `grain` >= 1; a loop of at most that many numbers is one part. Part boundaries depend on the
 * number of threads: the bits of the results must not. A part must not divide a loop itself. */
void dl_divide(dl_loop_part part, const void *loop, size_t count, size_t grain);

#endif
