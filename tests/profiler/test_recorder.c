/* Recording of training runs: the content of the trace, and the statistics of the steps. */
#include <math.h>

#include "tests/train_case.h"

#include "profiler/recorder.h"
#include "profiler/run/run_meta.h"

#define PATH "test_recorder.dlt"

static dl_trace record_run(const dl_train_config *config)
{
    dl_recorder recorder;
    dl_error err = {0};
    if (dl_recorder_open(&recorder, config, PATH, &err) != DL_OK) fail_msg("%s", err.text);
    const dl_train_observer observer = dl_recorder_observer(&recorder);
    DL_SCOPED(dl_train_result) result DL_UNUSED = run(config, &observer);
    if (dl_recorder_finish(&recorder, &err) != DL_OK) fail_msg("%s", err.text);
    dl_recorder_free(&recorder);
    dl_trace trace = {0};
    if (dl_trace_read(&trace, PATH, &err) != DL_OK) fail_msg("%s", err.text);
    return trace;
}

static dl_train_config config_of(dl_sync sync, int workers)
{
    dl_train_config config = small_config();
    config.sync = sync;
    config.workers = workers;
    config.optimizer.momentum = 0.9;
    return config;
}

/* mlp has the operations dense1 relu1 dense2 relu2 dense3 loss, three of them with parameters: a
 * step is input, 6 forward, 6 backward, 3 update, step = 17 records. */
static void all_steps_and_names_are_there(void **state DL_UNUSED)
{
    dl_train_config config = config_of(DL_SYNC_AVERAGE, 2);
    config.interval = 100;
    DL_SCOPED(dl_trace) trace = record_run(&config);
    assert_true(trace.complete);
    assert_int_equal(trace.worker_count, 2);
    assert_int_equal(trace.record_count, 2 * 20 * 17);
    uint32_t next_step[2] = {0, 0}, inputs = 0, named = 0;
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *record = &trace.records[i];
        const char *name = dl_trace_name(&trace, record);
        assert_int_equal(record->samples, 6);
        if (record->kind == DL_RECORD_STEP) {
            assert_string_equal(name, "step");
            assert_int_equal(record->step, next_step[record->worker]++);
        } else if (record->kind == DL_RECORD_INPUT) {
            assert_string_equal(name, "input");
            inputs++;
        } else {
            assert_int_equal(record->kind, DL_RECORD_COMPUTE);
            assert_true(name[0] != '\0');
            named += strcmp(name, "loss") == 0;
        }
    }
    assert_int_equal(next_step[0], 20);
    assert_int_equal(next_step[1], 20);
    assert_int_equal(inputs, 40);
    assert_int_equal(named, 2 * 20 * 2); /* forward and backward */
}

/* The records of a step lie inside it, one after another. */
static void records_cover_the_step_without_overlap(void **state DL_UNUSED)
{
    for (int sync = DL_SYNC_NONE; sync <= DL_SYNC_ASYNC; sync++) {
        const dl_train_config config = config_of((dl_sync)sync, 2);
        DL_SCOPED(dl_trace) trace = record_run(&config);
        int64_t end_ns[2] = {0, 0}, first_ns[2] = {-1, -1};
        for (size_t i = 0; i < trace.record_count; i++) {
            const dl_record *record = &trace.records[i];
            const uint32_t w = record->worker;
            if (record->kind != DL_RECORD_STEP) {
                assert_true(record->start_ns >= end_ns[w]);
                end_ns[w] = record->start_ns + record->duration_ns;
                if (first_ns[w] < 0) first_ns[w] = record->start_ns;
                continue;
            }
            assert_true(first_ns[w] >= record->start_ns);
            assert_true(end_ns[w] <= record->start_ns + record->duration_ns);
            first_ns[w] = -1;
        }
    }
}

/* Bytes that 2 workers move in 20 steps, in vectors of the model's size: none moves nothing;
 * allreduce only copies the result back; ps and async push a gradient and pull parameters in each
 * step; average does so 5 times, every 4 steps, and with the state (momentum: one vector) moves
 * twice as much. Where no worker waits (none, async) the slower worker does fewer steps. */
static void copies_are_what_the_mode_must_move(void **state DL_UNUSED)
{
    static const struct {
        dl_sync sync;
        bool with_state;
        uint64_t pushes, pulls; /* of each worker */
    } cases[] = {{DL_SYNC_NONE, false, 0, 0},     {DL_SYNC_ALLREDUCE, false, 0, 20},
                 {DL_SYNC_PS, false, 20, 20},     {DL_SYNC_AVERAGE, false, 5, 5},
                 {DL_SYNC_AVERAGE, true, 10, 10}, {DL_SYNC_ASYNC, false, 20, 20}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        dl_train_config config = config_of(cases[c].sync, 2);
        config.interval = 4;
        config.average_state = cases[c].with_state;
        dl_run_sizes sizes;
        dl_error err = {0};
        assert_int_equal(dl_run_sizes_find(&config, &sizes, &err), DL_OK);
        assert_int_equal(sizes.state_bytes, sizes.parameter_bytes);
        DL_SCOPED(dl_trace) trace = record_run(&config);
        uint64_t pushed_bytes = 0, pulled_bytes = 0, steps = 0;
        for (size_t i = 0; i < trace.record_count; i++) {
            const dl_record *record = &trace.records[i];
            steps += record->kind == DL_RECORD_STEP;
            if (record->kind != DL_RECORD_COPY) continue;
            if (record->phase == DL_PHASE_PUSH) pushed_bytes += record->bytes;
            if (record->phase == DL_PHASE_PULL) pulled_bytes += record->bytes;
        }
        assert_int_equal(pushed_bytes, steps * cases[c].pushes / 20 * sizes.parameter_bytes);
        assert_int_equal(pulled_bytes, steps * cases[c].pulls / 20 * sizes.parameter_bytes);
    }
}

