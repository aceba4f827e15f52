/* A trace's description of its run: the meta keys listed in trace/dlt/dlt.h. */
#ifndef DL_PROFILER_RUN_META_H
#define DL_PROFILER_RUN_META_H

#include "common/cpu.h"
#include "common/status.h"
#include "kernels/train/train.h"
#include "trace/dlt/dlt.h"

/* Sizes of one worker's vectors under a configuration. */
typedef struct dl_run_sizes {
    size_t parameters; /* count */
    size_t parameter_bytes;
    size_t state_bytes;      /* of the optimizer */
    size_t gradient_bytes;   /* of all parameters */
    size_t activation_bytes; /* of one sample: the layers' kept data, and its gradients */
} dl_run_sizes;

/* Builds the model and its optimizer once to measure them. */
dl_status dl_run_sizes_find(const dl_train_config *config, dl_run_sizes *sizes,
                            dl_error *err) DL_MUST_CHECK;

extern const char *const dl_wait_names[]; /* "auto", "spin", "block", NULL: by dl_wait */

/* Keys of all kinds of traces: program ... command, kind, model ... state_bytes, seed, data,
 * device, cores, host, pid, clock_start_ns, wall_start; and, if dlprof run records the process's
 * CUDA calls meanwhile, captured = its preset. */
void dl_run_meta_common(dl_trace_writer *writer, const char *kind, const char *command,
                        const char *data, const dl_train_config *config, const dl_run_sizes *sizes);

/* The further keys of a training run: sync ... steps, slow, wait. */
void dl_run_meta_training(dl_trace_writer *writer, const dl_train_config *config);

/* uploads_applied, _too_stale, _superseded, _unmerged, merges: of async_average. */
void dl_run_meta_uploads(dl_trace_writer *writer, const dl_merge_counts *uploads);

/* others_permille, steal_permille: others' use of the processors during the run; not written if
 * unknown. */
void dl_run_meta_disturbed(dl_trace_writer *writer, const dl_cpu_disturbance *disturbed);

/* Meta keys of a run on a device: device_count, shared_gpu (1 if workers share one), dispatch,
 * host_memory, math (dl_device_math_names), where. None on the processor. */
void dl_device_meta(dl_trace_writer *writer, const dl_train_config *config);

/* device_memory_bytes, after a run on a device: memory in use on it. */
void dl_device_memory_meta(dl_trace_writer *writer, const dl_train_result *result);

#endif
