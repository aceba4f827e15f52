#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"
#include "kernels/pinned_threads.h"
#include "kernels/thread_team.h"
#include "profiler/bench/bench_internal.h"
#include "profiler/bench/bench_shapes_internal.h"
#include "profiler/progress.h"

#define ROUNDS_MIN 2
#define ROUNDS_MAX 200
#define NORMAL_NUMBERS ((size_t)1 << 18) /* random numbers, repeated to fill the operands */
#define GPU_LAUNCHES 4                   /* launches between two marks */

/* Numbers of a vector of each "move", on cores; 8 times as many on GPUs. The other kinds have all
 * but the last. */
static const size_t move_numbers[] = {(size_t)1 << 16, (size_t)1 << 18, (size_t)1 << 20,
                                      (size_t)1 << 22, (size_t)1 << 24};
enum { MOVES = DL_LENGTH(move_numbers), GPU_MOVE = 8 };

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

/* Sizes of moves: norms in rows of 1024 numbers, losses of 4096. */
enum { SIZES = 4, NORM_COLUMNS = 1024, LOSS_COLUMNS = 4096 };

/* Heads, tokens, numbers of a head. */
static const int spread_heads[][3] = {{16, 128, 64}, {32, 256, 32}, {16, 512, 64},
                                      {8, 512, 128}, {4, 1024, 64}, {64, 256, 64}};
enum { SPREAD_HEADS = DL_LENGTH(spread_heads), QUICK_HEADS = 2 };

#define LAUNCH_TOKENS 8 /* tokens of a layer that takes as long as its launches */
#define LAUNCH_RUNS 8   /* most runs of that layer; fewer if its kernels exceed a GPU's queue */
#define LAYER_MOST 1000 /* runs of a layer in a round */
#define QUICK_LAYERS 2

