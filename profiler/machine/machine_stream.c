#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/pinned_threads.h"
#include "profiler/machine/machine_box.h"

#define LEAST_BYTES (64 * 0x1p20)
#define MEMORY_PART 16
#define CACHE_TIMES 4
#define PASSES 10

/* State shared by the threads; thread i writes item i of the arrays. */
typedef struct stream {
    const dl_stream_config *config;
    size_t elements; /* per thread and array */
    pthread_barrier_t barrier;
    int *sockets;
    uint64_t **blocks;         /* [threads] blocks that threads of other sockets read */
    int64_t triad_ns, link_ns; /* best times; written by thread 0 */
} stream;

static int socket_of_cpu(int cpu)
{
    DL_AUTOFREE char *path =
        dl_format("/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
    FILE *file = fopen(path, "re");
    int socket = 0;
    if (file != NULL && fscanf(file, "%d", &socket) != 1) socket = 0;
    if (file != NULL) fclose(file);
    return socket;
}

dl_stream_config dl_stream_default_config(double cache_bytes, double memory_bytes)
{
    double bytes =
        CACHE_TIMES * cache_bytes > LEAST_BYTES ? CACHE_TIMES * cache_bytes : LEAST_BYTES;
    if (memory_bytes > 0 && bytes > memory_bytes / MEMORY_PART) bytes = memory_bytes / MEMORY_PART;
    return (dl_stream_config){.threads = dl_cpu_count(),
                              .array_bytes = bytes,
                              .passes = PASSES,
                              .socket_of_cpu = socket_of_cpu};
}

static void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + 3.0 * c[i];
}

/* Sums integers, which the compiler may do in any order. */
static uint64_t sum(const uint64_t *block, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += block[i];
    return total;
}

static void keep_best(int64_t *best_ns, int pass, int64_t ns)
{
    if (ns < 1) ns = 1; /* resolution of the clock */
    if (pass == 0 || ns < *best_ns) *best_ns = ns;
}

/* Each thread writes its own arrays first, so that they lie in the memory of its socket. */
static void run_triad(stream *s, int index)
{
    const size_t n = s->elements;
    DL_AUTOFREE double *a = dl_alloc_aligned(3 * n * sizeof *a, "arrays of the triad");
    double *b = a + n, *c = b + n;
    for (size_t i = 0; i < n; i++) {
        b[i] = (double)i;
        c[i] = 1;
    }
    for (int pass = 0; pass < s->config->passes; pass++) {
        pthread_barrier_wait(&s->barrier);
        const int64_t begin_ns = dl_clock_ns();
        triad(a, b, c, n);
        pthread_barrier_wait(&s->barrier);
        if (index == 0) keep_best(&s->triad_ns, pass, dl_clock_ns() - begin_ns);
    }
    DL_ASSERT(a[n - 1] > (double)n + 1.5 && a[n - 1] < (double)n + 2.5, "a[%zu] = %g", n - 1,
              a[n - 1]);
}

/* Returns the socket with the next higher number, or the lowest one after the last; `own` if it is
 * the only one. */
static int next_socket(const stream *s, int own)
{
    int higher = own, least = own;
    for (int i = 0; i < s->config->threads; i++) {
        const int socket = s->sockets[i];
        if (socket > own && (higher == own || socket < higher)) higher = socket;
        if (socket < least) least = socket;
    }
    return higher > own ? higher : least;
}

/* Number of threads among 0 .. end-1 that run on the socket. */
static int threads_of(const stream *s, int socket, int end)
{
    int count = 0;
    for (int i = 0; i < end; i++)
        count += s->sockets[i] == socket;
    return count;
}

/* Returns the thread whose block thread `index` reads: the one at the same position in the next
 * socket; -1 with only one socket. */
static int partner_of(const stream *s, int index)
{
    const int own = s->sockets[index], next = next_socket(s, own), threads = s->config->threads;
    if (next == own) return -1;
    int turn = threads_of(s, own, index) % threads_of(s, next, threads);
    int partner = 0;
    while (s->sockets[partner] != next || turn-- > 0)
        partner++;
    return partner;
}

static void run_link(stream *s, int index)
{
    const size_t n = s->elements;
    const int partner = partner_of(s, index);
    if (partner < 0) return; /* then no thread has a partner */
    const uint64_t expected = (uint64_t)n * (n - 1) / 2;
    uint64_t total = expected;
    for (int pass = 0; pass < s->config->passes; pass++) {
        pthread_barrier_wait(&s->barrier);
        const int64_t begin_ns = dl_clock_ns();
        const uint64_t found = sum(s->blocks[partner], n);
        pthread_barrier_wait(&s->barrier);
        if (index == 0) keep_best(&s->link_ns, pass, dl_clock_ns() - begin_ns);
        if (found != expected) total = found;
    }
    DL_ASSERT(total == expected, "the sum is %llu", (unsigned long long)total);
}

static void run_thread(void *user, int index)
{
    stream *s = user;
    run_triad(s, index);
    DL_AUTOFREE uint64_t *block = dl_alloc_aligned(s->elements * sizeof *block, "block to read");
    for (size_t i = 0; i < s->elements; i++)
        block[i] = i;
    s->blocks[index] = block;
    s->sockets[index] = s->config->socket_of_cpu(sched_getcpu());
    pthread_barrier_wait(&s->barrier);
    run_link(s, index);
    pthread_barrier_wait(&s->barrier); /* other threads read the block until here */
}

static int count_sockets(const stream *s)
{
    int count = 0;
    for (int i = 0; i < s->config->threads; i++)
        count += threads_of(s, s->sockets[i], i) == 0;
    return count;
}

dl_status dl_stream_measure(const dl_stream_config *config, dl_stream_rates *rates, dl_error *err)
{
    const size_t threads = (size_t)config->threads;
    stream s = {.config = config,
                .elements = (size_t)(config->array_bytes / config->threads / sizeof(double)),
                .sockets = dl_calloc(threads, sizeof *s.sockets, "sockets"),
                .blocks = dl_calloc(threads, sizeof *s.blocks, "blocks")};
    if (s.elements == 0) s.elements = 1;
    DL_AUTOFREE int *cores = dl_calloc(threads, sizeof *cores, "cores");
    for (int i = 0; i < config->threads; i++)
        cores[i] = i;
    pthread_barrier_init(&s.barrier, NULL, (unsigned)threads);
    const dl_status status = dl_pinned_threads_run(config->threads, cores, run_thread, &s, err);
    pthread_barrier_destroy(&s.barrier);
    if (status == DL_OK) {
        const double block = (double)s.elements * config->threads * sizeof(double);
        const int sockets = count_sockets(&s);
        *rates = (dl_stream_rates){.triad_bytes_per_s = 3 * block / dl_ns_to_s((double)s.triad_ns)};
        if (sockets > 1) {
            rates->link_bytes_per_s = block / sockets / dl_ns_to_s((double)s.link_ns);
        }
    }
    free(s.blocks);
    free(s.sockets);
    return status;
}
