#include "profiler/bench/bench_gpu.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/quantise.h"
#include "profiler/bench/bench_internal.h"
#include "trace/record.h"

#define DL_BENCH_GPU_BYTES_MAX ((size_t)512 << 20)
#define DL_BENCH_GPU_QUICK_BYTES ((size_t)1 << 20)

/* Largest vector; halved until DL_BENCH_GPU_VECTORS + 3 vectors take at most 1 / MEMORY_PART of the
 * GPU's memory. */
#define DL_BENCH_GPU_VECTOR_BYTES ((size_t)256 << 20)
#define DL_BENCH_GPU_VECTORS 8

/* Names of the records; `worker` is the GPU, duration_ns the time of one operation.
 *
 *   name            bytes     threads          vectors  operation
 *   h2d, d2h        one copy  concurrent GPUs  -        to and from the GPU, pinned memory
 *   h2d_pageable, d2h_pageable                          the same with pageable memory
 *   h2d_with_d2h    one copy  1                -        to a GPU, while it sends twice the bytes
 *   p2p             one copy  1                source   from GPU `source` to GPU `worker`
 *   all_reduce      one GPU's members          -        mean of all GPUs' vectors
 *   launch          -         1                -        host: launch of an empty operation */
static const char *const names[] = {
    [DL_BENCH_GPU_H2D] = "h2d",
    [DL_BENCH_GPU_D2H] = "d2h",
    [DL_BENCH_GPU_H2D_PAGEABLE] = "h2d_pageable",
    [DL_BENCH_GPU_D2H_PAGEABLE] = "d2h_pageable",
    [DL_BENCH_GPU_H2D_WITH_D2H] = "h2d_with_d2h",
    [DL_BENCH_GPU_P2P] = "p2p",
    [DL_BENCH_GPU_ALL_REDUCE] = "all_reduce",
    [DL_BENCH_GPU_LAUNCH] = "launch",
    [DL_BENCH_GPU_NAME_COUNT] = NULL,
};

static void add(dl_bench_gpu_cases *cases, dl_bench_gpu_case added)
{
    DL_APPEND(cases->items, cases->count, "cases") = added;
}

/* Adds a case for each of 1, 2, 4, ... and all GPUs concurrently. */
static void add_at_once(dl_bench_gpu_cases *cases, dl_bench_gpu_name copy, size_t bytes, int gpus)
{
    for (int n = 1; n <= gpus; n = n < gpus && 2 * n > gpus ? gpus : 2 * n)
        add(cases, (dl_bench_gpu_case){.name = copy, .bytes = bytes, .at_once = n});
}

static void add_pairs(dl_bench_gpu_cases *cases, size_t bytes, int gpus)
{
    for (int to = 0; to < gpus; to++) {
        for (int from = 0; from < gpus; from++) {
            if (from == to) continue;
            add(cases, (dl_bench_gpu_case){.name = DL_BENCH_GPU_P2P,
                                           .bytes = bytes,
                                           .gpu = to,
                                           .at_once = 1,
                                           .source = from});
        }
    }
}

void dl_bench_gpu_cases_init(dl_bench_gpu_cases *cases, int gpus, size_t bytes_max)
{
    *cases = (dl_bench_gpu_cases){0};
    for (size_t bytes = DL_BENCH_GPU_BYTES_MIN; bytes <= bytes_max; bytes *= 2) {
        for (dl_bench_gpu_name copy = DL_BENCH_GPU_H2D; copy <= DL_BENCH_GPU_D2H_PAGEABLE; copy++)
            add_at_once(cases, copy, bytes, gpus);
        add(cases,
            (dl_bench_gpu_case){.name = DL_BENCH_GPU_H2D_WITH_D2H, .bytes = bytes, .at_once = 1});
        add_pairs(cases, bytes, gpus);
        if (gpus > 1) {
            add(cases, (dl_bench_gpu_case){
                           .name = DL_BENCH_GPU_ALL_REDUCE, .bytes = bytes, .at_once = gpus});
        }
    }
    for (int g = 0; g < gpus; g++)
        add(cases, (dl_bench_gpu_case){.name = DL_BENCH_GPU_LAUNCH, .gpu = g, .at_once = 1});
}

void dl_bench_gpu_cases_free(dl_bench_gpu_cases *cases)
{
    free(cases->items);
}

/* Operations between two marks: enough that the 0.5 us of a mark are negligible, and few enough to
 * be enqueued while the GPU is held. */
