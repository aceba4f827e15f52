/* What the parts of the Nsight reader share: for nsys*.c only. */
#ifndef DL_TRACE_READERS_NSYS_STATE_H
#define DL_TRACE_READERS_NSYS_STATE_H

#include "trace/readers/nsys_table.h"
#include "trace/readers/reader.h"
#include "trace/readers/trace_builder.h"

/* Contexts of a process whose device is remembered. */
#define DL_NSYS_CONTEXTS 64
/* Texts by StringIds.id that are remembered, a power of two. */
#define DL_NSYS_TEXTS 4096

/* One process that becomes a trace. */
typedef struct dl_nsys_process {
    uint32_t pid;
    uint32_t device; /* the lowest that it works on */
    dl_trace_builder builder;
    uint32_t device_of[DL_NSYS_CONTEXTS]; /* by context id */
    size_t open_ranges;                   /* without an end */
    size_t unsized_calls;                 /* of collectives */
    bool has_nccl_calls;                  /* ranges of NCCL itself: those of frameworks repeat */
    struct {
        int64_t id; /* of StringIds, -1 = empty */
        uint32_t name;
    } texts[DL_NSYS_TEXTS];
} dl_nsys_process;

typedef struct dl_nsys {
    sqlite3 *file;
    const char *path;
    const dl_read_options *options;
    sqlite3_stmt *find_text;
    dl_nsys_process **processes; /* [process_count] by device and pid */
    size_t process_count;
    int64_t base_ns;     /* added to all times */
    bool has_session;    /* the time of day of its start is known */
    uint64_t other_rows; /* of processes without device work */
    char *damaged;       /* tables that could not be read to the end; NULL = none */
    uint64_t missing;    /* bytes that the file is shorter than it says */
} dl_nsys;

/* The process of a globalPid or globalTid; NULL if it has no device work. Without ids in the table
 * (column NULL) it is the only one. */
dl_nsys_process *dl_nsys_find_process(dl_nsys *nsys, const dl_nsys_rows *rows, int column);

/* Id of StringIds' text in the process's trace. */
uint32_t dl_nsys_name(dl_nsys *nsys, dl_nsys_process *process, int64_t id);

/* Ends a table's rows, and remembers it if it is damaged. */
void dl_nsys_end_rows(dl_nsys *nsys, dl_nsys_rows *rows, const char *table);

/* nsys_device.c, nsys_host.c: append the activities of all processes. */
void dl_nsys_read_device(dl_nsys *nsys);
void dl_nsys_read_host(dl_nsys *nsys);

#endif
