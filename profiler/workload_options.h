/* The options shared by `dlprof train` and `dlprof bench`: the model to train, on which cores and
 * data. */
#ifndef DL_PROFILER_WORKLOAD_OPTIONS_H
#define DL_PROFILER_WORKLOAD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "common/status.h"
#include "kernels/data_set.h"
#include "kernels/train/train.h"
#include "trace/dlt/dlt.h"

/* Values of these options, as the command line sets them. */
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

/* Checks the choices. DL_ERR_USAGE, with the reason, for storage in half precision, which is known
 * but not offered. */
dl_status dl_workload_options_check(const dl_workload_options *options, dl_error *err);

/* Sets the fields of *config given by the options, which have passed the check. */
void dl_workload_options_apply(const dl_workload_options *options, dl_train_config *config);

/* Turns the result of a settings check into that of a command: impossible settings (DL_ERR_RANGE,
 * DL_ERR_UNSUPPORTED) are bad usage, DL_ERR_USAGE. Returns the status, which is also err->code. */
dl_status dl_workload_usage(dl_status status, dl_error *err);

/* Source of training data. AUTO: MNIST or CIFAR-10, whichever has the model's shape, if its files
 * are there; else synthetic images of that shape. */
typedef enum dl_data_choice {
    DL_DATA_AUTO,
    DL_DATA_MNIST,
    DL_DATA_CIFAR10,
    DL_DATA_SYNTHETIC
} dl_data_choice;

typedef struct dl_data_source {
    dl_data_choice choice;
    const char *model;  /* a name of dl_model_names */
    const char *folder; /* with the set's files; NULL: $DL_DATA/mnist or $DL_DATA/cifar10, where
                           DL_DATA is ./data if not set */
    uint64_t seed;      /* seed of synthetic images */
    bool test_set;      /* the test images instead of the training images */
} dl_data_source;

/* The data source that the options select. */
dl_data_source dl_workload_options_data(const dl_workload_options *options);

/* Lists of batch sizes on the command line: "32,64,128". */
#define DL_BATCH_LIST_MAX 16

/* Reads the numbers into batches[DL_BATCH_LIST_MAX] and their count into *count. DL_ERR_USAGE for
 * an empty item, an item that is not a whole number in 1..DL_BATCH_MAX, a duplicate, or too many
 * items. */
dl_status dl_batch_list_parse(const char *text, int *batches, int *count,
                              dl_error *err) DL_MUST_CHECK;

/* The workers that are slowed on purpose: "WORKER:FACTOR" texts of the command line. */

/* Sets *factors to the list's factors [workers], 1 for workers not named; NULL for an empty list.
 * Released with free(). DL_ERR_USAGE for a text that is not WORKER:FACTOR, a worker that does not
 * exist or comes twice, a factor outside 1..1000. */
dl_status dl_slow_list_parse(const dl_text_list *list, int workers, double **factors,
                             dl_error *err) DL_MUST_CHECK;

/* Variation of samples per step: "KIND:SPREAD" of the command line, as lognormal:0.5.
 * DL_ERR_USAGE for another text, an unknown kind or a spread outside 0..1; the run checks the
 * range of the kind. */
dl_status dl_work_parse(const char *text, dl_train_work *work, dl_error *err) DL_MUST_CHECK;

/* The choice that selects the set with the name `set_name` (dl_data_set.name). */
dl_data_choice dl_data_choice_of(const char *set_name);

/* Reads or makes the set; the caller frees it with dl_data_set_free. `auto` takes the real set of
 * the model's shape unless its files cannot be read; damaged files are an error. A synthetic set
 * has as many images as the real set of that shape; without a reader for that shape (ImageNet), it
 * has 256 training images or 64 test images. *note says which set was taken and why; free() it. */
dl_status dl_data_source_open(const dl_data_source *source, dl_data_set *set, char **note,
                              dl_error *err) DL_MUST_CHECK;

/* Options of `dlprof train` for the device, processor or GPU, and for where and how vectors are
 * exchanged. */

/* Values of these options, as the command line sets them. */
typedef struct dl_device_options {
    const char *device; /* "cpu", "cuda", "cuda:NUMBER" */
    int64_t gpus;       /* maximum number of GPUs to use; 0: all */
    int dispatch;       /* dl_dispatch */
    int host_memory;    /* index in dl_host_memory_names */
    int quantise;       /* dl_quantise */
    double topk_frac;   /* fraction that topk keeps; 0: not given */
    const char *where;  /* "auto", "cpu", "gpu", "gpu:NUMBER", "allreduce" */
} dl_device_options;

#define DL_DEVICE_OPTION_COUNT 7

extern const char *const dl_host_memory_names[]; /* "pinned", "pageable", NULL */

/* Returns the defaults: the processor, with a thread per worker. */
dl_device_options dl_device_options_default(void);

/* Fills table[DL_DEVICE_OPTION_COUNT], whose targets lie in *options. */
void dl_device_options_table(dl_device_options *options, dl_option *table);

/* Sets the fields of *config given by the options, and loads the libraries for a GPU. DL_ERR_USAGE
 * for an invalid device or --where, and for --compress topk without --topk-frac or the reverse;
 * DL_ERR_UNSUPPORTED, naming the missing part, if there is no GPU. */
dl_status dl_device_options_apply(const dl_device_options *options, dl_train_config *config,
                                  dl_error *err) DL_MUST_CHECK;

/* The device of a run of `config`: the name of its GPUs ("NVIDIA H100 80GB HBM3", however many), or
 * the processor's. free() it. Falls back on the device's type if its name is not available. */
char *dl_device_text(const dl_train_config *config);

/* The number type: "float", "double"; on a GPU that rounds the factors of products, "tf32" or
 * "fp16". */
const char *dl_precision_text(const dl_train_config *config);

/* Where a run on a device exchanges vectors: "cpu", "gpu:2", "allreduce"; free() it. */
char *dl_device_where_text(const dl_train_config *config);

#endif
