/* Fits the parts of a GPU's rates that networks reach (sim/workloads/roofline.h) to the published
 * training rates in scenarios/workloads/measured.csv and scenarios/scaling/measured.csv, prints the
 * errors of every row, and exits with 1 if the table in roofline_rates.c is not the outcome.
 *
 *   fit_workloads SCENARIOS        the folder
 *
 * For each class and arithmetic the two parts are those of a grid (DL_STEP apart) with the least
 * sum of squares of log(predicted / measured). Then each GPU is left out in turn: its rows are
 * predicted with the parts fitted to all others. The spread is the root mean square of the
 * logarithms of these and of the rows that are not fitted at all. Where kernels were measured one
 * by one nothing is fitted, and nine rows in ten have to be within two standard deviations. A step
 * takes no less than launching its kernels. Where memory was measured, that of the tensors is
 * compared too. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/quantity.h"
#include "sim/costs/assume.h"
#include "sim/workloads/roofline.h"

#define STEP 0.04 /* of the logarithm */
#define LOWEST 0.1
#define STEPS 58 /* up to 0.98 */
#define ROWS_MAX 400
#define BATCH_MIN 16 /* of images, where they are fitted: smaller ones are bound by launches */

typedef struct row {
    char program[16], workload[128];
    const dl_gpu_model *model;
    dl_model_class class;
    dl_arithmetic arithmetic;
    double batch, micro_batches, measured_per_s; /* batch: of a micro-batch */
    double memory_bytes, predicted_bytes;        /* of tensors; 0: not measured */
    bool fitted;
    double fit_per_s, left_out_per_s; /* predicted: by the table's own group, and without the GPU */
    float *log_errors;                /* [STEPS x STEPS] arithmetic, memory; NULL: by kernels */
    double log_error;                 /* as the table has it */
} row;

typedef struct rates {
    dl_csv csv;
    dl_gpu_model *models; /* [csv.rows] */
} rates;

static row rows[ROWS_MAX];
static size_t row_count;

static void fail(const dl_error *error)
{
    fprintf(stderr, "fit_workloads: %s\n", error->text);
    exit(2);
}

static double part_of(int step)
{
    return LOWEST * exp(STEP * step);
}

static dl_quantity rate(const dl_csv *csv, size_t r, const char *column, dl_dimension dimension)
{
    const char *text = dl_csv_cell(csv, r, (size_t)dl_csv_column(csv, column));
    dl_quantity quantity = {0};
    dl_error error = {0};
    if (text[0] != '\0' && dl_quantity_parse(text, dimension, &quantity, &error)) fail(&error);
    return quantity;
}

static void read_rates(rates *all, const char *folder)
{
    dl_error error = {0};
    char *path = dl_format("%s/machines/gpus.csv", folder);
    if (dl_csv_read(&all->csv, path, &error)) fail(&error);
    free(path);
    all->models = dl_calloc(all->csv.rows, sizeof *all->models, "GPUs");
    for (size_t r = 0; r < all->csv.rows; r++) {
        all->models[r] = (dl_gpu_model){
            .name = all->csv.cells[r * all->csv.columns],
            .memory_bytes_per_s = rate(&all->csv, r, "memory_rate", DL_DIMENSION_BYTES_PER_S),
            .fp32_flop_per_s = rate(&all->csv, r, "fp32", DL_DIMENSION_FLOP_PER_S),
            .tf32_flop_per_s = rate(&all->csv, r, "tf32", DL_DIMENSION_FLOP_PER_S),
            .fp16_flop_per_s = rate(&all->csv, r, "fp16", DL_DIMENSION_FLOP_PER_S),
        };
    }
}

static const dl_gpu_model *find_gpu(const rates *all, const char *name)
{
    for (size_t r = 0; r < all->csv.rows; r++)
        if (strcmp(all->models[r].name, name) == 0) return &all->models[r];
    fprintf(stderr, "fit_workloads: no GPU is called %s\n", name);
    exit(2);
}

