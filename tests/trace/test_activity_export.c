#include "tests/check.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/file.h"
#include "common/random.h"
#include "tests/hand_trace.h"
#include "trace/activity/export.h"

#define PATH "test_activity_export.json"

/* Returns the exported text; the caller frees it. */
static char *export_text(const dl_export_process *processes, size_t count)
{
    dl_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    if (dl_activity_export(processes, count, PATH, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(dl_file_read(PATH, &text, &bytes, &err), DL_OK);
    unlink(PATH);
    return text;
}

static dl_activity *hand_activity(dl_trace *trace, dl_activity_kind kind, int64_t start_ns,
                                  int64_t duration_ns)
{
    size_t count = trace->activity_count++;
    trace->activities = dl_realloc(trace->activities, count + 1, sizeof(dl_activity), "test");
    trace->activities[count] =
        (dl_activity){.kind = (uint8_t)kind, .start_ns = start_ns, .duration_ns = duration_ns};
    return &trace->activities[count];
}

static dl_activity *hand_call(dl_trace *trace, const char *function, uint32_t correlation,
                              int64_t start_ns, int64_t duration_ns)
{
    uint32_t name = hand_name(trace, function);
    dl_activity *call = hand_activity(trace, DL_ACTIVITY_CALL, start_ns, duration_ns);
    call->name = name;
    call->thread = 1234;
    call->correlation = correlation;
    return call;
}

static dl_activity *hand_kernel(dl_trace *trace, uint32_t correlation, int64_t start_ns,
                                int64_t duration_ns)
{
    uint32_t name = hand_name(trace, "_Z4gemmPf");
    dl_activity *kernel = hand_activity(trace, DL_ACTIVITY_KERNEL, start_ns, duration_ns);
    kernel->name = name;
    kernel->stream = 7;
    kernel->correlation = correlation;
    return kernel;
}

/* One line of the export. */
typedef struct event {
    char phase;
    int pid, tid;
    int64_t start_ns, end_ns;
    uint64_t flow;
} event;

typedef struct event_list {
    event *items;
    size_t count;
} event_list;

/* Returns the number after `key` in ns, which must have three decimals; fails if it is missing. */
static int64_t time_at(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    int64_t whole;
    unsigned thousandths;
    int used = 0;
    assert_non_null(at);
    at += strlen(key);
    assert_int_equal(sscanf(at, "%" SCNd64 ".%3u%n", &whole, &thousandths, &used), 2);
    assert_int_equal(strcspn(strchr(at, '.') + 1, ",}"), 3);
    return whole * 1000 + thousandths;
}

static int number_at(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    assert_non_null(at);
    return atoi(at + strlen(key));
}

/* Parses the writer's lines, one event each; skips metadata ("M"). */
static event_list parse(const char *text)
{
    event_list list = {0};
    for (const char *line = strchr(text, '\n'); line != NULL; line = strchr(line + 1, '\n')) {
        char copy[2048] = "";
        size_t length = strcspn(line + 1, "\n");
        assert_true(length < sizeof copy);
        memcpy(copy, line + 1, length);
        if (strncmp(copy, "{\"ph\":\"", 7) != 0 || copy[7] == 'M') continue;
        event e = {.phase = copy[7], .pid = number_at(copy, "\"pid\":")};
        e.tid = number_at(copy, "\"tid\":");
        e.start_ns = e.end_ns = time_at(copy, "\"ts\":");
        if (e.phase == 'X') e.end_ns += time_at(copy, "\"dur\":");
        if (e.phase == 's' || e.phase == 'f') {
            const char *id = strstr(copy, "\"id\":\"0x");
            assert_non_null(id);
            e.flow = strtoull(id + 8, NULL, 16);
            assert_int_equal(e.phase == 'f', strstr(copy, "\"bp\":\"e\"") != NULL);
        }
        list.items = dl_realloc(list.items, list.count + 1, sizeof *list.items, "test");
        list.items[list.count++] = e;
    }
    return list;
}

/* Checks that a slice precedes the arrow bound to it: viewers process simultaneous events in file
 * order. */
static void assert_in_a_slice(const event_list *list, size_t arrow)
{
    const event *a = &list->items[arrow];
    for (size_t i = 0; i < arrow; i++) {
        const event *s = &list->items[i];
        if (s->phase == 'X' && s->pid == a->pid && s->tid == a->tid && s->start_ns <= a->start_ns &&
            a->start_ns <= s->end_ns) {
            return;
        }
    }
    fail_msg("arrow %" PRIx64 " (%c) begins in no slice", a->flow, a->phase);
}

/* Checks that slices of a track are sorted and nested, and that each arrow has one start followed
 * by one end at no earlier time, each in a slice. Returns the number of arrows. */
static size_t check_structure(const char *text)
{
    event_list list = parse(text);
    size_t begins = 0, ends = 0;
    for (size_t i = 0; i < list.count; i++) {
        const event *x = &list.items[i];
        assert_true(x->start_ns >= 0);
        if (x->phase == 's' || x->phase == 'f') assert_in_a_slice(&list, i);
        ends += x->phase == 'f';
        begins += x->phase == 's';
        size_t partners = 0;
        for (size_t j = 0; j < list.count; j++) {
            const event *y = &list.items[j];
            if (x->phase == 's' && y->phase == 's' && j != i) assert_true(x->flow != y->flow);
            if (x->phase == 's' && y->phase == 'f' && x->flow == y->flow) {
                assert_true(j > i && y->start_ns >= x->start_ns);
                partners++;
            }
            if (x->phase != 'X' || y->phase != 'X' || j <= i) continue;
            if (x->pid != y->pid || x->tid != y->tid) continue;
            assert_true(x->start_ns <= y->start_ns);
            assert_true(y->start_ns >= x->end_ns || y->end_ns <= x->end_ns);
        }
        if (x->phase == 's') assert_int_equal(partners, 1);
    }
    assert_int_equal(begins, ends);
    free(list.items);
    return begins;
}

/* Two ranks; the first one's call at 5,000,001,234 ns is time 0. */
static void test_two_ranks(void **state DL_UNUSED)
{
    const int64_t t = 5000001234;
    dl_trace traces[2] = {hand_trace(), hand_trace()};
    static const char *const ranks[] = {"3", "2"};
    for (int r = 0; r < 2; r++) {
        hand_meta(&traces[r], "rank", ranks[r]);
        hand_meta(&traces[r], "host", "node1");
        hand_meta(&traces[r], "pid", "77");
        hand_call(&traces[r], "cudaLaunchKernel", 9, t + 100 * r, 50);
        hand_kernel(&traces[r], 9, t + 100 * r + 2001, 3000);
    }
    hand_meta(&traces[0], "thread.1234", "autograd");
    uint32_t mark = hand_name(&traces[0], "now");
    dl_activity *instant = hand_activity(&traces[0], DL_ACTIVITY_MARK, t + 7, 0);
    instant->name = mark;
    instant->thread = 1234;
    hand_activity(&traces[0], DL_ACTIVITY_EVENT, 0, 0); /* not drawn, so not the earliest */
    const dl_export_process processes[] = {{.trace = &traces[0]}, {.trace = &traces[1]}};
    DL_AUTOFREE char *text = export_text(processes, 2);
    assert_contains(text, "{\"displayTimeUnit\":\"ns\"");
    assert_contains(text, "\"pid\":3,\"args\":{\"name\":\"rank 3: node1 pid 77\"}");
    assert_contains(text, "\"pid\":2,\"args\":{\"name\":\"rank 2: node1 pid 77\"}");
    assert_contains(text, "\"pid\":3,\"tid\":1234,\"args\":{\"name\":\"autograd, thread 1234\"}");
    assert_contains(text, "\"pid\":2,\"tid\":1234,\"args\":{\"name\":\"thread 1234\"}");
    assert_contains(text, "\"pid\":2,\"tid\":16777223,\"args\":{\"name\":\"GPU 0 stream 7\"}");
    assert_contains(text, "\"name\":\"cudaLaunchKernel\",\"cat\":\"cuda_runtime\",\"pid\":3,"
                          "\"tid\":1234,\"ts\":0.000,\"dur\":0.050,\"args\":{\"correlation\":9}}");
    assert_contains(text, "\"name\":\"gemm\",\"cat\":\"kernel\",\"pid\":2,\"tid\":16777223,"
                          "\"ts\":2.101,\"dur\":3.000,\"args\":{\"device\":0,\"stream\":7,"
                          "\"correlation\":9,\"symbol\":\"_Z4gemmPf\"}}");
    assert_contains(text, "{\"ph\":\"s\",\"name\":\"launch\",\"cat\":\"flow\",\"id\":\"0x2\","
                          "\"pid\":2,\"tid\":1234,\"ts\":0.100}");
    assert_contains(text, "{\"ph\":\"f\",\"name\":\"launch\",\"cat\":\"flow\",\"id\":\"0x2\","
                          "\"bp\":\"e\",\"pid\":2,\"tid\":16777223,\"ts\":2.101}");
    assert_contains(text, "{\"ph\":\"i\",\"name\":\"now\",\"cat\":\"user_annotation\",\"pid\":3,"
                          "\"tid\":1234,\"ts\":0.007,\"s\":\"t\"}");
    assert_int_equal(check_structure(text), 2);
    dl_trace_free(&traces[0]);
    dl_trace_free(&traces[1]);
}

/* Without ranks, with equal ones or with a non-numeric rank, the processes are numbered; unknown
 * parts are omitted from a process name. */
static void test_numbered_processes(void **state DL_UNUSED)
{
    static const char *const ranks[][2] = {{NULL, NULL}, {"5", NULL}, {"5", "5"}, {"5", "x"}};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        dl_trace traces[2] = {hand_trace(), hand_trace()};
        for (int p = 0; p < 2; p++) {
            if (ranks[i][p] != NULL) hand_meta(&traces[p], "rank", ranks[i][p]);
        }
        hand_meta(&traces[1], "pid", "88");
        const dl_export_process processes[] = {{.trace = &traces[0]}, {.trace = &traces[1]}};
        DL_AUTOFREE char *text = export_text(processes, 2);
        assert_contains(text, ranks[i][0] != NULL
                                  ? "\"pid\":0,\"args\":{\"name\":\"rank 5: hand.dlt\"}"
                                  : "\"pid\":0,\"args\":{\"name\":\"hand.dlt\"}");
        assert_contains(text, i == 2 ? "\"pid\":1,\"args\":{\"name\":\"rank 5: pid 88\"}"
                                     : "\"pid\":1,\"args\":{\"name\":\"pid 88\"}");
        assert_int_equal(check_structure(text), 0);
        dl_trace_free(&traces[0]);
        dl_trace_free(&traces[1]);
    }
}

/* A range that ends within a call, and numbers of threads, devices and streams that do not fit into
 * a tid, get separate tracks. */
static void test_other_tracks(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    dl_activity *range = hand_activity(&trace, DL_ACTIVITY_RANGE, 0, 15);
    range->thread = 1234;
    hand_call(&trace, "cudaMalloc", 0, 10, 10);
    hand_activity(&trace, DL_ACTIVITY_RANGE, 0, 5)->thread = UINT32_MAX;
    hand_kernel(&trace, 0, 0, 5)->stream = UINT32_MAX;
    hand_kernel(&trace, 0, 0, 5)->device = 63;
    hand_kernel(&trace, 0, 0, 5)->device = 62;
    const dl_export_process process = {.trace = &trace};
    DL_AUTOFREE char *text = export_text(&process, 1);
    assert_contains(text, "\"tid\":1073741824,\"args\":{\"name\":\"thread 1234 (2)\"}");
    assert_contains(text, "\"tid\":1073741825,\"args\":{\"name\":\"thread 4294967295\"}");
    assert_contains(text, "\"tid\":1073741826,\"args\":{\"name\":\"GPU 0 stream 4294967295\"}");
    assert_contains(text, "\"tid\":1056964615,\"args\":{\"name\":\"GPU 62 stream 7\"}");
    assert_contains(text, "\"tid\":1073741827,\"args\":{\"name\":\"GPU 63 stream 7\"}");
    assert_int_equal(check_structure(text), 0);
}

/* One launch of three kernels (a graph); one that appears to begin before its call; and one that
 * even ends before it, so that its arrow is omitted. */
static void test_arrows(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    hand_call(&trace, "cudaGraphLaunch", 4, 100, 20);
    hand_kernel(&trace, 4, 200, 10);
    hand_kernel(&trace, 4, 210, 0);
    hand_kernel(&trace, 4, 95, 50);
    hand_kernel(&trace, 4, 80, 15);
    hand_kernel(&trace, 5, 300, 15); /* unknown launch */
    const dl_export_process process = {.trace = &trace};
    DL_AUTOFREE char *text = export_text(&process, 1);
    assert_int_equal(check_structure(text), 3);
}

static void test_steps(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    hand_call(&trace, "cudaMalloc", 0, 1000, 10);
    const dl_export_step steps[] = {
        {1000, 500, "step 0"}, {1500, 500, "step 1"}, {1900, 500, "step 2"}};
    const dl_export_step other[] = {{1000, 1, "warm-up"}};
    const dl_export_line lines[] = {{"GPU 0 steps", steps, 3}, {"GPU 1 steps", other, 1}};
    const dl_export_process process = {.trace = &trace, .lines = lines, .line_count = 2};
    DL_AUTOFREE char *text = export_text(&process, 1);
    assert_contains(text, "\"tid\":1073741824,\"args\":{\"name\":\"GPU 0 steps\"}");
    assert_contains(text, "\"tid\":1073741825,\"args\":{\"name\":\"GPU 0 steps (2)\"}");
    assert_contains(text, "\"tid\":1073741826,\"args\":{\"name\":\"GPU 1 steps\"}");
    assert_contains(text, "\"name\":\"step 1\",\"cat\":\"user_annotation\",\"pid\":0,"
                          "\"tid\":1073741824,\"ts\":0.500,\"dur\":0.500}");
    assert_contains(text, "\"name\":\"step 2\",\"cat\":\"user_annotation\",\"pid\":0,"
                          "\"tid\":1073741825,\"ts\":0.900,\"dur\":0.500}");
    assert_contains(text, "\"name\":\"warm-up\"");
    check_structure(text);
}

/* The structure is valid for any activities. */
static void test_any_activities(void **state DL_UNUSED)
{
    enum { ROUNDS = 60, ACTIVITIES = 80 };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        dl_random random;
        dl_random_init(&random, round, 0, 0, 0);
        DL_SCOPED(dl_trace) trace = hand_trace();
        hand_name(&trace, "a");
        for (int i = 0; i < ACTIVITIES; i++) {
            dl_activity_kind kind =
                (dl_activity_kind)(1 + dl_random_below(&random, DL_ACTIVITY_KIND_END - 1));
            dl_activity *a =
                hand_activity(&trace, kind, (int64_t)dl_random_below(&random, 1000),
                              (int64_t)dl_random_below(&random, 200) * (kind != DL_ACTIVITY_MARK));
            a->name = (uint32_t)dl_random_below(&random, 2);
            a->detail = (uint32_t)dl_random_below(&random, 2);
            a->thread = (uint32_t)dl_random_below(&random, 2);
            a->stream = (uint32_t)dl_random_below(&random, 2);
            a->copy = (uint8_t)dl_random_below(&random, DL_COPY_DIRECTION_END);
            a->memory = (uint8_t)dl_random_below(&random, DL_HOST_MEMORY_END);
            a->correlation = (uint32_t)dl_random_below(&random, 20);
        }
        const dl_export_process processes[] = {{.trace = &trace}, {.trace = &trace}};
        DL_AUTOFREE char *text = export_text(processes, 2);
        check_structure(text);
    }
}

static void test_errors(void **state DL_UNUSED)
{
    dl_trace traces[2] = {hand_trace(), hand_trace()};
    dl_error err = {0};
    const dl_export_process processes[] = {{.trace = &traces[0]}, {.trace = &traces[1]}};
    assert_int_equal(dl_activity_export(processes, 2, "no/such/dir/t.json", &err), DL_ERR_IO);
    assert_string_equal(err.file, "no/such/dir/t.json");
    assert_int_equal(dl_activity_export(processes, 2, "/dev/full", &err), DL_ERR_IO);
    hand_meta(&traces[0], "clock", "realtime");
    assert_int_equal(dl_activity_export(processes, 2, PATH, &err), DL_ERR_DATA);
    assert_contains(err.text, "realtime");
    assert_int_not_equal(access(PATH, F_OK), 0);
    dl_trace_free(&traces[0]);
    dl_trace_free(&traces[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks),    cmocka_unit_test(test_numbered_processes),
        cmocka_unit_test(test_other_tracks), cmocka_unit_test(test_arrows),
        cmocka_unit_test(test_steps),        cmocka_unit_test(test_any_activities),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
