#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/hand_trace.h"
#include "trace/training/summary.h"

#define PATH "test_export.json"

/* Returns the exported text of a trace; the caller frees it. */
static char *export_text(const dl_trace *trace)
{
    dl_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    if (dl_trace_export(trace, PATH, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(dl_file_read(PATH, &text, &bytes, &err), DL_OK);
    unlink(PATH);
    return text;
}

/* One record of each kind; the first one begins at 5,000,001,234 ns, which is time 0, so that the
 * compute record 1 ns later is at 0.001 us. */
static void test_records(void **state DL_UNUSED)
{
    const int64_t t = 5000001234;
    DL_SCOPED(dl_trace) trace = hand_trace();
    hand_meta(&trace, "model", "lenet");
    hand_meta(&trace, "sync", "async");
    hand_meta(&trace, "workers", "2");
    uint32_t conv1 = hand_name(&trace, "conv1"), barrier = hand_name(&trace, "barrier");
    dl_record *r = hand_record(&trace, DL_RECORD_COMPUTE, 1, t + 1, 2000);
    r->phase = DL_PHASE_BACKWARD, r->name = conv1, r->samples = 64;
    r = hand_record(&trace, DL_RECORD_COPY, 1, t + 2001, 10);
    r->phase = DL_PHASE_PULL, r->bytes = 1724320;
    r = hand_record(&trace, DL_RECORD_AVERAGE, 1, t + 2011, 10);
    r->bytes = 8, r->vectors = 2, r->threads = 1;
    hand_record(&trace, DL_RECORD_WAIT, 1, t + 2021, 10)->name = barrier;
    hand_record(&trace, DL_RECORD_INPUT, 1, t + 2031, 10);
    hand_record(&trace, DL_RECORD_SLOWDOWN, 1, t + 2041, 10);
    r = hand_record(&trace, DL_RECORD_STEP, 1, t, 3000);
    r->step = 12, r->samples = 64, r->staleness = 0;
    DL_AUTOFREE char *text = export_text(&trace);
    assert_contains(text, "\"args\":{\"name\":\"lenet, async, 2 workers\"}");
    assert_contains(text, "\"tid\":3,\"args\":{\"name\":\"worker 1 steps\"}");
    assert_contains(text, "\"tid\":4,\"args\":{\"name\":\"worker 1\"}");
    assert_null(strstr(text, "worker 0")); /* it has no records */
    assert_contains(text, "\"name\":\"conv1.backward\",\"cat\":\"cpu_op\",\"pid\":1,\"tid\":4,"
                          "\"ts\":0.001,\"dur\":2.000,\"args\":{\"samples\":64}}");
    assert_contains(text, "\"name\":\"pull\",\"cat\":\"memcpy\",\"pid\":1,\"tid\":4,"
                          "\"ts\":2.001,\"dur\":0.010,\"args\":{\"bytes\":1724320}}");
    assert_contains(text, "\"name\":\"average\",\"cat\":\"average\",");
    assert_contains(text, "\"args\":{\"bytes\":8,\"vectors\":2,\"threads\":1}}");
    assert_contains(text, "\"name\":\"barrier\",\"cat\":\"wait\",");
    assert_contains(text, "\"name\":\"input\",\"cat\":\"input\",");
    assert_contains(text, "\"name\":\"slowdown\",\"cat\":\"slowdown\",");
    assert_contains(text, "\"name\":\"step 12\",\"cat\":\"user_annotation\",\"pid\":1,\"tid\":3,"
                          "\"ts\":0.000,\"dur\":3.000,\"args\":{\"samples\":64,\"staleness\":0}}");
    assert_contains(text, "\"name\":\"staleness 1\",\"pid\":1,\"ts\":3.000,"
                          "\"args\":{\"value\":0}}");
}

/* A synchronous step has neither counter nor staleness; a run without meta data is named after its
 * file; a trace without records is still valid. */
static void test_plain(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    char *text = export_text(&trace);
    assert_contains(text, "\"args\":{\"name\":\"hand.dlt\"}");
    free(text);
    hand_record(&trace, DL_RECORD_STEP, 0, 0, 10);
    dl_record *bench = hand_record(&trace, DL_RECORD_BENCH, 0, 0, 5);
    bench->name = hand_name(&trace, "lock");
    text = export_text(&trace);
    assert_null(strstr(text, "staleness"));
    assert_contains(text, "\"name\":\"lock\",\"cat\":\"bench\",");
    free(text);
}

static void test_errors(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    dl_error err = {0};
    assert_int_equal(dl_trace_export(&trace, "no/such/dir/t.json", &err), DL_ERR_IO);
    assert_string_equal(err.file, "no/such/dir/t.json");
    assert_int_equal(dl_trace_export(&trace, "/dev/full", &err), DL_ERR_IO);
    assert_string_equal(err.file, "/dev/full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_records), cmocka_unit_test(test_plain),
                                       cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
