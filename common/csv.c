#include "common/csv.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"
#include "common/units.h"

/* End of a cell: a comma, the end of the line or text, or a syntax error. */
typedef enum cell_end { CELL_COMMA, CELL_LINE, CELL_BAD } cell_end;

/* State of the reader. */
typedef struct csv_source {
    const char *name;
    const char *next, *end;
    int line; /* line number of `next` */
    dl_error *err;
} csv_source;

/* Cells of one row; owned until they move to a table. */
typedef struct csv_row {
    char **cells;
    size_t count;
} csv_row;

static dl_status fail_at(csv_source *source, int line, const char *what)
{
    return dl_error_set_at(source->err, DL_ERR_PARSE, source->name, line, "%s", what);
}

static void clear_row(csv_row *row)
{
    for (size_t i = 0; i < row->count; i++)
        free(row->cells[i]);
    row->count = 0;
}

static void free_row(csv_row *row)
{
    clear_row(row);
    free(row->cells);
}

/* Skips the separator after a cell. */
static cell_end end_cell(csv_source *source)
{
    if (source->next == source->end) return CELL_LINE;
    if (*source->next == ',') {
        source->next++;
        return CELL_COMMA;
    }
    if (*source->next == '\r' && source->end - source->next > 1) source->next++;
    if (*source->next == '\n') source->line++;
    source->next++;
    return CELL_LINE;
}

/* Returns true at a line end or the end of the text. A '\r' counts only before '\n' or the end. */
static int at_line_end(const csv_source *source)
{
    if (source->next == source->end || *source->next == '\n') return 1;
    const char *behind = source->next + 1;
    return *source->next == '\r' && (behind == source->end || *behind == '\n');
}

/* Returns the quote that closes a cell, or NULL; `text` starts after the opening quote. */
static const char *find_closing_quote(const char *text, const char *end)
{
    while (text < end) {
        if (*text != '"') {
            text++;
        } else if (end - text > 1 && text[1] == '"') { /* represents one quote */
            text += 2;
        } else {
            return text;
        }
    }
    return NULL;
}

/* Reads a quoted cell; `next` points to its opening quote. */
static cell_end read_quoted(csv_source *source, csv_row *row)
{
    const char *start = source->next + 1;
    const char *close = find_closing_quote(start, source->end);
    if (close == NULL) {
        fail_at(source, source->line, "a quote is not closed");
        return CELL_BAD;
    }
    char *cell = dl_calloc((size_t)(close - start) + 1, 1, "CSV cell");
    size_t bytes = 0;
    for (const char *c = start; c < close; c++) {
        if (*c == '\n') source->line++;
        cell[bytes++] = *c;
        if (*c == '"') c++;
    }
    DL_APPEND(row->cells, row->count, "CSV cells") = cell;
    source->next = close + 1;
    if (at_line_end(source) || *source->next == ',') return end_cell(source);
    fail_at(source, source->line, "text after a closing quote");
    return CELL_BAD;
}

static cell_end read_cell(csv_source *source, csv_row *row)
{
    if (source->next < source->end && *source->next == '"') return read_quoted(source, row);
    const char *start = source->next;
    while (!at_line_end(source) && *source->next != ',') {
        if (*source->next == '"') {
            fail_at(source, source->line, "a quote inside an unquoted cell");
            return CELL_BAD;
        }
        source->next++;
    }
    DL_APPEND(row->cells, row->count, "CSV cells") =
        dl_strndup(start, (size_t)(source->next - start));
    return end_cell(source);
}

static dl_status read_row(csv_source *source, csv_row *row)
{
    clear_row(row);
    cell_end end;
    do {
        end = read_cell(source, row);
    } while (end == CELL_COMMA);
    return end == CELL_BAD ? DL_ERR_PARSE : DL_OK;
}

static void skip_line(csv_source *source)
{
    while (!at_line_end(source))
        source->next++;
    end_cell(source);
}

