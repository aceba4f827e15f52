#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/trace/read_trace.h"

/* A path with characters that SQLite's URIs must escape. */
static const char path[] = "reader_nsys 100%25#a?b=c.sqlite";

static void write_file(const char *sql)
{
    sqlite3 *file = NULL;
    char *message = NULL;
    unlink(path);
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    if (sqlite3_exec(file, sql, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s", message);
    assert_int_equal(sqlite3_close(file), SQLITE_OK);
}

static dl_read_traces read_file(void)
{
    const dl_read_options options = {0};
    dl_read_traces traces = {0};
    dl_error err = {0};
    if (dl_read(&traces, path, &options, &err) != DL_OK) fail_msg("%s", err.text);
    assert_string_equal(traces.reader, "nsys");
    return traces;
}

/* Two processes, 300 on device 1 and 200 on device 0; ids are pid << 24 (| thread). */
static const char two_processes[] =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES (1, 'void gemm<float>(float*)'), (2, 'gemm'),"
    " (3, 'cudaLaunchKernel_v7000'), (4, 'ncclAllReduce'), (5, 'python3'), (6, 'buffer flush');"
    "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
    "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0');"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER);"
    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);"
    "CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT, cuDevice INTEGER);"
    "INSERT INTO TARGET_INFO_GPU VALUES (5, 'GPU of a test', 1);"
    "CREATE TABLE PROCESSES(globalPid INTEGER, pid INTEGER, name TEXT);"
    "INSERT INTO PROCESSES VALUES (200 << 24, 200, 'python3');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER,"
    " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
    " demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX INTEGER,"
    " gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,"
    " staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER,"
    " graphId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
    " (1000, 1500, 1, 2, 7, 11, 300 << 24, 1, 2, 32, 64, 2, 1, 256, 1, 1, 16, 32, NULL, NULL),"
    " (1100, 1700, 0, 1, 8, 12, 200 << 24, 1, 2, 32, 64, 2, 1, 256, 1, 1, 16, 32, 9, 4);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER,"
    " srcKind INTEGER, dstKind INTEGER, dstDeviceId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES"
    " (2000, 2100, 1, 7, 13, 300 << 24, 4096, 1, 1, 2, NULL),"
    " (2100, 2200, 1, 7, 13, 300 << 24, 512, 2, 2, 0, NULL),"
    " (2200, 2300, 1, 7, 13, 300 << 24, 64, 10, 2, 2, 3);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, globalTid INTEGER,"
    " correlationId INTEGER, nameId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, (300 << 24) + 301, 11, 3),"
    " (901, 950, (77 << 24) + 78, 1, 3);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER, end INTEGER, deviceId INTEGER,"
    " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
    " syncType INTEGER, eventId INTEGER, eventSyncId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES"
    " (3000, 3001, 0, 2, 9, 14, 300 << 24, 2, 6, 1234),"
    " (3100, 3101, 0, 2, 9, 14, 300 << 24, 2, 4294967295, 0),"
    " (3200, 3201, 0, 2, 4294967295, 14, 300 << 24, 1, 4294967295, 0);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT(timestamp INTEGER, deviceId INTEGER,"
    " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
    " eventId INTEGER, eventSyncId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (2900, 0, 2, 7, 15, 300 << 24, 6, 1234);"
    "CREATE TABLE PROFILER_OVERHEAD(start INTEGER, end INTEGER, globalTid INTEGER,"
    " nameId INTEGER);"
    "INSERT INTO PROFILER_OVERHEAD VALUES (10, 20, (300 << 24) + 301, 6);"
    "CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
    " textId INTEGER, globalTid INTEGER, domainId INTEGER);"
    "INSERT INTO NVTX_EVENTS VALUES"
    " (800, 960, 59, 'aten::mul, seq = 4, op_id = 17', NULL, (300 << 24) + 301, 0),"
    " (810, 820, 59, NULL, 4, (300 << 24) + 301, 1),"
    " (805, 830, 59, 'nccl:all_reduce', NULL, (300 << 24) + 301, 0),"
    " (700, NULL, 34, 'step 3', NULL, (300 << 24) + 301, 0),"
    " (700, NULL, 59, 'never ended', NULL, (300 << 24) + 301, 0),"
    " (700, 701, 75, 'a domain', NULL, (300 << 24) + 301, 1);";

