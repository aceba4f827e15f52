/* Traces of training on a GPU with two INPUT records per step and the memory of a step; and bench
 * traces of GPUs. */
#include "calibrate/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "tests/calibrate/calibrate_traces.h"
#include "tests/check.h"

#define INPUT_NS 3000
#define COPY_NS 5000
#define PASS_NS 20000
#define STEP_NS 30000

static void add(made_trace *trace, dl_record record, int64_t duration_ns)
{
    record.staleness = DL_NO_STALENESS;
    record.start_ns = trace->now_ns;
    record.duration_ns = duration_ns;
    dl_trace_stream_append(trace->stream, &record);
    if (record.kind != DL_RECORD_STEP) trace->now_ns += duration_ns;
}

/* Writes steps of `batch` samples of 12 bytes: the host's input, its copy of 4 us + 0.1 us per
 * sample, one operation, and idle time. */
static void write_run(const char *path, uint32_t batch, const char *used)
{
    const int64_t copy_ns = 4000 + 100 * (int64_t)batch;
    made_trace trace;
    made_open(&trace, path, "train", "tiny");
    dl_trace_writer_meta(trace.writer, "device_count", "1");
    dl_trace_writer_meta(trace.writer, "activation_bytes", "500");
    dl_trace_writer_meta(trace.writer, "gradient_bytes", "1000000");
    if (used != NULL) dl_trace_writer_meta(trace.writer, "device_memory_bytes", used);
    const uint32_t input = dl_trace_writer_intern(trace.writer, "input");
    const uint32_t fc = dl_trace_writer_intern(trace.writer, "fc");
    for (uint32_t step = 0; step < 40; step++) {
        const int64_t start_ns = trace.now_ns;
        const dl_record in = {.kind = DL_RECORD_INPUT,
                              .name = input,
                              .step = step,
                              .samples = batch,
                              .bytes = 12 * (uint64_t)batch};
        add(&trace, in, INPUT_NS);
        add(&trace, in, copy_ns);
        add(&trace,
            (dl_record){.kind = DL_RECORD_COMPUTE,
                        .phase = DL_PHASE_FORWARD,
                        .name = fc,
                        .step = step,
                        .samples = batch},
            PASS_NS);
        trace.now_ns = start_ns;
        add(&trace, (dl_record){.kind = DL_RECORD_STEP, .step = step, .samples = batch}, STEP_NS);
        trace.now_ns = start_ns + STEP_NS;
    }
    made_close(&trace);
}

static void the_copy_is_no_part_of_the_input(void **state DL_UNUSED)
{
    write_run("gpu_facts.dlt", 10, NULL);
    DL_SCOPED(dl_dataset) dataset = {0};
    DL_SCOPED(dl_notes) notes = {0};
    assert_int_equal(dl_dataset_add(&dataset, "gpu_facts.dlt", &notes, NULL), DL_OK);
    static const char *const names[] = {"input", "fc.forward", "dispatch"};
    static const double times_ns[] = {INPUT_NS, PASS_NS, STEP_NS - INPUT_NS - COPY_NS - PASS_NS};
    assert_int_equal(dataset.op_count, 3);
    for (size_t op = 0; op < 3; op++) {
        assert_string_equal(dataset.ops[op], names[op]);
        assert_true(fabs(dataset.runs[0].op_ns[3 + op] - times_ns[op]) < 0.5);
    }
    assert_true(fabs(dataset.runs[0].step_ns[1] - (STEP_NS - COPY_NS)) < 0.5);
}

static void memory_and_input_go_to_the_costs(void **state DL_UNUSED)
{
    static const char *const paths[] = {"gpu_facts_a.dlt", "gpu_facts_b.dlt"};
    write_run(paths[0], 10, "3505000");
    write_run(paths[1], 20, "3610000");
    DL_SCOPED(dl_calibration) made = {0};
    dl_error err = {0};
    if (dl_calibration_fit(&made, paths, 2, &err) != DL_OK) fail_msg("%s", err.text);
    const dl_costs *costs = &made.costs;
    assert_true(costs->gpu_memory.activation_bytes_per_sample.value == 500);
    assert_true(costs->gpu_memory.workspace_bytes.value == 600000);
    assert_int_equal(costs->gpu_memory.workspace_bytes.origin, DL_ORIGIN_MEASURED);
    assert_true(costs->input_bytes_per_sample.value == 12);
    assert_true(fabs(costs->input_copy_ns.value - 4000) < 0.5);
}

static dl_value copy_ns(dl_gpu_copies *copies, size_t count)
{
    return dl_gpu_facts_copy_ns(&(dl_gpu_facts){.copies = copies, .copy_count = count});
}

static void copies_of_one_size_have_no_line(void **state DL_UNUSED)
{
    dl_gpu_copies copies[9];
    for (size_t count = 0; count <= 9; count++) {
        for (size_t i = 0; i < count; i++)
            copies[i] = (dl_gpu_copies){64 * 3136.0, 40000 + 700 * (double)(i * i)};
        assert_false(copy_ns(copies, count).known);
    }
}

