#include "profiler/bench/bench_shapes.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"
#include "kernels/pinned_threads.h"
#include "kernels/thread_team.h"
#include "profiler/bench/bench_internal.h"
#include "profiler/progress.h"
#include "trace/shape.h"

#define ROUNDS_MIN 2
#define ROUNDS_MAX 200
#define NORMAL_NUMBERS ((size_t)1 << 18) /* random numbers, repeated to fill the operands */
#define GPU_LAUNCHES 4                   /* launches between two marks */

/* Numbers of a vector of each "move", on cores; 8 times as many on GPUs. */
static const size_t move_numbers[] = {(size_t)1 << 16, (size_t)1 << 18, (size_t)1 << 20,
                                      (size_t)1 << 22, (size_t)1 << 24};
enum { MOVES = sizeof move_numbers / sizeof *move_numbers, GPU_MOVE = 8 };

/* Rows, inputs, outputs on cores, evenly spaced in their logarithms; the last four shapes have one
 * small dimension. */
static const int spread[DL_BENCH_SPREAD_SHAPES][3] = {
    {2048, 1024, 1024}, {1024, 256, 1024}, {4096, 512, 384},  {512, 2048, 512}, {256, 1024, 3072},
    {768, 768, 256},    {1024, 64, 512},   {128, 1024, 1024}, {2048, 512, 96},  {32, 2048, 256},
};
enum { GPU_SHAPE = 4 };

dl_step_product dl_bench_spread_shape(int index, bool gpu, bool quick)
{
    const int64_t times = gpu && !quick ? GPU_SHAPE : 1, parts = quick ? GPU_SHAPE : 1;
    const int *of = spread[index];
    return (dl_step_product){.rows = of[0] * times / parts,
                             .inputs = of[1] * times / parts,
                             .outputs = of[2] * times / parts};
}

/* A product, or a move of vectors. */
typedef struct shape_case {
    dl_shape_product product;
    size_t numbers;      /* numbers of a moved vector; 0: a product */
    uint32_t step_count; /* occurrences in the network's step; 0: a spread shape, or a move */
    uint32_t name;
} shape_case;

typedef struct shapes {
    const dl_bench_shapes_config *config;
    const dl_backend *backend;
    dl_trace_stream *stream;
    shape_case *cases;
    size_t count;
    size_t numbers[3]; /* largest operands: rows x inputs, rows x outputs, inputs x outputs */
    void *operands[3], *result; /* [numbers]; the result: as large as the largest operand */
    size_t number_bytes;
    dl_device *slot; /* open device; NULL: the processor */
    dl_thread_team *team;
    dl_status status;
    dl_error error;
} shapes;

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void add_case(shapes *s, dl_trace_writer *writer, const shape_case *added)
{
    char name[DL_SHAPE_NAME_BYTES] = "move";
    const dl_shape_product *p = &added->product;
    shape_case *to = &DL_APPEND(s->cases, s->count, "shapes");
    *to = *added;
    if (added->numbers == 0) (void)dl_shape_name(name, p);
    to->name = dl_trace_writer_intern(writer, name);
    s->numbers[0] = most(s->numbers[0], most(added->numbers, (size_t)(p->rows * p->inputs)));
    s->numbers[1] = most(s->numbers[1], most(added->numbers, (size_t)(p->rows * p->outputs)));
    s->numbers[2] = most(s->numbers[2], (size_t)(p->inputs * p->outputs));
}

/* Checks that the product fits into the 32-bit sizes of the libraries. */
static dl_status check(const dl_step_product *product, dl_error *err)
{
    const int64_t rows = product->rows, inputs = product->inputs, outputs = product->outputs;
    const int64_t pairs[] = {rows * inputs, rows * outputs, inputs * outputs};
    for (int p = 0; p < 3; p++) {
        if (rows <= DL_SHAPE_MAX && inputs <= DL_SHAPE_MAX && outputs <= DL_SHAPE_MAX &&
            pairs[p] <= INT_MAX)
            continue;
        return dl_error_set(
            err, DL_ERR_RANGE,
            "a product of %lld x %lld x %lld is too large: take a smaller batch, or "
            "divide layers (tp=)",
            (long long)rows, (long long)inputs, (long long)outputs);
    }
    return DL_OK;
}

