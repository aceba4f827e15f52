#include "calibrate/table/table.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "calibrate/table/table_internal.h"
#include "common/file.h"
#include "common/random.h"
#include "sim/report/report_assumed.h"
#include "sim/sweep.h"
#include "tests/check.h"
#include "tests/gpu_fixture.h"

/* A synthetic system on the GPUs of tests/gpu_fixture.h: 2 ms + 50 us per sample on the GPU, 0.3
 * ms + 0.7 ms per GPU on the issuing thread. With 1 worker the GPU limits the step, with 4 the
 * thread. */
#define KNOWN "[costs]\nschema = 1\nparameter_bytes = 80000\n"
#define TRUE_OP "[op network.forward]\nfixed_ns = 2000000\nper_sample_ns = 50000\n"
#define TRUE_DISPATCH "[dispatch]\nserial_ns = 300000\nper_worker_ns = 700000\n"

static const double true_values[] = {2e6, 5e4, 3e5, 7e5};

static void write_scenario_of(const char *known, const char *sync)
{
    char text[1024];
    fixture_write("table_gpus.ini", FIXTURE_GPUS);
    fixture_write("table_costs.ini", known);
    snprintf(text, sizeof text,
             "[scenario]\nsteps = 3000\n[machine]\nfile = table_gpus.ini\nworkers = 1, 4, 8\n"
             "dispatch = single\n[workload]\ncosts = table_costs.ini\nbatch = 16, 64, 128\n"
             "[sync]\n%s",
             sync);
    fixture_write("table_scenario.ini", text);
}

static void write_scenario(const char *known)
{
    write_scenario_of(known, "mode = none\n");
}

/* Writes a table from the last written scenario: each throughput times exp(noise * a normal
 * number). */
static void make_table_of(const char *path, double noise, const char *more)
{
    DL_SCOPED(dl_study) study = {0};
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 1};
    if (dl_study_read(&study, "table_scenario.ini", &err) != DL_OK ||
        dl_study_read_costs(&study, &err) != DL_OK ||
        dl_sweep_run(&sweep, &study, &config, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    dl_random random;
    dl_random_init(&random, 5, 0, 0, 0);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "workers,batch,throughput_per_s,source\n");
    for (size_t i = 0; i < sweep.row_count; i++) {
        const double factor = exp(noise * dl_random_normal(&random));
        fprintf(out, "%d,%lld,%.6f,made\n", sweep.rows[i].point.workers,
                (long long)sweep.rows[i].point.batch, sweep.rows[i].mean.throughput_per_s * factor);
    }
    fputs(more, out);
    fclose(out);
}

static void make_table(const char *path, double noise, const char *more)
{
    write_scenario(KNOWN TRUE_OP TRUE_DISPATCH);
    make_table_of(path, noise, more);
}

