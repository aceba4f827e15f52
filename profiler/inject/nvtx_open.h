/* NVTX ranges that have begun and not yet ended: a stack per thread for push and pop, and one table
 * per process for start and end, whose ranges may end in another thread.
 *
 * A thread has one stack for all domains, but a pop takes the innermost range of its domain, as
 * NVTX defines levels per domain. Pushed ranges still open when their thread ends, and all ranges
 * still open at dl_nvtx_open_end, are recorded up to that time. All functions may be called by any
 * thread. */
#ifndef DL_PROFILER_INJECT_NVTX_OPEN_H
#define DL_PROFILER_INJECT_NVTX_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/inject/nvtx.h"
#include "trace/activity/activity.h"

#define DL_NVTX_DEPTH_MAX 4096    /* open ranges per thread, for programs that never pop */
#define DL_NVTX_STARTED_MAX 65536 /* open ranges of start and end per process */

/* A range that has started; activity.duration_ns is not known yet. */
typedef struct dl_nvtx_open {
    dl_activity activity;
    const dl_nvtx_domain *domain;
    uint32_t function; /* dl_nccl_function */
    int32_t level;     /* nesting depth in its domain, from 0; set by dl_nvtx_push */
} dl_nvtx_open;

/* Pushes a copy. Returns the level of the range, or NVTX_NO_PUSH_POP_TRACKING if it could not be
 * kept (too deep, memory); its pop is then ignored. */
int dl_nvtx_push(const dl_nvtx_open *open);

/* Pops the innermost range of `domain` into *open; false if there is none or it was not kept. */
bool dl_nvtx_pop(const dl_nvtx_domain *domain, dl_nvtx_open *open);

/* Keeps a copy and returns its id; 0 if there are too many, memory is short or the recording has
 * ended. */
nvtxRangeId_t dl_nvtx_start(const dl_nvtx_open *open);

/* Removes the range `id` and copies it to *open; false if it is not open. */
bool dl_nvtx_end(nvtxRangeId_t id, dl_nvtx_open *open);

/* Records all open ranges as ending at now_ns; later ranges are not kept. */
void dl_nvtx_open_end(int64_t now_ns);

/* Returns the id of `text` in the trace (dl_capture_intern), from a cache of the thread if
 * possible. */
uint32_t dl_nvtx_text_id(const char *text);

#endif
