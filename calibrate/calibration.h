/* A calibration: reads traces, fits the costs, and describes the quality of every fit. */
#ifndef DL_CALIBRATE_CALIBRATION_H
#define DL_CALIBRATE_CALIBRATION_H

#include <stdio.h>

#include "calibrate/dataset.h"
#include "calibrate/fit.h"
#include "calibrate/notes.h"
#include "sim/costs/costs.h"

/* Cost of an operation: fixed + per_sample x batch, from runs at two or more batch sizes.
 *
 * Each run gives one point, the robust location estimate of the operation's time over its steps.
 * The line minimises relative deviations, so small and large batches have equal weight. With only
 * one batch size, the split of the cost is assumed: input, forward and backward in proportion to
 * the batch, everything else independent of it.
 *
 * Cost that is not linear in the batch (caches, a GEMM's efficiency) is described for all
 * operations together, as their time divided by that of their lines at each batch size
 * ([linearity], with three or more batch sizes). Differences of this factor between operations are
 * not modelled. */

/* Observed and fitted time of one operation, or of all operations together, at one batch size. */
typedef struct dl_op_point {
    int64_t batch;
    double observed_ns; /* mean of the location estimates of the runs at this batch size */
    double error_ns;
    double fitted_ns;
} dl_op_point;

typedef struct dl_op_fit {
    const char *name;    /* borrowed from the data set */
    dl_op_point *points; /* [batch_count] ascending */
} dl_op_fit;

/* The whole step at one batch size. A preemption hits one operation of a step, so the operations'
 * location estimates reflect preemptions less than the steps' estimate: on a busy machine `step_ns`
 * exceeds the sum. The difference is included in the noise factors. */
typedef struct dl_step_point {
    dl_op_point sum; /* sum of the operations' location estimates */
    double step_ns, step_error_ns;
    int64_t count; /* number of steps of all runs */
} dl_step_point;

typedef struct dl_operations {
    dl_op_fit *ops; /* [op_count] in the order of the data set */
    size_t op_count;
    dl_step_point *steps; /* [batch_count] by ascending batch size */
    size_t batch_count;
} dl_operations;

/* Returns the residual of a point: observed / fitted - 1. */
double dl_op_residual_frac(const dl_op_point *point);

/* Fits all operations of the data set (at least one run) into costs->ops, batch_min and batch_max,
 * and with three or more batch sizes into costs->linearity; notes values that are assumed,
 * constrained to 0, or deviate. `operations` must be zeroed; release it with dl_operations_free. */
dl_status dl_operations_fit(const dl_dataset *dataset, dl_operations *operations, dl_costs *costs,
                            dl_notes *notes, dl_error *err) DL_MUST_CHECK;
void dl_operations_free(dl_operations *operations);

/* Costs of moving, averaging and waiting on this machine, from bench traces.
 *
 *   copy             latency + bytes / bandwidth                  one thread at a time
 *   average, update  latency + bytes (vectors / read + 1 / write)     one thread
 *   barrier, lock    median of the samples with 2 .. cores threads
 *   wakeup           median of wake-ups on another core (2 threads)
 *   slice            median
 *   pageable copies  median of their rates, at the size nearest to the parameters
 *   quantise         medians of the rates of encoding and decoding each kind of message, and of
 *                    "learned" samples
 *
 * Without samples of these numbers of threads, barrier, lock and wakeup use all their samples.
 *
 * Samples of one case (bytes, vectors, direction) give one point, their robust location estimate.
 * The lines are used for the model's exchange, so the allowed deviation of a point from its line
 * beyond its own standard error (dl_fit_problem.scale) grows with
 *
 *   distance = ratio^2 (1 + |log2(vectors / usual)|)
 *
 * where ratio is the point's bytes over the model's parameter bytes, or the inverse if that is
 * greater, and the usual number of vectors is 2 for averages, 1 for updates (asynchronous modes
 * apply one gradient at a time); copies have no second factor. A different cache regime at distant
 * sizes thus does not bend the line where it is used. If all points have one size, latency is
 * assumed 0; if they have one number of vectors, or cannot tell reading from writing, read = write.
 * A note reports each of these assumptions. */

