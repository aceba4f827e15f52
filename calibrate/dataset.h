/* Input of a calibration, reduced to the data of the fits: `train` traces of one worker and `bench`
 * traces, all of one workload on one device; `overhead` traces with the cost of recording on that
 * device, of any workload; and `run` traces, in which dlprof run recorded the training processes.
 *
 * A step's time is its duration without exchange (copies, averages, waiting) and without
 * intentional delays. Its time outside operations is host time, operation "dispatch", so the
 * operations of a step always add up to its time. */
#ifndef DL_CALIBRATE_DATASET_H
#define DL_CALIBRATE_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calibrate/notes.h"
#include "common/status.h"
#include "sim/costs/costs.h"
#include "trace/dlt/dlt.h"
#include "trace/record.h"

/* Data of training traces on a GPU other than times of operations: the use of GPU memory, and the
 * bytes copied to it per sample.
 *
 *   activation_bytes_per_sample  of the model, from the trace's meta key activation_bytes
 *   workspace_bytes              memory used according to the GPU's driver (device_memory_bytes)
 *                                beyond parameters, gradients, optimizer state and activations:
 *                                libraries' scratch memory, contexts, and other programs' memory.
 *                                The maximum over all traces, as it grows with the batch
 *   input_bytes_per_sample       of the copy after the host's part of a step's input
 *   input_copy_ns                time at 0 bytes on the line through the times of such copies of
 *                                several batch sizes
 *
 * On a GPU a step has two INPUT records, the host's part and the copy. dlsim charges the copy to
 * the machine's link, so it is not part of the operation "input" (dataset.c). */

/* Copies of one trace: their bytes and their median time in ns (0: unknown). */
typedef struct dl_gpu_copies {
    double bytes, ns;
} dl_gpu_copies;

typedef struct dl_gpu_facts {
    bool gpu; /* a trace is of a GPU; otherwise all members below are unknown */
    dl_value activation_bytes_per_sample, workspace_bytes, input_bytes_per_sample;
    dl_gpu_copies *copies; /* [copy_count] */
    size_t copy_count;
} dl_gpu_facts;

/* Returns input_copy_ns from the copies with a time. It is unknown if their bytes do not differ,
 * or if more bytes take less time: the line's value at 0 bytes would then exceed all measured
 * times. */
dl_value dl_gpu_facts_copy_ns(const dl_gpu_facts *facts);

/* Steps of one train trace after its warm-up, in order. */
typedef struct dl_step_run {
    char *path;
    int64_t batch;
    size_t steps;      /* >= 1 */
    double *step_ns;   /* [steps] */
    double *op_ns;     /* [steps x op_count] */
    double *records;   /* [steps] number of records written for the step */
    char *process;     /* "host:pid"; NULL: unknown */
    char *captured;    /* preset of the dlprof run that recorded its CUDA calls; NULL: not
                        * recorded */
    int64_t disturbed; /* thousandths of the machine's processors used by other programs and by the
                        * host of a virtual machine during the run; 0 if unknown */
} dl_step_run;

/* Time that recording CUDA calls added to a step of a process, from the trace of dlprof run. */
typedef struct dl_captured_process {
    char *process;                   /* "host:pid" */
    char *unknown;                   /* reason why the cost is unknown; NULL: it is known */
    double step_ns, low_ns, high_ns; /* mean per step, summed over the devices, with its 95 %
                                      * interval */
    double launches;                 /* kernels, copies, events and waits per step */
} dl_captured_process;

/* Operation measured by a sample of a bench trace. */
typedef enum dl_sample_kind {
    DL_SAMPLE_COPY,
    DL_SAMPLE_AVERAGE,
    DL_SAMPLE_UPDATE,
    DL_SAMPLE_BARRIER,
    DL_SAMPLE_WAKEUP,
    DL_SAMPLE_LOCK,
    DL_SAMPLE_SLICE,
    DL_SAMPLE_STEP,
    DL_SAMPLE_PASS,
    DL_SAMPLE_LAUNCH,
    DL_SAMPLE_H2D_PAGEABLE,
    DL_SAMPLE_D2H_PAGEABLE,
    DL_SAMPLE_QUANTISE, /* encoding; one value per dl_compress kind except the first */
    DL_SAMPLE_DEQUANTISE = DL_SAMPLE_QUANTISE + DL_COMPRESS_KINDS - 1,
    DL_SAMPLE_LEARNED = DL_SAMPLE_DEQUANTISE + DL_COMPRESS_KINDS - 1,
    DL_SAMPLE_SHARED_WRITE,
    DL_SAMPLE_SHARED_READ,
    DL_SAMPLE_KINDS
} dl_sample_kind;

/* "copy", "average", ...: names of BENCH records (trace/record.h). */
extern const char *const dl_sample_kind_names[DL_SAMPLE_KINDS];

/* Samples of one bench trace, in the order of measurement. */
typedef struct dl_bench_trace {
    char *path;
    dl_record *samples; /* [count]; `name` is a dl_sample_kind */
    size_t count;
    bool gpu;          /* recorded on a GPU: in its step samples the copies share that GPU */
    bool snapshot;     /* the trace holds only the machine's state (dlprof bench --snapshot) */
    int64_t disturbed; /* as in dl_step_run */
} dl_bench_trace;

