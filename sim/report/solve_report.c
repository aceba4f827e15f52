/* Tables, files and sentences of solutions. */
#include "sim/report/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/columns.h"
#include "common/csv.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/report/report.h"

/* Adds the columns of all solutions, in order of first appearance. */
static void add_names(dl_cell_table *table, const dl_solution *solution)
{
    for (size_t i = 0; i < solution->count; i++) {
        const dl_cell_table *own = &solution->all[i].table;
        for (size_t c = 0; c < own->columns; c++) {
            const char *const *names = (const char *const *)table->names;
            if (dl_names_find(own->names[c], names, table->columns) < 0)
                dl_cell_table_add_name(table, own->names[c]);
        }
    }
}

/* Returns the point as "4 workers, batch 32, average, lag 8", owned by the caller; with generators
 * only the swept keys. */
static char *point_of(const dl_solved *s)
{
    if (s->sync == NULL) return dl_strdup(s->options);
    return dl_format("%d worker%s, batch %lld, %s%s%s", s->workers, s->workers > 1 ? "s" : "",
                     (long long)s->batch, s->sync, s->options[0] != '\0' ? ", " : "", s->options);
}

/* Returns the reason why a target is not reached, owned by the caller; NULL: it is reached. */
static char *solved_note(const dl_solution *solution, const dl_solved *s)
{
    const char *name = solution->key->name;
    const dl_cell *error = dl_cell_table_find(&s->table, "error");
    char text[64], *why = NULL;
    if (!isnan(s->value)) return NULL;
    dl_amount_text(text, sizeof text, s->at_limit, solution->key->dimension);
    if (!isnan(s->found)) {
        why = dl_format("it is %g at %s%s", s->found, text,
                        s->is_last ? ", beyond which it has no value or lacks memory" : "");
    } else {
        why = dl_format("at %s %s", text,
                        error != NULL && error->text[0] != '\0' ? error->text : "it has no value");
    }
    DL_AUTOFREE char *point = point_of(s);
    char *note = dl_format("no %s gives %s = %g: %s%s%s%s", name, solution->column, s->target, why,
                           point[0] != '\0' ? " (" : "", point, point[0] != '\0' ? ")" : "");
    free(why);
    return note;
}

/* Returns the note on skipped values, owned by the caller; NULL: there are none. */
static char *skipped_note(const dl_solution *solution)
{
    const size_t count = solution->skipped_count;
    if (count == 0) return NULL;
    return dl_format("%zu value%s of %s %s skipped, as %.0f: %s", count, count == 1 ? "" : "s",
                     solution->key->name, count == 1 ? "was" : "were", solution->skipped[0],
                     solution->skipped_why);
}

static void add_number(dl_cell_table *table, double value)
{
    char text[DL_DOUBLE_TEXT_BYTES] = "";
    dl_cell_table_add_cell(table, isnan(value) ? DL_CELL_EMPTY : DL_CELL_NUMBER,
                           isnan(value) ? text : dl_format_double(text, value), value);
}

static void make_table(dl_cell_table *table, const dl_solution *solution)
{
    DL_AUTOFREE char *name = dl_format("solved_%s", solution->key->name);
    dl_cell_table_add_name(table, "target");
    dl_cell_table_add_name(table, name);
    add_names(table, solution);
    for (size_t i = 0; i < solution->count; i++) {
        const dl_solved *s = &solution->all[i];
        add_number(table, s->target);
        add_number(table, s->value);
        for (size_t c = 2; c < table->columns; c++) {
            const dl_cell *cell = dl_cell_table_find(&s->table, table->names[c]);
            dl_cell_table_add_cell(table, cell != NULL ? cell->kind : DL_CELL_EMPTY,
                                   cell != NULL ? cell->text : "",
                                   cell != NULL ? cell->number : (double)NAN);
        }
    }
}

static void write_csv(FILE *out, const dl_solution *solution, const dl_study *study)
{
    dl_csv_writer writer = {.out = out};
    DL_SCOPED(dl_cell_table) table = {0};
    make_table(&table, solution);
    dl_csv_comment(&writer, "dlsim solved, schema %d", DL_SOLVE_SCHEMA);
    dl_csv_comment(&writer, "version: dlsim %s", dl_version());
    dl_csv_comment(&writer, "scenario: %s", study->variants[0].scenario.name);
    dl_csv_comment(&writer, "solved: [%s] %s for %s", solution->key->section, solution->key->name,
                   solution->column);
    for (size_t c = 0; c < table.columns; c++)
        dl_csv_text(&writer, table.names[c]);
    dl_csv_end_row(&writer);
    for (size_t r = 0; r < dl_cell_table_rows(&table); r++) {
        for (size_t c = 0; c < table.columns; c++)
            dl_csv_text(&writer, dl_cell_table_cell(&table, r, c)->text);
        dl_csv_end_row(&writer);
    }
}

dl_status dl_solution_write(const char *path, const dl_solution *solution, const dl_study *study,
                            dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    write_csv(output.out, solution, study);
    return dl_output_close(&output, err);
}