/* Reads the column names into `csv`. */
static dl_status read_names(dl_csv *csv, csv_source *source)
{
    while (source->next < source->end && (*source->next == '#' || at_line_end(source))) {
        skip_line(source);
    }
    if (source->next == source->end) return fail_at(source, 0, "the table has no column names");
    int line = source->line;
    csv_row row = {0};
    dl_status status = read_row(source, &row);
    for (size_t i = 0; i < row.count && status == DL_OK; i++) {
        if (row.cells[i][0] == '\0') {
            status = fail_at(source, line, "a column name is empty");
        } else if (dl_names_find(row.cells[i], (const char *const *)row.cells, i) >= 0) {
            status = dl_error_set_at(source->err, DL_ERR_PARSE, source->name, line,
                                     "column '%s' comes twice", row.cells[i]);
        }
    }
    const char *other = row.count == 1 ? strpbrk(row.cells[0], ";\t") : NULL;
    if (status == DL_OK && other != NULL)
        status = fail_at(source, line,
                         *other == ';' ? "the columns are separated by ';' instead of commas"
                                       : "the columns are separated by tabs instead of commas");
    if (status != DL_OK) {
        free_row(&row);
        return status;
    }
    csv->names = row.cells;
    csv->columns = row.count;
    return DL_OK;
}

/* Moves the row's cells to the end of the table. */
static void take_row(dl_csv *csv, csv_row *row, int line)
{
    /* Doubling at each power of two keeps the cost of growth linear. */
    if ((csv->rows & (csv->rows - 1)) == 0) {
        size_t room = csv->rows == 0 ? 1 : 2 * csv->rows;
        csv->cells = dl_realloc(csv->cells, room, csv->columns * sizeof *csv->cells, "CSV cells");
        csv->lines = dl_realloc(csv->lines, room, sizeof *csv->lines, "CSV lines");
    }
    memcpy(csv->cells + csv->rows * csv->columns, row->cells, row->count * sizeof *row->cells);
    csv->lines[csv->rows++] = line;
    row->count = 0;
}

static dl_status read_rows(dl_csv *csv, csv_source *source)
{
    csv_row row = {0};
    dl_status status = DL_OK;
    while (status == DL_OK && source->next < source->end) {
        int line = source->line;
        if (at_line_end(source) && csv->columns > 1) {
            skip_line(source);
            continue;
        }
        status = read_row(source, &row);
        if (status == DL_OK && row.count != csv->columns) {
            status =
                dl_error_set_at(source->err, DL_ERR_PARSE, source->name, line,
                                "%zu cells, but %zu columns have names", row.count, csv->columns);
        }
        if (status == DL_OK) take_row(csv, &row, line);
    }
    free_row(&row);
    return status;
}

/* Cells are C strings, so a NUL byte would silently truncate one. */
static dl_status check_nul(csv_source *source)
{
    const char *nul = memchr(source->next, '\0', (size_t)(source->end - source->next));
    if (nul == NULL) return DL_OK;
    int line = 1;
    for (const char *c = source->next; c < nul; c++)
        line += *c == '\n';
    return fail_at(source, line, "the text holds a NUL byte");
}

dl_status dl_csv_read_text(dl_csv *csv, const char *name, const char *text, size_t bytes,
                           dl_error *err)
{
    csv_source source = {name, text, text + bytes, 1, err};
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) source.next += 3;
    dl_status status = check_nul(&source);
    if (status != DL_OK) return status;
    dl_csv read = {.path = dl_strdup(name)};
    status = read_names(&read, &source);
    if (status == DL_OK) status = read_rows(&read, &source);
    if (status != DL_OK) {
        dl_csv_free(&read);
        return status;
    }
    *csv = read;
    return DL_OK;
}

dl_status dl_csv_read(dl_csv *csv, const char *path, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    return dl_csv_read_text(csv, path, text, bytes, err);
}

void dl_csv_free(dl_csv *csv)
{
    for (size_t i = 0; i < csv->columns; i++)
        free(csv->names[i]);
    for (size_t i = 0; i < csv->rows * csv->columns; i++)
        free(csv->cells[i]);
    free(csv->names);
    free(csv->cells);
    free(csv->lines);
    free(csv->path);
    *csv = (dl_csv){0};
}

int dl_csv_column(const dl_csv *csv, const char *name)
{
    return dl_names_find(name, (const char *const *)csv->names, csv->columns);
}

const char *dl_csv_cell(const dl_csv *csv, size_t row, size_t column)
{
    DL_ASSERT(row < csv->rows && column < csv->columns, "cell %zu, %zu of %zu x %zu", row, column,
              csv->rows, csv->columns);
    return csv->cells[row * csv->columns + column];
}