/* Gives the recorder a step of worker w that ends at end_ms. */
static void make_step(const dl_train_observer *observer, uint32_t w, int64_t end_ms, int64_t ms,
                      int64_t staleness)
{
    const dl_record step = {.kind = DL_RECORD_STEP,
                            .worker = w,
                            .samples = 6,
                            .staleness = staleness,
                            .start_ns = (end_ms - ms) * 1000000,
                            .duration_ns = ms * 1000000};
    observer->record(observer->user, &step);
}

/* Worker 0: 20 steps, the first 50 ms (warm-up: a tenth of 20 is 2 steps), the others 10 ms; worker
 * 1: 20 of 30 ms. Mean of means (10 + 30) / 2 = 20 ms; 6 samples per step: 6 / 0.01 + 6 / 0.03 =
 * 800 per second. Staleness 0 1 0 1 ... of worker 0, 3 of worker 1: mean (0.5 + 3) / 2 = 1.75, the
 * median of ten 0, ten 1 and twenty 3 is the 20th = 1, the 90th percentile 3. */
static void statistics_without_a_trace(void **state DL_UNUSED)
{
    const dl_train_config config = config_of(DL_SYNC_ASYNC, 2);
    DL_SCOPED(dl_recorder) recorder;
    dl_error err = {0};
    assert_int_equal(dl_recorder_open(&recorder, &config, NULL, &err), DL_OK);
    const dl_train_observer observer = dl_recorder_observer(&recorder);
    for (int s = 0; s < 20; s++) {
        make_step(&observer, 0, 40 + 10 * (s + 1), s == 0 ? 50 : 10, s % 2);
        make_step(&observer, 1, 30 * (s + 1), 30, 3);
    }
    assert_true(fabs(dl_recorder_mean_step_ns(&recorder) - 20e6) < 1);
    assert_true(fabs(dl_recorder_throughput_per_s(&recorder) - 800) < 1e-6);
    assert_int_equal(dl_recorder_step_times(&recorder).count, 2 * 18);
    assert_int_equal(dl_recorder_common_end_ns(&recorder), 240 * 1000000);
    const dl_distribution all = dl_recorder_staleness(&recorder, -1);
    assert_int_equal(all.count, 40);
    assert_true(fabs(all.mean - 1.75) < 1e-12);
    assert_true(all.p50 == 1 && all.p90 == 3);
    assert_true(fabs(dl_recorder_staleness(&recorder, 0).mean - 0.5) < 1e-12);
    assert_true(dl_recorder_staleness(&recorder, 1).mean == 3);
}

/* Memory grows with the steps done, not with those requested, and holds all of them after several
 * doublings. */
static void memory_grows_with_the_steps(void **state DL_UNUSED)
{
    enum { DONE = 300000 };
    dl_train_config config = config_of(DL_SYNC_ASYNC, 2);
    config.steps = UINT32_MAX;
    DL_SCOPED(dl_recorder) recorder;
    dl_error err = {0};
    assert_int_equal(dl_recorder_open(&recorder, &config, NULL, &err), DL_OK);
    assert_true(recorder.workers[0].capacity < DONE / 4);
    const dl_train_observer observer = dl_recorder_observer(&recorder);
    for (int s = 0; s < DONE; s++)
        make_step(&observer, 1, s + 1, 1, s % 3);
    assert_int_equal(dl_recorder_steps_done(&recorder, 0), 0);
    assert_int_equal(dl_recorder_steps_done(&recorder, 1), DONE);
    assert_true(recorder.workers[1].capacity < 2 * DONE);
    for (int s = 0; s < DONE; s++) {
        const dl_recorder_step *step = &recorder.workers[1].steps[s];
        assert_true(step->end_ns == (s + 1) * INT64_C(1000000) && step->staleness == s % 3);
    }
    assert_true(dl_recorder_staleness(&recorder, 1).mean == 1);
}

static void synchronous_modes_have_no_staleness(void **state DL_UNUSED)
{
    const dl_train_config config = config_of(DL_SYNC_PS, 2);
    DL_SCOPED(dl_recorder) recorder;
    dl_error err = {0};
    assert_int_equal(dl_recorder_open(&recorder, &config, NULL, &err), DL_OK);
    const dl_train_observer observer = dl_recorder_observer(&recorder);
    DL_SCOPED(dl_train_result) result DL_UNUSED = run(&config, &observer);
    assert_int_equal(dl_recorder_staleness(&recorder, -1).count, 0);
    assert_int_equal(dl_recorder_step_times(&recorder).count, 2 * 18);
}

/* Nothing stays open when the trace cannot be created or the model is unknown. */
static void open_reports_errors(void **state DL_UNUSED)
{
    dl_train_config config = config_of(DL_SYNC_NONE, 1);
    DL_SCOPED(dl_recorder) recorder = {0};
    dl_error err = {0};
    assert_int_equal(dl_recorder_open(&recorder, &config, "no_such_folder/x.dlt", &err), DL_ERR_IO);
    config.model = "lanet";
    assert_int_equal(dl_recorder_open(&recorder, &config, NULL, &err), DL_ERR_NAME);
    assert_contains(err.text, "lenet");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_steps_and_names_are_there),
        cmocka_unit_test(records_cover_the_step_without_overlap),
        cmocka_unit_test(copies_are_what_the_mode_must_move),
        cmocka_unit_test(statistics_without_a_trace),
        cmocka_unit_test(memory_grows_with_the_steps),
        cmocka_unit_test(synchronous_modes_have_no_staleness),
        cmocka_unit_test(open_reports_errors),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
