#include "profiler/workload_options.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/names.h"
#include "common/units.h"
#include "kernels/device.h"
#include "kernels/model_table.h"

#define DL_BATCH_MAX (1 << 20)

static dl_status parse_item(const char *text, size_t bytes, int *batch, dl_error *err)
{
    dl_error why = {0};
    int64_t number;
    DL_AUTOFREE char *item = dl_strndup(text, bytes);
    const dl_status status = dl_parse_int(item, 1, DL_BATCH_MAX, &number, &why);
    if (status != DL_OK) return dl_error_set(err, DL_ERR_USAGE, "--batch: %s", why.text);
    *batch = (int)number;
    return DL_OK;
}

dl_status dl_batch_list_parse(const char *text, int *batches, int *count, dl_error *err)
{
    int made[DL_BATCH_LIST_MAX];
    int n = 0;
    for (const char *item = text;; item++) {
        const size_t bytes = strcspn(item, ",");
        if (n == DL_BATCH_LIST_MAX) {
            return dl_error_set(err, DL_ERR_USAGE, "--batch %s: at most %d sizes", text,
                                DL_BATCH_LIST_MAX);
        }
        const dl_status status = parse_item(item, bytes, &made[n], err);
        if (status != DL_OK) return status;
        for (int i = 0; i < n; i++) {
            if (made[i] != made[n]) continue;
            return dl_error_set(err, DL_ERR_USAGE, "--batch %s: %d comes twice", text, made[n]);
        }
        n++;
        item += bytes;
        if (*item == '\0') break;
    }
    memcpy(batches, made, (size_t)n * sizeof *made);
    *count = n;
    return DL_OK;
}

#define FACTOR_MAX 1000.0

static dl_status parse_one(const char *text, int workers, double *factors, dl_error *err)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--slow %s: expected WORKER:FACTOR, as in 1:2",
                            text);
    }
    dl_error why = {0};
    int64_t worker = 0;
    double factor = 0;
    DL_AUTOFREE char *number = dl_strndup(text, (size_t)(colon - text));
    dl_status status = dl_parse_int(number, 0, workers - 1, &worker, &why);
    if (status == DL_OK) status = dl_parse_double(colon + 1, 1, FACTOR_MAX, &factor, &why);
    if (status != DL_OK) return dl_error_set(err, DL_ERR_USAGE, "--slow %s: %s", text, why.text);
    if (factors[worker] > 0) {
        return dl_error_set(err, DL_ERR_USAGE, "--slow %s: that worker was slowed already", text);
    }
    factors[worker] = factor;
    return DL_OK;
}

dl_status dl_slow_list_parse(const dl_text_list *list, int workers, double **factors, dl_error *err)
{
    if (list->count == 0) {
        *factors = NULL;
        return DL_OK;
    }
    double *made = dl_calloc((size_t)workers, sizeof *made, "slow workers"); /* 0 = not named */
    for (size_t i = 0; i < list->count; i++) {
        const dl_status status = parse_one(list->items[i], workers, made, err);
        if (status == DL_OK) continue;
        free(made);
        return status;
    }
    for (int w = 0; w < workers; w++) {
        if (made[w] <= 0) made[w] = 1;
    }
    *factors = made;
    return DL_OK;
}

dl_status dl_work_parse(const char *text, dl_train_work *work, dl_error *err)
{
    static const char *const *const kinds = &dl_train_work_names[DL_TRAIN_WORK_UNIFORM];
    const char *colon = strchr(text, ':');
    if (colon == NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--work %s: expected KIND:SPREAD, as in lognormal:0.5", text);
    }
    dl_error why = {0};
    DL_AUTOFREE char *name = dl_strndup(text, (size_t)(colon - text));
    const int kind = dl_names_find(name, kinds, DL_TRAIN_WORK_LOGNORMAL);
    if (kind < 0) {
        char hint[96];
        dl_names_hint(hint, sizeof hint, name, kinds, DL_TRAIN_WORK_LOGNORMAL);
        dl_error_set(err, DL_ERR_USAGE, "--work %s: unknown kind '%s'%s", text, name, hint);
        return DL_ERR_USAGE;
    }
    const dl_status status = dl_parse_double(colon + 1, 0, 1, &work->spread, &why);
    if (status != DL_OK) return dl_error_set(err, DL_ERR_USAGE, "--work %s: %s", text, why.text);
    work->kind = (dl_train_work_kind)(kind + DL_TRAIN_WORK_UNIFORM);
    return DL_OK;
}

