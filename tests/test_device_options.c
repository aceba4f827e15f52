/* The options of `dlprof train` that choose a device, and what a trace says of it. */
#include <stdlib.h>
#include <unistd.h>

#include "profiler/device_options.h"
#include "tests/check.h"
#include "tests/doubles/fake_device.h"

static void the_processor_is_the_default(void **state)
{
    (void)state;
    const dl_device_options options = dl_device_options_default();
    dl_train_config config = dl_train_default_config();
    dl_error err = {0};
    assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_OK);
    assert_null(config.device);
    assert_int_equal(config.dispatch, DL_DISPATCH_THREADS);
    assert_false(config.device_settings.pageable);
    assert_false(config.device_settings.tf32);
}

static void options_reach_the_configuration(void **state)
{
    (void)state;
    dl_device_options options = dl_device_options_default();
    dl_option table[DL_DEVICE_OPTION_COUNT];
    dl_device_options_table(&options, table);
    const dl_command command = {.program = "test",
                                .positional = "",
                                .summary = "Test.",
                                .options = table,
                                .option_count = DL_DEVICE_OPTION_COUNT};
    char name[] = "test", dispatch[] = "--dispatch=single", memory[] = "--host-memory=pageable",
         tf32[] = "--tf32";
    char *argv[] = {name, dispatch, memory, tf32, NULL};
    dl_options_action action = DL_OPTIONS_DONE;
    dl_error err = {0};
    assert_int_equal(dl_options_parse(&command, 4, argv, NULL, &action, &err), DL_OK);
    dl_train_config config = dl_train_default_config();
    assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_OK);
    assert_int_equal(config.dispatch, DL_DISPATCH_SINGLE);
    assert_true(config.device_settings.pageable);
    assert_true(config.device_settings.tf32);
}

static void bad_devices_are_refused(void **state)
{
    (void)state;
    dl_device_options options = dl_device_options_default();
    dl_train_config config = dl_train_default_config();
    dl_error err = {0};
    options.device = "cuda:one";
    assert_int_equal(dl_device_options_apply(&options, &config, &err), DL_ERR_USAGE);
    options.device = "cuda"; /* beside the tests there is no library */
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
    dl_trace trace = {0};
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_device_meta(writer, config);
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    assert_int_equal(dl_trace_read(&trace, path, &err), DL_OK);
    unlink(path);
    if (count == NULL) {
        assert_null(dl_trace_meta(&trace, "device_count"));
        assert_null(dl_trace_meta(&trace, "dispatch"));
    } else {
        assert_string_equal(dl_trace_meta(&trace, "device_count"), count);
        assert_string_equal(dl_trace_meta(&trace, "shared_gpu"), shared);
        assert_string_equal(dl_trace_meta(&trace, "dispatch"), "single");
        assert_string_equal(dl_trace_meta(&trace, "host_memory"), "pageable");
        assert_string_equal(dl_trace_meta(&trace, "tf32"), "1");
    }
    dl_trace_free(&trace);
}

static void a_trace_says_what_it_ran_on(void **state)
{
    (void)state;
    fake_device_set(2, -1);
    dl_train_config config = dl_train_default_config();
    check_meta(&config, NULL, NULL);
    config.device = &fake_device;
    config.dispatch = DL_DISPATCH_SINGLE;
    config.device_settings = (dl_device_settings){.tf32 = true, .pageable = true};
    static const struct {
        int workers;
        const char *count, *shared, *text;
    } cases[] = {{1, "1", "0", "fake"}, {2, "2", "0", "2 x fake"}, {3, "2", "1", "2 x fake"}};
    for (int i = 0; i < 3; i++) {
        config.workers = cases[i].workers;
        check_meta(&config, cases[i].count, cases[i].shared);
        char *text = dl_device_text(&config);
        assert_string_equal(text, cases[i].text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processor_is_the_default),
        cmocka_unit_test(options_reach_the_configuration),
        cmocka_unit_test(bad_devices_are_refused),
        cmocka_unit_test(a_trace_says_what_it_ran_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
