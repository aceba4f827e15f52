/* CSV tables (results, measured rows): RFC 4180 quoting, '#' comment lines before the column names.
 * Numbers are written so that they read back to the same double; NaN is an empty cell.
 *
 * Reading accepts LF and CRLF line ends, a UTF-8 byte-order mark, and commas, quotes and line
 * breaks in quoted cells. Blanks belong to the cell. Empty lines are skipped, except after the
 * names of a table with one column: there they are an empty cell. */
#ifndef DL_COMMON_CSV_H
#define DL_COMMON_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/cell_table.h"
#include "common/status.h"

/* A table in memory. Owns everything; release with dl_csv_free. */
typedef struct dl_csv {
    char *path;
    size_t columns, rows;
    char **names; /* [columns] */
    char **cells; /* [rows * columns], row by row, never NULL ("" = empty) */
    int *lines;   /* [rows] line of each row in the file */
} dl_csv;

/* Reads `path`; `csv` must be zeroed. DL_ERR_PARSE with the line for: no column names, an empty or
 * repeated name, a row with another number of cells than of names, a quote that is not closed or
 * stands inside an unquoted cell, text after a closing quote, a NUL byte. */
dl_status dl_csv_read(dl_csv *csv, const char *path, dl_error *err) DL_MUST_CHECK;
dl_status dl_csv_read_text(dl_csv *csv, const char *name, const char *text, size_t bytes,
                           dl_error *err) DL_MUST_CHECK;
void dl_csv_free(dl_csv *csv);

/* Index of a column, or -1. */
int dl_csv_column(const dl_csv *csv, const char *name);

/* The cell as text (borrowed). row < rows, column < columns. */
const char *dl_csv_cell(const dl_csv *csv, size_t row, size_t column);

/* The cell as a number; empty gives NaN; "inf" and "-inf" are accepted, as dl_csv_double writes
 * them. DL_ERR_PARSE for any other text, DL_ERR_RANGE for a number that no double holds. */
dl_status dl_csv_number(const dl_csv *csv, size_t row, size_t column, double *value,
                        dl_error *err) DL_MUST_CHECK;

/* The cell in the column of that name, as text or number; a missing column is empty. */
const char *dl_csv_text_in(const dl_csv *csv, size_t row, const char *column);
dl_status dl_csv_number_in(const dl_csv *csv, size_t row, const char *column, double *value,
                           dl_error *err) DL_MUST_CHECK;

/* Writes to an open stream, cell by cell. The writer allocates no memory; write errors stay in the
 * stream (ferror) for the function that closes it. */
typedef struct dl_csv_writer {
    FILE *out;            /* borrowed; NULL if there is a table */
    dl_cell_table *table; /* borrowed: takes comments, names and cells in place of `out` */
    int cells;            /* written in the current row */
    bool named;           /* the row of names is written */
} dl_csv_writer;

/* Writes a line "# text" before the column names; a newline in the text starts another one. */
void dl_csv_comment(dl_csv_writer *writer, const char *format, ...) DL_PRINTF(2, 3);

/* Writes the next cell of the row: quoted if needed; NaN = empty. */
void dl_csv_text(dl_csv_writer *writer, const char *text);
void dl_csv_double(dl_csv_writer *writer, double value);
void dl_csv_int(dl_csv_writer *writer, int64_t value);

/* values[count] as "1;2.5"; an empty cell for NULL. */
void dl_csv_doubles(dl_csv_writer *writer, const double *values, int count);
void dl_csv_end_row(dl_csv_writer *writer);

#endif
