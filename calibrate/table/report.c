#include "calibrate/table/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/notes.h"
#include "calibrate/table/collinearity.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "common/rows.h"
#include "common/units.h"

#define DL_TABLE_VALUE_BYTES 48

/* Above this relative standard error, only the cost's magnitude is known. */
#define VAGUE_FRAC 0.5

/* Formats a cost with the unit implied by its name: "1.82 ms", "9.1 GB/s", "1.04"; returns text. */
static const char *table_value_text(char text[DL_TABLE_VALUE_BYTES], const char *name, double value)
{
    const char *key = strrchr(name, ' ');
    key = key != NULL ? key + 1 : name;
    if (strstr(key, "_per_s") != NULL && strstr(key, "per_sample") == NULL) {
        dl_format_bytes(text, DL_TABLE_VALUE_BYTES - 2, value);
        return strcat(text, "/s");
    }
    if (strstr(key, "_ns") != NULL) return dl_format_ns(text, DL_TABLE_VALUE_BYTES, value);
    if (strstr(key, "bytes") != NULL) return dl_format_bytes(text, DL_TABLE_VALUE_BYTES, value);
    snprintf(text, DL_TABLE_VALUE_BYTES, "%.3g", value);
    return text;
}

/* Returns the scenario's name if there are several parts; otherwise "". */
static const char *label(const dl_table_fit *fit, size_t part)
{
    return fit->part_count > 1 ? dl_base_name(fit->parts[part].scenario.path) : "";
}

/* Adds a part's note to the notes of the fit, after the part's name. */
static void name_note(dl_table_fit *fit, size_t part, const char *text)
{
    const char *name = label(fit, part);
    dl_notes_add(&fit->notes, "%s%s%s", name, name[0] != '\0' ? ": " : "", text);
}

/* Adds a note to the part's notes and, after the part's name, to the notes of the fit. */
static void DL_PRINTF(3, 4) add_note(dl_table_fit *fit, size_t part, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *text = dl_vformat(format, args);
    va_end(args);
    dl_notes_add(&fit->parts[part].notes, "%s", text);
    name_note(fit, part, text);
}

/* Adds a note to all parts and to the fit. */
static void note_all(dl_table_fit *fit, char *text)
{
    for (size_t p = 0; p < fit->part_count; p++)
        dl_notes_add(&fit->parts[p].notes, "%s", text);
    dl_notes_add(&fit->notes, "%s", text);
    free(text);
}

/* Describes rows that might determine the cost, as it would be a larger share of their steps. */
static const char *rows_for(const dl_table_cost *cost)
{
    return strstr(cost->name, "per_sample") != NULL ? "larger batches"
                                                    : "more workers or smaller batches";
}

/* Describes the treatment of a cost that the rows do not determine. The caller frees the text. */
static char *undetermined_text(const dl_table_cost *cost, const dl_table_estimate *e)
{
    char bound[DL_TABLE_VALUE_BYTES], was[DL_TABLE_VALUE_BYTES];
    DL_AUTOFREE char *say =
        isnan(e->bound) ? dl_format("no row depends on it")
                        : dl_format("they only say %s %s", e->at_most ? "at most" : "at least",
                                    table_value_text(bound, cost->name, e->bound));
    const char *of = cost->before.known ? "cost" : "machine";
    table_value_text(was, cost->name, cost->was);
    DL_AUTOFREE char *held = e->kept           ? dl_format("%s of the %s file stays", was, of)
                             : isnan(e->bound) ? dl_format("left out of the cost file")
                             : !cost->was_known
                                 ? dl_format("the cost file has these bounds")
                                 : dl_format("the cost file has these bounds, as the %s of the "
                                             "%s file contradicts them",
                                             was, of);
    return dl_format("%s: not determined by these rows, %s; %s; rows with %s might determine it",
                     cost->name, say, held, rows_for(cost));
}

static void note_cost(dl_table_fit *fit, size_t j)
{
    const dl_table_estimate *e = &fit->estimates[j];
    const dl_table_cost *cost = &fit->unknown.items[j];
    char *text = NULL;
    if (!e->determined) {
        text = undetermined_text(cost, e);
    } else if (e->confused == 0 && e->error > VAGUE_FRAC * e->value) {
        text = dl_format("%s: hardly determined, its standard error is %.0f %%", cost->name,
                         100 * e->error / e->value);
    }
    if (text == NULL) return;
    if (cost->shared) {
        note_all(fit, text);
    } else {
        add_note(fit, cost->part, "%s", text);
        free(text);
    }
}

