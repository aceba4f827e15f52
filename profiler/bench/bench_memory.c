#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/pinned_threads.h"
#include "kernels/quantise.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/bench_internal.h"
#include "profiler/run/run_meta.h"
#include "trace/training/summary.h"

/* Bytes of a vector: the triad's three vectors take four times the last-level cache (STREAM's
 * rules), but each of the VECTORS_MAX + 2 vectors takes at most 1 / MEMORY_PART of the memory. */
#define CACHE_TIMES (4.0 / 3)
#define MEMORY_PART 128
#define BYTES_MIN ((size_t)32 << 20)
#define QUICK_BYTES ((size_t)1 << 20)

#define VECTORS_MAX 8
/* Minimum repetitions: five, or two if five would take more than OVER_BUDGET_MAX times the
 * budget. */
#define REPETITIONS_MIN 5
#define REPETITIONS_LEAST 2
#define OVER_BUDGET_MAX 4
#define REPETITIONS_MAX 50
#define CASES_MAX (12 * DL_BENCH_COUNTS_MAX)

typedef struct memory_case {
    dl_bench_name name;
    int vectors, threads;
} memory_case;

/* One thread's piece of all vectors. */
typedef struct piece {
    void *vectors[VECTORS_MAX]; /* the first two are the triad's operands too, the last one a
                                 * residual */
    void *result, *message;
    dl_quantise_plan plans[DL_QUANTISE_COUNT];
} piece;

typedef struct memory {
    const dl_bench_config *config;
    dl_bench *bench;
    size_t count, bytes; /* numbers and bytes of a whole vector, over all pieces */
    memory_case cases[CASES_MAX];
    uint32_t case_count;
    int thread_count;
    piece *pieces;         /* [thread_count] */
    const memory_case *at; /* current case; NULL: no further case */
    dl_barrier between;    /* for all threads */
    int64_t start_ns, budget_ns;
} memory;

static size_t vector_bytes(const dl_bench_config *config)
{
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE), pages = sysconf(_SC_PHYS_PAGES);
    size_t bytes = cache > 0 ? (size_t)(CACHE_TIMES * (double)cache) : BYTES_MIN;
    const size_t most = (size_t)pages / MEMORY_PART * (size_t)sysconf(_SC_PAGESIZE);
    if (config->quick) return QUICK_BYTES;
    if (bytes < BYTES_MIN) bytes = BYTES_MIN;
    return pages > 0 && bytes > most ? most : bytes;
}

static void add_case(memory *m, dl_bench_name name, int vectors, int threads)
{
    DL_ASSERT(m->case_count < CASES_MAX, "%u cases", m->case_count);
    m->cases[m->case_count++] = (memory_case){name, vectors, threads};
}

static void make_cases(memory *m)
{
    int counts[DL_BENCH_COUNTS_MAX];
    const int count = dl_bench_thread_counts(m->thread_count, counts);
    for (int i = 0; i < count; i++) {
        const int t = counts[i];
        add_case(m, DL_BENCH_TRIAD, 0, t);
        for (int n = 2; n <= VECTORS_MAX; n *= 2)
            add_case(m, DL_BENCH_AVERAGE_RAM, n, t);
        add_case(m, DL_BENCH_AVERAGE_PASSES, 4, t);
        if (t > 1) add_case(m, DL_BENCH_AVERAGE_FAR, 4, t);
        for (dl_bench_name name = DL_BENCH_FP16_ENCODE; name <= DL_BENCH_1BIT_DECODE; name++)
            add_case(m, name, 0, t);
    }
}

/* a = b + s c in the model's number type. */
static void triad(void *a, const void *b, const void *c, size_t count, dl_precision precision)
{
    if (precision == DL_FLOAT) {
        float *restrict to = a;
        const float *x = b, *y = c;
        for (size_t i = 0; i < count; i++)
            to[i] = x[i] + 3.0f * y[i];
    } else {
        double *restrict to = a;
        const double *x = b, *y = c;
        for (size_t i = 0; i < count; i++)
            to[i] = x[i] + 3.0 * y[i];
    }
}

/* Averages vector by vector, to measure the cost without fusion. */
static void average_in_passes(const memory *m, const piece *own, int n, size_t count)
{
    const dl_precision precision = m->config->train.precision;
    const dl_backend *backend = dl_backend_cpu(precision);
    memcpy(own->result, own->vectors[0], count * dl_precision_bytes(precision));
    for (int v = 1; v < n; v++)
        backend->add(own->result, own->vectors[v], count);
    /* The mean of one vector, in place, moves as many bytes as the division by n. */
    const void *one[] = {own->result};
    dl_exchange_average(own->result, one, 1, 0, count, precision);
}

