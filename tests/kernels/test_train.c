/* Training with replicas: equal results of the sync modes, cores, errors, accuracy. */
#include <math.h>
#include <stdlib.h>

#include "tests/near.h"
#include "tests/train_case.h"

#include "common/cpu.h"
#include "kernels/train/train.h"

/* The linker redirects the library's pinning here (--wrap): tests see the workers' cores, and can
 * refuse one. */
dl_status __real_dl_cpu_pin(int index, dl_error *err);
dl_status __wrap_dl_cpu_pin(int index, dl_error *err);
static _Atomic int refused_core = -1;
static _Atomic unsigned pinned_cores;

dl_status __wrap_dl_cpu_pin(int index, dl_error *err)
{
    if (index == refused_core) return dl_error_set(err, DL_ERR_SYSTEM, "core %d refused", index);
    pinned_cores |= 1u << index;
    return __real_dl_cpu_pin(index, err);
}

/* One worker's average is over one vector, its slices are the whole, its gradients are never stale:
 * every mode must give exactly the result of `none`, for every optimizer and precision. */
static void one_worker_is_the_same_in_all_modes(void **state DL_UNUSED)
{
    for (int optimizer = 0; dl_optimizer_names[optimizer] != NULL; optimizer++) {
        for (int precision = DL_FLOAT; precision <= DL_DOUBLE; precision++) {
            dl_train_config config = small_config();
            config.precision = (dl_precision)precision;
            config.optimizer = (dl_optimizer_config){dl_optimizer_names[optimizer], 0.01,
                                                     optimizer == 0 ? 0.9 : 0};
            DL_SCOPED(dl_train_result) none = run(&config, NULL);
            for (int sync = DL_SYNC_ALLREDUCE; sync <= DL_SYNC_SOFTSYNC; sync++) {
                config.sync = (dl_sync)sync;
                config.interval = sync == DL_SYNC_AVERAGE ? 3 : 1;
                config.average_state = sync == DL_SYNC_AVERAGE;
                DL_SCOPED(dl_train_result) other = run(&config, NULL);
                if (!same_bits(&none, &other)) {
                    fail_msg("%s differs from none with %s", dl_sync_names[sync],
                             dl_optimizer_names[optimizer]);
                }
                assert_true(none.last_loss == other.last_loss);
            }
        }
    }
}

/* Trains with `workers` workers and with one on the whole batch; the parameters must agree to
 * rounding: gradients of equal shards average to that of the batch. 20 steps in double stay within
 * 1e-10 unless a rectifier's input is within rounding of 0. */
static void check_equals_one_worker(dl_train_config config, int workers)
{
    dl_train_config alone = config;
    alone.sync = DL_SYNC_NONE;
    alone.workers = 1;
    DL_SCOPED(dl_train_result) expected = run(&alone, NULL);
    config.workers = workers;
    DL_SCOPED(dl_train_result) result = run(&config, NULL);
    assert_true(near_all(result.parameters, expected.parameters, expected.parameter_count, 1e-10));
    assert_true(near_scaled(result.first_loss, expected.first_loss, 0, 1e-12));
    assert_true(near_scaled(result.last_loss, expected.last_loss, 0, 1e-10));
}

static void gradient_averaging_equals_one_worker(void **state DL_UNUSED)
{
    for (int workers = 2; workers <= 4; workers++) {
        dl_train_config config = small_config();
        config.optimizer.momentum = 0.9;
        config.sync = DL_SYNC_ALLREDUCE;
        check_equals_one_worker(config, workers);
        config.sync = DL_SYNC_PS;
        for (config.server_threads = 1; config.server_threads <= workers; config.server_threads++) {
            check_equals_one_worker(config, workers);
        }
    }
    dl_train_config adam = small_config();
    adam.optimizer = (dl_optimizer_config){.name = "adam", .learning_rate = 1e-3};
    adam.sync = DL_SYNC_PS;
    check_equals_one_worker(adam, 2);
}