static void run_on(dl_table_fit *fit, const char *table, const char *names, int threads)
{
    *fit = (dl_table_fit){0};
    dl_error err = {0};
    const dl_table_part_config part = {
        .scenario_path = "table_scenario.ini", .table_path = table, .names = names};
    const dl_table_fit_config config = {.parts = &part, .part_count = 1, .threads = threads};
    if (dl_table_fit_run(fit, &config, &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
}

static void run(dl_table_fit *fit, const char *table, const char *names)
{
    run_on(fit, table, names, 1);
}

static void fails(const char *table_text, const char *names, dl_status code, const char *part)
{
    fixture_write("table_bad.csv", table_text);
    DL_SCOPED(dl_table_fit) fit = {0};
    dl_error err = {0};
    const dl_table_part_config of = {
        .scenario_path = "table_scenario.ini", .table_path = "table_bad.csv", .names = names};
    const dl_table_fit_config config = {.parts = &of, .part_count = 1, .threads = 1};
    assert_int_equal(dl_table_fit_run(&fit, &config, &err), code);
    assert_contains(err.text, part);
}

static bool has_note(const dl_table_fit *fit, const char *part)
{
    for (size_t i = 0; i < fit->notes.count; i++) {
        if (strstr(fit->notes.lines[i], part) != NULL) return true;
    }
    return false;
}

/* Nine rows without noise recover the four true costs. */
static void test_costs_are_recovered(void **state DL_UNUSED)
{
    make_table("table_exact.csv", 0, "");
    write_scenario(KNOWN);
    DL_SCOPED(dl_table_fit) fit;
    run(&fit, "table_exact.csv", NULL);
    assert_int_equal(fit.unknown.count, 4);
    assert_string_equal(fit.unknown.items[0].name, "[op network.*] fixed_ns");
    for (size_t j = 0; j < 4; j++) {
        assert_true(fit.estimates[j].determined);
        assert_true(fabs(fit.estimates[j].value / true_values[j] - 1) < 5e-3);
    }
    assert_true(fit.quality.rms_frac < 1e-4);
    assert_int_equal(fit.quality.left_out_count, 9);
    assert_true(fit.quality.left_out_max_frac < 1e-2);
    assert_int_equal(fit.parts->costs.op_count, 2);
    assert_true(
        fabs(fit.parts->costs.ops[1].fixed_ns.value / fit.parts->costs.ops[0].fixed_ns.value - 2) <
        1e-9);
    assert_true(has_note(&fit, "a third is taken for the forward pass: assumed"));
    assert_int_equal(fit.parts->costs.batch_min, 2);
    assert_int_equal(fit.parts->costs.batch_max, 128);
}

/* Guards against repeated simulation of the same points: the four costs of nine rows took 5,500
 * runs of a point, instead of 40,460 longer ones before. */
static void test_few_runs_are_needed(void **state DL_UNUSED)
{
    make_table("table_runs.csv", 0.02, "");
    write_scenario(KNOWN);
    DL_SCOPED(dl_table_fit) fit;
    run(&fit, "table_runs.csv", NULL);
    assert_int_equal(fit.parts->rows.used, 9);
    assert_in_range(fit.runs, 500, 8000);
}

/* With 2 % noise the truth lies within four standard errors, and the errors have the magnitude of
 * the noise: costs that most rows determine are known to a few per cent. */
static void test_noise_gives_errors(void **state DL_UNUSED)
{
    make_table("table_noisy.csv", 0.02, "");
    write_scenario(KNOWN);
    DL_SCOPED(dl_table_fit) fit;
    run(&fit, "table_noisy.csv", NULL);
    for (size_t j = 0; j < 4; j++) {
        const dl_table_estimate *e = &fit.estimates[j];
        assert_true(fabs(e->value - true_values[j]) < 4 * e->error);
        assert_true(e->error < 0.5 * e->value);
    }
    assert_true(fit.estimates[1].error < 0.05 * fit.estimates[1].value);
    assert_true(fit.quality.rms_frac > 0.003 && fit.quality.rms_frac < 0.04);
    assert_null(fit.proposal.name); /* there is no exchange */
    assert_true(fit.quality.left_out_mean_frac > 0.003 && fit.quality.left_out_mean_frac < 0.1);
    assert_true(fit.quality.left_out_max_frac >= fit.quality.left_out_mean_frac);
}

/* One worker only: the GPU takes 2.8, 5.2 and 8.4 ms, issuing less. The two numbers of [dispatch]
 * therefore limit nothing; the rows only bound the serial part by the shortest step. */
static void test_undetermined_is_left_out(void **state DL_UNUSED)
{
    write_scenario(KNOWN);
    fixture_write("table_one.csv", "workers,batch,step_s\n1,16,0.0028\n1,64,0.0052\n1,128,0.0084\n"
                                   "1,32,0.0036\n1,96,0.0068\n");
    DL_SCOPED(dl_table_fit) fit;
    run(&fit, "table_one.csv", NULL);
    assert_true(fit.estimates[0].determined && fit.estimates[1].determined);
    assert_true(fabs(fit.estimates[0].value / 2e6 - 1) < 0.02);
    for (size_t j = 2; j < 4; j++) {
        assert_false(fit.estimates[j].determined);
        assert_true(isnan(fit.estimates[j].value));
        assert_true(fit.estimates[j].at_most);
        assert_true(fit.estimates[j].bound > 2.5e6 && fit.estimates[j].bound < 3e6);
    }
    assert_int_equal(fit.determined, 2);
    assert_true(has_note(&fit, "[dispatch] serial_ns: not determined by these rows, they only say "
                               "at most"));
    dl_error err = {0};
    assert_int_equal(dl_table_fit_write(&fit, 0, "table_out.ini", &err), DL_OK);
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_file_read("table_out.ini", &text, &bytes, &err), DL_OK);
    assert_contains(text, "[op network.forward]");
    assert_contains(text, "n = 5, fitted");
    assert_contains(text, "; [dispatch] serial_ns: not determined");
    assert_contains(text, "\nserial_ns = 0 (0 to 2");
    free(text);
    /* The simulator runs with these costs, whose interval extends to where the thread limits a
     * step. */
    DL_SCOPED(dl_study) study = {0};
    assert_int_equal(dl_file_read("table_scenario.ini", &text, &bytes, &err), DL_OK);
    char *with = strstr(text, "[scenario]\n") + strlen("[scenario]\n");
    DL_AUTOFREE char *scenario = dl_format("[scenario]\nreplicates = 60\n%s", with);
    fixture_write("table_bounded.ini", scenario);
    free(text);
    assert_int_equal(dl_file_read("table_out.ini", &text, &bytes, &err), DL_OK);
    fixture_write("table_costs.ini", text);
    free(text);
    assert_int_equal(dl_study_read(&study, "table_bounded.ini", &err), DL_OK);
    assert_int_equal(dl_study_read_costs(&study, &err), DL_OK);
    assert_int_equal(study.variants[0].assumed.count, 0);
    DL_SCOPED(dl_sweep) sweep = {0};
    const dl_sweep_config config = {.threads = 1};
    assert_int_equal(dl_sweep_run(&sweep, &study, &config, &err), DL_OK);
    const dl_row *row = NULL;
    for (size_t i = 0; i < sweep.row_count; i++) {
        const dl_point *point = &sweep.rows[i].point;
        if (point->workers == 8 && point->batch == 16) row = &sweep.rows[i];
    }
    /* 2.1 ms with 2 samples per GPU; issuing to 8 GPUs takes at most 3 + 8 x 3 ms, 13 on
     * average. */
    assert_non_null(row);
    assert_true(fabs(row->mean.throughput_per_s / (16 / 2.1e-3) - 1) < 0.02);
    assert_true(row->low_per_s < 16 / 15e-3);
    dl_effects effects = {0};
    DL_SCOPED(dl_notes) notes = {0};
    bool said = false;
    dl_report_assumed(&effects, &study, &sweep);
    dl_effects_end(&notes, &effects);
    for (size_t i = 0; i < notes.count; i++)
        said |= strstr(notes.lines[i],
                       "not determined: [dispatch] serial_ns, between 0 ns and 2") != NULL;
    assert_true(said);
}

/* One batch size: only the sum of fixed and per-sample time is determined. */
static void test_confused_costs_are_named(void **state DL_UNUSED)
{
    write_scenario(KNOWN TRUE_DISPATCH);
    fixture_write("table_same.csv",
                  "workers,batch,step_s\n1,64,0.0052\n1,64,0.0053\n1,64,0.0051\n");
    DL_SCOPED(dl_table_fit) fit;
    run(&fit, "table_same.csv", NULL);
    assert_int_equal(fit.estimates[0].confused, 1);
    assert_int_equal(fit.estimates[1].confused, 1);
    assert_true(fit.condition > 1e3);
    assert_true(has_note(&fit, "do not distinguish them"));
    assert_true(isnan(fit.estimates[0].error) && isnan(fit.estimates[1].error));
    assert_int_equal(fit.quality.left_out_count, 0);
    assert_true(has_note(&fit, "3 of 3 rows cannot be left out"));
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    assert_int_equal(dl_table_fit_write(&fit, 0, "table_out.ini", &err), DL_OK);
    assert_int_equal(dl_file_read("table_out.ini", &text, &bytes, &err), DL_OK);
    assert_contains(text, "n = 3, assumed");
    assert_null(strstr(text, "n = 3, fitted"));
}

/* Two rows suffice for two costs when the third is left out. */
static void test_as_many_rows_as_costs_are_fitted(void **state DL_UNUSED)
{
    write_scenario(KNOWN TRUE_DISPATCH);
    fixture_write("table_three.csv",
                  "workers,batch,step_s\n1,16,0.0028\n1,64,0.0052\n1,128,0.0084\n");
    DL_SCOPED(dl_table_fit) fit;
    run(&fit, "table_three.csv", NULL);
    assert_true(fit.estimates[0].determined && fit.estimates[1].determined);
    assert_int_equal(fit.quality.left_out_count, 3);
    assert_true(fit.quality.left_out_max_frac < 1e-3); /* 2 ms and 50 us a sample are exact */
}

#define AVERAGE_KNOWN                                                                      \
    KNOWN TRUE_OP "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n[sync]\nbarrier_ns = 0\n" \
                  "[average]\nlatency_ns = 0\n"

/* Averaging 80 kB of n workers takes n x 80 us of reading and 160 us of writing, in addition to 2
 * ms and more: both rates are recovered. Ten thousand times faster reading is invisible within 2 %
 * noise: the rows only show that it is not slow. */
static void test_rates_are_fitted(void **state DL_UNUSED)
{
    const char *sync = "mode = average\nwhere = cpu\n";
    const char *names = "average.read_bytes_per_s, average.write_bytes_per_s";
    write_scenario_of(AVERAGE_KNOWN "read_bytes_per_s = 1e9\nwrite_bytes_per_s = 5e8\n", sync);
    make_table_of("table_rates.csv", 0, "");
    write_scenario_of(AVERAGE_KNOWN, sync);
    dl_table_fit fit;
    run(&fit, "table_rates.csv", names);
    assert_true(fabs(fit.estimates[0].value / 1e9 - 1) < 5e-3);
    assert_true(fabs(fit.estimates[1].value / 5e8 - 1) < 5e-3);
    dl_table_fit_free(&fit);
    write_scenario_of(AVERAGE_KNOWN "read_bytes_per_s = 1e13\nwrite_bytes_per_s = 1e13\n", sync);
    make_table_of("table_rates.csv", 0.02, "");
    write_scenario_of(AVERAGE_KNOWN "write_bytes_per_s = 1e13\n", sync);
    run(&fit, "table_rates.csv", NULL);
    assert_false(fit.estimates[0].determined);
    assert_false(fit.estimates[0].at_most);
    assert_true(fit.estimates[0].bound > 1e9 && fit.estimates[0].bound < 1e12);
    assert_true(has_note(&fit, "read_bytes_per_s: not determined by these rows, they only say "
                               "at least"));
    const double bound = fit.estimates[0].bound;
    const dl_value *written = &fit.parts->costs.average.read_bytes_per_s;
    assert_true(written->value == bound && written->low == bound);
    /* The squares grow with the time 1 / rate by a t + b t^2, by 0.1 s^2 up to the upper bound and
     * by 4 s^2 = 40 times that up to the lower one: t differs by less than a factor of 40. */
    assert_true(written->high > 1.2 * bound && written->high < 40.5 * bound);
    dl_table_fit_free(&fit);
}

/* A rate that the rows do not determine keeps the file's value if they allow it, and gets their
 * bounds if they do not. */
static void test_undetermined_rate_keeps_its_value(void **state DL_UNUSED)
{
    const char *sync = "mode = average\nwhere = cpu\n", *name = "average.read_bytes_per_s";
    write_scenario_of(AVERAGE_KNOWN "read_bytes_per_s = 1e13\nwrite_bytes_per_s = 1e13\n", sync);
    make_table_of("table_rates.csv", 0.02, "");
    write_scenario_of(
        AVERAGE_KNOWN "read_bytes_per_s = 3e12, catalogue\nwrite_bytes_per_s = 1e13\n", sync);
    dl_table_fit fit;
    run(&fit, "table_rates.csv", name);
    assert_false(fit.estimates[0].determined);
    assert_true(fit.estimates[0].kept);
    assert_true(has_note(&fit, "3.00 TB/s of the cost file stays"));
    const dl_value *value = &fit.parts->costs.average.read_bytes_per_s;
    assert_true(value->known && value->value == 3e12 && value->low == value->high);
    assert_int_equal(value->origin, DL_ORIGIN_CATALOGUE);
    dl_table_fit_free(&fit);
    write_scenario_of(AVERAGE_KNOWN "read_bytes_per_s = 1e8\nwrite_bytes_per_s = 1e13\n", sync);
    run(&fit, "table_rates.csv", name);
    assert_false(fit.estimates[0].determined);
    assert_false(fit.estimates[0].kept);
    assert_true(has_note(&fit, "as the 100 MB/s of the cost file contradicts them"));
    value = &fit.parts->costs.average.read_bytes_per_s;
    assert_true(value->value == fit.estimates[0].bound && value->high < 1e14);
    dl_table_fit_free(&fit);
}

#define MACHINE_COSTS                                                        \
    "[costs]\nschema = 1\nparameter_bytes = 40000000\n" TRUE_OP              \
    "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n[sync]\nbarrier_ns = 0\n" \
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 1e12\nwrite_bytes_per_s = 1e12\n"

/* The rows come from a machine whose links have 7 GB/s and whose root complex passes 9 GB/s for all
 * GPUs of the socket; the machine file has 10 GB/s and no limit. Both are recovered, in a cost file
 * with which the simulator reproduces the rows. */
static void test_machine_numbers_are_fitted(void **state DL_UNUSED)
{
    const char *sync = "mode = average\n"; /* in host memory if left open */
    write_scenario_of(MACHINE_COSTS "[machine link x16]\nbytes_per_s = 7e9\n"
                                    "[machine host]\nroot_bytes_per_s = 9e9\n",
                      sync);
    make_table_of("table_machine.csv", 0, "");
    write_scenario_of(MACHINE_COSTS, sync);
    dl_table_fit fit;
    run(&fit, "table_machine.csv", "link.x16.bytes_per_s");
    assert_string_equal(fit.proposal.name, "[machine host] root_bytes_per_s");
    assert_true(fabs(fit.proposal.value / 9e9 - 1) < 0.01);
    assert_true(fit.proposal.rms_frac < 1e-3 && fit.proposal.rms_without_frac > 0.01);
    assert_true(has_note(&fit, "add root_bytes_per_s to --fit"));
    dl_table_fit_free(&fit);
    run(&fit, "table_machine.csv", "link.x16.bytes_per_s, root_bytes_per_s");
    assert_null(fit.proposal.name);
    assert_string_equal(fit.unknown.items[0].name, "[machine link x16] bytes_per_s");
    assert_string_equal(fit.unknown.items[1].name, "[machine host] root_bytes_per_s");
    assert_true(fit.unknown.items[0].was_known && fit.unknown.items[0].was == 10e9);
    assert_false(fit.unknown.items[1].was_known);
    assert_true(fit.quality.rms_frac < 1e-4);
    assert_true(fabs(fit.estimates[0].value / 7e9 - 1) < 5e-3);
    assert_true(fabs(fit.estimates[1].value / 9e9 - 1) < 5e-3);
    dl_error err = {0};
    assert_int_equal(dl_table_fit_write(&fit, 0, "table_costs.ini", &err), DL_OK);
    dl_table_fit_free(&fit);
    make_table_of("table_machine_again.csv", 0, "");
    char *made = NULL, *again = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_file_read("table_machine.csv", &made, &bytes, &err), DL_OK);
    assert_int_equal(dl_file_read("table_machine_again.csv", &again, &bytes, &err), DL_OK);
    double sum[2] = {0};
    for (int t = 0; t < 2; t++) {
        char *rest = NULL;
        for (char *line = strtok_r(t == 0 ? made : again, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest)) {
            const char *cell = strchr(strchr(line, ',') + 1, ',') + 1;
            sum[t] += strtod(cell, NULL);
        }
    }
    assert_true(sum[0] > 0 && fabs(sum[1] / sum[0] - 1) < 1e-3);
    free(made);
    free(again);

    write_scenario_of(MACHINE_COSTS, sync);
    fails("workers,batch,step_s\n1,16,0.01\n", "link.x17.bytes_per_s", DL_ERR_USAGE,
          "did you mean 'link.x16.bytes_per_s'?");
    fails("workers,batch,step_s\n1,16,0.01\n", "memory_bytes_per_s", DL_ERR_USAGE,
          "several sections have 'memory_bytes_per_s'");
    write_scenario_of(MACHINE_COSTS "[machine link x17]\nbytes_per_s = 7e9\n", sync);
    DL_SCOPED(dl_study) study = {0};
    assert_int_equal(dl_study_read(&study, "table_scenario.ini", &err), DL_OK);
    assert_int_equal(dl_study_read_costs(&study, &err), DL_ERR_NAME);
    assert_contains(err.text, "[machine link x17] bytes_per_s: table_gpus.ini has no [link x17]");
}

