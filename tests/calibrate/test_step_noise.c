#include "calibrate/calibration.h"

#include <math.h>

#include "tests/check.h"

/* A data set of train and bench runs, the costs of one operation of 100 ns, and the results of the
 * fit. */
typedef struct noise_case {
    dl_dataset dataset;
    dl_costs costs;
    dl_notes notes;
    dl_step_noise fit;
} noise_case;

static noise_case make(void)
{
    noise_case c = {.costs = {.batch_min = 1, .batch_max = 8, .op_count = 1}};
    c.costs.ops = dl_calloc(1, sizeof *c.costs.ops, "operations");
    c.costs.ops[0].name = dl_strdup("input");
    c.costs.ops[0].fixed_ns = (dl_value){.known = true, .value = 100};
    c.costs.ops[0].per_sample_ns = (dl_value){.known = true};
    return c;
}

static void fit_factors(noise_case *c)
{
    dl_step_noise_fit_factors(&c->dataset, &c->costs, &c->fit, &c->notes);
}

static void release(noise_case *c)
{
    dl_dataset_free(&c->dataset);
    dl_costs_free(&c->costs);
    dl_notes_free(&c->notes);
    dl_step_noise_free(&c->fit);
}

static double *add_run(dl_dataset *dataset, size_t steps)
{
    dataset->runs =
        dl_realloc(dataset->runs, dataset->run_count + 1, sizeof *dataset->runs, "runs");
    dataset->runs[dataset->run_count] =
        (dl_step_run){.path = dl_strdup("made"), .batch = 4, .steps = steps};
    return dataset->runs[dataset->run_count++].step_ns = dl_calloc(steps, sizeof(double), "steps");
}

