/* Ranks that are threads of one process: a group in memory, in place of that of MPI. */
#ifndef DL_TESTS_DOUBLES_THREAD_RANKS_H
#define DL_TESTS_DOUBLES_THREAD_RANKS_H

#include "kernels/ranks/rank_group.h"

typedef struct thread_ranks thread_ranks;

/* `size` ranks, who wait for one another for limit_s at most. Released with thread_ranks_free once
 * all of them have left. */
thread_ranks *thread_ranks_make(int size, double limit_s);
void thread_ranks_free(thread_ranks *ranks);

/* The group as rank `rank` sees it. */
dl_rank_group *thread_ranks_join(thread_ranks *ranks, int rank);

#endif
