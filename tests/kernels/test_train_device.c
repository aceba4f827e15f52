/* Training on a fake device: the same bits as on the processor, with each dispatch; records;
 * errors. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/fake_device.h"
#include "tests/train_case.h"

static dl_train_config device_config(dl_sync sync, int workers)
{
    dl_train_config config = small_config();
    config.optimizer.momentum = 0.5;
    config.sync = sync;
    config.workers = workers;
    config.interval = 3;
    config.average_state = true;
    config.steps = 8; /* ends between two averages */
    config.device = &fake_device;
    return config;
}

/* Result of the last run on the processor, with which several runs on devices are compared. */
static struct {
    dl_train_config config;
    dl_train_result result;
} on_processor;

static int free_all(void **state)
{
    dl_train_result_free(&on_processor.result);
    return free_data(state);
}

/* Result of the run on the processor; valid until the next call. */
static const dl_train_result *processor_result(const dl_train_config *config)
{
    dl_train_config own = *config;
    own.device = NULL;
    own.devices = own.first_device = own.where_device = 0;
    own.dispatch = DL_DISPATCH_THREADS;
    own.where = DL_TRAIN_WHERE_AUTO;
    if (memcmp(&own, &on_processor.config, sizeof own) != 0) {
        dl_train_result_free(&on_processor.result);
        on_processor.config = own;
        on_processor.result = run(&own, NULL);
    }
    return &on_processor.result;
}

/* The run on the fake device has the bits of the same run on the processor. */
static void check_same_as_processor(const dl_train_config *config)
{
    const dl_train_result *expected = processor_result(config);
    DL_SCOPED(dl_train_result) actual = run(config, NULL);
    assert_true(same_bits(&actual, expected));
    assert_true(actual.first_loss == expected->first_loss);
    assert_true(actual.last_loss == expected->last_loss);
    assert_int_equal(actual.device_bytes, FAKE_USED_BYTES);
    assert_int_equal(expected->device_bytes, 0);
    assert_memory_equal(actual.steps_done, expected->steps_done,
                        (size_t)config->workers * sizeof *actual.steps_done);
    assert_int_equal(fake_device_leaks(), 0);
}

static void modes_give_the_processors_bits(void **state DL_UNUSED)
{
    static const dl_sync synchronous[] = {DL_SYNC_ALLREDUCE, DL_SYNC_PS, DL_SYNC_AVERAGE};
    for (int i = 0; i < 3; i++) {
        for (int workers = 1; workers <= 3; workers++) {
            fake_device_set(3, -1);
            dl_train_config config = device_config(synchronous[i], workers);
            config.server_threads = workers > 1 ? 2 : 1;
            check_same_as_processor(&config);
            config.server_threads = 1;
            config.dispatch = DL_DISPATCH_SINGLE;
            check_same_as_processor(&config);
        }
    }
    static const dl_sync alone[] = {DL_SYNC_NONE, DL_SYNC_ASYNC, DL_SYNC_SOFTSYNC};
    for (int i = 0; i < 3; i++) {
        const dl_train_config config = device_config(alone[i], 1);
        check_same_as_processor(&config);
    }
}

static void check_both_dispatches(dl_train_config config)
{
    check_same_as_processor(&config);
    config.dispatch = DL_DISPATCH_SINGLE;
    check_same_as_processor(&config);
}

/* The server is on a device of the workers, on a device of no worker, on the one that all share, or
 * on the host; or there is none. */
static void the_server_may_be_anywhere(void **state DL_UNUSED)
{
    static const dl_sync synchronous[] = {DL_SYNC_ALLREDUCE, DL_SYNC_PS, DL_SYNC_AVERAGE};
    for (int i = 0; i < 3; i++) {
        for (int workers = 1; workers <= 3; workers++) {
            dl_train_config config = device_config(synchronous[i], workers);
            config.wait = DL_WAIT_BLOCK; /* faster if the machine has other load */
            for (int devices = 1; devices <= 4; devices += 3) {
                fake_device_set(devices, -1);
                config.where = DL_TRAIN_WHERE_GPU;
                for (config.where_device = 0; config.where_device < devices; config.where_device++)
                    check_both_dispatches(config);
                config.where_device = 0;
                config.where = DL_TRAIN_WHERE_CPU;
                check_both_dispatches(config);
            }
            config.where = DL_TRAIN_WHERE_ALLREDUCE;
            if (config.sync != DL_SYNC_PS) check_both_dispatches(config);
        }
    }
    for (dl_sync sync = DL_SYNC_ASYNC; sync <= DL_SYNC_SOFTSYNC; sync++) {
        fake_device_set(2, -1);
        dl_train_config config = device_config(sync, 1);
        config.where = DL_TRAIN_WHERE_GPU;
        for (config.where_device = 0; config.where_device < 2; config.where_device++)
            check_same_as_processor(&config);
    }
}