#define COPIES 16
#define LAUNCHES 200

/* Maximum bytes copied between two marks, unless a single copy is larger. */
#define BATCH_BYTES ((size_t)64 << 20)

#define ROUNDS_MIN 2
#define ROUNDS_MAX 200

/* A stream of one GPU with its buffers: on the GPU, page-locked and pageable. */
typedef struct slot {
    dl_device *device;
    void *memory, *pinned, *pageable;
} slot;

typedef struct bench {
    const dl_bench_gpu_config *config;
    const dl_device_type *type;
    slot *slots; /* [count + 1]: one per GPU, then one on the first GPU for the other direction */
    size_t bytes_max;
    dl_bench_gpu_cases cases;
    dl_trace_stream *stream;
    uint32_t ids[DL_BENCH_GPU_NAME_COUNT];
    bool warm; /* the warm-up round is over: samples are recorded */
} bench;

static dl_status open_slot(bench *b, int gpu, slot *made, dl_error *err)
{
    const dl_backend *backend = b->type->backend;
    const dl_device_settings settings = {.pageable = false};
    dl_status status = b->type->open(&made->device, b->config->first + gpu, &settings, err);
    if (status != DL_OK) return status;
    b->type->use(made->device);
    made->memory = backend->allocate(b->bytes_max, "copies");
    made->pinned = backend->allocate_host(b->bytes_max, "copies");
    made->pageable = dl_alloc_aligned(b->bytes_max, "copies");
    b->type->hold(); /* the first one allocates memory, which waits for GPUs that are held */
    b->type->let_go();
    return backend->wait(err);
}

static dl_status open_slots(bench *b, dl_error *err)
{
    const int count = b->config->count;
    dl_status status = DL_OK;
    b->slots = dl_calloc((size_t)count + 1, sizeof *b->slots, "slots");
    for (int p = 0; status == DL_OK && p <= count; p++)
        status = open_slot(b, p % count, &b->slots[p], err);
    if (status != DL_OK || count == 1) return status;
    DL_AUTOFREE dl_device **members = dl_calloc((size_t)count, sizeof *members, "members");
    for (int g = 0; g < count; g++)
        members[g] = b->slots[g].device;
    return b->type->join(members, count, NULL, err);
}

static void close_slots(bench *b)
{
    const dl_backend *backend = b->type->backend;
    for (int p = 0; b->slots != NULL && p <= b->config->count; p++) {
        slot *closed = &b->slots[p];
        if (closed->device == NULL) continue;
        b->type->use(closed->device);
        backend->release(closed->memory);
        backend->release_host(closed->pinned);
        free(closed->pageable);
        b->type->close(closed->device);
    }
    free(b->slots);
}

/* Appends a sample of duration each_ns. */
static void append(dl_trace_stream *stream, dl_record record, double each_ns)
{
    record.kind = DL_RECORD_BENCH;
    record.staleness = DL_NO_STALENESS;
    record.duration_ns = each_ns > 0 ? (int64_t)(each_ns + 0.5) : 0;
    dl_trace_stream_append(stream, &record);
}

static void add_sample(bench *b, const dl_bench_gpu_case *c, dl_bench_gpu_name of, int gpu,
                       int64_t start_ns, double each_ns)
{
    if (!b->warm) return;
    append(b->stream,
           (dl_record){.name = b->ids[of],
                       .worker = (uint32_t)(b->config->first + gpu),
                       .threads = (uint32_t)c->at_once,
                       .vectors =
                           of == DL_BENCH_GPU_P2P ? (uint32_t)(b->config->first + c->source) : 0,
                       .bytes = c->bytes,
                       .start_ns = start_ns},
           each_ns);
}

/* Number of operations of this size between two marks. */
static int batch_of(size_t bytes)
{
    const size_t fit = BATCH_BYTES / bytes;
    return fit < 1 ? 1 : fit < COPIES ? (int)fit : COPIES;
}

static void launch_one(bench *b, const dl_bench_gpu_case *c, const slot *at)
{
    const dl_backend *backend = b->type->backend;
    switch (c->name) {
    case DL_BENCH_GPU_D2H: backend->download(at->pinned, at->memory, c->bytes); break;
    case DL_BENCH_GPU_P2P:
        b->type->copy(at->device, at->memory, b->slots[c->source].device,
                      b->slots[c->source].memory, c->bytes);
        break;
    default: backend->upload(at->memory, at->pinned, c->bytes); break;
    }
}