static void processes_become_traces(void **state DL_UNUSED)
{
    write_file(two_processes);
    DL_AUTO(dl_read_free) dl_read_traces traces = read_file();
    assert_int_equal(traces.count, 2);
    const dl_read_trace *first = &traces.items[0], *second = &traces.items[1];
    assert_string_equal(dl_trace_meta(&first->trace, "rank"), "0");
    assert_string_equal(dl_trace_meta(&first->trace, "pid"), "200");
    assert_string_equal(dl_trace_meta(&first->trace, "command"), "python3");
    assert_string_equal(dl_trace_meta(&first->trace, "clock"), "realtime");
    assert_int_equal(first->trace.activity_count, 1);
    const dl_activity *kernel = find(first, DL_ACTIVITY_KERNEL, 0);
    assert_int_equal(kernel->object, (UINT64_C(4) << 32) + 9);
    assert_string_equal(dl_trace_meta(&second->trace, "device.1.name"), "GPU of a test");
    kernel = find(second, DL_ACTIVITY_KERNEL, 0);
    assert_string_equal(name_of(second, kernel), "void gemm<float>(float*)");
    assert_string_equal(second->trace.strings[kernel->detail],
                        "grid 64x2x1 block 256x1x1 shared 48 regs 32");
    assert_int_equal(kernel->start_ns, 1700000000000001000);
    assert_int_equal(kernel->duration_ns, 500);
    assert_int_equal(kernel->device, 1);
    assert_int_equal(kernel->stream, 7);
    assert_true(has_note(second, "does not record ranks"));
    assert_true(has_note(second, "1 host events of processes without device work"));
    assert_true(has_note(second, "1 calls of collectives"));
    assert_true(has_note(second, "1 ranges have no end"));
}

/* Selects a process by its number or its rank; an unknown one is rejected with the list of known
 * ones. */
static void one_process_can_be_chosen(void **state DL_UNUSED)
{
    write_file(two_processes);
    static const dl_read_options by[] = {{.process = "300"}, {.rank = "1"}};
    for (size_t i = 0; i < 2; i++) {
        DL_AUTO(dl_read_free) dl_read_traces traces = {0};
        dl_error err = {0};
        assert_int_equal(dl_read(&traces, path, &by[i], &err), DL_OK);
        assert_int_equal(traces.count, 1);
        assert_string_equal(dl_trace_meta(&traces.items[0].trace, "pid"), "300");
    }
    static const dl_read_options none[] = {{.process = "30"}, {.process = "300", .rank = "0"}};
    for (size_t i = 0; i < 2; i++) {
        dl_read_traces traces = {0};
        dl_error err = {0};
        assert_int_equal(dl_read(&traces, path, &none[i], &err), DL_ERR_NAME);
        assert_contains(err.text, "it holds process 200, rank 0; process 300, rank 1");
        assert_int_equal(traces.count, 0);
    }
}

/* Process 300 on two hosts, whose numbers are in the bits above the process's: two ranks, those of
 * the first host first. */
static void equal_processes_of_two_hosts_are_told_apart(void **state DL_UNUSED)
{
    write_file("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
               "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
               "CREATE TABLE TARGET_INFO_SYSTEM_ENV(globalVid INTEGER, name TEXT, value TEXT);"
               "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (2 << 48, 'Hostname', 'second'),"
               " (1 << 48, 'Hostname', 'first');"
               "CREATE TABLE PROCESSES(globalPid INTEGER, pid INTEGER, name TEXT);"
               "INSERT INTO PROCESSES VALUES ((1 << 48) + (300 << 24), 300, 'train'),"
               " ((2 << 48) + (300 << 24), 300, 'serve');"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER,"
               " deviceId INTEGER, correlationId INTEGER, globalPid INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
               " (1000, 1500, 0, 11, (2 << 48) + (300 << 24)),"
               " (1100, 1700, 1, 11, (1 << 48) + (300 << 24)),"
               " (1800, 1900, 1, 12, (1 << 48) + (300 << 24));"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER,"
               " globalTid INTEGER, correlationId INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
               " (900, 950, (2 << 48) + (300 << 24) + 301, 11),"
               " (800, 850, (3 << 48) + (300 << 24) + 301, 11);");
    static const struct {
        const char *rank, *host, *command;
        size_t kernels, calls;
    } expected[] = {{"0", "first", "train", 2, 0}, {"1", "second", "serve", 1, 1}};
    DL_AUTO(dl_read_free) dl_read_traces traces = read_file();
    assert_int_equal(traces.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const dl_trace *trace = &traces.items[i].trace;
        assert_string_equal(dl_trace_meta(trace, "rank"), expected[i].rank);
        assert_string_equal(dl_trace_meta(trace, "pid"), "300");
        assert_string_equal(dl_trace_meta(trace, "host"), expected[i].host);
        assert_string_equal(dl_trace_meta(trace, "command"), expected[i].command);
        assert_int_equal(trace->activity_count, expected[i].kernels + expected[i].calls);
    }
    assert_true(has_note(&traces.items[0], "1 host events of processes without device work"));
}

