/* Speed of the layers on one core, compared with the peak of the matrix product in the same run,
 * and of each optimizer's update of the model's parameters:
 *
 *   bench_kernels [SECONDS [MODEL]]      time spent on each model, 5 by default, and a quarter
 *                                        of it on its updates; all models
 *
 * The first step of each is a warm-up. Medians over repetitions; rounds of peak and step alternate,
 * so that a slow period of the machine affects both. The core must be free: a long peak product
 * loses more to other programs than a short step, which makes the ratio too good. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/random.h"
#include "kernels/backend.h"
#include "kernels/model.h"
#include "kernels/optimizer.h"

enum { PEAK_SIZE = 1024, ROUNDS_MAX = 10000 };

typedef struct dl_bench_case {
    const char *name;
    int batch;
    int steps_a_peak; /* steps per peak product, so that both take a similar time */
} dl_bench_case;

static const dl_bench_case cases[] = {
    {"lenet", 128, 4}, {"mlp", 128, 4}, {"vgg19_bn", 16, 1}, {"resnet50", 16, 1}};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

/* Samples of one duration. */
typedef struct dl_series {
    double *ns;
    int count;
} dl_series;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void series_add(dl_series *series, double ns)
{
    if (!series->ns) series->ns = dl_calloc(ROUNDS_MAX, sizeof *series->ns, "durations");
    if (series->count < ROUNDS_MAX) series->ns[series->count++] = ns;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns a quantile by rank; sorts the series. */
static double series_quantile(dl_series *series, double q)
{
    qsort(series->ns, (size_t)series->count, sizeof *series->ns, compare);
    return series->ns[(int)(q * (series->count - 1))];
}

/* The peak: a product of two PEAK_SIZE x PEAK_SIZE matrices, large enough to reach it. */
typedef struct dl_peak {
    const dl_backend *backend;
    float *a, *b, *c;
    dl_series durations;
} dl_peak;

static void peak_init(dl_peak *peak)
{
    const size_t count = (size_t)PEAK_SIZE * PEAK_SIZE;
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    memset(peak, 0, sizeof *peak);
    peak->backend = dl_backend_cpu(DL_FLOAT);
    dl_error err = {0};
    DL_ASSERT(peak->backend->start(&err) == DL_OK, "%s", err.text);
    peak->a = peak->backend->allocate(count * sizeof(float), "peak");
    peak->b = peak->backend->allocate(count * sizeof(float), "peak");
    peak->c = peak->backend->allocate(count * sizeof(float), "peak");
    for (size_t i = 0; i < count; i++) {
        peak->a[i] = (float)dl_random_uniform(&random);
        peak->b[i] = (float)dl_random_uniform(&random);
    }
}

static void peak_run(dl_peak *peak)
{
    const double start_ns = now_ns();
    peak->backend->gemm(&(dl_gemm){
        .m = PEAK_SIZE, .n = PEAK_SIZE, .k = PEAK_SIZE, .a = peak->a, .b = peak->b, .c = peak->c});
    series_add(&peak->durations, now_ns() - start_ns);
}

static double peak_flop_per_s(dl_peak *peak, double quantile)
{
    const double flops = 2.0 * PEAK_SIZE * PEAK_SIZE * (double)PEAK_SIZE;
    return flops / series_quantile(&peak->durations, quantile) * 1e9;
}

static void peak_free(dl_peak *peak)
{
    peak->backend->release(peak->a);
    peak->backend->release(peak->b);
    peak->backend->release(peak->c);
    free(peak->durations.ns);
}

typedef struct dl_timing {
    int batch;
    dl_series step;
    dl_series *forward, *backward; /* [operations] */
} dl_timing;

static void fill_batch(dl_model *model, int batch)
{
    float *input = dl_model_input(model);
    int32_t *labels = dl_model_labels(model);
    const size_t count = (size_t)batch * dl_model_input_count(model);
    dl_random random;
    dl_random_init(&random, 2, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        input[i] = (float)dl_random_uniform(&random);
    for (int i = 0; i < batch; i++) {
        labels[i] = (int32_t)dl_random_below(&random, (uint64_t)dl_model_class_count(model));
    }
}

static void run_step(dl_model *model, dl_timing *timing)
{
    const int count = dl_model_operation_count(model);
    const double start_ns = now_ns();
    double last_ns = start_ns;
    for (int i = 0; i < 2 * count; i++) {
        const int operation = i < count ? i : 2 * count - 1 - i;
        dl_series *series = i < count ? &timing->forward[operation] : &timing->backward[operation];
        if (i < count) {
            dl_model_forward(model, operation, timing->batch);
        } else {
            dl_model_backward(model, operation, timing->batch);
        }
        const double end_ns = now_ns();
        series_add(series, end_ns - last_ns);
        last_ns = end_ns;
    }
    series_add(&timing->step, last_ns - start_ns);
}

static void print_operations(const dl_model *model, dl_timing *timing)
{
    printf("  %-18s %12s %12s %12s %12s\n", "layer", "forward_us", "backward_us", "us_a_sample",
           "GFLOP/s");
    for (int i = 0; i < dl_model_operation_count(model); i++) {
        const double forward_ns = series_quantile(&timing->forward[i], 0.5);
        const double backward_ns = series_quantile(&timing->backward[i], 0.5);
        const double both_ns = forward_ns + backward_ns;
        printf("  %-18s %12.1f %12.1f %12.2f", dl_model_operation_name(model, i), forward_ns / 1e3,
               backward_ns / 1e3, both_ns / 1e3 / timing->batch);
        const double flops = timing->batch * dl_model_operation_flops(model, i);
        if (flops > 0) printf(" %12.1f", flops / both_ns);
        printf("\n");
    }
}

/* Returns the speed of the convolutions alone, found by their names. */
static double convolution_flop_per_s(const dl_model *model, dl_timing *timing)
{
    double flops = 0, ns = 0;
    for (int i = 0; i < dl_model_operation_count(model); i++) {
        if (strstr(dl_model_operation_name(model, i), "conv") == NULL) continue;
        flops += timing->batch * dl_model_operation_flops(model, i);
        ns +=
            series_quantile(&timing->forward[i], 0.5) + series_quantile(&timing->backward[i], 0.5);
    }
    return ns > 0 ? flops / ns * 1e9 : 0;
}

static void print_model(const char *name, const dl_model *model, dl_timing *timing, dl_peak *peak)
{
    double flops = 0;
    for (int i = 0; i < dl_model_operation_count(model); i++) {
        flops += dl_model_operation_flops(model, i);
    }
    const double step_ns = series_quantile(&timing->step, 0.5);
    const double flop_per_s = timing->batch * flops / step_ns * 1e9;
    const double peak_per_s = peak_flop_per_s(peak, 0.5);
    printf("%s, batch %d, float, forward and backward, n = %d\n", name, timing->batch,
           timing->step.count);
    printf("  step %.3f ms (p10 %.3f, p90 %.3f), %.0f samples/s\n", step_ns / 1e6,
           series_quantile(&timing->step, 0.1) / 1e6, series_quantile(&timing->step, 0.9) / 1e6,
           timing->batch / step_ns * 1e9);
    printf("  %.3f MFLOP a sample, %.1f GFLOP/s; sgemm of %d: %.1f GFLOP/s (best %.1f)\n",
           flops / 1e6, flop_per_s / 1e9, PEAK_SIZE, peak_per_s / 1e9,
           peak_flop_per_s(peak, 0) / 1e9);
    const double convolutions_per_s = convolution_flop_per_s(model, timing);
    printf("  ratio to sgemm %.3f", flop_per_s / peak_per_s);
    if (convolutions_per_s > 0) {
        printf("; convolutions alone %.3f", convolutions_per_s / peak_per_s);
    }
    printf("\n");
    print_operations(model, timing);
}

/* Updates, and the number of vectors that each reads and writes. */
static const struct {
    const char *label;
    dl_optimizer_config config;
    int vectors;
} updates[] = {{"sgd", {"sgd", 1e-9, 0}, 3},
               {"sgd, momentum", {"sgd", 1e-9, 0.9}, 5},
               {"rmsprop", {"rmsprop", 1e-9, 0}, 5},
               {"adam", {"adam", 1e-9, 0}, 7}};
enum { UPDATE_COUNT = sizeof updates / sizeof updates[0] };

/* Called after the steps, so that the gradients are those of a step. */
static void bench_updates(dl_model *model, double seconds)
{
    const size_t count = dl_model_parameter_count(model);
    printf("  %-18s %12s %12s %12s %12s\n", "update", "median_us", "p10_us", "ps_a_number", "GB/s");
    for (int u = 0; u < UPDATE_COUNT; u++) {
        dl_optimizer *optimizer = NULL;
        dl_error err = {0};
        if (dl_optimizer_create(&optimizer, &updates[u].config, DL_FLOAT, count, &err) != DL_OK) {
            dl_error_print(&err, "bench_kernels", stderr);
            exit(1);
        }
        dl_series series = {0};
        const double end_ns = now_ns() + seconds / UPDATE_COUNT * 1e9;
        for (int round = 0; round < 4 || now_ns() < end_ns; round++) {
            const double start_ns = now_ns();
            dl_optimizer_begin(optimizer);
            dl_optimizer_apply(optimizer, dl_model_parameters(model), dl_model_gradients(model), 0,
                               count);
            if (round > 0) series_add(&series, now_ns() - start_ns);
        }
        const double median_ns = series_quantile(&series, 0.5);
        printf("  %-18s %12.1f %12.1f %12.1f %12.1f\n", updates[u].label, median_ns / 1e3,
               series_quantile(&series, 0.1) / 1e3, median_ns / (double)count * 1e3,
               updates[u].vectors * sizeof(float) * (double)count / median_ns);
        free(series.ns);
        dl_optimizer_destroy(optimizer);
    }
}

static void forget(dl_timing *timing, dl_peak *peak, int operations)
{
    peak->durations.count = 0;
    timing->step.count = 0;
    for (int i = 0; i < operations; i++) {
        timing->forward[i].count = 0;
        timing->backward[i].count = 0;
    }
}

static void timing_free(dl_timing *timing, int operations)
{
    for (int i = 0; i < operations; i++) {
        free(timing->forward[i].ns);
        free(timing->backward[i].ns);
    }
    free(timing->forward);
    free(timing->backward);
    free(timing->step.ns);
}

static void bench_model(const dl_bench_case *c, double seconds)
{
    dl_error err = {0};
    dl_model *model;
    if (dl_model_create(&model, c->name, DL_FLOAT, c->batch, 1, &err) != DL_OK) {
        dl_error_print(&err, "bench_kernels", stderr);
        exit(1);
    }
    const int operations = dl_model_operation_count(model);
    dl_timing timing = {.batch = c->batch,
                        .forward = dl_calloc((size_t)operations, sizeof *timing.forward, "timing"),
                        .backward =
                            dl_calloc((size_t)operations, sizeof *timing.backward, "timing")};
    DL_AUTO(peak_free) dl_peak peak;
    peak_init(&peak);
    fill_batch(model, c->batch);
    const double end_ns = now_ns() + seconds * 1e9;
    for (int round = 0; round < 3 || now_ns() < end_ns; round++) {
        if (round % c->steps_a_peak == 0) peak_run(&peak);
        run_step(model, &timing);
        if (round == 0) forget(&timing, &peak, operations);
    }
    if (peak.durations.count == 0) peak_run(&peak);
    print_model(c->name, model, &timing, &peak);
    bench_updates(model, seconds / 4);
    timing_free(&timing, operations);
    dl_model_destroy(model);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    int done = 0;
    const double seconds = argc > 1 ? strtod(argv[1], &end) : 5;
    const bool good = argc <= 3 && (!end || (!*end && end != argv[1])) && seconds > 0;
    for (int i = 0; good && i < CASE_COUNT; i++) {
        if (argc > 2 && strcmp(argv[2], cases[i].name) != 0) continue;
        bench_model(&cases[i], seconds);
        done++;
    }
    if (done > 0) return 0;
    fprintf(stderr, "usage: bench_kernels [SECONDS [MODEL]]\n");
    return 2;
}