static const char *const data_choice_names[] = {"auto", "mnist", "cifar10", "synthetic", NULL};

dl_data_choice dl_data_choice_of(const char *set_name)
{
    const int choice = dl_names_find(set_name, data_choice_names, DL_DATA_SYNTHETIC + 1);
    DL_ASSERT(choice > DL_DATA_AUTO, "no data set is called '%s'", set_name);
    return (dl_data_choice)choice;
}

/* A data set for which there is a reader. */
typedef struct real_set {
    dl_data_choice choice;
    const char *title;
    dl_shape shape;
    int classes;
    dl_status (*read)(dl_data_set *set, const char *folder, int test_set, dl_error *err);
    size_t images[2]; /* numbers of training and of test images */
} real_set;

static const real_set real_sets[] = {
    {DL_DATA_MNIST, "MNIST", {28, 28, 1}, 10, dl_data_set_read_mnist, {60000, 10000}},
    {DL_DATA_CIFAR10, "CIFAR-10", {32, 32, 3}, 10, dl_data_set_read_cifar10, {50000, 10000}},
};

enum { REAL_SETS = sizeof real_sets / sizeof real_sets[0] };

/* Numbers of synthetic images of other shapes: 256 of ImageNet's are 39 MB. */
static const size_t other_images[2] = {256, 64};

static const dl_model_table *model_of(const dl_data_source *source)
{
    const dl_model_table *table = NULL;
    const dl_status status = dl_model_table_find(&table, source->model, NULL);
    DL_ASSERT(status == DL_OK, "no model is called '%s'", source->model);
    return table;
}

static bool fits(const real_set *real, const dl_model_table *model)
{
    return real->shape.rows == model->in.rows && real->shape.columns == model->in.columns &&
           real->shape.channels == model->in.channels &&
           real->classes == dl_model_table_classes(model);
}

/* Returns the chosen set, or for `auto` and `synthetic` the set of the model's shape; NULL if there
 * is none. */
static const real_set *find_real(const dl_data_source *source)
{
    const bool by_shape = source->choice == DL_DATA_AUTO || source->choice == DL_DATA_SYNTHETIC;
    for (int i = 0; i < REAL_SETS; i++) {
        if (by_shape ? fits(&real_sets[i], model_of(source))
                     : real_sets[i].choice == source->choice) {
            return &real_sets[i];
        }
    }
    return NULL;
}

static char *folder_of(const dl_data_source *source, const real_set *real)
{
    if (source->folder != NULL) return dl_strdup(source->folder);
    const char *root = getenv("DL_DATA");
    return dl_format("%s/%s", root != NULL && root[0] != '\0' ? root : "./data",
                     data_choice_names[real->choice]);
}

/* Test images use the next seed; the class patterns are the same. `why` ends the note. */
static void make_synthetic(const dl_data_source *source, const real_set *real, const char *why,
                           dl_data_set *set, char **note)
{
    const dl_model_table *model = model_of(source);
    const size_t *images = real != NULL ? real->images : other_images;
    dl_data_set_synthetic(set, model->in, dl_model_table_classes(model), images[source->test_set],
                          source->seed + source->test_set);
    *note = dl_format("synthetic, %zu images of %dx%dx%d%s", set->count, model->in.rows,
                      model->in.columns, model->in.channels, why);
}

dl_status dl_data_source_open(const dl_data_source *source, dl_data_set *set, char **note,
                              dl_error *err)
{
    const real_set *real = find_real(source);
    if (real == NULL || source->choice == DL_DATA_SYNTHETIC) {
        make_synthetic(source, real, real == NULL ? " (no real set of this shape can be read)" : "",
                       set, note);
        return DL_OK;
    }
    DL_AUTOFREE char *folder = folder_of(source, real);
    dl_error why = {0};
    dl_status status = real->read(set, folder, source->test_set, &why);
    if (status == DL_OK) {
        *note = dl_format("%s, %zu images from %s", set->name, set->count, folder);
    } else if (status == DL_ERR_IO && source->choice == DL_DATA_AUTO) {
        DL_AUTOFREE char *reason = dl_format(" (no %s in %s)", real->title, folder);
        make_synthetic(source, real, reason, set, note);
        status = DL_OK;
    } else if (err != NULL) {
        *err = why;
    }
    return status;
}

const char *const dl_host_memory_names[] = {"pinned", "pageable", NULL};

dl_device_options dl_device_options_default(void)
{
    return (dl_device_options){.device = "cpu", .where = "auto"};
}