/* mean(p - r g_w) = p - r mean(g_w); with momentum the same holds for the means of p and v, whether
 * the states are averaged or kept (everything is linear). */
static void averaging_every_step_equals_one_worker(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.sync = DL_SYNC_AVERAGE;
    check_equals_one_worker(config, 2);
    config.server_threads = 3;
    check_equals_one_worker(config, 4);
    config.optimizer.momentum = 0.9;
    check_equals_one_worker(config, 3);
    config.average_state = true;
    check_equals_one_worker(config, 3);
}

/* An outer optimizer with rate 1 and no momentum is plain averaging, bit for bit: every step or
 * not, by one thread or several, with the workers' states kept or averaged. */
static void a_plain_outer_optimizer_is_averaging(void **state DL_UNUSED)
{
    for (int i = 0; i < 16; i++) {
        dl_train_config config = small_config();
        config.precision = i & 1 ? DL_FLOAT : DL_DOUBLE;
        config.optimizer.momentum = 0.9;
        config.sync = DL_SYNC_AVERAGE;
        config.workers = 3;
        config.interval = i & 2 ? 1 : 4;
        config.average_state = i & 4;
        config.server_threads = i & 8 ? 3 : 1;
        DL_SCOPED(dl_train_result) plain = run(&config, NULL);
        for (int kind = DL_OUTER_SGD; kind <= DL_OUTER_NESTEROV; kind++) {
            config.outer = (dl_outer_config){(dl_outer)kind, 1, 0};
            DL_SCOPED(dl_train_result) outer = run(&config, NULL);
            assert_true(same_bits(&plain, &outer));
        }
    }
}

/* If one worker averages every step, the pseudo-gradient is its rate times its gradient: so an
 * outer SGD of rate 1 and momentum m is SGD with momentum m. Outer rate r without momentum is SGD
 * of r times the rate. Momentum or another rate does change the result. */
static void an_outer_optimizer_of_single_steps_is_sgd(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.sync = DL_SYNC_AVERAGE;
    config.outer = (dl_outer_config){DL_OUTER_SGD, 1, 0.75};
    DL_SCOPED(dl_train_result) block = run(&config, NULL);
    config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.5, 0};
    DL_SCOPED(dl_train_result) half = run(&config, NULL);
    config.outer.kind = DL_OUTER_NONE;
    config.optimizer.momentum = 0.75;
    DL_SCOPED(dl_train_result) momentum = run(&config, NULL);
    config.optimizer = (dl_optimizer_config){.name = "sgd", .learning_rate = 0.025};
    DL_SCOPED(dl_train_result) slower = run(&config, NULL);
    const size_t count = block.parameter_count;
    assert_true(near_all(block.parameters, momentum.parameters, count, 1e-12));
    assert_true(near_all(half.parameters, slower.parameters, count, 1e-12));
    assert_false(near_all(half.parameters, block.parameters, count, 1e-6));
}

/* DiLoCo's optimizer, in slices by as many threads as workers, or by one thread: equal bits, which
 * differ from those of SGD with the same momentum. */
static void outer_slices_change_nothing(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.sync = DL_SYNC_AVERAGE;
    config.workers = 4;
    config.interval = 5;
    config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.9};
    DL_SCOPED(dl_train_result) one = run(&config, NULL);
    config.server_threads = 4;
    DL_SCOPED(dl_train_result) four = run(&config, NULL);
    config.outer.kind = DL_OUTER_SGD;
    DL_SCOPED(dl_train_result) sgd = run(&config, NULL);
    assert_true(same_bits(&one, &four));
    assert_false(near_all(one.parameters, sgd.parameters, one.parameter_count, 1e-6));
}