/* Notes costs that are the sum of two passes. */
static void note_passes(dl_table_fit *fit)
{
    for (size_t p = 0; p < fit->part_count; p++) {
        bool joined = false;
        for (size_t j = 0; j < fit->unknown.count; j++)
            joined |= fit->unknown.items[j].rest[p] != NULL;
        if (!joined) continue;
        add_note(fit, p,
                 "[op network.*] is the sum of [op network.forward] and [op network.backward], of "
                 "which a third is taken for the forward pass: assumed");
    }
}

/* Notes each group of costs that the rows do not distinguish. */
static void note_groups(dl_table_fit *fit)
{
    for (int group = 1;; group++) {
        DL_AUTOFREE char *members = NULL;
        bool further = false;
        for (size_t j = 0; j < fit->unknown.count; j++) {
            const int own = fit->estimates[j].confused;
            const dl_table_cost *cost = &fit->unknown.items[j];
            further |= own > group;
            if (own != group) continue;
            const char *of = cost->shared ? "" : label(fit, cost->part);
            dl_join_format(&members, ", ", "%s%s%s", of, of[0] != '\0' ? " " : "", cost->name);
        }
        if (members != NULL) {
            note_all(fit, dl_format("%s: the rows do not distinguish them (condition number %.0f); "
                                    "only their combination is meaningful",
                                    members, fit->condition));
        }
        if (!further) return;
    }
}

static void note_row(dl_table_fit *fit, size_t p, size_t i)
{
    const dl_table_part *part = &fit->parts[p];
    const dl_table_row *row = &part->rows.rows[i];
    char point[DL_POINT_TEXT_BYTES];
    dl_point_text(point, sizeof point, &row->point);
    if (row->failed) {
        add_note(fit, p, "line %d (%s): an error in the source, not used", row->line, point);
        return;
    }
    const dl_table_residual *residual = &part->residuals[i];
    const double sigma = part->quality.sigma_frac;
    if (!(fabs(log1p(residual->error_frac)) > DL_TABLE_OUTLIER * sigma)) return;
    DL_AUTOFREE char *why =
        residual->unexplained
            ? dl_format("more than %.2g robust sigmas (%.1f %% each)", part->quality.outlier_sigmas,
                        100 * sigma)
            : dl_format("%.2g robust sigmas (%.1f %% each), which so few rows do not "
                        "distinguish from chance",
                        fabs(log1p(residual->error_frac)) / sigma, 100 * sigma);
    add_note(fit, p, "line %d (%s): %+.1f %% off, %s; its weight is %.2f", row->line, point,
             100 * residual->error_frac, why, residual->weight);
}

/* Notes rows whose batch the workers cannot share evenly. */
static void note_shares(dl_table_fit *fit, size_t p)
{
    const dl_table_rows *rows = &fit->parts[p].rows;
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++)
        count += !rows->rows[i].failed && rows->rows[i].batch != rows->rows[i].point.batch;
    if (count == 0) return;
    add_note(fit, p,
             "%zu row%s with a batch that the workers cannot share evenly: simulated with the "
             "largest share for all",
             count, count > 1 ? "s" : "");
}

/* Ratio of fitted to measured throughputs, or its inverse, from which on units may be wrong. */
#define UNITS_FACTOR 10

/* Notes rows of which most are far off in one direction. */
static void note_units(dl_table_fit *fit, size_t p)
{
    const dl_table_part *part = &fit->parts[p];
    size_t off[2] = {0}, used = 0;
    for (size_t i = 0; i < part->rows.count; i++) {
        const double ratio = 1 + part->residuals[i].error_frac;
        if (part->rows.rows[i].failed) continue;
        used++;
        off[0] += ratio > UNITS_FACTOR;
        off[1] += ratio < 1.0 / UNITS_FACTOR;
    }
    if (2 * off[0] <= used && 2 * off[1] <= used) return;
    add_note(
        fit, p,
        "%zu of %zu rows are more than %d times too %s for these costs: is throughput_per_s "
        "in samples (not tokens) of all workers, step_s in seconds, the network the right one?",
        off[0] > off[1] ? off[0] : off[1], used, UNITS_FACTOR, off[0] > off[1] ? "slow" : "fast");
}