static const dl_option device_table[DL_DEVICE_OPTION_COUNT] = {
    DL_OPTION_ROW_TEXT("device", 'd', dl_device_options, device, "DEVICE",
                       "Device on which workers compute: cpu, cuda or cuda:NUMBER; worker w uses "
                       "GPU NUMBER + w, or workers share GPUs.",
                       .group = "GPUs"),
    DL_OPTION_ROW_NUMBER(INT, "gpus", 0, dl_device_options, gpus, 0, 1 << 10, "COUNT",
                         "Number of GPUs, assigned to the workers in turn, from that of --device "
                         "on (default: all)."),
    DL_OPTION_ROW_CHOICE("dispatch", 0, dl_device_options, dispatch, dl_dispatch_names, "HOW",
                         "Threads that launch work on the GPUs: one per worker, or a single one "
                         "for all."),
    DL_OPTION_ROW_CHOICE("host-memory", 0, dl_device_options, host_memory, dl_host_memory_names,
                         "KIND", "Kind of host memory for copies to and from GPUs."),
    DL_OPTION_ROW_TEXT("where", 0, dl_device_options, where, "PLACE",
                       "Place where averages and updates are computed: cpu, gpu:NUMBER, or "
                       "allreduce between GPUs; auto is allreduce for --sync allreduce on GPUs, "
                       "otherwise cpu."),
    DL_OPTION_ROW_CHOICE("compress", 0, dl_device_options, quantise, dl_quantise_names, "TYPE",
                         "Type in which gradients (with average, parameter changes) are sent; "
                         "int8 and fp4 have a scale per 1024 numbers, 1bit and topk error "
                         "feedback.",
                         .group = "Exchange"),
    DL_OPTION_ROW_NUMBER(
        DOUBLE, "topk-frac", 0, dl_device_options, topk_frac, 0, 1, "FRACTION",
        "Fraction of each layer's numbers that --compress topk sends; required there."),
};

void dl_device_options_table(dl_device_options *options, dl_option *table)
{
    dl_options_bind(table, device_table, DL_DEVICE_OPTION_COUNT, options);
}

static const char *const where_names[] = {[DL_TRAIN_WHERE_AUTO] = "auto",
                                          [DL_TRAIN_WHERE_CPU] = "cpu",
                                          [DL_TRAIN_WHERE_GPU] = "gpu",
                                          [DL_TRAIN_WHERE_ALLREDUCE] = "allreduce"};

enum { WHERE_COUNT = DL_TRAIN_WHERE_ALLREDUCE + 1 };

/* "gpu" without a number is the first worker's GPU. */
static dl_status parse_where(const char *text, dl_train_config *config, dl_error *err)
{
    static const char gpu[] = "gpu:";
    const int found = dl_names_find(text, where_names, WHERE_COUNT);
    if (found >= 0) {
        config->where = (dl_train_where)found;
        config->where_device = config->first_device;
        return DL_OK;
    }
    int64_t number = 0;
    if (strncmp(text, gpu, sizeof gpu - 1) == 0 &&
        dl_parse_int(text + sizeof gpu - 1, 0, INT32_MAX, &number, NULL) == DL_OK) {
        config->where = DL_TRAIN_WHERE_GPU;
        config->where_device = (int)number;
        return DL_OK;
    }
    return dl_error_set(err, DL_ERR_USAGE,
                        "--where '%.64s'; must be auto, cpu, gpu, gpu:NUMBER or allreduce", text);
}

dl_status dl_device_options_apply(const dl_device_options *options, dl_train_config *config,
                                  dl_error *err)
{
    dl_device_choice choice;
    dl_status status = dl_device_parse(options->device, &choice, err);
    if (status != DL_OK) return status;
    const dl_device_type *type = NULL;
    if (choice.cuda) status = dl_device_load_cuda(&type, err);
    if (status != DL_OK) return status;
    config->device = type;
    config->first_device = choice.first;
    config->devices = (int)options->gpus;
    config->dispatch = (dl_dispatch)options->dispatch;
    config->device_settings.pageable =
        strcmp(dl_host_memory_names[options->host_memory], "pageable") == 0;
    config->quantise = (dl_quantise)options->quantise;
    config->topk_frac = options->topk_frac;
    if ((config->quantise == DL_QUANTISE_TOPK) != (options->topk_frac > 0)) {
        return dl_error_set(err, DL_ERR_USAGE,
                            options->topk_frac > 0 ? "--topk-frac needs --compress topk"
                                                   : "--compress topk needs --topk-frac FRACTION");
    }
    return parse_where(options->where, config, err);
}