static void messages_are_the_processors(void **state DL_UNUSED)
{
    static const dl_quantise of_devices[] = {DL_QUANTISE_FP16, DL_QUANTISE_1BIT};
    for (int k = 0; k < 2; k++) {
        const dl_quantise kind = of_devices[k];
        for (dl_sync sync = DL_SYNC_ALLREDUCE; sync <= DL_SYNC_PS; sync++) {
            dl_train_config config = device_config(sync, 2);
            config.quantise = kind;
            config.wait = DL_WAIT_BLOCK;
            fake_device_set(3, -1);
            config.where = DL_TRAIN_WHERE_CPU;
            check_both_dispatches(config);
            config.where = DL_TRAIN_WHERE_GPU;
            for (config.where_device = 0; config.where_device < 3; config.where_device++)
                check_both_dispatches(config);
        }
        dl_train_config config = device_config(DL_SYNC_ASYNC, 1);
        config.quantise = kind;
        check_same_as_processor(&config);
        config.where = DL_TRAIN_WHERE_GPU;
        check_same_as_processor(&config);
    }
}

/* Asynchronous workers with a server on a device: every gradient is applied. */
static void asynchronous_workers_share_a_device(void **state DL_UNUSED)
{
    for (dl_sync sync = DL_SYNC_ASYNC; sync <= DL_SYNC_SOFTSYNC; sync++) {
        for (int devices = 1; devices <= 3; devices++) {
            fake_device_set(devices, -1);
            dl_train_config config = device_config(sync, 3);
            config.where = DL_TRAIN_WHERE_GPU;
            config.where_device = devices - 1;
            config.quantise = DL_QUANTISE_1BIT;
            DL_SCOPED(dl_train_result) result = run(&config, NULL);
            assert_true(isfinite(result.last_loss) && result.last_loss < 2 * result.first_loss);
            assert_true(result.parameters[0] != 0);
            assert_int_equal(fake_device_leaks(), 0);
        }
    }
}

/* Records of all workers; one mutex suffices in a test. */
typedef struct record_log {
    pthread_mutex_t mutex;
    dl_record *records;
    size_t count, capacity;
} record_log;

static void keep(void *user, const dl_record *record)
{
    record_log *to = user;
    pthread_mutex_lock(&to->mutex);
    if (to->count == to->capacity) {
        to->capacity = 2 * to->capacity + 64;
        to->records = dl_realloc(to->records, to->capacity, sizeof *to->records, "test");
    }
    to->records[to->count++] = *record;
    pthread_mutex_unlock(&to->mutex);
}

/* Whole passes are repeated, on average as often as the factor requires, without changing the
 * result. */
static void a_slowed_worker_repeats_passes(void **state DL_UNUSED)
{
    static const double factors[] = {1, 2, 1.5, 1.25, 3.75};
    double busy[5];
    for (int i = 0; i < 5; i++) {
        fake_device_set(1, -1);
        dl_train_config config = device_config(DL_SYNC_PS, 1);
        DL_SCOPED(dl_train_result) plain = run(&config, NULL);
        config.slow = &factors[i];
        record_log told = {.mutex = PTHREAD_MUTEX_INITIALIZER};
        const dl_train_observer observer = {.user = &told, .record = keep};
        DL_SCOPED(dl_train_result) slowed = run(&config, &observer);
        assert_true(same_bits(&plain, &slowed));
        busy[i] = 0;
        for (size_t r = 0; r < told.count; r++) {
            if (told.records[r].kind == DL_RECORD_SLOWDOWN) {
                busy[i] += (double)told.records[r].duration_ns;
            }
        }
        free(told.records);
    }
    assert_true(busy[0] == 0);
    assert_true(busy[1] > 0);
    for (int i = 2; i < 5; i++)
        assert_true(busy[i] == (factors[i] - 1) * busy[1]);
}

static atomic_int unscaled, updated, reduced, reduced_first;

static void count_operations(int device DL_UNUSED, const char *operation, size_t bytes DL_UNUSED,
                             bool to_device DL_UNUSED)
{
    if (strcmp(operation, "unscale") == 0) atomic_fetch_add(&unscaled, 1);
    if (strcmp(operation, "sgd") == 0) atomic_fetch_add(&updated, 1);
    if (strcmp(operation, "all_reduce") != 0) return;
    if (atomic_fetch_add(&reduced, 1) == 0) atomic_store(&reduced_first, atomic_load(&updated));
}