static dl_status make_cases(shapes *s, dl_trace_writer *writer, dl_error *err)
{
    const dl_bench_shapes_config *config = s->config;
    const bool gpu = config->device != NULL;
    for (int i = 0; i < DL_BENCH_SPREAD_SHAPES; i++) {
        const dl_step_product of = dl_bench_spread_shape(i, gpu, config->quick);
        for (dl_product_pass pass = DL_PRODUCT_FORWARD; pass <= DL_PRODUCT_WEIGHT; pass++)
            add_case(s, writer, &(shape_case){.product = {pass, of.rows, of.inputs, of.outputs}});
    }
    for (size_t i = 0; i < config->count; i++) {
        const dl_step_product *of = &config->products[i];
        const dl_status status = check(of, err);
        if (status != DL_OK) return status;
        add_case(s, writer,
                 &(shape_case){.product = {of->pass, of->rows, of->inputs, of->outputs},
                               .step_count = (uint32_t)of->count});
    }
    for (int i = 0; i < MOVES - (config->quick ? 2 : 0); i++)
        add_case(s, writer, &(shape_case){.numbers = move_numbers[i] * (gpu ? GPU_MOVE : 1)});
    return DL_OK;
}

/* Allocates the operands, filled with normal random numbers, and the result. */
static dl_status fill(shapes *s, dl_error *err)
{
    const size_t bytes = s->number_bytes;
    void *normal = dl_alloc_aligned(NORMAL_NUMBERS * bytes, "normal numbers");
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    for (size_t i = 0; i < NORMAL_NUMBERS; i++) {
        const double number = dl_random_normal(&random);
        if (s->backend->precision == DL_FLOAT) {
            ((float *)normal)[i] = (float)number;
        } else {
            ((double *)normal)[i] = number;
        }
    }
    for (int o = 0; o < 3; o++) {
        char *to = s->operands[o] = s->backend->allocate(s->numbers[o] * bytes, "operands");
        for (size_t at = 0; to != NULL && at < s->numbers[o]; at += NORMAL_NUMBERS) {
            const size_t left = s->numbers[o] - at;
            s->backend->upload(to + at * bytes, normal,
                               (left < NORMAL_NUMBERS ? left : NORMAL_NUMBERS) * bytes);
        }
    }
    s->result = s->backend->allocate(
        most(s->numbers[0], most(s->numbers[1], s->numbers[2])) * bytes, "results");
    const dl_status status = s->backend->wait(err);
    free(normal);
    return status;
}

/* Launches the operation of a case. */
static void launch(const shapes *s, const shape_case *c)
{
    const dl_shape_product *p = &c->product;
    const int rows = (int)p->rows, inputs = (int)p->inputs, outputs = (int)p->outputs;
    const void *x = s->operands[0], *y = s->operands[1], *weights = s->operands[2];
    void *result = s->result;
    if (c->numbers > 0) {
        s->backend->add(result, y, c->numbers);
    } else if (p->pass == DL_PRODUCT_FORWARD) {
        s->backend->gemm(&(dl_gemm){.transpose_b = true,
                                    .m = rows,
                                    .n = outputs,
                                    .k = inputs,
                                    .a = x,
                                    .b = weights,
                                    .c = result});
    } else if (p->pass == DL_PRODUCT_DATA) {
        s->backend->gemm(
            &(dl_gemm){.m = rows, .n = inputs, .k = outputs, .a = y, .b = weights, .c = result});
    } else {
        s->backend->gemm(&(dl_gemm){.transpose_a = true,
                                    .m = outputs,
                                    .n = inputs,
                                    .k = rows,
                                    .a = y,
                                    .b = x,
                                    .c = result});
    }
}

/* Times the case's operation: on the device, enqueued while it is held, or on the cores. */
static dl_status time_case(const shapes *s, const shape_case *c, bool warm, double *each_ns,
                           int64_t *start_ns, dl_error *err)
{
    const dl_device_type *type = s->config->device;
    if (type == NULL) {
        *start_ns = dl_clock_ns();
        launch(s, c);
        *each_ns = (double)(dl_clock_ns() - *start_ns);
        return DL_OK;
    }
    if (!warm) launch(s, c); /* loads the kernel, which is impossible while the GPU is held */
    type->hold();
    type->mark(0);
    for (int i = 0; i < GPU_LAUNCHES; i++)
        launch(s, c);
    type->mark(1);
    *start_ns = dl_clock_ns();
    type->let_go();
    const dl_status status = s->backend->wait(err);
    if (status == DL_OK) *each_ns = type->between_ns(0, 1) / GPU_LAUNCHES;
    return status;
}

