/* The measurements of GPUs on a fake device: which cases exist, and that their samples have the
 * durations of the device's clock. */
#include <stdlib.h>
#include <unistd.h>

#include "profiler/bench/bench.h"
#include "profiler/bench/bench_gpu.h"
#include "profiler/bench/bench_internal.h"
#include "tests/check.h"
#include "tests/doubles/fake_device.h"

/* An eighth of the fake device's 1 MiB. */
#define BYTES_MAX ((uint64_t)1 << 17)

static dl_status measure(int gpus, const atomic_bool *stop, dl_trace *trace, dl_error *err)
{
    char path[] = "bench_gpu_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    dl_trace_writer *writer = NULL;
    assert_int_equal(dl_trace_writer_open(&writer, path, err), DL_OK);
    const dl_bench_gpu_config config = {
        .type = &fake_device, .first = 0, .count = gpus, .seconds = 0.001, .stop = stop};
    dl_status status = dl_bench_gpu(writer, &config, err);
    if (status == DL_OK) status = dl_bench_gpu_memory(writer, &config, err);
    assert_int_equal(dl_trace_writer_close(&writer, NULL), DL_OK);
    if (status == DL_OK) assert_int_equal(dl_trace_read(trace, path, err), DL_OK);
    unlink(path);
    assert_int_equal(fake_device_leaks(), 0);
    return status;
}

/* Whether the host's clock times these copies: then their durations are arbitrary. */
static bool is_by_host(const char *name)
{
    static const char *const names[] = {"h2d_pageable", "d2h_pageable", "launch"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

/* Counts the samples of that name, size and number of concurrent GPUs; the device takes the same
 * time for each. */
static int count_samples(const dl_trace *trace, const char *name, uint64_t bytes, uint32_t at_once)
{
    int found = 0;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *r = &trace->records[i];
        if (strcmp(dl_trace_name(trace, r), name) != 0) continue;
        if (r->bytes != bytes || r->threads != at_once) continue;
        assert_int_equal(r->kind, DL_RECORD_BENCH);
        if (!is_by_host(name)) assert_int_equal(r->duration_ns, FAKE_OPERATION_NS);
        found++;
    }
    return found;
}

/* Every size has at least two samples, one per round. */
static void one_gpu_has_copies_and_launches(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(1, -1);
    if (measure(1, NULL, &trace, &err) != DL_OK) fail_msg("%s", err.text);
    static const char *const copies[] = {"h2d", "d2h", "h2d_pageable", "d2h_pageable",
                                         "h2d_with_d2h"};
    for (uint64_t bytes = 1024; bytes <= BYTES_MAX; bytes *= 2) {
        for (int i = 0; i < 5; i++)
            assert_true(count_samples(&trace, copies[i], bytes, 1) >= 2);
        assert_int_equal(count_samples(&trace, "p2p", bytes, 1), 0);
        assert_int_equal(count_samples(&trace, "all_reduce", bytes, 1), 0);
    }
    assert_int_equal(count_samples(&trace, "h2d", 2 * BYTES_MAX, 1), 0);
    assert_true(count_samples(&trace, "launch", 0, 1) >= 2);
}

/* With three GPUs: copies by one, two and three concurrently; every ordered pair; reductions of
 * all. */
static void several_gpus_are_measured_together(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(3, -1);
    if (measure(3, NULL, &trace, &err) != DL_OK) fail_msg("%s", err.text);
    const int one = count_samples(&trace, "h2d", 1024, 1);
    assert_true(one >= 2);
    assert_int_equal(count_samples(&trace, "h2d", 1024, 2), 2 * one);
    assert_int_equal(count_samples(&trace, "h2d", 1024, 3), 3 * one);
    assert_int_equal(count_samples(&trace, "h2d", 1024, 4), 0);
    assert_int_equal(count_samples(&trace, "p2p", BYTES_MAX, 1), 6 * one);
    assert_int_equal(count_samples(&trace, "all_reduce", BYTES_MAX, 3), 3 * one);
    bool pairs[3][3] = {{false}};
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *r = &trace.records[i];
        if (strcmp(dl_trace_name(&trace, r), "p2p") == 0) pairs[r->worker][r->vectors] = true;
    }
    for (int to = 0; to < 3; to++) {
        for (int from = 0; from < 3; from++)
            assert_int_equal(pairs[to][from], to != from);
    }
}

/* GPUs that do not reach each other are not held while they copy: the host would wait for ever. */
static void copies_through_the_host_are_measured(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(2, -1);
    fake_device_reach(false);
    const dl_status status = measure(2, NULL, &trace, &err);
    fake_device_reach(true);
    if (status != DL_OK) fail_msg("%s", err.text);
    assert_true(count_samples(&trace, "p2p", BYTES_MAX, 1) >= 4); /* both ways, two rounds each */
}

