/* Rows of an SQLite database, of whose tables any column may be missing. */
#include "trace/readers/nsys_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* Sets has[i] if the table has columns[i]. */
static void find_columns(bool *has, sqlite3 *file, const char *table, const char *const *columns,
                         size_t count)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(file, "SELECT name FROM pragma_table_info(?1)", -1, &statement, NULL) ==
        SQLITE_OK) {
        sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
        while (sqlite3_step(statement) == SQLITE_ROW) {
            const unsigned char *name = sqlite3_column_text(statement, 0);
            for (size_t i = 0; i < count && name != NULL; i++)
                has[i] |= strcmp((const char *)name, columns[i]) == 0;
        }
    }
    sqlite3_finalize(statement);
}

bool dl_nsys_has_column(sqlite3 *file, const char *table, const char *column)
{
    bool has = false;
    find_columns(&has, file, table, &column, 1);
    return has;
}

bool dl_nsys_rows_open(dl_nsys_rows *rows, dl_nsys *nsys, const char *table,
                       const char *const *columns, size_t count, const char *rest)
{
    DL_AUTOFREE char *sql = NULL;
    size_t bytes = 0, found = 0;
    *rows = (dl_nsys_rows){.nsys = nsys};
    FILE *out = dl_text_stream(&sql, &bytes);
    DL_AUTOFREE bool *has = dl_calloc(count, sizeof *has, "columns");
    find_columns(has, nsys->file, table, columns, count);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s%s%s%s", i == 0 ? "SELECT " : ", ", has[i] ? "\"" : "",
                has[i] ? columns[i] : "NULL", has[i] ? "\"" : "");
        found += has[i];
    }
    fprintf(out, " FROM \"%s\" %s", table, rest);
    fclose(out);
    if (found > 0) {
        int code = sqlite3_prepare_v2(nsys->file, sql, -1, &rows->statement, NULL);
        rows->damaged = code != SQLITE_OK;
    }
    return rows->statement != NULL;
}

bool dl_nsys_rows_next(dl_nsys_rows *rows)
{
    int code = sqlite3_step(rows->statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE) rows->damaged = true;
    return code == SQLITE_ROW;
}

void dl_nsys_rows_close(dl_nsys_rows *rows)
{
    sqlite3_finalize(rows->statement);
    rows->statement = NULL;
}

bool dl_nsys_has(const dl_nsys_rows *rows, int column)
{
    return sqlite3_column_type(rows->statement, column) != SQLITE_NULL;
}

int64_t dl_nsys_signed(const dl_nsys_rows *rows, int column)
{
    return dl_nsys_has(rows, column) ? sqlite3_column_int64(rows->statement, column) : -1;
}

uint64_t dl_nsys_unsigned(const dl_nsys_rows *rows, int column)
{
    return (uint64_t)sqlite3_column_int64(rows->statement, column);
}

const char *dl_nsys_text(const dl_nsys_rows *rows, int column)
{
    const unsigned char *text = sqlite3_column_text(rows->statement, column);
    return text != NULL ? (const char *)text : "";
}

int64_t dl_nsys_number(sqlite3 *file, const char *sql, int64_t otherwise)
{
    sqlite3_stmt *statement = NULL;
    int64_t number = otherwise;
    if (sqlite3_prepare_v2(file, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}
