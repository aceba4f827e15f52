/* Training on a processor's cores, from the operators that a framework's profiler recorded
 * (PyTorch: categories cpu_op and Operator) in a process that used no device.
 *
 * Operators are work of a thread, each with the role given by its name (phases.h). The training
 * thread is the one whose outermost operators take most time. */
#ifndef DL_TRACE_ACTIVITY_OPERATORS_H
#define DL_TRACE_ACTIVITY_OPERATORS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/dlt/dlt.h"

/* Operators of the training thread, including the annotations of an optimizer and a data loader.
 * Owns its arrays, borrows the activities; release with dl_cpu_operators_free. */
typedef struct dl_cpu_operators {
    uint32_t thread;
    const dl_activity **items; /* [count] outermost operators by start */
    size_t count;              /* 0: the trace holds no operators, or it holds device work or signs
                                * of lost device work (as in dl_cpu_lost_device, except those of a
                                * truncated trace) */
    const dl_activity **calls; /* [call_count] calls of collectives by start, including those nested
                                * in other operators, without calls nested in calls */
    size_t call_count;
    int64_t *starts_ns; /* [start_count] starts of all operators of the thread, ascending */
    size_t start_count;
    uint8_t *roles; /* [string_count] dl_work_role by name, or-ed */
    size_t string_count;
} dl_cpu_operators;

/* Finds the operators of the trace; `operators` must be zeroed. O(n log n). */
void dl_cpu_operators_find(dl_cpu_operators *operators, const dl_trace *trace);
void dl_cpu_operators_free(dl_cpu_operators *operators);

/* Returns the end of an outermost operator, in ns. */
int64_t dl_cpu_operators_end_ns(const dl_cpu_operators *operators, size_t item);

/* Explains, for a trace without kernels, why its program must have used a device, and suggests a
 * remedy; returns NULL if the trace does not show device use. Signs are calls that launch, copy or
 * wait for device work and operators of a device's libraries (launches only, if the trace holds
 * copies); or, if the trace was truncated, a device's name or any call, as PyTorch's profiler
 * writes kernels last. The caller frees the text. */
char *dl_cpu_lost_device(const dl_trace *trace);

#endif
