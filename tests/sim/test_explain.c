#include "sim/report/explain.h"
#include "sim/report/row_text.h"

#include <stdlib.h>

#include "common/csv.h"
#include "sim/report/report.h"
#include "tests/sim_fixture.h"

#define COSTS "test_explain_costs.ini"
#define RESULTS "test_explain_results.csv"

/* A step takes 3 ms of compute and 1 ms to make its batch, for any number of samples. */
static const char costs_text[] = "[costs]\nschema = 1\n"
                                 "[op a.forward]\nfixed_ns = 3000000\nper_sample_ns = 0\n"
                                 "[op input]\nfixed_ns = 1000000\nper_sample_ns = 0\n"
                                 "[sharing]\ncopies_2 = 1\n";

typedef struct explained {
    dl_study study;
    dl_measured *measured;
    dl_sweep sweep;
    dl_explanation x;
} explained;

static const char *cores = "workers";

/* Explains a study with one and two workers that do not exchange; `row` is that of
 * dl_explanation_find. */
static void explain(explained *e, const char *more, size_t row)
{
    char text[512];
    dl_error err = {0};
    FILE *file = fopen(COSTS, "w");
    fputs(costs_text, file);
    fclose(file);
    *e = (explained){0};
    snprintf(text, sizeof text,
             "[scenario]\nsteps = 203\n[machine]\ncores = %s\nworkers = 1, 2\n[workload]\n"
             "costs = %s\nbatch = 2\n%s",
             cores, COSTS, more);
    const dl_sweep_config config = {.threads = 1};
    if (dl_study_read_text(&e->study, "s.ini", text, strlen(text), &err) ||
        dl_study_read_costs(&e->study, &err) || dl_measured_read(&e->measured, &e->study, &err) ||
        dl_sweep_run(&e->sweep, &e->study, &config, &err)) {
        fail_msg("%s", err.text);
    }
    dl_explanation_find(&e->x, &e->study, &e->sweep, e->measured, row);
}

static void forget(explained *e)
{
    dl_explanation_free(&e->x);
    dl_measured_free(e->measured, e->sweep.row_count);
    dl_sweep_free(&e->sweep);
    dl_study_free(&e->study);
    remove(COSTS);
}

/* Of 4 ms, half of the compute leaves 2.5 ms (1.6 times), half of the input 3.5 ms (8/7 times), no
 * input 3 ms (4/3 times); nothing else takes time. */
static void gains_are_those_of_the_step_s_sum(void **state DL_UNUSED)
{
    explained e;
    explain(&e, "", 2);
    assert_int_equal(e.x.row, 1);
    assert_int_equal(e.x.before, 0);
    assert_int_equal(dl_dominant_part(&e.sweep.rows[1]), DL_PART_COMPUTE);
    const dl_gains *gains = &e.x.gains;
    assert_null(gains->why_not);
    assert_int_equal(gains->count, 2);
    assert_string_equal(gains->all[0].cost, "compute");
    assert_near(gains->all[0].half, 1.6, 1e-9);
    assert_true(isnan(gains->all[0].none));
    assert_string_equal(gains->all[1].cost, "input");
    assert_near(gains->all[1].half, 8.0 / 7, 1e-9);
    assert_near(gains->all[1].none, 4.0 / 3, 1e-9);
    assert_near(gains->per_s, 500, 1e-9);
    forget(&e);
}

/* Steps vary, so their mean depends on their number: gains are relative to the row's throughput. */
static void gains_are_over_the_row_s_throughput(void **state DL_UNUSED)
{
    explained e;
    explain(&e, "[noise]\nkind = lognormal\nsigma = 0.3\n", 1);
    assert_null(e.x.gains.why_not);
    assert_near(e.x.gains.per_s, e.sweep.rows[e.x.row].mean.throughput_per_s, 1e-12);
    forget(&e);
}

/* One worker on two cores and two workers on the same cores form a series. */
static void workers_that_share_cores_are_a_series(void **state DL_UNUSED)
{
    explained e;
    cores = "2";
    explain(&e, "", 2);
    cores = "workers";
    assert_int_equal(e.x.row, 1);
    assert_int_equal(e.x.before, 0);
    assert_string_equal(e.x.labels[0], e.x.labels[1]);
    forget(&e);
}

/* With worker 0 half as fast, two workers make a sample in 8 ms and one in 4 ms, 375 samples/s;
 * with a third of the speed they make fewer, and one worker makes 250 and 167 samples/s. */
static void the_best_row_is_explained(void **state DL_UNUSED)
{
    explained e;
    explain(&e, "[noise]\nslow = 0:3 | 0:2\n", 4);
    assert_int_equal(e.x.row, 3);
    assert_int_equal(e.x.first, 3);
    assert_int_equal(e.x.before, 2);
    assert_near(e.sweep.rows[3].mean.throughput_per_s, 375, 5);
    forget(&e);
}