typedef struct shapes {
    const dl_bench_shapes_config *config;
    const dl_backend *backend;
    dl_trace_writer *writer;
    dl_trace_stream *stream;
    dl_kernel_case *cases;
    size_t count;
    dl_bench_layer *layer, *small; /* small: of few tokens; NULL: none */
    uint32_t layer_name, launch_name;
    size_t in[3], out[3], rows; /* largest numbers of each place of `memory` */
    dl_kernel_memory memory;
    void *normal; /* [NORMAL_NUMBERS] normal random numbers */
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

/* Returns the name of a kernel in records (trace/record.h). */
static void name_kernel(const dl_kernel *k, char name[DL_SHAPE_NAME_BYTES])
{
    const char *back = k->backward ? "_backward" : "";
    if (k->product.rows > 0) {
        (void)dl_shape_name(name, &k->product);
    } else if (k->heads > 0) {
        snprintf(name, DL_SHAPE_NAME_BYTES, "attention%s %dx%dx%d", back, k->heads, k->tokens,
                 k->size);
    } else {
        snprintf(name, DL_SHAPE_NAME_BYTES, "%s%s", dl_move_names[k->move], back);
    }
}

static void make_room(shapes *s, const dl_kernel *kernel)
{
    size_t in[3], out[3];
    dl_kernel_sizes(kernel, in, out);
    for (int i = 0; i < 3; i++) {
        s->in[i] = most(s->in[i], in[i]);
        s->out[i] = most(s->out[i], out[i]);
    }
    s->rows = most(s->rows, dl_kernel_rows(kernel));
}

static void add_case(shapes *s, dl_kernel kernel, uint32_t step_count)
{
    char name[DL_SHAPE_NAME_BYTES];
    if (!dl_kernel_exists(s->backend, &kernel)) return;
    name_kernel(&kernel, name);
    DL_APPEND(s->cases, s->count, "shapes") =
        (dl_kernel_case){.kernel = kernel,
                         .step_count = step_count,
                         .name = dl_trace_writer_intern(s->writer, name)};
    make_room(s, &kernel);
}

/* Adds the sizes from which dlcal fits the kinds of moves, in both passes, and attention. */
static void add_spread(shapes *s)
{
    const bool gpu = s->config->device != NULL, quick = s->config->quick;
    const size_t times = gpu ? GPU_MOVE : 1;
    for (int i = 0; i < MOVES - (quick ? 2 : 0); i++)
        add_case(
            s, (dl_kernel){.numbers = move_numbers[i] * times, .columns = move_numbers[i] * times},
            0);
    for (int kind = DL_MOVE_NORM; kind < DL_MOVES; kind++) {
        for (int i = 0; i < (quick ? SIZES / 2 : SIZES); i++) {
            dl_kernel kernel = {.move = (dl_move_kind)kind, .numbers = move_numbers[i] * times};
            kernel.columns = kind == DL_MOVE_NORM   ? NORM_COLUMNS
                             : kind == DL_MOVE_LOSS ? LOSS_COLUMNS
                                                    : kernel.numbers;
            add_case(s, kernel, 0);
            kernel.backward = true;
            if (kind != DL_MOVE_UPDATE) add_case(s, kernel, 0);
        }
    }
    for (int i = 0; i < (quick ? QUICK_HEADS : SPREAD_HEADS); i++) {
        dl_kernel kernel = {
            .heads = spread_heads[i][0], .tokens = spread_heads[i][1], .size = spread_heads[i][2]};
        add_case(s, kernel, 0);
        kernel.backward = true;
        add_case(s, kernel, 0);
    }
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

/* Adds the products of the network's step. */
static dl_status add_products(shapes *s, dl_error *err)
{
    DL_AUTOFREE dl_step_product *products = NULL;
    const size_t count = dl_architecture_products(s->config->network, s->config->batch, &products);
    dl_status status = DL_OK;
    for (size_t i = 0; status == DL_OK && i < count; i++) {
        const dl_step_product *of = &products[i];
        status = check(of, err);
        if (status != DL_OK) break;
        add_case(s, (dl_kernel){.product = {of->pass, of->rows, of->inputs, of->outputs}},
                 (uint32_t)of->count);
    }
    return status;
}

/* Makes the layer, and counts its kernels among the cases of the network. */
static void add_layer(shapes *s)
{
    const char *note = NULL;
    s->layer = dl_bench_layer_make(s->config->network, s->config->batch, s->backend, &note);
    if (note != NULL) dl_trace_writer_meta(s->writer, "layer_note", note);
    if (s->layer == NULL) return;
    if (s->config->device != NULL) s->small = dl_bench_layer_with(s->layer, LAUNCH_TOKENS);
    s->layer_name = dl_trace_writer_intern(s->writer, "layer");
    s->launch_name = dl_trace_writer_intern(s->writer, "launch");
    for (size_t k = 0; k < dl_bench_layer_count(s->layer); k++) {
        const dl_kernel *kernel = dl_bench_layer_kernel(s->layer, k);
        size_t c = 0;
        while (c < s->count &&
               (s->cases[c].step_count == 0 || !dl_kernel_equal(&s->cases[c].kernel, kernel)))
            c++;
        if (c == s->count) add_case(s, *kernel, 0);
        dl_kernel_case *of = &s->cases[c];
        of->layer_count++;
        if (of->step_count < of->layer_count) of->step_count = of->layer_count;
    }
}

static dl_status make_cases(shapes *s, dl_error *err)
{
    const bool gpu = s->config->device != NULL;
    for (int i = 0; i < DL_BENCH_SPREAD_SHAPES; i++) {
        const dl_step_product of = dl_bench_spread_shape(i, gpu, s->config->quick);
        for (dl_product_pass pass = DL_PRODUCT_FORWARD; pass <= DL_PRODUCT_WEIGHT; pass++)
            add_case(s, (dl_kernel){.product = {pass, of.rows, of.inputs, of.outputs}}, 0);
    }
    add_spread(s);
    const dl_status status = add_products(s, err);
    if (status == DL_OK) add_layer(s);
    return status;
}

static void *take(const shapes *s, size_t numbers)
{
    const size_t bytes = s->number_bytes;
    char *to = s->backend->allocate(numbers * bytes, "operands");
    for (size_t at = 0; to != NULL && at < numbers; at += NORMAL_NUMBERS) {
        const size_t left = numbers - at;
        s->backend->upload(to + at * bytes, s->normal,
                           (left < NORMAL_NUMBERS ? left : NORMAL_NUMBERS) * bytes);
    }
    return to;
}

/* Allocates the operands, filled with normal random numbers, results, and the layers' memory. */
static dl_status fill(shapes *s, dl_error *err)
{
    const dl_backend *backend = s->backend;
    dl_kernel_memory *m = &s->memory;
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    s->normal = dl_alloc_aligned(NORMAL_NUMBERS * s->number_bytes, "normal numbers");
    for (size_t i = 0; i < NORMAL_NUMBERS; i++) {
        const double number = dl_random_normal(&random);
        if (backend->precision == DL_FLOAT) {
            ((float *)s->normal)[i] = (float)number;
        } else {
            ((double *)s->normal)[i] = number;
        }
    }
    for (int i = 0; i < 3; i++) {
        m->in[i] = take(s, s->in[i]);
        m->out[i] = backend->allocate(s->out[i] * s->number_bytes, "results");
    }
    for (int i = 0; i < 2; i++)
        m->of_rows[i] = backend->allocate(s->rows * s->number_bytes, "results");
    m->losses = backend->allocate(s->rows * sizeof *m->losses, "losses");
    m->labels = backend->allocate(s->rows * sizeof *m->labels, "labels");
    m->correct = backend->allocate(s->rows * sizeof *m->correct, "labels");
    if (s->layer != NULL) dl_bench_layer_start(s->layer, s->normal, NORMAL_NUMBERS);
    if (s->small != NULL) dl_bench_layer_start(s->small, s->normal, NORMAL_NUMBERS);
    return backend->wait(err);
}

static void release(shapes *s)
{
    const dl_backend *backend = s->backend;
    const dl_kernel_memory *m = &s->memory;
    if (s->layer != NULL) dl_bench_layer_stop(s->layer);
    if (s->small != NULL) dl_bench_layer_stop(s->small);
    for (int i = 0; i < 3; i++) {
        backend->release((void *)(uintptr_t)m->in[i]);
        backend->release(m->out[i]);
    }
    backend->release(m->of_rows[0]);
    backend->release(m->of_rows[1]);
    backend->release(m->losses);
    backend->release(m->labels);
    backend->release(m->correct);
    free(s->normal);
}

/* Times the case's operation: on the device, enqueued while it is held, or on the cores. */
static dl_status time_case(const shapes *s, const dl_kernel_case *c, bool warm, double *each_ns,
                           int64_t *start_ns, dl_error *err)
{
    const dl_device_type *type = s->config->device;
    if (type == NULL) {
        *start_ns = dl_clock_ns();
        dl_kernel_launch(s->backend, &c->kernel, &s->memory);
        *each_ns = (double)(dl_clock_ns() - *start_ns);
        return DL_OK;
    }
    if (!warm) /* loads the kernel, which is impossible while the GPU is held */
        dl_kernel_launch(s->backend, &c->kernel, &s->memory);
    type->hold();
    type->mark(0);
    for (int i = 0; i < GPU_LAUNCHES; i++)
        dl_kernel_launch(s->backend, &c->kernel, &s->memory);
    type->mark(1);
    *start_ns = dl_clock_ns();
    type->let_go();
    const dl_status status = s->backend->wait(err);
    if (status == DL_OK) *each_ns = type->between_ns(0, 1) / GPU_LAUNCHES;
    return status;
}

static void append(const shapes *s, dl_record record, int round, int64_t start_ns, double each_ns)
{
    const bool gpu = s->slot != NULL;
    record.kind = DL_RECORD_BENCH;
    record.worker = gpu ? (uint32_t)s->config->number : 0;
    record.step = (uint32_t)round;
    record.threads = gpu ? 1 : (uint32_t)s->config->threads;
    record.staleness = DL_NO_STALENESS;
    record.start_ns = start_ns;
    record.duration_ns = (int64_t)(each_ns + 0.5);
    dl_trace_stream_append(s->stream, &record);
}

static void append_case(const shapes *s, const dl_kernel_case *c, int round, int64_t start_ns,
                        double each_ns)
{
    append(s,
           (dl_record){.name = c->name,
                       .samples = c->step_count,
                       .vectors = c->layer_count,
                       .bytes = (uint64_t)dl_kernel_traffic(&c->kernel) * s->number_bytes},
           round, start_ns, each_ns);
}

static bool stopped(const shapes *s)
{
    return s->config->stop != NULL && atomic_load_explicit(s->config->stop, memory_order_relaxed);
}

/* --- the layer ------------------------------------------------------------------------------- */

static dl_record layer_record(const shapes *s)
{
    return (dl_record){.name = s->layer_name, .samples = (uint32_t)s->config->batch};
}

static void loop_on_cores(const shapes *s, int round, int64_t end_ns)
{
    const int least = s->config->quick ? QUICK_LAYERS : 1;
    for (int i = 0; i < LAYER_MOST && !stopped(s); i++) {
        const int64_t start_ns = dl_clock_ns();
        if (i > least && start_ns >= end_ns) break;
        dl_bench_layer_run(s->layer, &s->memory);
        /* The first run of a round finds other data in the caches. */
        if (i > 0) append(s, layer_record(s), round, start_ns, (double)(dl_clock_ns() - start_ns));
    }
}

/* Launches about as many runs as fill the time, so that the host stays ahead of the device and the
 * device never idles. */
static dl_status loop_on_device(const shapes *s, int round, double sum_ns, double loop_ns,
                                dl_error *err)
{
    const dl_device_type *type = s->config->device;
    const double fills = loop_ns / sum_ns;
    const int runs = s->config->quick || !(fills > QUICK_LAYERS) ? QUICK_LAYERS
                     : fills < LAYER_MOST                        ? (int)fills
                                                                 : LAYER_MOST;
    if (round < 0) { /* loads the kernels */
        dl_bench_layer_run(s->layer, &s->memory);
        return s->backend->wait(err);
    }
    if (dl_bench_layer_count(s->layer) <= DL_DEVICE_HELD_MAX) type->hold();
    for (int i = 0; i <= runs; i++) {
        type->mark((size_t)i);
        if (i == 1) type->let_go();
        if (i < runs) dl_bench_layer_run(s->layer, &s->memory);
    }
    const int64_t start_ns = dl_clock_ns();
    const dl_status status = s->backend->wait(err);
    for (int i = 0; status == DL_OK && i < runs; i++)
        append(s, layer_record(s), round, start_ns, type->between_ns((size_t)i, (size_t)i + 1));
    return status;
}

/* Records the host's time to launch a layer of few tokens, while the device computes. */
static dl_status time_launches(const shapes *s, int round, dl_error *err)
{
    const size_t fit = DL_DEVICE_HELD_MAX / dl_bench_layer_count(s->small);
    const int runs = fit < 1 ? 1 : fit < LAUNCH_RUNS ? (int)fit : LAUNCH_RUNS;
    const int64_t start_ns = dl_clock_ns();
    for (int i = 0; i < runs; i++)
        dl_bench_layer_run(s->small, &s->memory);
    const double each_ns = (double)(dl_clock_ns() - start_ns) / runs;
    if (round >= 0)
        append(s,
               (dl_record){.name = s->launch_name,
                           .samples = (uint32_t)dl_bench_layer_count(s->small)},
               round, start_ns, each_ns);
    return s->backend->wait(err);
}

/* Runs the layer in a loop for as long as the cases of the round have taken. */
static dl_status run_layer(const shapes *s, int round, int64_t cases_ns, double sum_ns,
                           dl_error *err)
{
    if (s->layer == NULL) return DL_OK;
    if (s->config->device == NULL) {
        if (round >= 0) loop_on_cores(s, round, dl_clock_ns() + cases_ns);
        return DL_OK;
    }
    const dl_status status = loop_on_device(s, round, sum_ns, (double)cases_ns, err);
    return status == DL_OK ? time_launches(s, round, err) : status;
}

/* --- rounds ---------------------------------------------------------------------------------- */

/* Runs all cases in a new order, and the layer; round -1 is a warm-up. */
static dl_status run_round(const shapes *s, dl_bench_order *order, int round, dl_error *err)
{
    const uint32_t *next = dl_bench_order_next(order);
    const int64_t start_ns = dl_clock_ns();
    double sum_ns = 0; /* of the layer's kernels */
    for (size_t i = 0; i < s->count && !stopped(s); i++) {
        const dl_kernel_case *c = &s->cases[next[i]];
        double each_ns = 0;
        int64_t began_ns = 0;
        const dl_status status = time_case(s, c, round >= 0, &each_ns, &began_ns, err);
        if (status != DL_OK) return status;
        if (round >= 0) append_case(s, c, round, began_ns, each_ns);
        sum_ns += c->layer_count * each_ns;
    }
    return stopped(s) ? DL_OK : run_layer(s, round, dl_clock_ns() - start_ns, sum_ns, err);
}

static dl_status run_rounds(shapes *s, dl_error *err)
{
    const int last = s->config->quick ? ROUNDS_MIN : ROUNDS_MAX;
    const int64_t start_ns = dl_clock_ns(), budget_ns = (int64_t)dl_s_to_ns(s->config->seconds);
    dl_status status = fill(s, err);
    dl_bench_order order;
    dl_progress progress;
    dl_bench_order_init(&order, (uint32_t)s->count, 1, 0);
    dl_progress_init(&progress, "shapes");
    for (int round = -1; status == DL_OK && round < last && !stopped(s); round++) {
        const double done = (double)(dl_clock_ns() - start_ns) / (double)budget_ns;
        if (round >= ROUNDS_MIN && done >= 1) break;
        dl_progress_update(&progress, done < 1 ? done : 1);
        status = run_round(s, &order, round, err);
    }
    dl_progress_end(&progress);
    dl_bench_order_free(&order);
    release(s);
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
    DL_AUTOFREE int *cores = dl_calloc((size_t)threads, sizeof *cores, "cores");
    for (int t = 0; t < threads; t++)
        cores[t] = t;
    s->team = dl_thread_team_make(threads, DL_WAIT_SPIN);
    status = dl_pinned_threads_run(threads, cores, thread_run, s, err);
    if (status == DL_OK && s->status != DL_OK) {
        status = s->status;
        *err = s->error;
    }
    dl_thread_team_free(s->team);
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
                .writer = writer,
                .stream = dl_trace_writer_stream(writer)};
    s.number_bytes = dl_precision_bytes(s.backend->precision);
    dl_status status = make_cases(&s, err);
    if (status == DL_OK) status = type != NULL ? run_on_device(&s, err) : run_on_cores(&s, err);
    dl_bench_layer_free(s.layer);
    dl_bench_layer_free(s.small);
    free(s.cases);
    return status;
}
