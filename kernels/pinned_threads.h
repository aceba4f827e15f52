/* Threads pinned to cores that run one function together. */
#ifndef DL_KERNELS_PINNED_THREADS_H
#define DL_KERNELS_PINNED_THREADS_H

#include "common/status.h"

typedef void (*dl_pinned_thread_fn)(void *user, int index);

/* Runs fn(user, i) for i = 0 .. count-1, each on a separate thread pinned to allowed core cores[i]
 * (cores = NULL: not pinned), and returns when all have ended. No fn starts before all threads are
 * pinned; if one cannot be made or pinned, none runs and DL_ERR_SYSTEM is returned. */
dl_status dl_pinned_threads_run(int count, const int *cores, dl_pinned_thread_fn fn, void *user,
                                dl_error *err) DL_MUST_CHECK;

#endif
