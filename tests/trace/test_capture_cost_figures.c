/* Figures of a recording's cost as text and back, and the estimate over steps. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "tests/hand_trace.h"
#include "trace/activity/capture_cost.h"

/* kernel 100 (90..110) ns, copy 200, event 300, sync 400, record 500 */
static dl_capture_figures example(void)
{
    dl_capture_figures figures = {.repetitions = 7, .host = "node1.example", .device = "A GPU"};
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++) {
        const double ns = 100 * (i + 1);
        figures.items[i] = (dl_capture_figure){ns, ns - 10, ns + 10};
    }
    return figures;
}

static void test_text_and_back(void **state DL_UNUSED)
{
    dl_capture_figures sent = example(), got = {0};
    snprintf(sent.device, sizeof sent.device, "NVIDIA H200");
    sent.items[DL_CAPTURE_PER_COPY] = (dl_capture_figure){-1.25, -3.5, 1e-3};
    DL_AUTOFREE char *text = dl_capture_figures_text(&sent);
    dl_error err = {0};
    if (dl_capture_figures_parse(text, &got, &err) != DL_OK) fail_msg("%s", err.text);
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++) {
        assert_true(got.items[i].ns == sent.items[i].ns);
        assert_true(got.items[i].low_ns == sent.items[i].low_ns);
        assert_true(got.items[i].high_ns == sent.items[i].high_ns);
    }
    assert_int_equal(got.repetitions, 7);
    assert_string_equal(got.host, "node1.example");
    assert_string_equal(got.device, "NVIDIA H200");
}

/* Returns the text of `figures` with the first `part` replaced. */
static char *changed(const char *part, const char *with)
{
    dl_capture_figures figures = example();
    DL_AUTOFREE char *text = dl_capture_figures_text(&figures);
    char *at = strstr(text, part);
    assert_non_null(at);
    return dl_format("%.*s%s%s", (int)(at - text), text, with, at + strlen(part));
}

static void test_refuses_other_texts(void **state DL_UNUSED)
{
    static const struct {
        const char *part, *with;
    } changes[] = {{"kernel 100 90 110; ", ""},
                   {"kernel 100 90 110", "kernel 100 90"},
                   {"100 90 110", "100 90 110 5"},
                   {"100 90 110", "100 101 110"},
                   {"100 90 110", "much 90 110"},
                   {"100 90 110", "1e10 90 2e10"},
                   {"copy", "copies"},
                   {"repetitions 7", "repetitions 0"},
                   {"; device A GPU", ""},
                   {"kernel", "x kernel"}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        DL_AUTOFREE char *text = changed(changes[i].part, changes[i].with);
        dl_capture_figures got = {.repetitions = 99};
        dl_error err = {0};
        const dl_status status = dl_capture_figures_parse(text, &got, &err);
        if (status != DL_ERR_PARSE) fail_msg("'%s': %s", text, status_name(status));
        assert_int_equal(got.repetitions, 99);
    }
    dl_capture_figures got;
    dl_error err = {0};
    assert_int_equal(dl_capture_figures_parse("", &got, &err), DL_ERR_PARSE);
    assert_int_equal(dl_capture_figures_parse("unknown (no GPU)", &got, &err), DL_ERR_DATA);
    assert_contains(err.text, "no GPU");
}

static void add(dl_trace *trace, dl_activity activity)
{
    const size_t count = trace->activity_count++;
    trace->activities = dl_realloc(trace->activities, count + 1, sizeof activity, "test");
    trace->activities[count] = activity;
}

/* Adds a warm-up step and two regular ones of 10 us. Each has two kernels, a copy, a memset, a
 * graph of two kernels and a copy, a whole graph; between them an event and a wait. */
static void add_steps(dl_trace *trace)
{
    for (int step = 0; step < 3; step++) {
        const int64_t at_ns = 10000 * (step + 1);
        const uint32_t launch = 100 * (uint32_t)(step + 1);
        const uint64_t node = (uint64_t)5 << 32;
        const dl_activity works[] = {
            {.kind = DL_ACTIVITY_KERNEL, .correlation = launch},
            {.kind = DL_ACTIVITY_KERNEL, .correlation = launch + 1},
            {.kind = DL_ACTIVITY_MEMCPY, .correlation = launch + 2},
            {.kind = DL_ACTIVITY_MEMSET, .correlation = launch + 3},
            {.kind = DL_ACTIVITY_KERNEL, .correlation = launch + 4, .object = node | 1},
            {.kind = DL_ACTIVITY_KERNEL, .correlation = launch + 4, .object = node | 2},
            {.kind = DL_ACTIVITY_MEMCPY, .correlation = launch + 4, .object = node | 3},
            {.kind = DL_ACTIVITY_GRAPH, .correlation = launch + 5, .object = node},
        };
        for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
            dl_activity work = works[i];
            work.start_ns = at_ns + 100 * (int64_t)i;
            work.duration_ns = 50;
            add(trace, work);
        }
        add(trace, (dl_activity){.kind = DL_ACTIVITY_EVENT, .start_ns = at_ns + 5000});
        add(trace, (dl_activity){.kind = DL_ACTIVITY_SYNC, .start_ns = at_ns + 9999});
        add(trace, (dl_activity){.kind = DL_ACTIVITY_EVENT, .device = 1, .start_ns = at_ns});
    }
}

static void test_estimates_the_cost_of_a_step(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    add_steps(&trace);
    size_t work[24];
    dl_activity_step steps[3];
    for (size_t s = 0; s < 3; s++) {
        for (size_t i = 0; i < 8; i++)
            work[8 * s + i] = 11 * s + i;
        steps[s] = (dl_activity_step){.label = s == 0 ? DL_STEP_WARMUP : DL_STEP_REGULAR,
                                      .first = 8 * s,
                                      .count = 8,
                                      .start_ns = 10000 * (int64_t)(s + 1),
                                      .duration_ns = 10000};
    }
    const dl_step_line line = {.work = work, .work_count = 24, .steps = steps, .count = 3};
    const dl_capture_figures figures = example();
    const dl_capture_estimate got = dl_capture_estimate_of(&figures, &trace, &line);
    assert_int_equal(got.steps, 2);
    assert_true(got.per_step[DL_CAPTURE_PER_KERNEL] == 4); /* two, the graph's nodes, the graph */
    assert_true(got.per_step[DL_CAPTURE_PER_COPY] == 2);
    assert_true(got.per_step[DL_CAPTURE_PER_EVENT] == 1);
    assert_true(got.per_step[DL_CAPTURE_PER_SYNC] == 1);
    assert_true(fabs(got.step_ns - (4 * 100 + 2 * 200 + 300 + 400)) < 1e-9);
    assert_true(fabs(got.step_low_ns - (got.step_ns - 8 * 10)) < 1e-9);
    assert_true(fabs(got.step_high_ns - (got.step_ns + 8 * 10)) < 1e-9);
    assert_true(fabs(got.share_frac - 0.15) < 1e-12);
}

static void test_no_steps_no_estimate(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    const dl_capture_figures figures = example();
    const dl_step_line none = {0}, no_device = {.device = DL_NO_DEVICE, .count = 1};
    assert_int_equal(dl_capture_estimate_of(&figures, &trace, &none).steps, 0);
    assert_int_equal(dl_capture_estimate_of(&figures, &trace, &no_device).steps, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text_and_back),
                                       cmocka_unit_test(test_refuses_other_texts),
                                       cmocka_unit_test(test_estimates_the_cost_of_a_step),
                                       cmocka_unit_test(test_no_steps_no_estimate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