char *dl_device_text(const dl_train_config *config)
{
    char name[128];
    dl_device_info info;
    if (config->device == NULL) return dl_strdup(dl_cpu_name(name, sizeof name));
    if (config->device->describe(config->first_device, &info, NULL) != DL_OK)
        return dl_strdup(config->device->name);
    return dl_strdup(info.name);
}

char *dl_device_where_text(const dl_train_config *config)
{
    if (config->where == DL_TRAIN_WHERE_GPU) return dl_format("gpu:%d", config->where_device);
    return dl_strdup(where_names[dl_train_is_collective(config) ? DL_TRAIN_WHERE_ALLREDUCE
                                                                : DL_TRAIN_WHERE_CPU]);
}

/* Number types. With tf32 and fp16 a GPU rounds the factors of products; all other numbers are
 * float. */
static const char *const precision_names[] = {"float", "double", "fp32", "tf32",
                                              "fp16",  "half",   NULL};

static const struct {
    dl_precision precision;
    dl_device_math math;
} precisions[] = {
    {DL_FLOAT, DL_DEVICE_MATH_FP32}, {DL_DOUBLE, DL_DEVICE_MATH_FP32},
    {DL_FLOAT, DL_DEVICE_MATH_FP32}, {DL_FLOAT, DL_DEVICE_MATH_TF32},
    {DL_FLOAT, DL_DEVICE_MATH_FP16}, {DL_FLOAT, DL_DEVICE_MATH_FP32}}; /* half: refused */

const char *dl_precision_text(const dl_train_config *config)
{
    if (config->device_settings.math != DL_DEVICE_MATH_FP32)
        return dl_device_math_names[config->device_settings.math];
    return precision_names[config->precision == DL_DOUBLE ? 1 : 0];
}

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

static const dl_option workload_table[DL_WORKLOAD_OPTION_COUNT] = {
    DL_OPTION_ROW_CHOICE("model", 'm', dl_workload_options, model, dl_model_names, "MODEL",
                         "Model to train.", .group = "Model and data"),
    DL_OPTION_ROW_CHOICE("optimizer", 0, dl_workload_options, optimizer, dl_optimizer_names, "NAME",
                         "Optimizer."),
    DL_OPTION_ROW_NUMBER(DOUBLE, "learning-rate", 0, dl_workload_options, learning_rate, 1e-12, 1e6,
                         "RATE", "Learning rate."),
    DL_OPTION_ROW_NUMBER(DOUBLE, "momentum", 0, dl_workload_options, momentum, 0, 0.999999,
                         "FRACTION", "Momentum of sgd."),
    DL_OPTION_ROW_CHOICE("precision", 0, dl_workload_options, precision, precision_names, "TYPE",
                         "Number type of the model. On a GPU, tf32 and fp16 round only the "
                         "factors of products; half is refused."),
    DL_OPTION_ROW_NUMBER(INT, "seed", 0, dl_workload_options, seed, 0, 0x1p53, "NUMBER",
                         "Seed of the parameters, the order of the samples, and synthetic data."),
    DL_OPTION_ROW_CHOICE("data", 0, dl_workload_options, data, data_choice_names, "SET",
                         "Training data; auto uses MNIST or CIFAR-10, depending on the model, if "
                         "its files are found, otherwise synthetic images."),
    DL_OPTION_ROW_TEXT("data-folder", 0, dl_workload_options, data_folder, "FOLDER",
                       "Folder of the set's files (default: mnist or cifar10 in $DL_DATA, or in "
                       "./data)."),
    DL_OPTION_ROW_NUMBER(INT, "cores", 0, dl_workload_options, cores, 0, 1 << 20, "COUNT",
                         "Number of cores to use (default: all that this process may use).",
                         .group = "Cores"),
    DL_OPTION_ROW_NUMBER(INT, "first-core", 0, dl_workload_options, first_core, 0, 1 << 20,
                         "NUMBER",
                         "Core of worker 0; the other workers follow, modulo the number of cores."),
};

void dl_workload_options_table(dl_workload_options *options, dl_option *table)
{
    dl_options_bind(table, workload_table, DL_WORKLOAD_OPTION_COUNT, options);
}

dl_status dl_workload_options_check(const dl_workload_options *options, dl_error *err)
{
    if (strcmp(precision_names[options->precision], "half") != 0) return DL_OK;
    return dl_error_set(
        err, DL_ERR_USAGE,
        "--precision half: parameters are not stored in half precision, as small updates would "
        "round to zero, and training on the processor, the reference, has no equivalent; fp16 "
        "rounds factors of products, --compress fp16 the messages");
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
