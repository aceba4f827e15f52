#include "calibrate/calibration.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>

#include "tests/bench_samples.h"
#include "tests/check.h"

/* Adds one run: `steps` steps of `time_ns` for each of k copies, on 2 cores. */
static void add_run(dl_dataset *dataset, uint32_t k, uint32_t batch, uint32_t steps,
                    int64_t time_ns)
{
    for (uint32_t w = 0; w < k; w++) {
        for (uint32_t s = 0; s < steps; s++) {
            add_sample(dataset, DL_SAMPLE_STEP,
                       (dl_record){.worker = w,
                                   .step = 2 + s,
                                   .samples = batch,
                                   .vectors = k,
                                   .threads = k < 2 ? k : 2,
                                   .duration_ns = time_ns});
        }
    }
}

static void fit(const dl_dataset *dataset, dl_contention_fit *sharing, dl_costs *costs,
                dl_notes *notes)
{
    *sharing = (dl_contention_fit){0};
    *costs = (dl_costs){0};
    *notes = (dl_notes){0};
    assert_int_equal(dl_contention_fit_factors(dataset, sharing, costs, notes, NULL), DL_OK);
}

/* k = 1 twice in a row, then 2, then another batch, after a sample of another kind, and two runs of
 * one step: seven runs. */
static void test_runs_are_told_apart(void **state DL_UNUSED)
{
    DL_SCOPED(dl_dataset) dataset = {0};
    add_run(&dataset, 1, 8, 3, 100);
    add_run(&dataset, 1, 8, 4, 100);
    add_run(&dataset, 2, 8, 5, 100);
    add_run(&dataset, 2, 16, 1, 100);
    add_sample(&dataset, DL_SAMPLE_LOCK, (dl_record){.duration_ns = 1});
    add_run(&dataset, 2, 16, 2, 100);
    add_run(&dataset, 1, 16, 1, 100);
    add_run(&dataset, 1, 16, 1, 100);
    size_t count;
    DL_AUTOFREE dl_copies_run *runs = dl_contention_runs(&dataset.benches[0], &count);
    assert_int_equal(count, 7);
    const size_t lengths[] = {3, 4, 10, 2, 4, 1, 1};
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(runs[i].count, lengths[i]);
    assert_true(runs[2].copies == 2 && runs[3].batch == 16 && runs[2].cores == 2);
}

/* Rounds at a machine speed that drifts twofold, in recorded order: times 100, 150, 200 alone; 2
 * copies take 10 % more in each round, hence 1.1; 4 copies on 2 cores alternate: 1.2 * 2. */
static void test_rounds_are_paired(void **state DL_UNUSED)
{
    DL_SCOPED(dl_dataset) dataset = {0};
    const int64_t alone_ns[] = {1000, 1500, 2000};
    for (int round = 0; round < 3; round++) {
        if (round == 1) add_run(&dataset, 4, 8, 6, alone_ns[round] * 24 / 10);
        add_run(&dataset, 1, 8, 6, alone_ns[round]);
        add_run(&dataset, 2, 8, 6, alone_ns[round] * 11 / 10);
        if (round != 1) add_run(&dataset, 4, 8, 6, alone_ns[round] * 24 / 10);
    }
    DL_SCOPED(dl_contention_fit) sharing;
    DL_SCOPED(dl_costs) costs;
    DL_SCOPED(dl_notes) notes;
    fit(&dataset, &sharing, &costs, &notes);
    assert_int_equal(sharing.count, 2);
    assert_true(costs.sharing[1].known && costs.sharing[1].value == 1);
    assert_true(fabs(costs.sharing[2].value - 1.1) < 1e-9 && costs.sharing[2].error < 1e-9);
    assert_true(fabs(costs.sharing[4].value - 1.2) < 1e-9);
    assert_int_equal(costs.sharing[2].count, 3);
    assert_false(costs.sharing[3].known);
}

/* 4 copies on 2 cores with short steps: nine of ten steps take 100 ns as alone, the tenth waits
 * 1100 ns more. The mean is 210 = 1.05 * 2 * 100; a median would give 0.5. Two copies have a core
 * each, so the tenth step is disturbed, and does not count. */
static void test_turns_count_by_the_mean(void **state DL_UNUSED)
{
    DL_SCOPED(dl_dataset) dataset = {0};
    add_run(&dataset, 1, 8, 100, 100);
    for (uint32_t copies = 4; copies >= 2; copies -= 2) {
        for (uint32_t i = 0; i < 100 * copies; i++) {
            add_sample(&dataset, DL_SAMPLE_STEP,
                       (dl_record){.worker = i / 100,
                                   .step = i % 100,
                                   .samples = 8,
                                   .vectors = copies,
                                   .threads = 2,
                                   .duration_ns = i % 10 == 9 ? 1200 : 100});
        }
    }
    DL_SCOPED(dl_contention_fit) sharing;
    DL_SCOPED(dl_costs) costs;
    DL_SCOPED(dl_notes) notes;
    fit(&dataset, &sharing, &costs, &notes);
    assert_true(fabs(costs.sharing[4].value - 1.05) < 1e-9);
    assert_true(fabs(costs.sharing[2].value - 1) < 0.01);
}

