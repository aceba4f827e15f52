/* Ranks that are threads of one process: a group in memory, instead of MPI's. */
#ifndef DL_TESTS_DOUBLES_THREAD_RANKS_H
#define DL_TESTS_DOUBLES_THREAD_RANKS_H

#include "kernels/ranks/rank_group.h"

typedef struct thread_ranks thread_ranks;

/* Makes a group of `size` ranks, which wait for one another for at most limit_s. Free with
 * thread_ranks_free once all of them have left. */
thread_ranks *thread_ranks_make(int size, double limit_s);
void thread_ranks_free(thread_ranks *ranks);

/* Returns the group for rank `rank`. */
dl_rank_group *thread_ranks_join(thread_ranks *ranks, int rank);

#endif
