/* Training on a processor's cores, by the operators that a framework's profiler recorded (PyTorch:
 * categories cpu_op and Operator) in a process that used no device.
 *
 * Operators are work of a thread, each with the role that its name gives (phases.h). The training
 * thread is the one whose outermost operators take most time. */
#ifndef DL_TRACE_ACTIVITY_OPERATORS_H
#define DL_TRACE_ACTIVITY_OPERATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/steps.h"
#include "trace/dlt/dlt.h"

/* The operators of the training thread; those of an optimizer and of a data loader are annotations.
 * Owns its arrays, borrows the activities; release with dl_cpu_operators_free. */
typedef struct dl_cpu_operators {
    uint32_t thread;
    const dl_activity **items; /* [count] outermost operators by start */
    size_t count;              /* 0: the trace holds no operators, or work of a device, or calls and
                                  operators of such work (dl_cpu_lost_device) */
    const dl_activity **calls; /* [call_count] calls of collectives by start, also those within
                                  others */
    size_t call_count;
    int64_t *starts_ns; /* [start_count] ascending, of all operators of the thread */
    size_t start_count;
    uint8_t *roles; /* [string_count] of dl_work_role by name, or-ed */
    size_t string_count;
} dl_cpu_operators;

/* Finds the operators among activities[count] with the texts strings[string_count]; `operators`
 * must be zeroed. O(n log n). */
void dl_cpu_operators_find(dl_cpu_operators *operators, const dl_activity *activities, size_t count,
                           char *const *strings, size_t string_count);
void dl_cpu_operators_free(dl_cpu_operators *operators);

/* End of an outermost operator. */
int64_t dl_cpu_operators_end_ns(const dl_cpu_operators *operators, size_t item);

/* Ends of the steps that the operators show: of each update after a backward pass or, if there are
 * fewer than three, of the units that repeat (dl_period_find). Owned by the caller, *count of them,
 * ascending; the first one may end a partial step. *by_update: updates ended the steps. */
int64_t *dl_cpu_operators_cuts(const dl_cpu_operators *operators, size_t *count, bool *by_update);

/* Labels as OTHER each of steps[count] whose ratio of forward to backward operators exceeds
 * DL_CPU_EVALUATION times the median ratio: it holds a validation, which has forward passes alone.
 * Sequences of unequal length change both numbers, not the ratio. */
#define DL_CPU_EVALUATION 1.5
void dl_cpu_operators_set_apart(const dl_cpu_operators *operators, dl_activity_step *steps,
                                size_t count);

/* Explains, for a trace without kernels, why its program must have used a device, and what to do;
 * NULL if the trace does not show that. It shows it by calls that launch, copy or wait for device
 * work (only launches if it holds copies), by operators of a device's libraries, or, if the trace
 * was cut, by a device's name or any call, as PyTorch's profiler writes kernels last. free() it. */
char *dl_cpu_lost_device(const dl_trace *trace);

#endif
