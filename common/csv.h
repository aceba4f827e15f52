/* CSV tables (results, measured rows): RFC 4180 quoting, '#' comment lines before the column names.
 * Numbers are written with enough digits to read back the same double; NaN is an empty cell.
 *
 * Reading accepts LF and CRLF line ends, a UTF-8 byte-order mark, and commas, quotes and line
 * breaks in quoted cells. Blanks are part of the cell. Empty lines are skipped, except after the
 * names of a table with one column, in which they are empty cells. */
#ifndef DL_COMMON_CSV_H
#define DL_COMMON_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/cell_table.h"
#include "common/status.h"

/* A table in memory. Owns all its memory; release with dl_csv_free. */
typedef struct dl_csv {
    char *path;
    size_t columns, rows;
    char **names; /* [columns] */
    char **cells; /* [rows * columns], row-major, never NULL ("": empty) */
    int *lines;   /* [rows] line number of each row in the file */
} dl_csv;

/* Reads `path`; `csv` must be zeroed. Returns DL_ERR_PARSE with the line for: no column names, an
 * empty or repeated name, names separated by ';' or tabs, a row whose number of cells differs from
 * the number of names, an unclosed quote or one inside an unquoted cell, text after a closing
 * quote, a NUL byte; and the errors of dl_file_read. */
dl_status dl_csv_read(dl_csv *csv, const char *path, dl_error *err) DL_MUST_CHECK;
dl_status dl_csv_read_text(dl_csv *csv, const char *name, const char *text, size_t bytes,
                           dl_error *err) DL_MUST_CHECK;
void dl_csv_free(dl_csv *csv);

/* Returns the index of a column, or -1. */
int dl_csv_column(const dl_csv *csv, const char *name);

/* Returns the cell as text (borrowed). row < rows, column < columns. */
const char *dl_csv_cell(const dl_csv *csv, size_t row, size_t column);

/* Reads the cell as a number; an empty cell gives NaN; "inf" and "-inf" are accepted, as written by
 * dl_csv_double. Returns DL_ERR_PARSE for any other text, DL_ERR_RANGE for a number beyond the
 * range of double. */
dl_status dl_csv_number(const dl_csv *csv, size_t row, size_t column, double *value,
                        dl_error *err) DL_MUST_CHECK;

/* Read the cell in the named column, as text or number; a missing column counts as empty. */
const char *dl_csv_text_in(const dl_csv *csv, size_t row, const char *column);
dl_status dl_csv_number_in(const dl_csv *csv, size_t row, const char *column, double *value,
                           dl_error *err) DL_MUST_CHECK;

/* Writer to an open stream, cell by cell. Write errors stay in the stream (ferror) for the function
 * that closes it. */
typedef struct dl_csv_writer {
    FILE *out;            /* borrowed; NULL if `table` is used */
    dl_cell_table *table; /* borrowed: receives comments, names and cells instead of `out` */
    int cells;            /* number of cells written in the current row */
    bool named;           /* the row of names is written */
} dl_csv_writer;

/* Writes a line "# text" before the column names; a newline in the text starts another such
 * line. */
void dl_csv_comment(dl_csv_writer *writer, const char *format, ...) DL_PRINTF(2, 3);

/* Write the next cell of the row, quoted if needed; NaN: empty. */
void dl_csv_text(dl_csv_writer *writer, const char *text);
void dl_csv_double(dl_csv_writer *writer, double value);
void dl_csv_int(dl_csv_writer *writer, int64_t value);

/* Writes values[count] as "1;2.5"; an empty cell for NULL. */
void dl_csv_doubles(dl_csv_writer *writer, const double *values, int count);
void dl_csv_end_row(dl_csv_writer *writer);

#endif
