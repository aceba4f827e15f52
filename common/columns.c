#include "common/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/units.h"
#include "common/wrap.h"

dl_datum dl_datum_none(void)
{
    return (dl_datum){.kind = DL_DATUM_NONE, .number = (double)NAN};
}

dl_datum dl_datum_number(double number)
{
    return (dl_datum){.kind = isnan(number) ? DL_DATUM_NONE : DL_DATUM_NUMBER, .number = number};
}

dl_datum dl_datum_count(int64_t count)
{
    return (dl_datum){.kind = DL_DATUM_COUNT, .number = (double)count, .count = count};
}

dl_datum dl_datum_text(const char *text)
{
    return text == NULL ? dl_datum_none() : (dl_datum){.kind = DL_DATUM_TEXT, .text = text};
}

dl_datum dl_datum_owned_text(char *text)
{
    return (dl_datum){.kind = DL_DATUM_TEXT, .text = text, .owned = text};
}

dl_datum dl_datum_list(const double *list, int64_t count)
{
    if (list == NULL) return dl_datum_none();
    return (dl_datum){.kind = DL_DATUM_LIST, .list = list, .count = count};
}

dl_datum dl_datum_owned_list(double *list, int64_t count)
{
    return (dl_datum){.kind = DL_DATUM_LIST, .list = list, .count = count, .owned = list};
}

void dl_datum_free(dl_datum *datum)
{
    free(datum->owned);
    *datum = dl_datum_none();
}

#define MEMBER(type, row, column) \
    (*(const type *)(const void *)((const char *)(row) + (column)->offset))

dl_datum dl_column_get_double(const void *row, const dl_column *column)
{
    return dl_datum_number(MEMBER(double, row, column));
}

dl_datum dl_column_get_int(const void *row, const dl_column *column)
{
    return dl_datum_count(MEMBER(int, row, column));
}

dl_datum dl_column_get_unsigned(const void *row, const dl_column *column)
{
    return dl_datum_count(MEMBER(unsigned, row, column));
}

dl_datum dl_column_get_int64(const void *row, const dl_column *column)
{
    return dl_datum_count(MEMBER(int64_t, row, column));
}

dl_datum dl_column_get_size(const void *row, const dl_column *column)
{
    return dl_datum_count((int64_t)MEMBER(size_t, row, column));
}

dl_datum dl_column_get_text(const void *row, const dl_column *column)
{
    return dl_datum_text(MEMBER(char *, row, column));
}

dl_datum dl_column_get_chars(const void *row, const dl_column *column)
{
    return dl_datum_text((const char *)row + column->offset);
}

const void *dl_column_table_row(const dl_column_table *table, size_t row)
{
    return (const char *)table->rows + row * table->row_bytes;
}

const dl_column *dl_column_table_column(const dl_column_table *table, size_t column)
{
    return table->columns != NULL ? table->columns[column] : &table->list[column];
}

/* --- files ----------------------------------------------------------------------------------- */

void dl_columns_csv_names(dl_csv_writer *writer, const dl_column *const *columns, size_t count)
{
    for (size_t c = 0; c < count; c++)
        if (columns[c]->name != NULL) dl_csv_text(writer, columns[c]->name);
}

void dl_columns_csv_row(dl_csv_writer *writer, const dl_column *const *columns, size_t count,
                        const void *row)
{
    for (size_t c = 0; c < count; c++) {
        if (columns[c]->name == NULL) continue;
        DL_SCOPED(dl_datum) datum = columns[c]->get(row, columns[c]);
        switch (datum.kind) {
        case DL_DATUM_NONE: dl_csv_text(writer, ""); break;
        case DL_DATUM_NUMBER: dl_csv_double(writer, datum.number); break;
        case DL_DATUM_COUNT: dl_csv_int(writer, datum.count); break;
        case DL_DATUM_TEXT: dl_csv_text(writer, datum.text); break;
        case DL_DATUM_LIST: dl_csv_doubles(writer, datum.list, (int)datum.count); break;
        }
    }
}

void dl_columns_csv(dl_csv_writer *writer, const dl_column_table *table)
{
    DL_AUTOFREE const dl_column **columns =
        dl_calloc(table->column_count, sizeof *columns, "columns");
    for (size_t c = 0; c < table->column_count; c++)
        columns[c] = dl_column_table_column(table, c);
    dl_columns_csv_names(writer, columns, table->column_count);
    dl_csv_end_row(writer);
    for (size_t r = 0; r < table->row_count; r++) {
        dl_columns_csv_row(writer, columns, table->column_count, dl_column_table_row(table, r));
        dl_csv_end_row(writer);
    }
}

/* --- display --------------------------------------------------------------------------------- */