/* Owns all its memory; zero before the first dl_dataset_add, release with dl_dataset_free. */
typedef struct dl_dataset {
    char *workload, *device;
    char *precision;                      /* NULL: unknown */
    char *path;                           /* trace that set the members above, parameter_bytes and
                                           * state_bytes */
    int64_t parameter_bytes, state_bytes; /* -1: unknown */
    int64_t cores;                        /* from bench traces, else from the first trace; 0:
                                           * unknown */
    char **ops;                           /* [op_count] names such as "conv1.forward", in the order
                                           * of a step */
    size_t op_count;                      /* 0 without train traces; otherwise the last one is
                                           * "dispatch" */
    dl_step_run *runs;
    size_t run_count;
    int64_t *drawn; /* [drawn_count] sample counts of steps that drew them (dlprof train --work) */
    size_t drawn_count;
    dl_gpu_facts gpu;
    dl_bench_trace *benches;
    size_t bench_count;
    double record_ns, record_error_ns; /* time that writing a record adds to a step, with its
                                        * standard error; 0: unknown */
    int64_t record_pairs;              /* number of pairs of runs behind record_ns; 0: none */
    dl_captured_process *captures;     /* [capture_count] from traces of dlprof run */
    size_t capture_count;
} dl_dataset;

/* Reads the trace `path` and adds it, without the steps of the warm-up (trace/training/summary.h).
 * Notes report omissions, and a failed or incomplete run. Returns DL_ERR_DATA if it is not a train,
 * bench, overhead or run trace, names no model, has no samples, more than one worker or workers of
 * several threads, or differs in workload, device, precision, size, list of operations or (bench)
 * cores from the earlier traces (the message names both files); DL_ERR_NAME for an unknown
 * micro-benchmark; DL_ERR_PARSE for a meta key that is not a number; and the errors of
 * dl_trace_read. On failure the data set may only be passed to dl_dataset_free. */
dl_status dl_dataset_add(dl_dataset *dataset, const char *path, dl_notes *notes,
                         dl_error *err) DL_MUST_CHECK;
void dl_dataset_free(dl_dataset *dataset);
/* Removes traces that other programs disturbed, once all traces are added (DL_DATASET_DISTURBED in
 * dataset.c); notes report the decision. */
void dl_dataset_leave_out_disturbed(dl_dataset *dataset, dl_notes *notes);

/* Returns the distinct batch sizes of the runs, ascending; the caller frees them. */
int64_t *dl_dataset_batches(const dl_dataset *dataset, size_t *count);

/* Adds the steps of a train trace after its warm-up as a run, and the data of its GPU; the first
 * run defines the operations of the data set. Omits steps with a different batch size from the
 * first step's, or without some operation, with a note. If the trace has the meta key `work`, its
 * steps drew their sample counts: adds no run, but the counts to `drawn`.
 *
 * Returns DL_ERR_DATA for more than one worker, no step, no sample count, an operation missing in
 * the data set, or no fewer omitted than added steps; DL_ERR_PARSE for a meta key that is not a
 * number. On failure the data set may only be passed to dl_dataset_free. */
dl_status dl_step_run_add(dl_dataset *dataset, const dl_trace *trace, dl_notes *notes,
                          dl_error *err) DL_MUST_CHECK;

/* The time that recording adds to the steps of train traces, and its subtraction.
 *
 * dlprof bench overhead measures the time per record in pairs of runs with and without a trace. A
 * step with k written records is too long by k times this time. The excess is subtracted from the
 * step's dispatch, in which records are written; a remainder beyond dispatch is subtracted from the
 * operations in proportion to their time.
 *
 * If dlprof run recorded the training process too, it delayed each launch. */

/* Takes the time per record, its standard error and the number of pairs from a trace of kind
 * overhead. Returns DL_ERR_PARSE if a value is not a number; DL_ERR_DATA if it is missing, from a
 * device other than the data set's, or already present. */
dl_status dl_recording_cost_take(dl_dataset *dataset, const dl_trace *trace,
                                 dl_error *err) DL_MUST_CHECK;

/* Returns "host:pid" of the process that made the trace, or NULL if unknown; the caller frees
 * it. */
char *dl_recording_process(const dl_trace *trace);

/* Takes the recording cost per step of the traced process from a trace of kind run: the trace's
 * figures (trace/activity/capture_cost.h) times the launches of a step; without figures or steps,
 * the reason why the cost is unknown. Returns DL_ERR_DATA if the trace names no process. */
dl_status dl_recording_cost_take_run(dl_dataset *dataset, const dl_trace *trace,
                                     dl_error *err) DL_MUST_CHECK;

/* Subtracts the recording costs from all steps of all runs, after all traces are added; skips a
 * cost that is unknown or whose interval reaches down to 0. Notes report the subtraction, and name
 * runs that dlprof run recorded at an unknown cost.
 *
 * Recording CUDA calls delays the launching thread. The cost of that is subtracted from dispatch
 * only, and at most down to 0, since the device works meanwhile. */
void dl_recording_cost_subtract(dl_dataset *dataset, dl_notes *notes);

#endif
