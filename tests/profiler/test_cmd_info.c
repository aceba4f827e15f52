/* dlprof info as a function, on traces of activities made here. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "profiler/commands.h"
#include "tests/command.h"
#include "trace/dlt/dlt.h"

/* Writes `kernels` sgemms of 100 us, one every 200 us, in marked steps of two. */
static void write_trace(const char *path, const char *rank, int kernels)
{
    dl_trace_writer *writer;
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_writer_meta(writer, "rank", rank);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    uint32_t sgemm = dl_trace_writer_intern(writer, "volta_sgemm_64x64_nt");
    uint32_t launch = dl_trace_writer_intern(writer, "cudaLaunchKernel");
    for (int i = 0; i < kernels; i++) {
        const int64_t start_ns = i * 200000LL;
        const uint32_t correlation = (uint32_t)i + 1;
        if (i % 2 == 0) {
            char text[32];
            snprintf(text, sizeof text, "phase %d", i / 2);
            dl_trace_stream_append_activity(
                stream, &(dl_activity){.kind = DL_ACTIVITY_RANGE,
                                       .name = dl_trace_writer_intern(writer, text),
                                       .thread = 1,
                                       .start_ns = start_ns,
                                       .duration_ns = 399000});
        }
        dl_trace_stream_append_activity(stream, &(dl_activity){.kind = DL_ACTIVITY_CALL,
                                                               .name = launch,
                                                               .thread = 1,
                                                               .correlation = correlation,
                                                               .start_ns = start_ns + 1000,
                                                               .duration_ns = 2000});
        dl_trace_stream_append_activity(stream, &(dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                                               .name = sgemm,
                                                               .correlation = correlation,
                                                               .start_ns = start_ns + 10000,
                                                               .duration_ns = 100000});
    }
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
}

static int run(char **argv, char **text)
{
    return run_command(dl_cmd_info, argv, COMMAND_BOTH, text);
}

static char name[] = "dlprof info", first[] = "test_cmd_info_0.dlt",
            second[] = "test_cmd_info_1.dlt", json[] = "--json", top[] = "--top=1",
            marks[] = "--step-marks=^phase", broken[] = "--step-marks=x(",
            unknown[] = "--step-marks=^epoch";

static int make_traces(void **state DL_UNUSED)
{
    write_trace(first, "0", 10);
    write_trace(second, "1", 20);
    return 0;
}

/* The device is idle for half of the time: 100 of each 200 us. */
static void test_ranks(void **state DL_UNUSED)
{
    char *text;
    char *argv[] = {name, first, second, top, NULL};
    assert_int_equal(run(argv, &text), 0);
    assert_contains(text, "activities       25, complete\n");
    assert_contains(text, "activities       50, complete\n");
    assert_contains(text, "rank dev step p50");
    assert_contains(text, "\n0      0 ");
    assert_contains(text, "\n1      0 ");
    free(text);
    char *alone[] = {name, first, NULL};
    assert_int_equal(run(alone, &text), 0);
    assert_contains(text, "rank             0\n");
    assert_null(strstr(text, "rank dev"));
    free(text);
}

/* Steps of 400 us, found by the given marks. */
static void test_marks(void **state DL_UNUSED)
{
    char *text;
    char *argv[] = {name, second, marks, NULL};
    assert_int_equal(run(argv, &text), 0);
    assert_contains(text, "given marks\n");
    assert_contains(text, "400 us");
    free(text);
    argv[2] = broken;
    assert_int_equal(run(argv, &text), 2);
    assert_contains(text, "--step-marks");
    free(text);
    argv[2] = unknown;
    assert_int_equal(run(argv, &text), 1);
    free(text);
}

/* The process was killed before its first activity was written. */
static void test_nothing_recorded(void **state DL_UNUSED)
{
    char path[] = "test_cmd_info_none.dlt", *text;
    dl_trace_writer *writer;
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_writer_meta(writer, "kind", "run");
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    char *argv[] = {name, path, NULL, NULL};
    assert_int_equal(run(argv, &text), 0);
    assert_contains(text, "activities       0, complete\n");
    assert_contains(text, "holds no work of a device");
    free(text);
    argv[2] = json;
    assert_int_equal(run(argv, &text), 0);
    assert_contains(text, "\"devices\":[]");
    free(text);
    unlink(path);
}

