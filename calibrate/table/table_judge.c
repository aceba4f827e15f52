#include "calibrate/table/table_judge.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "calibrate/table/table_simulate.h"
#include "common/alloc.h"

static dl_status read_all(dl_table_judgement *j, const dl_table_fit *fit,
                          const dl_table_fit_config *config, const char *path, dl_error *err)
{
    dl_status status;
    if ((status = dl_table_scenario_read(&j->scenario, config->scenario_path, err)) ||
        (status = dl_scenario_set_measured_cores(&j->scenario, fit->costs.cores, err)) ||
        (status = dl_table_rows_read(&j->rows, path, &j->scenario, err))) {
        return status;
    }
    for (int m = 0; m < DL_TABLE_METHODS; m++) {
        j->off[m] = dl_calloc(j->rows.count, sizeof *j->off[m], "errors of predictions");
        for (size_t i = 0; i < j->rows.count; i++)
            j->off[m][i] = (double)NAN;
    }
    return DL_OK;
}

static dl_status simulate(dl_table_judgement *j, const dl_table_fit *fit, int threads,
                          dl_error *err)
{
    const size_t points = j->scenario.point_count;
    double *per_s = dl_calloc(points, sizeof *per_s, "throughputs");
    bool *wanted = dl_calloc(points, sizeof *wanted, "points to simulate");
    for (size_t p = 0; p < points; p++)
        wanted[p] = true;
    const dl_table_simulation simulation = {.scenario = &j->scenario,
                                            .costs = &fit->costs,
                                            .wanted = wanted,
                                            .steps = DL_TABLE_STEPS,
                                            .threads = threads};
    const dl_status status = dl_table_simulate(&simulation, per_s, err);
    for (size_t i = 0; i < j->rows.count && status == DL_OK; i++) {
        const dl_table_row *row = &j->rows.rows[i];
        if (row->failed) continue;
        const double own_per_s = per_s[row->at] * (double)row->batch / (double)row->point.batch;
        j->off[DL_TABLE_SIMULATOR][i] = row->throughput_per_s / own_per_s - 1;
    }
    free(wanted);
    free(per_s);
    return status;
}

static void predict_simply(dl_table_judgement *j, const dl_table_fit *fit)
{
    dl_table_shape *fitted =
        dl_calloc(fit->rows.used > 0 ? fit->rows.used : 1, sizeof *fitted, "fitted rows");
    for (size_t i = 0; i < fit->rows.count; i++) {
        if (fit->rows.rows[i].failed) continue;
        fitted[j->fitted_rows++] = dl_table_shape_of(&fit->rows.rows[i], &fit->scenario);
    }
    dl_table_pollux_fit(&j->form, fitted, j->fitted_rows);
    for (size_t i = 0; i < j->rows.count; i++) {
        const dl_table_row *row = &j->rows.rows[i];
        if (row->failed) continue;
        const dl_table_shape shape = dl_table_shape_of(row, &j->scenario);
        const double linear_s = dl_table_linear_step_s(fitted, j->fitted_rows, shape.batch);
        const double bytes_s =
            dl_table_bytes_s(row, &j->scenario, fmax(0, (double)fit->costs.parameter_bytes));
        j->off[DL_TABLE_LINEAR][i] = linear_s / shape.step_s - 1;
        j->off[DL_TABLE_BYTES][i] = (linear_s + bytes_s) / shape.step_s - 1;
        if (isnan(j->form.rms)) continue;
        j->off[DL_TABLE_POLLUX_FORM][i] =
            dl_table_pollux_step_s(&j->form, &shape) / shape.step_s - 1;
    }
    free(fitted);
}

static void summarise(dl_table_judgement *j, dl_table_method method)
{
    dl_table_errors *e = &j->errors[method];
    double *size = dl_calloc(j->rows.count, sizeof *size, "errors of predictions");
    *e = (dl_table_errors){0};
    double sum = 0, most = -1;
    for (size_t i = 0; i < j->rows.count; i++) {
        const double off = fabs(j->off[method][i]);
        if (isnan(off)) continue;
        size[e->rows++] = off;
        sum += off;
        if (off <= most) continue;
        most = off;
        e->max_line = j->rows.rows[i].line;
    }
    gsl_sort(size, 1, e->rows);
    const bool any = e->rows > 0;
    e->median_frac = any ? gsl_stats_median_from_sorted_data(size, 1, e->rows) : (double)NAN;
    e->mean_frac = any ? sum / (double)e->rows : (double)NAN;
    e->max_frac = any ? most : (double)NAN;
    free(size);
}

dl_status dl_table_judge(dl_table_judgement *judgement, const dl_table_fit *fit,
                         const dl_table_fit_config *config, const char *path, dl_error *err)
{
    dl_status status = read_all(judgement, fit, config, path, err);
    if (status == DL_OK) status = simulate(judgement, fit, config->threads, err);
    if (status != DL_OK) return status;
    predict_simply(judgement, fit);
    for (int m = 0; m < DL_TABLE_METHODS; m++)
        summarise(judgement, (dl_table_method)m);
    return DL_OK;
}

void dl_table_judgement_free(dl_table_judgement *judgement)
{
    dl_table_rows_free(&judgement->rows);
    dl_scenario_free(&judgement->scenario);
    for (int m = 0; m < DL_TABLE_METHODS; m++)
        free(judgement->off[m]);
    *judgement = (dl_table_judgement){0};
}

void dl_table_judgement_print(const dl_table_judgement *j, FILE *out)
{
    static const char *const names[DL_TABLE_METHODS] = {
        "simulator, costs as above", "(G^c + S^c)^(1/c), same rows", "one GPU + bytes / bandwidth",
        "one GPU, linear speedup"};
    fprintf(out,
            "\nprediction of %s; off: |predicted step / measured - 1|\n  %-30s %6s %10s %10s %10s  "
            "%s\n",
            j->rows.path, "", "rows", "median [%]", "mean [%]", "max [%]", "at line");
    for (int m = 0; m < DL_TABLE_METHODS; m++) {
        const dl_table_errors *e = &j->errors[m];
        if (e->rows == 0) {
            fprintf(out, "  %-30s %6s\n", names[m], "none");
            continue;
        }
        fprintf(out, "  %-30s %6zu %10.2f %10.2f %10.1f  %d\n", names[m], e->rows,
                100 * e->median_frac, 100 * e->mean_frac, 100 * e->max_frac, e->max_line);
    }
    if (isnan(j->form.rms)) return;
    const double *v = j->form.value;
    fprintf(out,
            "G = %.4g + %.4g b; S = %.4g + %.4g (n-2) on a node, %.4g + %.4g (n-2) on several; c = "
            "%.2f;\nroot mean square %.2f %% of %zu fitted rows\n",
            v[0], v[1], v[2], v[3], v[4], v[5], v[6], 100 * j->form.rms, j->fitted_rows);
}