dl_status dl_csv_number(const dl_csv *csv, size_t row, size_t column, double *value, dl_error *err)
{
    const char *cell = dl_csv_cell(csv, row, column);
    if (cell[0] == '\0') {
        *value = NAN;
        return DL_OK;
    }
    if (strcmp(cell, "inf") == 0 || strcmp(cell, "-inf") == 0) {
        *value = cell[0] == '-' ? -INFINITY : INFINITY;
        return DL_OK;
    }
    dl_error why = {0};
    dl_status status = dl_parse_double(cell, -DBL_MAX, DBL_MAX, value, &why);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(err, status, csv->path, csv->lines[row], "column %s: %s",
                           csv->names[column], why.text);
}

const char *dl_csv_text_in(const dl_csv *csv, size_t row, const char *column)
{
    const int at = dl_csv_column(csv, column);
    return at < 0 ? "" : dl_csv_cell(csv, row, (size_t)at);
}

dl_status dl_csv_number_in(const dl_csv *csv, size_t row, const char *column, double *number,
                           dl_error *err)
{
    const int at = dl_csv_column(csv, column);
    *number = (double)NAN;
    return at < 0 ? DL_OK : dl_csv_number(csv, row, (size_t)at, number, err);
}

void dl_csv_comment(dl_csv_writer *writer, const char *format, ...)
{
    DL_ASSERT(writer->cells == 0, "comment after %d cells of a row", writer->cells);
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *text = dl_vformat(format, args);
    va_end(args);
    if (writer->table != NULL) {
        dl_cell_table_add_comment(writer->table, text);
        return;
    }
    fputs("# ", writer->out);
    for (const char *c = text; *c != '\0'; c++) {
        fputc(*c, writer->out);
        if (*c == '\n') fputs("# ", writer->out);
    }
    fputc('\n', writer->out);
}

/* Adds the cell to the table and returns true, if there is a table; else writes the comma between
 * cells. */
static bool table_takes(dl_csv_writer *writer, dl_cell_kind kind, const char *text, double number)
{
    const bool first = writer->cells++ == 0;
    if (writer->table == NULL) {
        if (!first) fputc(',', writer->out);
        return false;
    }
    if (!writer->named) {
        dl_cell_table_add_name(writer->table, text);
    } else {
        dl_cell_table_add_cell(writer->table, text[0] != '\0' ? kind : DL_CELL_EMPTY, text, number);
    }
    return true;
}

void dl_csv_text(dl_csv_writer *writer, const char *text)
{
    if (table_takes(writer, DL_CELL_TEXT, text, (double)NAN)) return;
    /* At the start of the file, an unquoted '#' would be read as a comment, and a text that starts
     * with the bytes of a byte-order mark as such a mark. */
    int is_safe = text[0] != '#' && text[0] != '\xef';
    if (is_safe && strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, writer->out);
        return;
    }
    fputc('"', writer->out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') fputc('"', writer->out);
        fputc(*c, writer->out);
    }
    fputc('"', writer->out);
}

void dl_csv_double(dl_csv_writer *writer, double value)
{
    char text[DL_DOUBLE_TEXT_BYTES] = "";
    if (!isnan(value)) dl_format_double(text, value);
    if (!table_takes(writer, DL_CELL_NUMBER, text, value)) fputs(text, writer->out);
}

void dl_csv_int(dl_csv_writer *writer, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    if (!table_takes(writer, DL_CELL_NUMBER, text, (double)value)) fputs(text, writer->out);
}

void dl_csv_doubles(dl_csv_writer *writer, const double *values, int count)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *joined = dl_text_stream(&text, &bytes);
    for (int i = 0; values != NULL && i < count; i++) {
        char number[DL_DOUBLE_TEXT_BYTES];
        fprintf(joined, "%s%s", i > 0 ? ";" : "", dl_format_double(number, values[i]));
    }
    fclose(joined);
    if (!table_takes(writer, DL_CELL_LIST, text, (double)NAN)) fputs(text, writer->out);
}

void dl_csv_end_row(dl_csv_writer *writer)
{
    const dl_cell_table *table = writer->table;
    DL_ASSERT(table == NULL || !writer->named || writer->cells == (int)table->columns,
              "row of %d cells, %zu columns", writer->cells, table->columns);
    if (table == NULL) fputc('\n', writer->out);
    writer->cells = 0;
    writer->named = true;
}