/* --- predictions ----------------------------------------------------------------------------- */

static dl_optimizer_kind optimizer_of(dl_model_class class)
{
    return class == DL_MODEL_TRANSFORMER ? DL_ADAM : DL_MOMENTUM;
}

static double predict(const row *r, const dl_architecture *architecture,
                      const dl_efficiency *efficiency)
{
    dl_roofline roofline = {0};
    dl_error error = {0};
    if (dl_roofline_of(r->model, r->arithmetic, efficiency, &roofline, &error)) {
        fail(&error);
    }
    const dl_optimizer_kind optimizer = optimizer_of(r->class);
    const double update_ns = dl_roofline_update_ns(
        &roofline, (double)dl_architecture_parameters(architecture), optimizer);
    double gpu_ns = update_ns / r->micro_batches;
    for (size_t l = 0; l < architecture->layer_count; l++) {
        const dl_pass_time forward = dl_roofline_pass(&roofline, &architecture->layers[l].forward);
        const dl_pass_time backward =
            dl_roofline_pass(&roofline, &architecture->layers[l].backward);
        gpu_ns += forward.fixed_ns + backward.fixed_ns +
                  r->batch * (forward.per_sample_ns + backward.per_sample_ns);
    }
    const bool halves = r->arithmetic == DL_FP16;
    const int kernels = dl_architecture_kernels(architecture, halves, false);
    const double host_ns = architecture->plain_kernels[halves] > 0
                               ? fmin(kernels * (double)DL_LAUNCH_FUSED_NS,
                                      architecture->plain_kernels[halves] * (double)DL_LAUNCH_NS)
                               : kernels * (double)DL_LAUNCH_NS;
    return r->batch * 1e9 / fmax(gpu_ns, host_ns);
}

static double predict_bytes(const row *r, const dl_architecture *architecture)
{
    DL_SCOPED(dl_costs) costs = {0};
    dl_error error = {0};
    if (dl_roofline_costs(&costs, architecture, r->model, r->arithmetic, optimizer_of(r->class),
                          false, &error)) {
        fail(&error);
    }
    return 2 * (double)costs.parameter_bytes + (double)costs.state_bytes +
           costs.gpu_memory.activation_bytes_per_sample.value * r->batch;
}

/* Taken from tables of kernels, not fitted to these rows. */
static bool is_by_kernels(const dl_efficiency *group)
{
    return group->rows == 0 && group->sustained > 1;
}

static void add_row(const rates *all, const char *program, const char *workload, const char *gpu,
                    const char *arithmetic, double batch, double micro_batches, double per_s,
                    bool fitted, double memory_bytes)
{
    dl_error error = {0};
    dl_architecture architecture = {0};
    if (dl_architecture_make(&architecture, workload, &error)) fail(&error);
    row *r = &rows[row_count++];
    *r = (row){.class = architecture.class,
               .batch = batch,
               .micro_batches = micro_batches,
               .measured_per_s = per_s,
               .memory_bytes = memory_bytes,
               .fitted = fitted && (architecture.sequence > 0 || batch >= BATCH_MIN)};
    if (row_count == ROWS_MAX) abort();
    snprintf(r->program, sizeof r->program, "%s", program);
    snprintf(r->workload, sizeof r->workload, "%s", workload);
    r->model = find_gpu(all, gpu);
    while (strcmp(dl_arithmetic_names[r->arithmetic], arithmetic) != 0)
        r->arithmetic++;
    if (memory_bytes > 0) r->predicted_bytes = predict_bytes(r, &architecture);
    const dl_efficiency *group = dl_efficiency_of(r->model, r->class, r->arithmetic);
    r->log_error = log(predict(r, &architecture, group) / per_s);
    if (is_by_kernels(group)) {
        r->fitted = false;
        dl_architecture_free(&architecture);
        return;
    }
    r->log_errors = dl_calloc((size_t)STEPS * STEPS, sizeof(float), "errors");
    for (int a = 0; a < STEPS; a++) {
        for (int m = 0; m < STEPS; m++) {
            dl_efficiency tried = *group;
            tried.arithmetic_frac = part_of(a);
            tried.memory_frac = part_of(m);
            r->log_errors[a * STEPS + m] = (float)log(predict(r, &architecture, &tried) / per_s);
        }
    }
    dl_architecture_free(&architecture);
}

