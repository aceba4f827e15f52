/* Settings of a capture: through the environment and back, and refused settings. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/check.h"

#include "profiler/inject/settings.h"

static dl_capture_settings other_settings(void)
{
    dl_capture_settings settings = {.preset = DL_CAPTURE_FULL,
                                    .graphs = DL_CAPTURE_GRAPH_WHOLE,
                                    .steps = 4294967295,
                                    .duration_s = 0.1,
                                    .limit_bytes = 2500000000,
                                    .lib_ranges = true,
                                    .dump_raw = true};
    settings.cost = "kernel 1 1 1; copy 2 2 2";
    settings.output = "/a folder/with=sign";
    settings.cupti = "/opt/libcupti.so.12";
    return settings;
}

static void assert_same(const dl_capture_settings *a, const dl_capture_settings *b)
{
    assert_string_equal(a->output, b->output);
    assert_int_equal(a->preset, b->preset);
    assert_int_equal(a->graphs, b->graphs);
    assert_int_equal(a->steps, b->steps);
    assert_true(a->duration_s == b->duration_s);
    assert_int_equal(a->limit_bytes, b->limit_bytes);
    assert_int_equal(a->lib_ranges, b->lib_ranges);
    assert_int_equal(a->dump_raw, b->dump_raw);
    assert_string_equal(a->cupti, b->cupti);
    assert_string_equal(a->cost, b->cost);
}

static void environment_keeps_all_settings(void **state DL_UNUSED)
{
    const dl_capture_settings sent[] = {dl_capture_settings_default(), other_settings()};
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        dl_capture_settings_to_environment(&sent[i]);
        dl_capture_settings got = sent[1 - i]; /* detects settings that are not read */
        dl_error err = {0};
        assert_int_equal(dl_capture_settings_from_environment(&got, environ, &err), DL_OK);
        assert_same(&got, &sent[i]);
    }
}

static void libraries_mark_calls_only_when_asked(void **state DL_UNUSED)
{
    dl_capture_settings settings = dl_capture_settings_default();
    static const char *const levels[] = {"CUBLAS_NVTX_LEVEL", "CUBLASLT_NVTX_LEVEL",
                                         "CUDNN_NVTX_LEVEL"};
    for (int asked = 0; asked <= 1; asked++) {
        for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
            unsetenv(levels[i]);
        settings.lib_ranges = asked;
        dl_capture_settings_to_environment(&settings);
        for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
            assert_int_equal(getenv(levels[i]) != NULL, asked);
    }
}

static void missing_variables_are_defaults(void **state DL_UNUSED)
{
    char other[] = "PATH=/bin", similar[] = "DLPROFX=1", limit[] = "DLPROF_LIMIT=2GiB";
    char copy[] = "DLPROF_COPY=3"; /* of dlprof bench, for its programs */
    char *environment[] = {other, similar, limit, copy, NULL};
    dl_capture_settings expected = dl_capture_settings_default(), got = other_settings();
    expected.limit_bytes = 2147483648;
    assert_int_equal(dl_capture_settings_from_environment(&got, environment, NULL), DL_OK);
    assert_same(&got, &expected);
}

static void refuses_bad_variables(void **state DL_UNUSED)
{
    static const struct {
        const char *variable;
        dl_status status;
        const char *text;
    } cases[] = {
        {"DLPROF_PRESET=ful", DL_ERR_NAME, "did you mean 'full'?"},
        {"DLPROF_PRESET=", DL_ERR_NAME, "DLPROF_PRESET"},
        {"DLPROF_GRAPHS=nodes", DL_ERR_NAME, "did you mean 'node'?"},
        {"DLPROF_STEPS=ten", DL_ERR_PARSE, "DLPROF_STEPS"},
        {"DLPROF_STEPS=-1", DL_ERR_RANGE, "DLPROF_STEPS"},
        {"DLPROF_STEPS=4294967296", DL_ERR_RANGE, "DLPROF_STEPS"},
        {"DLPROF_DURATION=nan", DL_ERR_PARSE, "DLPROF_DURATION"},
        {"DLPROF_DURATION=0.0001", DL_ERR_RANGE, "DLPROF_DURATION"},
        {"DLPROF_LIMIT=5 apples", DL_ERR_NAME, "DLPROF_LIMIT"},
        {"DLPROF_LIMIT=1kB", DL_ERR_RANGE, "DLPROF_LIMIT"},
        {"DLPROF_LIB_RANGES=yes", DL_ERR_PARSE, "DLPROF_LIB_RANGES"},
        {"DLPROF_LIB_RANGES=", DL_ERR_PARSE, "DLPROF_LIB_RANGES"},
        {"DLPROF_DUMP_RAV=1", DL_ERR_NAME, "did you mean 'DLPROF_DUMP_RAW'?"},
        {"DLPROF_=1", DL_ERR_NAME, "DLPROF_"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *environment[] = {dl_strdup(cases[i].variable), NULL};
        dl_capture_settings got = other_settings();
        const dl_capture_settings before = got;
        dl_error err = {0};
        const dl_status status = dl_capture_settings_from_environment(&got, environment, &err);
        if (status != cases[i].status) {
            fail_msg("%s: %s (%s)", cases[i].variable, status_name(status), err.text);
        }
        assert_int_equal(err.code, status);
        assert_contains(err.text, cases[i].text);
        assert_same(&got, &before);
        free(environment[0]);
    }
}

static void check_names_the_setting(void **state DL_UNUSED)
{
    dl_capture_settings settings = other_settings();
    assert_int_equal(dl_capture_settings_check(&settings, DL_SETTING_OPTION, NULL), DL_OK);
    dl_error err = {0};
    settings.limit_bytes = DL_CAPTURE_LIMIT_MIN_BYTES - 1;
    assert_int_equal(dl_capture_settings_check(&settings, DL_SETTING_OPTION, &err), DL_ERR_RANGE);
    assert_contains(err.text, "--limit: ");
    settings = other_settings();
    settings.duration_s = 1e-4;
    assert_int_equal(dl_capture_settings_check(&settings, DL_SETTING_OPTION, &err), DL_ERR_RANGE);
    assert_contains(err.text, "--duration: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(environment_keeps_all_settings),
                                       cmocka_unit_test(libraries_mark_calls_only_when_asked),
                                       cmocka_unit_test(missing_variables_are_defaults),
                                       cmocka_unit_test(refuses_bad_variables),
                                       cmocka_unit_test(check_names_the_setting)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
