#include "calibrate/calibration.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file.h"
#include "tests/calibrate/calibrate_traces.h"
#include "tests/check.h"

static const made_variation noisy = {0.02, 0.05, 3e5};

/* Writes a bench trace with known costs: copies 1 us + 0.1 ns per byte, averages bytes (n / 20 + 1
 * / 10) ns, two copies of the step 5 % slower. */
static void make_bench(const char *path)
{
    made_trace trace;
    dl_random random;
    dl_random_init(&random, 9, 0, 0, 0);
    made_open(&trace, path, "bench", "tiny");
    for (int repetition = 0; repetition < 20; repetition++) {
        const double factor = 1 + 0.02 * dl_random_normal(&random);
        for (uint64_t bytes = 250000; bytes <= 4000000; bytes *= 2) {
            const double size = (double)bytes;
            made_sample(&trace, "copy",
                        (dl_record){.bytes = bytes,
                                    .threads = 1,
                                    .duration_ns = (int64_t)((1000 + 0.1 * size) * factor)});
            made_sample(&trace, "copy",
                        (dl_record){.bytes = bytes,
                                    .threads = 2,
                                    .duration_ns = (int64_t)((1000 + 0.15 * size) * factor)});
            for (uint32_t n = 1; n <= 4; n *= 2) {
                made_sample(
                    &trace, "average",
                    (dl_record){.bytes = bytes,
                                .vectors = n,
                                .threads = 1,
                                .duration_ns = (int64_t)(size * (n / 20.0 + 0.1) * factor)});
            }
        }
        made_sample(&trace, "barrier", (dl_record){.threads = 2, .duration_ns = 400});
        for (uint32_t k = 1; k <= 2; k++) {
            for (uint32_t s = 0; s < 10; s++) {
                made_sample(&trace, "step",
                            (dl_record){.worker = k == 2 && s >= 5,
                                        .vectors = k,
                                        .threads = k,
                                        .samples = 32,
                                        .step = s,
                                        .duration_ns = k == 1 ? 645000 : 677250});
            }
        }
    }
    made_close(&trace);
}

static void fit_all(dl_calibration *calibration)
{
    made_train("calibration_32.dlt", 32, 300, &noisy, 1);
    made_train("calibration_64.dlt", 64, 300, &noisy, 2);
    made_train("calibration_128.dlt", 128, 300, &noisy, 3);
    make_bench("calibration_bench.dlt");
    const char *const paths[] = {"calibration_32.dlt", "calibration_bench.dlt",
                                 "./calibration_64.dlt", "calibration_128.dlt"};
    *calibration = (dl_calibration){0};
    dl_error err = {0};
    if (dl_calibration_fit(calibration, paths, 4, &err) != DL_OK) fail_msg("%s", err.text);
}

/* With noise-free sums of 20 ns, the fitted step at batch 96 (never measured) is within 1 % of
 * 1000 + 20000 + 30000 + 50000 + 400 + 96 * 17100 = 1743000 ns. The mean of the noise factors
 * follows from the outliers: 0.05 * 300000 ns over each batch size's step, 648600, 1195800 and
 * 2290200 ns. */