/* Three threads give bitwise the same result as one. */
static void test_threads_do_not_matter(void **state DL_UNUSED)
{
    make_table("table_threads.csv", 0.02, "");
    write_scenario(KNOWN TRUE_OP);
    DL_SCOPED(dl_table_fit) one, three;
    run_on(&one, "table_threads.csv", NULL, 1);
    run_on(&three, "table_threads.csv", NULL, 3);
    for (size_t j = 0; j < 2; j++) {
        assert_memory_equal(&one.estimates[j].value, &three.estimates[j].value, sizeof(double));
    }
    assert_int_equal(one.runs, three.runs);
}

/* A row with twice the throughput is reported and marked; a failed run is shown; a batch of 64 for
 * 3 workers is simulated with 22 samples each. */
static void test_rows_are_judged(void **state DL_UNUSED)
{
    make_table("table_odd.csv", 0, "1,64,385,wrong\n3,128,error,broke\n3,64,23000,uneven\n");
    write_scenario(KNOWN TRUE_OP TRUE_DISPATCH);
    DL_SCOPED(dl_table_fit) fit;
    run(&fit, "table_odd.csv", "op network.forward.fixed_ns, per_worker_ns");
    assert_int_equal(fit.parts->rows.count, 12);
    assert_int_equal(fit.parts->rows.used, 11);
    assert_true(fit.parts->residuals[9].unexplained);
    assert_true(has_note(&fit, "line 11 (workers 1, batch 64, none): "));
    assert_true(fit.parts->rows.rows[10].failed);
    assert_true(isnan(fit.parts->residuals[10].fitted_per_s));
    assert_true(has_note(&fit, "line 12 (workers 3, batch 129, none): an error in the source"));
    assert_int_equal(fit.parts->rows.rows[11].point.batch, 66);
    assert_int_equal(fit.parts->rows.rows[11].batch, 64);
    assert_true(has_note(&fit, "1 row with a batch that the workers cannot share evenly"));
}

