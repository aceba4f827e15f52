/* Costs of a step from one rank's trace of any program, for a cost file.
 *
 *   device     time of a step when the host and collectives take no time: operations are ordered
 *              by their edges and spacings. It is split by duration among classes of operations in
 *              phases (step_phases.h), such as "convolution.forward". It excludes costs that are
 *              charged separately: the slowdown beside collectives, and copies of input
 *   host       mean time of a step when devices take no time, without interrupted steps: the time
 *              of the host's threads to issue a step. It excludes waits for the device other than
 *              their latency, and the time that recording adds to launches (capture_cost.h; assumed
 *              if a recorder's trace does not give it)
 *   gradients  bytes that are all-reduced or reduce-scattered, and when (gradients.c)
 *   input      bytes copied to the device per step; rate of copies from and to pageable memory of
 *              64 KiB or more
 *   parameters if no gradients are exchanged: the bytes of the gradients that a pass adds, in a
 *              trace with shapes; else the bytes copied to the device before the first step, of
 *              other sizes than the steps' input, unless the update's duration is implausible for
 *              that many bytes
 *   slowdown   of computation beside collectives (overlap_slowdown.c)
 *
 * Only regular steps count. Times of whole steps come only from regular steps followed by a regular
 * step, because the last step of a trace ends with its work, and a step before a validation lacks
 * the host's time between steps. Without any, they come from regular steps followed by any other
 * part; if the only regular step of a trace is its last, its time extends to the end of its work,
 * with a note. */
#ifndef DL_CALIBRATE_REPLAY_STEP_COSTS_H
#define DL_CALIBRATE_REPLAY_STEP_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calibrate/notes.h"
#include "calibrate/replay/external.h"
#include "sim/costs/costs.h"
#include "trace/activity/activity.h"
#include "trace/activity/added_gradients.h"
#include "trace/activity/phases.h"
#include "trace/activity/step_phases.h"
#include "trace/activity/steps.h"
#include "trace/dlt/dlt.h"
#include "trace/record.h"

/* The share of the backward pass's device time after which gradients are ready for exchange, for
 * each all-reduce or reduce-scatter that the host calls during a backward pass, in order: gradients
 * are ready when the operations launched before the call are done.
 *
 * The data come from the regular steps with the most frequent number and bytes of these calls
 * (frameworks change buckets after the first step); shares are means over these steps. Calls after
 * the backward pass, but before the optimizer's first kernel, have share 1. */

/* A collective that the host calls in a regular step of the line. */
typedef struct dl_step_call {
    const char *name; /* borrowed */
    uint64_t bytes, object;
    uint32_t ranks, peer; /* ranks of the communicator; 0: unknown */
    bool integers;        /* see dl_collective_of_integers */
    size_t step;
    dl_phase phase; /* of the work whose launch follows the call */
    double share;   /* share of the backward pass's device time before it; 0 without such a pass */
    bool updated;   /* the optimizer's first kernel was launched before it, after the passes */
} dl_step_call;

/* Parts of the trace that describe the exchange; all borrowed except the arrays. */
typedef struct dl_gradient_source {
    const dl_trace *trace;
    const dl_step_line *line;
    const dl_step_phases *phases;
    const dl_launches *launches;    /* NULL on cores */
    const uint8_t *classes;         /* returned by dl_kernel_classes; NULL on cores */
    dl_communicators communicators; /* items: freed by the caller */
    dl_step_call *calls;            /* [call_count] in order; freed by the caller */
    size_t call_count;
} dl_gradient_source;

/* Sets the calls of a device's source from its other members, and done[line->work_count] to the
 * share of the step's backward passes that is over at the end of each work. work_ns
 * [line->work_count]: device time of each. A call belongs to the step whose next launch follows it.
 * O(n log n). */
void dl_step_calls_find(dl_gradient_source *source, const double *work_ns, double *done);

#define DL_REDUCES "AllReduce"
#define DL_SCATTERS "ReduceScatter"
#define DL_GATHERS "AllGather"