static double number(const dl_csv *csv, size_t r, const char *column)
{
    double value = 0;
    dl_error error = {0};
    if (dl_csv_number(csv, r, (size_t)dl_csv_column(csv, column), &value, &error)) fail(&error);
    return value;
}

static const char *cell(const dl_csv *csv, size_t r, const char *column)
{
    return dl_csv_cell(csv, r, (size_t)dl_csv_column(csv, column));
}

static void read_workloads(const rates *all, const char *folder)
{
    DL_SCOPED(dl_csv) csv = {0};
    dl_error error = {0};
    DL_AUTOFREE char *path = dl_format("%s/workloads/measured.csv", folder);
    if (dl_csv_read(&csv, path, &error)) fail(&error);
    for (size_t r = 0; r < csv.rows; r++) {
        add_row(all, cell(&csv, r, "program"), cell(&csv, r, "workload"), cell(&csv, r, "gpu"),
                cell(&csv, r, "arithmetic"), number(&csv, r, "batch"),
                number(&csv, r, "micro_batches"), number(&csv, r, "samples_per_s"),
                strcmp(cell(&csv, r, "use"), "fitted") == 0,
                *cell(&csv, r, "memory_bytes") != '\0' ? number(&csv, r, "memory_bytes") : 0);
    }
}

/* Of the networks that we count: the names there are "VGG-16" and "VGG16" of vgg16. */
static void read_scaling(const rates *all, const char *folder)
{
    static const char *const known[] = {"vgg16",    "vgg19",     "resnet18", "resnet34",
                                        "resnet50", "resnet101", "resnet152"};
    DL_SCOPED(dl_csv) csv = {0};
    dl_error error = {0};
    DL_AUTOFREE char *path = dl_format("%s/scaling/measured.csv", folder);
    if (dl_csv_read(&csv, path, &error)) fail(&error);
    for (size_t r = 0; r < csv.rows; r++) {
        char plain[32] = "";
        size_t used = 0;
        for (const char *c = cell(&csv, r, "model"); *c != '\0' && used + 1 < sizeof plain; c++) {
            if (*c != '-') plain[used++] = (char)tolower((unsigned char)*c);
        }
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            if (strcmp(plain, known[k]) != 0 || number(&csv, r, "batch") < BATCH_MIN) continue;
            add_row(all, cell(&csv, r, "program"), plain, cell(&csv, r, "gpu"), "fp32",
                    number(&csv, r, "batch"), 1, number(&csv, r, "samples_per_s"), true, 0);
        }
    }
}

/* --- the fit --------------------------------------------------------------------------------- */

/* The efficiency on a GPU whose products have the arithmetic itself. */
static const dl_efficiency *group_on(const char *gpu, dl_model_class class,
                                     dl_arithmetic arithmetic)
{
    const dl_gpu_model model = {.name = (char *)gpu};
    return dl_efficiency_of(&model, class, arithmetic);
}

/* Rows that share an efficiency. */
static bool in_group(const row *r, const dl_efficiency *group)
{
    return dl_efficiency_of(r->model, r->class, r->arithmetic) == group;
}

/* Adds the squares of the group's fitted rows but those of one GPU. */
static void add_squares(const dl_efficiency *group, const char *without, double *sums)
{
    for (size_t i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        if (!r->fitted || !in_group(r, group)) continue;
        if (without != NULL && strcmp(r->model->name, without) == 0) continue;
        for (int k = 0; k < STEPS * STEPS; k++)
            sums[k] += (double)r->log_errors[k] * (double)r->log_errors[k];
    }
}