/* Asserts the first row of a table that is read with table_scenario.ini. */
static void assert_first_row(const char *table_text, int workers, int64_t batch, double per_s)
{
    fixture_write("table_words.csv", table_text);
    DL_SCOPED(dl_table_rows) rows = {0};
    DL_SCOPED(dl_scenario) scenario = {0};
    dl_error err = {0};
    if (dl_table_scenario_read(&scenario, NULL, "table_scenario.ini", NULL, &err) != DL_OK ||
        dl_table_rows_read(&rows, "table_words.csv", NULL, &scenario, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(rows.rows[0].point.workers, workers);
    assert_int_equal(rows.rows[0].point.batch, batch);
    assert_near(rows.rows[0].throughput_per_s, per_s, 1e-12);
}

/* Without a column, the batch is the scenario's only one: of all workers, or of each. */
static void test_the_scenario_may_give_the_batch(void **state DL_UNUSED)
{
    static const struct {
        const char *given;
        int64_t batch; /* of four workers */
    } cases[] = {{"batch = 16", 16}, {"batch_per_worker = 16", 64}};
    write_scenario(KNOWN TRUE_OP TRUE_DISPATCH);
    fails("workers,step_s\n4,0.1\n", "per_worker_ns", DL_ERR_DATA, "or one --batch-per-worker");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[512];
        snprintf(text, sizeof text,
                 "[machine]\nfile = table_gpus.ini\nworkers = 1, 4\n[workload]\n"
                 "costs = table_costs.ini\n%s\n[sync]\nmode = none\n",
                 cases[c].given);
        fixture_write("table_scenario.ini", text);
        assert_first_row("workers,step_s\n4,0.1\n", 4, cases[c].batch,
                         (double)cases[c].batch / 0.1);
    }
}

/* Columns may have the names accepted by dlsim --measured; two names of one meaning are
 * rejected. */
static void test_columns_have_synonyms(void **state DL_UNUSED)
{
    write_scenario(KNOWN TRUE_OP TRUE_DISPATCH);
    assert_first_row("gpus,batch,mode,samples/s\n1,16,none,5000\n", 1, 16, 5000);
    assert_first_row("GPUs,batch,mode,step_s\n1,16,none,3.2 ms\n", 1, 16, 5000);
    assert_first_row("workers;batch;mode;samples/s\n1;16;none;5.000,5\n", 1, 16, 5000.5);
    fails("workers,batch,samples/s,throughput_per_s\n1,16,5,5\n", "per_worker_ns", DL_ERR_DATA,
          "the columns samples/s and throughput_per_s mean the same");
    write_scenario_of(KNOWN TRUE_OP TRUE_DISPATCH, "mode = none, average\ninterval = 1, 16\n");
    fails("workers,batch,sync,throughput_per_s\n1,16,ps,5\n", "per_worker_ns", DL_ERR_NAME,
          "no point of the scenario has sync = ps, but none, average:");
    fails("workers,batch,mode,interval,throughput_per_s\n4,16,average,8,5\n", "per_worker_ns",
          DL_ERR_NAME, "no point of the scenario has interval = 8, but 1, 16:");
    fails("workers,batch,sync,throughput_per_s\n4,16,average,5\n", "per_worker_ns", DL_ERR_DATA,
          "several points of the scenario have these keys: give also interval");
}

/* Two rows of a point give 1000 samples per second and a third one 1300: two against one are not
 * enough, so no row has less weight or is an outlier. Among nine rows, eight of which agree, it is
 * an outlier. */
static void test_three_rows_do_not_judge(void **state DL_UNUSED)
{
    for (int agree = 2; agree <= 8; agree += 6) {
        char text[512] = "workers,batch,throughput_per_s\n";
        for (int i = 0; i < agree; i++)
            strcat(text, i % 2 == 0 ? "1,16,1000\n" : "1,16,1002\n");
        strcat(text, "1,16,1300\n");
        fixture_write("table_three.csv", text);
        write_scenario(KNOWN TRUE_OP TRUE_DISPATCH);
        DL_SCOPED(dl_table_fit) fit;
        run(&fit, "table_three.csv", "op network.forward.fixed_ns");
        const dl_table_residual *last = &fit.parts->residuals[agree];
        assert_true(last->unexplained == (agree == 8));
        assert_true(agree == 8 ? last->weight == 0 : last->weight == 1);
        assert_true(has_note(&fit, "more than 4.5 robust sigmas") == (agree == 8));
        /* Runs scatter by 0.26 in one of nine, with eight degrees of freedom; two tell nothing. */
        const dl_value *scatter = &fit.parts->costs.run_spread_frac;
        assert_true(scatter->known == (agree == 8));
        if (scatter->known) {
            assert_near(scatter->value, log(1300 / 1001.0) / sqrt(8), 0.001);
            assert_near(scatter->error, scatter->value / 4, 1e-12);
        }
    }
}

/* The report fits into 80 columns and JSON has the same content. */
static void test_reports(void **state DL_UNUSED)
{
    make_table("table_report.csv", 0.02, "4,64,error,broke\n");
    write_scenario(KNOWN);
    DL_SCOPED(dl_table_fit) fit;
    run(&fit, "table_report.csv", NULL);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_table_report_print(&fit, out);
    fclose(out);
    assert_contains(text, "[op network.*] per_sample_ns");
    assert_contains(text, "leave-one-out error over 9 rows: mean ");
    assert_contains(text, " error\n");
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    free(text);
    dl_error err = {0};
    assert_int_equal(dl_table_report_json_write(&fit, "table_report.json", &err), DL_OK);
    assert_int_equal(dl_file_read("table_report.json", &text, &bytes, &err), DL_OK);
    assert_contains(text, "\"name\":\"[dispatch] serial_ns\"");
    assert_contains(text, "\"leave_one_out\":{\"rows\":9");
    assert_contains(text, "\"measured_per_s\":null");
    free(text);
    assert_int_equal(dl_table_report_json_write(&fit, "no/such/folder.json", &err), DL_ERR_IO);
}

static void test_bad_tables(void **state DL_UNUSED)
{
    write_scenario(KNOWN);
    fails("workers,batch,speed\n1,64,3\n", NULL, DL_ERR_NAME, "unknown column 'speed'");
    fails("workers,step_s\n1,0.1\n", NULL, DL_ERR_DATA, "workers (or gpus) or placement");
    fails("workers,batch,step_s\n1,64,\n", NULL, DL_ERR_DATA, "neither");
    fails("workers,batch,step_s\n1,64,-1\n", NULL, DL_ERR_RANGE, "greater than 0");
    fails("workers,batch,step_s\n1,64,x\n", NULL, DL_ERR_PARSE, "x");
    fails("workers,batch,step_s\n1.5,64,1\n", NULL, DL_ERR_RANGE, "whole numbers");
    fails("workers,batch,step_s\n4,3,1\n", NULL, DL_ERR_RANGE, "fewer samples");
    fails("workers,batch,step_s\n9,64,1\n", NULL, DL_ERR_RANGE, "9 workers, but at most 8");
    fails("workers,batch,sync,step_s\n1,64,async,1\n", NULL, DL_ERR_NAME, "no point");
    fails("workers,batch,step_s\n1,64,error\n", NULL, DL_ERR_DATA, "no row has");
    fails("workers,batch,step_s\n1,64,1\n", NULL, DL_ERR_DATA, "1 rows cannot determine 4 costs");
}

static void test_bad_names(void **state DL_UNUSED)
{
    const char *table = "workers,batch,step_s\n1,64,1\n1,32,0.6\n";
    write_scenario(KNOWN TRUE_OP TRUE_DISPATCH);
    fails(table, NULL, DL_ERR_DATA, "has all costs");
    fails(table, "serial", DL_ERR_USAGE, "no cost 'serial'");
    fails(table, "op network.buckets.fixed_ns", DL_ERR_USAGE, "no cost 'op network.buckets");
    fails(table, "op network.bucket.fixed_ns", DL_ERR_DATA,
          "lacks op network.bucket.per_sample_ns, which is not to be fitted");
    fails(table, "latency_ns", DL_ERR_USAGE, "several sections have 'latency_ns'");
    fails(table, "serial_ns, [dispatch] serial_ns", DL_ERR_USAGE, "is given twice");
    write_scenario_of("[costs]\nschema = 1\n" TRUE_OP TRUE_DISPATCH, "mode = ps\nwhere = gpu:0\n");
    fails(table, NULL, DL_ERR_DATA, "lacks costs.parameter_bytes, which no table");
}

/* Costs that are neither in the file nor fitted have dlsim's assumed values. */
static void what_is_not_fitted_is_assumed(void **state DL_UNUSED)
{
    DL_SCOPED(dl_table_fit) fit;
    fixture_write("table_two.csv", "workers,batch,step_s\n1,64,1\n1,32,0.6\n");
    write_scenario(KNOWN TRUE_OP);
    run(&fit, "table_two.csv", "serial_ns");
    assert_true(fit.parts->costs.dispatch.per_worker_ns.known);
    assert_true(has_note(&fit, "assumed [dispatch] per_worker_ns = "));
    unlink("table_two.csv");
}

/* Residuals 0.1, 0.2 .. 0.5. A fit of p costs can make p - 1 of them small, so the median is that
 * of the others: of at least one, and of all if there are fewer rows than costs. */
static void sigma_leaves_out_what_the_costs_make_small(void **state DL_UNUSED)
{
    enum { ROWS = 5 };
    dl_table_row made[ROWS] = {0};
    bool use[ROWS];
    double per_s[ROWS];
    for (int i = 0; i < ROWS; i++) {
        made[i] = (dl_table_row){.point = {.batch = 8},
                                 .batch = 8,
                                 .throughput_per_s =
                                     100 * exp(i % 2 == 0 ? 0.1 * (i + 1) : -0.1 * (i + 1))};
        use[i] = true;
        per_s[i] = 100;
    }
    dl_table_model_row rows[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        rows[i] = (dl_table_model_row){.row = &made[i], .point = i};
    const double medians[] = {0.3, 0.3, 0.35, 0.4, 0.45, 0.5, 0.3};
    for (size_t costs = 0; costs < sizeof medians / sizeof *medians; costs++) {
        dl_value values[ROWS + 1];
        dl_table_costs unknown = {.count = costs};
        dl_table_model model = {
            .rows = rows, .row_count = ROWS, .unknown = &unknown, .use = use, .per_s = per_s};
        for (size_t j = 0; j < costs; j++) {
            unknown.items[j].value[0] = &values[j];
            model.active[j] = true;
        }
        assert_true(fabs(dl_table_sigma(&model, 0) - 1.4826 * medians[costs]) < 1e-12);
    }
}

int main(void)
{
    gsl_set_error_handler_off();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sigma_leaves_out_what_the_costs_make_small),
        cmocka_unit_test(test_costs_are_recovered),
        cmocka_unit_test(test_few_runs_are_needed),
        cmocka_unit_test(test_noise_gives_errors),
        cmocka_unit_test(test_undetermined_is_left_out),
        cmocka_unit_test(test_confused_costs_are_named),
        cmocka_unit_test(test_as_many_rows_as_costs_are_fitted),
        cmocka_unit_test(test_rates_are_fitted),
        cmocka_unit_test(test_undetermined_rate_keeps_its_value),
        cmocka_unit_test(test_machine_numbers_are_fitted),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_rows_are_judged),
        cmocka_unit_test(test_the_scenario_may_give_the_batch),
        cmocka_unit_test(test_columns_have_synonyms),
        cmocka_unit_test(test_three_rows_do_not_judge),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_bad_tables),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(what_is_not_fitted_is_assumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