/* Gradients exchanged per step; the caller frees `ready`. */
typedef struct dl_gradient_exchange {
    dl_gradients_ready *ready; /* [count] cumulative; NULL: none */
    size_t count;
    bool scattered;  /* by reduce-scatters, of which each rank gets a part (ZeRO, FSDP); bytes are
                     * those of all parts */
    uint64_t object; /* the communicator; 0: none, or unknown */
    uint32_t ranks;  /* its ranks; 0: unknown */
    uint64_t *activations; /* [activation_count] communicators that sum activations; owned by the
                            * caller */
    size_t activation_count;
    size_t integers; /* number of calls that sum integers, which are never gradients */
} dl_gradient_exchange;

/* Converts ready[*count] of a step of several passes from shares of all backward passes to shares
 * of the last one; gradients ready earlier get share 0. If every pass exchanged the same gradients,
 * keeps only the last pass's exchange, updates *count and returns true. Has no effect with one
 * pass. */
bool dl_gradients_of_last_pass(dl_gradients_ready *ready, size_t *count, size_t passes);

/* Slowdown of a device's computation beside collectives: the time of the same work in steps where a
 * collective ran beside all of it, divided by its time in steps where none did.
 *
 * The same work is the k-th launch in a step of the same kernel in the same launch shape. Times are
 * divided by the step's pace, which follows from operations that run alone in all steps: on the
 * rank that is slow in a step, collectives are short, so operations run alone mostly in slow steps.
 *
 * Each work observed in both situations gives the ratio of its mean times. The slowdown is the
 * median of these widely scattered ratios, weighted by duration and number of observations. Its
 * standard error combines that of the weighted median (bootstrap over the ratios) and that from the
 * scatter of equal operations.
 *
 * Operations that overlap with a collective for only a part of their time are ignored: that part
 * depends on the operation's length, which would bias the slowdown. */

typedef struct dl_overlap_slowdown {
    size_t works;  /* number of kernels observed in both situations */
    double factor; /* 1: no slowdown, or unknown */
    double error;
    bool known; /* such kernels exist, and the error is at most DL_OVERLAP_ERROR_MAX */
} dl_overlap_slowdown;

/* Shorter operations are ignored: trace times may have a resolution of only a microsecond. */
#define DL_OVERLAP_SHORTEST_NS 5000

/* Maximum useful standard error: slowdowns are 1.03 to 1.3. */
#define DL_OVERLAP_ERROR_MAX 0.05

/* Returns the spans in which collectives ran on each device. Release with dl_spans_free. */
dl_spans dl_collective_spans(const dl_trace *trace);

/* Estimates the slowdown from the regular steps of `line`. O(n log n). */
dl_overlap_slowdown dl_overlap_slowdown_find(const dl_trace *trace, const dl_step_line *line,
                                             const dl_spans *collectives);

/* A mean over steps with its standard error. */
typedef struct dl_step_mean {
    double value, error;
} dl_step_mean;

/* Time of the operations of one class in one phase of a step. */
typedef struct dl_step_op {
    char name[40]; /* "convolution.forward" */
    dl_step_mean ns;
    double starts_ns; /* part of ns: DL_ROOFLINE_KERNEL_NS per operation, or the duration of a
                       * shorter one */
} dl_step_op;

/* The next functions use the steps that are marked in kept[count], whose times are ns[count]. */

/* Returns the mean of their values[count]; NaN without steps, error NaN with fewer than two. */
dl_step_mean dl_steps_mean(const uint8_t *kept, const double *values, size_t count);

/* Clears the marks of interrupted steps: longer than twice the median, with no more work than usual
 * (works[count]), if at most a tenth of the steps, rounded up, are. Such a step is an artefact of
 * the recording, for example of another program; a long step with more work, such as a validation
 * every tenth step, is a part of training. A step of unknown work (NaN) is kept. Adds a note if
 * there are any and `notes` is not NULL. */
void dl_steps_leave_out_interrupted(uint8_t *kept, const double *ns, const double *works,
                                    size_t count, dl_notes *notes);

/* Clears the mark of the only step that takes over ten times the median, if no other takes over
 * twice the median, and notes it: a checkpoint, an evaluation or a warm-up that the trace has once
 * says nothing about how often it recurs, and would dominate the mean. `where` is the name of what
 * the program did in it; NULL: unknown. */
void dl_steps_leave_out_pause(uint8_t *kept, const double *ns, size_t count, const char *where,
                              dl_notes *notes);

