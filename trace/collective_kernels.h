/* The kernels that carry out collectives, each with the call of the host that it carries out.
 *
 * A kernel's name tells at most the collective (kernel_class.h); its size is known by the host's
 * call, a COLLECTIVE. The two are matched by thread and time: the kernel's launch is a CALL, and on
 * its thread a run of COLLECTIVEs that began since the last such launch is followed by the run of
 * launches that carry them out. A call of its own launches within itself, calls in a group when the
 * group ends. Within one run, in order,
 *
 *   as many calls as kernels   one each
 *   several calls, one kernel  the kernel carries them all: bytes are their sum
 *   otherwise                  not told apart: the kernels' sizes stay unknown
 *
 * Kernels without a recorded launch, or in a replayed graph, stay unknown as well. */
#ifndef DL_TRACE_COLLECTIVE_KERNELS_H
#define DL_TRACE_COLLECTIVE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/activity/activity_launches.h"

typedef struct dl_collective_kernel {
    uint32_t activity; /* index of the KERNEL */
    uint32_t ranks;    /* 0 = unknown */
    uint32_t calls;    /* that it carries; 0 = unknown */
    const char *name;  /* "AllReduce", ...; "group" = several different ones; "" = unknown. Borrowed
                          from the trace or constant */
    const char *algorithm; /* that a rule of the user's gives the kernel (kernel_class.h), or "" */
    uint64_t bytes;        /* of one rank, as NCCL counts them; 0 = unknown */
    int64_t start_ns;
} dl_collective_kernel;

/* Owns its array; release with dl_collective_kernels_free. */
typedef struct dl_collective_kernels {
    dl_collective_kernel *kernels; /* [count] by start */
    size_t count;
} dl_collective_kernels;

/* Finds those among activities[count] (count < 2^32); zero `list` before. `classes` is by name id,
 * as dl_kernel_classes makes it. O(n log n). */
void dl_collective_kernels_find(dl_collective_kernels *list, const dl_activity *activities,
                                size_t count, char *const *strings, const uint8_t *classes,
                                const dl_launches *launches);
void dl_collective_kernels_free(dl_collective_kernels *list);

#endif
