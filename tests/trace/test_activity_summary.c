#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/hand_trace.h"
#include "trace/activity/summary.h"

#define US 1000LL

/* Adds an activity over [start_us, end_us); the caller may change it until the next one is
 * added. */
static dl_activity *add(dl_trace *trace, dl_activity_kind kind, const char *name, int64_t start_us,
                        int64_t end_us)
{
    size_t count = trace->activity_count++;
    trace->activities = dl_realloc(trace->activities, count + 1, sizeof *trace->activities, "test");
    trace->activities[count] = (dl_activity){
        .kind = (uint8_t)kind, .start_ns = start_us * US, .duration_ns = (end_us - start_us) * US};
    if (name[0] != '\0') trace->activities[count].name = hand_name(trace, name);
    return &trace->activities[count];
}

/* Adds a launching call of thread 1; 5 us. */
static void add_launch(dl_trace *trace, uint32_t correlation, int64_t start_us)
{
    dl_activity *call = add(trace, DL_ACTIVITY_CALL, "cudaLaunchKernel", start_us, start_us + 5);
    call->thread = 1;
    call->correlation = correlation;
}

static void add_kernel(dl_trace *trace, const char *name, uint32_t correlation, int64_t start_us,
                       int64_t end_us)
{
    add(trace, DL_ACTIVITY_KERNEL, name, start_us, end_us)->correlation = correlation;
}

static void add_copy(dl_trace *trace, dl_copy_direction direction, dl_host_memory memory,
                     uint64_t bytes, int64_t start_us, int64_t end_us)
{
    dl_activity *copy = add(trace, DL_ACTIVITY_MEMCPY, "", start_us, end_us);
    copy->copy = (uint8_t)direction;
    copy->memory = (uint8_t)memory;
    copy->bytes = bytes;
}

/* Device 0, in us: sgemm [100, 200) and [300, 400), an all-reduce of 1 MB between 2 ranks [150,
 * 250), an addition [400, 450); copies: [0, 10) and [10, 20) of 40 kB each from pinned memory,
 * [450, 460) of 5 kB from pageable, a memset [460, 461). Busy 0-20, 100-250, 300-461 = 331 of 461;
 * gaps [20, 100), [250, 300). Launches: the sgemms' at 95 and 301 (1 us after its start), the
 * all-reduce's at 100, none for the addition. The first gap is therefore launch-bound, 80, and so
 * is the second, 50. Kernels sum to 100 + 100 + 100 + 50 = 350. */
static dl_trace small_trace(void)
{
    dl_trace trace = hand_trace();
    hand_meta(&trace, "host", "box");
    hand_meta(&trace, "pid", "77");
    hand_meta(&trace, "rank", "1");
    hand_meta(&trace, "world_size", "2");
    hand_meta(&trace, "command", "python train.py");
    hand_meta(&trace, "device.0.name", "H200");
    add_copy(&trace, DL_COPY_H2D, DL_MEMORY_PINNED, 40000, 0, 10);
    add_copy(&trace, DL_COPY_H2D, DL_MEMORY_PINNED, 40000, 10, 20);
    add_copy(&trace, DL_COPY_H2D, DL_MEMORY_PAGEABLE, 5000, 450, 460);
    add(&trace, DL_ACTIVITY_MEMSET, "", 460, 461)->bytes = 64;
    add_launch(&trace, 1, 95);
    add_kernel(&trace, "volta_sgemm_64x64_nt", 1, 100, 200);
    dl_activity *call = add(&trace, DL_ACTIVITY_COLLECTIVE, "AllReduce", 98, 107);
    call->thread = 1;
    call->bytes = 1000000;
    call->object = 5;
    dl_activity *comm = add(&trace, DL_ACTIVITY_COMM, "", 1, 1);
    comm->object = 5;
    comm->count = 2;
    add_launch(&trace, 2, 100);
    add_kernel(&trace, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 2, 150, 250);
    add_launch(&trace, 3, 301);
    add_kernel(&trace, "volta_sgemm_64x64_nt", 3, 300, 400);
    add_kernel(&trace,
               "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_10AddFunctorIfEEEEviT0_", 0,
               400, 450);
    add(&trace, DL_ACTIVITY_CALL, "cudaStreamSynchronize", 350, 460)->thread = 1;
    add(&trace, DL_ACTIVITY_OVERHEAD, "flush", 0, 3)->thread = 9;
    return trace;
}