static void tables_become_activities(void **state DL_UNUSED)
{
    write_file(two_processes);
    DL_AUTO(dl_read_free) dl_read_traces traces = read_file();
    const dl_read_trace *item = &traces.items[1];
    const dl_activity *copy = find(item, DL_ACTIVITY_MEMCPY, 0);
    assert_int_equal(copy->copy, DL_COPY_H2D);
    assert_int_equal(copy->memory, DL_MEMORY_PINNED);
    assert_int_equal(copy->bytes, 4096);
    assert_int_equal(find(item, DL_ACTIVITY_MEMCPY, 1)->memory, DL_MEMORY_PAGEABLE);
    assert_int_equal(find(item, DL_ACTIVITY_MEMCPY, 2)->copy, DL_COPY_PEER);
    assert_int_equal(find(item, DL_ACTIVITY_MEMCPY, 2)->peer, 3);

    const dl_activity *call = find(item, DL_ACTIVITY_CALL, 0);
    assert_string_equal(name_of(item, call), "cudaLaunchKernel");
    assert_int_equal(call->thread, 301);
    assert_int_equal(call->correlation, 11);

    /* Devices of waits are those of their context; a wait without an event is for a stream or a
     * context. */
    const dl_activity *wait = find(item, DL_ACTIVITY_SYNC, 0);
    assert_string_equal(name_of(item, wait), "stream wait");
    assert_int_equal(wait->device, 1);
    assert_int_equal(wait->object, 1234);
    assert_int_equal(find(item, DL_ACTIVITY_EVENT, 0)->object, 1234);
    assert_int_equal(find(item, DL_ACTIVITY_EVENT, 0)->stream, 7);
    assert_string_equal(name_of(item, find(item, DL_ACTIVITY_SYNC, 1)), "stream");
    assert_string_equal(name_of(item, find(item, DL_ACTIVITY_SYNC, 2)), "context");

    const dl_activity *range = find(item, DL_ACTIVITY_RANGE, 0);
    assert_string_equal(name_of(item, range), "aten::mul");
    assert_int_equal(range->object, 17);
    assert_string_equal(name_of(item, find(item, DL_ACTIVITY_MARK, 0)), "step 3");
    assert_string_equal(name_of(item, find(item, DL_ACTIVITY_OVERHEAD, 0)), "buffer flush");
    /* NCCL's own range is used instead of the framework's around it. */
    const dl_activity *collective = find(item, DL_ACTIVITY_COLLECTIVE, 0);
    assert_string_equal(name_of(item, collective), "AllReduce");
    assert_int_equal(collective->start_ns, 1700000000000000810);
}

/* Without process ids and session, and with times before its start, the earliest time becomes 0. */
static void missing_columns_are_unknown(void **state DL_UNUSED)
{
    write_file("CREATE TABLE StringIds(id INTEGER, value TEXT);"
               "INSERT INTO StringIds VALUES (1, 'copy_kernel');"
               "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER,"
               " deviceId INTEGER, streamId INTEGER, correlationId INTEGER, shortName INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 100, 0, 7, 1, 1);"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER,"
               " correlationId INTEGER, globalTid INTEGER, nameId INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (-300, -200, 1, 1, 99);");
    DL_AUTO(dl_read_free) dl_read_traces traces = read_file();
    assert_int_equal(traces.count, 1);
    const dl_read_trace *item = &traces.items[0];
    assert_int_equal(find(item, DL_ACTIVITY_KERNEL, 0)->start_ns, 300);
    assert_string_equal(name_of(item, find(item, DL_ACTIVITY_KERNEL, 0)), "copy_kernel");
    assert_int_equal(find(item, DL_ACTIVITY_CALL, 0)->start_ns, 0);
    assert_string_equal(dl_trace_meta(&item->trace, "clock"), "session");
    assert_true(has_note(item, "time of day"));
    assert_true(has_note(item, "version is not given"));
}