/* Times copies on all GPUs of the case; the GPUs are held until all copies are enqueued, unless
 * the host has to pass them on. */
static dl_status time_copies(bench *b, const dl_bench_gpu_case *c, dl_error *err)
{
    const dl_backend *backend = b->type->backend;
    const int batch = batch_of(c->bytes);
    const slot *other = &b->slots[b->config->count];
    const bool both = c->name == DL_BENCH_GPU_H2D_WITH_D2H;
    dl_status status = DL_OK;
    for (int g = c->gpu; g < c->gpu + c->at_once; g++) {
        b->type->use(b->slots[g].device);
        if (c->name != DL_BENCH_GPU_P2P || b->type->reach(b->slots[c->source].device))
            b->type->hold();
        b->type->mark(0);
        for (int i = 0; i < batch; i++)
            launch_one(b, c, &b->slots[g]);
        b->type->mark(1);
    }
    if (both) {
        b->type->use(other->device);
        b->type->hold();
        for (int i = 0; i < 2 * batch; i++)
            backend->download(other->pinned, other->memory, c->bytes);
        b->type->let_go();
    }
    const int64_t start_ns = dl_clock_ns();
    for (int g = c->gpu; g < c->gpu + c->at_once; g++) {
        b->type->use(b->slots[g].device);
        b->type->let_go();
    }
    for (int g = c->gpu; g < c->gpu + c->at_once; g++) {
        b->type->use(b->slots[g].device);
        const dl_status waited = backend->wait(status == DL_OK ? err : NULL);
        if (status == DL_OK) status = waited;
        if (status == DL_OK) {
            add_sample(b, c, c->name, g, start_ns, b->type->between_ns(0, 1) / batch);
        }
    }
    if (!both) return status;
    b->type->use(other->device);
    const dl_status waited = backend->wait(status == DL_OK ? err : NULL);
    return status == DL_OK ? waited : status;
}

/* A pageable copy returns when the host's part is done; one thread serves all GPUs in turn. */
static dl_status time_pageable(bench *b, const dl_bench_gpu_case *c, dl_error *err)
{
    const dl_backend *backend = b->type->backend;
    const int batch = batch_of(c->bytes);
    dl_status status = DL_OK;
    const int64_t start_ns = dl_clock_ns();
    for (int i = 0; i < batch; i++) {
        for (int g = 0; g < c->at_once; g++) {
            const slot *at = &b->slots[g];
            b->type->use(at->device);
            if (c->name == DL_BENCH_GPU_H2D_PAGEABLE) {
                backend->upload(at->memory, at->pageable, c->bytes);
            } else {
                backend->download(at->pageable, at->memory, c->bytes);
            }
        }
    }
    for (int g = 0; status == DL_OK && g < c->at_once; g++) {
        b->type->use(b->slots[g].device);
        status = backend->wait(err);
    }
    const double each_ns = (double)(dl_clock_ns() - start_ns) / batch;
    if (status == DL_OK) add_sample(b, c, c->name, 0, start_ns, each_ns);
    return status;
}

/* No GPU is held: an all-reduce synchronises the GPUs, and the first one is not timed. */
static dl_status time_all_reduce(bench *b, const dl_bench_gpu_case *c, dl_error *err)
{
    const int batch = batch_of(c->bytes);
    const size_t number_bytes = dl_precision_bytes(b->type->backend->precision);
    dl_status status = DL_OK;
    const int64_t start_ns = dl_clock_ns();
    for (int i = 0; i <= batch; i++) {
        b->type->use(b->slots[0].device);
        b->type->group(true);
        for (int g = 0; g < c->at_once; g++) {
            b->type->use(b->slots[g].device);
            b->type->all_reduce(b->slots[g].memory, c->bytes / number_bytes);
        }
        b->type->group(false);
        for (int g = 0; g < c->at_once; g++) {
            b->type->use(b->slots[g].device);
            if (i == 0) b->type->mark(0);
            if (i == batch) b->type->mark(1);
        }
    }
    for (int g = 0; g < c->at_once; g++) { /* all: a wait ends what waits for a failed GPU */
        b->type->use(b->slots[g].device);
        const dl_status waited = b->type->backend->wait(status == DL_OK ? err : NULL);
        if (status == DL_OK) status = waited;
        if (status == DL_OK) {
            add_sample(b, c, DL_BENCH_GPU_ALL_REDUCE, g, start_ns,
                       b->type->between_ns(0, 1) / batch);
        }
    }
    return status;
}