#define DL_COMM_VECTORS_AVERAGE 2
#define DL_COMM_VECTORS_UPDATE 1

/* Location estimate of the samples of one case. */
typedef struct dl_comm_point {
    uint64_t bytes;
    uint32_t vectors, threads;
    dl_phase phase; /* direction of copies */
    dl_estimate time_ns;
    double fitted_ns; /* NaN if the line does not apply: threads > 1 */
} dl_comm_point;

/* Points of one kind of sample. */
typedef struct dl_comm_line {
    const char *name; /* "copy", "average", "update" */
    dl_comm_point *points;
    size_t count;
} dl_comm_line;

/* Indices of the lines in a dl_comm_fit. */
enum { DL_COMM_COPY, DL_COMM_AVERAGE, DL_COMM_UPDATE, DL_COMM_LINES };

typedef struct dl_comm_fit {
    dl_comm_line lines[DL_COMM_LINES];
} dl_comm_fit;

/* Fills costs->copy, average, update, shared, quantise, learned_bytes_per_s and the four numbers of
 * [sync] (barrier, lock, wakeup, slice) from the bench traces; costs without samples stay unknown.
 * Uses costs->parameter_bytes and cores. `fit` must be zeroed; release it with dl_comm_fit_free. */
dl_status dl_comm_costs_fit(const dl_dataset *dataset, dl_comm_fit *fit, dl_costs *costs,
                            dl_notes *notes, dl_error *err) DL_MUST_CHECK;
/* Fits [dispatch] from traces of training on a GPU: per_worker_ns is the launch time measured by
 * dlprof bench (launch_ns) times the number of operations of a step; without launch samples both
 * stay unknown, with a note. serial_ns is 0, since the host's time that does not overlap with
 * the GPU's, the operation "dispatch", is charged separately. Has no effect for traces of a
 * processor. */
void dl_dispatch_costs_fit(const dl_dataset *dataset, dl_costs *costs, dl_notes *notes);

void dl_comm_fit_free(dl_comm_fit *fit);

/* Launch time where a GPU waits for launches.
 *
 * Training times an operation from the end of the previous one to its own end. If the host launches
 * more slowly than the GPU computes, an operation therefore takes as long as its launch. dlprof
 * bench times passes without such gaps ("pass"). If a pass takes over 5 % less than in training,
 * launching a step takes longer than the sum of its single launches, and at most as long as the
 * shortest pass of all trained batch sizes. That time becomes [dispatch] per_worker_ns, unless the
 * sum of the launches is longer, and overlaps with the operations. Operations and [sharing] stay as
 * measured, with their gaps: gaps lie between short operations, and the GPU does not regain the
 * lost time during long ones. A note reports the gaps, or their upper bound. Without "pass" samples
 * nothing changes. */
dl_status dl_launch_gaps_fit(const dl_dataset *dataset, dl_costs *costs, dl_notes *notes,
                             dl_error *err) DL_MUST_CHECK;

/* Variation of the exchange between runs: times of each bench trace's copies, averages and updates,
 * relative to the location estimates over all traces.
 *
 * Data written by one core and read by another cost several times more if the two are far apart,
 * and a host may move threads every few seconds. A robust line through all runs describes the usual
 * state; these factors preserve the less usual ones. They use one-thread samples of the model's
 * size: copies, averages of DL_COMM_VECTORS_AVERAGE vectors, updates by DL_COMM_VECTORS_UPDATE. A
 * factor is the mean over cases of the trace's trimmed mean (without a tenth of the samples at each
 * end, which removes preemptions) divided by the case's location estimate.
 *
 * If traces have copies of vectors in another core's cache ("shared_write", "shared_read"),
 * costs->shared holds the extra time of such copies, and the time of averaging two vectors beyond
 * 1.5 times that of averaging one, as rates: means over the traces, and a factor for each trace.
 * The line of averages then excludes this time, and the traces' factors of averages are 1. */