char *dl_column_number_text(const dl_column *column, double number)
{
    const double percent = 100 * number, scale = column->scale != 0 ? column->scale : 1;
    switch (column->form) {
    case DL_FORM_PERCENT: return dl_format("%.*f", column->digits, percent);
    case DL_FORM_SIGNED:
        return dl_format(fabs(percent) < 0.5 * pow(10, -column->digits) ? "%.*f" : "%+.*f",
                         column->digits,
                         fabs(percent) < 0.5 * pow(10, -column->digits) ? 0 : percent);
    case DL_FORM_TIME: return dl_strdup(DL_NS_TEXT(dl_s_to_ns(number)));
    case DL_FORM_NS: return dl_strdup(DL_NS_TEXT(number));
    case DL_FORM_BYTES: return dl_strdup(DL_BYTES_TEXT(number));
    case DL_FORM_RATE:
        number *= scale;
        return dl_format(number < 1000 || number >= 1e12 ? "%.4g" : "%.0f", number);
    case DL_FORM_TEXT:
    case DL_FORM_PLAIN: break;
    }
    return dl_format("%.*f", column->digits, scale * number);
}

static char *list_text(const dl_column *column, const dl_datum *datum)
{
    char *text = NULL;
    for (int64_t i = 0; i < datum->count; i++) {
        DL_AUTOFREE char *one = dl_column_number_text(column, datum->list[i]);
        dl_join(&text, " ", one);
    }
    return text != NULL ? text : dl_strdup("");
}

char *dl_column_cell_text(const dl_column *column, const void *row)
{
    DL_SCOPED(dl_datum) datum = column->get(row, column);
    char *text = NULL;
    switch (datum.kind) {
    case DL_DATUM_NONE: text = dl_strdup(""); break;
    case DL_DATUM_NUMBER: text = dl_column_number_text(column, datum.number); break;
    case DL_DATUM_COUNT: text = dl_format("%lld", (long long)datum.count); break;
    case DL_DATUM_TEXT: text = dl_strdup(datum.text); break;
    case DL_DATUM_LIST: text = list_text(column, &datum); break;
    }
    return text;
}

static const char *failure_of(const dl_column_table *table, size_t row)
{
    return table->failed != NULL ? table->failed(dl_column_table_row(table, row)) : NULL;
}

/* Returns whether the row has a cell of this column that is not replaced by a failure text. */
static bool has_cell(const dl_column_table *table, size_t row, size_t column)
{
    return column < table->failed_from || failure_of(table, row) == NULL;
}

bool dl_column_has_values(const dl_column_table *table, const dl_column *column)
{
    bool has = false;
    for (size_t r = 0; r < table->row_count && !has; r++) {
        DL_AUTOFREE char *text = dl_column_cell_text(column, dl_column_table_row(table, r));
        has = text[0] != '\0';
    }
    return has;
}

char *dl_column_common_text(const dl_column_table *table, const dl_column *column)
{
    char *common = NULL;
    for (size_t r = 0; r < table->row_count; r++) {
        char *text = dl_column_cell_text(column, dl_column_table_row(table, r));
        const bool differs = text[0] == '\0' || (common != NULL && strcmp(common, text) != 0);
        if (common == NULL && !differs) {
            common = text;
            continue;
        }
        free(text);
        if (!differs) continue;
        free(common);
        return NULL;
    }
    return common;
}

/* Displayed cells in row-major order, headings first, and the width of each column. */
typedef struct text_cells {
    char **cells; /* [(rows + 1) * columns], NULL: no cell */
    size_t *widths;
    size_t columns, rows;
    bool has_room; /* room for a mark in front of the first column's cells */
} text_cells;

static void make_cells(text_cells *text, const dl_column_table *table)
{
    text->columns = table->column_count;
    text->rows = table->row_count;
    text->cells = dl_calloc((text->rows + 1) * text->columns, sizeof *text->cells, "cells");
    text->widths = dl_calloc(text->columns, sizeof *text->widths, "widths");
    for (size_t c = 0; c < text->columns; c++) {
        const dl_column *column = dl_column_table_column(table, c);
        if (column->heading == NULL || !dl_column_has_values(table, column)) continue;
        text->cells[c] = dl_strdup(column->heading);
        text->widths[c] = strlen(column->heading);
        for (size_t r = 0; r < text->rows; r++) {
            if (!has_cell(table, r, c)) continue;
            char *cell = dl_column_cell_text(column, dl_column_table_row(table, r));
            if (cell[0] == '\0' && column->form != DL_FORM_TEXT) {
                free(cell);
                cell = dl_strdup("-");
            }
            text->cells[(r + 1) * text->columns + c] = cell;
            if (strlen(cell) > text->widths[c]) text->widths[c] = strlen(cell);
        }
    }
}

/* Returns whether all cells of the first column with a heading have a leading blank. */
static bool first_has_room(const text_cells *text, const dl_column_table *table)
{
    size_t first = 0;
    while (first < text->columns && dl_column_table_column(table, first)->heading == NULL)
        first++;
    if (first == text->columns || dl_column_table_column(table, first)->form == DL_FORM_TEXT)
        return false;
    for (size_t r = 1; r <= text->rows; r++) {
        const char *cell = text->cells[r * text->columns + first];
        if (cell == NULL || strlen(cell) >= text->widths[first]) return false;
    }
    return true;
}

