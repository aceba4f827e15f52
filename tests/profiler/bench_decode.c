/* Not a test: measures how fast one core decodes CUPTI's buffers into a trace, and how large the
 * records become.
 *
 *   bench_decode [LIBCUPTI]
 *
 * The buffers are those of a training step: kernels of 40 names and shapes, each with its launch
 * call. They are read by libcupti, found in the same way as by a recorded program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "profiler/inject/cupti_decode.h"
#include "tests/doubles/cupti_records.h"
#include "trace/dlt/dlt.h"

#define ROOM_BYTES 1024         /* more than a kernel and a call take */
#define BUFFER_BYTES (4u << 20) /* as in cupti_session.c */
#define ROUNDS 100              /* times that one buffer is decoded */
#define NAMES 40
#define PATH "bench_decode.dlt"
#define START_NS 1700000000000000000u /* any recent time */

static dl_trace_writer *writer;
static dl_trace_stream *stream;

static void append(const dl_activity *activity)
{
    dl_trace_stream_append_activity(stream, activity);
}

static uint32_t intern(const char *text)
{
    return dl_trace_writer_intern(writer, text);
}

static void meta(const char *key, const char *value)
{
    dl_trace_writer_meta(writer, key, value);
}

/* Gives lengths and gaps a spread like that of real kernels (Knuth's multiplicative hash). */
static uint32_t jitter(uint32_t i, uint32_t below)
{
    return (uint32_t)((uint64_t)(i * 2654435761u) * below >> 32);
}

/* Fills a buffer with kernels and, if `calls` is set, with calls; returns the bytes used. */
static size_t fill(cupti_next *next, uint8_t *buffer, bool calls)
{
    static char names[NAMES][160];
    CUpti_ActivityKernel8 kernel;
    CUpti_ActivityAPI call;
    size_t used = 0;
    memset(&kernel, 0, sizeof kernel);
    memset(&call, 0, sizeof call);
    for (uint32_t i = 0; used + ROOM_BYTES <= BUFFER_BYTES; i++) {
        char *name = names[i % NAMES];
        snprintf(name, sizeof names[0],
                 "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayI"
                 "PcLm1EEEEviT0_T1_%u",
                 i % NAMES);
        kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
        kernel.name = name;
        kernel.start = (i > 0 ? kernel.end : START_NS) + 1000 + jitter(i, 2000);
        kernel.end = kernel.start + 2000 + jitter(i + 1, 200000);
        kernel.streamId = 7;
        kernel.correlationId = 3 * i + 1;
        kernel.gridX = 64 << i % NAMES % 6, kernel.gridY = kernel.gridZ = 1;
        kernel.blockX = 256, kernel.blockY = kernel.blockZ = 1;
        kernel.registersPerThread = 32;
        used += cupti_put_record(next, buffer + used, &kernel, sizeof kernel);
        call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
        call.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
        call.start = kernel.start - 20000 - jitter(i, 10000);
        call.end = call.start + 2500 + jitter(i, 3000);
        call.threadId = 4711;
        call.correlationId = kernel.correlationId;
        if (calls) used += cupti_put_record(next, buffer + used, &call, sizeof call);
    }
    return used;
}

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static dl_status run(const dl_cupti_api *api, bool calls, dl_error *err)
{
    dl_status status = dl_trace_writer_open(&writer, PATH, err);
    if (status != DL_OK) return status;
    stream = dl_trace_writer_stream(writer);
    dl_cupti_decoder *decoder =
        dl_cupti_decoder_new(api, NULL, (dl_activity_sink){append, intern, meta});
    DL_AUTOFREE uint8_t *buffer = dl_alloc_aligned(BUFFER_BYTES, "bench");
    const size_t used = fill(api->ActivityGetNextRecord, buffer, calls);
    dl_cupti_decode(decoder, buffer, used); /* warm-up */
    const double begin_s = cpu_s();
    for (int i = 0; i < ROUNDS; i++)
        dl_cupti_decode(decoder, buffer, used);
    const double seconds = cpu_s() - begin_s;
    const uint64_t records = dl_cupti_decoder_counts(decoder).records;
    status = dl_trace_writer_close(&writer, err);
    struct stat file = {0};
    if (status == DL_OK && stat(PATH, &file) == 0) {
        const double timed = (double)records * ROUNDS / (ROUNDS + 1);
        printf("%-18s %6.2f M records/s  %5.0f ns  %5.1f bytes per record\n",
               calls ? "kernels and calls" : "kernels", timed / seconds * 1e-6,
               seconds / timed * 1e9, (double)file.st_size / (double)records);
    }
    dl_cupti_decoder_free(decoder);
    unlink(PATH);
    return status;
}

int main(int argc, char **argv)
{
    dl_cupti_api api;
    dl_error err = {0};
    dl_status status = dl_cupti_api_load(&api, argc > 1 ? argv[1] : "", 0, &err);
    if (status == DL_OK && api.version != CUPTI_API_VERSION) {
        status = dl_error_set(&err, DL_ERR_UNSUPPORTED, "libcupti is of another version, %u",
                              (unsigned)api.version);
    }
    if (status == DL_OK) status = run(&api, false, &err);
    if (status == DL_OK) status = run(&api, true, &err);
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    return dl_status_exit_code(status);
}
