/* The options that `dlprof train` and `dlprof bench` share: what is trained, on which cores and
 * data. */
#ifndef DL_PROFILER_WORKLOAD_OPTIONS_H
#define DL_PROFILER_WORKLOAD_OPTIONS_H

#include "common/options.h"
#include "kernels/train/train.h"
#include "profiler/data_source.h"

/* Targets of the options. */
typedef struct dl_workload_options {
    int model, precision, optimizer, data; /* indices of choices */
    double learning_rate, momentum;
    int64_t cores, first_core, seed;
    const char *data_folder;
} dl_workload_options;

#define DL_WORKLOAD_OPTION_COUNT 10

/* The defaults of dl_train_default_config. */
dl_workload_options dl_workload_options_default(void);

/* Fills table[DL_WORKLOAD_OPTION_COUNT], whose targets lie in *options. */
void dl_workload_options_table(dl_workload_options *options, dl_option *table);

/* Sets the fields of *config that the options stand for. */
void dl_workload_options_apply(const dl_workload_options *options, dl_train_config *config);

/* What a check of settings said, as a command says it: one that cannot be (DL_ERR_RANGE,
 * DL_ERR_UNSUPPORTED) is bad usage, DL_ERR_USAGE. Returns the status, which is also err->code. */
dl_status dl_workload_usage(dl_status status, dl_error *err);

/* Where the options say the data is. */
dl_data_source dl_workload_options_data(const dl_workload_options *options);

#endif
