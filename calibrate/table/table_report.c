#include "calibrate/table/table_report.h"

#include <math.h>

#include "calibrate/dataset.h"
#include "calibrate/json_report.h"
#include "calibrate/table/collinearity.h"
#include "calibrate/table/table_notes.h"
#include "common/options.h"

static void print_costs(const dl_table_fit *fit, FILE *out)
{
    fprintf(out, "\ncosts; error: standard error; effect: change of the step's time over that of\n"
                 "the cost, root mean square over the rows\n");
    fprintf(out, "  %-38s %13s %10s %8s\n", "", "value", "error [%]", "effect");
    for (size_t j = 0; j < fit->unknown.count; j++) {
        const dl_table_estimate *e = &fit->estimates[j];
        const char *name = fit->unknown.items[j].name;
        char value[DL_TABLE_VALUE_BYTES];
        if (e->determined) {
            fprintf(out, "  %-38.38s %13s", name, dl_table_value_text(value, name, e->value));
            if (isnan(e->error)) {
                fprintf(out, " %10s", "-");
            } else {
                fprintf(out, " %10.1f", 100 * e->error / e->value);
            }
            fprintf(out, " %8.3f\n", e->effect);
        } else {
            fprintf(out, "  %-38.38s %13s\n", name, "not determined");
        }
    }
    if (fit->determined == 0) return;
    fprintf(out, "condition number %.3g (from %.0f on, costs are hard to tell apart)\n",
            fit->condition, DL_COLLINEARITY_CONDITION);
}

static void print_percent(double frac, FILE *out)
{
    if (isnan(frac)) {
        fprintf(out, " %7s", "-");
    } else {
        fprintf(out, " %+7.1f", 100 * frac);
    }
}

static void print_row(const dl_table_row *row, const dl_table_residual *residual, FILE *out)
{
    char options[DL_POINT_TEXT_BYTES], sync[DL_POINT_TEXT_BYTES + 32];
    dl_point_options(options, sizeof options, &row->point);
    snprintf(sync, sizeof sync, "%s%s%s", row->point.mode->name, options[0] != '\0' ? " " : "",
             options);
    fprintf(out, "%c%5d %7d %6lld %-12.12s", residual->unexplained ? '*' : ' ', row->line,
            row->point.workers, (long long)row->batch, sync);
    if (row->failed) {
        fprintf(out, " %10s\n", "error");
        return;
    }
    fprintf(out, " %10.1f %10.1f", row->throughput_per_s, residual->fitted_per_s);
    print_percent(residual->error_frac, out);
    print_percent(residual->left_out_frac, out);
    fprintf(out, " %6.2f\n", residual->weight);
}

static void print_rows(const dl_table_fit *fit, FILE *out)
{
    fprintf(out, "\nrows; off: fitted over measured - 1; out: the same without the row's point\n");
    fprintf(out, "%6s %7s %6s %-12s %10s %10s %7s %7s %6s\n", "line", "workers", "batch", "sync",
            "measured/s", "fitted/s", "off [%]", "out [%]", "weight");
    for (size_t i = 0; i < fit->rows.count; i++)
        print_row(&fit->rows.rows[i], &fit->residuals[i], out);
    fprintf(out, "root mean square %.2f %%, robust sigma %.2f %%; * beyond %.0f of these\n",
            100 * fit->rms_frac, 100 * fit->sigma_frac, DL_TABLE_OUTLIER);
    if (fit->left_out_count > 0) {
        fprintf(out, "leave-one-out error over %zu rows: mean %.2f %%, largest %.2f %%\n",
                fit->left_out_count, 100 * fit->left_out_mean_frac, 100 * fit->left_out_max_frac);
    } else {
        fprintf(out, "leave-one-out error: none, every row is needed\n");
    }
}

void dl_table_report_print(const dl_table_fit *fit, FILE *out)
{
    fprintf(out, "dlcal %s: %zu costs from %zu rows of %.32s\n", dl_version(), fit->unknown.count,
            fit->rows.used, dl_base_name(fit->rows.path));
    print_costs(fit, out);
    print_rows(fit, out);
    if (fit->notes.count > 0) fprintf(out, "\nnotes\n");
    dl_notes_print(&fit->notes, out);
}

static void json_costs(dl_json *to, const dl_table_fit *fit)
{
    dl_json_begin(to, "costs", '[');
    for (size_t j = 0; j < fit->unknown.count; j++) {
        const dl_table_estimate *e = &fit->estimates[j];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "name", fit->unknown.items[j].name);
        dl_json_bool_item(to, "determined", e->determined);
        dl_json_number_item(to, "value", e->value);
        dl_json_number_item(to, "error", e->error);
        dl_json_number_item(to, e->at_most ? "at_most" : "at_least", e->bound);
        dl_json_number_item(to, "effect", e->effect);
        dl_json_number_item(to, "confused_group", e->confused);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
    dl_json_number_item(to, "condition", fit->determined > 0 ? fit->condition : (double)NAN);
    dl_json_begin(to, "singular_values", '[');
    for (size_t k = 0; k < fit->determined; k++)
        dl_json_number_item(to, NULL, fit->singular_values[k]);
    dl_json_end(to, ']');
}

static void json_rows(dl_json *to, const dl_table_fit *fit)
{
    dl_json_begin(to, "rows", '[');
    for (size_t i = 0; i < fit->rows.count; i++) {
        const dl_table_row *row = &fit->rows.rows[i];
        const dl_table_residual *residual = &fit->residuals[i];
        char options[DL_POINT_TEXT_BYTES];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "line", row->line);
        dl_json_number_item(to, "workers", row->point.workers);
        dl_json_number_item(to, "batch", (double)row->batch);
        dl_json_text_item(to, "sync", row->point.mode->name);
        dl_json_text_item(to, "options", dl_point_options(options, sizeof options, &row->point));
        dl_json_bool_item(to, "failed", row->failed);
        dl_json_number_item(to, "measured_per_s", row->throughput_per_s);
        dl_json_number_item(to, "fitted_per_s", residual->fitted_per_s);
        dl_json_number_item(to, "error_frac", residual->error_frac);
        dl_json_number_item(to, "left_out_error_frac", residual->left_out_frac);
        dl_json_number_item(to, "weight", residual->weight);
        dl_json_bool_item(to, "unexplained", residual->unexplained);
        dl_json_text_item(to, "source", row->source);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_members(dl_json *to, const void *report)
{
    const dl_table_fit *fit = report;
    dl_json_text_item(to, "table", dl_base_name(fit->rows.path));
    dl_json_text_item(to, "scenario", dl_base_name(fit->scenario.path));
    json_costs(to, fit);
    json_rows(to, fit);
    dl_json_number_item(to, "rms_frac", fit->rms_frac);
    dl_json_number_item(to, "sigma_frac", fit->sigma_frac);
    dl_json_begin(to, "leave_one_out", '{');
    dl_json_number_item(to, "rows", (double)fit->left_out_count);
    dl_json_number_item(to, "mean_frac", fit->left_out_mean_frac);
    dl_json_number_item(to, "max_frac", fit->left_out_max_frac);
    dl_json_end(to, '}');
    dl_json_number_item(to, "runs", (double)fit->runs);
}

dl_status dl_table_report_json_write(const dl_table_fit *fit, const char *path, dl_error *err)
{
    return dl_json_report_write(path, write_members, fit, &fit->notes, err);
}