static void add_even_run(dl_dataset *dataset, size_t steps, double step_ns)
{
    double *each = add_run(dataset, steps);
    for (size_t i = 0; i < steps; i++)
        each[i] = step_ns;
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

/* 90, 110, 90, 110 ns over 100 give these factors in order; mean 1, sd 0.1 sqrt(4 / 3). */
static void test_factors_in_order(void **state DL_UNUSED)
{
    noise_case c = make();
    double *steps = add_run(&c.dataset, 4);
    for (int i = 0; i < 4; i++)
        steps[i] = i % 2 == 0 ? 90 : 110;
    fit_factors(&c);
    assert_int_equal(c.costs.noise_count, 1);
    assert_int_equal(c.costs.noise[0].batch, 4);
    assert_int_equal(c.costs.noise[0].series[0].count, 4);
    for (int i = 0; i < 4; i++) {
        assert_true(fabsf(c.costs.noise[0].series[0].factors[i] - (i % 2 == 0 ? 0.9F : 1.1F)) <
                    1e-6F);
    }
    assert_true(fabs(c.fit.sets[0].shape.mean - 1) < 1e-7);
    assert_true(fabs(c.fit.sets[0].shape.sd - 0.1 * sqrt(4.0 / 3)) < 1e-7);
    assert_true(c.fit.sets[0].shape.lag1 < 0);
    assert_true(c.fit.sets[0].kept == 4 && c.fit.sets[0].steps == 4 && c.fit.sets[0].runs == 1);
    release(&c);
}

/* Runs of 6000, 500 and 3000 steps whose factor is the step's number: 500 fits whole, so the
 * others give (4096 - 500) / 2 = 1798 each, from their middle: 2101 .. 3898 of 6000, 601 .. 2398
 * of 3000. */
static void test_pieces_are_even_and_contiguous(void **state DL_UNUSED)
{
    noise_case c = make();
    const size_t lengths[] = {6000, 500, 3000};
    for (int r = 0; r < 3; r++) {
        double *steps = add_run(&c.dataset, lengths[r]);
        for (size_t i = 0; i < lengths[r]; i++)
            steps[i] = 100 * (double)(i + 1);
    }
    fit_factors(&c);
    assert_int_equal(c.fit.sets[0].steps, 9500);
    assert_int_equal(c.fit.sets[0].kept, 4096);
    const dl_noise_series *series = c.costs.noise[0].series;
    assert_true(series[0].count == 1798 && series[1].count == 500 && series[2].count == 1798);
    assert_true(series[0].factors[0] == 2102 && series[0].factors[1797] == 3899);
    assert_true(series[1].factors[0] == 1 && series[1].factors[499] == 500);
    assert_true(series[2].factors[0] == 602 && series[2].factors[1797] == 2399);
    release(&c);
}

/* Bench steps of one copy within 2 % are included; those of an untrained batch size are not, nor
 * those of more copies than cores. */
static void test_bench_steps_join(void **state DL_UNUSED)
{
    noise_case c = make();
    add_even_run(&c.dataset, 10, 100);
    add_bench(&c.dataset, 4, 1, 5, 101);
    add_bench(&c.dataset, 4, 2, 5, 101);
    add_bench(&c.dataset, 9, 1, 5, 101);
    fit_factors(&c);
    assert_int_equal(c.costs.noise_count, 1);
    assert_true(c.fit.sets[0].runs == 2 && c.fit.sets[0].kept == 15);
    assert_true(fabsf(c.costs.noise[0].series[1].factors[4] - 1.01F) < 1e-6F);
    assert_int_equal(c.notes.count, 0);
    release(&c);
}

/* Two copies with 10 % sharing: 121 and 99 ns over 110 ns, a series per copy; a run that lacks a
 * copy is left out. */
static void test_copies_at_once_are_a_set_of_their_own(void **state DL_UNUSED)
{
    noise_case c = make();
    c.costs.cores = 2;
    c.costs.sharing[2] = (dl_value){.known = true, .value = 1.1};
    add_even_run(&c.dataset, 2, 100);
    add_bench(&c.dataset, 4, 2, 3, 121); /* steps 0 .. 2 of copy 0, and none of copy 1 */
    add_bench(&c.dataset, 4, 2, 4, 121);
    for (size_t i = 2; i < 4; i++) {
        c.dataset.benches[1].samples[i].worker = 1;
        c.dataset.benches[1].samples[i].duration_ns = 99;
    }
    fit_factors(&c);
    assert_int_equal(c.costs.noise_count, 2);
    const dl_noise_set *set = &c.costs.noise[1];
    assert_true(set->copies == 2 && set->run_count == 1 && set->batch == 4);
    for (int i = 0; i < 2; i++) {
        assert_true(fabsf(set->series[0].factors[i] - 1.1F) < 1e-6F);
        assert_true(fabsf(set->series[1].factors[i] - 0.9F) < 1e-6F);
    }
    assert_true(fabs(c.fit.sets[1].run_sd - 0.1 * sqrt(2)) < 1e-6);
    assert_true(c.fit.sets[1].shape.lag1 == 0);
    release(&c);
}

/* On one GPU: of the step, 100 ns, the bench times the 80 of the pass. Two copies, sharing 0.75,
 * take 120 on average: 132 and 108 ns are factors 1.1 and 0.9. The bench's single copy is ignored
 * in favour of training. */
static void test_copies_on_a_gpu_vary_by_their_time_there(void **state DL_UNUSED)
{
    noise_case c = make();
    c.costs.ops = dl_realloc(c.costs.ops, 2, sizeof *c.costs.ops, "operations");
    c.costs.op_count = 2;
    c.costs.ops[0].fixed_ns.value = 20;
    c.costs.ops[1] = c.costs.ops[0];
    c.costs.ops[1].name = dl_strdup("a.forward");
    c.costs.ops[1].fixed_ns.value = 80;
    c.costs.cores = 1;
    c.costs.sharing[2] = (dl_value){.known = true, .value = 0.75};
    add_even_run(&c.dataset, 2, 100);
    add_bench(&c.dataset, 4, 1, 2, 300);
    add_bench(&c.dataset, 4, 2, 2, 132);
    c.dataset.benches[1].samples[1].worker = 1;
    c.dataset.benches[1].samples[1].duration_ns = 108;
    c.dataset.gpu.gpu = c.dataset.benches[0].gpu = c.dataset.benches[1].gpu = true;
    fit_factors(&c);
    assert_int_equal(c.costs.noise_count, 2);
    assert_true(c.costs.noise[0].copies == 1 && c.costs.noise[0].run_count == 1);
    assert_true(fabsf(c.costs.noise[0].series[0].factors[0] - 1.0F) < 1e-6F);
    const dl_noise_set *set = &c.costs.noise[1];
    assert_true(set->copies == 2 && set->run_count == 1);
    assert_true(fabsf(set->series[0].factors[0] - 1.1F) < 1e-6F);
    assert_true(fabsf(set->series[1].factors[0] - 0.9F) < 1e-6F);
    release(&c);
}

/* Two rounds of two copies in one bench trace, 2 steps of each copy in each, form one run of 4
 * steps, so that its index equals that of the trace's exchange run; a second trace is a second
 * run. */
static void test_rounds_of_a_bench_are_one_run(void **state DL_UNUSED)
{
    noise_case c = make();
    c.costs.cores = 2;
    c.costs.sharing[2] = (dl_value){.known = true, .value = 1};
    add_even_run(&c.dataset, 2, 100);
    add_bench(&c.dataset, 4, 2, 8, 100);
    add_bench(&c.dataset, 4, 2, 4, 150);
    for (size_t b = 0; b < 2; b++) {
        dl_bench_trace *bench = &c.dataset.benches[b];
        for (size_t i = 0; i < bench->count;
             i++) { /* copy 0: steps 0 1, copy 1: steps 0 1, again */
            bench->samples[i].worker = i / 2 % 2;
            bench->samples[i].step = i % 2;
        }
    }
    fit_factors(&c);
    const dl_noise_set *set = &c.costs.noise[1];
    assert_int_equal(set->run_count, 2);
    assert_int_equal(set->series[0].count, 4);
    assert_int_equal(set->series[1].count, 4);
    assert_int_equal(set->series[2].count, 2);
    assert_true(fabsf(set->series[0].middle - 1) < 1e-6F);
    assert_true(fabsf(set->series[2].middle - 1.5F) < 1e-6F);
    release(&c);
}

/* 5 % slower steps are left out, with a note. */
static void test_bench_steps_that_differ_do_not(void **state DL_UNUSED)
{
    noise_case c = make();
    add_even_run(&c.dataset, 10, 100);
    add_bench(&c.dataset, 4, 1, 5, 105);
    fit_factors(&c);
    assert_int_equal(c.fit.sets[0].kept, 10);
    assert_int_equal(c.costs.noise[0].run_count, 1);
    assert_int_equal(c.notes.count, 1);
    assert_contains(c.notes.lines[0], "+5.0 %");
    release(&c);
}

/* Steps of 10, 20 and 30 samples in turn. Input takes 100 ns in each, forward 10 ns per sample:
 * 200, 300 and 400 ns, so 2/3, 1 and 4/3 of the mean. Without lines they are proportional, 1/2, 1
 * and 3/2. */
static void test_work_follows_the_lines(void **state DL_UNUSED)
{
    for (int lines = 0; lines < 2; lines++) {
        noise_case c = make();
        c.costs.ops = dl_realloc(c.costs.ops, 2, sizeof *c.costs.ops, "operations");
        c.costs.ops[1] = (dl_op_cost){.name = dl_strdup("a.forward"),
                                      .fixed_ns = {.known = true},
                                      .per_sample_ns = {.known = true, .value = 10}};
        c.costs.op_count = 2;
        if (lines == 0) c.costs.ops[0].fixed_ns.value = c.costs.ops[1].per_sample_ns.value = 0;
        for (int i = 0; i < 192; i++)
            DL_APPEND(c.dataset.drawn, c.dataset.drawn_count, "drawn") = 10 + 10 * (i % 3);
        dl_work_fit(&c.dataset, &c.costs, &c.notes);
        assert_int_equal(c.costs.work_step_count, 64);
        const double least = lines == 0 ? 0.5 : 2.0 / 3;
        assert_true(fabs((double)c.costs.work_steps[0] - least) < 1e-6);
        assert_true(fabs((double)c.costs.work_steps[32] - 1) < 1e-6);
        assert_true(fabs((double)c.costs.work_steps[63] - (2 - least)) < 1e-6);
        assert_contains(c.notes.lines[0], "192 steps");
        release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors_in_order),
        cmocka_unit_test(test_pieces_are_even_and_contiguous),
        cmocka_unit_test(test_bench_steps_join),
        cmocka_unit_test(test_copies_at_once_are_a_set_of_their_own),
        cmocka_unit_test(test_copies_on_a_gpu_vary_by_their_time_there),
        cmocka_unit_test(test_rounds_of_a_bench_are_one_run),
        cmocka_unit_test(test_bench_steps_that_differ_do_not),
        cmocka_unit_test(test_work_follows_the_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
