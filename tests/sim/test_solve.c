/* Finds the key for which a column has a target value, compared with the closed form of the
 * utilisation: H t / (H t + T), with t = 1.1 ms and T = 12 ms for a ring of four nodes at 1
 * GB/s. */
#include "tests/gpu_fixture.h"

#include "common/csv.h"
#include "common/units.h"
#include "sim/report/solve.h"

#define STEP_MS 1.1
#define RING_MS 12.0
#define SCENARIO                                                                         \
    "[scenario]\nname = solved\nsteps = 32\n[machine]\nfile = solve_nodes.ini\n"         \
    "workers = %s\n%s[workload]\ncosts = solve_costs.ini\nbatch_per_worker = %d\n[sync]" \
    "\nmode = average\nwhere = allreduce\n%s[exchange]\nalgorithm = ring\n"

static int write_files(void **state DL_UNUSED)
{
    fixture_write("solve_nodes.ini", FIXTURE_NODES("4"));
    fixture_write("solve_costs.ini", "[costs]\nschema = 1\nparameter_bytes = 8000000\n"
                                     "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"
                                     "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n"
                                     "[op a.update]\nfixed_ns = 100000\nper_sample_ns = 0\n"
                                     "[overlap]\nslowdown = 1\n" FIXTURE_FREE_DISPATCH);
    return 0;
}

static int remove_files(void **state DL_UNUSED)
{
    unlink("solve_nodes.ini");
    unlink("solve_costs.ini");
    return 0;
}

static int batch_per_worker = 1; /* for the scenario */

static dl_pace *pace; /* NULL: none */

