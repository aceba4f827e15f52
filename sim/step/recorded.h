/* A recorded training step of one GPU as a program (program.h), from a file that dlcal replay
 * --step writes: a CSV table whose first column, step_1, gives the kind of each row.
 *
 *   batch    value: samples per step
 *   update   value: ns of the optimizer's update, after the end of all tasks; time between it and
 *            the next step precedes the tasks
 *   lane     value: 1 for a stream of the GPU, 0 for a thread of the host; numbered from 0
 *   task     lane, work_ns, spacing_ns, issue_ns as in dl_task; numbered from 0
 *   edge     from, to, lag_ns, value: 1 if it counts from the start of `from`
 *   ready    from: the task after which gradients are ready, value: their bytes; in this order
 *   end      value: number of rows before this one, which is the last */
#ifndef DL_SIM_RECORDED_H
#define DL_SIM_RECORDED_H

#include "common/status.h"
#include "sim/step/program.h"

typedef struct dl_recorded_ready {
    uint32_t task;
    double bytes; /* bytes of these gradients and all earlier ones, > 0 */
} dl_recorded_ready;

/* Owns its arrays; release with dl_recorded_free. A zeroed object is empty. */
typedef struct dl_recorded {
    dl_program program;       /* closed program */
    bool *is_stream;          /* [lanes of the program] stream of the GPU, not thread of the host */
    int64_t batch;            /* samples per step, >= 1 */
    double update_ns;         /* time of the optimizer's update, >= 0 */
    double done_ns;           /* recorded time from the start of the step to the end of its tasks */
    double busy_ns;           /* part of done_ns in which a stream works */
    dl_recorded_ready *ready; /* [ready_count] ascending by bytes */
    size_t ready_count;
} dl_recorded;

/* Reads `path` into the zeroed `recorded`. DL_ERR_IO; DL_ERR_PARSE; DL_ERR_NAME for an unknown kind
 * of row; DL_ERR_RANGE for numbers that are out of range or not whole, for lanes and tasks that do
 * not exist, or if the sum of all times exceeds 2^53 ns (104 days); DL_ERR_DATA for a step without
 * batch or tasks, rows that precede the lane or task they need, circular dependencies of tasks, or
 * missing rows. Errors name file and line. */
dl_status dl_recorded_read(dl_recorded *recorded, const char *path, dl_error *err) DL_MUST_CHECK;

/* As dl_recorded_read, from memory; errors contain `name`. */
dl_status dl_recorded_read_text(dl_recorded *recorded, const char *name, const char *text,
                                size_t bytes, dl_error *err) DL_MUST_CHECK;
void dl_recorded_free(dl_recorded *recorded);

/* The task after which the fraction `share` (0 to 1) of all gradients' bytes is ready;
 * DL_TASK_NONE: after all tasks. */
uint32_t dl_recorded_ready_at(const dl_recorded *recorded, double share);

#endif
