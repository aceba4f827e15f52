/* Real traces under DL_DATA: each replays to within 1 % of its recorded steps in the mean, and
 * changed durations change it. */
#include "tests/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "calibrate/replay/report.h"
#include "trace/readers/reader.h"

typedef struct expected {
    const char *file;
    const char *what; /* work whose doubling must lengthen the steps by `low` to `high` of its
                       * time */
    double low, high;
} expected;

static const expected files[] = {
    {"kineto/dlrm_a100_rank3of8.json.gz", "host", 0.01, 1},
    {"kineto/dlrm_v100_rank1of2.json.gz", "kernel", 0.3, 1},
    {"kineto/edge_multi_stream_event_sync.json.gz", "external", 0.1, 1},
    {"kineto/edge_rocm_mi250_no_bytes.json.gz", "host", 0.1, 1},
    {"kineto/edge_subsampled_rank0of128.json.gz", "host", 0.3, 1},
    {"kineto/resnet18_ddp_mi300x_rank0of8.json.gz", "collective", 0.2, 1},
    {"kineto/resnet50_ddp_a100_rank0of2.json.gz", "host", 0.8, 1}, /* host-bound */
    {"kineto/resnet50_ddp_a100_rank0of2.json.gz", "kernel", -0.01, 0.05},
    {"kineto/resnet50_ddp_v100_rank0of1.json.gz", "kernel", 0.9, 1}, /* device-bound */
    {"kineto/resnet50_ddp_v100_rank0of1.json.gz", "call", -0.01, 0.05},
    {"kineto/resnet50_v100_torch18_workers0.json.gz", "host", 0.3, 1},
    {"kineto/resnet50_v100_torch18_workers4.json.gz", "host", 0.3, 1},
    {"kineto/resnet50_v100_torch19_workers4.json.gz", "host", 0.1, 1},
    {"kineto/resnet_2080ti_no_profilerstep.json.gz", "external", 0.3, 1},
    {"nsys/cloverleaf_a100_schema_3_13.sqlite", "kernel", 0.5, 1},
    {"nsys/diffusion_h100_2ranks.sqlite", "host", 0.01, 1},
    {"nsys/edge_minimal_tables.sqlite", "kernel", -0.01, 1},
    {"nsys/schema_3_24_rtx3080.sqlite", "call", 0.3, 1},
};

static double sum_of_steps(const dl_replay_steps *steps)
{
    double sum_ns = 0;
    for (size_t i = 0; i < steps->count; i++) {
        if (dl_replay_step_counts(&steps->items[i])) sum_ns += (double)steps->items[i].replayed_ns;
    }
    return sum_ns;
}

static void check(const dl_trace *trace, const expected *want)
{
    DL_SCOPED(dl_replay_run) run = {0};
    DL_SCOPED(dl_activity_steps) steps = {0};
    DL_SCOPED(dl_replay_report) report = {0};
    dl_error err = {0};
    const dl_step_hints hints = {0};
    assert_int_equal(dl_replay_build(&run, &trace, 1, &err), DL_OK);
    assert_int_equal(dl_activity_steps_init(&steps, trace, &hints, &err), DL_OK);
    DL_AUTOFREE dl_replay_time *times = dl_calloc(run.graph.node_count, sizeof *times, "test");
    assert_int_equal(dl_replay_simulate(&run.graph, times, &err), DL_OK);
    dl_replay_report_init(&report, &run, &steps, times);
    if (!(report.regular > 0 && report.mean_error < 0.01))
        fail_msg("%s: error %g of %zu steps", want->file, report.mean_error, report.regular);
    assert_int_equal(dl_replay_scale(&run, want->what, 2, NULL, &err), DL_OK);
    assert_int_equal(dl_replay_simulate(&run.graph, times, &err), DL_OK);
    dl_replay_report_change(&report, &steps, times);
    double longer = sum_of_steps(&report.changed) / sum_of_steps(&report.steps) - 1;
    if (!(longer >= want->low && longer <= want->high))
        fail_msg("%s: with %s doubled %g longer, not %g to %g", want->file, want->what, longer,
                 want->low, want->high);
}

static void real_traces_replay_and_answer_to_changes(void **state DL_UNUSED)
{
    const char *folder = getenv("DL_DATA");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = dl_format("%s/traces/%s", folder, files[i].file);
        if (access(path, R_OK) != 0) {
            printf("missing: %s\n", path);
            free(path);
            continue;
        }
        DL_AUTO(dl_read_free) dl_read_traces traces = {0};
        const dl_read_options options = {0};
        dl_error err = {0};
        assert_int_equal(dl_read(&traces, path, &options, &err), DL_OK);
        for (size_t p = 0; p < traces.count; p++)
            check(&traces.items[p].trace, &files[i]);
        free(path);
    }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_traces_replay_and_answer_to_changes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