/* Solves with additional lines of [machine] and [sync]. */
static dl_status solve(dl_solution *solution, dl_study *study, const char *machine,
                       const char *sync, const char *key, const char *targets, dl_error *err)
{
    char text[1024];
    const dl_solve_config config = {
        .key = key, .targets = targets, .seed = -1, .threads = 1, .pace = pace};
    snprintf(text, sizeof text, SCENARIO, strncmp(machine, "all", 3) == 0 ? "all" : "4",
             strncmp(machine, "all", 3) == 0 ? "" : machine, batch_per_worker, sync);
    *solution = (dl_solution){0};
    *study = (dl_study){0};
    dl_status status = dl_study_read_text(study, "s.ini", text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(study, err);
    return status == DL_OK ? dl_solve(solution, study, &config, err) : status;
}

static void end(dl_solution *solution, dl_study *study)
{
    dl_solution_free(solution);
    dl_study_free(study);
}

/* At B bytes per second T = 12 ms x 1 GB/s / B. */
static void a_rate_gives_the_utilisation(void **state DL_UNUSED)
{
    dl_solution solution;
    dl_study study;
    assert_int_equal(solve(&solution, &study, "", "interval = 16, 64\n", "port_bytes_per_s",
                           "utilisation_frac=0.5,0.9,0.1", NULL),
                     DL_OK);
    static const double targets[] = {0.5, 0.9, 0.1};
    assert_int_equal(solution.count, 6);
    assert_int_equal(solution.unreached, 0);
    for (size_t i = 0; i < 6; i++) {
        const double h = i < 3 ? 16 : 64, u = targets[i % 3];
        assert_near(solution.all[i].value, 1e9 * RING_MS / (h * STEP_MS * (1 - u) / u), 2e-4);
        assert_near(solution.all[i].found, u, 1e-4);
    }
    assert_string_equal(solution.all[5].options, "interval 64");
    end(&solution, &study);
}

/* A column that decreases with the key; the key is also a list of the scenario, and is given with
 * its section. */
static void a_falling_column_is_solved_too(void **state DL_UNUSED)
{
    dl_solution solution;
    dl_study study;
    assert_int_equal(solve(&solution, &study, "port_bytes_per_s = 1MB/s, 2MB/s\n",
                           "interval = 16\n", "machine.port_bytes_per_s", "step_mean_s=0.002",
                           NULL),
                     DL_OK);
    assert_int_equal(solution.count, 1);
    assert_near(solution.all[0].value, 1e9 * RING_MS / (16 * (2 - STEP_MS)), 2e-4);
    end(&solution, &study);
}

/* 9 x 12 ms of 1.1 ms are 98.2 steps: 99. A step of at most 2 ms needs 13.3; of the two neighbours,
 * 13 gives the larger value of the column. 99 x 12 ms are 1080 steps: 1, 4, 16, 256 and 16384 are
 * tried first, and halving the last bracket would take 14 values more. */
static void whole_numbers_are_interpolated(void **state DL_UNUSED)
{
    dl_solution solution;
    dl_study study;
    assert_int_equal(solve(&solution, &study, "", "", "interval", "utilisation_frac=0.9", NULL),
                     DL_OK);
    assert_near(solution.all[0].value, 99, 0);
    assert_near(solution.all[0].found, 99 * STEP_MS / (99 * STEP_MS + RING_MS), 1e-4);
    assert_string_equal(solution.all[0].options, "");
    end(&solution, &study);
    assert_int_equal(solve(&solution, &study, "", "", "interval", "step_mean_s=0.002", NULL),
                     DL_OK);
    assert_near(solution.all[0].value, 13, 0);
    end(&solution, &study);
    assert_int_equal(solve(&solution, &study, "", "", "interval", "utilisation_frac=0.99", NULL),
                     DL_OK);
    assert_near(solution.all[0].value, 1080, 0);
    assert_true(solution.runs <= 5 + 4);
    end(&solution, &study);
}

/* The link behind the port has 100 GB/s: T is at least 0.12 ms. Both rows have results. */
static void what_no_rate_reaches_is_said(void **state DL_UNUSED)
{
    dl_solution solution;
    dl_study study;
    assert_int_equal(solve(&solution, &study, "", "interval = 16\n", "port_bytes_per_s",
                           "utilisation_frac=0.9,0.999", NULL),
                     DL_OK);
    assert_int_equal(solution.unreached, 1);
    assert_true(isnan(solution.all[1].value));
    assert_near(solution.all[1].at_limit, 1e15, 0);
    assert_near(solution.all[1].found, 17.6 / (17.6 + 0.12), 1e-4);
    assert_int_equal(dl_solution_check(&solution, &study, NULL), DL_OK);
    assert_int_equal(dl_solution_write("solve_rows.csv", &solution, &study, NULL), DL_OK);
    dl_csv csv = {0};
    double number = 0;
    assert_int_equal(dl_csv_read(&csv, "solve_rows.csv", NULL), DL_OK);
    assert_int_equal(csv.rows, 2);
    assert_string_equal(csv.names[1], "solved_port_bytes_per_s");
    assert_string_equal(dl_csv_cell(&csv, 1, 1), "");
    const int column = dl_csv_column(&csv, "utilisation_frac");
    assert_int_equal(dl_csv_number(&csv, 0, (size_t)column, &number, NULL), DL_OK);
    assert_near(number, 0.9, 1e-4);
    dl_csv_free(&csv);
    unlink("solve_rows.csv");
    end(&solution, &study);
}

/* A GPU of 1 GB has room for 19 samples of 50 MB in addition to parameters and gradients of 8 MB
 * each. Steps take 1.1 ms and a 16th of 12 ms, 1.85 ms, for any batch: four workers need 9.25 each
 * for 20,000 samples/s. Starting at 30, which does not fit, the search first goes down. */
static void the_last_batch_that_fits_is_an_end(void **state DL_UNUSED)
{
    fixture_write("solve_costs.ini",
                  "[costs]\nschema = 1\nparameter_bytes = 8000000\nstate_bytes = 0\n"
                  "[gpu_memory]\nactivation_bytes_per_sample = 50MB\nworkspace_bytes = 0\n"
                  "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"
                  "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n"
                  "[op a.update]\nfixed_ns = 100000\nper_sample_ns = 0\n"
                  "[overlap]\nslowdown = 1\n" FIXTURE_FREE_DISPATCH);
    for (int large = 0; large < 2; large++) {
        dl_solution solution;
        dl_study study;
        batch_per_worker = large ? 30 : 1;
        assert_int_equal(solve(&solution, &study, "", "interval = 16\n", "batch_per_worker",
                               "throughput_per_s=20000,1e6", NULL),
                         DL_OK);
        assert_int_equal(solution.count, 2);
        assert_near(solution.all[0].value, 10, 0);
        assert_int_equal(solution.all[0].batch, 40);
        assert_true(isnan(solution.all[1].value) && solution.all[1].is_last);
        assert_near(solution.all[1].at_limit, 19, 0);
        assert_near(solution.all[1].found, 4 * 19 / 1.85e-3, 1e-3);
        assert_int_equal(dl_solution_check(&solution, &study, NULL), DL_OK);
        end(&solution, &study);
    }
    batch_per_worker = 1;
    write_files(NULL);
}

/* n micro-batches of a batch of 12 take n + 0.1 ms; with 16 such steps and 12 ms the compute
 * fraction is 0.87 at 5, which does not divide 12: 4 has 0.845, 6 has 0.890. */
static void values_that_do_not_divide_the_batch_are_passed_over(void **state DL_UNUSED)
{
    dl_solution solution;
    dl_study study;
    batch_per_worker = 12;
    assert_int_equal(solve(&solution, &study, "", "interval = 16\n", "accumulate",
                           "utilisation_frac=0.87,0.99", NULL),
                     DL_OK);
    assert_near(solution.all[0].value, 6, 0);
    assert_near(solution.all[0].found, 16 * 6.1 / (16 * 6.1 + RING_MS), 1e-4);
    assert_near(solution.all[1].at_limit, 12, 0);
    assert_true(isnan(solution.all[1].value) && solution.skipped_count > 1);
    assert_contains(solution.skipped_why, "micro-batches cannot share the batch evenly");
    end(&solution, &study);
    batch_per_worker = 1;
}

/* Starts at the machine's four nodes; n nodes take 16 x 1.1 + 16 (n - 1) / n ms for 16 n samples:
 * 4000 per second with 8, with as many workers. */
static void numbers_of_nodes_begin_at_the_machines(void **state DL_UNUSED)
{
    dl_solution solution;
    dl_study study;
    assert_int_equal(
        solve(&solution, &study, "all", "interval = 16\n", "nodes", "throughput_per_s=4000", NULL),
        DL_OK);
    assert_near(solution.all[0].value, 8, 0);
    assert_near(solution.all[0].found, 16 * 8 / 31.6e-3, 1e-3);
    assert_int_equal(solution.all[0].workers, 8);
    assert_true(solution.runs <= 6);
    end(&solution, &study);
}

static int64_t now_ns;
static double said_s;

static int64_t turn(void)
{
    return now_ns += DL_NS_PER_S; /* each reading of the clock takes a second */
}

static void note_said(const char *text DL_UNUSED)
{
    said_s = pace->estimate_s;
}

/* The estimate covers all values tried for both targets, although it is made during the first
 * ones. */
static void the_time_of_all_values_is_said(void **state DL_UNUSED)
{
    DL_SCOPED(dl_pace) made;
    dl_solution solution;
    dl_study study;
    dl_pace_init(&made, (double)INFINITY, 1, note_said);
    made.clock_ns = turn;
    pace = &made;
    now_ns = 0;
    said_s = 0;
    assert_int_equal(solve(&solution, &study, "", "interval = 16\n", "port_bytes_per_s",
                           "utilisation_frac=0.5,0.9", NULL),
                     DL_OK);
    assert_true(solution.runs > 10);
    assert_near(said_s, made.spent_s, 0.5);
    pace = NULL;
    end(&solution, &study);
}

static void what_is_not_asked_well_is_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *key, *target, *text;
        dl_status status;
    } cases[] = {
        {"port_byte_per_s", "utilisation_frac=0.9", "did you mean 'port_bytes_per_s'?",
         DL_ERR_USAGE},
        {"mode", "utilisation_frac=0.9", "only keys that are one number", DL_ERR_USAGE},
        {"workers", "utilisation_frac=0.9", "Run a list, as --workers 8,16,32", DL_ERR_USAGE},
        {"interval", "utilisation_frac", "expected COLUMN=VALUE", DL_ERR_USAGE},
        {"seed", "utilisation_frac=0.9", "do not rise or fall with it", DL_ERR_USAGE},
        {"interval", "utilisation_frac=much", "'much' is not a number", DL_ERR_USAGE},
        {"interval", "utilization_frac=0.9", "did you mean 'utilisation_frac'?", DL_ERR_NAME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_solution solution;
        dl_study study;
        dl_error err = {0};
        assert_int_equal(solve(&solution, &study, "", "", cases[i].key, cases[i].target, &err),
                         cases[i].status);
        if (strstr(err.text, cases[i].text) == NULL) fail_msg("%s", err.text);
        end(&solution, &study);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_gives_the_utilisation),
        cmocka_unit_test(a_falling_column_is_solved_too),
        cmocka_unit_test(whole_numbers_are_interpolated),
        cmocka_unit_test(what_no_rate_reaches_is_said),
        cmocka_unit_test(the_last_batch_that_fits_is_an_end),
        cmocka_unit_test(values_that_do_not_divide_the_batch_are_passed_over),
        cmocka_unit_test(numbers_of_nodes_begin_at_the_machines),
        cmocka_unit_test(the_time_of_all_values_is_said),
        cmocka_unit_test(what_is_not_asked_well_is_refused),
    };
    return cmocka_run_group_tests(tests, write_files, remove_files);
}