/* A process that marks ten steps of 1 ms and uses no device. */
static void test_steps_of_the_host(void **state DL_UNUSED)
{
    char path[] = "test_cmd_info_host.dlt", *text;
    dl_trace_writer *writer;
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    for (int i = 0; i < 10; i++) {
        char step[32];
        snprintf(step, sizeof step, "step %d", i);
        dl_trace_stream_append_activity(stream,
                                        &(dl_activity){.kind = DL_ACTIVITY_RANGE,
                                                       .name = dl_trace_writer_intern(writer, step),
                                                       .thread = 1,
                                                       .start_ns = i * 2000000LL,
                                                       .duration_ns = 1000000});
    }
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    char *argv[] = {name, path, NULL, NULL};
    assert_int_equal(run(argv, &text), 0);
    assert_contains(text, "\nhost      10       0     0 ");
    assert_contains(text, " marks\n");
    free(text);
    argv[2] = json;
    assert_int_equal(run(argv, &text), 0);
    assert_contains(text, "\"host_steps\":{\"method\":\"marks\",\"warmup\":0,\"other\":0,");
    assert_contains(text, "1000000");
    free(text);
    unlink(path);
}

/* Files of other profilers are recognised by their first bytes; other files are refused. */
static void test_files_of_other_profilers(void **state DL_UNUSED)
{
    static const struct {
        const char *start;
        size_t bytes;
        const char *says;
    } files[] = {
        {"\x1f\x8b\x08\x00", 4, "are read by dlcal info"},
        {" \n{\"traceEvents\": []}", 21, "are read by dlcal info"},
        {"SQLite format 3\0", 16, "are read by dlcal info"},
        {"rubbish", 7, "is not a .dlt trace"},
    };
    char path[] = "test_cmd_info_foreign", *text;
    char *argv[] = {name, path, NULL};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *out = fopen(path, "wb");
        assert_non_null(out);
        fwrite(files[i].start, 1, files[i].bytes, out);
        fclose(out);
        assert_int_equal(run(argv, &text), 1);
        assert_contains(text, files[i].says);
        free(text);
    }
    unlink(path);
}

static void test_json(void **state DL_UNUSED)
{
    char *text;
    char *argv[] = {name, json, first, second, NULL};
    assert_int_equal(run(argv, &text), 0);
    assert_memory_equal(text, "[\n{\"path\":\"test_cmd_info_0.dlt\"", 30);
    assert_contains(text, "}\n,\n{\"path\":\"test_cmd_info_1.dlt\"");
    assert_string_equal(text + strlen(text) - 3, "\n]\n");
    free(text);
}

/* Traces read before an unreadable one are in the array, which is closed. */
static void test_json_of_a_failure(void **state DL_UNUSED)
{
    char *text, missing[] = "test_cmd_info_missing.dlt";
    char *argv[] = {name, json, first, missing, NULL};
    assert_int_equal(run_command(dl_cmd_info, argv, COMMAND_OUT, &text), 1);
    assert_memory_equal(text, "[\n{\"path\":\"test_cmd_info_0.dlt\"", 30);
    assert_string_equal(text + strlen(text) - 4, "}\n]\n");
    free(text);
    argv[2] = missing;
    argv[3] = first;
    assert_int_equal(run_command(dl_cmd_info, argv, COMMAND_OUT, &text), 1);
    assert_string_equal(text, "[\n]\n");
    free(text);
}

/* A trace with records of training and activities gives two objects. */
static void test_json_of_both_kinds(void **state DL_UNUSED)
{
    char path[] = "test_cmd_info_both.dlt", *text;
    dl_trace_writer *writer;
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    const dl_activity kernel = {.kind = DL_ACTIVITY_KERNEL,
                                .name = dl_trace_writer_intern(writer, "sgemm"),
                                .duration_ns = 1000};
    const dl_record step = {
        .kind = DL_RECORD_STEP, .staleness = DL_NO_STALENESS, .duration_ns = 2000};
    dl_trace_stream_append_activity(stream, &kernel);
    dl_trace_stream_append(stream, &step);
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    char *argv[] = {name, json, path, NULL};
    assert_int_equal(run(argv, &text), 0);
    assert_memory_equal(text, "[\n{", 3);
    assert_contains(text, "}\n,\n{");
    assert_string_equal(text + strlen(text) - 4, "}\n]\n");
    free(text);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_nothing_recorded),
        cmocka_unit_test(test_steps_of_the_host),
        cmocka_unit_test(test_files_of_other_profilers),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_of_a_failure),
        cmocka_unit_test(test_json_of_both_kinds),
    };
    return cmocka_run_group_tests(tests, make_traces, NULL);
}
