#include "tests/check.h"

#include <stdlib.h>

#include "sim/costs/costs.h"
#include "tests/sim_fixture.h"

#define HEAD "[costs]\nschema = 1\n"

/* A run of two copies with one and two lines, a second run, and a set for any batch size. */
static const char two_copies[] = HEAD "[noise 64 copies 2]\nfactors_1_1_1 = 1, 2\n"
                                      "factors_1_2_1 = 3\nfactors_1_2_2 = 4, 5\n"
                                      "factors_2_1_1 = 6\nfactors_2_2_1 = 7\n"
                                      "[noise]\nfactors_1_1_1 = 8\nfactors_2_1_1 = 9\n"
                                      "[exchange_runs]\nrun_1 = 1.0123456, 2, 3\n";

static void runs_and_copies_are_told_apart(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(two_copies);
    assert_int_equal(costs.noise_count, 2);
    const dl_noise_set *set = &costs.noise[0];
    assert_true(set->batch == 64 && set->copies == 2 && set->run_count == 2);
    assert_int_equal(set->series[0].count, 2);
    assert_int_equal(set->series[1].count, 3);
    assert_true(set->series[1].factors[0] == 3 && set->series[1].factors[2] == 5);
    assert_true(set->series[2].factors[0] == 6 && set->series[3].factors[0] == 7);
    set = &costs.noise[1];
    assert_true(set->batch == 0 && set->copies == 1 && set->run_count == 2);
    assert_true(set->series[1].factors[0] == 9);
}

/* Takes the set with the number of concurrent copies, or the next smaller number, then the nearest
 * batch size. */
