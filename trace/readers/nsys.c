#include "trace/readers/nsys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/readers/nsys_state.h"

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))
/* Where a globalPid and a globalTid hold the process's number (Nsight's documentation). */
#define PID_SHIFT 24
#define PID_MASK 0xFFFFFF

static const char *const device_tables[] = {
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"};
#define DEVICE_TABLES (sizeof device_tables / sizeof device_tables[0])

static bool recognises(const char *begin, size_t bytes)
{
    static const char magic[] = "SQLite format 3"; /* and its NUL */
    return bytes >= sizeof magic && memcmp(begin, magic, sizeof magic) == 0;
}

dl_nsys_process *dl_nsys_find_process(dl_nsys *nsys, const dl_nsys_rows *rows, int column)
{
    uint32_t pid = (uint32_t)(dl_nsys_unsigned(rows, column) >> PID_SHIFT) & PID_MASK;
    if (nsys->process_count == 1 && (pid == 0 || nsys->processes[0]->pid == 0))
        return nsys->processes[0];
    for (size_t i = 0; i < nsys->process_count; i++) {
        if (nsys->processes[i]->pid == pid) return nsys->processes[i];
    }
    nsys->other_rows++;
    return NULL;
}

uint32_t dl_nsys_name(dl_nsys *nsys, dl_nsys_process *process, int64_t id)
{
    size_t slot = (size_t)id & (DL_NSYS_TEXTS - 1);
    if (id < 0 || nsys->find_text == NULL) return 0;
    if (process->texts[slot].id == id) return process->texts[slot].name;
    uint32_t name = 0;
    sqlite3_bind_int64(nsys->find_text, 1, id);
    if (sqlite3_step(nsys->find_text) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(nsys->find_text, 0);
        if (text != NULL) name = dl_trace_builder_name(&process->builder, (const char *)text);
    }
    sqlite3_reset(nsys->find_text);
    process->texts[slot].id = id;
    process->texts[slot].name = name;
    return name;
}

void dl_nsys_end_rows(dl_nsys *nsys, dl_nsys_rows *rows, const char *table)
{
    dl_nsys_rows_close(rows);
    if (!rows->damaged) return;
    char *all =
        nsys->damaged != NULL ? dl_format("%s, %s", nsys->damaged, table) : dl_strdup(table);
    free(nsys->damaged);
    nsys->damaged = all;
}

static void add_process(dl_nsys *nsys, uint32_t pid, uint32_t device)
{
    for (size_t i = 0; i < nsys->process_count; i++) {
        dl_nsys_process *known = nsys->processes[i];
        if (known->pid != pid) continue;
        if (device < known->device) known->device = device;
        return;
    }
    nsys->processes = dl_realloc(nsys->processes, nsys->process_count + 1,
                                 sizeof(dl_nsys_process *), "processes");
    dl_nsys_process *process = dl_calloc(1, sizeof *process, "process");
    process->pid = pid;
    process->device = device;
    for (size_t i = 0; i < DL_NSYS_TEXTS; i++)
        process->texts[i].id = -1;
    dl_trace_builder_init(&process->builder, nsys->path);
    nsys->processes[nsys->process_count++] = process;
}

static int by_device_and_pid(const void *left, const void *right)
{
    const dl_nsys_process *a = *(dl_nsys_process *const *)left;
    const dl_nsys_process *b = *(dl_nsys_process *const *)right;
    int order = COMPARE(a->device, b->device);
    return order != 0 ? order : COMPARE(a->pid, b->pid);
}

/* Processes with device work; if there is none, those that call CUDA. */
static void find_processes(dl_nsys *nsys)
{
    const char *const columns[] = {"globalPid", "deviceId"};
    const char *const host_columns[] = {"globalTid"};
    dl_nsys_rows rows;
    for (size_t i = 0; i < DEVICE_TABLES; i++) {
        bool with_pid = dl_nsys_has_column(nsys->file, device_tables[i], "globalPid");
        if (!dl_nsys_rows_open(&rows, nsys->file, device_tables[i], columns, 2,
                               with_pid ? "GROUP BY globalPid, deviceId" : "GROUP BY deviceId"))
            continue;
        while (dl_nsys_rows_next(&rows))
            add_process(nsys, (uint32_t)(dl_nsys_unsigned(&rows, 0) >> PID_SHIFT) & PID_MASK,
                        (uint32_t)dl_nsys_unsigned(&rows, 1));
        dl_nsys_rows_close(&rows);
    }
    if (nsys->process_count == 0 &&
        dl_nsys_rows_open(&rows, nsys->file, "CUPTI_ACTIVITY_KIND_RUNTIME", host_columns, 1,
                          "GROUP BY globalTid >> 24")) {
        while (dl_nsys_rows_next(&rows))
            add_process(nsys, (uint32_t)(dl_nsys_unsigned(&rows, 0) >> PID_SHIFT) & PID_MASK, 0);
        dl_nsys_rows_close(&rows);
    }
    if (nsys->process_count == 0) add_process(nsys, 0, 0);
    qsort(nsys->processes, nsys->process_count, sizeof(dl_nsys_process *), by_device_and_pid);
}

/* One number, or `otherwise` if there is none. */
static int64_t find_number(sqlite3 *file, const char *sql, int64_t otherwise)
{
    sqlite3_stmt *statement = NULL;
    int64_t number = otherwise;
    if (sqlite3_prepare_v2(file, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

/* Times are of the session; those before its begin must not become negative. */
static void find_base(dl_nsys *nsys)
{
    static const char *const tables[] = {"CUPTI_ACTIVITY_KIND_KERNEL",
                                         "CUPTI_ACTIVITY_KIND_RUNTIME",
                                         "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS"};
    int64_t session_ns =
        find_number(nsys->file, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", -1);
    nsys->has_session = session_ns > 0;
    nsys->base_ns = nsys->has_session ? session_ns : 0;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char *sql = dl_format("SELECT min(start) FROM %s", tables[i]);
        int64_t first_ns = find_number(nsys->file, sql, 0);
        free(sql);
        if (first_ns < 0 && first_ns > INT64_MIN && nsys->base_ns < -first_ns)
            nsys->base_ns = -first_ns;
    }
}

/* Sets `key` to the text that the query gives. */
static void meta_of(dl_nsys *nsys, dl_nsys_process *process, const char *key, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(nsys->file, sql, -1, &statement, NULL) == SQLITE_OK) {
        if (sqlite3_bind_parameter_count(statement) > 0)
            sqlite3_bind_int64(statement, 1, process->pid);
        if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL)
            dl_trace_builder_meta(&process->builder, key, "%s",
                                  (const char *)sqlite3_column_text(statement, 0));
    }
    sqlite3_finalize(statement);
}

static void tell_devices(dl_nsys *nsys, dl_nsys_process *process)
{
    const char *const columns[] = {"id", "name", "cuDevice"};
    dl_nsys_rows rows;
    char key[40];
    if (!dl_nsys_rows_open(&rows, nsys->file, "TARGET_INFO_GPU", columns, 3, "")) return;
    while (dl_nsys_rows_next(&rows)) {
        int64_t id = dl_nsys_signed(&rows, dl_nsys_has(&rows, 2) ? 2 : 0);
        snprintf(key, sizeof key, "device.%" PRId64 ".name", id);
        dl_trace_builder_meta(&process->builder, key, "%s", dl_nsys_text(&rows, 1));
    }
    dl_nsys_rows_close(&rows);
}

static void tell_meta(dl_nsys *nsys, size_t rank)
{
    dl_nsys_process *process = nsys->processes[rank];
    dl_trace_builder *builder = &process->builder;
    meta_of(nsys, process, "host",
            "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'");
    meta_of(nsys, process, "command", "SELECT name FROM PROCESSES WHERE pid = ?1");
    meta_of(nsys, process, "schema",
            "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'");
    meta_of(nsys, process, "profiler",
            "SELECT 'Nsight Systems ' || value FROM META_DATA_EXPORT "
            "WHERE name = 'EXPORT_PRODUCT_VERSION'");
    tell_devices(nsys, process);
    if (process->pid != 0) dl_trace_builder_meta(builder, "pid", "%" PRIu32, process->pid);
    if (nsys->process_count > 1) dl_trace_builder_meta(builder, "rank", "%zu", rank);
    dl_trace_builder_meta(builder, "clock", nsys->has_session ? "realtime" : "session");
}

/* Warnings and errors of the profiler itself. */
static void note_diagnostics(dl_nsys *nsys, dl_read_trace *item)
{
    const char *const columns[] = {"text"};
    dl_nsys_rows rows;
    if (!dl_nsys_has_column(nsys->file, "DIAGNOSTIC_EVENT", "severity")) return;
    if (!dl_nsys_rows_open(&rows, nsys->file, "DIAGNOSTIC_EVENT", columns, 1,
                           "WHERE severity IN (2, 3) AND (text LIKE '%CUDA%' OR text LIKE '%lost%' "
                           "OR text LIKE '%dropped%') GROUP BY text LIMIT 10"))
        return;
    while (dl_nsys_rows_next(&rows)) {
        const char *text = dl_nsys_text(&rows, 0);
        dl_read_note(item, "Nsight warned: %.*s", (int)strcspn(text, "\r\n"), text);
    }
    dl_nsys_rows_close(&rows);
}

static void note(dl_nsys *nsys, const dl_nsys_process *process, dl_read_trace *item)
{
    const char *schema = dl_trace_meta(&process->builder.trace, "schema");
    if (schema == NULL || strncmp(schema, "3.", 2) != 0) {
        dl_read_note(item, "the schema's version is %s; this reader was tried with 3.13 to 3.25",
                     schema != NULL ? schema : "not told");
    }
    if (nsys->process_count > 1) {
        dl_read_note(item,
                     "Nsight does not record ranks: the file's %zu processes are numbered by "
                     "device",
                     nsys->process_count);
    }
    if (!nsys->has_session) dl_read_note(item, "the time of day is not recorded");
    if (process->unsized_calls > 0) {
        dl_read_note(item, "%zu calls of collectives do not tell their bytes and group",
                     process->unsized_calls);
    }
    if (process->open_ranges > 0)
        dl_read_note(item, "%zu ranges have no end and are left out", process->open_ranges);
    if (nsys->other_rows > 0) {
        dl_read_note(item, "%" PRIu64 " host events of processes without device work are left out",
                     nsys->other_rows);
    }
    if (nsys->missing > 0)
        dl_read_note(item, "the file is cut: %" PRIu64 " bytes are missing", nsys->missing);
    if (nsys->damaged != NULL) {
        dl_read_note(item, "the file is damaged: what could be read of these tables is taken: %s",
                     nsys->damaged);
    }
    note_diagnostics(nsys, item);
}

/* Bytes that the database lacks by the header of its file (www.sqlite.org/fileformat.html): the
 * library itself only fails where it needs a missing page. */
static uint64_t count_missing(const char *path)
{
    enum { PAGE_BYTES_AT = 16, PAGES_AT = 28, HEADER_BYTES = 100 };
    unsigned char header[HEADER_BYTES];
    FILE *in = fopen(path, "rb");
    if (in == NULL) return 0;
    uint64_t missing = 0;
    if (fread(header, 1, sizeof header, in) == sizeof header && fseek(in, 0, SEEK_END) == 0) {
        uint64_t page_bytes = (uint64_t)header[PAGE_BYTES_AT] << 8 | header[PAGE_BYTES_AT + 1];
        uint64_t pages = 0, bytes = (uint64_t)ftell(in);
        if (page_bytes == 1) page_bytes = 65536;
        for (int i = 0; i < 4; i++)
            pages = pages << 8 | header[PAGES_AT + i];
        if (pages * page_bytes > bytes) missing = pages * page_bytes - bytes;
    }
    fclose(in);
    return missing;
}

static bool is_nsight(sqlite3 *file)
{
    return dl_nsys_has_column(file, "StringIds", "value") &&
           dl_nsys_has_column(file, "META_DATA_EXPORT", "name");
}

/* The path as SQLite's URI for a file that nobody changes: without locks, and without the files
 * that a database in WAL mode gets beside it even for reading. free() it. */
static char *immutable_uri(const char *path)
{
    char *uri = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&uri, &bytes);
    DL_ASSERT(out != NULL, "no memory for %s", path);
    fprintf(out, "file:");
    for (const char *at = path; *at != '\0'; at++) {
        if (strchr("%?#", *at) != NULL) {
            fprintf(out, "%%%02X", (unsigned char)*at);
        } else {
            fputc(*at, out);
        }
    }
    fprintf(out, "?immutable=1");
    fclose(out);
    return uri;
}

static dl_status open_file(dl_nsys *nsys, dl_error *err)
{
    /* Two slashes in front would name a host. */
    char *uri =
        immutable_uri(nsys->path + strspn(nsys->path, "/") - (nsys->path[0] == '/' ? 1 : 0));
    int code = sqlite3_open_v2(uri, &nsys->file, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    free(uri);
    if (code != SQLITE_OK) {
        return dl_error_set_at(err, DL_ERR_IO, nsys->path, 0, "cannot open it: %s",
                               sqlite3_errmsg(nsys->file));
    }
    /* The file is somebody else's: its views and triggers get no functions with side effects. */
    sqlite3_db_config(nsys->file, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(nsys->file, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    code = sqlite3_exec(nsys->file, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        return dl_error_set_at(err, DL_ERR_FORMAT, nsys->path, 0, "it is damaged: %s",
                               sqlite3_errmsg(nsys->file));
    }
    if (!is_nsight(nsys->file)) {
        return dl_error_set_at(err, DL_ERR_FORMAT, nsys->path, 0,
                               "it is an SQLite database, but no export of Nsight Systems");
    }
    code = sqlite3_prepare_v2(nsys->file, "SELECT value FROM StringIds WHERE id = ?1", -1,
                              &nsys->find_text, NULL);
    if (code != SQLITE_OK) {
        return dl_error_set_at(err, DL_ERR_FORMAT, nsys->path, 0, "cannot read its texts: %s",
                               sqlite3_errmsg(nsys->file));
    }
    return DL_OK;
}

static void close_file(dl_nsys *nsys)
{
    for (size_t i = 0; i < nsys->process_count; i++) {
        dl_trace_builder_free(&nsys->processes[i]->builder);
        free(nsys->processes[i]);
    }
    free(nsys->processes);
    free(nsys->damaged);
    sqlite3_finalize(nsys->find_text);
    sqlite3_close(nsys->file);
}

static dl_status read_file(dl_read_traces *traces, const char *path, const dl_read_options *options,
                           dl_error *err)
{
    dl_nsys nsys = {.path = path, .options = options};
    dl_status status = open_file(&nsys, err);
    if (status == DL_OK) {
        nsys.missing = count_missing(path);
        find_processes(&nsys);
        find_base(&nsys);
        dl_nsys_read_device(&nsys);
        dl_nsys_read_host(&nsys);
        for (size_t i = 0; i < nsys.process_count; i++) {
            dl_read_trace *item = dl_read_add(traces);
            tell_meta(&nsys, i);
            note(&nsys, nsys.processes[i], item);
            nsys.processes[i]->builder.trace.complete = nsys.damaged == NULL && nsys.missing == 0;
            dl_trace_builder_finish(&nsys.processes[i]->builder, &item->trace);
        }
    }
    close_file(&nsys);
    return status;
}

const dl_trace_reader dl_nsys_reader = {"nsys", "SQLite export of Nsight Systems", recognises,
                                        read_file};