/* Averages of 2, 4 and 8 vectors and messages in three sizes, on each GPU. */
static void averages_and_messages_are_measured(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(2, -1);
    if (measure(2, NULL, &trace, &err) != DL_OK) fail_msg("%s", err.text);
    static const char *const others[] = {"gpu_copy", "gpu_fp16_encode", "gpu_fp16_decode",
                                         "gpu_1bit_encode", "gpu_1bit_decode"};
    const uint64_t most = 4096; /* 11 vectors take a 16th of the fake device's memory */
    for (uint64_t bytes = most; bytes >= most / 64; bytes /= 8) {
        const int copies = count_samples(&trace, "gpu_copy", bytes, 1);
        assert_true(copies >= 4); /* two GPUs, each with at least two rounds */
        for (int i = 0; i < 5; i++)
            assert_int_equal(count_samples(&trace, others[i], bytes, 1), copies);
        assert_int_equal(count_samples(&trace, "gpu_average", bytes, 1), 3 * copies);
    }
}

/* Each GPU has one slot with buffers, as the machine's memory must hold them all at once, and the
 * first GPU a second one, for copies in both directions; then each is opened alone for averages. */
static void buffers_are_few(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(3, -1);
    assert_int_equal(measure(3, NULL, &trace, &err), DL_OK);
    assert_string_equal(fake_device_opened(), "0120"
                                              "012");
}

static void a_stop_leaves_the_rest_out(void **state DL_UNUSED)
{
    atomic_bool stop;
    atomic_init(&stop, true);
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(1, -1);
    assert_int_equal(measure(1, &stop, &trace, &err), DL_OK);
    assert_int_equal(trace.record_count, 0);
}

static void a_gpu_that_breaks_is_an_error(void **state DL_UNUSED)
{
    for (long after = 0; after < 2000; after += 7) {
        dl_trace trace = {0};
        dl_error err = {0};
        fake_device_set(2, after);
        assert_int_equal(measure(2, NULL, &trace, &err), DL_ERR_SYSTEM);
        assert_contains(err.text, "broke");
    }
}

#define EXCHANGED_BYTES ((size_t)80000)

static atomic_long pushes, pulls; /* copies by the device of vectors of that size */

static void count_copies(int device DL_UNUSED, const char *operation DL_UNUSED, size_t copied_bytes,
                         bool to_device)
{
    if (copied_bytes == EXCHANGED_BYTES) atomic_fetch_add(to_device ? &pulls : &pushes, 1);
}

/* Exchange of a host whose workers are on GPUs. */
static dl_status exchange(dl_trace *trace, dl_error *err)
{
    char path[] = "bench_host_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    const int batch = 8;
    dl_train_config train = dl_train_default_config();
    train.model = "mlp";
    train.precision = DL_DOUBLE;
    train.cores = 2;
    const dl_bench_config config = {.train = train,
                                    .parameter_bytes = EXCHANGED_BYTES,
                                    .batches = &batch,
                                    .batch_count = 1,
                                    .workers_max = 1,
                                    .seconds = 0.001,
                                    .quick = true,
                                    .kind = DL_BENCH_HOST,
                                    .copier = &fake_device};
    dl_trace_writer *writer = NULL;
    assert_int_equal(dl_trace_writer_open(&writer, path, err), DL_OK);
    dl_bench bench;
    dl_bench_init(&bench, writer);
    const dl_status status = dl_bench_exchange(&bench, &config, 0, err);
    assert_int_equal(dl_trace_writer_close(&writer, NULL), DL_OK);
    if (status == DL_OK) assert_int_equal(dl_trace_read(trace, path, err), DL_OK);
    unlink(path);
    assert_int_equal(fake_device_leaks(), 0);
    return status;
}

/* Every push that was timed, and those of rounds that were not recorded, is a copy by the
 * device. */
static void a_gpu_copies_what_its_host_averages(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(1, -1);
    fake_device_listen(count_copies);
    const dl_status status = exchange(&trace, &err);
    fake_device_listen(NULL);
    if (status != DL_OK) fail_msg("%s", err.text);
    long timed[2] = {0}, served[2] = {0};
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *r = &trace.records[i];
        const char *name = dl_trace_name(&trace, r);
        if (r->bytes != EXCHANGED_BYTES) continue;
        if (strcmp(name, "copy") == 0) timed[r->phase == DL_PHASE_PULL]++;
        served[0] += strcmp(name, "average") == 0;
        served[1] += strcmp(name, "update") == 0;
    }
    assert_true(timed[0] > 0 && atomic_load(&pushes) > timed[0]);
    assert_true(timed[1] > 0 && atomic_load(&pulls) > timed[1]);
    assert_true(served[0] > 0 && served[1] > 0);
}

static void a_gpu_that_breaks_while_it_copies_is_an_error(void **state DL_UNUSED)
{
    for (long after = 0; after < 40; after += 13) {
        dl_trace trace = {0};
        dl_error err = {0};
        fake_device_set(1, after);
        assert_int_equal(exchange(&trace, &err), DL_ERR_SYSTEM);
        assert_contains(err.text, "broke");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gpu_has_copies_and_launches),
        cmocka_unit_test(several_gpus_are_measured_together),
        cmocka_unit_test(copies_through_the_host_are_measured),
        cmocka_unit_test(averages_and_messages_are_measured),
        cmocka_unit_test(buffers_are_few),
        cmocka_unit_test(a_stop_leaves_the_rest_out),
        cmocka_unit_test(a_gpu_that_breaks_is_an_error),
        cmocka_unit_test(a_gpu_copies_what_its_host_averages),
        cmocka_unit_test(a_gpu_that_breaks_while_it_copies_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
