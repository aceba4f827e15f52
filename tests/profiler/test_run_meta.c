/* A trace's meta keys about its run. */
#include "tests/train_case.h"

#include <stdlib.h>

#include "common/cpu.h"
#include "profiler/run/run_meta.h"
#include "tests/doubles/fake_device.h"

#define PATH "test_run_meta.dlt"

/* mlp: 784 x 128 + 128 + 128 x 64 + 64 + 64 x 10 + 10 = 109386 parameters; adam's state is two
 * vectors of them. */
static void sizes_of_the_mlp(void **state DL_UNUSED)
{
    static const struct {
        const char *optimizer;
        double momentum;
        dl_precision precision;
        size_t parameter_bytes, state_bytes;
    } cases[] = {{"sgd", 0, DL_FLOAT, 437544, 0},
                 {"sgd", 0.9, DL_FLOAT, 437544, 437544},
                 {"rmsprop", 0, DL_DOUBLE, 875088, 875088},
                 {"adam", 0, DL_DOUBLE, 875088, 1750176}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dl_train_config config = small_config();
        config.precision = cases[i].precision;
        config.optimizer = (dl_optimizer_config){cases[i].optimizer, 0.01, cases[i].momentum};
        dl_run_sizes sizes;
        dl_error err = {0};
        assert_int_equal(dl_run_sizes_find(&config, &sizes, &err), DL_OK);
        assert_int_equal(sizes.parameters, 109386);
        assert_int_equal(sizes.parameter_bytes, cases[i].parameter_bytes);
        assert_int_equal(sizes.state_bytes, cases[i].state_bytes);
        assert_int_equal(sizes.gradient_bytes, sizes.parameter_bytes);
        /* At least the input and each layer's output; nothing of the size of the weights. */
        const size_t number_bytes = sizes.parameter_bytes / sizes.parameters;
        assert_true(sizes.activation_bytes >= number_bytes * (784 + 128 + 64 + 10));
        assert_true(sizes.activation_bytes < sizes.parameter_bytes / 10);
    }
}

static void unknown_optimizer_is_an_error(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.optimizer.name = "adma";
    dl_run_sizes sizes;
    dl_error err = {0};
    assert_int_equal(dl_run_sizes_find(&config, &sizes, &err), DL_ERR_NAME);
    assert_contains(err.text, "adam");
}

/* Automatic waiting spins exactly if there is a core for each worker. */
static void waiting_depends_on_the_cores(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.cores = 1;
    config.workers = 1;
    config.wait = DL_WAIT_AUTO;
    assert_int_equal(dl_train_cores(&config), 1);
    assert_int_equal(dl_train_wait(&config), DL_WAIT_SPIN);
    config.workers = 2;
    assert_int_equal(dl_train_wait(&config), DL_WAIT_BLOCK);
    config.wait = DL_WAIT_SPIN;
    assert_int_equal(dl_train_wait(&config), DL_WAIT_SPIN);
    config.cores = 0;
    assert_int_equal(dl_train_cores(&config), dl_cpu_count());
}

static void assert_meta(const dl_trace *trace, const char *key, const char *value)
{
    const char *found = dl_trace_meta(trace, key);
    if (found == NULL || strcmp(found, value) != 0) {
        fail_msg("%s is '%s', not '%s'", key, found != NULL ? found : "(none)", value);
    }
}

static void keys_of_a_training_run(void **state DL_UNUSED)
{
    const double slow[] = {1, 2, 1, 1.5};
    dl_train_config config = small_config();
    config.sync = DL_SYNC_AVERAGE;
    config.interval = 10;
    config.average_state = true;
    config.server_threads = 2;
    config.workers = 4;
    config.slow = slow;
    config.wait = DL_WAIT_BLOCK;
    dl_run_sizes sizes;
    dl_error err = {0};
    assert_int_equal(dl_run_sizes_find(&config, &sizes, &err), DL_OK);
    dl_trace_writer *writer = NULL;
    assert_int_equal(dl_trace_writer_open(&writer, PATH, &err), DL_OK);
    dl_run_meta_common(writer, "train", "dlprof train --x", "synthetic", &config, &sizes);
    dl_run_meta_training(writer, &config);
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    DL_SCOPED(dl_trace) trace = {0};
    assert_int_equal(dl_trace_read(&trace, PATH, &err), DL_OK);
    static const char *const pairs[][2] = {
        {"program", "dlprof"}, {"kind", "train"},        {"command", "dlprof train --x"},
        {"model", "mlp"},      {"parameters", "109386"}, {"parameter_bytes", "875088"},
        {"optimizer", "sgd"},  {"state_bytes", "0"},     {"sync", "average"},
        {"interval", "10"},    {"average_state", "1"},   {"server_threads", "2"},
        {"workers", "4"},      {"batch", "12"},          {"steps", "20"},
        {"seed", "11"},        {"slow", "1:2,3:1.5"},    {"wait", "block"},
        {"data", "synthetic"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_meta(&trace, pairs[i][0], pairs[i][1]);
    }
    static const char *const others[] = {
        "gradient_bytes", "activation_bytes", "version",   "device",
        "cores",          "clock_start_ns",   "wall_start"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_non_null(dl_trace_meta(&trace, others[i]));
    }
}

/* Returns the meta value of a run on `device`, or NULL if there is none; free() it. */
static char *captured_of(const dl_device_type *device)
{
    dl_train_config config = small_config();
    config.device = device;
    const dl_run_sizes sizes = {0};
    dl_error err = {0};
    dl_trace_writer *writer = NULL;
    assert_int_equal(dl_trace_writer_open(&writer, PATH, &err), DL_OK);
    dl_run_meta_common(writer, "train", "dlprof train", "synthetic", &config, &sizes);
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    DL_SCOPED(dl_trace) trace = {0};
    assert_int_equal(dl_trace_read(&trace, PATH, &err), DL_OK);
    const char *found = dl_trace_meta(&trace, "captured");
    return found != NULL ? dl_strdup(found) : NULL;
}

/* dlprof run delays only runs on a device; its settings come in the environment. */
static void says_whether_dlprof_run_records_it(void **state DL_UNUSED)
{
    fake_device_set(1, -1);
    assert_null(captured_of(&fake_device));
    setenv("CUDA_INJECTION64_PATH", "/somewhere/libdlprof_inject.so", 1);
    assert_null(captured_of(&fake_device)); /* the variable is another profiler's */
    setenv("DLPROF_OUTPUT", "/tmp", 1);
    setenv("DLPROF_PRESET", "light", 1);
    DL_AUTOFREE char *value = captured_of(&fake_device);
    assert_string_equal(value, "light");
    assert_null(captured_of(NULL));
    unsetenv("CUDA_INJECTION64_PATH");
    unsetenv("DLPROF_OUTPUT");
    unsetenv("DLPROF_PRESET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_the_mlp), cmocka_unit_test(unknown_optimizer_is_an_error),
        cmocka_unit_test(waiting_depends_on_the_cores), cmocka_unit_test(keys_of_a_training_run),
        cmocka_unit_test(says_whether_dlprof_run_records_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
