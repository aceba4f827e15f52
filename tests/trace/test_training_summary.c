#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/hand_trace.h"
#include "trace/training/summary.h"

/* Returns the text of dl_summary_print or dl_summary_write_json; the caller frees it. */
static char *write_text(const dl_summary *summary, void (*write)(const dl_summary *, FILE *))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    write(summary, out);
    fclose(out);
    return text;
}

static void assert_warns(const dl_summary *summary, const char *part)
{
    for (size_t i = 0; i < summary->warnings.count; i++) {
        if (strstr(summary->warnings.lines[i], part) != NULL) return;
    }
    fail_msg("no warning holds '%s'", part);
}

/* Adds a step of 1 ms from start_ms: compute 600 us, push of 1 MB in 100 us, wait 200 us, dispatch
 * 100 us. 50 samples. */
static void add_step(dl_trace *trace, uint32_t worker, int start_ms, uint32_t conv1, int64_t stale)
{
    int64_t start_ns = start_ms * 1000000LL;
    dl_record *record = hand_record(trace, DL_RECORD_COMPUTE, worker, start_ns, 600000);
    record->name = conv1;
    record->phase = DL_PHASE_FORWARD;
    record = hand_record(trace, DL_RECORD_COPY, worker, start_ns + 600000, 100000);
    record->phase = DL_PHASE_PUSH;
    record->bytes = 1000000;
    hand_record(trace, DL_RECORD_WAIT, worker, start_ns + 700000, 200000);
    record = hand_record(trace, DL_RECORD_STEP, worker, start_ns, 1000000);
    record->samples = 50;
    record->staleness = stale;
}

/* Worker 0: 10 steps of 1 ms, staleness 0..9. Worker 2: 30 steps, staleness 1. Worker 1:
 * nothing. Each of the two has 50 samples / 1 ms = 50,000 per second, both together 2,000
 * samples in 30 ms. */
static dl_trace train_trace(void)
{
    dl_trace trace = hand_trace();
    uint32_t conv1 = hand_name(&trace, "conv1");
    hand_meta(&trace, "model", "lenet");
    hand_meta(&trace, "workers", "2");
    for (int i = 0; i < 10; i++)
        add_step(&trace, 0, i, conv1, i);
    for (int i = 0; i < 30; i++)
        add_step(&trace, 2, i, conv1, 1);
    return trace;
}

static void test_steps_and_parts(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = train_trace();
    DL_SCOPED(dl_summary) summary = {0};
    dl_summary_init(&summary, &trace);
    assert_int_equal(summary.worker_count, 2);
    assert_int_equal(summary.workers[1].worker, 2);
    assert_int_equal(summary.workers[1].step_ns.count, 30);
    assert_int_equal(summary.workers[1].samples, 1500);
    assert_int_equal(summary.total.step_ns.count, 40);
    assert_int_equal(summary.total.warmup_count, 0);
    assert_float_equal(summary.total.step_ns.mean, 1e6, 1e-6);
    assert_float_equal(summary.workers[0].samples_per_s, 50000, 1e-6);
    assert_float_equal(summary.total.samples_per_s, 2000 / 0.03, 1e-6);
    assert_float_equal(summary.total.part_frac[DL_PART_COMPUTE], 0.6, 1e-12);
    assert_float_equal(summary.total.part_frac[DL_PART_COMMUNICATION], 0.1, 1e-12);
    assert_float_equal(summary.total.part_frac[DL_PART_WAITING], 0.2, 1e-12);
    assert_float_equal(summary.total.part_frac[DL_PART_DISPATCH], 0.1, 1e-12);
    assert_float_equal(summary.total.part_frac[DL_PART_INPUT], 0, 0);
    assert_int_equal(summary.warnings.count, 0);
}

/* 40 steps: each operation 40 times; 1 MB in 100 us = 10 GB/s. */
static void test_operations_and_copies(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = train_trace();
    DL_SCOPED(dl_summary) summary = {0};
    dl_summary_init(&summary, &trace);
    assert_int_equal(summary.operation_count, 3);
    const dl_operation_summary *conv1 = &summary.operations[0], *wait = &summary.operations[2];
    assert_string_equal(conv1->name, "conv1");
    assert_int_equal(conv1->kind, DL_RECORD_COMPUTE);
    assert_int_equal(conv1->phase, DL_PHASE_FORWARD);
    assert_int_equal(conv1->count, 40);
    assert_float_equal(conv1->mean_ns, 600000, 1e-6);
    assert_float_equal(conv1->share_frac, 0.6, 1e-12);
    assert_int_equal(wait->kind, DL_RECORD_WAIT);
    assert_string_equal(wait->name, "");
    assert_int_equal(summary.copy_count, 1);
    assert_int_equal(summary.copies[0].phase, DL_PHASE_PUSH);
    assert_int_equal(summary.copies[0].count, 40);
    assert_float_equal(summary.copies[0].bytes, 40e6, 0);
    assert_float_equal(summary.copies[0].bytes_per_s, 1e10, 1);
}