static void test_costs_are_recovered(void **state DL_UNUSED)
{
    dl_calibration calibration;
    fit_all(&calibration);
    const dl_costs *costs = &calibration.costs;
    assert_int_equal(costs->op_count, MADE_OPS + 1);
    assert_true(fabs(dl_costs_step_ns(costs, 96, NULL) / 1743000 - 1) < 0.01);
    for (int op = 1; op < 3; op++) {
        const dl_value slope = costs->ops[op].per_sample_ns;
        assert_true(fabs(slope.value / made_ops[op].per_sample_ns - 1) < 0.02);
    }
    const double steps_ns[] = {648600, 1195800, 2290200};
    assert_int_equal(calibration.noise.count, 4); /* three batch sizes and two concurrent copies */
    for (int i = 0; i < 3; i++)
        assert_true(fabs(calibration.noise.sets[i].shape.mean - 1 - 15000 / steps_ns[i]) < 0.01);
    assert_int_equal(costs->batch_min, 32);
    assert_int_equal(costs->batch_max, 128);
    assert_int_equal(costs->parameter_bytes, 1000000);
    assert_true(fabs(costs->copy.bandwidth_bytes_per_s.value / 10e9 - 1) < 0.05);
    assert_true(fabs(costs->average.read_bytes_per_s.value / 20e9 - 1) < 0.05);
    /* two threads: 2 * 2 * 1e6 bytes; the nearest size to the parameters is 1 MB in 151 us */
    assert_true(fabs(costs->memory_total_bytes_per_s.value / (4e6 / 151e-6) - 1) < 0.05);
    assert_int_equal(costs->memory_total_bytes_per_s.origin, DL_ORIGIN_FITTED);
    assert_true(fabs(costs->sharing[2].value - 1.05) < 1e-6);
    assert_true(costs->barrier_ns.value == 400);
    assert_false(costs->lock_ns.known || costs->update.latency_ns.known);
    dl_calibration_free(&calibration);
    dl_calibration_free(&calibration);
}

static void same_value(const dl_value *a, const dl_value *b)
{
    assert_int_equal(a->known, b->known);
    if (!a->known) return;
    assert_true(a->value == b->value && a->error == b->error);
    assert_true(a->count == b->count && a->origin == b->origin);
}

/* A written file reads back equal and contains its origin. */
static void test_cost_file_round_trip(void **state DL_UNUSED)
{
    DL_SCOPED(dl_calibration) calibration;
    fit_all(&calibration);
    dl_error err = {0};
    assert_int_equal(dl_calibration_write(&calibration, "calibration.ini", &err), DL_OK);
    DL_SCOPED(dl_costs) read = {0};
    if (dl_costs_read(&read, "calibration.ini", &err) != DL_OK) fail_msg("%s", err.text);
    const dl_costs *costs = &calibration.costs;
    assert_int_equal(read.op_count, costs->op_count);
    for (size_t op = 0; op < read.op_count; op++) {
        assert_string_equal(read.ops[op].name, costs->ops[op].name);
        same_value(&read.ops[op].fixed_ns, &costs->ops[op].fixed_ns);
        same_value(&read.ops[op].per_sample_ns, &costs->ops[op].per_sample_ns);
    }
    same_value(&read.copy.latency_ns, &costs->copy.latency_ns);
    same_value(&read.copy.bandwidth_bytes_per_s, &costs->copy.bandwidth_bytes_per_s);
    same_value(&read.average.write_bytes_per_s, &costs->average.write_bytes_per_s);
    same_value(&read.memory_total_bytes_per_s, &costs->memory_total_bytes_per_s);
    same_value(&read.sharing[2], &costs->sharing[2]);
    same_value(&read.lock_ns, &costs->lock_ns);
    assert_int_equal(read.noise_count, costs->noise_count);
    for (size_t i = 0; i < read.noise_count; i++) {
        const dl_noise_set *a = &read.noise[i], *b = &costs->noise[i];
        assert_true(a->batch == b->batch && a->copies == b->copies && a->run_count == b->run_count);
    }
    DL_AUTOFREE char *text = NULL;
    size_t bytes;
    assert_int_equal(dl_file_read("calibration.ini", &text, &bytes, NULL), DL_OK);
    assert_contains(text, "; dlcal ");
    assert_contains(text, ";   calibration_64.dlt\n");
}