/* The first of each operation allocates memory or loads a kernel, for which CUDA waits for GPUs:
 * for ever, if one of them already waits in the first reduction. */
static void the_warm_up_has_all_operations_before_a_reduction(void **state DL_UNUSED)
{
    fake_device_set(2, -1);
    dl_train_config config = device_config(DL_SYNC_ALLREDUCE, 2);
    config.device_settings.math = DL_DEVICE_MATH_FP16;
    fake_device_listen(count_operations);
    DL_SCOPED(dl_train_result) result = run(&config, NULL);
    fake_device_listen(NULL);
    assert_int_equal(atomic_load(&unscaled), 2 * (config.steps + 1));
    assert_int_equal(atomic_load(&reduced_first), 2); /* both workers have loaded the kernel */
}

static void workers_take_devices_in_turn(void **state DL_UNUSED)
{
    fake_device_set(3, -1);
    dl_train_config config = device_config(DL_SYNC_AVERAGE, 3);
    config.first_device = 1;
    check_same_as_processor(&config);
    assert_string_equal(fake_device_opened(), "121");
    int count = 0;
    assert_int_equal(dl_train_device_count(&config, &count, NULL), DL_OK);
    assert_int_equal(count, 2);
    config.workers = 1;
    assert_int_equal(dl_train_device_count(&config, &count, NULL), DL_OK);
    assert_int_equal(count, 1);
}

/* One or two of three devices, from the second on. */
static void workers_take_as_many_devices_as_wanted(void **state DL_UNUSED)
{
    fake_device_set(3, -1);
    dl_train_config config = device_config(DL_SYNC_AVERAGE, 3);
    config.first_device = 1;
    config.devices = 1;
    check_same_as_processor(&config);
    assert_string_equal(fake_device_opened(), "111");
    int count = 0;
    config.devices = 2;
    assert_int_equal(dl_train_device_count(&config, &count, NULL), DL_OK);
    assert_int_equal(count, 2);
    config.devices = 3;
    dl_error err = {0};
    assert_int_equal(dl_train_device_count(&config, &count, &err), DL_ERR_RANGE);
    assert_contains(err.text, "3 devices from fake:1 on; there are 2");
}

/* Checks the records of a worker's step: their kinds in order, one after another within the
 * step. */
static void check_step(const record_log *told, uint32_t worker, uint32_t step, const char *kinds)
{
    const dl_record *of_step = NULL;
    char found[128];
    size_t count = 0;
    int64_t end_ns = INT64_MIN, first_ns = INT64_MAX, busy_ns = 0;
    for (size_t i = 0; i < told->count; i++) {
        const dl_record *r = &told->records[i];
        if (r->worker != worker || r->step != step) continue;
        assert_null(of_step);
        assert_true(count + 1 < sizeof found);
        found[count++] = ".SCcAwIsB"[r->kind];
        if (r->kind == DL_RECORD_STEP) {
            of_step = r;
            continue;
        }
        assert_true(r->start_ns >= end_ns && r->duration_ns >= 0);
        if (r->start_ns < first_ns) first_ns = r->start_ns;
        end_ns = r->start_ns + r->duration_ns;
        if (r->kind == DL_RECORD_COMPUTE) busy_ns += r->duration_ns;
    }
    found[count] = '\0';
    assert_string_equal(found, kinds);
    assert_non_null(of_step);
    assert_true(of_step->start_ns <= first_ns);
    assert_true(end_ns <= of_step->start_ns + of_step->duration_ns);
    /* Durations are by the device's clock, as the host's clock runs on. */
    assert_true(busy_ns > 0 && busy_ns % FAKE_OPERATION_NS == 0);
}

#define PASS "CCCCCCCCCCCC" /* 6 operations of the mlp, forward and backward */