/* Worker 0 has 0..9: mean 4.5, sd sqrt(82.5 / 9), the 5th of 10 values is 4, the 9th is 8. All 40:
 * 31 times 1, the rest 0 and 2..9: mean (45 + 30) / 40, p50 1, and the 36th value is 5. */
static void test_staleness(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = train_trace();
    dl_summary summary = {0};
    dl_summary_init(&summary, &trace);
    const dl_staleness_summary *own = &summary.workers[0].staleness,
                               *all = &summary.total.staleness;
    assert_int_equal(own->count, 10);
    assert_float_equal(own->mean, 4.5, 1e-12);
    assert_float_equal(own->sd, 3.0276503540974917, 1e-12);
    assert_int_equal(own->p50, 4);
    assert_int_equal(own->p90, 8);
    assert_int_equal(own->max, 9);
    assert_int_equal(all->count, 40);
    assert_float_equal(all->mean, 1.875, 1e-12);
    assert_int_equal(all->p50, 1);
    assert_int_equal(all->p90, 5);
    assert_int_equal(all->bins[0], 1);
    assert_int_equal(all->bins[1], 31);
    assert_int_equal(all->bins[9], 1);
    assert_int_equal(all->bins[10], 0);
    dl_summary_free(&summary);

    /* Values beyond the bins are counted in the last one; the maximum is exact. */
    trace.records[trace.record_count - 1].staleness = 1000000;
    trace.records[trace.record_count - 5].staleness = DL_STALENESS_BINS;
    dl_summary_init(&summary, &trace);
    assert_int_equal(summary.total.staleness.max, 1000000);
    assert_int_equal(summary.total.staleness.bins[DL_STALENESS_BINS], 2);
    assert_int_equal(summary.total.staleness.bins[1], 29);
    dl_summary_free(&summary);
}

/* The first step takes 3 ms instead of 1: it only counts as warm-up. */
static void test_warmup_left_out(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    dl_record *slow = hand_record(&trace, DL_RECORD_STEP, 0, 0, 3000000);
    slow->samples = 50;
    slow->staleness = 7;
    uint32_t conv1 = hand_name(&trace, "conv1");
    for (int i = 0; i < 30; i++)
        add_step(&trace, 0, 3 + i, conv1, 1);
    DL_SCOPED(dl_summary) summary = {0};
    dl_summary_init(&summary, &trace);
    assert_int_equal(summary.total.warmup_count, 1);
    assert_int_equal(summary.total.step_ns.count, 30);
    assert_int_equal(summary.total.samples, 1500);
    assert_int_equal(summary.total.staleness.max, 1);
    assert_float_equal(summary.total.part_frac[DL_PART_COMPUTE], 0.6, 1e-12);
    assert_float_equal(summary.operations[0].share_frac, 0.6, 1e-12);
}

static double total_per_s(const dl_trace *trace)
{
    DL_SCOPED(dl_summary) summary = {0};
    dl_summary_init(&summary, trace);
    return summary.total.samples_per_s;
}

/* Two workers that share a core: one has all its steps of 1 ms before the other. The core processes
 * 50 samples per ms, whichever worker uses it. */
static void test_workers_that_take_turns_do_not_add_up(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    uint32_t conv1 = hand_name(&trace, "conv1");
    for (int i = 0; i < 20; i++)
        add_step(&trace, (uint32_t)(i / 10), i, conv1, 1);
    assert_float_equal(total_per_s(&trace), 50000, 1e-6);

    /* 5 ms without any steps do not count, until a worker has steps there. */
    for (int i = 25; i < 45; i++)
        add_step(&trace, 0, i, conv1, 1);
    assert_float_equal(total_per_s(&trace), 50000, 1e-6);
    for (int i = 0; i < 5; i++)
        add_step(&trace, 1, 20 + i, conv1, 1);
    assert_float_equal(total_per_s(&trace), 50000, 1e-6);
}

/* Worker 0 starts with a step of 4.5 ms; of worker 1's concurrent steps only half of the one in
 * progress at its end counts. Then 5.5 ms with 11 half and 5 whole steps of 50. */
