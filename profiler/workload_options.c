#include "profiler/workload_options.h"

#include "common/names.h"

/* What numbers are; for a GPU also what it may round factors of products to, the rest being float. */
static const char *const precision_names[] = {"float", "double", "fp32", "tf32", "fp16", NULL};

static const struct {
    dl_precision precision;
    dl_device_math math;
} precisions[] = {{DL_FLOAT, DL_DEVICE_MATH_FP32},
                  {DL_DOUBLE, DL_DEVICE_MATH_FP32},
                  {DL_FLOAT, DL_DEVICE_MATH_FP32},
                  {DL_FLOAT, DL_DEVICE_MATH_TF32},
                  {DL_FLOAT, DL_DEVICE_MATH_FP16}};

static int choice_of(const char *name, const char *const *choices)
{
    size_t count = 0;
    while (choices[count] != NULL)
        count++;
    const int index = dl_names_find(name, choices, count);
    DL_ASSERT(index >= 0, "default '%s' is no choice", name);
    return index;
}

dl_workload_options dl_workload_options_default(void)
{
    const dl_train_config config = dl_train_default_config();
    return (dl_workload_options){
        .model = choice_of(config.model, dl_model_names),
        .precision = (int)config.precision,
        .optimizer = choice_of(config.optimizer.name, dl_optimizer_names),
        .data = DL_DATA_AUTO,
        .learning_rate = config.optimizer.learning_rate,
        .momentum = config.optimizer.momentum,
        .cores = config.cores,
        .first_core = config.first_core,
        .seed = (int64_t)config.seed,
    };
}

static const dl_option own_options[DL_WORKLOAD_OPTION_COUNT] = {
    {.name = "model",
     .letter = 'm',
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_workload_options, model),
     .choices = dl_model_names,
     .argument = "MODEL",
     .help = "model to train"},
    {.name = "optimizer",
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_workload_options, optimizer),
     .choices = dl_optimizer_names,
     .argument = "NAME",
     .help = "optimizer"},
    {.name = "learning-rate",
     .type = DL_OPTION_DOUBLE,
     .target = DL_OPTION_FIELD(dl_workload_options, learning_rate),
     .low = 1e-12,
     .high = 1e6,
     .argument = "RATE",
     .help = "learning rate"},
    {.name = "momentum",
     .type = DL_OPTION_DOUBLE,
     .target = DL_OPTION_FIELD(dl_workload_options, momentum),
     .low = 0,
     .high = 0.999999,
     .argument = "FRACTION",
     .help = "momentum of sgd"},
    {.name = "precision",
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_workload_options, precision),
     .choices = precision_names,
     .argument = "TYPE",
     .help = "number type of the model"},
    {.name = "cores",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_workload_options, cores),
     .low = 0,
     .high = 1 << 20,
     .argument = "COUNT",
     .help = "cores to use; 0 means all that this process may use"},
    {.name = "first-core",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_workload_options, first_core),
     .low = 0,
     .high = 1 << 20,
     .argument = "NUMBER",
     .help = "core of worker 0; the others follow, modulo the number of cores"},
    {.name = "seed",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_workload_options, seed),
     .low = 0,
     .high = 0x1p53,
     .argument = "NUMBER",
     .help = "seed of parameters, order of the samples, and synthetic data"},
    {.name = "data",
     .type = DL_OPTION_CHOICE,
     .target = DL_OPTION_FIELD(dl_workload_options, data),
     .choices = dl_data_choice_names,
     .argument = "SET",
     .help = "training data; auto takes MNIST or CIFAR-10, as fits the model, where its files "
             "are, else synthetic images"},
    {.name = "data-folder",
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_workload_options, data_folder),
     .argument = "FOLDER",
     .help = "where the set's files are, instead of $DL_DATA/mnist or $DL_DATA/cifar10 (without "
             "DL_DATA: ./data/...)"},
};

void dl_workload_options_table(dl_workload_options *options, dl_option *table)
{
    dl_options_bind(table, own_options, DL_WORKLOAD_OPTION_COUNT, options);
}

void dl_workload_options_apply(const dl_workload_options *options, dl_train_config *config)
{
    config->model = dl_model_names[options->model];
    config->precision = precisions[options->precision].precision;
    config->device_settings.math = precisions[options->precision].math;
    config->optimizer = (dl_optimizer_config){.name = dl_optimizer_names[options->optimizer],
                                              .learning_rate = options->learning_rate,
                                              .momentum = options->momentum};
    config->cores = (int)options->cores;
    config->first_core = (int)options->first_core;
    config->seed = (uint64_t)options->seed;
}

dl_status dl_workload_usage(dl_status status, dl_error *err)
{
    if (status != DL_ERR_RANGE && status != DL_ERR_UNSUPPORTED) return status;
    err->code = DL_ERR_USAGE;
    return DL_ERR_USAGE;
}

dl_data_source dl_workload_options_data(const dl_workload_options *options)
{
    return (dl_data_source){.choice = (dl_data_choice)options->data,
                            .model = dl_model_names[options->model],
                            .folder = options->data_folder,
                            .seed = (uint64_t)options->seed};
}