static void check_records(dl_dispatch dispatch)
{
    fake_device_set(2, -1);
    dl_train_config config = device_config(DL_SYNC_AVERAGE, 2);
    config.steps = 6;
    config.dispatch = dispatch;
    record_log told = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const dl_train_observer observer = {.user = &told, .record = keep};
    dl_train_result with = run(&config, &observer), without = run(&config, NULL);
    assert_true(same_bits(&with, &without));
    const char *meet = dispatch == DL_DISPATCH_SINGLE ? "" : "w";
    for (uint32_t w = 0; w < 2; w++) {
        for (uint32_t s = 0; s < 6; s++) {
            DL_AUTOFREE char *kinds = dl_format(
                "II" PASS "CCC%s%s%s%s%sS", s % 3 == 2 ? "cc" : "", s % 3 == 2 ? meet : "",
                s % 3 == 2 && w == 0 ? "AA" : "", s % 3 == 2 ? meet : "", s % 3 == 2 ? "cc" : "");
            check_step(&told, w, s, kinds);
        }
    }
    dl_train_result_free(&with);
    dl_train_result_free(&without);
    free(told.records);
    assert_int_equal(fake_device_leaks(), 0);
}

static void records_tell_what_the_device_did(void **state DL_UNUSED)
{
    check_records(DL_DISPATCH_THREADS);
    check_records(DL_DISPATCH_SINGLE);
}

/* Only steps are observed: no marks are recorded, so the device does the same as without an
 * observer. */
static void who_wants_steps_only_gets_no_more(void **state DL_UNUSED)
{
    for (int on_device = 0; on_device < 2; on_device++) {
        fake_device_set(1, -1);
        dl_train_config config = device_config(DL_SYNC_ASYNC, 1);
        if (!on_device) config.device = NULL;
        record_log told = {.mutex = PTHREAD_MUTEX_INITIALIZER};
        const dl_train_observer observer = {.steps_only = true, .user = &told, .record = keep};
        DL_SCOPED(dl_train_result) with = run(&config, &observer), without = run(&config, NULL);
        assert_true(same_bits(&with, &without));
        assert_int_equal(told.count, config.steps);
        for (size_t i = 0; i < told.count; i++) {
            assert_int_equal(told.records[i].kind, DL_RECORD_STEP);
            assert_int_equal(told.records[i].staleness, 0);
        }
        free(told.records);
    }
}

/* Copies that end their steps together wait for the slowest in each; all do all steps. */
static void copies_in_step_meet_after_each(void **state DL_UNUSED)
{
    fake_device_set(1, -1);
    dl_train_config config = device_config(DL_SYNC_NONE, 2);
    config.in_step = true;
    config.steps = 6;
    record_log told = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const dl_train_observer observer = {.user = &told, .record = keep};
    DL_SCOPED(dl_train_result) result = run(&config, &observer);
    for (uint32_t w = 0; w < 2; w++) {
        assert_int_equal(result.steps_done[w], 6);
        for (uint32_t s = 0; s < 6; s++)
            check_step(&told, w, s, "II" PASS "CCCwS");
    }
    free(told.records);
}

/* The device fails at any point of a run, also during the set-up, and during a reduction that the
 * other workers have entered: the run ends, and nothing is leaked. */
static void a_device_that_breaks_ends_the_run(void **state DL_UNUSED)
{
    static const dl_sync all[] = {DL_SYNC_NONE,    DL_SYNC_ALLREDUCE, DL_SYNC_PS,
                                  DL_SYNC_AVERAGE, DL_SYNC_ASYNC,     DL_SYNC_SOFTSYNC};
    for (int i = 0; i < 6; i++) {
        for (long after = 0; after < 400; after += 79) {
            for (int single = 0; single <= (all[i] < DL_SYNC_ASYNC); single++) {
                fake_device_set(2, after);
                dl_train_config config = device_config(all[i], 2);
                config.steps = 20;
                config.dispatch = single ? DL_DISPATCH_SINGLE : DL_DISPATCH_THREADS;
                dl_train_result result = {.parameter_count = 99};
                dl_error err = {0};
                assert_int_equal(dl_train_run(&config, &data, NULL, &result, &err), DL_ERR_SYSTEM);
                assert_contains(err.text, "broke");
                assert_int_equal(result.parameter_count, 99);
                assert_int_equal(fake_device_leaks(), 0);
            }
        }
    }
}

static void check_refused(const dl_train_config *config, dl_status code, const char *text)
{
    dl_train_result result = {.parameter_count = 99};
    dl_error err = {0};
    assert_int_equal(dl_train_run(config, &data, NULL, &result, &err), code);
    assert_contains(err.text, text);
    assert_int_equal(result.parameter_count, 99);
    assert_int_equal(fake_device_leaks(), 0);
}

