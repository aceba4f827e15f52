/* A trace's description of its run: the meta keys listed in trace/dlt/dlt.h. */
#ifndef DL_PROFILER_RUN_META_H
#define DL_PROFILER_RUN_META_H

#include "common/cpu.h"
#include "common/status.h"
#include "kernels/train/train.h"
#include "trace/dlt/dlt.h"

/* Sizes of one worker's vectors under a configuration. */
typedef struct dl_run_sizes {
    size_t parameters; /* number of parameters */
    size_t parameter_bytes;
    size_t state_bytes;      /* size of the optimizer's state */
    size_t gradient_bytes;   /* size of the gradients of all parameters */
    size_t activation_bytes; /* per sample: the layers' kept data, and its gradients */
} dl_run_sizes;

/* Builds the model and its optimizer once to measure their sizes. */
dl_status dl_run_sizes_find(const dl_train_config *config, dl_run_sizes *sizes,
                            dl_error *err) DL_MUST_CHECK;

/* Writes the keys of all kinds of traces: program ... command, kind, model ... activation_bytes,
 * seed, data, device, cores, those of dl_device_meta, host, pid, wall_start, clock_start_ns; and
 * captured, the preset, if dlprof run records this process's CUDA calls at the same time. */
void dl_run_meta_common(dl_trace_writer *writer, const char *kind, const char *command,
                        const char *data, const dl_train_config *config, const dl_run_sizes *sizes);

/* Writes the settings of a training run, sync ... wait; some only if the run uses them. */
void dl_run_meta_training(dl_trace_writer *writer, const dl_train_config *config);

/* Writes the keys of async_average: uploads_applied, _too_stale, _superseded, _unmerged, merges. */
void dl_run_meta_uploads(dl_trace_writer *writer, const dl_merge_counts *uploads);

/* Writes others_permille and steal_permille, the use of the processors during the run by other
 * programs and by the host of a virtual machine; nothing if it is unknown. */
void dl_run_meta_disturbed(dl_trace_writer *writer, const dl_cpu_disturbance *disturbed);

/* Writes the keys of a run on a device: device_count, shared_gpu (1 if workers share one),
 * dispatch, host_memory, math (dl_device_math_names), where. None on the processor. */
void dl_device_meta(dl_trace_writer *writer, const dl_train_config *config);

/* Writes device_memory_bytes, the memory in use on the device after a run. */
void dl_device_memory_meta(dl_trace_writer *writer, const dl_train_result *result);

#endif