/* Clearly different batch sizes, 1.1 and 1.3, each with equal rounds: combined to 1.2, with an
 * error from their difference (tau^2 makes chi^2 = 1: about 0.1), and a note. 1.28 and 1.3 differ
 * as clearly, but by too little for a note. */
static void test_batches_are_combined(void **state DL_UNUSED)
{
    dl_dataset dataset = {0}, close = {0};
    for (int64_t round = 0; round < 3; round++) {
        for (int of = 0; of < 2; of++) {
            dl_dataset *to = of == 0 ? &dataset : &close;
            add_run(to, 1, 8, 6, 100000);
            add_run(to, 2, 8, 6, (of == 0 ? 110000 : 128000) + 100 * round);
            add_run(to, 1, 16, 6, 200000);
            add_run(to, 2, 16, 6, 260000 + 200 * round);
        }
    }
    dl_contention_fit sharing;
    dl_costs costs;
    dl_notes notes;
    fit(&dataset, &sharing, &costs, &notes);
    assert_true(costs.sharing[2].value > 1.15 && costs.sharing[2].value < 1.22);
    assert_true(costs.sharing[2].error > 0.08 && costs.sharing[2].error < 0.12);
    assert_int_equal(costs.sharing[2].count, 6);
    assert_int_equal(notes.count, 1);
    assert_contains(notes.lines[0], "2 copies cost 1.101 at batch 8 but 1.301 at batch 16");
    dl_contention_fit_free(&sharing);
    dl_costs_free(&costs);
    dl_notes_free(&notes);
    dl_dataset_free(&dataset);
    fit(&close, &sharing, &costs, &notes);
    assert_int_equal(notes.count, 0);
    dl_contention_fit_free(&sharing);
    dl_costs_free(&costs);
    dl_notes_free(&notes);
    dl_dataset_free(&close);
}

static void test_nothing_to_compare_with(void **state DL_UNUSED)
{
    DL_SCOPED(dl_dataset) dataset = {0};
    add_run(&dataset, 2, 8, 6, 100);
    dl_contention_fit sharing = {0};
    dl_costs costs = {0};
    dl_notes notes = {0};
    dl_error err = {0};
    assert_int_equal(dl_contention_fit_factors(&dataset, &sharing, &costs, &notes, &err),
                     DL_ERR_DATA);
    assert_contains(err.text, "never one");
    dl_contention_fit_free(&sharing);

    dl_dataset none = {0};
    fit(&none, &sharing, &costs, &notes);
    assert_false(costs.sharing[1].known);
    dl_contention_fit_free(&sharing);
}

/* On a GPU the bench's single copy took 120 ns, and training 100 (60 forward, 30 backward, 10
 * update). Two copies take 150 ns, 0.75 of two turns, which dlsim reproduces as 150 ns. An
 * untrained batch size is compared with the bench's single copy, 120 ns. */
static void test_a_gpu_step_alone_is_as_trained(void **state DL_UNUSED)
{
    for (int trained = 0; trained < 2; trained++) {
        static char forward[] = "a.forward", backward[] = "a.backward", update[] = "a.update";
        const dl_value fixed[] = {{.known = true, .value = 60},
                                  {.known = true, .value = 30},
                                  {.known = true, .value = 10}};
        dl_op_cost ops[] = {{.name = forward, .fixed_ns = fixed[0]},
                            {.name = backward, .fixed_ns = fixed[1]},
                            {.name = update, .fixed_ns = fixed[2]}};
        dl_step_run run = {.batch = trained ? 8 : 16};
        DL_SCOPED(dl_dataset) dataset = {0};
        add_run(&dataset, 1, 8, 5, 120);
        add_run(&dataset, 2, 8, 5, 150);
        for (size_t i = 0; i < dataset.benches[0].count; i++)
            dataset.benches[0].samples[i].threads = 1;
        dataset.gpu.gpu = dataset.benches[0].gpu = true;
        dataset.runs = &run;
        dataset.run_count = 1;
        DL_SCOPED(dl_contention_fit) sharing = {0};
        dl_costs costs = {.ops = ops, .op_count = 3};
        DL_SCOPED(dl_notes) notes = {0};
        assert_int_equal(dl_contention_fit_factors(&dataset, &sharing, &costs, &notes, NULL),
                         DL_OK);
        assert_float_equal((float)costs.sharing[2].value, trained ? 0.75F : 0.625F, 1e-6F);
        dataset.runs = NULL;
        dataset.run_count = 0;
    }
}

int main(void)
{
    gsl_set_error_handler_off();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_are_told_apart),
        cmocka_unit_test(test_rounds_are_paired),
        cmocka_unit_test(test_turns_count_by_the_mean),
        cmocka_unit_test(test_batches_are_combined),
        cmocka_unit_test(test_nothing_to_compare_with),
        cmocka_unit_test(test_a_gpu_step_alone_is_as_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