/* Returns the plan of a message of `count` numbers, made anew if the count has changed. */
static dl_quantise_plan *plan_of(piece *own, dl_quantise kind, size_t count)
{
    dl_quantise_plan *plan = &own->plans[kind];
    if (plan->count != count) {
        dl_quantise_plan_free(plan);
        dl_quantise_plan_init(plan, kind);
        dl_quantise_plan_add(plan, count);
    }
    return plan;
}

/* Runs this thread's part of the current case. */
static void run_part(memory *m, int index, const memory_case *at, size_t count)
{
    const dl_precision precision = m->config->train.precision;
    piece *own = &m->pieces[index];
    const piece *far = &m->pieces[at->threads - 1 - index];
    const bool bits = at->name == DL_BENCH_1BIT_ENCODE || at->name == DL_BENCH_1BIT_DECODE;
    const dl_quantise_plan *plan = &own->plans[bits ? DL_QUANTISE_1BIT : DL_QUANTISE_FP16];
    switch (at->name) {
    case DL_BENCH_TRIAD:
        triad(own->result, own->vectors[0], own->vectors[1], count, precision);
        break;
    case DL_BENCH_AVERAGE_PASSES: average_in_passes(m, own, at->vectors, count); break;
    case DL_BENCH_AVERAGE_FAR:
        dl_exchange_average(far->result, (const void *const *)far->vectors, at->vectors, 0, count,
                            precision);
        break;
    case DL_BENCH_FP16_ENCODE:
    case DL_BENCH_1BIT_ENCODE:
        dl_quantise_encode(plan, own->vectors[0], own->vectors[VECTORS_MAX - 1], own->message,
                           precision);
        break;
    case DL_BENCH_FP16_DECODE:
    case DL_BENCH_1BIT_DECODE:
        dl_quantise_decode(plan, own->message, own->result, precision);
        break;
    default:
        dl_exchange_average(own->result, (const void *const *)own->vectors, at->vectors, 0, count,
                            precision);
        break;
    }
}

/* Runs one case; all threads call it, and those without work only wait. Thread 0 adds the
 * sample. */
static void run_case(memory *m, int index)
{
    const memory_case *at = m->at;
    const size_t count = m->count / (size_t)at->threads;
    if (index < at->threads) {
        (void)plan_of(&m->pieces[index], DL_QUANTISE_FP16, count);
        (void)plan_of(&m->pieces[index], DL_QUANTISE_1BIT, count);
    }
    dl_barrier_wait(&m->between);
    const int64_t start_ns = dl_clock_ns();
    if (index < at->threads) run_part(m, index, at, count);
    dl_barrier_wait(&m->between);
    if (index > 0) return;
    dl_bench_add(m->bench, at->name,
                 (dl_record){.vectors = (uint32_t)at->vectors,
                             .threads = (uint32_t)at->threads,
                             .bytes = m->bytes,
                             .start_ns = start_ns,
                             .duration_ns = dl_clock_ns() - start_ns});
}

static bool enough(const memory *m, int repetitions)
{
    if (dl_train_stopped(&m->config->train)) return true;
    if (repetitions < REPETITIONS_LEAST) return false;
    const int64_t used_ns = dl_clock_ns() - m->start_ns;
    if (repetitions < REPETITIONS_MIN) return used_ns > OVER_BUDGET_MAX * m->budget_ns;
    return repetitions >= REPETITIONS_MAX || used_ns > m->budget_ns;
}

static void lead(memory *m)
{
    dl_bench_order order;
    dl_bench_order_init(&order, m->case_count, m->config->train.seed, DL_BENCH_TRIAD);
    m->start_ns = dl_clock_ns();
    for (int repetition = 0; !enough(m, repetition); repetition++) {
        const uint32_t *next = dl_bench_order_next(&order);
        for (uint32_t i = 0; i < m->case_count && !dl_train_stopped(&m->config->train); i++) {
            m->at = &m->cases[next[i]];
            dl_barrier_wait(&m->between);
            run_case(m, 0);
        }
        dl_progress_update(&m->bench->progress,
                           (double)(dl_clock_ns() - m->start_ns) / (double)m->budget_ns);
    }
    dl_bench_order_free(&order);
    m->at = NULL;
    dl_barrier_wait(&m->between);
}

/* Allocates a piece as large as the thread's share in the smallest case that it takes part in: with
 * 16 threads all pieces together take three times the vectors. */
static void make_piece(memory *m, int index)
{
    piece *own = &m->pieces[index];
    int counts[DL_BENCH_COUNTS_MAX], least = 0;
    (void)dl_bench_thread_counts(m->thread_count, counts);
    while (counts[least] <= index)
        least++;
    const size_t bytes =
        m->count / (size_t)counts[least] * dl_precision_bytes(m->config->train.precision);
    for (int v = 0; v < VECTORS_MAX; v++)
        own->vectors[v] = dl_alloc_aligned(bytes, "vectors");
    own->result = dl_alloc_aligned(bytes, "result");
    own->message = dl_alloc_aligned(bytes, "message");
}

