/* Tables whose columns are described by the code that writes the rows, as text, JSON or CSV: for
 * tables with few columns whose values are stored in several places. Tables with many columns, with
 * help and views, are constant tables (common/columns.h).
 *
 *   dl_rows rows = {.out = stdout};       or {.json = json}, or {.csv = writer}
 *   dl_rows_begin(&rows, "steps", "steps and their error");
 *   for (...) dl_rows_add(&rows, "batch=%lld step_ns|step=%gns error_frac|off %%=%+.1f%%", ...);
 *   dl_rows_end(&rows, 0); */
#ifndef DL_COMMON_ROWS_H
#define DL_COMMON_ROWS_H

#include <stdio.h>

#include "common/columns.h"
#include "common/json.h"
#include "common/status.h"

/* Exactly one of out, json and csv is set, all borrowed; members after `title` are private. Zero
 * before use. */
typedef struct dl_rows {
    FILE *out; /* displayed text */
    dl_json *json;
    dl_csv_writer *csv;
    int indent; /* blanks before each line of text */
    const char *title;
    char **cells;     /* [count * columns] displayed cells */
    dl_column *heads; /* [columns] */
    size_t columns, count;
} dl_rows;

/* Begins a table: in JSON the list `name` of objects, in text an empty line and the title above it
 * ("": only the line; NULL: neither). */
void dl_rows_begin(dl_rows *rows, const char *name, const char *title);

/* Adds a row of named values (common/members.h); all rows of a table have the same names. JSON and
 * CSV are written immediately. */
void dl_rows_add(dl_rows *rows, const char *format, ...) DL_PRINTF(2, 3);

/* Ends the table. Text is printed by this call, with dl_columns_print, unless there are no rows; if
 * `most` is not 0, "and N more" replaces the rows from index `most`. */
void dl_rows_end(dl_rows *rows, size_t most);

#endif