static void append(const shapes *s, const shape_case *c, int round, int64_t start_ns,
                   double each_ns)
{
    const dl_shape_product *p = &c->product;
    const double numbers =
        c->numbers > 0 ? 3 * (double)c->numbers : dl_shape_weights(p) + dl_shape_others(p);
    const bool gpu = s->slot != NULL;
    dl_trace_stream_append(s->stream,
                           &(dl_record){.kind = DL_RECORD_BENCH,
                                        .name = c->name,
                                        .worker = gpu ? (uint32_t)s->config->number : 0,
                                        .step = (uint32_t)round,
                                        .samples = c->step_count,
                                        .threads = gpu ? 1 : (uint32_t)s->config->threads,
                                        .bytes = (uint64_t)numbers * s->number_bytes,
                                        .staleness = DL_NO_STALENESS,
                                        .start_ns = start_ns,
                                        .duration_ns = (int64_t)(each_ns + 0.5)});
}

static bool stopped(const shapes *s)
{
    return s->config->stop != NULL && atomic_load_explicit(s->config->stop, memory_order_relaxed);
}

/* Runs rounds of all cases; the first one is a warm-up. */
static dl_status run_rounds(shapes *s, dl_error *err)
{
    const int last = s->config->quick ? ROUNDS_MIN : ROUNDS_MAX;
    const int64_t start_ns = dl_clock_ns(), budget_ns = (int64_t)dl_s_to_ns(s->config->seconds);
    dl_status status = fill(s, err);
    dl_bench_order order;
    dl_progress progress;
    dl_bench_order_init(&order, (uint32_t)s->count, 1, 0);
    dl_progress_init(&progress, "shapes");
    for (int round = 0; status == DL_OK && round <= last && !stopped(s); round++) {
        const double done = (double)(dl_clock_ns() - start_ns) / (double)budget_ns;
        if (round > ROUNDS_MIN && done >= 1) break;
        const uint32_t *next = dl_bench_order_next(&order);
        for (size_t i = 0; status == DL_OK && i < s->count && !stopped(s); i++) {
            const shape_case *c = &s->cases[next[i]];
            double each_ns = 0;
            int64_t began_ns = 0;
            dl_progress_update(&progress, done < 1 ? done : 1);
            status = time_case(s, c, round > 0, &each_ns, &began_ns, err);
            if (status == DL_OK && round > 0) append(s, c, round - 1, began_ns, each_ns);
        }
    }
    dl_progress_end(&progress);
    dl_bench_order_free(&order);
    for (int o = 0; o < 3; o++)
        s->backend->release(s->operands[o]);
    s->backend->release(s->result);
    return status;
}

/* Thread 0 leads, the others compute parts of its operations. */
static void thread_run(void *user, int index)
{
    shapes *s = user;
    if (index > 0) {
        dl_thread_team_serve(s->team);
        return;
    }
    dl_thread_team_lead(s->team);
    s->status = run_rounds(s, &s->error);
    dl_thread_team_dismiss(s->team);
}

static dl_status run_on_cores(shapes *s, dl_error *err)
{
    const int threads = s->config->threads;
    dl_status status = s->backend->start(err);
    if (status == DL_OK) status = s->backend->start_threads(threads, err);
    if (status != DL_OK) return status;
    int *cores = dl_calloc((size_t)threads, sizeof *cores, "cores");
    for (int t = 0; t < threads; t++)
        cores[t] = t;
    s->team = dl_thread_team_make(threads, DL_WAIT_SPIN);
    status = dl_pinned_threads_run(threads, cores, thread_run, s, err);
    if (status == DL_OK && s->status != DL_OK) {
        status = s->status;
        *err = s->error;
    }
    dl_thread_team_free(s->team);
    free(cores);
    return status;
}

static dl_status run_on_device(shapes *s, dl_error *err)
{
    const dl_device_type *type = s->config->device;
    dl_status status = type->open(&s->slot, s->config->number, &s->config->settings, err);
    if (status != DL_OK) return status;
    type->use(s->slot);
    status = s->backend->start(err);
    if (status == DL_OK) status = run_rounds(s, err);
    type->close(s->slot);
    return status;
}

dl_status dl_bench_shapes(dl_trace_writer *writer, const dl_bench_shapes_config *config,
                          dl_error *err)
{
    const dl_device_type *type = config->device;
    shapes s = {.config = config,
                .backend = type != NULL ? type->backend : dl_backend_cpu(DL_FLOAT),
                .stream = dl_trace_writer_stream(writer)};
    s.number_bytes = dl_precision_bytes(s.backend->precision);
    dl_status status = make_cases(&s, writer, err);
    if (status == DL_OK) status = type != NULL ? run_on_device(&s, err) : run_on_cores(&s, err);
    free(s.cases);
    return status;
}