static dl_status time_launches(bench *b, const dl_bench_gpu_case *c, dl_error *err)
{
    b->type->use(b->slots[c->gpu].device);
    b->type->launch(); /* loads the kernel, which is impossible while the GPU is held */
    b->type->hold();
    const int64_t start_ns = dl_clock_ns();
    for (int i = 0; i < LAUNCHES; i++)
        b->type->launch();
    const double launched_ns = (double)(dl_clock_ns() - start_ns);
    b->type->let_go();
    const dl_status status = b->type->backend->wait(err);
    if (status != DL_OK) return status;
    add_sample(b, c, DL_BENCH_GPU_LAUNCH, c->gpu, start_ns, launched_ns / LAUNCHES);
    return DL_OK;
}

static dl_status time_case(void *user, uint32_t which, bool warm, dl_error *err)
{
    bench *b = user;
    const dl_bench_gpu_case *c = &b->cases.items[which];
    b->warm = warm;
    switch (c->name) {
    case DL_BENCH_GPU_H2D_PAGEABLE:
    case DL_BENCH_GPU_D2H_PAGEABLE: return time_pageable(b, c, err);
    case DL_BENCH_GPU_ALL_REDUCE: return time_all_reduce(b, c, err);
    case DL_BENCH_GPU_LAUNCH: return time_launches(b, c, err);
    default: return time_copies(b, c, err);
    }
}

static bool stopped(const dl_bench_gpu_config *config)
{
    return config->stop != NULL && atomic_load_explicit(config->stop, memory_order_relaxed);
}

/* Rounds of all cases, each in a new order, for `seconds`. */
typedef struct rounds {
    const dl_bench_gpu_config *config;
    double seconds;
    uint32_t count, stream; /* cases; stream of random numbers */
    int most;
    dl_status (*time)(void *bench, uint32_t which, bool warm, dl_error *err); /* times one case */
    void *bench;
} rounds;

/* The first round is a warm-up. */
static dl_status run_rounds(const rounds *r, dl_error *err)
{
    const int64_t start_ns = dl_clock_ns(), budget_ns = (int64_t)dl_s_to_ns(r->seconds);
    dl_status status = DL_OK;
    DL_SCOPED(dl_bench_order) order;
    dl_progress progress;
    dl_bench_order_init(&order, r->count, 1, r->stream);
    dl_progress_init(&progress, "bench of GPUs");
    for (int round = 0; status == DL_OK && !stopped(r->config) && round <= r->most; round++) {
        const double done = (double)(dl_clock_ns() - start_ns) / (double)budget_ns;
        if (round > ROUNDS_MIN && done >= 1) break;
        const uint32_t *next = dl_bench_order_next(&order);
        for (uint32_t i = 0; status == DL_OK && i < r->count; i++) {
            if (stopped(r->config)) break;
            dl_progress_update(&progress, done < 1 ? done : 1);
            status = r->time(r->bench, next[i], round > 0, err);
        }
    }
    dl_progress_end(&progress);
    return status;
}

/* Largest copy: at most an eighth of the smallest GPU's memory, as the first GPU has two slots. */
static dl_status find_bytes_max(bench *b, dl_error *err)
{
    b->bytes_max = b->config->quick ? DL_BENCH_GPU_QUICK_BYTES : DL_BENCH_GPU_BYTES_MAX;
    for (int g = 0; g < b->config->count; g++) {
        dl_device_info info;
        const dl_status status = b->type->describe(b->config->first + g, &info, err);
        if (status != DL_OK) return status;
        while (b->bytes_max > info.memory_bytes / 8 && b->bytes_max > DL_BENCH_GPU_BYTES_MIN)
            b->bytes_max /= 2;
    }
    return DL_OK;
}

dl_status dl_bench_gpu(dl_trace_writer *writer, const dl_bench_gpu_config *config, dl_error *err)
{
    bench b = {.config = config, .type = config->type, .stream = dl_trace_writer_stream(writer)};
    for (int i = 0; i < DL_BENCH_GPU_NAME_COUNT; i++)
        b.ids[i] = dl_trace_writer_intern(writer, names[i]);
    dl_status status = find_bytes_max(&b, err);
    if (status == DL_OK) status = open_slots(&b, err);
    if (status == DL_OK) {
        dl_bench_gpu_cases_init(&b.cases, config->count, b.bytes_max);
        status = run_rounds(&(rounds){.config = config,
                                      .seconds = config->seconds,
                                      .count = (uint32_t)b.cases.count,
                                      .most = ROUNDS_MAX,
                                      .time = time_case,
                                      .bench = &b},
                            err);
    }
    close_slots(&b);
    dl_bench_gpu_cases_free(&b.cases);
    return status;
}