static void test_device(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = small_trace();
    DL_SCOPED(dl_activity_summary) summary = {0};
    dl_activity_summary_init(&summary, &trace, NULL);
    assert_string_equal(summary.rank, "1");
    assert_int_equal(summary.device_count, 1);
    const dl_device_summary *d = &summary.devices[0];
    assert_string_equal(d->name, "H200");
    assert_false(d->in_steps);
    assert_int_equal(d->steps.method, DL_STEPS_NONE);
    assert_int_equal(d->time.busy_ns, 331 * US);
    assert_int_equal(d->time.launch_bound_ns, 130 * US);
    assert_int_equal(d->time.exposed_communication_ns, 50 * US);
    assert_float_equal(d->kernel_total_ns, 350 * US, 0);
    /* The one whose name sorts first of two kernels with a total of 100 us. */
    assert_int_equal(d->kernel_count, 3);
    assert_string_equal(d->kernels[0].name, "volta_sgemm_64x64_nt");
    assert_int_equal(d->kernels[0].class, DL_KERNEL_GEMM);
    assert_int_equal(d->kernels[0].count, 2);
    assert_float_equal(d->kernels[0].share_frac, 200.0 / 350, 1e-12);
    assert_string_equal(d->kernels[1].name, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    assert_string_equal(d->kernels[2].name,
                        "at::native::vectorized_elementwise_kernel<AddFunctor>");
    assert_float_equal(d->classes[DL_KERNEL_GEMM].total_ns, 200 * US, 0);
    assert_float_equal(d->classes[DL_KERNEL_COLLECTIVE].share_frac, 100.0 / 350, 1e-12);
    assert_int_equal(d->classes[DL_KERNEL_OTHER].count, 0);
    /* Pageable before pinned (enumeration order), memsets last. 80 kB in 20 us = 4 GB/s. */
    assert_int_equal(d->transfer_count, 3);
    assert_int_equal(d->transfers[0].memory, DL_MEMORY_PAGEABLE);
    assert_float_equal(d->transfers[1].bytes_per_s, 4e9, 1);
    assert_int_equal(d->transfers[1].count, 2);
    assert_int_equal(d->transfers[2].kind, DL_ACTIVITY_MEMSET);
    /* 1 MB in 100 us by 2 ranks: factor 1. */
    assert_int_equal(d->collective_count, 1);
    assert_int_equal(d->collectives[0].bytes, 1000000);
    assert_float_equal(d->collectives[0].bus_bytes_per_s, 1e10, 1);
}

static bool warns(const dl_activity_summary *summary, const char *part)
{
    for (size_t i = 0; i < summary->warnings.count; i++) {
        if (strstr(summary->warnings.lines[i], part) != NULL) return true;
    }
    return false;
}

/* 3 of 8 kernels have launches; one starts 1 us before its launch. */
static void test_quality(void **state DL_UNUSED)
{
    dl_trace trace = small_trace();
    dl_activity_summary summary = {0};
    dl_activity_summary_init(&summary, &trace, NULL);
    assert_int_equal(summary.quality.work_count, 8);
    assert_int_equal(summary.quality.launched_count, 3);
    assert_int_equal(summary.quality.early_count, 1);
    assert_int_equal(summary.quality.early_worst_ns, 1 * US);
    assert_true(warns(&summary, "1 of 3 GPU operations start before their launch call, by 1"));
    assert_true(warns(&summary, "5 of 8 GPU operations have no recorded launch call"));
    assert_false(warns(&summary, "incomplete (killed"));
    assert_false(warns(&summary, "dropped"));
    assert_int_equal(summary.warnings.count, 2);
    dl_activity_summary_free(&summary);

    trace.complete = false;
    trace.late_ends = 2;
    trace.late_worst_ns = 3 * US;
    hand_meta(&trace, "dropped_records", "12");
    hand_meta(&trace, "lost_timestamps", "3");
    hand_meta(&trace, "lost_activities", "many");
    hand_meta(&trace, "takeover", "kineto");
    hand_meta(&trace, "stopped", "limit on time");
    dl_activity_summary_init(&summary, &trace, NULL);
    assert_true(warns(&summary, "the trace is incomplete"));
    assert_true(warns(&summary, "12 records were dropped by CUPTI"));
    assert_true(warns(&summary, "3 activities had no times"));
    assert_int_equal(summary.quality.losses[DL_LOSS_LOST_ACTIVITIES], 0);
    assert_true(warns(&summary, "ended before the program: limit on time"));
    assert_true(warns(&summary, "another profiler took over the recording (kineto)"));
    assert_true(warns(&summary, "2 copies were recorded to end after the next operation of"));
    dl_activity_summary_free(&summary);
    dl_trace_free(&trace);

    trace = hand_trace();
    dl_activity_summary_init(&summary, &trace, NULL);
    assert_int_equal(summary.device_count, 0);
    assert_true(warns(&summary, "no work of a device"));
    dl_activity_summary_free(&summary);
    dl_trace_free(&trace);
}

/* Without the meta keys the largest communicator gives the rank, unless the process has several of
 * its ranks. */
static void test_rank(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    dl_activity_summary summary = {0};
    const uint32_t comms[][2] = {{1, 2}, {5, 8}, {0, 2}, {5, 8}, {6, 8}};
    const char *ranks[] = {"1", "5", "5", "5", ""}, *sizes[] = {"2", "8", "8", "8", ""};
    for (int i = 0; i < 5; i++) {
        dl_activity *comm = add(&trace, DL_ACTIVITY_COMM, "", 0, 0);
        comm->peer = comms[i][0];
        comm->count = comms[i][1];
        dl_activity_summary_init(&summary, &trace, NULL);
        assert_string_equal(summary.rank, ranks[i]);
        assert_string_equal(summary.world_size, sizes[i]);
        dl_activity_summary_free(&summary);
    }
    hand_meta(&trace, "rank", "3");
    dl_activity_summary_init(&summary, &trace, NULL);
    assert_string_equal(summary.rank, "3");
    dl_activity_summary_free(&summary);
}

/* One warm-up step [0, 100), regular ones [100, 300) and [300, 450), another [450, 461): the time
 * line covers [100, 450): idle [250, 300). */
static dl_activity_step steps[] = {
    {.label = DL_STEP_WARMUP, .start_ns = 0, .duration_ns = 100 * US},
    {.label = DL_STEP_REGULAR, .start_ns = 100 * US, .duration_ns = 200 * US},
    {.label = DL_STEP_REGULAR, .start_ns = 300 * US, .duration_ns = 150 * US},
    {.label = DL_STEP_OTHER, .start_ns = 450 * US, .duration_ns = 11 * US},
};
static dl_step_line line = {.steps = steps,
                            .count = 4,
                            .regular_count = 2,
                            .method = DL_STEPS_PERIOD,
                            .order_match = 0.875,
                            .similarity = 0.75};
static const dl_activity_steps found = {.lines = &line, .count = 1};

static void test_steps(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = small_trace();
    DL_SCOPED(dl_activity_summary) summary = {0};
    dl_activity_summary_init(&summary, &trace, &found);
    const dl_device_summary *d = &summary.devices[0];
    assert_true(d->in_steps);
    assert_int_equal(d->time.end_ns - d->time.start_ns, 350 * US);
    assert_int_equal(d->time.idle_ns, 50 * US);
    assert_int_equal(d->steps.step_ns.count, 2);
    assert_float_equal(d->steps.step_ns.p50, 175 * US, 1e-6);
    assert_int_equal(d->steps.warmup_steps, 1);
    assert_int_equal(d->steps.other_steps, 1);
    /* Tables still cover the whole trace. */
    assert_int_equal(d->transfer_count, 3);
}

static void assert_narrow(const char *text)
{
    for (const char *line_start = text; *line_start != '\0';) {
        size_t length = strcspn(line_start, "\n");
        if (length > 80) fail_msg("%zu columns: %.*s", length, (int)length, line_start);
        line_start += length + (line_start[length] == '\n');
    }
}

static void test_print(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = small_trace();
    DL_SCOPED(dl_activity_summary) summary = {0};
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_activity_summary_init(&summary, &trace, &found);
    FILE *out = open_memstream(&text, &bytes);
    dl_activity_summary_print(&summary, 2, out);
    const dl_activity_summary twice[] = {summary, summary};
    dl_activity_summaries_compare(twice, 2, out);
    fclose(out);
    assert_narrow(text);
    assert_contains(text, "rank             1 of 2\n");
    assert_contains(text, "device 0         H200\n");
    assert_contains(text, "python train.py");
    assert_contains(text, "volta_sgemm_64x64_nt              gemm");
    assert_contains(text, "and 1 more\n"); /* kernels beyond the first two */
    assert_contains(text, "h2d    pinned       2");
    assert_contains(text, "AllReduce");
    assert_contains(text, "period\n");
    assert_contains(text, "threads in calls 125 us, of it waiting 110 us\n"); /* 3 * 5 + 110 */
    assert_contains(text, "warning          1 of 3 GPU operations");
    assert_contains(text, "\n1      0   175 us 350 us");
}

/* Checks that brackets outside of strings close in order and end with the text. */
static void assert_nested(const char *json)
{
    char open[64];
    size_t depth = 0;
    for (bool quoted = false; *json != '\n'; json++) {
        if (*json == '\\')
            json++;
        else if (*json == '"')
            quoted = !quoted;
        else if (!quoted && strchr("{[", *json) != NULL)
            open[depth++] = *json == '{' ? '}' : ']';
        else if (!quoted && strchr("}]", *json) != NULL)
            assert_int_equal(*json, open[--depth]);
        assert_in_range(depth, 0, sizeof open - 1);
    }
    assert_int_equal(depth, 0);
}

static void test_json(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = small_trace();
    DL_SCOPED(dl_activity_summary) summary = {0};
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_activity_summary_init(&summary, &trace, &found);
    FILE *out = open_memstream(&text, &bytes);
    dl_activity_summary_write_json(&summary, out);
    fclose(out);
    assert_nested(text);
    assert_contains(text, "\"rank\":\"1\",\"world_size\":\"2\"");
    assert_contains(text, "\"time\":{\"of\":\"steps\",\"start_ns\":100000,\"span_ns\":350000,");
    assert_contains(text,
                    "{\"name\":\"volta_sgemm_64x64_nt\",\"class\":\"gemm\",\"phase\":\"none\","
                    "\"count\":2,\"total_ns\":200000,");
    assert_contains(text, "\"direction\":\"h2d\",\"memory\":\"pinned\",\"count\":2,\"bytes\":80000,"
                          "\"total_ns\":20000,");
    assert_contains(text, "\"early_works\":1,\"early_worst_ns\":1000,\"late_ends\":0,");
}

/* Writes the summary as text and as JSON. */
static void write_both(const dl_activity_summary *summary, char **text, char **json)
{
    size_t bytes = 0;
    FILE *out = open_memstream(text, &bytes);
    dl_activity_summary_print(summary, 2, out);
    fclose(out);
    out = open_memstream(json, &bytes);
    dl_activity_summary_write_json(summary, out);
    fclose(out);
    assert_narrow(*text);
}

#define FIGURES                                                                             \
    "kernel 1000 900 1100; copy 2000 1900 2100; event 1 1 1; sync 1 1 1; record 50 40 60; " \
    "repetitions 6; host box; device H200"

/* The second regular step has two kernels and a copy: 4 us in two steps of 350 us. */
static void test_cost_of_recording(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = small_trace();
    size_t work[3], count = 0;
    for (size_t i = 0; i < trace.activity_count && count < 3; i++) {
        const dl_activity *a = &trace.activities[i];
        if (a->kind == DL_ACTIVITY_KERNEL || (a->kind == DL_ACTIVITY_MEMCPY && a->start_ns == 0))
            work[count++] = i;
    }
    dl_activity_step with_work[4];
    memcpy(with_work, steps, sizeof with_work);
    with_work[2].count = 3;
    dl_step_line full = line;
    full.steps = with_work;
    full.work = work;
    full.work_count = 3;
    const dl_activity_steps all = {.lines = &full, .count = 1};
    hand_meta(&trace, "preset", "light");
    char *text, *json;
    static const struct {
        const char *value, *text, *json;
    } cases[] = {{NULL, "light; its cost is unknown", "\"cost_known\":false"},
                 {"unknown (no GPU)", "its cost is unknown (no GPU)", "unknown (no GPU)"},
                 {FIGURES, "device 0: 1 kernels, 0.5 copies", "\"kernel\":{\"ns\":1000,"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        DL_SCOPED(dl_activity_summary) summary = {0};
        if (i == 1) hand_meta(&trace, "capture_cost", cases[i].value);
        if (i == 2) {
            char **value = &trace.meta[2 * trace.meta_count - 1];
            free(*value);
            *value = dl_strdup(cases[i].value);
        }
        dl_activity_summary_init(&summary, &trace, &all);
        write_both(&summary, &text, &json);
        assert_contains(text, cases[i].text);
        assert_contains(json, cases[i].json);
        assert_int_equal(summary.devices[0].capture.steps,
                         cases[i].value == NULL ? 0 : 2 * (i > 1));
        free(text);
        free(json);
        if (i == 2) {
            assert_contains(text = dl_format("%.6f", summary.devices[0].capture.share_frac),
                            "0.011429");
            free(text);
        }
    }
}

/* Units cut by marks cause a warning if they have little in common. */
static void test_unlike_steps_are_a_warning(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = small_trace();
    dl_step_line unlike = line;
    unlike.method = DL_STEPS_MARKS;
    unlike.similarity = 0.03;
    const dl_activity_steps marked = {.lines = &unlike, .count = 1};
    dl_activity_summary summary = {0};
    dl_activity_summary_init(&summary, &trace, &marked);
    assert_true(warns(&summary, "device 0: the 2 steps by marks differ too much (likeness 0.03, "));
    dl_activity_summary_free(&summary);
    unlike.order_match = 0.5;
    summary = (dl_activity_summary){0};
    dl_activity_summary_init(&summary, &trace, &marked);
    assert_true(warns(&summary, "device 0: only 50 % of a step's work comes in the order"));
    dl_activity_summary_free(&summary);
    summary = (dl_activity_summary){0};
    dl_activity_summary_init(&summary, &trace, &found);
    assert_false(warns(&summary, "hardly alike"));
    assert_false(warns(&summary, "sub-sampled"));
    dl_activity_summary_free(&summary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_quality),
        cmocka_unit_test(test_rank),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_cost_of_recording),
        cmocka_unit_test(test_unlike_steps_are_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