static void what_a_device_cannot_is_an_error(void **state DL_UNUSED)
{
    fake_device_set(1, -1);
    dl_train_config config = device_config(DL_SYNC_AVERAGE, 2);
    config.first_device = 1;
    check_refused(&config, DL_ERR_RANGE, "no device fake:1; there is 1, counted from 0");
    config.first_device = 0;
    config.precision = DL_FLOAT;
    check_refused(&config, DL_ERR_UNSUPPORTED, "device fake computes in double only");
    config.precision = DL_DOUBLE;
    config.where = DL_TRAIN_WHERE_GPU;
    config.where_device = 1;
    check_refused(&config, DL_ERR_RANGE, "no device fake:1 to exchange on; there is 1");
    config.where_device = 0;
    config.server_threads = 2;
    check_refused(&config, DL_ERR_RANGE, "2 server threads; must be 1 if a GPU is the server");
    config.server_threads = 1;
    config.sync = DL_SYNC_NONE;
    check_refused(&config, DL_ERR_UNSUPPORTED, "a mode that exchanges vectors, not none");
    config.sync = DL_SYNC_ASYNC;
    config.staleness_rate = true;
    check_refused(&config, DL_ERR_UNSUPPORTED, "needs a server on the processor");
    config.staleness_rate = false;
    config.where = DL_TRAIN_WHERE_ALLREDUCE;
    check_refused(&config, DL_ERR_UNSUPPORTED,
                  "--where allreduce needs --sync allreduce or average, not async");
    config.sync = DL_SYNC_PS;
    check_refused(&config, DL_ERR_UNSUPPORTED, "not ps; servers are at cpu or gpu:N");
    config.where = DL_TRAIN_WHERE_AUTO;
    config.sync = DL_SYNC_ALLREDUCE;
    config.quantise = DL_QUANTISE_FP16;
    check_refused(&config, DL_ERR_UNSUPPORTED, "NCCL cannot sum compressed messages; allreduce");
    config.sync = DL_SYNC_AVERAGE;
    check_refused(&config, DL_ERR_UNSUPPORTED,
                  "--compress of averages are supported on the processor");
    config.sync = DL_SYNC_PS;
    config.quantise = DL_QUANTISE_FP4;
    check_refused(&config, DL_ERR_UNSUPPORTED, "fp4 messages are supported on the processor only");
    config.quantise = DL_QUANTISE_INT8;
    check_refused(&config, DL_ERR_UNSUPPORTED, "int8 messages are supported on the processor only");
    config.sync = DL_SYNC_AVERAGE;
    config.quantise = DL_QUANTISE_NONE;
    config.dispatch = DL_DISPATCH_SINGLE;
    config.server_threads = 2;
    check_refused(&config, DL_ERR_RANGE, "2 server threads; must be 1 with --dispatch single");
    config.sync = DL_SYNC_ASYNC;
    check_refused(&config, DL_ERR_UNSUPPORTED, "async needs a thread for each worker");
    config.device = NULL;
    config.sync = DL_SYNC_NONE;
    config.device_settings.math = DL_DEVICE_MATH_FP16;
    check_refused(&config, DL_ERR_UNSUPPORTED, "fp16 needs a GPU");
    config.device_settings.math = DL_DEVICE_MATH_FP32;
    check_refused(&config, DL_ERR_UNSUPPORTED, "--dispatch single needs a GPU");
    config.dispatch = DL_DISPATCH_THREADS;
    config.server_threads = 1;
    config.where = DL_TRAIN_WHERE_GPU;
    check_refused(&config, DL_ERR_UNSUPPORTED, "in host memory only");
    config = device_config(DL_SYNC_ALLREDUCE, 2);
    check_refused(&config, DL_ERR_UNSUPPORTED, "members share fake device 0");
    fake_device_set(0, -1);
    check_refused(&config, DL_ERR_UNSUPPORTED, "no fake device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_give_the_processors_bits),
        cmocka_unit_test(the_server_may_be_anywhere),
        cmocka_unit_test(messages_are_the_processors),
        cmocka_unit_test(asynchronous_workers_share_a_device),
        cmocka_unit_test(a_slowed_worker_repeats_passes),
        cmocka_unit_test(the_warm_up_has_all_operations_before_a_reduction),
        cmocka_unit_test(workers_take_devices_in_turn),
        cmocka_unit_test(records_tell_what_the_device_did),
        cmocka_unit_test(workers_take_as_many_devices_as_wanted),
        cmocka_unit_test(who_wants_steps_only_gets_no_more),
        cmocka_unit_test(copies_in_step_meet_after_each),
        cmocka_unit_test(a_device_that_breaks_ends_the_run),
        cmocka_unit_test(what_a_device_cannot_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_data, free_all);
}