static void the_nearest_set_is_taken(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs(HEAD "[noise]\nfactors_1_1_1 = 1\n"
                                        "[noise 8]\nfactors_1_1_1 = 1\n"
                                        "[noise 32]\nfactors_1_1_1 = 1\n"
                                        "[noise 8 copies 2]\nfactors_1_1_1 = 1\nfactors_1_2_1 = 1\n"
                                        "[noise 4 copies 4]\nfactors_1_1_1 = 1\nfactors_1_2_1 = 1\n"
                                        "factors_1_3_1 = 1\nfactors_1_4_1 = 1\n");
    static const struct {
        double batch;
        size_t at_once;
        int64_t expected_batch;
        size_t expected_copies;
    } cases[] = {{8, 1, 8, 1},  {15, 1, 8, 1}, {17, 1, 32, 1}, {16, 1, 8, 1}, {1000, 1, 32, 1},
                 {32, 2, 8, 2}, {8, 3, 8, 2},  {8, 4, 4, 4},   {8, 16, 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dl_noise_set *set = dl_costs_noise(&costs, cases[i].batch, cases[i].at_once);
        if (set->batch != cases[i].expected_batch || set->copies != cases[i].expected_copies) {
            fail_msg("case %zu: batch %lld, copies %zu", i, (long long)set->batch, set->copies);
        }
    }
    dl_costs_free(&costs);
    costs = fixture_costs(HEAD "[noise 8 copies 2]\nfactors_1_1_1 = 1\nfactors_1_2_1 = 1\n");
    assert_int_equal(dl_costs_noise(&costs, 64, 1)->copies, 2); /* better than no noise */
    dl_costs_free(&costs);
    costs = fixture_costs(HEAD);
    assert_null(dl_costs_noise(&costs, 64, 1));
    dl_costs_free(&costs);
}

static void exchange_runs_are_read(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs(HEAD "[exchange_runs]\nrun_1 = 1, 1.5, 0.5\nrun_2 = 2, 4, 8, 16\n");
    assert_int_equal(costs.exchange_run_count, 2);
    assert_true(costs.exchange_runs[0].average == 1.5F && costs.exchange_runs[0].update == 0.5F);
    assert_true(costs.exchange_runs[1].copy == 2);
    assert_true(costs.exchange_runs[0].shared == 1 && costs.exchange_runs[1].shared == 16);
    dl_costs_free(&costs);
}

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {HEAD "[noise]\nfactors_1_1_2 = 1\n", DL_ERR_NAME, 4, "expected the key factors_1_1_1"},
        {HEAD "[noise]\nfactors_1_1_1 = 1\nfactors_1_2_1 = 1\n", DL_ERR_NAME, 5,
         "factors_1_1_2 or factors_2_1_1"},
        {HEAD "[noise 8 copies 2]\nfactors_1_1_1 = 1\nfactors_2_1_1 = 1\n", DL_ERR_NAME, 5,
         "factors_1_1_2 or factors_1_2_1"},
        {HEAD "[noise 8 copies 2]\nfactors_1_1_1 = 1\n", DL_ERR_DATA, 0, "lacks a copy"},
        {HEAD "[noise]\nfactors_1_1_1 = 1, 0\n", DL_ERR_RANGE, 4, "factors_1"},
        {HEAD "[noise]\nfactors_1_1_1 = 1,,2\n", DL_ERR_PARSE, 4, "factors_1"},
        {HEAD "[noise x]\nfactors_1_1_1 = 1\n", DL_ERR_PARSE, 4, "[noise BATCH]"},
        {HEAD "[noise 0]\nfactors_1_1_1 = 1\n", DL_ERR_RANGE, 4, "[noise BATCH]"},
        {HEAD "[noise 8 copies 65]\nfactors_1_1_1 = 1\n", DL_ERR_RANGE, 4, "copies COUNT"},
        {HEAD "[noise 8 copies 0]\nfactors_1_1_1 = 1\n", DL_ERR_RANGE, 4, "copies COUNT"},
        {HEAD "[exchange_runs]\nrun_2 = 1, 1, 1\n", DL_ERR_NAME, 4, "run_1"},
        {HEAD "[exchange_runs]\nrun_1 = 1, 1\n", DL_ERR_DATA, 4, "three factors"},
        {HEAD "[exchange_runs]\nrun_1 = 1, 1, x\n", DL_ERR_PARSE, 4, "run_1"},
        {HEAD "[noise 8]\nfactors_1_1_1 = 1\n[noise 4]\nfactors_1_1_1 = 1\n"
              "[noise 8]\nfactors_1_1_2 = 1\n",
         DL_ERR_DATA, 8, "twice"},
    };
    assert_all_refused(cases, "costs.ini", fixture_refused_costs);
}

/* Series of several lines, with factors that need all nine digits. */
static void what_is_written_reads_back(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(two_copies), back = {0};
    dl_noise_series *longest = &costs.noise[0].series[2];
    longest->factors = realloc(longest->factors, 400 * sizeof(float));
    for (size_t i = 0; i < 400; i++)
        longest->factors[i] = 0.9f + (float)i / 4001;
    longest->count = 400;
    dl_error err = {0};
    assert_int_equal(dl_costs_write(&costs, "test_costs_noise.ini", NULL, &err), DL_OK);
    if (dl_costs_read(&back, "test_costs_noise.ini", &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    remove("test_costs_noise.ini");
    assert_int_equal(back.exchange_run_count, 1);
    assert_memory_equal(back.exchange_runs, costs.exchange_runs, sizeof *costs.exchange_runs);
    assert_int_equal(back.noise_count, costs.noise_count);
    for (size_t i = 0; i < back.noise_count; i++) {
        const dl_noise_set *a = &costs.noise[i], *b = &back.noise[i];
        assert_true(a->batch == b->batch && a->copies == b->copies && a->run_count == b->run_count);
        for (size_t s = 0; s < a->run_count * a->copies; s++) {
            assert_int_equal(a->series[s].count, b->series[s].count);
            assert_memory_equal(a->series[s].factors, b->series[s].factors,
                                a->series[s].count * sizeof(float));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_and_copies_are_told_apart),
        cmocka_unit_test(the_nearest_set_is_taken),
        cmocka_unit_test(exchange_runs_are_read),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
