/* Process groups: the sets of ranks whose collectives a trace contains, such as the ranks that
 * share parameters (FSDP), divide layers (tensor parallelism) or hold stages. A group is a
 * communicator (COMM); a COLLECTIVE names it by its object. */
#ifndef DL_TRACE_ACTIVITY_GROUPS_H
#define DL_TRACE_ACTIVITY_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/activity/collectives.h"
#include "trace/activity/phases.h"
#include "trace/activity/steps.h"

/* Lists of ranks, as PyTorch writes them: "[0, 8, 16]". Of more than 30 ranks it writes the first
 * 29 and the last: "[0, 1, ..., 63]" (torch/csrc/profiler/util.cpp, format_list). */

/* Returns the place of `rank` in a list of `count` ranks (0: unknown number), or -1: it is not in
 * the list, or the list is cut and its ranks are not equally spaced. */
int64_t dl_group_place(const char *ranks, uint32_t count, int64_t rank);

/* Returns the rank at `place` in the list; -1 as above. */
int64_t dl_group_rank(const char *ranks, uint32_t count, int64_t place);

/* Returns the list in short form, "0-7", "0-56 by 8" or "0, 3, 4"; owned by the caller; "" if
 * `ranks` is not a list. */
char *dl_group_members(const char *ranks, uint32_t count);

/* Kernels of one collective in one group on one device, in the regular steps of that device; in the
 * whole trace if it has no steps. */
typedef struct dl_group_summary {
    uint32_t device;
    uint32_t ranks;              /* 0: unknown */
    const char *name;            /* collective; see dl_collective_kernel. Borrowed */
    const char *group;           /* name of the group, "": unknown. Borrowed */
    const char *members;         /* list of its ranks, "": unknown. Borrowed */
    uint64_t object;             /* 0: unknown */
    size_t count;                /* number of kernels */
    double per_step;             /* kernels per step; 0: no steps */
    double bytes;                /* bytes of all kernels, per rank, as NCCL counts them; 0:
                                  * unknown */
    double total_ns, exposed_ns; /* time of the kernels; part of it without computing beside it */
} dl_group_summary;

/* Owns its array; release with free(items). */
typedef struct dl_groups {
    dl_group_summary *items; /* [count] by device, then by total_ns, longest first */
    size_t count;
} dl_groups;

/* Summarizes the trace's collectives by group. `classes` is indexed by name id, as returned by
 * dl_kernel_classes; `steps` NULL: none. O(n log n). */
dl_groups dl_groups_find(const dl_trace *trace, const uint8_t *classes, const dl_launches *launches,
                         const dl_activity_steps *steps);

/* Summarizes those of the steps of `line` that are marked in timed[line->count]. */
dl_groups dl_groups_of_line(const dl_trace *trace, const uint8_t *classes,
                            const dl_launches *launches, const dl_step_line *line,
                            const uint8_t *timed);

#endif
