/* Real traces under DL_DATA; each expected value was counted in the file by other means. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/activity/steps.h"
#include "trace/readers/reader.h"

typedef struct expected {
    const char *file;
    const char *reader, *rank; /* NULL: unknown */
    size_t processes;
    /* of the first process */
    size_t kernels, copies, sets, calls, ranges, collectives, sized;
    size_t regular_steps; /* 0: not checked */
    double step_ms;       /* median of regular steps; 0: not checked */
    dl_step_method method;
} expected;

static const expected files[] = {
    {"kineto/resnet50_v100_torch18_workers0.json.gz", "kineto", NULL, 1, 9538, 12, 377, 10800,
     42438, 0, 0, 6, 0, DL_STEPS_MARKS},
    /* The first of its 6 marks also contains work from before the trace. */
    {"kineto/resnet50_v100_torch18_workers4.json.gz", "kineto", NULL, 1, 9484, 12, 352, 10692,
     37434, 0, 0, 5, 0, DL_STEPS_MARKS},
    {"kineto/resnet50_v100_torch19_workers4.json.gz", "kineto", NULL, 1, 8868, 12, 378, 12085,
     20562, 0, 0, 6, 0, DL_STEPS_MARKS},
    {"kineto/dlrm_a100_rank3of8.json.gz", "kineto", "3", 1, 8568, 228, 654, 24692, 40794, 60, 60, 6,
     0, DL_STEPS_MARKS},
    {"kineto/dlrm_v100_rank1of2.json.gz", "kineto", "1", 1, 9876, 4856, 900, 21167, 31524, 60, 60,
     6, 0, DL_STEPS_MARKS},
    {"kineto/resnet50_ddp_v100_rank0of1.json.gz", "kineto", "0", 1, 4350, 1600, 145, 15329, 23980,
     35, 35, 5, 95.6, DL_STEPS_MARKS},
    {"kineto/resnet50_ddp_a100_rank0of2.json.gz", "kineto", "0", 1, 2700, 960, 114, 8740, 14388, 21,
     21, 3, 0, DL_STEPS_MARKS},
    {"kineto/resnet18_ddp_mi300x_rank0of8.json.gz", "kineto", "0", 1, 2995, 550, 108, 3100, 8028,
     12, 12, 0, 0, DL_STEPS_NONE},
    {"kineto/resnet_2080ti_no_profilerstep.json.gz", "kineto", NULL, 1, 9628, 123, 362, 25928,
     39506, 0, 0, 0, 0, DL_STEPS_PERIOD},
    {"kineto/edge_rank_not_found.json.gz", "kineto", NULL, 1, 0, 0, 0, 0, 2467, 6, 0, 0, 0,
     DL_STEPS_NONE},
    {"kineto/edge_subsampled_rank0of128.json.gz", "kineto", "0", 1, 1154, 40, 10, 1204, 2402, 10,
     10, 0, 0, DL_STEPS_NONE},
    {"kineto/edge_rocm_mi250_no_bytes.json.gz", "kineto", NULL, 1, 14, 2, 0, 21, 73, 0, 0, 0, 0,
     DL_STEPS_NONE},
    {"kineto/edge_multi_stream_event_sync.json.gz", "kineto", "0", 1, 3, 0, 3, 39, 6, 0, 0, 0, 0,
     DL_STEPS_NONE},
    {"nsys/diffusion_h100_2ranks.sqlite", "nsys", "0", 2, 1993, 510, 0, 0, 9443, 128, 0, 0, 0,
     DL_STEPS_NONE},
    {"nsys/cloverleaf_a100_schema_3_13.sqlite", "nsys", NULL, 1, 1312, 279, 0, 3048, 0, 0, 0, 0, 0,
     DL_STEPS_NONE},
    {"nsys/schema_3_24_rtx3080.sqlite", "nsys", NULL, 1, 2, 1, 0, 9, 0, 0, 0, 0, 0, DL_STEPS_NONE},
    {"nsys/edge_minimal_tables.sqlite", "nsys", NULL, 1, 400, 0, 0, 400, 0, 0, 0, 0, 0,
     DL_STEPS_NONE},
};

static size_t count(const dl_trace *trace, dl_activity_kind kind, bool sized)
{
    size_t found = 0;
    for (size_t i = 0; i < trace->activity_count; i++)
        found += trace->activities[i].kind == kind && (!sized || trace->activities[i].bytes > 0);
    return found;
}

static int by_value(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void check_steps(const expected *e, const dl_trace *trace)
{
    const dl_step_hints hints = {0};
    dl_activity_steps steps = {0};
    dl_error err = {0};
    double durations_ms[100];
    size_t regular = 0;
    if (e->method == DL_STEPS_NONE) return;
    assert_int_equal(dl_activity_steps_init(&steps, trace, &hints, &err), DL_OK);
    assert_int_equal(steps.count, 1);
    assert_int_equal(steps.lines[0].method, e->method);
    for (size_t i = 0; i < steps.lines[0].count && regular < 100; i++) {
        if (steps.lines[0].steps[i].label == DL_STEP_REGULAR)
            durations_ms[regular++] = (double)steps.lines[0].steps[i].duration_ns * 1e-6;
    }
    if (e->regular_steps > 0) assert_int_equal(regular, e->regular_steps);
    if (e->step_ms > 0) {
        qsort(durations_ms, regular, sizeof durations_ms[0], by_value);
        assert_true(durations_ms[regular / 2] > 0.99 * e->step_ms);
        assert_true(durations_ms[regular / 2] < 1.01 * e->step_ms);
    }
    dl_activity_steps_free(&steps);
}

static void check(const expected *e, const char *folder)
{
    const dl_read_options options = {0};
    DL_AUTO(dl_read_free) dl_read_traces traces = {0};
    dl_error err = {0};
    DL_AUTOFREE char *path = dl_format("%s/traces/%s", folder, e->file);
    if (dl_read(&traces, path, &options, &err) != DL_OK) fail_msg("%s: %s", path, err.text);
    const dl_trace *trace = &traces.items[0].trace;
    const struct {
        size_t expected;
        dl_activity_kind kind;
    } counts[] = {{e->copies, DL_ACTIVITY_MEMCPY},
                  {e->sets, DL_ACTIVITY_MEMSET},
                  {e->calls, DL_ACTIVITY_CALL},
                  {e->ranges, DL_ACTIVITY_RANGE},
                  {e->collectives, DL_ACTIVITY_COLLECTIVE}};
    print_message("%s\n", e->file);
    assert_string_equal(traces.reader, e->reader);
    assert_int_equal(traces.count, e->processes);
    assert_true(trace->complete);
    assert_int_equal(count(trace, DL_ACTIVITY_KERNEL, false), e->kernels);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i].expected > 0)
            assert_int_equal(count(trace, counts[i].kind, false), counts[i].expected);
    }
    assert_int_equal(count(trace, DL_ACTIVITY_COLLECTIVE, true), e->sized);
    const char *rank = dl_trace_meta(trace, "rank");
    if (e->rank != NULL) {
        assert_non_null(rank);
        assert_string_equal(rank, e->rank);
    } else {
        assert_null(rank);
    }
    check_steps(e, trace);
}

static void real_traces_are_read(void **state DL_UNUSED)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        check(&files[i], getenv("DL_DATA"));
}

int main(void)
{
    const char *folder = getenv("DL_DATA");
    DL_AUTOFREE char *path = dl_format("%s/traces", folder != NULL ? folder : "");
    bool there = folder != NULL && access(path, R_OK) == 0;
    if (!there) {
        fprintf(stderr, "skipped: no traces under DL_DATA\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_traces_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