void dl_solution_json_write(FILE *out, const dl_solution *solution, const dl_study *study)
{
    dl_json to = {.out = out};
    DL_SCOPED(dl_cell_table) table = {0};
    make_table(&table, solution);
    dl_json_begin(&to, NULL, '{');
    dl_json_members(&to, "format=%s schema=%d", "dlsim solved", DL_SOLVE_SCHEMA);
    dl_json_text_item(&to, "version", dl_version());
    dl_json_text_item(&to, "scenario", study->variants[0].scenario.name);
    dl_json_text_item(&to, "section", solution->key->section);
    dl_json_text_item(&to, "key", solution->key->name);
    dl_json_text_item(&to, "column", solution->column);
    if (solution->unreached > 0) {
        dl_json_begin(&to, "notes", '[');
        for (size_t i = 0; i < solution->count; i++) {
            DL_AUTOFREE char *note = solved_note(solution, &solution->all[i]);
            if (note != NULL) dl_json_text_item(&to, NULL, note);
        }
        dl_json_end(&to, ']');
    }
    dl_cell_table_write_json(&to, &table);
    dl_json_end(&to, '}');
    fputc('\n', out);
}

dl_status dl_solution_json(const char *path, const dl_solution *solution, const dl_study *study,
                           dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_solution_json_write(output.out, solution, study);
    return dl_output_close(&output, err);
}

/* Writes "1.25 GB/s, 10 Gb/s": network rates are usually given in bits. */
static void print_value(char *text, size_t bytes, const dl_key *key, double value)
{
    const int used = (int)strlen(dl_amount_text(text, bytes, value, key->dimension));
    if (key->dimension != DL_DIMENSION_BYTES_PER_S) return;
    static const char *const units[] = {"b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"};
    double bits = 8 * value;
    int unit = 0;
    for (; bits >= 1e3 && unit < 4; unit++)
        bits /= 1e3;
    snprintf(text + used, bytes - (size_t)used, ", %.4g %s", bits, units[unit]);
}

/* A row of the readable table of solutions. */
typedef struct solved_row {
    dl_solved of;
    char value[128]; /* the key's value as text */
} solved_row;

/* Writes "With interval = 38, utilisation_frac is 0.9002: 4 workers, batch 32, average. 2 of 3
 * targets are reached." */
static void print_verdict(FILE *out, const dl_solution *solution)
{
    const dl_solved *first = NULL;
    char value[96];
    DL_AUTOFREE char *text = NULL;
    for (size_t i = 0; i < solution->count && first == NULL; i++)
        if (!isnan(solution->all[i].value)) first = &solution->all[i];
    if (first != NULL) {
        print_value(value, sizeof value, solution->key, first->value);
        DL_AUTOFREE char *point = point_of(first);
        dl_extend(&text, "With %s = %s, %s is %.4g%s%s.", solution->key->name, value,
                  solution->column, first->found, point[0] != '\0' ? ": " : "", point);
    }
    if (solution->count > 1 || first == NULL) {
        dl_extend(&text, " %zu of %zu targets are reached.", solution->count - solution->unreached,
                  solution->count);
    }
    dl_wrap_print(out, 2, "%s", text);
}

void dl_solution_print(FILE *out, const dl_solution *solution, const dl_study *study)
{
    const bool generates = study->variants[0].scenario.generators != NULL;
    const char *per_s = generates ? "answers/s" : "samples/s";
    const dl_column columns[] = {
        {.heading = generates ? NULL : "workers", DL_MEMBER(solved_row, of.workers)},
        {.heading = generates ? NULL : "batch", DL_MEMBER(solved_row, of.batch)},
        {DL_WORD(generates ? NULL : "sync"), DL_MEMBER(solved_row, of.sync)},
        {DL_WORD("options"), DL_MEMBER(solved_row, of.options)},
        {DL_RATE("target"), DL_MEMBER(solved_row, of.target)},
        {DL_RATE(solution->column), DL_MEMBER(solved_row, of.found)},
        {.heading = strcmp(solution->column, "throughput_per_s") != 0 ? per_s : NULL,
         .form = DL_FORM_RATE,
         DL_MEMBER(solved_row, of.per_s)},
        {DL_WORD(solution->key->name), DL_MEMBER(solved_row, value)},
    };
    DL_AUTOFREE solved_row *rows = dl_calloc(solution->count, sizeof *rows, "solutions");
    for (size_t i = 0; i < solution->count; i++) {
        const dl_solved *s = &solution->all[i];
        const bool reached = !isnan(s->value);
        char value[96];
        rows[i].of = *s;
        print_value(value, sizeof value, solution->key, reached ? s->value : s->at_limit);
        snprintf(rows[i].value, sizeof rows[i].value, "%s%s",
                 reached           ? ""
                 : isnan(s->found) ? "none, nor at "
                                   : "not reached at ",
                 value);
    }
    const dl_column_table table = DL_COLUMN_TABLE(columns, rows, solution->count);
    fprintf(out, "%s\n", study->variants[0].scenario.name);
    print_verdict(out, solution);
    dl_columns_print(out, &table, (size_t)dl_wrap_columns(out));
    for (size_t i = 0; i < solution->count; i++) {
        DL_AUTOFREE char *note = solved_note(solution, &solution->all[i]);
        if (note != NULL) dl_report_note_print(out, note);
    }
    DL_AUTOFREE char *skipped = skipped_note(solution);
    if (skipped != NULL) dl_report_note_print(out, skipped);
}

dl_status dl_solution_check(const dl_solution *solution, const dl_study *study, dl_error *err)
{
    if (solution->unreached < solution->count) return DL_OK;
    DL_AUTOFREE char *note = solved_note(solution, &solution->all[0]);
    return dl_error_set_at(err, DL_ERR_DATA, study->path, 0, "%s", note);
}
