/* Reading the tables of a Nsight export, whatever its version has of them: for nsys*.c only. */
#ifndef DL_TRACE_READERS_NSYS_TABLE_H
#define DL_TRACE_READERS_NSYS_TABLE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of one table. Release with dl_nsys_rows_close. */
typedef struct dl_nsys_rows {
    sqlite3_stmt *statement;
    bool damaged; /* the file ended or failed before the table did */
} dl_nsys_rows;

/* Selects columns[count] of `table`; those that it has not are NULL in every row. `rest` is SQL
 * behind the table's name ("WHERE ...", names only of columns that it has); "" = all rows. False if
 * there is no such table, or it cannot be read (rows->damaged then). */
bool dl_nsys_rows_open(dl_nsys_rows *rows, sqlite3 *file, const char *table,
                       const char *const *columns, size_t count, const char *rest);

/* Goes to the next row, the first one at first; false if there is none. */
bool dl_nsys_rows_next(dl_nsys_rows *rows);
void dl_nsys_rows_close(dl_nsys_rows *rows);

/* A column of the row. NULL is 0, -1 in signed ones, "" in texts (borrowed until the next row). */
bool dl_nsys_has(const dl_nsys_rows *rows, int column);
int64_t dl_nsys_signed(const dl_nsys_rows *rows, int column);
uint64_t dl_nsys_unsigned(const dl_nsys_rows *rows, int column);
const char *dl_nsys_text(const dl_nsys_rows *rows, int column);

/* Whether the table is there, and has the column. */
bool dl_nsys_has_column(sqlite3 *file, const char *table, const char *column);

#endif