/* Removing a cost of which half the time would save a third of the step saves two thirds. */
static void removal_counts_as_half_of_what_it_saves(void **state DL_UNUSED)
{
    const dl_gain removal = {.half = (double)NAN, .none = 3}, halving = {.half = 1.6, .none = 10};
    assert_near(dl_gain_worth(&removal), 1.5, 1e-12);
    assert_near(dl_gain_ratio(&removal), 3, 0);
    assert_true(dl_gain_worth(&halving) > dl_gain_worth(&removal));
}

/* Rates below 1000 have four digits, as in tables: one sample in 2 s. */
static void small_rates_keep_their_digits(void **state DL_UNUSED)
{
    char text[DL_RATE_BYTES];
    assert_string_equal(dl_rate_text(text, 1.62345), "1.623");
    assert_string_equal(dl_rate_text(text, 0.5), "0.5");
    assert_string_equal(dl_rate_text(text, 6612.4), "6612");
}

static void a_row_can_be_chosen(void **state DL_UNUSED)
{
    explained e;
    explain(&e, "", 0);
    assert_int_equal(e.x.row, 0);
    assert_int_equal(e.x.before, 2); /* no row with fewer workers */
    assert_int_equal(e.x.best, 0);   /* two workers are not faster than one */
    forget(&e);
}

/* Returns the printed text with its lines joined. */
static char *printed(const explained *e, void (*print)(FILE *, const dl_explanation *))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    print(out, &e->x);
    fclose(out);
    for (char *end = strchr(text, '\n'); end != NULL; end = strchr(end, '\n'))
        *end = ' ';
    return text;
}

static void both_renderings_say_the_same(void **state DL_UNUSED)
{
    static const char *const sentences[] = {
        "With 2 workers (batch 2, none) a step takes 4.00 ms. Most of it is compute: 75 %; then",
        "input 25 %.",
    };
    explained e;
    explain(&e, "", 2);
    char *text = printed(&e, dl_explanation_print), *html = printed(&e, dl_explanation_html);
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        if (strstr(text, sentences[i]) == NULL) fail_msg("no '%s' in: %s", sentences[i], text);
        if (strstr(html, sentences[i]) == NULL) fail_msg("no '%s' in: %s", sentences[i], html);
    }
    assert_non_null(strstr(text, "Halving compute (forward, backward, update) gives 1.60 times the "
                                 "throughput; halving making and copying batches gives 1.14 "
                                 "times. "));
    assert_non_null(strstr(text, " making and copying batches "));
    assert_non_null(strstr(text, " 1.14 times 1.33 times "));
    assert_non_null(strstr(html,
                           "<strong>What would help most: compute (forward, backward, update) "
                           "in half the time, for 1.60 times the throughput.</strong>"));
    free(text);
    free(html);
    forget(&e);
}

/* The results have these columns only with an explanation, and a head line per gain. */
static void results_have_the_dominant_part(void **state DL_UNUSED)
{
    explained e;
    dl_csv csv = {0};
    explain(&e, "", 2);
    assert_int_equal(dl_report_results(RESULTS, &e.study, &e.sweep, e.measured, &e.x, NULL), DL_OK);
    assert_int_equal(dl_csv_read(&csv, RESULTS, NULL), DL_OK);
    const int name = dl_csv_column(&csv, "dominant"), part = dl_csv_column(&csv, "dominant_frac");
    assert_true(name > 0 && part == name + 1 && (size_t)part == csv.columns - 1);
    double frac = 0;
    assert_string_equal(dl_csv_cell(&csv, 1, (size_t)name), "compute");
    assert_int_equal(dl_csv_number(&csv, 1, (size_t)part, &frac, NULL), DL_OK);
    assert_near(frac, 0.75, 1e-9);
    dl_csv_free(&csv);
    assert_int_equal(dl_report_results(RESULTS, &e.study, &e.sweep, e.measured, NULL, NULL), DL_OK);
    assert_int_equal(dl_csv_read(&csv, RESULTS, NULL), DL_OK);
    assert_int_equal(dl_csv_column(&csv, "dominant"), -1);
    dl_csv_free(&csv);
    remove(RESULTS);
    DL_AUTOFREE char *head = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&head, &bytes);
    dl_report_results_write(out, &e.study, &e.sweep, e.measured, &e.x);
    fclose(out);
    assert_non_null(strstr(head, "\n# gain: cost=input half=1.143 none=1.333 sync=none workers=2 "
                                 "batch=2\n"));
    forget(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gains_are_those_of_the_step_s_sum),
        cmocka_unit_test(gains_are_over_the_row_s_throughput),
        cmocka_unit_test(workers_that_share_cores_are_a_series),
        cmocka_unit_test(the_best_row_is_explained),
        cmocka_unit_test(removal_counts_as_half_of_what_it_saves),
        cmocka_unit_test(small_rates_keep_their_digits),
        cmocka_unit_test(a_row_can_be_chosen),
        cmocka_unit_test(both_renderings_say_the_same),
        cmocka_unit_test(results_have_the_dominant_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
