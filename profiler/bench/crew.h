/* Threads pinned to cores that run one function together. */
#ifndef DL_PROFILER_CREW_H
#define DL_PROFILER_CREW_H

#include "common/status.h"

typedef void (*dl_crew_fn)(void *user, int index);

/* Runs fn(user, i) for i = 0 .. count-1, each on a thread of its own that is pinned to allowed core
 * cores[i], and returns when all have ended. No fn starts before all threads are pinned; if one
 * cannot be made or pinned, none runs and DL_ERR_SYSTEM is returned. */
dl_status dl_crew_run(int count, const int *cores, dl_crew_fn fn, void *user,
                      dl_error *err) DL_MUST_CHECK;

#endif
