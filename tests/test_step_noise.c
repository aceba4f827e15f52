#include "calibrate/step_noise.h"

#include <math.h>

#include "common/alloc.h"
#include "tests/check.h"

/* A data set with one operation of 100 ns, runs whose steps are given, and bench runs of one copy.
 */
static void make(dl_dataset *dataset, dl_costs *costs)
{
    *dataset = (dl_dataset){0};
    *costs = (dl_costs){.batch_min = 1, .batch_max = 8, .op_count = 1};
    costs->ops = dl_calloc(1, sizeof *costs->ops, "operations");
    costs->ops[0].name = dl_strdup("input");
    costs->ops[0].fixed_ns = (dl_value){.known = true, .value = 100};
    costs->ops[0].per_sample_ns = (dl_value){.known = true};
}

static double *add_run(dl_dataset *dataset, size_t steps)
{
    dataset->runs =
        dl_realloc(dataset->runs, dataset->run_count + 1, sizeof *dataset->runs, "runs");
    dataset->runs[dataset->run_count] =
        (dl_step_run){.path = dl_strdup("made"), .batch = 4, .steps = steps};
    return dataset->runs[dataset->run_count++].step_ns = dl_calloc(steps, sizeof(double), "steps");
}

static void add_bench(dl_dataset *dataset, uint32_t batch, uint32_t copies, size_t steps,
                      int64_t time_ns)
{
    dataset->benches =
        dl_realloc(dataset->benches, dataset->bench_count + 1, sizeof *dataset->benches, "bench");
    dl_bench_trace *bench = &dataset->benches[dataset->bench_count++];
    *bench = (dl_bench_trace){.path = dl_strdup("bench"), .count = steps};
    bench->samples = dl_calloc(steps, sizeof *bench->samples, "bench");
    for (size_t i = 0; i < steps; i++) {
        bench->samples[i] = (dl_record){.name = DL_SAMPLE_STEP,
                                        .vectors = copies,
                                        .threads = 1,
                                        .samples = batch,
                                        .step = (uint32_t)i,
                                        .duration_ns = time_ns};
    }
}

static void release(dl_dataset *dataset, dl_costs *costs, dl_notes *notes)
{
    dl_dataset_free(dataset);
    dl_costs_free(costs);
    dl_notes_free(notes);
}

/* 90, 110, 90, 110 ns over 100: those factors, in that order; mean 1, sd 0.1 sqrt(4 / 3). */
static void test_factors_in_order(void **state)
{
    (void)state;
    dl_dataset dataset;
    dl_costs costs;
    dl_notes notes = {0};
    make(&dataset, &costs);
    double *steps = add_run(&dataset, 4);
    for (int i = 0; i < 4; i++)
        steps[i] = i % 2 == 0 ? 90 : 110;
    dl_step_noise fit;
    dl_step_noise_fit_factors(&dataset, &costs, &fit, &notes);
    assert_int_equal(costs.noise_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_true(fabsf(costs.noise[i] - (i % 2 == 0 ? 0.9F : 1.1F)) < 1e-6F);
    }
    assert_true(fabs(fit.shape.mean - 1) < 1e-12);
    assert_true(fabs(fit.shape.sd - 0.1 * sqrt(4.0 / 3)) < 1e-12);
    assert_true(fit.shape.lag1 < 0);
    assert_true(fit.kept == 4 && fit.steps == 4 && fit.sources == 1);
    release(&dataset, &costs, &notes);
}

/* Runs of 6000, 500 and 3000 steps whose factor counts the step: 500 fits whole, so the others give
 * (4096 - 500) / 2 = 1798 each, from their middle: 2101 .. 3898 of 6000, 601 .. 2398 of 3000. */
static void test_pieces_are_even_and_contiguous(void **state)
{
    (void)state;
    dl_dataset dataset;
    dl_costs costs;
    dl_notes notes = {0};
    make(&dataset, &costs);
    const size_t lengths[] = {6000, 500, 3000};
    for (int r = 0; r < 3; r++) {
        double *steps = add_run(&dataset, lengths[r]);
        for (size_t i = 0; i < lengths[r]; i++)
            steps[i] = 100 * (double)(i + 1);
    }
    dl_step_noise fit;
    dl_step_noise_fit_factors(&dataset, &costs, &fit, &notes);
    assert_int_equal(fit.steps, 9500);
    assert_int_equal(costs.noise_count, 4096);
    assert_true(costs.noise[0] == 2102 && costs.noise[1797] == 3899);
    assert_true(costs.noise[1798] == 1 && costs.noise[2297] == 500);
    assert_true(costs.noise[2298] == 602 && costs.noise[4095] == 2399);
    release(&dataset, &costs, &notes);
}

/* Bench steps of one copy within 2 % join in; those of two copies and of a batch size outside the
 * fitted range do not. */
static void test_bench_steps_join(void **state)
{
    (void)state;
    dl_dataset dataset;
    dl_costs costs;
    dl_notes notes = {0};
    make(&dataset, &costs);
    double *steps = add_run(&dataset, 10);
    for (int i = 0; i < 10; i++)
        steps[i] = 100;
    add_bench(&dataset, 4, 1, 5, 101);
    add_bench(&dataset, 4, 2, 5, 101);
    add_bench(&dataset, 9, 1, 5, 101);
    dl_step_noise fit;
    dl_step_noise_fit_factors(&dataset, &costs, &fit, &notes);
    assert_int_equal(costs.noise_count, 15);
    assert_true(fabsf(costs.noise[14] - 1.01F) < 1e-6F);
    assert_int_equal(notes.count, 0);
    release(&dataset, &costs, &notes);
}

/* 5 % slower is something else: left out, with a note. */
static void test_bench_steps_that_differ_do_not(void **state)
{
    (void)state;
    dl_dataset dataset;
    dl_costs costs;
    dl_notes notes = {0};
    make(&dataset, &costs);
    double *steps = add_run(&dataset, 10);
    for (int i = 0; i < 10; i++)
        steps[i] = 100;
    add_bench(&dataset, 4, 1, 5, 105);
    dl_step_noise fit;
    dl_step_noise_fit_factors(&dataset, &costs, &fit, &notes);
    assert_int_equal(costs.noise_count, 10);
    assert_int_equal(notes.count, 1);
    assert_contains(notes.lines[0], "+5.0 %");
    release(&dataset, &costs, &notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors_in_order),
        cmocka_unit_test(test_pieces_are_even_and_contiguous),
        cmocka_unit_test(test_bench_steps_join),
        cmocka_unit_test(test_bench_steps_that_differ_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