static void copies_of_one_time_take_all_of_it(void **state DL_UNUSED)
{
    dl_gpu_copies copies[9];
    for (size_t i = 0; i < 9; i++)
        copies[i] = (dl_gpu_copies){1e5 / 3 * (double)(i + 1), 14000};
    for (size_t count = 2; count <= 9; count++) {
        assert_true(copy_ns(copies, count).known);
        assert_true(copy_ns(copies, count).value == 14000);
    }
}

static void more_bytes_in_less_time_have_no_fixed_time(void **state DL_UNUSED)
{
    dl_gpu_copies falling[] = {{32 * 602112.0, 40000}, {33 * 602112.0, 39000}};
    assert_false(copy_ns(falling, 2).known);
}

static void a_trace_without_a_time_is_left_out(void **state DL_UNUSED)
{
    dl_gpu_copies copies[] = {{1e6, 24000}, {3e6, 0}, {2e6, 34000}};
    const dl_value value = copy_ns(copies, 3);
    assert_true(value.known);
    assert_true(fabs(value.value - 14000) < 1e-6);
    assert_int_equal(value.count, 2);
    assert_false(copy_ns(copies, 2).known);
}

static void too_little_memory_in_use_is_told(void **state DL_UNUSED)
{
    static const char *const paths[] = {"gpu_facts_c.dlt"};
    write_run(paths[0], 10, "1000");
    dl_calibration made = {0};
    assert_int_equal(dl_calibration_fit(&made, paths, 1, NULL), DL_OK);
    assert_false(made.costs.gpu_memory.workspace_bytes.known);
    assert_true(made.costs.gpu_memory.activation_bytes_per_sample.known);
    bool told = false;
    for (size_t i = 0; i < made.notes.count; i++)
        told |= strstr(made.notes.lines[i], "no workspace_bytes") != NULL;
    assert_true(told);
    dl_calibration_free(&made);
    write_run(paths[0], 10, "much");
    dl_error err = {0};
    assert_int_equal(dl_calibration_fit(&made, paths, 1, &err), DL_ERR_PARSE);
    assert_contains(err.text, "device_memory_bytes");
    dl_calibration_free(&made);
}

/* Copies, launches and averages of GPUs are for dlcal links and the report; the host's costs are
 * fitted from the same file. */
static void a_bench_of_gpus_gives_what_the_host_charges(void **state DL_UNUSED)
{
    static const char *const paths[] = {"gpu_facts_bench.dlt"};
    static const char *const others[] = {"h2d",   "h2d_with_d2h",    "all_reduce",  "p2p",
                                         "triad", "gpu_1bit_encode", "average_ram", "gpu_average"};
    made_trace trace;
    made_open(&trace, paths[0], "bench", "tiny");
    dl_trace_writer_meta(trace.writer, "device_count", "1");
    for (int i = 0; i < 60; i++) {
        for (size_t o = 0; o < sizeof others / sizeof others[0]; o++) {
            made_sample(&trace, others[o],
                        (dl_record){.bytes = 1000000, .threads = 1, .duration_ns = 7});
        }
        /* 1 MB in 200 us: 5 GB/s; a size far from the parameters' has another rate. */
        made_sample(&trace, i % 2 == 0 ? "h2d_pageable" : "d2h_pageable",
                    (dl_record){.bytes = 1000000, .threads = 1, .duration_ns = 200000});
        made_sample(&trace, "h2d_pageable",
                    (dl_record){.bytes = 1000000000, .threads = 1, .duration_ns = 1000000000});
        made_sample(&trace, "barrier", (dl_record){.threads = 2, .duration_ns = 250});
        for (uint32_t n = 1; n <= 4; n *= 2) {
            made_sample(
                &trace, "average",
                (dl_record){
                    .vectors = n, .threads = 1, .bytes = 1000000, .duration_ns = 100000 * (n + 1)});
        }
    }
    made_close(&trace);
    DL_SCOPED(dl_calibration) made = {0};
    dl_error err = {0};
    if (dl_calibration_fit(&made, paths, 1, &err) != DL_OK) fail_msg("%s", err.text);
    assert_true(made.costs.barrier_ns.value == 250);
    assert_true(fabs(made.costs.copy.pageable_bytes_per_s.value / 5e9 - 1) < 1e-9);
    assert_true(fabs(made.costs.average.read_bytes_per_s.value / 1e10 - 1) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_copy_is_no_part_of_the_input),
        cmocka_unit_test(memory_and_input_go_to_the_costs),
        cmocka_unit_test(copies_of_one_size_have_no_line),
        cmocka_unit_test(copies_of_one_time_take_all_of_it),
        cmocka_unit_test(more_bytes_in_less_time_have_no_fixed_time),
        cmocka_unit_test(a_trace_without_a_time_is_left_out),
        cmocka_unit_test(too_little_memory_in_use_is_told),
        cmocka_unit_test(a_bench_of_gpus_gives_what_the_host_charges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
