#include "tests/sim_fixture.h"

#include <stdlib.h>

#include "common/csv.h"
#include "common/file.h"
#include "sim/report/timeline.h"

#define TIMELINE "test_timeline.json"

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        count++;
    return count;
}

/* async, 2 workers, 3 steps: each step has compute, push, update, pull (20 and more slices with the
 * waits) and one step slice; the first compute starts at 0 and takes 1 000 000 ns = 1000 us. */
static void every_step_and_activity_is_there(void **state)
{
    (void)state;
    dl_costs costs = fixture_costs(FIXTURE_COSTS);
    dl_scenario s = fixture_scenario("[scenario]\nsteps = 3\n[machine]\ncores = 2\nworkers = 2\n"
                                     "[workload]\ncosts = c\nbatch = 2\n[sync]\nmode = async\n");
    assert_int_equal(dl_timeline_write(TIMELINE, &s, &costs, &s.points[0], NULL), DL_OK);
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_file_read(TIMELINE, &text, &bytes, NULL), DL_OK);
    remove(TIMELINE);
    assert_int_equal(count_of(text, "\"name\":\"step\""), 6);
    assert_int_equal(count_of(text, "\"name\":\"compute\""), 6);
    assert_int_equal(count_of(text, "\"name\":\"pull\""), 6);
    assert_contains(text, "cores 2, workers 2, batch 2, async");
    assert_contains(text, "worker 1");
    assert_contains(text, "\"dur\":1000.000");
    assert_contains(text, "\"staleness\":1");
    free(text);
    dl_error err = {0};
    assert_int_equal(dl_timeline_write("/dev/full", &s, &costs, &s.points[0], &err), DL_ERR_IO);
    assert_int_equal(dl_timeline_write("no/such/folder/t", &s, &costs, &s.points[0], &err),
                     DL_ERR_IO);
    dl_scenario_free(&s);
    dl_costs_free(&costs);
}

/* 2 workers without exchange: three steps of 1 100 000 ns each, of compute only, from 0 on. */
static void three_steps_are_a_table(void **state)
{
    (void)state;
    static const int steps[] = {20, 2}; /* a run of two has no more */
    for (size_t i = 0; i < 2; i++) {
        dl_costs costs = fixture_costs(FIXTURE_COSTS);
        dl_scenario s = fixture_scenario("[scenario]\nsteps = %d\n[machine]\ncores = 2\n"
                                         "workers = 2\n[workload]\ncosts = c\nbatch = 2\n[sync]\n"
                                         "mode = none\n",
                                         steps[i]);
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        assert_int_equal(dl_timeline_steps_write(out, &s, &costs, &s.points[0], NULL), DL_OK);
        fclose(out);
        dl_csv csv = {0};
        assert_int_equal(dl_csv_read_text(&csv, "t", text, bytes, NULL), DL_OK);
        double busy_s[2] = {0}, last_s = 0;
        for (size_t row = 0; row < csv.rows; row++) {
            double worker = 0, start_s = 0, end_s = 0;
            assert_int_equal(dl_csv_number(&csv, row, 0, &worker, NULL), DL_OK);
            assert_string_equal(dl_csv_cell(&csv, row, 1), "compute");
            assert_int_equal(dl_csv_number(&csv, row, 2, &start_s, NULL), DL_OK);
            assert_int_equal(dl_csv_number(&csv, row, 3, &end_s, NULL), DL_OK);
            busy_s[(int)worker] += end_s - start_s;
            if (end_s > last_s) last_s = end_s;
        }
        const double want_s = (steps[i] < 3 ? steps[i] : 3) * 1.1e-3;
        assert_near(busy_s[0], want_s, 1e-9);
        assert_near(busy_s[1], want_s, 1e-9);
        assert_near(last_s, want_s, 1e-9);
        dl_csv_free(&csv);
        free(text);
        dl_scenario_free(&s);
        dl_costs_free(&costs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_step_and_activity_is_there),
                                       cmocka_unit_test(three_steps_are_a_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
