/* Kernels of collectives, each with the host call that it executes.
 *
 * A kernel's name gives at most the collective (kernel_class.h); its size is that of the host's
 * call, a COLLECTIVE. The two are matched by thread and time: the kernel's launch is a CALL. On its
 * thread, a run of COLLECTIVEs since the previous such launch is followed by the run of launches
 * that execute them. An ungrouped call launches within itself; grouped calls launch when the group
 * ends. Within one run, in order,
 *
 *   as many calls as kernels   one each
 *   several calls, one kernel  the kernel executes all of them: bytes are their sum
 *   otherwise                  not distinguished: the kernels' sizes stay unknown
 *
 * Kernels without a recorded launch, or in a replayed graph, stay unknown as well. */
#ifndef DL_TRACE_ACTIVITY_COLLECTIVES_H
#define DL_TRACE_ACTIVITY_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/distribution.h"

typedef struct dl_collective_kernel {
    uint32_t activity; /* index of the KERNEL */
    uint32_t device;
    uint32_t ranks;   /* 0: unknown */
    uint32_t calls;   /* number of calls that it executes; 0: unknown */
    bool integers;    /* all of these calls have integer data (dl_collective_of_integers) */
    const char *name; /* "AllReduce", ...; "group": several different ones; "": unknown. Borrowed
                       * from the trace or constant */
    uint64_t bytes;   /* bytes of one rank as NCCL counts them; 0: unknown */
    uint64_t object;  /* communicator; 0: unknown, or calls of several */
    int64_t start_ns, duration_ns;
    /* Set for collectives on cores only (cpu_steps.h). */
    int64_t called_ns; /* call by the training thread */
    size_t step;       /* the regular step that calls it; SIZE_MAX: none does */
    double ready_frac; /* fraction of the step's backward pass before the call; NaN: not called
                        * during it */
} dl_collective_kernel;

/* Owns its array; release with dl_collective_kernels_free. */
typedef struct dl_collective_kernels {
    dl_collective_kernel *kernels; /* [count] by start */
    size_t count;
} dl_collective_kernels;

/* Finds the kernels of collectives among activities[count] (count < 2^32); `list` must be zeroed.
 * `classes` is indexed by name id, as returned by dl_kernel_classes. O(n log n). */
void dl_collective_kernels_find(dl_collective_kernels *list, const dl_activity *activities,
                                size_t count, char *const *strings, const uint8_t *classes,
                                const dl_launches *launches);
void dl_collective_kernels_free(dl_collective_kernels *list);

/* Returns whether the trace says that all numbers of this call, a COLLECTIVE, are integers of 32 or
 * 64 bits, which gradients never are: DDP's map of used parameters, counters, barriers. */
bool dl_collective_of_integers(const dl_activity *call, char *const *strings);

/* Collectives on the devices and their rates.
 *
 * Rates are those of nccl-tests (doc/PERFORMANCE.md), over the kernel's duration t:
 *   algorithm rate = S / t; S = ranks * bytes where NCCL counts one rank's share (AllGather,
 *                    ReduceScatter, AlltoAll, Gather, Scatter), else bytes;
 *   bus rate       = algorithm rate * 2 (n - 1) / n for AllReduce, (n - 1) / n for those five, 1
 *                    for the others: the rate of a link, comparable between algorithms and numbers
 *                    n of ranks.
 * A kernel also waits for the slowest rank, so the shortest of many times is closest to the
 * transfer time. */

/* All kernels of one device that execute equal calls; on cores, equal collectives that are all
 * called during backward passes, or all outside of them. */
typedef struct dl_collective_summary {
    uint32_t device;
    const char *name;  /* "AllReduce", ...; "group": several different ones; "": unknown. Borrowed
                       * from the trace or constant */
    uint64_t bytes;    /* bytes of one rank as NCCL counts them; 0: unknown */
    uint32_t ranks;    /* 0: unknown */
    uint32_t calls;    /* number of calls that one kernel executes; 0: unknown */
    bool integers;     /* all of these calls are of integers */
    double ready_frac; /* mean, on cores; NaN: not called during backward passes */
    dl_distribution duration_ns; /* duration of the kernels; mean * count is the total */
    double algorithm_bytes_per_s, bus_bytes_per_s; /* rates at the median duration; 0: unknown */
    double best_bus_bytes_per_s;                   /* bus rate at the shortest duration */
} dl_collective_summary;

/* Owns its array; release with dl_collectives_free. */
typedef struct dl_collectives {
    dl_collective_summary *collectives; /* [count] by device, then by total time, longest first */
    size_t count;
} dl_collectives;

/* Summarizes the kernels of collectives among activities[count] (count < 2^32); `collectives` must
 * be zeroed. `classes` is indexed by name id, as returned by dl_kernel_classes. O(n log n). */
void dl_collectives_init(dl_collectives *collectives, const dl_activity *activities, size_t count,
                         char *const *strings, const uint8_t *classes, const dl_launches *launches);
void dl_collectives_free(dl_collectives *collectives);

/* Adds the summary of kernels[count], which it sorts, to `collectives`. O(n log n). */
void dl_collectives_add(dl_collectives *collectives, dl_collective_kernel *kernels, size_t count);

/* Returns the bytes that a link carries per byte of one rank: S / bytes times the factor above. 0
 * if the number of ranks is unknown or one (no data are moved). */
double dl_collective_bus_factor(const char *name, uint32_t ranks);

#endif