/* Axes of the traced job, besides that of its gradients. */
typedef struct dl_step_axes {
    uint32_t tensor;        /* GPUs that divide the layers; 1: none do */
    uint64_t tensor_object; /* their communicator */
    double tensor_bytes;    /* mean size of the whole activation that one of their collectives
                             * exchanges */
    double tensor_calls[2]; /* number of all-reduces, or of pairs of gather and reduce-scatter, in a
                             * step's backward and forward passes */
    uint32_t stages, stage; /* pipeline stages, and the traced one */
    bool gpipe;             /* all forward passes precede the backward passes */
    bool either;            /* 1f1b has the same order: the stage has too few micro-batches */
    double crossing_bytes;  /* sent to the next stage in a micro-batch */
    uint32_t copies;        /* ranks that hold the same part of sharded state; 1: no copies */
    uint64_t copies_object; /* their communicator */
    uint32_t shards;        /* ranks that share the parameters, if layers are divided or there are
                             * stages or copies; else 1 */
} dl_step_axes;

/* Owns its arrays; release with dl_step_costs_free. */
typedef struct dl_step_costs {
    int64_t batch;      /* samples per step, given by the caller */
    double mean_passes; /* of its regular steps, see trace/activity/step_phases.h */
    bool passes_apart;  /* none of them adds to the gradients of another, as far as is known */
    size_t passes;      /* forward passes per step, >= 1, each of a part of the samples */
    size_t known_steps, updated_steps; /* see trace/activity/step_phases.h */
    bool alternates;                   /* the same */
    bool updates_inside; /* on cores: hooks of the backward pass update, nothing follows it */
    size_t steps;        /* number of steps with known times */
    /* step_ns: mean time of these steps. device_ns: mean device time of a step (above); on cores,
     * mean time of a step without waits. */
    double step_ns, device_ns;
    double host_ns; /* mean, without recording overhead, including waits_ns; NaN: the trace has no
                     * launches */
    double host_error_ns; /* standard error of the recording overhead */
    double waits_ns;      /* mean external waits of threads in host_ns; 0 if they are removed, or
                           * below 1 % of a step */
    dl_step_mean forward_ns, backward_ns, update_ns; /* parts of device_ns */
    dl_step_op *ops; /* [op_count] operations that take time, by phase. Their sum is device_ns, plus
                      * "input" made by loaders; sharded updates are scaled to all parts */
    size_t op_count;
    dl_step_mean input_bytes;
    double pageable_bytes_per_s; /* 0: no such copies */
    size_t pageable_copies;
    dl_gradients_ready *gradients; /* [gradient_count] gradients of the last pass */
    size_t gradient_count;
    /* [added_count] gradients of each parameter in the last pass, cumulative like `gradients`, from
     * the accumulating operators in a trace of cores with shapes. DistributedDataParallel would
     * fill its buckets with them. */
    dl_gradients_ready *added;
    size_t added_count;
    dl_overlap_slowdown slowdown;
    float *factors;           /* [steps] step time / mean step time */
    char *device, *framework; /* names; NULL: unknown */
    bool on_cores;            /* costs of operators on a processor: nothing is launched, host_ns is
                               * NaN */
    int64_t cores;            /* number of cores of the traced machine; 0: unknown */
    size_t collectives;       /* number of collectives called by its steps; on cores only */
    char loaders[16];         /* number of data-loader processes that make "input", on cores:
                               * NUM_WORKERS if it is unknown; "": none */
    double parameter_bytes;   /* 0: those of the gradients, or unknown */
    char *file;               /* file name of the trace without its folder; NULL: unknown */
    int64_t rank, ranks;      /* as set by dl_trace_find_rank */
    double recording_ns;      /* recording overhead per step, already subtracted from host_ns; on
                               * cores from step_ns, device_ns and ops */
    dl_step_axes axes;
    bool allreduces;              /* a step exchanges gradients in mode allreduce */
    dl_sharded sharded;           /* state sharded among the ranks, inferred from its collectives */
    bool gathers_half;            /* gathers have half as many bytes as gradients */
    bool keeps_parameters;        /* sharded parameters are gathered in the forward pass only */
    dl_traced_collective *others; /* [other_count] collectives except those of gradients, sharded
                                   * state and the axes, each of at least 1 % of a step */
    size_t other_count;
    /* Broadcasts of buffers or parameters per step: bytes, and number of collectives; on cores
     * only; 0: none */
    double broadcast_bytes, broadcast_calls;
    /* On cores, if data-loader processes make the batches: time in ns for the training thread to
     * take a ready batch; NaN: no such processes, or unknown. */
    double take_ns;
} dl_step_costs;

