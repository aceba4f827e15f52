/* An in-memory table of results with typed cells, filled by a dl_csv_writer: for JSON output and
 * for callers of the library. */
#ifndef DL_COMMON_CELL_TABLE_H
#define DL_COMMON_CELL_TABLE_H

#include <stddef.h>

#include "common/json.h"

typedef enum dl_cell_kind {
    DL_CELL_EMPTY, /* no value */
    DL_CELL_TEXT,
    DL_CELL_NUMBER,
    DL_CELL_LIST /* numbers, separated by semicolons */
} dl_cell_kind;

typedef struct dl_cell {
    dl_cell_kind kind;
    char *text;    /* CSV text, never NULL */
    double number; /* NaN unless kind is DL_CELL_NUMBER */
} dl_cell;

/* Owns all its memory; {0} is empty. Release with dl_cell_table_free. */
typedef struct dl_cell_table {
    char **comments; /* [comment_count] e.g. "settings: steps=200 ..." */
    size_t comment_count;
    char **names; /* [columns] */
    size_t columns;
    dl_cell *cells; /* [cell_count] row-major */
    size_t cell_count;
} dl_cell_table;

void dl_cell_table_free(dl_cell_table *table);

size_t dl_cell_table_rows(const dl_cell_table *table);

/* Returns a cell; row < dl_cell_table_rows, column < table->columns. */
const dl_cell *dl_cell_table_cell(const dl_cell_table *table, size_t row, size_t column);

/* Returns the cell of the first row in the column; NULL: there is no such column. */
const dl_cell *dl_cell_table_find(const dl_cell_table *table, const char *column);

/* Append a comment, a column name, and a cell, for dl_csv_writer; copy the text. */
void dl_cell_table_add_comment(dl_cell_table *table, const char *text);
void dl_cell_table_add_name(dl_cell_table *table, const char *text);
void dl_cell_table_add_cell(dl_cell_table *table, dl_cell_kind kind, const char *text,
                            double number);

/* Writes the members "columns", the names, and "rows", a list of objects with a member for each
 * cell: a text, a number, a list of numbers; null for an empty cell and for numbers without a JSON
 * form. */
void dl_cell_table_write_json(dl_json *to, const dl_cell_table *table);

#endif