#define MEMORY_OPERATIONS 8 /* operations between two marks */
#define MEMORY_ROUNDS_MAX 100
#define MEMORY_SIZES 3 /* the largest vector, and two that are smaller by factors of SIZE_STEP */
#define SIZE_STEP 8
#define MEMORY_PART 16
#define MEMORY_CASES_MAX (MEMORY_SIZES * (MEMORY_NAME_COUNT + 2))

typedef enum memory_name {
    COPY,
    AVERAGE,
    FP16_ENCODE,
    FP16_DECODE,
    BIT_ENCODE,
    BIT_DECODE,
    MEMORY_NAME_COUNT
} memory_name;

static const char *const memory_names[MEMORY_NAME_COUNT] = {
    [COPY] = "gpu_copy",
    [AVERAGE] = "gpu_average",
    [FP16_ENCODE] = "gpu_fp16_encode",
    [FP16_DECODE] = "gpu_fp16_decode",
    [BIT_ENCODE] = "gpu_1bit_encode",
    [BIT_DECODE] = "gpu_1bit_decode",
};

typedef struct memory_case {
    memory_name name;
    int size, vectors;
} memory_case;

typedef struct memory_bench {
    const dl_bench_gpu_config *config;
    const dl_device_type *type;
    dl_trace_stream *stream;
    uint32_t ids[MEMORY_NAME_COUNT];
    int gpu;
    size_t bytes[MEMORY_SIZES]; /* bytes of one vector, by size */
    dl_device *device;
    void *vectors[DL_BENCH_GPU_VECTORS], *result, *message;
    dl_quantise_plan plans[MEMORY_SIZES][DL_QUANTISE_COUNT];
    void *blocks[MEMORY_SIZES];
    memory_case cases[MEMORY_CASES_MAX];
    uint32_t case_count;
} memory_bench;

static void make_cases(memory_bench *b)
{
    b->case_count = 0;
    for (int size = 0; size < MEMORY_SIZES; size++) {
        for (memory_name of = COPY; of < MEMORY_NAME_COUNT; of++) {
            const int most = of == AVERAGE ? DL_BENCH_GPU_VECTORS : 2;
            for (int n = 2; n <= most; n *= 2) {
                b->cases[b->case_count++] = (memory_case){of, size, of == AVERAGE ? n : 0};
            }
        }
    }
}

static dl_status find_sizes(memory_bench *b, dl_error *err)
{
    dl_device_info info;
    const dl_status status = b->type->describe(b->config->first + b->gpu, &info, err);
    if (status != DL_OK) return status;
    const size_t most = info.memory_bytes / (MEMORY_PART * (DL_BENCH_GPU_VECTORS + 3));
    size_t bytes = b->config->quick ? DL_BENCH_GPU_QUICK_BYTES : DL_BENCH_GPU_VECTOR_BYTES;
    while (bytes > most)
        bytes /= 2;
    for (int size = 0; size < MEMORY_SIZES; size++, bytes /= SIZE_STEP)
        b->bytes[size] = bytes;
    return DL_OK;
}

/* Plans the messages of each size, and copies the blocks of the 1-bit ones to the GPU. */
static void make_plans(memory_bench *b)
{
    const dl_backend *backend = b->type->backend;
    for (int size = 0; size < MEMORY_SIZES; size++) {
        const size_t count = b->bytes[size] / dl_precision_bytes(backend->precision);
        for (dl_quantise kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind++) {
            dl_quantise_plan_init(&b->plans[size][kind], kind);
            dl_quantise_plan_add(&b->plans[size][kind], count);
        }
        const dl_quantise_plan *bits = &b->plans[size][DL_QUANTISE_1BIT];
        const size_t bytes = bits->block_count * sizeof *bits->blocks;
        b->blocks[size] = backend->allocate(bytes, "blocks");
        backend->upload(b->blocks[size], bits->blocks, bytes);
    }
}