/* A graph is recorded as a whole, on the device of the other work if it starts on the host; one
 * without times is left out. Tables without rows are named. */
static void what_is_not_recorded_is_noted(void **state DL_UNUSED)
{
    write_file("CREATE TABLE StringIds(id INTEGER, value TEXT);"
               "INSERT INTO StringIds VALUES (1, 'update_kernel');"
               "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
               "CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER);"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER,"
               " deviceId INTEGER, streamId INTEGER, correlationId INTEGER, shortName INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (900, 950, 3, 7, 2, 1);"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER, end INTEGER,"
               " deviceId INTEGER, streamId INTEGER, correlationId INTEGER, graphId INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (100, 800, 2147483647, 7, 1, 5),"
               " (0, 0, 3, 7, 3, 5);");
    dl_read_traces traces = read_file();
    assert_int_equal(traces.count, 1);
    const dl_read_trace *item = &traces.items[0];
    assert_int_equal(item->trace.activity_count, 2);
    const dl_activity *graph = find(item, DL_ACTIVITY_GRAPH, 0);
    assert_int_equal(graph->device, 3);
    assert_int_equal(graph->duration_ns, 700);
    assert_true(has_note(item, "2 launches of CUDA graphs are recorded without their kernels"));
    assert_true(has_note(item, "1 kernels, copies or graphs have no times"));
    assert_true(has_note(item, "(no rows of CUPTI_ACTIVITY_KIND_RUNTIME)"));
    assert_true(has_note(item, "(no rows of NVTX_EVENTS)"));
    dl_read_free(&traces);
    write_file(two_processes);
    traces = read_file();
    assert_false(has_note(&traces.items[0], "no rows of"));
    assert_false(has_note(&traces.items[0], "graphs"));
    dl_read_free(&traces);
}

static void other_databases_are_refused(void **state DL_UNUSED)
{
    const dl_read_options options = {0};
    dl_read_traces traces = {0};
    dl_error err = {0};
    write_file("CREATE TABLE other(a INTEGER);");
    assert_int_equal(dl_read(&traces, path, &options, &err), DL_ERR_FORMAT);
    assert_contains(err.text, "not an export of Nsight Systems");
    /* Only the magic. */
    assert_int_equal(truncate(path, 50), 0);
    assert_int_equal(dl_read(&traces, path, &options, &err), DL_ERR_FORMAT);
    unlink(path);
}

/* A file truncated anywhere is rejected, or read as far as possible and noted as incomplete. */
static void cut_files_are_said_to_be(void **state DL_UNUSED)
{
    const dl_read_options options = {0};
    struct stat whole;
    write_file(two_processes);
    assert_int_equal(stat(path, &whole), 0);
    size_t read = 0;
    for (off_t bytes = whole.st_size - 1; bytes > 0; bytes -= 1500) {
        DL_AUTO(dl_read_free) dl_read_traces traces = {0};
        dl_error err = {0};
        assert_int_equal(truncate(path, bytes), 0);
        dl_status status = dl_read(&traces, path, &options, &err);
        for (size_t i = 0; i < traces.count; i++) {
            assert_false(traces.items[i].trace.complete);
            assert_true(has_note(&traces.items[i], "the file is truncated"));
            read++;
        }
        if (status != DL_OK) assert_int_equal(traces.count, 0);
    }
    assert_true(read > 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_become_traces),
        cmocka_unit_test(one_process_can_be_chosen),
        cmocka_unit_test(equal_processes_of_two_hosts_are_told_apart),
        cmocka_unit_test(tables_become_activities),
        cmocka_unit_test(missing_columns_are_unknown),
        cmocka_unit_test(what_is_not_recorded_is_noted),
        cmocka_unit_test(other_databases_are_refused),
        cmocka_unit_test(cut_files_are_said_to_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
