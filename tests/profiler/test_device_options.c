/* The options of `dlprof train` that choose a device, and a trace's meta keys about it. */
#include <stdlib.h>
#include <unistd.h>

#include "profiler/run/run_meta.h"
#include "profiler/workload_options.h"
#include "tests/check.h"
#include "tests/doubles/fake_device.h"

static void the_processor_is_the_default(void **state DL_UNUSED)
{
    const dl_device_options options = dl_device_options_default();
    dl_train_config config = dl_train_default_config();
    dl_error err = {0};
    assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_OK);
    assert_null(config.device);
    assert_int_equal(config.dispatch, DL_DISPATCH_THREADS);
    assert_false(config.device_settings.pageable);
    assert_int_equal(config.device_settings.math, DL_DEVICE_MATH_FP32);
    assert_int_equal(config.where, DL_TRAIN_WHERE_AUTO);
    assert_int_equal(config.quantise, DL_QUANTISE_NONE);
}

static void options_reach_the_configuration(void **state DL_UNUSED)
{
    dl_device_options options = dl_device_options_default();
    dl_option table[DL_DEVICE_OPTION_COUNT];
    dl_device_options_table(&options, table);
    const dl_command command = {.program = "test",
                                .positional = "",
                                .summary = "Test.",
                                .options = table,
                                .option_count = DL_DEVICE_OPTION_COUNT};
    char name[] = "test", dispatch[] = "--dispatch=single", memory[] = "--host-memory=pageable",
         where[] = "--where=gpu:2", compress[] = "--compress=1bit";
    char *argv[] = {name, dispatch, memory, where, compress, NULL};
    dl_options_action action = DL_OPTIONS_DONE;
    dl_error err = {0};
    assert_int_equal(dl_options_parse(&command, 5, argv, NULL, &action, &err), DL_OK);
    dl_train_config config = dl_train_default_config();
    assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_OK);
    assert_int_equal(config.dispatch, DL_DISPATCH_SINGLE);
    assert_true(config.device_settings.pageable);
    assert_int_equal(config.where, DL_TRAIN_WHERE_GPU);
    assert_int_equal(config.where_device, 2);
    assert_int_equal(config.quantise, DL_QUANTISE_1BIT);
    config.first_device = 1;
    config.device = &fake_device;
    DL_AUTOFREE char *text = dl_device_where_text(&config);
    assert_string_equal(text, "gpu:2");
}

static void places_are_checked(void **state DL_UNUSED)
{
    static const char *const good[] = {"auto", "cpu", "gpu", "allreduce"};
    static const char *const bad[] = {"", "gpu:", "gpu:-1", "gpu:x", "gpus", "host"};
    dl_device_options options = dl_device_options_default();
    dl_train_config config = dl_train_default_config();
    dl_error err = {0};
    for (int i = 0; i < 4; i++) {
        options.where = good[i];
        assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_OK);
        assert_int_equal(config.where, i);
    }
    for (int i = 0; i < 6; i++) {
        options.where = bad[i];
        assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_ERR_USAGE);
        assert_contains(err.text, "must be auto, cpu, gpu");
    }
    config.device = &fake_device;
    config.where = DL_TRAIN_WHERE_AUTO;
    static const char *const expected[] = {"cpu", "allreduce", "cpu", "cpu", "cpu"};
    for (dl_sync sync = DL_SYNC_NONE; sync <= DL_SYNC_ASYNC; sync++) {
        config.sync = sync;
        DL_AUTOFREE char *text = dl_device_where_text(&config);
        assert_string_equal(text, expected[sync]);
    }
}

static void bad_devices_are_refused(void **state DL_UNUSED)
{
    dl_device_options options = dl_device_options_default();
    dl_train_config config = dl_train_default_config();
    dl_error err = {0};
    options.device = "cuda:one";
    assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_ERR_USAGE);
    options.device = "cuda"; /* the tests' folder has no device library */
    assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "; --device cpu uses the processor");
    assert_null(config.device);
}

static void check_meta(const dl_train_config *config, const char *count, const char *shared)
{
    char path[] = "device_options_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    dl_trace_writer *writer = NULL;
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_device_meta(writer, config);
    dl_device_memory_meta(writer,
                          &(dl_train_result){.device_bytes = config->device != NULL ? 7654321 : 0});
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    assert_int_equal(dl_trace_read(&trace, path, &err), DL_OK);
    unlink(path);
    if (count == NULL) {
        assert_null(dl_trace_meta(&trace, "device_count"));
        assert_null(dl_trace_meta(&trace, "dispatch"));
        assert_null(dl_trace_meta(&trace, "device_memory_bytes"));
    } else {
        assert_string_equal(dl_trace_meta(&trace, "device_count"), count);
        assert_string_equal(dl_trace_meta(&trace, "shared_gpu"), shared);
        assert_string_equal(dl_trace_meta(&trace, "dispatch"), "single");
        assert_string_equal(dl_trace_meta(&trace, "host_memory"), "pageable");
        assert_string_equal(dl_trace_meta(&trace, "math"), "tf32");
        assert_string_equal(dl_trace_meta(&trace, "where"), "cpu");
        assert_string_equal(dl_trace_meta(&trace, "device_memory_bytes"), "7654321");
    }
}

static void a_trace_says_what_it_ran_on(void **state DL_UNUSED)
{
    fake_device_set(2, -1);
    dl_train_config config = dl_train_default_config();
    check_meta(&config, NULL, NULL);
    config.device = &fake_device;
    config.dispatch = DL_DISPATCH_SINGLE;
    config.device_settings = (dl_device_settings){.math = DL_DEVICE_MATH_TF32, .pageable = true};
    static const struct {
        int workers;
        const char *count, *shared, *text;
    } cases[] = {{1, "1", "0", "fake"}, {2, "2", "0", "fake"}, {3, "2", "1", "fake"}};
    for (int i = 0; i < 3; i++) {
        config.workers = cases[i].workers;
        check_meta(&config, cases[i].count, cases[i].shared);
        DL_AUTOFREE char *text = dl_device_text(&config);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processor_is_the_default),
        cmocka_unit_test(options_reach_the_configuration),
        cmocka_unit_test(places_are_checked),
        cmocka_unit_test(bad_devices_are_refused),
        cmocka_unit_test(a_trace_says_what_it_ran_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