static void note_proposal(dl_table_fit *fit)
{
    const dl_table_proposal *p = &fit->proposal;
    char value[DL_TABLE_VALUE_BYTES];
    if (p->name == NULL) return;
    add_note(fit, 0,
             "steps grow with the GPUs of a node: with %s of about %s the rows would be off by "
             "%.1f %% (root mean square), not by %.1f %%; add %s to --fit",
             p->name, table_value_text(value, p->name, p->value), 100 * p->rms_frac,
             100 * p->rms_without_frac, strrchr(p->name, ' ') + 1);
}

void dl_table_notes_add(dl_table_fit *fit)
{
    for (size_t p = 0; p < fit->part_count; p++) {
        for (size_t i = 0; i < fit->parts[p].notes.count; i++)
            name_note(fit, p, fit->parts[p].notes.lines[i]);
    }
    for (size_t j = 0; j < fit->unknown.count; j++)
        note_cost(fit, j);
    note_groups(fit);
    note_passes(fit);
    note_proposal(fit);
    if (fit->quality.used == fit->determined) {
        note_all(fit, dl_format("as many rows as costs: their errors are unknown"));
    }
    for (size_t p = 0; p < fit->part_count; p++) {
        const dl_table_quality *quality = &fit->parts[p].quality;
        for (size_t i = 0; i < fit->parts[p].rows.count; i++)
            note_row(fit, p, i);
        note_shares(fit, p);
        note_units(fit, p);
        if (quality->left_out_count == quality->used) continue;
        add_note(fit, p,
                 "%zu of %zu rows cannot be left out: without them the others do not determine "
                 "all costs",
                 quality->used - quality->left_out_count, quality->used);
    }
}

/* Adds each source once, in the order of the rows. */
static void add_sources(dl_notes *from, const dl_table_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        size_t before = 0;
        while (before < i && strcmp(rows->rows[before].source, rows->rows[i].source) != 0)
            before++;
        if (before < i || rows->rows[i].source[0] == '\0') continue;
        dl_notes_add(from, "  source: %s", rows->rows[i].source);
    }
}

/* Adds "  and, with it and b.csv, c.csv together, [network] bytes_per_s, ...". */
static void add_shared(dl_notes *from, const dl_table_fit *fit, size_t part)
{
    DL_AUTOFREE char *tables = NULL, *costs = NULL;
    for (size_t p = 0; p < fit->part_count; p++) {
        if (p != part) dl_join(&tables, ", ", dl_base_name(fit->parts[p].rows.path));
    }
    for (size_t j = 0; j < fit->unknown.count; j++) {
        if (fit->unknown.items[j].shared) dl_join(&costs, ", ", fit->unknown.items[j].name);
    }
    if (tables != NULL && costs != NULL) {
        dl_notes_add(from, "  and, with it and %s together, %s", tables, costs);
    }
}

dl_status dl_table_fit_write(const dl_table_fit *fit, size_t part, const char *path, dl_error *err)
{
    char date[DL_DATE_BYTES];
    DL_SCOPED(dl_notes) from = {0};
    const dl_table_part *of = &fit->parts[part];
    const dl_table_rows *rows = &of->rows;
    dl_notes_add(&from, "dlcal %s, %s: fitted through the simulator to", dl_version(),
                 dl_date_text(date));
    dl_notes_add(&from, "  %zu rows of %s, lines %d to %d, scenario %s", rows->used,
                 dl_base_name(rows->path), rows->rows[0].line, rows->rows[rows->count - 1].line,
                 dl_base_name(of->scenario.path));
    add_shared(&from, fit, part);
    add_sources(&from, rows);
    dl_notes_add(&from,
                 "Residuals: root mean square %.1f %%; left out: mean %.1f %%, largest %.1f %%",
                 100 * of->quality.rms_frac, 100 * of->quality.left_out_mean_frac,
                 100 * of->quality.left_out_max_frac);
    return dl_cost_file_write(&of->costs, path, &from, &of->notes, err);
}

#define COST(bound)                                                                        \
    "name|cost=%-s determined|=%hhd value|=%g |value=%s error|=%g |error %%=%.1f%% " bound \
    "|=%g effect=%.3f confused_group|=%d"

/* Adds a part's costs, or the shared ones if `part` is part_count; with a single part, all
 * costs. */
