/* Notices when another profiler in the process takes CUPTI away: up to CUDA 13.2 whoever sets its
 * clock or its buffers last has them, subscribed or not (PyTorch's profiler does both). */
#ifndef DL_PROFILER_INJECT_TAKEOVER_H
#define DL_PROFILER_INJECT_TAKEOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/inject/cupti_api.h"

/* Zero it before the first check. */
typedef struct dl_takeover {
    bool clock;      /* for good: times are of another clock from here on */
    bool buffers;    /* none come, though records must have arisen */
    unsigned silent; /* checks in a row with calls, but without records */
    unsigned calls;  /* at the check before */
} dl_takeover;

/* To be called at every flush, behind it. `calls`: recorded calls so far, of which each must have
 * left a record (0 always = not known); `records`: that arrived since the check before. Writes the
 * meta key "takeover" when something changes. */
void dl_takeover_check(dl_takeover *takeover, const dl_cupti_api *api, unsigned calls,
                       uint64_t records);

#endif
