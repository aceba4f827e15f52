/* Shared by the sources of the reader of Nsight Systems' SQLite exports. */
#ifndef DL_TRACE_NSYS_INTERNAL_H
#define DL_TRACE_NSYS_INTERNAL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/readers/readers_internal.h"

/* Maximum number of a process's contexts whose devices are stored. */
#define DL_NSYS_CONTEXTS 64

/* Number of cached texts by StringIds.id, a power of two. */
#define DL_NSYS_TEXTS 4096

/* A process that becomes a trace. */
typedef struct dl_nsys_process {
    uint64_t id;     /* its host and virtual machine, 16 bits, and its number there, 24 bits */
    uint32_t pid;    /* that number */
    uint32_t device; /* lowest number of its devices */
    dl_trace_builder builder;
    uint32_t device_of[DL_NSYS_CONTEXTS]; /* device by context id */
    size_t untimed;                       /* rows of device work without times */
    size_t graphs;                        /* launches of graphs recorded as a whole */
    size_t open_ranges;                   /* ranges without an end */
    size_t unsized_calls;                 /* calls of collectives without bytes */
    bool has_nccl_calls;                  /* the process has NCCL's own ranges, which duplicate
                                           * those of frameworks */
    struct {
        int64_t id; /* id of StringIds; -1: empty */
        uint32_t name;
    } texts[DL_NSYS_TEXTS];
} dl_nsys_process;

typedef struct dl_nsys {
    sqlite3 *file;
    const char *path;
    sqlite3_stmt *find_text;
    dl_nsys_process **processes; /* [process_count] by host, device, pid */
    size_t process_count;
    int64_t base_ns;     /* added to all times */
    bool has_session;    /* the session's start time is known */
    uint64_t other_rows; /* rows of processes without device work */
    char *damaged;       /* names of tables that could not be read completely; NULL: none */
    uint64_t missing;    /* bytes missing compared with the size in the file's header */
} dl_nsys;

/* Rows of a table. Release with dl_nsys_rows_close. */
typedef struct dl_nsys_rows {
    dl_nsys *nsys;
    sqlite3_stmt *statement;
    bool damaged; /* the file ended or failed before the table's end */
} dl_nsys_rows;

/* Returns whether the table exists and has the column. */
bool dl_nsys_has_column(sqlite3 *file, const char *table, const char *column);

/* Selects columns[count] of `table`; missing columns read as NULL in every row. `rest` is the SQL
 * after the table's name ("WHERE ...", with existing columns only); "": all rows. Returns false if
 * the table or all of the columns are missing, or the table cannot be read (rows->damaged is then
 * set). */
bool dl_nsys_rows_open(dl_nsys_rows *rows, dl_nsys *nsys, const char *table,
                       const char *const *columns, size_t count, const char *rest);

/* Moves to the next row, initially to the first; returns false if there is none. */
bool dl_nsys_rows_next(dl_nsys_rows *rows);

void dl_nsys_rows_close(dl_nsys_rows *rows);

/* Accessors of a column of the row. NULL reads as 0 if unsigned, -1 if signed, "" as text (borrowed
 * until the next row). */
bool dl_nsys_has(const dl_nsys_rows *rows, int column);
int64_t dl_nsys_signed(const dl_nsys_rows *rows, int column);
uint64_t dl_nsys_unsigned(const dl_nsys_rows *rows, int column);
const char *dl_nsys_text(const dl_nsys_rows *rows, int column);

/* Returns the number that the query yields, or `otherwise` if there is none. */
int64_t dl_nsys_number(sqlite3 *file, const char *sql, int64_t otherwise);

#endif