/* The other of a class's groups whose parts of the memory's rate are one: transformers in fp32 and
 * tf32, whose kernels between the products are the same; NULL: none. */
static const dl_efficiency *with_same_memory(const dl_efficiency *group)
{
    const dl_efficiency *fp32 = group_on("", DL_MODEL_TRANSFORMER, DL_FP32);
    const dl_efficiency *tf32 = group_on("", DL_MODEL_TRANSFORMER, DL_TF32);
    return group == fp32 ? tf32 : group == tf32 ? fp32 : NULL;
}

/* Index in the grid of the least sum of squares over the rows of the group, and of the one with
 * the same memory, but those of one GPU. */
static int best(const dl_efficiency *group, const char *without)
{
    static double sums[STEPS * STEPS], others[STEPS * STEPS];
    memset(sums, 0, sizeof sums);
    memset(others, 0, sizeof others);
    add_squares(group, without, sums);
    if (with_same_memory(group) != NULL) add_squares(with_same_memory(group), without, others);
    for (int m = 0; m < STEPS; m++) {
        double other = others[m];
        for (int a = 1; a < STEPS; a++)
            other = fmin(other, others[a * STEPS + m]);
        for (int a = 0; a < STEPS; a++)
            sums[a * STEPS + m] += other;
    }
    int least = 0;
    for (int k = 1; k < STEPS * STEPS; k++)
        if (sums[k] < sums[least]) least = k;
    return least;
}

static bool fit_group(const char *name, const dl_efficiency *group)
{
    double squares = 0, most = 0, sum = 0;
    int count = 0, fitted = 0, inside = 0;
    const bool fixed = is_by_kernels(group);
    const int at = fixed ? 0 : best(group, NULL);
    for (size_t i = 0; i < row_count; i++) {
        row *r = &rows[i];
        if (!in_group(r, group)) continue;
        const double fit = fixed ? r->log_error : (double)r->log_errors[at];
        const double left = r->fitted ? (double)r->log_errors[best(group, r->model->name)] : fit;
        r->fit_per_s = r->measured_per_s * exp(fit);
        r->left_out_per_s = r->measured_per_s * exp(left);
        squares += left * left;
        sum += fabs(exp(left) - 1);
        most = fmax(most, fabs(exp(left) - 1));
        fitted += r->fitted;
        inside += fabs(left) <= 2 * group->log_sd;
        count++;
    }
    const double a = fixed ? group->arithmetic_frac : part_of(at / STEPS);
    const double m = fixed ? group->memory_frac : part_of(at % STEPS), sd = sqrt(squares / count);
    printf(
        "%-16s %2d rows fitted, %2d not; arithmetic %.2f, memory %.2f of the data sheet's; error "
        "mean %.1f %%, largest %.1f %%, log sd %.2f\n",
        name, fitted, count - fitted, a, m, 100 * sum / count, 100 * most, sd);
    const bool fits = fixed ? inside >= 0.9 * count : fabs(group->log_sd - sd) < 0.006;
    const bool same = fits && fabs(group->arithmetic_frac - a) < 0.006 &&
                      fabs(group->memory_frac - m) < 0.006 && group->rows == fitted;
    if (!same) {
        printf("  roofline_rates.c has %.2f, %.2f, %.2f, %d\n", group->arithmetic_frac,
               group->memory_frac, group->log_sd, group->rows);
    }
    return same;
}

