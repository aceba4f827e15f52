/* The options that say what `dlprof train` runs on, the processor or a GPU, and where and how its
 * vectors meet. */
#ifndef DL_PROFILER_DEVICE_OPTIONS_H
#define DL_PROFILER_DEVICE_OPTIONS_H

#include <stdbool.h>

#include "common/options.h"
#include "kernels/train/train.h"
#include "trace/dlt/dlt.h"

/* Targets of the options. */
typedef struct dl_device_options {
    const char *device; /* "cpu", "cuda", "cuda:NUMBER" */
    int dispatch;       /* dl_dispatch */
    int host_memory;    /* index in dl_host_memory_names */
    int quantise;       /* dl_quantise */
    const char *where;  /* "auto", "cpu", "gpu", "gpu:NUMBER", "allreduce" */
} dl_device_options;

#define DL_DEVICE_OPTION_COUNT 5

extern const char *const dl_host_memory_names[]; /* "pinned", "pageable", NULL */

/* The processor, with a thread a worker. */
dl_device_options dl_device_options_default(void);

/* Fills table[DL_DEVICE_OPTION_COUNT], whose targets lie in *options. */
void dl_device_options_table(dl_device_options *options, dl_option *table);

/* Sets the fields of *config that the options stand for, and loads what a GPU takes. DL_ERR_USAGE
 * for a device that cannot be; DL_ERR_UNSUPPORTED, saying what is missing, where there is none. */
dl_status dl_device_options_apply(const dl_device_options *options, dl_train_config *config,
                                  dl_error *err) DL_MUST_CHECK;

/* What a run of `config` is on, in words: "2 x NVIDIA H100 80GB HBM3", or the processor's name.
 * free() it. Falls back on the device's type where its name cannot be had. */
char *dl_device_text(const dl_train_config *config);

/* Where the vectors of a run on a device meet: "cpu", "gpu:2", "allreduce"; free() it. */
char *dl_device_where_text(const dl_train_config *config);

/* Meta keys of a trace of a run on a device: device_count, shared_gpu (1 if workers share one),
 * dispatch, host_memory, math (dl_device_math_names), where. On the processor none. */
void dl_device_meta(dl_trace_writer *writer, const dl_train_config *config);

/* device_memory_bytes, behind a run on a device: what of its memory is in use. */
void dl_device_memory_meta(dl_trace_writer *writer, const dl_train_result *result);

#endif