static void put_costs(const dl_table_fit *fit, size_t part, const char *title, dl_rows *to)
{
    dl_rows_begin(to, "costs", title);
    for (size_t j = 0; j < fit->unknown.count; j++) {
        const dl_table_estimate *e = &fit->estimates[j];
        const dl_table_cost *cost = &fit->unknown.items[j];
        char value[DL_TABLE_VALUE_BYTES];
        if (fit->part_count > 1 && part != (cost->shared ? fit->part_count : cost->part)) continue;
        dl_rows_add(to, e->at_most ? COST("at_most") : COST("at_least"), cost->name, e->determined,
                    e->value,
                    e->determined ? table_value_text(value, cost->name, e->value)
                                  : "not determined",
                    e->error, e->error / e->value, e->bound, e->effect, e->confused);
    }
    dl_rows_end(to, 0);
}

#define COSTS_LEGEND                                                                 \
    "costs; error: standard error; effect: change of the step's time over that of\n" \
    "the cost, root mean square over the rows"

static void print_costs(const dl_table_fit *fit, FILE *out)
{
    dl_rows to = {.out = out, .indent = 2};
    if (fit->part_count == 1) {
        put_costs(fit, 0, COSTS_LEGEND, &to);
    } else {
        put_costs(fit, fit->part_count, "shared " COSTS_LEGEND, &to);
    }
    for (size_t p = 0; p < fit->part_count && fit->part_count > 1; p++) {
        DL_AUTOFREE char *title = dl_format("costs of %s", label(fit, p));
        put_costs(fit, p, title, &(dl_rows){.out = out, .indent = 2});
    }
    for (size_t j = 0; j < fit->unknown.count && fit->part_count == 1; j++) {
        const dl_table_cost *cost = &fit->unknown.items[j];
        const dl_table_estimate *e = &fit->estimates[j];
        if (!e->determined || !cost->was_known) continue;
        fprintf(out, "  %-38.38s %+.1f %% of the %s file's %.6g\n", cost->name,
                100 * (e->value / cost->was - 1), cost->before.known ? "cost" : "machine",
                cost->was);
    }
    if (fit->determined == 0) return;
    fprintf(out, "condition number %.3g (from %.0f on, costs are hard to distinguish)\n",
            fit->condition, DL_COLLINEARITY_CONDITION);
}

static void put_rows(const dl_table_part *part, const char *title, dl_rows *to)
{
    dl_rows_begin(to, "rows", title);
    for (size_t i = 0; i < part->rows.count; i++) {
        const dl_table_row *row = &part->rows.rows[i];
        const dl_table_residual *residual = &part->residuals[i];
        char options[DL_POINT_TEXT_BYTES];
        dl_rows_add(to,
                    "line=%d workers=%d batch=%lld sync=%-s options=%-s failed|=%hhd "
                    "measured_per_s|measured/s=%.1f fitted_per_s|fitted/s=%.1f "
                    "error_frac|off %%=%+.1f%% left_out_error_frac|out %%=%+.1f%% weight=%.2f "
                    "unexplained|=%hhd source|=%s |=%-s",
                    row->line, row->point.workers, (long long)row->batch,
                    dl_point_mode(&row->point),
                    dl_point_options(options, sizeof options, &row->point), row->failed,
                    row->throughput_per_s, residual->fitted_per_s, residual->error_frac,
                    residual->left_out_frac, residual->weight, residual->unexplained, row->source,
                    row->failed             ? "error"
                    : residual->unexplained ? "*"
                                            : "");
    }
    dl_rows_end(to, 0);
}

static void print_left_out(const dl_table_quality *quality, FILE *out)
{
    if (quality->left_out_count > 0) {
        fprintf(out, "leave-one-out error over %zu rows: mean %.2f %%, largest %.2f %%\n",
                quality->left_out_count, 100 * quality->left_out_mean_frac,
                100 * quality->left_out_max_frac);
    } else {
        fprintf(out, "leave-one-out error: none, every row is needed\n");
    }
}

