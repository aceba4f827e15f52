/* The reader of Nsight exports, on damaged databases. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/status.h"
#include "tests/fuzz/fuzz_driver.h"
#include "trace/readers/reader.h"

/* Small pages, so that mutants hit many of them. */
static const char tables[] =
    "PRAGMA page_size = 512;"
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000'), (3, 'ncclAllReduce');"
    "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
    "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0');"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER);"
    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER,"
    " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
    " demangledName INTEGER, gridX INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 15, 1, 2, 7, 11, 300 << 24, 1, 64),"
    " (11, 17, 0, 1, 8, 12, 200 << 24, 1, 64);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER,"
    " streamId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (20, 21, 1, 7, 300 << 24, 4096, 1, 1);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, globalTid INTEGER,"
    " correlationId INTEGER, nameId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (9, 10, (300 << 24) + 301, 11, 2);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER, end INTEGER,"
    " contextId INTEGER, streamId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (3, 4, 2, 9, 300 << 24, 2, 6);"
    "CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
    " textId INTEGER, globalTid INTEGER);"
    "INSERT INTO NVTX_EVENTS VALUES (8, 9, 59, 'aten::mul, op_id = 17', NULL, (300 << 24) + 301),"
    " (8, 9, 59, NULL, 3, (300 << 24) + 301);";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static dl_fuzz_seed made;
    sqlite3 *file = NULL;
    sqlite3_int64 bytes = 0;
    if (sqlite3_open(":memory:", &file) == SQLITE_OK &&
        sqlite3_exec(file, tables, NULL, NULL, NULL) == SQLITE_OK)
        made.data = sqlite3_serialize(file, "main", &bytes, 0);
    sqlite3_close(file);
    made.bytes = (size_t)bytes;
    *seeds = &made;
    return made.data != NULL;
}

/* SQLite requires a file: one in memory for all inputs. */
static char path[] = "/dev/shm/fuzz_nsys.XXXXXX";

static void remove_file(void)
{
    unlink(path);
}

static void write_file(const uint8_t *data, size_t bytes)
{
    static int file = -1;
    if (file < 0) {
        file = mkstemp(path);
        atexit(remove_file);
    }
    bool written =
        file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, bytes, 0) == (ssize_t)bytes;
    DL_ASSERT(written, "cannot write %s", path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const dl_read_options options = {0};
    DL_AUTO(dl_read_free) dl_read_traces traces = {0};
    dl_error err = {0};
    write_file(data, bytes);
    dl_status status = dl_read(&traces, path, &options, &err);
    DL_ASSERT((status == DL_OK) == (traces.count > 0), "status %d, %zu traces", (int)status,
              traces.count);
    for (size_t t = 0; t < traces.count; t++) {
        const dl_trace *trace = &traces.items[t].trace;
        for (size_t i = 0; i < trace->activity_count; i++) {
            const dl_activity *a = &trace->activities[i];
            DL_ASSERT(dl_activity_valid(a) && a->name < trace->string_count &&
                          a->detail < trace->string_count,
                      "activity %zu is invalid", i);
        }
    }
    return 0;
}