/* Determines the costs of the line with most work in one rank's trace. If the process used no
 * device, determines those of its training on cores: the mean step, without interrupted steps and
 * without waits for collectives and for data-loader processes, divided into "input" (the time of
 * such processes if the trace has it), "step.forward", "step.backward", "step.update", and scaled
 * to the step without a profiler if the trace has it, else without the assumed overhead of the
 * profiler. `costs` must be zeroed. `slowdown` is that beside collectives from another trace; NULL:
 * from this trace. A note names each cost that the trace does not give. Returns DL_ERR_DATA without
 * a regular step (on cores: two, unless the trace is given as one step), or if the regular steps
 * hold only collectives and input; and the errors of dl_replay_simulate.
 *
 * External waits (external.h) of threads are part of the host's time, with a note, unless
 * `external` removes them. Waits of devices, if kept, become operations "external.forward", ...
 * that do not depend on the batch. With DL_EXTERNAL_THREADS, also returns DL_ERR_DATA if a step
 * without the waits of devices is more than DL_STEP_SHORT_FRAC too short. */
#define DL_STEP_SHORT_FRAC 0.05

dl_status dl_step_costs_take(dl_step_costs *costs, const dl_trace *trace, int64_t batch,
                             const dl_step_hints *hints, const dl_overlap_slowdown *slowdown,
                             dl_external external, dl_notes *notes, dl_error *err) DL_MUST_CHECK;
void dl_step_costs_free(dl_step_costs *costs);

/* Scales the update of one rank's part to the parts of all `ranks`, without the starts of kernels,
 * as a rank launches kernels for its part only. */
void dl_step_costs_scale_update(dl_step_costs *costs, uint32_t ranks);

/* If the gradients are scattered, sets `sharded` and `keeps_parameters` from the collectives of
 * their ranks, with a note, and scales the update to all parts. Reduce-scatters give each rank the
 * gradients of the part that it updates; all-gathers collect the parameters before the passes or
 * after the update. Returns whether the all-gathers are those of parameters. */
bool dl_step_costs_take_sharded(dl_step_costs *costs, const dl_gradient_source *source,
                                const dl_gradient_exchange *gradients, dl_notes *notes);

/* Sets the axes from the process groups of a step's collectives; with stages, also the number of
 * passes, which are the micro-batches that the rank sends. Returns DL_ERR_DATA if the rank sends to
 * others, but not as stages of schedule 1f1b or gpipe do. Called by dl_step_costs_take. */
dl_status dl_step_axes_take(dl_step_costs *costs, const dl_gradient_source *source,
                            const dl_gradient_exchange *gradients, dl_notes *notes,
                            dl_error *err) DL_MUST_CHECK;

/* Returns the schedule of a pipeline's stage, "1f1b", "gpipe" or "1f1b or gpipe". */
const char *dl_step_axes_schedule(const dl_step_axes *axes);

/* Takes the collectives of the costs->steps steps of the source's line that are marked in
 * timed[line->count], without the gradient exchange: those of sharded state set `sharded` and
 * `keeps_parameters` and scale the update to all parts; the rest become `others`. `costs` must
 * already have the gradients. Called by dl_step_costs_take. */
void dl_step_collectives_take(dl_step_costs *costs, const dl_gradient_source *source,
                              const uint8_t *timed, const dl_gradient_exchange *gradients,
                              dl_notes *notes);

/* Returns the time that PyTorch's profiler adds to an operator of the trace, in ns: 1.3 us with
 * shapes, 0.7 us without. These are medians of the processor time of alternating steps with and
 * without profiler, of the models of tests/clients/models.py with 200 to 1355 operators per step,
 * on a busy AMD EPYC, PyTorch 2.15, 2026-11-25; medians of single runs are 0.3 to 2.4 us (blocks of
 * steps -2.6 to 12.9). The 95 % interval is half to twice this time. */
double dl_profiled_operator_ns(const dl_trace *trace);

#define DL_PROFILED_ERROR 0.35 /* relative standard error of dl_profiled_operator_ns: ln 2 / 1.96 */