static void print_rows(const dl_table_fit *fit, size_t part, FILE *out)
{
    const dl_table_quality *quality = &fit->parts[part].quality;
    const char *name = label(fit, part);
    DL_AUTOFREE char *title =
        dl_format("rows%s%s; off: fitted over measured - 1; out: the same without the "
                  "row's point",
                  name[0] != '\0' ? " of " : "", name);
    put_rows(&fit->parts[part], title, &(dl_rows){.out = out});
    fprintf(out, "root mean square %.2f %%, robust sigma %.2f %%; ", 100 * quality->rms_frac,
            100 * quality->sigma_frac);
    if (isinf(quality->outlier_sigmas)) {
        fputs("too few rows to find outliers\n", out);
    } else {
        fprintf(out, "* beyond %.2g of these\n", quality->outlier_sigmas);
    }
    print_left_out(quality, out);
}

void dl_table_report_print(const dl_table_fit *fit, FILE *out)
{
    const bool several = fit->part_count > 1;
    fprintf(out, "dlcal %s: %zu costs from %zu rows of ", dl_version(), fit->unknown.count,
            fit->quality.used);
    if (several) fprintf(out, "%zu tables\n", fit->part_count);
    if (!several) fprintf(out, "%.32s\n", dl_base_name(fit->parts->rows.path));
    print_costs(fit, out);
    for (size_t p = 0; p < fit->part_count; p++)
        print_rows(fit, p, out);
    if (several) {
        fprintf(out, "\nall rows: root mean square %.2f %%, ", 100 * fit->quality.rms_frac);
        print_left_out(&fit->quality, out);
    }
    dl_notes_print(&fit->notes, "\nnotes\n", "  - ", out);
}

static void write_quality(dl_json *to, const dl_table_quality *quality)
{
    dl_json_members(to, "rms_frac=%g sigma_frac=%g", quality->rms_frac, quality->sigma_frac);
    dl_json_object(to, "leave_one_out", "rows=%g mean_frac=%g max_frac=%g",
                   (double)quality->left_out_count, quality->left_out_mean_frac,
                   quality->left_out_max_frac);
}

static void write_names(dl_json *to, const dl_table_part *part)
{
    dl_json_members(to, "table=%s scenario=%s", dl_base_name(part->rows.path),
                    dl_base_name(part->scenario.path));
}

/* Writes the costs, rows and errors of each of several parts. */
static void write_parts(dl_json *to, const dl_table_fit *fit)
{
    DL_JSON_LIST (to, "tables", p, fit->part_count) {
        dl_json_begin(to, NULL, '{');
        write_names(to, &fit->parts[p]);
        put_costs(fit, p, NULL, &(dl_rows){.json = to});
        put_rows(&fit->parts[p], NULL, &(dl_rows){.json = to});
        write_quality(to, &fit->parts[p].quality);
        dl_json_end(to, '}');
    }
}

static void write_members(dl_json *to, const void *report)
{
    const dl_table_fit *fit = report;
    const bool several = fit->part_count > 1;
    if (!several) write_names(to, fit->parts);
    put_costs(fit, fit->part_count, NULL, &(dl_rows){.json = to});
    dl_json_number_item(to, "condition", fit->determined > 0 ? fit->condition : (double)NAN);
    DL_JSON_LIST (to, "singular_values", k, fit->determined)
        dl_json_number_item(to, NULL, fit->singular_values[k]);
    if (several) write_parts(to, fit);
    if (!several) put_rows(fit->parts, NULL, &(dl_rows){.json = to});
    write_quality(to, &fit->quality);
    dl_json_number_item(to, "runs", (double)fit->runs);
}

dl_status dl_table_report_json_write(const dl_table_fit *fit, const char *path, dl_error *err)
{
    return dl_json_report_write(path, write_members, fit, &fit->notes, err);
}

dl_status dl_table_report_rows_write(const dl_table_part *part, const char *path, dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_csv_writer csv = {.out = output.out};
    dl_rows to = {.csv = &csv};
    for (size_t i = 0; i < part->rows.count; i++) {
        const dl_table_row *row = &part->rows.rows[i];
        const dl_table_residual *residual = &part->residuals[i];
        if (row->failed) continue;
        dl_rows_add(&to,
                    "line=%d workers=%d batch=%lld sync=%s measured_per_s=%g fitted_per_s=%g "
                    "error_frac=%g left_out_error_frac=%g",
                    row->line, row->point.workers, (long long)row->batch,
                    dl_point_mode(&row->point), row->throughput_per_s, residual->fitted_per_s,
                    residual->error_frac, residual->left_out_frac);
    }
    return dl_output_close(&output, err);
}