static dl_status open_gpu(memory_bench *b, dl_error *err)
{
    const dl_backend *backend = b->type->backend;
    const dl_device_settings settings = {.pageable = false};
    dl_status status = find_sizes(b, err);
    if (status == DL_OK) {
        status = b->type->open(&b->device, b->config->first + b->gpu, &settings, err);
    }
    if (status != DL_OK) return status;
    b->type->use(b->device);
    for (int v = 0; v < DL_BENCH_GPU_VECTORS; v++)
        b->vectors[v] = backend->allocate(b->bytes[0], "vectors");
    b->result = backend->allocate(b->bytes[0], "result");
    b->message = backend->allocate(b->bytes[0], "message");
    make_plans(b);
    return backend->wait(err);
}

static void close_gpu(memory_bench *b)
{
    const dl_backend *backend = b->type->backend;
    if (b->device == NULL) return;
    b->type->use(b->device);
    for (int v = 0; v < DL_BENCH_GPU_VECTORS; v++)
        backend->release(b->vectors[v]);
    backend->release(b->result);
    backend->release(b->message);
    for (int size = 0; size < MEMORY_SIZES; size++) {
        backend->release(b->blocks[size]);
        for (dl_quantise kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind++)
            dl_quantise_plan_free(&b->plans[size][kind]);
    }
    b->type->close(b->device);
    b->device = NULL;
}

static void launch_memory_case(memory_bench *b, const memory_case *c)
{
    const dl_device_type *type = b->type;
    const dl_quantise_plan *halves = &b->plans[c->size][DL_QUANTISE_FP16];
    const dl_quantise_plan *bits = &b->plans[c->size][DL_QUANTISE_1BIT];
    const void *blocks = b->blocks[c->size];
    void *residual = b->vectors[1];
    switch (c->name) {
    case COPY: type->copy(b->device, b->result, b->device, b->vectors[0], b->bytes[c->size]); break;
    case FP16_ENCODE: type->encode(halves, blocks, b->vectors[0], NULL, b->message); break;
    case FP16_DECODE: type->decode(halves, blocks, b->message, b->result); break;
    case BIT_ENCODE: type->encode(bits, blocks, b->vectors[0], residual, b->message); break;
    case BIT_DECODE: type->decode(bits, blocks, b->message, b->result); break;
    default:
        type->average(b->result, (const void *const *)b->vectors, c->vectors, halves->count);
        break;
    }
}

static dl_status time_memory_case(void *user, uint32_t which, bool warm, dl_error *err)
{
    memory_bench *b = user;
    const memory_case *c = &b->cases[which];
    const dl_device_type *type = b->type;
    if (!warm)
        launch_memory_case(b, c); /* loads the kernel, which is impossible while the GPU is
                                          * held */
    type->hold();
    type->mark(0);
    for (int i = 0; i < MEMORY_OPERATIONS; i++)
        launch_memory_case(b, c);
    type->mark(1);
    const int64_t start_ns = dl_clock_ns();
    type->let_go();
    const dl_status status = type->backend->wait(err);
    if (status != DL_OK || !warm) return status;
    const double each_ns = type->between_ns(0, 1) / MEMORY_OPERATIONS;
    append(b->stream,
           (dl_record){.name = b->ids[c->name],
                       .worker = (uint32_t)(b->config->first + b->gpu),
                       .vectors = (uint32_t)c->vectors,
                       .threads = 1,
                       .bytes = b->bytes[c->size],
                       .start_ns = start_ns},
           each_ns);
    return DL_OK;
}

dl_status dl_bench_gpu_memory(dl_trace_writer *writer, const dl_bench_gpu_config *config,
                              dl_error *err)
{
    memory_bench b = {
        .config = config, .type = config->type, .stream = dl_trace_writer_stream(writer)};
    dl_status status = DL_OK;
    for (int i = 0; i < MEMORY_NAME_COUNT; i++)
        b.ids[i] = dl_trace_writer_intern(writer, memory_names[i]);
    make_cases(&b);
    for (b.gpu = 0; status == DL_OK && !stopped(config) && b.gpu < config->count; b.gpu++) {
        status = open_gpu(&b, err);
        if (status == DL_OK) {
            status = run_rounds(&(rounds){.config = config,
                                          .seconds = config->seconds / config->count,
                                          .count = b.case_count,
                                          .stream = (uint32_t)b.gpu,
                                          .most = MEMORY_ROUNDS_MAX,
                                          .time = time_memory_case,
                                          .bench = &b},
                                err);
        }
        close_gpu(&b);
    }
    return status;
}