static void outer_settings_are_checked(void **state DL_UNUSED)
{
    dl_train_result result = {0};
    dl_error err = {0};
    static const dl_outer_config bad[] = {
        {DL_OUTER_SGD, 0, 0}, {DL_OUTER_SGD, (double)NAN, 0}, {DL_OUTER_NESTEROV, 1, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dl_train_config config = small_config();
        config.sync = DL_SYNC_AVERAGE;
        config.outer = bad[i];
        assert_int_equal(dl_train_run(&config, &data, NULL, &result, &err), DL_ERR_RANGE);
    }
    dl_train_config config = small_config();
    config.sync = DL_SYNC_PS;
    config.outer.kind = DL_OUTER_NESTEROV;
    assert_int_equal(dl_train_run(&config, &data, NULL, &result, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "--outer needs --sync average or async_average, not ps");
}

/* The checks above can fail: without exchange, with a longer interval, and where Adam's moments are
 * kept instead of averaged, the results differ. */
static void other_settings_do_differ(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    DL_SCOPED(dl_train_result) one = run(&config, NULL);
    config.workers = 2;
    DL_SCOPED(dl_train_result) none = run(&config, NULL);
    config.sync = DL_SYNC_AVERAGE;
    config.interval = 4;
    DL_SCOPED(dl_train_result) rarely = run(&config, NULL);
    assert_false(near_all(none.parameters, one.parameters, one.parameter_count, 1e-6));
    assert_false(near_all(rarely.parameters, one.parameters, one.parameter_count, 1e-6));

    config.interval = 1;
    config.optimizer = (dl_optimizer_config){.name = "adam", .learning_rate = 1e-3};
    DL_SCOPED(dl_train_result) kept = run(&config, NULL);
    config.average_state = true;
    DL_SCOPED(dl_train_result) averaged = run(&config, NULL);
    assert_false(near_all(kept.parameters, averaged.parameters, one.parameter_count, 1e-6));
}

/* System: batches as large as the set, on the set and on the set reversed. Expectation: equal to
 * rounding, since an epoch has every sample exactly once; with a smaller batch they differ. */
static void an_epoch_has_every_sample_once(void **state DL_UNUSED)
{
    DL_SCOPED(dl_data_set) reversed;
    dl_data_set_synthetic(&reversed, (dl_shape){28, 28, 1}, 10, SAMPLES, 3);
    for (size_t i = 0; i < SAMPLES; i++) {
        reversed.labels[i] = data.labels[SAMPLES - 1 - i];
        memcpy(reversed.pixels + i * 784, data.pixels + (SAMPLES - 1 - i) * 784, 784);
    }
    for (int batch = SAMPLES; batch >= SAMPLES - 10; batch -= 10) {
        dl_train_config config = small_config();
        config.batch = batch;
        config.workers = 2;
        config.sync = DL_SYNC_ALLREDUCE;
        DL_SCOPED(dl_train_result) forth = run(&config, NULL), back = {0};
        dl_error err = {0};
        assert_int_equal(dl_train_run(&config, &reversed, NULL, &back, &err), DL_OK);
        const bool equal = near_all(forth.parameters, back.parameters, forth.parameter_count, 1e-9);
        assert_int_equal(equal, batch == SAMPLES);
    }
}

static void count_record(void *user, const dl_record *fields DL_UNUSED)
{
    (*(_Atomic int *)user)++;
}

/* Timing, waiting and observing change no result. */
static void waiting_and_watching_change_nothing(void **state DL_UNUSED)
{
    for (int sync = DL_SYNC_ALLREDUCE; sync <= DL_SYNC_AVERAGE; sync++) {
        dl_train_config config = small_config();
        config.workers = 2;
        config.sync = (dl_sync)sync;
        config.wait = DL_WAIT_SPIN;
        DL_SCOPED(dl_train_result) spin = run(&config, NULL);
        config.wait = DL_WAIT_BLOCK;
        _Atomic int records = 0;
        const dl_train_observer observer = {.user = (void *)&records, .record = count_record};
        DL_SCOPED(dl_train_result) block = run(&config, &observer);
        assert_true(records > 0);
        assert_true(same_bits(&spin, &block));
    }
}

/* Asks the run to stop at the end of step 4 of the first worker that reports it. */
static void stop_in_step_4(void *user, const dl_record *fields)
{
    if (fields->kind == DL_RECORD_STEP && fields->step == 4) *(atomic_bool *)user = true;
}

/* A stopped run is a shorter run: workers that exchange have all done the same steps, up to an
 * exchange, and have the result of a run of that many steps. */
static void stop_ends_at_an_exchange(void **state DL_UNUSED)
{
    for (int sync = DL_SYNC_NONE; sync <= DL_SYNC_SOFTSYNC; sync++) {
        atomic_bool stop = false;
        const dl_train_observer observer = {.user = &stop, .record = stop_in_step_4};
        dl_train_config config = small_config();
        config.workers = 3;
        config.steps = UINT32_MAX; /* more than could be allocated in advance */
        config.sync = (dl_sync)sync;
        config.interval = 7;
        config.stop = &stop;
        DL_SCOPED(dl_train_result) stopped = run(&config, &observer);
        const int64_t steps = stopped.steps_done[0];
        const bool ragged = sync == DL_SYNC_NONE || sync >= DL_SYNC_ASYNC;
        for (int w = 0; w < 3; w++) {
            const int64_t done = stopped.steps_done[w];
            assert_true(done >= 1 && done < config.steps);
            assert_true(ragged || done == steps);
        }
        if (sync == DL_SYNC_AVERAGE) assert_int_equal(steps % config.interval, 0);
        if (!ragged) {
            config.stop = NULL;
            config.steps = steps;
            DL_SCOPED(dl_train_result) shorter = run(&config, NULL);
            assert_true(same_bits(&stopped, &shorter));
        }
    }
}

/* More steps than are allocated at the start: their durations are within the run. */
static void durations_of_many_steps_are_kept(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.precision = DL_FLOAT;
    config.batch = 1;
    config.steps = 9000;
    DL_SCOPED(dl_train_result) result = run(&config, NULL);
    assert_int_equal(result.worker_count, 1);
    assert_int_equal(result.steps_done[0], config.steps);
    double sum_s = 0;
    for (int64_t s = 0; s < config.steps; s++) {
        assert_true(result.step_ns[0][s] >= 0);
        sum_s += 1e-9 * (double)result.step_ns[0][s];
    }
    assert_true(sum_s <= result.seconds + 1e-9 && sum_s > 0);
}

/* A stop changes nothing if the run would end before the next exchange anyway; a stop from the
 * start still lets the first step be done. */
static void stop_does_not_prolong(void **state DL_UNUSED)
{
    const atomic_bool stop = true;
    dl_train_config config = small_config();
    config.workers = 2;
    config.sync = DL_SYNC_AVERAGE;
    config.interval = 50;
    config.stop = &stop;
    dl_train_result result = run(&config, NULL);
    assert_int_equal(result.steps_done[0], config.steps);
    assert_int_equal(result.steps_done[1], config.steps);
    dl_train_result_free(&result);
    config.sync = DL_SYNC_NONE;
    result = run(&config, NULL);
    assert_int_equal(result.steps_done[0], 1);
    dl_train_result_free(&result);
}

static void workers_go_to_their_cores(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.steps = 1;
    config.workers = 4;
    config.cores = 1;
    config.first_core = 1; /* (1 + w) mod 1 = 0 */
    pinned_cores = 0;
    dl_train_result result = run(&config, NULL);
    assert_int_equal(pinned_cores, 1);
    dl_train_result_free(&result);
    if (dl_cpu_count() < 2) skip();
    config.workers = 1;
    config.cores = 2;
    pinned_cores = 0;
    result = run(&config, NULL); /* (1 + 0) mod 2 = 1 */
    assert_int_equal(pinned_cores, 2);
    dl_train_result_free(&result);
    config.threads = 2;
    pinned_cores = 0;
    result = run(&config, NULL); /* 1 and (1 + 1) mod 2 = 0 */
    assert_int_equal(pinned_cores, 3);
    dl_train_result_free(&result);
}

/* Also with more threads than cores, which then block while waiting. */
static void threads_of_a_worker_change_nothing(void **state DL_UNUSED)
{
    for (int sync = DL_SYNC_NONE; sync <= DL_SYNC_PS; sync++) {
        dl_train_config config = small_config();
        config.sync = (dl_sync)sync;
        config.workers = sync == DL_SYNC_NONE ? 1 : 2;
        config.optimizer.momentum = 0.9;
        DL_SCOPED(dl_train_result) one = run(&config, NULL);
        for (config.threads = 2; config.threads <= 3; config.threads++) {
            DL_SCOPED(dl_train_result) several = run(&config, NULL);
            assert_true(same_bits(&one, &several));
            assert_true(one.last_loss == several.last_loss);
        }
    }
}

static void event_names_are_operations_then_ours(void **state)
{
    (void)state;
    static const char *const expected[] = {"fc1",        "relu1",    "fc2",        "relu2",
                                           "fc3",        "loss",     "input",      "gradients",
                                           "parameters", "state",    "barrier",    "lock",
                                           "slowdown",   "quantise", "dequantise", "step"};
    dl_train_config config = small_config();
    const char **names = NULL;
    int count = 0;
    dl_error err = {0};
    assert_int_equal(dl_train_event_names(&config, &names, &count, &err), DL_OK);
    assert_int_equal(count, 16);
    for (int i = 0; i < count; i++)
        assert_string_equal(names[i], expected[i]);
    free(names);
    config.model = "lenett";
    assert_int_equal(dl_train_event_names(&config, &names, &count, &err), DL_ERR_NAME);
    assert_contains(err.text, "lenet");
}

static void check_refused(const dl_train_config *config, const dl_data_set *set, dl_status code,
                          const char *text)
{
    dl_train_result result = {.parameter_count = 99};
    dl_error err = {0};
    assert_int_equal(dl_train_run(config, set, NULL, &result, &err), code);
    assert_int_equal(err.code, code);
    assert_contains(err.text, text);
    assert_int_equal(result.parameter_count, 99);
    assert_null(result.parameters);
}

/* Each row changes one thing of a good configuration of 2 workers. */
static void bad_settings_are_errors(void **state DL_UNUSED)
{
    const double too_fast[] = {1, 0.5}, not_a_number[] = {NAN, 1};
    dl_train_config good = small_config();
    good.workers = 2;
#define REFUSED(code, text, ...)                \
    do {                                        \
        dl_train_config bad = good;             \
        __VA_ARGS__;                            \
        check_refused(&bad, &data, code, text); \
    } while (0)
    REFUSED(DL_ERR_RANGE, "--workers: '0' is out of range (1..256)", bad.workers = 0);
    REFUSED(DL_ERR_RANGE, "--workers: '257'", bad.workers = 257);
    REFUSED(DL_ERR_RANGE, "batch 13 cannot be shared equally by 2 workers", bad.batch = 13);
    REFUSED(DL_ERR_RANGE, "--batch: '0'", bad.batch = 0);
    REFUSED(DL_ERR_RANGE, "--threads: '0'", bad.threads = 0);
    REFUSED(DL_ERR_RANGE, "129 threads for each of 2 workers; must be at most 256 in total",
            bad.threads = 129);
    REFUSED(DL_ERR_RANGE, "first core -1", bad.first_core = -1);
    REFUSED(DL_ERR_RANGE, "-1 cores; this process may use 1 to", bad.cores = -1);
    REFUSED(DL_ERR_RANGE, "cores; this process may use 1 to", bad.cores = dl_cpu_count() + 1);
    REFUSED(DL_ERR_RANGE, "slowdown factor 0.5 of worker 1", bad.slow = too_fast);
    REFUSED(DL_ERR_RANGE, "slowdown factor nan of worker 0", bad.slow = not_a_number);
    REFUSED(DL_ERR_RANGE, "uniform spread of 0.6; must be above 0 and at most 0.57735",
            bad.work = (dl_train_work){DL_TRAIN_WORK_UNIFORM, 0.6});
    REFUSED(DL_ERR_RANGE, "lognormal spread of 0;", bad.work.kind = DL_TRAIN_WORK_LOGNORMAL);
    REFUSED(DL_ERR_RANGE, "two-point spread of nan;",
            bad.work = (dl_train_work){DL_TRAIN_WORK_TWO_POINT, NAN});
    REFUSED(DL_ERR_RANGE, "--steps: '0'", bad.steps = 0);
    REFUSED(DL_ERR_RANGE, "--steps: '4294967296' is out of range (1..4294967295)",
            bad.steps = 1LL << 32);
    REFUSED(DL_ERR_RANGE, "--interval: '0'", bad.sync = DL_SYNC_AVERAGE, bad.interval = 0);
    REFUSED(DL_ERR_RANGE, "--server-threads: '0'", bad.sync = DL_SYNC_AVERAGE,
            bad.server_threads = 0);
    REFUSED(DL_ERR_RANGE, "3 server threads; must be 1 to 2", bad.sync = DL_SYNC_PS,
            bad.server_threads = 3);
    REFUSED(DL_ERR_RANGE, "softsync's n is 3; must be 1 to 2", bad.sync = DL_SYNC_SOFTSYNC,
            bad.softsync_n = 3);
    REFUSED(DL_ERR_RANGE, "--n: '0'", bad.sync = DL_SYNC_SOFTSYNC, bad.softsync_n = 0);
    REFUSED(DL_ERR_UNSUPPORTED, "--bound needs --sync softsync or async_average, not async",
            bad.sync = DL_SYNC_ASYNC, bad.bound = 0);
    REFUSED(DL_ERR_RANGE, "--bound: '-2'", bad.sync = DL_SYNC_SOFTSYNC, bad.bound = -2);
    REFUSED(DL_ERR_UNSUPPORTED, "--staleness-rate needs --sync async or softsync, not allreduce",
            bad.sync = DL_SYNC_ALLREDUCE, bad.staleness_rate = true);
    REFUSED(DL_ERR_UNSUPPORTED, "needs --optimizer sgd", bad.sync = DL_SYNC_ASYNC,
            bad.staleness_rate = true, bad.optimizer.name = "adam");
    REFUSED(DL_ERR_NAME, "unknown model 'lenot'", bad.model = "lenot");
    REFUSED(DL_ERR_NAME, "unknown optimizer 'adma'", bad.optimizer.name = "adma");
    REFUSED(DL_ERR_RANGE, "learning rate", bad.optimizer.learning_rate = -1);
#undef REFUSED
}

static void data_must_fit_the_model(void **state DL_UNUSED)
{
    const dl_train_config config = small_config();
    dl_data_set other = data;
    other.sample_bytes = 783;
    check_refused(&config, &other, DL_ERR_DATA,
                  "783 values in 10 classes, but model 'mlp' takes "
                  "784 in 10");
    other = data;
    other.classes = 9;
    check_refused(&config, &other, DL_ERR_DATA, "784 values in 9 classes");
    other = data;
    other.count = 0;
    check_refused(&config, &other, DL_ERR_DATA, "has 0 samples");
}

/* Before a run, settings and set are refused with the same errors as by the run. */
static void check_says_what_the_run_would(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    dl_data_set other = data;
    dl_error err = {0};
    assert_int_equal(dl_train_check(&config, &data, &err), DL_OK);
    other.classes = 9;
    assert_int_equal(dl_train_check(&config, &other, &err), DL_ERR_DATA);
    assert_contains(err.text, "784 values in 9 classes");
    config.model = "lenot";
    assert_int_equal(dl_train_check(&config, &data, &err), DL_ERR_NAME);
    config.batch = 13;
    config.workers = 2;
    assert_int_equal(dl_train_check(&config, &data, &err), DL_ERR_RANGE);
    assert_contains(err.text, "batch 13 cannot be shared equally by 2 workers");
}

/* A worker that cannot be set up must not leave the others waiting for it. */
static void a_failing_worker_ends_the_run(void **state DL_UNUSED)
{
    if (dl_cpu_count() < 2) skip();
    dl_train_config config = small_config();
    config.workers = 2;
    config.cores = 2;
    config.sync = DL_SYNC_ALLREDUCE;
    refused_core = 1;
    check_refused(&config, &data, DL_ERR_SYSTEM, "thread 1: core 1 refused");
    refused_core = -1;
}

/* The synthetic set can be learnt: 500 images and 60 steps of 50 suffice for another draw of it,
 * 333 images (not a multiple of the prediction batch), where guessing gives 0.1. */
static void accuracy_counts_what_is_right(void **state DL_UNUSED)
{
    DL_SCOPED(dl_data_set) seen, unseen;
    dl_data_set_synthetic(&seen, (dl_shape){28, 28, 1}, 10, 500, 3);
    dl_data_set_synthetic(&unseen, (dl_shape){28, 28, 1}, 10, 333, 4);
    dl_train_config config = small_config();
    config.precision = DL_FLOAT;
    config.batch = 50;
    double accuracy[2] = {-1, -1};
    dl_error err = {0};
    for (int i = 0; i < 2; i++) {
        dl_train_result result = {0};
        config.steps = i == 0 ? 1 : 60;
        assert_int_equal(dl_train_run(&config, &seen, NULL, &result, &err), DL_OK);
        assert_int_equal(dl_train_accuracy("mlp", result.parameters, &unseen, &accuracy[i], &err),
                         DL_OK);
        assert_true(i == 0 || result.last_loss < 0.5 * result.first_loss);
        dl_train_result_free(&result);
        assert_null(result.parameters);
    }
    if (!(accuracy[0] < 0.6 && accuracy[1] > 0.9)) {
        fail_msg("accuracy %g, then %g", accuracy[0], accuracy[1]);
    }
    assert_true(near_scaled(accuracy[1] * 333, round(accuracy[1] * 333), 0, 1e-12));
}

/* Numbers of samples in 20,000 steps of two workers, 100 on average: mean and coefficient of
 * variation within five standard errors, none above the maximum, workers independent. The larger of
 * two is m (1 + sqrt(3) v / 3) on average with uniform numbers, m (1 + v / 2) with two points, and
 * m 2 Phi(s / sqrt 2) with lognormal ones, s^2 = ln(1 + v^2). */
static void numbers_of_samples_are_drawn(void **state DL_UNUSED)
{
    enum { STEPS = 20000 };
    const struct {
        dl_train_work work;
        double larger;
    } cases[] = {{{DL_TRAIN_WORK_UNIFORM, 0.4}, 1 + 0.4 / sqrt(3)},
                 {{DL_TRAIN_WORK_TWO_POINT, 0.6}, 1.3},
                 {{DL_TRAIN_WORK_LOGNORMAL, 0.5}, 1 + erf(sqrt(log(1.25)) / 2)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_train_config config = small_config();
        config.workers = 2;
        config.batch = 200;
        config.work = cases[i].work;
        const double v = config.work.spread;
        double sum = 0, squares = 0, product = 0, larger = 0;
        for (int64_t s = 0; s < STEPS; s++) {
            const int a = dl_train_step_samples(&config, 0, s);
            const int b = dl_train_step_samples(&config, 1, s);
            assert_true(a >= 1 && a <= dl_train_most_samples(&config));
            const double x = a / 100.0 - 1, y = b / 100.0 - 1;
            sum += x + y;
            squares += x * x + y * y;
            product += x * y;
            larger += fmax(x, y);
        }
        assert_true(fabs(sum / (2 * STEPS)) < 5 * v / sqrt(2 * STEPS));
        assert_true(near_scaled(sqrt(squares / (2 * STEPS)), v, 0, 0.02));
        assert_true(fabs(product / STEPS) < 5 * v * v / sqrt(STEPS));
        assert_true(fabs(1 + larger / STEPS - cases[i].larger) < 5 * v / sqrt(STEPS));
        assert_int_equal(dl_train_step_samples(&config, 1, 77),
                         dl_train_step_samples(&config, 1, 77));
        dl_train_config other = config;
        other.seed++;
        int same = 0;
        for (int64_t s = 0; s < 100; s++)
            same += dl_train_step_samples(&config, 0, s) == dl_train_step_samples(&other, 0, s);
        assert_true(same < 80);
    }
}

/* Stores the samples of each step, by worker. */
static void note_samples(void *user, const dl_record *fields)
{
    int *samples = user;
    if (fields->kind == DL_RECORD_STEP)
        samples[fields->worker * 20 + fields->step] = (int)fields->samples;
}

/* Records and the throughput count the samples drawn; the run differs from one without drawing, and
 * is reproducible. */
static void drawn_samples_are_trained_on(void **state DL_UNUSED)
{
    int seen[2 * 20];
    const dl_train_observer observer = {.user = seen, .record = note_samples};
    dl_train_config config = small_config();
    config.workers = 2;
    config.sync = DL_SYNC_ALLREDUCE;
    DL_SCOPED(dl_train_result) equal = run(&config, NULL);
    config.work = (dl_train_work){DL_TRAIN_WORK_UNIFORM, 0.5};
    DL_SCOPED(dl_train_result) drawn = run(&config, &observer), again = run(&config, NULL);
    double sum = 0;
    for (int w = 0; w < 2; w++) {
        for (int s = 0; s < 20; s++) {
            assert_int_equal(seen[w * 20 + s], dl_train_step_samples(&config, w, s));
            sum += seen[w * 20 + s];
        }
    }
    assert_true(sum != 240);
    assert_true(near_scaled(drawn.samples_per_s * drawn.seconds, sum, 0, 1e-9));
    assert_false(same_bits(&equal, &drawn));
    assert_true(same_bits(&again, &drawn));
}

static void accuracy_needs_model_and_data(void **state DL_UNUSED)
{
    const double parameters[1] = {0};
    double accuracy = -1;
    dl_error err = {0};
    assert_int_equal(dl_train_accuracy("mpl", parameters, &data, &accuracy, &err), DL_ERR_NAME);
    dl_data_set other = data;
    other.sample_bytes = 1;
    assert_int_equal(dl_train_accuracy("mlp", parameters, &other, &accuracy, &err), DL_ERR_DATA);
    assert_true(accuracy < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_is_the_same_in_all_modes),
        cmocka_unit_test(gradient_averaging_equals_one_worker),
        cmocka_unit_test(averaging_every_step_equals_one_worker),
        cmocka_unit_test(a_plain_outer_optimizer_is_averaging),
        cmocka_unit_test(an_outer_optimizer_of_single_steps_is_sgd),
        cmocka_unit_test(outer_slices_change_nothing),
        cmocka_unit_test(outer_settings_are_checked),
        cmocka_unit_test(other_settings_do_differ),
        cmocka_unit_test(an_epoch_has_every_sample_once),
        cmocka_unit_test(waiting_and_watching_change_nothing),
        cmocka_unit_test(stop_ends_at_an_exchange),
        cmocka_unit_test(durations_of_many_steps_are_kept),
        cmocka_unit_test(stop_does_not_prolong),
        cmocka_unit_test(workers_go_to_their_cores),
        cmocka_unit_test(threads_of_a_worker_change_nothing),
        cmocka_unit_test(event_names_are_operations_then_ours),
        cmocka_unit_test(bad_settings_are_errors),
        cmocka_unit_test(data_must_fit_the_model),
        cmocka_unit_test(check_says_what_the_run_would),
        cmocka_unit_test(a_failing_worker_ends_the_run),
        cmocka_unit_test(numbers_of_samples_are_drawn),
        cmocka_unit_test(drawn_samples_are_trained_on),
        cmocka_unit_test(accuracy_counts_what_is_right),
        cmocka_unit_test(accuracy_needs_model_and_data),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