static void test_throughput_starts_when_all_are_warm(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    uint32_t conv1 = hand_name(&trace, "conv1");
    dl_record *slow = hand_record(&trace, DL_RECORD_STEP, 0, 0, 4500000);
    slow->samples = 50;
    for (int i = 0; i < 11; i++) {
        dl_record *step = hand_record(&trace, DL_RECORD_STEP, 0, 4500000 + i * 500000, 500000);
        step->samples = 50;
    }
    for (int i = 0; i < 10; i++)
        add_step(&trace, 1, i, conv1, 1);
    assert_float_equal(total_per_s(&trace), (11 + 5.5) * 50 / 5.5e-3, 1e-6);
}

static void add_bench(dl_trace *trace, uint32_t name, uint64_t bytes, uint32_t vectors,
                      int64_t duration_ns)
{
    dl_record *record = hand_record(trace, DL_RECORD_BENCH, 0, 0, duration_ns);
    record->name = name;
    record->bytes = bytes;
    record->vectors = vectors;
    record->threads = 1;
}

/* Copies of 1000 bytes in 90, 100, 110 ns and of 2000 in 100; averages of 2 vectors of 1000 bytes
 * in 200 ns (3000 bytes moved); a step of 64 samples in 1 ms; a barrier, without a rate. */
static dl_trace bench_trace(void)
{
    dl_trace trace = hand_trace();
    uint32_t step = hand_name(&trace, "step"), copy = hand_name(&trace, "copy");
    uint32_t average = hand_name(&trace, "average"), barrier = hand_name(&trace, "barrier");
    hand_meta(&trace, "kind", "bench");
    add_bench(&trace, step, 0, 2, 1000000);
    trace.records[0].samples = 64;
    add_bench(&trace, copy, 2000, 0, 100);
    add_bench(&trace, copy, 1000, 0, 110);
    add_bench(&trace, copy, 1000, 0, 90);
    add_bench(&trace, average, 1000, 2, 200);
    add_bench(&trace, copy, 1000, 0, 100);
    add_bench(&trace, barrier, 0, 0, 0);
    return trace;
}

static void test_benches(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = bench_trace();
    DL_SCOPED(dl_summary) summary = {0};
    dl_summary_init(&summary, &trace);
    assert_int_equal(summary.worker_count, 0);
    assert_int_equal(summary.warnings.count, 0);
    assert_int_equal(summary.bench_count, 5);
    const dl_bench_summary *b = summary.benches;
    assert_string_equal(b[0].name, "average");
    assert_float_equal(b[0].bytes_per_s, 15e9, 1);
    assert_string_equal(b[1].name, "barrier");
    assert_float_equal(b[1].bytes_per_s, 0, 0);
    assert_string_equal(b[2].name, "copy");
    assert_int_equal(b[2].bytes, 1000);
    assert_int_equal(b[2].duration_ns.count, 3);
    assert_float_equal(b[2].duration_ns.p50, 100, 0);
    assert_float_equal(b[2].duration_ns.p10, 92, 1e-9);
    assert_float_equal(b[2].duration_ns.p90, 108, 1e-9);
    assert_float_equal(b[2].bytes_per_s, 10e9, 1);
    assert_int_equal(b[3].bytes, 2000);
    assert_string_equal(b[4].name, "step");
    assert_int_equal(b[4].vectors, 2);
    assert_float_equal(b[4].samples_per_s, 64000, 1e-6);
}

static void test_warnings(void **state DL_UNUSED)
{
    dl_summary summary = {0};
    DL_SCOPED(dl_trace) trace = hand_trace();
    dl_summary_init(&summary, &trace);
    assert_warns(&summary, "no steps");
    assert_int_equal(summary.warnings.count, 1);
    dl_summary_free(&summary);

    /* Incomplete; 100 ns of work before the first step; a step with records of 300 ns in 100 ns;
     * 100 of 400 ns between the steps; no samples; one worker of four. */
    trace.complete = false;
    trace.bytes_ignored = 17;
    hand_meta(&trace, "workers", "4");
    hand_record(&trace, DL_RECORD_COMPUTE, 0, 0, 100);
    hand_record(&trace, DL_RECORD_COMPUTE, 0, 100, 300);
    hand_record(&trace, DL_RECORD_STEP, 0, 100, 100);
    hand_record(&trace, DL_RECORD_STEP, 0, 300, 200);
    dl_summary_init(&summary, &trace);
    assert_int_equal(summary.warnings.count, 6);
    assert_warns(&summary, "17 bytes after its last whole chunk");
    assert_warns(&summary, "in 1 of 2 steps");
    assert_warns(&summary, "1 records lie in no step");
    assert_warns(&summary, "25.0 % of the workers' time");
    assert_warns(&summary, "how many samples");
    assert_warns(&summary, "4 workers, 1 of them");
    dl_summary_free(&summary);

    trace.complete = true;
    dl_summary_init(&summary, &trace);
    assert_warns(&summary, "17 bytes after the end");
    dl_summary_free(&summary);
}