static void free_cells(text_cells *text)
{
    for (size_t i = 0; i < (text->rows + 1) * text->columns; i++)
        free(text->cells[i]);
    free(text->cells);
    free(text->widths);
}

/* Joins the cells of a line, without trailing blanks, followed by `after`, whose blanks are
 * kept. */
static char *line_text(const text_cells *text, const dl_column_table *table, size_t line,
                       const char *mark, const char *after)
{
    char *joined = NULL;
    size_t bytes = 0, blanks = 0;
    bool first = true;
    FILE *out = dl_text_stream(&joined, &bytes);
    if (table->chosen != NULL && !text->has_room) fprintf(out, "%s ", mark);
    for (size_t c = 0; c < text->columns; c++) {
        const char *cell = text->cells[line * text->columns + c];
        if (cell == NULL) continue;
        const size_t pad = text->widths[c] - strlen(cell);
        const bool left = dl_column_table_column(table, c)->form == DL_FORM_TEXT;
        blanks += (first ? 0 : 1) + (left ? 0 : pad);
        first = false;
        if (cell[0] != '\0') {
            fprintf(out, "%*s%s", (int)blanks, "", cell);
            blanks = 0;
        }
        blanks += left ? pad : 0;
    }
    if (after[0] != '\0') fprintf(out, "%*s%s", (int)blanks + (first ? 0 : 1), "", after);
    fclose(out);
    if (text->has_room && joined[0] == ' ') joined[0] = mark[0];
    return joined;
}

#define REMARK_INDENT 8

static void put_row(FILE *out, const text_cells *text, const dl_column_table *table, size_t r,
                    const char *remark, size_t width)
{
    const void *row = dl_column_table_row(table, r);
    const char *failure = failure_of(table, r);
    const char *mark = failure == NULL && table->mark != NULL ? table->mark(row) : "";
    const bool chosen = row == table->chosen;
    const bool bold = chosen && isatty(fileno(out)) && getenv("NO_COLOR") == NULL;
    DL_AUTOFREE char *line =
        line_text(text, table, r + 1, chosen ? ">" : " ", failure != NULL ? failure : mark);
    fprintf(out, bold ? "%*s\033[1m%s\033[0m" : "%*s%s", table->indent, "", line);
    if (remark != NULL && strlen(line) + 2 + strlen(remark) <= width) {
        fprintf(out, "  %s\n", remark);
    } else if (remark != NULL) {
        fprintf(out, "\n%*s", REMARK_INDENT, "");
        dl_wrap(out, remark, REMARK_INDENT, REMARK_INDENT, (int)width);
    } else {
        fputc('\n', out);
    }
}

static char *remark_of(const dl_column_table *table, size_t r)
{
    const bool has = table->remark != NULL && r < table->row_count;
    return has ? table->remark(dl_column_table_row(table, r)) : NULL;
}

void dl_columns_print(FILE *out, const dl_column_table *table, size_t width)
{
    text_cells text;
    make_cells(&text, table);
    text.has_room = first_has_room(&text, table);
    DL_AUTOFREE char *head = line_text(&text, table, 0, " ", "");
    fprintf(out, "%*s%s\n", table->indent, "", head);
    char *next = remark_of(table, 0);
    for (size_t r = 0; r < text.rows; r++) {
        DL_AUTOFREE char *remark = next;
        next = remark_of(table, r + 1);
        const bool again = remark != NULL && next != NULL && failure_of(table, r) != NULL &&
                           strcmp(remark, next) == 0;
        put_row(out, &text, table, r, again ? NULL : remark, width);
    }
    free_cells(&text);
}

size_t dl_column_width(const dl_column_table *table, const dl_column *column)
{
    dl_column_table one = *table;
    text_cells text;
    one.columns = &column;
    one.column_count = 1;
    one.failed_from = 1; /* include cells replaced by a failure text */
    make_cells(&text, &one);
    const size_t width = text.widths[0];
    free_cells(&text);
    return width;
}

size_t dl_columns_extra(const dl_column_table *table)
{
    dl_column_table first = *table;
    text_cells text;
    size_t longest = 0; /* length of the longest mark */
    first.column_count = table->column_count > 0 ? 1 : 0;
    make_cells(&text, &first);
    const bool has_room = first_has_room(&text, &first);
    free_cells(&text);
    for (size_t r = 0; r < table->row_count && table->mark != NULL; r++) {
        const size_t bytes = strlen(table->mark(dl_column_table_row(table, r)));
        if (bytes > longest) longest = bytes;
    }
    return (longest > 0 ? longest + 1 : 0) +
           (table->chosen != NULL && !has_room ? strlen("> ") : 0);
}