/* Rows not fitted are those of architectures on which others were fitted, or (`strange`) not. */
static void print_rows(bool fitted, bool strange)
{
    double sum = 0, most = 0;
    int count = 0, inside = 0;
    printf("\n%-9s %-40s %-14s %-5s %6s %9s %9s %7s\n", "program", "workload", "gpu", "", "batch",
           "measured", "predicted", "error %");
    for (size_t i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        const bool is_strange = dl_efficiency_assumed(r->model, r->class, r->arithmetic) != NULL;
        if (r->fitted != fitted || is_strange != strange) continue;
        const double error = r->left_out_per_s / r->measured_per_s - 1;
        printf("%-9s %-40s %-14s %-5s %6.0f %9.1f %9.1f %7.1f\n", r->program, r->workload,
               r->model->name, dl_arithmetic_names[r->arithmetic], r->batch, r->measured_per_s,
               r->left_out_per_s, 100 * error);
        sum += fabs(error);
        most = fmax(most, fabs(error));
        inside += fabs(log(1 + error)) <=
                  1.96 * dl_efficiency_of(r->model, r->class, r->arithmetic)->log_sd;
        count++;
    }
    printf("%s: %d rows, error mean %.1f %%, largest %.1f %%, %d in the 95 %% interval\n",
           fitted    ? "fitted, with the row's GPU left out"
           : strange ? "of architectures without fitted rows"
                     : "not fitted",
           count, 100 * sum / count, 100 * most, inside);
}

static void print_memory(void)
{
    double sum = 0, most = 0;
    int count = 0;
    printf("\n%-40s %-14s %-5s %6s %9s %9s %7s\n", "memory of tensors", "gpu", "", "batch", "GB",
           "predicted", "error %");
    for (size_t i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        if (r->memory_bytes <= 0) continue;
        const double error = r->predicted_bytes / r->memory_bytes - 1;
        printf("%-40s %-14s %-5s %6.0f %9.2f %9.2f %7.1f\n", r->workload, r->model->name,
               dl_arithmetic_names[r->arithmetic], r->batch, r->memory_bytes / 1e9,
               r->predicted_bytes / 1e9, 100 * error);
        sum += fabs(error);
        most = fmax(most, fabs(error));
        count++;
    }
    printf("%d rows, error mean %.1f %%, largest %.1f %%\n", count, 100 * sum / count, 100 * most);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: fit_workloads SCENARIOS\n");
        return 2;
    }
    rates all = {0};
    read_rates(&all, argv[1]);
    read_scaling(&all, argv[1]);
    read_workloads(&all, argv[1]);
    bool same = true;
    for (int c = 0; c < DL_MODEL_CLASSES; c++) {
        for (int a = 0; a <= DL_FP16; a++) {
            char name[64];
            snprintf(name, sizeof name, "%s %s",
                     c == DL_MODEL_CONVOLUTION ? "convolution" : "transformer",
                     dl_arithmetic_names[a]);
            same &= fit_group(name, group_on("", (dl_model_class)c, (dl_arithmetic)a));
        }
    }
    same &= fit_group("GeForce tf32", group_on("rtx3090", DL_MODEL_TRANSFORMER, DL_TF32));
    same &= fit_group("GeForce fp16", group_on("rtx3090", DL_MODEL_TRANSFORMER, DL_FP16));
    same &= fit_group("kernels of A100", group_on("a100", DL_MODEL_TRANSFORMER, DL_FP16));
    same &= fit_group("kernels of H200", group_on("h200", DL_MODEL_TRANSFORMER, DL_FP16));
    same &= fit_group("kernels of H100", group_on("h100", DL_MODEL_TRANSFORMER, DL_FP16));
    same &= fit_group("kernels of MI300X", group_on("mi300x", DL_MODEL_TRANSFORMER, DL_FP16));
    same &= fit_group("Volta", group_on("v100", DL_MODEL_CONVOLUTION, DL_FP32));
    same &= fit_group("kepler", group_on("k80", DL_MODEL_CONVOLUTION, DL_FP32));
    print_rows(true, false);
    print_rows(false, false);
    print_rows(false, true);
    print_memory();
    for (size_t i = 0; i < row_count; i++)
        free(rows[i].log_errors);
    free(all.models);
    dl_csv_free(&all.csv);
    return same ? 0 : 1;
}
