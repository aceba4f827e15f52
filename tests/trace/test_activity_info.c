/* Functions shared by dlprof info and dlcal info. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/hand_trace.h"
#include "trace/activity/summary.h"

/* Kernels of 1 us, 10 us apart, each in a range "step". */
static dl_trace marked_trace(void)
{
    dl_trace trace = hand_trace();
    const uint32_t kernels[] = {hand_name(&trace, "gemm"), hand_name(&trace, "relu")};
    const uint32_t range = hand_name(&trace, "step");
    trace.activities = dl_calloc(80, sizeof *trace.activities, "test");
    for (uint32_t i = 0; i < 40; i++) {
        const int64_t at_ns = 10000 * (int64_t)(i + 1);
        trace.activities[trace.activity_count++] = (dl_activity){
            .kind = DL_ACTIVITY_RANGE, .name = range, .start_ns = at_ns, .duration_ns = 9000};
        trace.activities[trace.activity_count++] = (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                                                 .name = kernels[i % 2],
                                                                 .correlation = i + 1,
                                                                 .start_ns = at_ns + 100,
                                                                 .duration_ns = 1000};
    }
    return trace;
}

/* Parses options of a command line. */
static dl_info_settings parse(const char *first, const char *second)
{
    dl_info_settings settings = dl_info_settings_default();
    dl_option table[DL_INFO_OPTION_COUNT];
    dl_info_options(&settings, "JSON", table);
    const dl_command command = {.program = "info",
                                .positional = "",
                                .summary = "Test",
                                .options = table,
                                .option_count = DL_INFO_OPTION_COUNT};
    char *argv[] = {(char *)"info", (char *)first, (char *)second, NULL};
    DL_SCOPED(dl_text_list) positional = {0};
    dl_options_action action;
    dl_error err = {0};
    if (dl_options_parse(&command, 3, argv, &positional, &action, &err) != DL_OK)
        fail_msg("%s", err.text);
    return settings;
}

static void test_options_reach_the_steps(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = marked_trace();
    dl_error err = {0};
    const dl_info_settings by_marks = parse("--step-marks=^st.p$", "--top=3");
    assert_int_equal(by_marks.top, 3);
    dl_activity_summary summary = {0};
    assert_int_equal(dl_info_summarise(&summary, &trace, &by_marks, &err), DL_OK);
    assert_int_equal(summary.devices[0].steps.method, DL_STEPS_GIVEN_MARKS);
    dl_activity_summary_free(&summary);
    const dl_info_settings by_period = parse("--step-period=2", "--json");
    assert_true(by_period.json);
    assert_int_equal(dl_info_summarise(&summary, &trace, &by_period, &err), DL_OK);
    assert_int_equal(summary.devices[0].steps.method, DL_STEPS_GIVEN_PERIOD);
    dl_activity_summary_free(&summary);
}

static void test_marks_that_are_nowhere(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = marked_trace();
    dl_activity_summary summary = {0};
    dl_error err = {0};
    const dl_info_settings settings = parse("--step-marks=nowhere", "--json");
    assert_int_equal(dl_info_summarise(&summary, &trace, &settings, &err), DL_ERR_DATA);
}

/* Returns the printed comparison of `count` summaries; the caller frees it. */
static char *compared(const dl_activity_summary *summaries, size_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_activity_summaries_compare(summaries, count, out);
    fclose(out);
    return text;
}

/* Summaries outlive the activities; only those with devices are compared, and a single one is
 * not. */
static void test_compares_several(void **state DL_UNUSED)
{
    dl_trace traces[2] = {marked_trace(), marked_trace()};
    dl_activity_summary summaries[3] = {0};
    const dl_info_settings settings = dl_info_settings_default();
    dl_error err = {0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dl_info_summarise(&summaries[2 * i], &traces[i], &settings, &err), DL_OK);
        dl_info_let_go(&traces[i]);
        assert_int_equal(traces[i].activity_count, 0);
    }
    char *text = compared(summaries, 2);
    assert_string_equal(text, "");
    free(text);
    text = compared(summaries, 3);
    assert_contains(text, "step p50");
    free(text);
    for (int i = 0; i < 2; i++) {
        dl_activity_summary_free(&summaries[2 * i]);
        dl_trace_free(&traces[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_options_reach_the_steps),
                                       cmocka_unit_test(test_marks_that_are_nowhere),
                                       cmocka_unit_test(test_compares_several)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