/* Subtracts the recording overhead from host_ns: that measured by dlprof bench overhead if the
 * trace has it, else an assumed one. Has no effect if the measured overhead may be 0, or if the
 * trace has neither an overhead nor its framework's name. timed[line->count] marks the costs->steps
 * steps whose whole time is known. Called by dl_step_costs_take. */
void dl_step_costs_take_off_recording(dl_step_costs *costs, const dl_trace *trace,
                                      const dl_step_line *line, const uint8_t *timed,
                                      dl_notes *notes);

/* Two kinds of lines, called by dl_step_costs_take: work of a device, and the operators of a
 * training thread, the line DL_NO_DEVICE. */
dl_status dl_step_costs_take_device(dl_step_costs *costs, const dl_trace *trace,
                                    const dl_step_line *line, const dl_overlap_slowdown *slowdown,
                                    dl_external external, dl_notes *notes,
                                    dl_error *err) DL_MUST_CHECK;
dl_status dl_step_costs_take_cores(dl_step_costs *costs, const dl_trace *trace,
                                   const dl_step_line *line, dl_notes *notes,
                                   dl_error *err) DL_MUST_CHECK;

/* Parts of the costs that both kinds have. */

/* Sets the steps marked in timed[line->count], their mean time, and their factors and device_ns
 * from their times without waits, ns[line->count]. Notes longer steps that are left out. */
void dl_step_costs_take_times(dl_step_costs *costs, const dl_step_line *line, const uint8_t *timed,
                              const double *ns, dl_notes *notes);

/* Sets the numbers of passes and the gradients from the source's phases and calls: the all-reduces
 * or reduce-scatters of the communicator that sums most bytes between the forward pass and the
 * update. Ignores sums of integers, with a note, and communicators that sum more than a quarter as
 * many bytes in the forward pass as in the backward pass: they sum activations of split layers. The
 * caller frees the activations. O(n log n). */
dl_gradient_exchange dl_step_costs_take_exchange(dl_step_costs *costs,
                                                 const dl_gradient_source *source, dl_notes *notes);

/* Sets parameter_bytes to those of the gradients added in a pass; returns false if unknown. */
bool dl_step_costs_take_added(dl_step_costs *costs, const dl_added_gradients *added,
                              const dl_step_phases *phases, dl_notes *notes);

/* Returns DL_ERR_DATA if two of steps[count] have different layouts: different axes or, with
 * stages, different schedules or numbers of micro-batches. Sharding and copies are compared only
 * between traces with gradients, as other traces do not show them. */
dl_status dl_step_layouts_check(const dl_step_costs *steps, size_t count,
                                dl_error *err) DL_MUST_CHECK;

/* Adds *more to *sum if it is known. The sum gets the larger count, and the origin of *more if that
 * has a count. */
void dl_step_value_add(dl_value *sum, const dl_value *more);

/* Combines steps[count], count >= 1, of one workload into the costs of a pass; [costs] accumulate
 * gets the passes of the first step, if several. Each operation is a line over the batch sizes;
 * with one batch size, starts_ns is fixed and the rest is per sample (updates and external waits:
 * all fixed). Gradients and slowdown are those of the first of `steps` that has them, the noise of
 * a batch size that of its first trace with two or more steps. `costs` must be zeroed; release it
 * with dl_costs_free. Returns DL_ERR_DATA if the traces are of different devices, of GPUs and of
 * cores, or of different layouts (dl_step_layouts_check). */
dl_status dl_step_costs_combine(dl_costs *costs, const dl_step_costs *steps, size_t count,
                                dl_notes *notes, dl_error *err) DL_MUST_CHECK;

/* Combines steps[count] of pipeline stages into costs of a model with a layer per stage, "stage0",
 * "stage1", ...: with `alike`, traces of one stage, which stand for all; otherwise traces of every
 * stage. Parameters are unknown if those of any stage are. Returns DL_ERR_DATA if a stage has no
 * trace, and the errors of dl_step_costs_combine. */
dl_status dl_stage_costs_combine(dl_costs *costs, const dl_step_costs *steps, size_t count,
                                 bool alike, dl_notes *notes, dl_error *err) DL_MUST_CHECK;

/* Returns marks[line->count] of the regular steps; owned by the caller. */
uint8_t *dl_steps_regular(const dl_step_line *line);

/* Returns the steps of the device with most operations; NULL without a device. Borrowed. */
const dl_step_line *dl_step_line_busiest(const dl_activity_steps *steps);

#endif