static void free_piece(piece *own)
{
    for (int v = 0; v < VECTORS_MAX; v++)
        free(own->vectors[v]);
    free(own->result);
    free(own->message);
    for (dl_quantise kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind++)
        dl_quantise_plan_free(&own->plans[kind]);
}

static void thread_main(void *user, int index)
{
    memory *m = user;
    make_piece(m, index);
    dl_barrier_wait(&m->between);
    if (index == 0) {
        lead(m);
    } else {
        for (;;) {
            dl_barrier_wait(&m->between);
            if (m->at == NULL) break;
            run_case(m, index);
        }
    }
    free_piece(&m->pieces[index]);
}

dl_status dl_bench_memory(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                          dl_error *err)
{
    DL_AUTOFREE memory *m = dl_alloc_aligned(sizeof *m, "memory");
    m->config = config;
    m->bench = bench;
    m->budget_ns = budget_ns;
    m->thread_count = dl_train_cores(&config->train);
    m->bytes = vector_bytes(config);
    m->count = m->bytes / dl_precision_bytes(config->train.precision);
    m->pieces = dl_calloc((size_t)m->thread_count, sizeof *m->pieces, "pieces");
    make_cases(m);
    dl_barrier_init(&m->between, m->thread_count, DL_WAIT_SPIN);
    DL_AUTOFREE int *cores = dl_bench_cores(&config->train, m->thread_count);
    const dl_status status = dl_pinned_threads_run(m->thread_count, cores, thread_main, m, err);
    dl_barrier_free(&m->between);
    free(m->pieces);
    return status;
}

/* Bytes that an operation reads and writes per byte of its vector, in single precision; 0 for other
 * operations. A 1-bit message takes 1/32 of the vector and 8 bytes per block. */
static double traffic(const dl_bench_summary *b)
{
    static const double bits =
        (double)sizeof(dl_quantise_bits) / (DL_QUANTISE_BLOCK * sizeof(float));
    const struct {
        const char *name;
        double traffic;
    } kinds[] = {{"triad", 3},
                 {"gpu_copy", 2},
                 {"average_ram", b->vectors + 1.0},
                 {"average_passes", b->vectors + 1.0},
                 {"average_far", b->vectors + 1.0},
                 {"gpu_average", b->vectors + 1.0},
                 {"fp16_encode", 1.5},
                 {"fp16_decode", 1.5},
                 {"1bit_encode", 3 + bits},
                 {"1bit_decode", 1 + bits},
                 {"gpu_fp16_encode", 1.5},
                 {"gpu_fp16_decode", 1.5},
                 {"gpu_1bit_encode", 3 + bits},
                 {"gpu_1bit_decode", 1 + bits}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(b->name, kinds[i].name) == 0) return kinds[i].traffic;
    }
    return 0;
}

static bool is_gpus(const dl_bench_summary *b)
{
    return strncmp(b->name, "gpu_", 4) == 0;
}

static double rate_of(const dl_bench_summary *b)
{
    return traffic(b) * (double)b->bytes / dl_ns_to_s(b->duration_ns.p50);
}

/* Returns the triad or copy of the same threads and bytes; NULL if there is none. */
static const dl_bench_summary *reference_of(const dl_summary *summary, const dl_bench_summary *of)
{
    const char *name = is_gpus(of) ? "gpu_copy" : "triad";
    for (size_t i = 0; i < summary->bench_count; i++) {
        const dl_bench_summary *b = &summary->benches[i];
        if (strcmp(b->name, name) == 0 && b->threads == of->threads && b->bytes == of->bytes) {
            return b;
        }
    }
    return NULL;
}

void dl_bench_memory_print(const dl_summary *summary, FILE *out)
{
    bool head = false;
    for (size_t i = 0; i < summary->bench_count; i++) {
        const dl_bench_summary *b = &summary->benches[i];
        const dl_bench_summary *reference = reference_of(summary, b);
        if (traffic(b) <= 0 || reference == NULL || reference == b) continue;
        if (!head) {
            fprintf(out, "\nbytes read and written a second, beside %s of the same run\n",
                    is_gpus(b) ? "copies within the GPU" : "STREAM's triad");
            fprintf(out, "%-16s%8s%8s%10s%12s%12s%8s\n", "", "vectors", "threads", "bytes", "GB/s",
                    is_gpus(b) ? "copy GB/s" : "triad GB/s", "ratio");
            head = true;
        }
        fprintf(out, "%-16s%8u%8u%10s%12.2f%12.2f%8.2f\n", b->name, b->vectors, b->threads,
                DL_BYTES_TEXT(b->bytes), rate_of(b) * 1e-9, rate_of(reference) * 1e-9,
                rate_of(b) / rate_of(reference));
    }
}
