/* Files left by a profiled run: traces and logs of several processes. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

#include "profiler/run/run_traces.h"
#include "trace/dlt/dlt.h"

static char *folder; /* of this test; emptied after each */

static int make_folder(void **state DL_UNUSED)
{
    folder = dl_strdup("run_traces.XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state DL_UNUSED)
{
    DL_AUTOFREE char *command = dl_format("rm -r %s", folder);
    const int failed = system(command);
    free(folder);
    return failed;
}

/* Writes a trace with this rank, or without a rank. */
static void write_trace(const char *name, const char *rank, const char *stopped)
{
    DL_AUTOFREE char *path = dl_format("%s/%s", folder, name);
    dl_trace_writer *writer = NULL;
    dl_error err = {0};
    if (dl_trace_writer_open(&writer, path, &err) != DL_OK) fail_msg("%s", err.text);
    dl_trace_writer_meta(writer, "clock", "realtime");
    if (rank != NULL) dl_trace_writer_meta(writer, "rank", rank);
    if (stopped != NULL) dl_trace_writer_meta(writer, "stopped", stopped);
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
}

/* Writes a trace with two kernels, a call, and 5 activities lost in two ways. */
static void write_activities(const char *name)
{
    DL_AUTOFREE char *path = dl_format("%s/%s", folder, name);
    dl_trace_writer *writer = NULL;
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    const uint32_t id = dl_trace_writer_intern(writer, "name");
    for (int64_t i = 0; i < 3; i++) {
        const uint8_t kind = i < 2 ? DL_ACTIVITY_KERNEL : DL_ACTIVITY_CALL;
        dl_trace_stream_append_activity(
            stream, &(dl_activity){.kind = kind, .name = id, .start_ns = 10 * i, .duration_ns = 5});
    }
    dl_trace_writer_meta(writer, "lost_records", "2");
    dl_trace_writer_meta(writer, "invalid_records", "3");
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
}

static void write_text(const char *name, const char *text)
{
    DL_AUTOFREE char *path = dl_format("%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Removes the file's last byte: the END block is incomplete. */
static void cut(const char *name)
{
    DL_AUTOFREE char *path = dl_format("%s/%s", folder, name);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(truncate(path, file.st_size - 1), 0);
}

static dl_run_traces collect(void)
{
    dl_run_traces traces = {0};
    dl_error err = {0};
    if (dl_run_traces_collect(&traces, folder, &err) != DL_OK) fail_msg("%s", err.text);
    return traces;
}

/* Returns the output of print or write_json; free() it. */
static char *written(const dl_run_traces *traces, void (*write)(const dl_run_traces *, FILE *))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    write(traces, out);
    fclose(out);
    return text;
}

static void write_json(const dl_run_traces *traces, FILE *out)
{
    dl_json to = {out, false};
    dl_json_begin(&to, NULL, '{');
    dl_run_traces_write_json(traces, &to);
    dl_json_end(&to, '}');
}

static void an_empty_folder_has_nothing(void **state DL_UNUSED)
{
    write_text("notes.txt", "not ours");
    write_text(".dlt", "not ours either");
    assert_false(dl_run_traces_any(folder));
    DL_SCOPED(dl_run_traces) traces = collect();
    assert_int_equal(traces.count, 0);
    assert_int_equal(traces.trace_count, 0);
    DL_AUTOFREE char *json = written(&traces, write_json);
    assert_string_equal(json, "{\"processes\":[]}");
}

static void a_missing_folder_is_an_error(void **state DL_UNUSED)
{
    dl_run_traces traces = {0};
    dl_error err = {0};
    assert_false(dl_run_traces_any("no_such_folder"));
    assert_int_equal(dl_run_traces_collect(&traces, "no_such_folder", &err), DL_ERR_IO);
    assert_string_equal(err.file, "no_such_folder");
}

static void processes_come_by_rank(void **state DL_UNUSED)
{
    write_trace("node.a.7.100.dlt", NULL, NULL);
    write_trace("node.a.8.100.dlt", "10", NULL);
    write_trace("node.b.9.100.dlt", "2", NULL);
    write_trace("node.a.5.200.dlt", NULL, NULL);
    write_trace("aaa.5.100.dlt", "no number", NULL);
    assert_true(dl_run_traces_any(folder));
    DL_SCOPED(dl_run_traces) traces = collect();
    static const struct {
        int64_t rank, pid, start_ns;
        const char *host;
    } expected[] = {{2, 9, 100, "node.b"},
                    {10, 8, 100, "node.a"},
                    {-1, 5, 100, "aaa"},
                    {-1, 7, 100, "node.a"},
                    {-1, 5, 200, "node.a"}};
    assert_int_equal(traces.count, 5);
    assert_int_equal(traces.trace_count, 5);
    for (size_t i = 0; i < traces.count; i++) {
        const dl_run_process *process = &traces.processes[i];
        assert_int_equal(process->rank, expected[i].rank);
        assert_int_equal(process->pid, expected[i].pid);
        assert_int_equal(process->start_ns, expected[i].start_ns);
        assert_string_equal(process->host, expected[i].host);
        assert_true(process->has_trace && process->readable && process->complete);
        assert_true(process->trace_bytes > 0);
        assert_null(process->stopped);
        assert_null(process->log);
    }
}

static void says_what_is_wrong_with_each(void **state DL_UNUSED)
{
    write_trace("h.1.10.dlt", "0", "100 steps");
    write_trace("h.2.10.dlt", "1", NULL);
    cut("h.2.10.dlt");
    write_text("h.2.10.log", "first \"line\"\nsecond line\n\n");
    write_text("h.3.10.dlt", "no trace");
    write_text("h.4.10.log", "CUPTI is taken\n");
    write_trace("strange.dlt", NULL, NULL);
    DL_SCOPED(dl_run_traces) traces = collect();
    assert_int_equal(traces.count, 5);
    assert_int_equal(traces.trace_count, 4);
    assert_string_equal(traces.processes[0].stopped, "100 steps");
    assert_true(traces.processes[0].complete);
    assert_true(traces.processes[1].readable);
    assert_false(traces.processes[1].complete);
    assert_string_equal(traces.processes[1].log, "first \"line\"\nsecond line");
    DL_AUTOFREE char *text = written(&traces, dl_run_traces_print);
    assert_contains(text, "rank 0, h pid 1: 0 activities");
    assert_contains(text, "stopped early: 100 steps\n");
    assert_contains(text, "rank 1, h pid 2: 0 activities");
    assert_contains(text, "incomplete\n    first \"line\"\n    second line\n");
    assert_contains(text, "h pid 3: its trace cannot be read: ");
    assert_contains(text, "h pid 4: left no trace\n    CUPTI is taken\n");
    assert_contains(text, "strange: 0 activities");
    DL_AUTOFREE char *json = written(&traces, write_json);
    assert_contains(json, "\"log\":\"first \\\"line\\\"\\u000asecond line\"");
    assert_contains(json, "\"complete\":false");
    assert_contains(json, "\"rank\":1");
    assert_contains(json, "\"rank\":null");
    assert_contains(json, "\"trace\":null");
    assert_contains(json, "\"kernel\":0");
}

static void activities_are_counted_by_kind(void **state DL_UNUSED)
{
    write_activities("h.1.10.dlt");
    DL_SCOPED(dl_run_traces) traces = collect();
    assert_int_equal(traces.count, 1);
    const dl_run_process *process = &traces.processes[0];
    assert_int_equal(process->activities, 3);
    assert_int_equal(process->counts[DL_ACTIVITY_KERNEL], 2);
    assert_int_equal(process->counts[DL_ACTIVITY_CALL], 1);
    assert_int_equal(process->counts[DL_ACTIVITY_MEMCPY], 0);
    assert_int_equal(process->lost, 5);
    DL_AUTOFREE char *text = written(&traces, dl_run_traces_print);
    assert_contains(text, "3 activities (2 kernel, 1 call), ");
    assert_contains(text, "5 more lost");
    DL_AUTOFREE char *json = written(&traces, write_json);
    assert_contains(json, "\"kernel\":2,\"memcpy\":0");
    assert_contains(json, "\"lost\":5");
}

/* Writes a trace with 1000 activities of every kind. */
static void write_all_kinds(const char *name)
{
    DL_AUTOFREE char *path = dl_format("%s/%s", folder, name);
    dl_trace_writer *writer = NULL;
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    const uint32_t id = dl_trace_writer_intern(writer, "name");
    for (int64_t i = 0; i < 1000; i++)
        for (uint8_t kind = 1; kind < DL_ACTIVITY_KIND_END; kind++)
            dl_trace_stream_append_activity(
                stream,
                &(dl_activity){.kind = kind, .name = id, .start_ns = 10 * i, .duration_ns = 5});
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
}

/* A complete process is not listed; one that lost activities is listed in full. */
static void troubles_are_told_alone(void **state DL_UNUSED)
{
    write_all_kinds("fine.1.10.dlt");
    write_activities("lossy.2.10.dlt");
    DL_SCOPED(dl_run_traces) traces = collect();
    DL_AUTOFREE char *text = written(&traces, dl_run_traces_print_troubles);
    assert_contains(text, "lossy pid 2: 3 activities (2 kernel, 1 call), ");
    assert_null(strstr(text, "fine"));
}

static void lines_fit_a_terminal(void **state DL_UNUSED)
{
    write_all_kinds("node.1234567.10.dlt");
    DL_SCOPED(dl_run_traces) traces = collect();
    DL_AUTOFREE char *text = written(&traces, dl_run_traces_print);
    assert_contains(text, "(1000 kernel, 1000 memcpy, ");
    assert_contains(text, ",\n    1000 ");
    for (const char *line = text; line != NULL && strncmp(line, "\n", 1) != 0;) {
        assert_in_range(strcspn(line, "\n"), 1, 80);
        const char *newline = strchr(line, '\n');
        line = newline != NULL ? newline + 1 : NULL;
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(an_empty_folder_has_nothing), IN_FOLDER(a_missing_folder_is_an_error),
        IN_FOLDER(processes_come_by_rank),      IN_FOLDER(activities_are_counted_by_kind),
        IN_FOLDER(troubles_are_told_alone),     IN_FOLDER(lines_fit_a_terminal),
        IN_FOLDER(says_what_is_wrong_with_each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
