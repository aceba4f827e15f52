#include "profiler/bench/bench_gpu_memory.h"

#include "common/units.h"
#include "kernels/quantise.h"
#include "profiler/bench/bench_order.h"
#include "trace/record.h"

#define OPERATIONS 8 /* between two marks */
#define WARM_ROUNDS 1
#define ROUNDS_MIN 2
#define ROUNDS_MAX 100
#define SIZES 3 /* the largest vector, and two by SIZE_STEP smaller each */
#define SIZE_STEP 8
#define MEMORY_PART 16
#define CASES_MAX (SIZES * (NAME_COUNT + 2))

typedef enum name {
    COPY,
    AVERAGE,
    FP16_ENCODE,
    FP16_DECODE,
    BIT_ENCODE,
    BIT_DECODE,
    NAME_COUNT
} name;

static const char *const names[NAME_COUNT] = {
    [COPY] = "gpu_copy",
    [AVERAGE] = "gpu_average",
    [FP16_ENCODE] = "gpu_fp16_encode",
    [FP16_DECODE] = "gpu_fp16_decode",
    [BIT_ENCODE] = "gpu_1bit_encode",
    [BIT_DECODE] = "gpu_1bit_decode",
};

typedef struct memory_case {
    name name;
    int size, vectors;
} memory_case;

typedef struct bench {
    const dl_bench_gpu_config *config;
    const dl_device_type *type;
    dl_trace_stream *stream;
    uint32_t ids[NAME_COUNT];
    int gpu;
    size_t bytes[SIZES]; /* of a vector */
    dl_device *device;
    void *vectors[DL_BENCH_GPU_VECTORS], *result, *message;
    dl_quantise_plan plans[SIZES][DL_QUANTISE_COUNT];
    void *blocks[SIZES];
    memory_case cases[CASES_MAX];
    uint32_t case_count;
} bench;

static void make_cases(bench *b)
{
    b->case_count = 0;
    for (int size = 0; size < SIZES; size++) {
        for (name of = COPY; of < NAME_COUNT; of++) {
            const int most = of == AVERAGE ? DL_BENCH_GPU_VECTORS : 2;
            for (int n = 2; n <= most; n *= 2) {
                b->cases[b->case_count++] = (memory_case){of, size, of == AVERAGE ? n : 0};
            }
        }
    }
}

static dl_status find_sizes(bench *b, dl_error *err)
{
    dl_device_info info;
    const dl_status status = b->type->describe(b->config->first + b->gpu, &info, err);
    if (status != DL_OK) return status;
    const size_t most = info.memory_bytes / (MEMORY_PART * (DL_BENCH_GPU_VECTORS + 3));
    size_t bytes = b->config->quick ? DL_BENCH_GPU_QUICK_BYTES : DL_BENCH_GPU_VECTOR_BYTES;
    while (bytes > most)
        bytes /= 2;
    for (int size = 0; size < SIZES; size++, bytes /= SIZE_STEP)
        b->bytes[size] = bytes;
    return DL_OK;
}

/* A message for each size, and its blocks on the GPU. */
static void make_plans(bench *b)
{
    const dl_backend *backend = b->type->backend;
    for (int size = 0; size < SIZES; size++) {
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

static dl_status open_gpu(bench *b, dl_error *err)
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

static void close_gpu(bench *b)
{
    const dl_backend *backend = b->type->backend;
    if (b->device == NULL) return;
    b->type->use(b->device);
    for (int v = 0; v < DL_BENCH_GPU_VECTORS; v++)
        backend->release(b->vectors[v]);
    backend->release(b->result);
    backend->release(b->message);
    for (int size = 0; size < SIZES; size++) {
        backend->release(b->blocks[size]);
        for (dl_quantise kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind++)
            dl_quantise_plan_free(&b->plans[size][kind]);
    }
    b->type->close(b->device);
    b->device = NULL;
}

static void issue(bench *b, const memory_case *c)
{
    const dl_device_type *type = b->type;
    const dl_quantise_plan *halves = &b->plans[c->size][DL_QUANTISE_FP16];
    const dl_quantise_plan *bits = &b->plans[c->size][DL_QUANTISE_1BIT];
    const void *blocks = b->blocks[c->size];
    void *residual = b->vectors[1];
    switch (c->name) {
    case COPY: type->copy_from(b->device, b->result, b->vectors[0], b->bytes[c->size]); break;
    case FP16_ENCODE: type->encode(halves, blocks, b->vectors[0], NULL, b->message); break;
    case FP16_DECODE: type->decode(halves, blocks, b->message, b->result); break;
    case BIT_ENCODE: type->encode(bits, blocks, b->vectors[0], residual, b->message); break;
    case BIT_DECODE: type->decode(bits, blocks, b->message, b->result); break;
    default:
        type->average(b->result, (const void *const *)b->vectors, c->vectors, halves->count);
        break;
    }
}

static dl_status time_case(bench *b, const memory_case *c, bool warm, dl_error *err)
{
    const dl_device_type *type = b->type;
    type->hold();
    type->mark(0);
    for (int i = 0; i < OPERATIONS; i++)
        issue(b, c);
    type->mark(1);
    const int64_t start_ns = dl_clock_ns();
    type->let_go();
    const dl_status status = type->backend->wait(err);
    if (status != DL_OK || !warm) return status;
    const double each_ns = type->between_ns(0, 1) / OPERATIONS;
    dl_trace_stream_append(b->stream, &(dl_record){.kind = DL_RECORD_BENCH,
                                                   .name = b->ids[c->name],
                                                   .worker = (uint32_t)(b->config->first + b->gpu),
                                                   .vectors = (uint32_t)c->vectors,
                                                   .threads = 1,
                                                   .bytes = b->bytes[c->size],
                                                   .staleness = DL_NO_STALENESS,
                                                   .start_ns = start_ns,
                                                   .duration_ns = (int64_t)(each_ns + 0.5)});
    return DL_OK;
}

static dl_status run_rounds(bench *b, dl_error *err)
{
    const int64_t start_ns = dl_clock_ns();
    const int64_t budget_ns = (int64_t)(dl_s_to_ns(b->config->seconds) / b->config->count);
    dl_bench_order order;
    dl_bench_order_init(&order, b->case_count, 1, (uint32_t)b->gpu);
    dl_status status = DL_OK;
    for (int round = 0; status == DL_OK && round < ROUNDS_MAX + WARM_ROUNDS; round++) {
        const bool late = dl_clock_ns() - start_ns > budget_ns;
        if (dl_bench_gpu_stopped(b->config) || (late && round >= ROUNDS_MIN + WARM_ROUNDS)) break;
        const uint32_t *next = dl_bench_order_next(&order);
        for (uint32_t i = 0; status == DL_OK && i < b->case_count; i++)
            status = time_case(b, &b->cases[next[i]], round >= WARM_ROUNDS, err);
    }
    dl_bench_order_free(&order);
    return status;
}

dl_status dl_bench_gpu_memory(dl_trace_writer *writer, const dl_bench_gpu_config *config,
                              dl_error *err)
{
    bench b = {.config = config, .type = config->type, .stream = dl_trace_writer_stream(writer)};
    dl_status status = DL_OK;
    for (int i = 0; i < NAME_COUNT; i++)
        b.ids[i] = dl_trace_writer_intern(writer, names[i]);
    make_cases(&b);
    for (b.gpu = 0; status == DL_OK && !dl_bench_gpu_stopped(config) && b.gpu < config->count;
         b.gpu++) {
        status = open_gpu(&b, err);
        if (status == DL_OK) status = run_rounds(&b, err);
        close_gpu(&b);
    }
    return status;
}