/* With only one kind of trace the other costs stay unknown, with a note. */
static void test_one_kind_of_trace(void **state DL_UNUSED)
{
    const char *const train[] = {"calibration_only.dlt"};
    made_train(train[0], 32, 50, &noisy, 1);
    dl_calibration calibration = {0};
    assert_int_equal(dl_calibration_fit(&calibration, train, 1, NULL), DL_OK);
    assert_false(calibration.costs.copy.latency_ns.known);
    assert_contains(calibration.notes.lines[calibration.notes.count - 1], "no bench trace");
    dl_calibration_free(&calibration);
    const char *const bench[] = {"calibration_only_bench.dlt"};
    make_bench(bench[0]);
    assert_int_equal(dl_calibration_fit(&calibration, bench, 1, NULL), DL_OK);
    assert_int_equal(calibration.costs.op_count, 0);
    assert_contains(calibration.notes.lines[0], "no train trace");
    dl_calibration_free(&calibration);
}

static void test_errors_pass_through(void **state DL_UNUSED)
{
    const char *const nowhere[] = {"calibration_nowhere.dlt"};
    dl_calibration calibration = {0};
    dl_error err = {0};
    assert_int_equal(dl_calibration_fit(&calibration, nowhere, 1, &err), DL_ERR_IO);
    dl_calibration_free(&calibration);
    fit_all(&calibration);
    assert_int_equal(dl_calibration_write(&calibration, "no/such/folder.ini", &err), DL_ERR_IO);
    assert_int_equal(dl_fit_report_json_write(&calibration, "no/such/folder.json", &err),
                     DL_ERR_IO);
    dl_calibration_free(&calibration);
}

/* The printed report contains every part, and no line exceeds 80 columns. */
static void test_report(void **state DL_UNUSED)
{
    DL_SCOPED(dl_calibration) calibration;
    fit_all(&calibration);
    dl_notes_add(&calibration.notes, "a long note %070d and %s", 7,
                 "words behind it, so that it has "
                 "to be broken at a blank somewhere before it ends here");
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_fit_report_print(&calibration, out);
    fclose(out);
    const char *const parts[] = {"tiny on test box, 2 cores",
                                 "calibration_64.dlt",
                                 "fc.backward",
                                 "noise: step time",
                                 "copy: time =",
                                 "average: time",
                                 "memory: traffic",
                                 "sync: medians",
                                 "rounds\n  ",
                                 "notes"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_contains(text, parts[i]);
    for (const char *line = text; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        if (length > 80) fail_msg("%zu columns: %.*s", length, (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* The JSON has the same content; brackets match outside strings, and there is no trailing comma. */
static void test_json(void **state DL_UNUSED)
{
    dl_calibration calibration;
    fit_all(&calibration);
    dl_notes_add(&calibration.notes, "a \"quoted\" note {");
    dl_error err = {0};
    assert_int_equal(dl_fit_report_json_write(&calibration, "calibration.json", &err), DL_OK);
    DL_AUTOFREE char *text = NULL;
    size_t bytes;
    assert_int_equal(dl_file_read("calibration.json", &text, &bytes, NULL), DL_OK);
    assert_contains(text, "\"name\":\"fc.backward\"");
    assert_contains(text, "\"latency_ns\":null");
    assert_contains(text, "a \\\"quoted\\\" note {");
    int depth = 0;
    bool quoted = false;
    char last = '\0';
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' && c[-1] != '\\') quoted = !quoted;
        if (quoted || *c == ' ' || *c == '\n') continue;
        if (*c == '{' || *c == '[') depth++;
        if (*c == '}' || *c == ']') depth--;
        assert_false((*c == '}' || *c == ']') && last == ',');
        assert_false(*c == ',' && (last == ',' || last == '{' || last == '['));
        assert_true(depth > 0 || *c == '}');
        last = *c;
    }
    assert_int_equal(depth, 0);
    dl_calibration_free(&calibration);
}

int main(void)
{
    gsl_set_error_handler_off();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs_are_recovered),
        cmocka_unit_test(test_cost_file_round_trip),
        cmocka_unit_test(test_one_kind_of_trace),
        cmocka_unit_test(test_errors_pass_through),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