/* Fills costs->exchange_runs from the bench traces and the points `comm`. The factor of a kind is 1
 * for a trace without such samples of this kind. Has no effect with fewer than two bench traces. */
void dl_exchange_runs_fit(const dl_dataset *dataset, const dl_comm_fit *comm, dl_costs *costs);

/* Peak memory traffic of this machine: bytes per second read and written by all cores together, the
 * highest total of k >= 2 threads in the bench at the size nearest to the model's parameters (2
 * bytes per byte copied, vectors + 1 per byte averaged).
 *
 * If these k threads moved about k times as much as one, or one alone was not measured, the limit
 * was not visibly reached: the value is then a lower bound with origin "assumed" and a note. */

/* Total traffic of k concurrent threads in one case. */
typedef struct dl_memory_point {
    const char *name; /* "copy", "average" */
    dl_phase phase;   /* direction of copies */
    uint64_t bytes;
    uint32_t vectors, threads;
    dl_estimate bytes_per_s;
    double speedup; /* relative to one thread in the same case; NaN if not measured */
} dl_memory_point;

typedef struct dl_memory_fit {
    dl_memory_point *points;
    size_t count;
} dl_memory_fit;

/* Fills costs->memory_total_bytes_per_s from the points of `comm`; it stays unknown if no two
 * threads were measured together. `fit` must be zeroed; release it with dl_memory_fit_free. */
void dl_memory_fit_total(const dl_comm_fit *comm, dl_memory_fit *fit, dl_costs *costs,
                         dl_notes *notes);
void dl_memory_fit_free(dl_memory_fit *fit);

/* Cost of sharing the machine: a step's time with k concurrent copies of the program, relative to
 * its time alone and its share of a core: time(k) / (time(1) max(1, k / cores)). For copies that
 * share a GPU, one GPU replaces the cores, and the times are those of a step on the GPU: the factor
 * is 1 if kernels alternate, 1 / k if copies do not interfere.
 *
 * The bench runs every k in every round, so times are compared within a round, at equal machine
 * speed. If every copy has a core, a run's time is its robust location estimate. With more copies
 * than cores, copies are time-sliced; most short steps are then not interrupted, and only the mean
 * gives a step's time, for the k copies and for the single copy. */

/* Factor for one k and batch size. */
typedef struct dl_contention_point {
    int copies;
    int64_t batch;
    dl_estimate factor; /* count = number of rounds */
} dl_contention_point;

typedef struct dl_contention_fit {
    dl_contention_point *points; /* [count] by copies, then batch */
    size_t count;
} dl_contention_fit;

/* One run of k copies: consecutive samples of a bench trace. */
typedef struct dl_copies_run {
    int copies;
    int64_t batch, cores;
    const dl_record *samples; /* [count] borrowed from the data set */
    size_t count;
} dl_copies_run;

/* Returns the runs of a bench trace in order; a new run starts where k or the batch changes, where
 * a copy's step count restarts, or after samples of another kind. The caller frees the array; the
 * samples are borrowed from `bench`. */
dl_copies_run *dl_contention_runs(const dl_bench_trace *bench, size_t *count);

/* Fills costs->sharing from the bench traces, combining batch sizes by their errors and their
 * additional scatter. The reference is the bench's single copy in the same round; on a GPU it is
 * training, at trained batch sizes. Has no effect without "step" samples of several copies. `fit`
 * must be zeroed; release it with dl_contention_fit_free. Returns DL_ERR_DATA if k copies were
 * measured at a batch size without any reference. */
dl_status dl_contention_fit_factors(const dl_dataset *dataset, dl_contention_fit *fit,
                                    dl_costs *costs, dl_notes *notes, dl_error *err) DL_MUST_CHECK;
void dl_contention_fit_free(dl_contention_fit *fit);

