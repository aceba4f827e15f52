/* libdlscale as used by another program: linked as a shared library, and compared with the golden
 * results. */
#include "tests/check.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/csv.h"
#include "sim/api/dlscale.h"

#define GOLDEN DL_GOLDEN "/"

static dlscale_result *simulate(const char *path, int threads)
{
    dlscale_result *result = NULL;
    dlscale_error error = {0};
    if (dlscale_simulate_file(path, threads, &result, &error) != DLSCALE_OK)
        fail_msg("%s:%d: %s", error.file, error.line, error.text);
    return result;
}

/* Compares each cell with dlsim's results file. */
static void check_rows(const dlscale_result *result, const char *expected)
{
    DL_SCOPED(dl_csv) csv = {0};
    dl_error err = {0};
    if (dl_csv_read(&csv, expected, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(dlscale_rows(result), csv.rows);
    assert_int_equal(dlscale_columns(result), csv.columns);
    for (size_t c = 0; c < csv.columns; c++) {
        assert_string_equal(dlscale_column_name(result, c), csv.names[c]);
        assert_int_equal(dlscale_column(result, csv.names[c]), c);
        for (size_t r = 0; r < csv.rows; r++)
            assert_string_equal(dlscale_text(result, r, c), dl_csv_cell(&csv, r, c));
    }
}

static void rows_are_those_of_the_results_file(void **state DL_UNUSED)
{
    static const char *const names[] = {"modes", "noise", "gpu_reduce"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512], expected[512];
        snprintf(path, sizeof path, GOLDEN "%s.ini", names[i]);
        snprintf(expected, sizeof expected, GOLDEN "%s.expected.csv", names[i]);
        dlscale_result *result = simulate(path, 1);
        check_rows(result, expected);
        dlscale_free(result);
    }
    dlscale_free(NULL);
}

/* Files are searched in the folder of the name. A step takes 10 us per sample and nothing else: 8
 * samples take 80 us, and two workers with a core each process twice as many per second. */
static void text_is_a_scenario_too(void **state DL_UNUSED)
{
    char name[] = "test_api.XXXXXX", path[64];
    static const char costs[] = "[costs]\nschema = 1\nworkload = w\ndevice = none\n"
                                "parameter_bytes = 4\nstate_bytes = 4\nbatch_min = 1\n"
                                "batch_max = 64\ncores = 2\n[op f.forward]\n"
                                "fixed_ns = 0\nper_sample_ns = 10 us, measured\n"
                                "[sharing]\ncopies_2 = 1, measured\n";
    static const char scenario[] = "[scenario]\nsteps = 20\n[machine]\ncores = 2\n"
                                   "workers = 1, 2\n[workload]\ncosts = c.ini\nbatch = 8\n"
                                   "[sync]\nmode = none\n";
    assert_non_null(mkdtemp(name));
    snprintf(path, sizeof path, "%s/c.ini", name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(costs, out);
    fclose(out);
    dlscale_result *result = NULL;
    dlscale_error error = {0};
    char with[64];
    snprintf(with, sizeof with, "%s/none.ini", name);
    if (dlscale_simulate_text(with, scenario, 2, &result, &error) != DLSCALE_OK)
        fail_msg("%s:%d: %s", error.file, error.line, error.text);
    assert_int_equal(dlscale_rows(result), 2);
    assert_true(dlscale_value(result, 0, "workers") == 1);
    assert_true(fabs(dlscale_value(result, 0, "step_mean_s") - 80e-6) < 1e-12);
    assert_true(fabs(dlscale_value(result, 1, "speedup") - 2) < 1e-9);
    assert_string_equal(dlscale_text(result, 1, (size_t)dlscale_column(result, "sync")), "none");
    dlscale_free(result);
    remove(path);
    rmdir(name);
}

static void no_text_is_an_error(void **state DL_UNUSED)
{
    dlscale_result *result = NULL;
    dlscale_error error = {0};
    assert_int_equal(dlscale_simulate_text("s.ini", NULL, 1, &result, &error), DLSCALE_ERR_USAGE);
    assert_null(result);
    assert_string_equal(error.text, "text is NULL");
}

/* The library finds machines relative to its own location, in any program. */
static void machines_are_known_by_name(void **state DL_UNUSED)
{
    static const char scenario[] = "[scenario]\nsteps = 5\n[machine]\nfile = p2.8xlarge\n"
                                   "workers = 1, 2\n[workload]\ncosts = costs.ini\n"
                                   "batch = 16\n[sync]\nmode = allreduce\n";
    dlscale_result *result = NULL;
    dlscale_error error = {0};
    if (dlscale_simulate_text(GOLDEN "gpu/none.ini", scenario, 1, &result, &error) != DLSCALE_OK)
        fail_msg("%s:%d: %s", error.file, error.line, error.text);
    assert_int_equal(dlscale_rows(result), 2);
    assert_true(dlscale_value(result, 1, "speedup") > 0);
    dlscale_free(result);
}

static void cells_that_are_not_there(void **state DL_UNUSED)
{
    dlscale_result *result = simulate(GOLDEN "modes.ini", 1);
    const size_t rows = dlscale_rows(result), columns = dlscale_columns(result);
    assert_null(dlscale_text(result, rows, 0));
    assert_null(dlscale_text(result, 0, columns));
    assert_null(dlscale_column_name(result, columns));
    assert_true(isnan(dlscale_number(result, rows, 0)));
    assert_true(isnan(dlscale_value(result, 0, "sync")));
    assert_true(isnan(dlscale_value(result, 0, "none such")));
    assert_int_equal(dlscale_column(result, "none such"), -1);
    assert_null(dlscale_note(result, dlscale_notes(result)));
    dlscale_free(result);
}

static void errors_name_the_place(void **state DL_UNUSED)
{
    dlscale_result *result = (dlscale_result *)1;
    dlscale_error error = {0};
    static const char wrong[] = "[scenario]\nstepps = 20\n";
    assert_int_equal(dlscale_simulate_text("x/y.ini", wrong, 1, &result, &error), DLSCALE_ERR_NAME);
    assert_null(result);
    assert_string_equal(error.file, "x/y.ini");
    assert_int_equal(error.line, 2);
    assert_contains(error.text, "steps");
    assert_int_equal(dlscale_simulate_file("/nowhere/none.ini", 1, &result, &error),
                     DLSCALE_ERR_IO);
    assert_string_equal(error.file, "/nowhere/none.ini");
    assert_int_equal(dlscale_simulate_file(GOLDEN "modes.ini", -1, &result, &error),
                     DLSCALE_ERR_USAGE);
    assert_int_equal(dlscale_simulate_file("/nowhere/none.ini", 1, &result, NULL), DLSCALE_ERR_IO);
}

/* The library prints nothing, even on errors. */
static void nothing_is_printed(void **state DL_UNUSED)
{
    FILE *printed = tmpfile();
    assert_non_null(printed);
    fflush(NULL);
    const int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    dup2(fileno(printed), STDOUT_FILENO);
    dup2(fileno(printed), STDERR_FILENO);
    dlscale_result *result = NULL;
    const dlscale_status bad = dlscale_simulate_file("/nowhere/none.ini", 1, &result, NULL);
    const dlscale_status good = dlscale_simulate_file(GOLDEN "modes.ini", 2, &result, NULL);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    dlscale_free(result);
    assert_int_equal(bad, DLSCALE_ERR_IO);
    assert_int_equal(good, DLSCALE_OK);
    assert_int_equal(fseek(printed, 0, SEEK_END), 0);
    assert_int_equal(ftell(printed), 0);
    fclose(printed);
}

/* The locale has a comma as the decimal point, if such a locale is installed; the caller's locale
 * is unchanged. */
static void the_locale_does_not_matter(void **state DL_UNUSED)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    const char *set = NULL;
    for (size_t i = 0; i < 3 && set == NULL; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (set == NULL) skip();
    char half[8];
    dlscale_result *result = simulate(GOLDEN "modes.ini", 1);
    snprintf(half, sizeof half, "%.1f", 0.5);
    setlocale(LC_NUMERIC, "C");
    check_rows(result, GOLDEN "modes.expected.csv");
    dlscale_free(result);
    assert_string_equal(half, "0,5");
}

static void *simulate_noise(void *result)
{
    if (dlscale_simulate_file(GOLDEN "noise.ini", 2, result, NULL) != DLSCALE_OK) return NULL;
    return result;
}

static void threads_do_not_disturb_one_another(void **state DL_UNUSED)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    dlscale_result *results[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, simulate_noise, &results[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *done = NULL;
        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_non_null(done);
        check_rows(results[i], GOLDEN "noise.expected.csv");
        dlscale_free(results[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_disturb_one_another), /* first, as it initializes the
                                                               * library */
        cmocka_unit_test(rows_are_those_of_the_results_file),
        cmocka_unit_test(text_is_a_scenario_too),
        cmocka_unit_test(no_text_is_an_error),
        cmocka_unit_test(machines_are_known_by_name),
        cmocka_unit_test(cells_that_are_not_there),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(nothing_is_printed),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
