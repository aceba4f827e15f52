/* The input of a calibration: `train` traces of one worker and `bench` traces, all of one workload
 * on one device, what recording costs there (`overhead`, of any workload), and the traces that
 * dlprof run made of the training processes meanwhile (`run`), reduced to what the fits need.
 *
 * A step's time is its duration without exchange (copies, averages, waiting) and without time lost
 * on purpose. What its operations leave uncovered is the host's own time, operation "dispatch", so
 * that the operations of a step always add up to its time. */
#ifndef DL_CALIBRATE_DATASET_H
#define DL_CALIBRATE_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calibrate/gpu_facts.h"
#include "calibrate/notes.h"
#include "common/status.h"
#include "trace/record.h"

/* The steps of one train trace behind its warm-up, in order. */
typedef struct dl_step_run {
    char *path;
    int64_t batch;
    size_t steps;    /* >= 1 */
    double *step_ns; /* [steps] */
    double *op_ns;   /* [steps x op_count] */
    double *records; /* [steps] records that the step was written with */
    char *process;   /* "host:pid"; NULL: the trace does not say */
    char *captured;  /* preset of dlprof run, which recorded its CUDA calls; NULL: nobody did */
    int64_t disturbed; /* thousandths of the machine's processors that other programs and the host
                        * of a virtual machine took meanwhile; 0 where the trace does not say */
} dl_step_run;

/* What recording its CUDA calls added to a step of a process, by the trace of dlprof run. */
typedef struct dl_captured_process {
    char *process;                   /* "host:pid" */
    char *unknown;                   /* why the cost is not known; NULL = it is */
    double step_ns, low_ns, high_ns; /* mean over its steps, with its interval of 95 % */
    double launches;                 /* kernels, copies, events and waits of a step */
} dl_captured_process;

/* What a sample of a bench trace is of. */
typedef enum dl_sample_kind {
    DL_SAMPLE_COPY,
    DL_SAMPLE_AVERAGE,
    DL_SAMPLE_UPDATE,
    DL_SAMPLE_BARRIER,
    DL_SAMPLE_WAKEUP,
    DL_SAMPLE_LOCK,
    DL_SAMPLE_SLICE,
    DL_SAMPLE_STEP,
    DL_SAMPLE_KINDS
} dl_sample_kind;

/* "copy", "average", ...: names of BENCH records (trace/record.h). */
extern const char *const dl_sample_kind_names[DL_SAMPLE_KINDS];

/* The samples of one bench trace, in the order in which they were taken. */
typedef struct dl_bench_trace {
    char *path;
    dl_record *samples; /* [count]; `name` is a dl_sample_kind */
    size_t count;
    bool snapshot;     /* of the state of the machine alone (dlprof bench --snapshot) */
    int64_t disturbed; /* as dl_step_run's */
} dl_bench_trace;

/* Owns everything; zero before the first dl_dataset_add, release with dl_dataset_free. */
typedef struct dl_dataset {
    char *workload, *device;
    char *path;                           /* the trace that they come from */
    int64_t parameter_bytes, state_bytes; /* -1: the traces do not say */
    int64_t cores;                        /* of the bench traces, else of the first; 0: not said */
    char **ops;                           /* [op_count] "conv1.forward", in the order of a step */
    size_t op_count;                      /* 0 without train traces; else "dispatch" is the last */
    dl_step_run *runs;
    size_t run_count;
    dl_gpu_facts gpu;
    dl_bench_trace *benches;
    size_t bench_count;
    double record_ns, record_error_ns; /* what writing a record adds to a step; 0 where not known */
    int64_t record_pairs;              /* pairs of runs that say so; 0: none */
    dl_captured_process *captures;     /* of traces of dlprof run */
    size_t capture_count;
} dl_dataset;

/* Reads the trace `path` and adds it, without the steps of the warm-up (trace/steps/steps.h). Notes say
 * what was left out, and if the trace is incomplete. DL_ERR_DATA: neither kind of trace, no
 * samples, more than one worker, another workload, device, size or list of operations than the
 * traces before (both files are named); DL_ERR_NAME: an unknown micro-benchmark; and the errors of
 * dl_trace_read. On failure the data set is only good for dl_dataset_free. */
dl_status dl_dataset_add(dl_dataset *dataset, const char *path, dl_notes *notes,
                         dl_error *err) DL_MUST_CHECK;

void dl_dataset_free(dl_dataset *dataset);

/* Leaves out the traces during which others took more than DL_DATASET_DISTURBED of the processors,
 * of each kind (train runs of a batch size, whole benches, snapshots) unless fewer than a quarter of
 * them would be left: then others belong to the machine as it is. A note says either. */
#define DL_DATASET_DISTURBED 100 /* thousandths */
void dl_dataset_leave_out_disturbed(dl_dataset *dataset, dl_notes *notes);

/* What a trace says of others' share of the processors (dl_step_run's `disturbed`). */
int64_t dl_dataset_disturbed(const dl_trace *trace);

/* Part of a path behind its last '/', as notes and reports name files. Borrowed. */
const char *dl_base_name(const char *path);

/* The different batch sizes of the runs, ascending; free() it. */
int64_t *dl_dataset_batches(const dl_dataset *dataset, size_t *count);

#endif