/* Variation of the step time around its expectation: factors in the order of each run.
 *
 *   1 copy     step time / fitted step time: the train runs of each batch size, and the bench's
 *              steps of one copy (not on a GPU) at the same batch size. The bench's steps are left
 *              out if their mean factor deviates from the train runs' by more than
 *              DL_STEP_NOISE_AGREE_FRAC, as they then measure something else
 *   k copies   step time / (fitted step time x sharing): the bench's steps of k concurrent copies,
 *              2 <= k <= cores, for each trained batch size. Cores differ from one another for
 *              whole runs, and interfere with each other. A bench trace is one run. For copies on
 *              a GPU, with any k: the time of their operations there / (fitted time x k x
 *              sharing); some streams get a larger share than others for many steps
 *
 * Resampling requires unbroken series, so consecutive steps are kept for each copy of each run. If
 * there are too many steps in all, at most an equal number per series is kept, from its middle. */

#define DL_STEP_NOISE_AGREE_FRAC 0.02

typedef struct dl_step_noise_set {
    int64_t batch;
    size_t copies;
    dl_fit_shape shape; /* shape of the kept factors; lag1: pairs within one series (one copy of one
                         * run) */
    double run_sd;      /* standard deviation of the series' mean factors; 0 with one series */
    size_t steps;       /* number of steps before thinning */
    size_t kept;
    size_t runs;
} dl_step_noise_set;

/* Sets by copies, then batch, in the order of the costs' sets. */
typedef struct dl_step_noise {
    dl_step_noise_set *sets;
    size_t count;
} dl_step_noise;

/* Fills costs->noise from the data set, which has at least one run; costs->ops, linearity and
 * sharing must be fitted as far as there are data for them. `fit` must be zeroed; release it with
 * dl_step_noise_free. */
void dl_step_noise_fit_factors(const dl_dataset *dataset, dl_costs *costs, dl_step_noise *fit,
                               dl_notes *notes);
void dl_step_noise_free(dl_step_noise *fit);

/* If the traces' steps drew their sample counts (dlprof train --work), sets costs->work_steps to
 * the ascending means of up to 64 groups of their step times, relative to the mean over all. The
 * times follow from the fitted lines, so disturbances of those steps do not affect them; without
 * lines, the sample counts replace them. Adds a note. costs->ops and linearity must be fitted as
 * far as there are data for them. */
void dl_work_fit(const dl_dataset *dataset, dl_costs *costs, dl_notes *notes);

/* Owns all its memory; zero before use, release with dl_calibration_free. */
typedef struct dl_calibration {
    dl_dataset dataset;
    dl_costs costs;
    dl_operations operations; /* op_count 0 without train traces */
    dl_step_noise noise;      /* no sets without train traces */
    dl_comm_fit comm;
    dl_memory_fit memory;
    dl_contention_fit sharing;
    dl_notes notes;
} dl_calibration;

/* Reads the traces paths[count], count >= 1, and fits all costs that they determine; the others
 * stay unknown. Returns the errors of dl_dataset_add and of the fits, and DL_ERR_DATA without a
 * train or bench trace. */
dl_status dl_calibration_fit(dl_calibration *calibration, const char *const *paths, size_t count,
                             dl_error *err) DL_MUST_CHECK;

/* Writes the cost file. Its first lines hold its origin (program, date, names of the train and
 * bench traces without their folders) and all notes. */
dl_status dl_calibration_write(const dl_calibration *calibration, const char *path,
                               dl_error *err) DL_MUST_CHECK;
void dl_calibration_free(dl_calibration *calibration);

/* Prints the quality of a calibration as text, at most 80 columns wide except for longer words:
 * the inputs, every fit with its errors and residuals, fitted and observed step times, and the
 * notes. */
void dl_fit_report_print(const dl_calibration *calibration, FILE *out);

/* Writes the quality of a calibration as JSON: the content of the printed report in ns, bytes and
 * bytes per second, every value with error, n and origin; an unknown number is null. Returns the
 * errors of dl_output_open and dl_output_close. */
dl_status dl_fit_report_json_write(const dl_calibration *calibration, const char *path,
                                   dl_error *err) DL_MUST_CHECK;

#endif