/* The text names its values, fits into 80 columns and breaks a long value at its spaces. */
static void test_print(void **state DL_UNUSED)
{
    dl_trace trace = train_trace();
    hand_meta(&trace, "command",
              "dlprof train --model lenet --workers 2 --sync async --batch 128 --steps 4000 "
              "--optimizer momentum --seed 1");
    trace.complete = false;
    dl_summary summary = {0};
    dl_summary_init(&summary, &trace);
    char *text = write_text(&summary, dl_summary_print);
    assert_contains(text, "records          160, incomplete\n");
    assert_contains(text, "model            lenet\n");
    assert_contains(text, "--batch 128\n                 --steps 4000 --optimizer");
    assert_contains(text, "2         30       0 1.00 ms 1.00 ms 1.00 ms 0 ns");
    assert_contains(text, "all       40 ");
    assert_contains(text, "conv1     compute forward    40");
    assert_contains(text, "push      40 40.0 MB    1.00 MB 100 us");
    assert_contains(text, "10.0 GB/s");
    assert_contains(text, "    1         31    77.50 % ########################################\n");
    assert_contains(text, "warning          the trace is incomplete");
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        if (strcspn(line, "\n") > 80) fail_msg("over 80 columns: %.100s", line);
    }
    free(text);
    dl_summary_free(&summary);
    dl_trace_free(&trace);

    trace = bench_trace();
    dl_summary_init(&summary, &trace);
    text = write_text(&summary, dl_summary_print);
    assert_contains(text, "copy    1.00 kB       -       1       - 3  100 ns 92.0 ns");
    assert_contains(text, "10.0 GB/s\n");
    assert_contains(text, " 64000/s\n");
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        if (strcspn(line, "\n") > 80) fail_msg("over 80 columns: %.100s", line);
    }
    free(text);
    dl_summary_free(&summary);
    dl_trace_free(&trace);
}

static void test_json(void **state DL_UNUSED)
{
    dl_trace trace = train_trace();
    hand_meta(&trace, "a \"key\"", "line\n");
    dl_summary summary = {0};
    dl_summary_init(&summary, &trace);
    char *text = write_text(&summary, dl_summary_write_json);
    assert_contains(text, "{\"path\":\"hand.dlt\",\"complete\":true,\"bytes_ignored\":0,"
                          "\"records\":160,\"meta\":{\"model\":\"lenet\",\"workers\":\"2\","
                          "\"a \\\"key\\\"\":\"line\\u000a\"},\"workers\":[{\"worker\":0,"
                          "\"warmup_steps\":0,\"step_ns\":{\"count\":10,\"mean\":1000000,");
    assert_contains(text, "\"bins\":[1,1,1,1,1,1,1,1,1,1]}},{\"worker\":2,");
    assert_contains(text, "\"total\":{\"workers\":2,\"warmup_steps\":0,");
    assert_contains(text, "\"samples\":2000,");
    assert_contains(text, "\"compute_frac\":0.6");
    assert_contains(text, "\"operations\":[{\"name\":\"conv1\",\"kind\":\"compute\","
                          "\"phase\":\"forward\",\"count\":40,\"mean_ns\":600000,");
    assert_contains(text, "\"copies\":[{\"phase\":\"push\",\"count\":40,\"bytes\":40000000,");
    assert_contains(text, "\"benches\":[],\"warnings\":[]}\n");
    free(text);
    dl_summary_free(&summary);
    dl_trace_free(&trace);

    trace = bench_trace();
    trace.complete = false;
    dl_summary_init(&summary, &trace);
    text = write_text(&summary, dl_summary_write_json);
    assert_contains(text, "\"workers\":[],\"total\":{\"workers\":0,");
    assert_contains(text, "\"staleness\":null}");
    assert_contains(text, "{\"name\":\"copy\",\"bytes\":1000,\"vectors\":0,\"threads\":1,"
                          "\"samples\":0,\"duration_ns\":{\"count\":3,\"mean\":100,");
    assert_contains(text, "\"warnings\":[\"the trace is incomplete");
    free(text);
    dl_summary_free(&summary);
    dl_trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_and_parts),
        cmocka_unit_test(test_operations_and_copies),
        cmocka_unit_test(test_staleness),
        cmocka_unit_test(test_warmup_left_out),
        cmocka_unit_test(test_workers_that_take_turns_do_not_add_up),
        cmocka_unit_test(test_throughput_starts_when_all_are_warm),
        cmocka_unit_test(test_benches),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
