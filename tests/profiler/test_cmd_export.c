/* dlprof export as a function, on traces made here. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/file.h"
#include "profiler/commands.h"
#include "tests/command.h"
#include "trace/dlt/dlt.h"

#define JSON "test_cmd_export.json"

static char name[] = "dlprof export", first[] = "test_cmd_export_0.dlt",
            second[] = "test_cmd_export_1.dlt", training[] = "test_cmd_export_2.dlt",
            both[] = "test_cmd_export_3.dlt", to_json[] = "--output=" JSON;

/* Writes six steps: with `activities` marks, calls and kernels, with `records` records of
 * training. */
static void write_trace(const char *path, const char *rank, bool activities, bool records)
{
    dl_trace_writer *writer;
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_writer_meta(writer, "rank", rank);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    uint32_t sgemm = dl_trace_writer_intern(writer, "volta_sgemm_64x64_nt");
    uint32_t launch = dl_trace_writer_intern(writer, "cudaLaunchKernel");
    for (int i = 0; i < 6; i++) {
        const int64_t start_ns = 1000000 + i * 200000LL;
        char text[32];
        snprintf(text, sizeof text, "ProfilerStep#%d", i);
        const dl_activity step[] = {{.kind = DL_ACTIVITY_RANGE,
                                     .name = dl_trace_writer_intern(writer, text),
                                     .thread = 1,
                                     .start_ns = start_ns,
                                     .duration_ns = 190000},
                                    {.kind = DL_ACTIVITY_CALL,
                                     .name = launch,
                                     .thread = 1,
                                     .correlation = (uint32_t)i + 1,
                                     .start_ns = start_ns + 1000,
                                     .duration_ns = 2000},
                                    {.kind = DL_ACTIVITY_KERNEL,
                                     .name = sgemm,
                                     .correlation = (uint32_t)i + 1,
                                     .start_ns = start_ns + 10000,
                                     .duration_ns = 100000}};
        for (int a = 0; activities && a < 3; a++)
            dl_trace_stream_append_activity(stream, &step[a]);
        const dl_record record = {.kind = DL_RECORD_STEP, .staleness = DL_NO_STALENESS};
        if (records) dl_trace_stream_append(stream, &record);
    }
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
}

static char *read_text(const char *path)
{
    char *text = NULL;
    size_t bytes;
    dl_error err = {0};
    assert_int_equal(dl_file_read(path, &text, &bytes, &err), DL_OK);
    return text;
}

static int run(char **argv, char **text)
{
    return run_command(dl_cmd_export, argv, COMMAND_BOTH, text);
}

static int make_traces(void **state DL_UNUSED)
{
    write_trace(first, "0", true, false);
    write_trace(second, "1", true, false);
    write_trace(training, "0", false, true);
    write_trace(both, "0", true, true);
    return 0;
}

static int remove_traces(void **state DL_UNUSED)
{
    unlink(first);
    unlink(second);
    unlink(training);
    unlink(both);
    return 0;
}

/* Each rank is a process with its own track of steps. */
static void test_ranks(void **state DL_UNUSED)
{
    char *text;
    char *argv[] = {name, first, second, to_json, NULL};
    assert_int_equal(run(argv, &text), 0);
    assert_string_equal(text, JSON ": 36 activities of 2 processes\n");
    free(text);
    text = read_text(JSON);
    assert_contains(text, "\"pid\":0,\"args\":{\"name\":\"rank 0: ");
    assert_contains(text, "\"pid\":1,\"args\":{\"name\":\"rank 1: ");
    assert_contains(text, "\"args\":{\"name\":\"GPU 0 steps\"}");
    assert_contains(text, "\"name\":\"step 0\",\"cat\":\"user_annotation\"");
    assert_contains(text, "\"name\":\"volta_sgemm_64x64_nt\",\"cat\":\"kernel\",\"pid\":1,");
    free(text);
    unlink(JSON);
}

/* One trace of activities needs no output name; one of training is exported as records. */
static void test_one_trace(void **state DL_UNUSED)
{
    char *text;
    char *argv[] = {name, first, NULL};
    assert_int_equal(run(argv, &text), 0);
    assert_string_equal(text, "test_cmd_export_0.json: 18 activities of 1 process\n");
    free(text);
    unlink("test_cmd_export_0.json");
    argv[1] = training;
    assert_int_equal(run(argv, &text), 0);
    assert_string_equal(text, "test_cmd_export_2.json: 6 records\n");
    free(text);
    text = read_text("test_cmd_export_2.json");
    assert_contains(text, "\"args\":{\"name\":\"worker 0 steps\"}");
    free(text);
    unlink("test_cmd_export_2.json");
    argv[1] = both;
    assert_int_equal(run(argv, &text), 0);
    assert_string_equal(text, "test_cmd_export_3.json: 6 records, without 18 activities\n");
    free(text);
    unlink("test_cmd_export_3.json");
}

static void test_refused(void **state DL_UNUSED)
{
    char *text, missing[] = "test_cmd_export_none.dlt";
    char *unnamed[] = {name, first, second, NULL};
    assert_int_equal(run(unnamed, &text), 2);
    assert_contains(text, "--output");
    free(text);
    char *mixed[] = {name, first, training, to_json, NULL};
    assert_int_equal(run(mixed, &text), 1);
    assert_contains(text, training);
    assert_contains(text, "export it alone");
    free(text);
    char *absent[] = {name, first, missing, to_json, NULL};
    assert_int_equal(run(absent, &text), 1);
    assert_contains(text, missing);
    free(text);
    assert_int_not_equal(access(JSON, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_one_trace),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make_traces, remove_traces);
}
