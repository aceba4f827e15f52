#include "tests/check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/random.h"
#include "trace/dlt/codec.h"
#include "trace/dlt/dlt.h"

#define PATH "test_dlt.dlt"

static dl_trace_writer *open_writer(const char *path)
{
    dl_trace_writer *writer = NULL;
    dl_error err = {0};
    if (dl_trace_writer_open(&writer, path, &err) != DL_OK) fail_msg("%s", err.text);
    return writer;
}

static void close_writer(dl_trace_writer *writer)
{
    dl_error err = {0};
    if (dl_trace_writer_close(&writer, &err) != DL_OK) fail_msg("%s", err.text);
    assert_null(writer);
}

static dl_trace read_trace(const char *path)
{
    dl_trace trace = {0};
    dl_error err = {0};
    if (dl_trace_read(&trace, path, &err) != DL_OK) fail_msg("%s", err.text);
    return trace;
}

/* Returns a number of random length, so that varints of all lengths occur. */
static uint64_t random_size(dl_random *random, unsigned bits)
{
    return dl_random_u64(random) >> (64 - 1 - dl_random_below(random, bits));
}

/* Returns a random valid record of `worker`; about half of its fields are absent. */
static dl_record random_record(dl_random *random, uint32_t worker, uint32_t names)
{
    unsigned has = dl_random_u32(random);
    dl_record r = {.kind = (dl_record_kind)(1 + dl_random_below(random, 8)),
                   .phase = (dl_phase)dl_random_below(random, 6),
                   .worker = worker,
                   .staleness = DL_NO_STALENESS};
    if (has & 1) r.name = (uint32_t)dl_random_below(random, names);
    if (has & 2) r.step = (uint32_t)random_size(random, 32);
    if (has & 4) r.samples = (uint32_t)random_size(random, 32);
    if (has & 8) r.vectors = (uint32_t)random_size(random, 32);
    if (has & 16) r.threads = (uint32_t)random_size(random, 32);
    if (has & 32) r.bytes = random_size(random, 64);
    if (has & 64) r.staleness = (int64_t)random_size(random, 63);
    r.start_ns = (int64_t)random_size(random, 62);
    r.duration_ns = (int64_t)random_size(random, 62);
    return r;
}

/* Returns a random valid activity of `thread`; about half of its fields are absent. */
static dl_activity random_activity(dl_random *random, uint32_t thread, uint32_t names)
{
    unsigned has = dl_random_u32(random);
    dl_activity a = {.kind = (uint8_t)(1 + dl_random_below(random, DL_ACTIVITY_KIND_END - 1)),
                     .thread = thread};
    if (has & 1) a.name = (uint32_t)dl_random_below(random, names);
    if (has & 2) a.detail = (uint32_t)dl_random_below(random, names);
    if (has & 4) a.copy = (uint8_t)dl_random_below(random, DL_COPY_DIRECTION_END);
    if (has & 8) a.memory = (uint8_t)dl_random_below(random, DL_HOST_MEMORY_END);
    if (has & 16) a.device = (uint32_t)random_size(random, 32);
    if (has & 32) a.stream = (uint32_t)random_size(random, 32);
    if (has & 64) a.correlation = (uint32_t)random_size(random, 32);
    if (has & 128) a.peer = (uint32_t)random_size(random, 32);
    if (has & 256) a.count = (uint32_t)random_size(random, 32);
    if (has & 512) a.bytes = random_size(random, 64);
    if (has & 1024) a.object = random_size(random, 64);
    a.start_ns = (int64_t)random_size(random, 62);
    /* A copy that overlaps the next work on its stream would be truncated. */
    if (a.kind != DL_ACTIVITY_MEMCPY && a.kind != DL_ACTIVITY_MEMSET)
        a.duration_ns = (int64_t)random_size(random, 62);
    return a;
}

static void assert_same_activity(const dl_activity *a, const dl_activity *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->copy, b->copy);
    assert_int_equal(a->memory, b->memory);
    assert_int_equal(a->name, b->name);
    assert_int_equal(a->detail, b->detail);
    assert_int_equal(a->device, b->device);
    assert_int_equal(a->stream, b->stream);
    assert_int_equal(a->thread, b->thread);
    assert_int_equal(a->correlation, b->correlation);
    assert_int_equal(a->peer, b->peer);
    assert_int_equal(a->count, b->count);
    assert_true(a->bytes == b->bytes);
    assert_true(a->object == b->object);
    assert_true(a->start_ns == b->start_ns);
    assert_true(a->duration_ns == b->duration_ns);
}

enum { THREADS = 3, RECORDS = 20000, NAMES = 200 };

typedef struct thread_work {
    dl_trace_writer *writer;
    uint32_t worker;
    dl_record *records;
    dl_activity *activities;
} thread_work;

static void *append_random(void *argument)
{
    thread_work *work = argument;
    dl_trace_stream *stream = dl_trace_writer_stream(work->writer);
    dl_random random;
    dl_random_init(&random, 1, 0, 0, work->worker);
    for (int i = 0; i < RECORDS; i++) {
        if (i < NAMES) {
            char name[32];
            snprintf(name, sizeof name, "name %d", i);
            dl_trace_writer_intern(work->writer, name);
        }
        work->records[i] = random_record(&random, work->worker, (uint32_t)(i % NAMES) + 1);
        dl_trace_stream_append(stream, &work->records[i]);
        work->activities[i] = random_activity(&random, work->worker, (uint32_t)(i % NAMES) + 1);
        dl_trace_stream_append_activity(stream, &work->activities[i]);
    }
    return NULL;
}

/* Three threads append random records and activities alternately, one stream each, while they
 * intern the same names: each thread's data read back equal and in order, and equal names have one
 * id. */
static void test_round_trip(void **state DL_UNUSED)
{
    dl_trace_writer *writer = open_writer(PATH);
    thread_work work[THREADS];
    pthread_t threads[THREADS];
    for (uint32_t w = 0; w < THREADS; w++) {
        work[w] = (thread_work){writer, w, dl_calloc(RECORDS, sizeof(dl_record), "test"),
                                dl_calloc(RECORDS, sizeof(dl_activity), "test")};
        assert_int_equal(pthread_create(&threads[w], NULL, append_random, &work[w]), 0);
    }
    for (int w = 0; w < THREADS; w++)
        pthread_join(threads[w], NULL);
    close_writer(writer);

    DL_SCOPED(dl_trace) trace = read_trace(PATH);
    assert_true(trace.complete);
    assert_int_equal(trace.bytes_ignored, 0);
    assert_int_equal(trace.record_count, THREADS * RECORDS);
    assert_int_equal(trace.worker_count, THREADS);
    assert_int_equal(trace.string_count, NAMES + 1);
    size_t next[THREADS] = {0};
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *r = &trace.records[i];
        assert_memory_equal(r, &work[r->worker].records[next[r->worker]++], sizeof *r);
    }
    assert_int_equal(trace.activity_count, THREADS * RECORDS);
    size_t next_activity[THREADS] = {0};
    for (size_t i = 0; i < trace.activity_count; i++) {
        const dl_activity *a = &trace.activities[i];
        assert_same_activity(a, &work[a->thread].activities[next_activity[a->thread]++]);
    }
    for (int w = 0; w < THREADS; w++) {
        free(work[w].records);
        free(work[w].activities);
    }
}

/* A copy of 1 ms before a kernel that starts after 10 us. */
static void test_late_ends(void **state DL_UNUSED)
{
    dl_trace_writer *writer = open_writer(PATH);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    const dl_activity works[] = {
        {.kind = DL_ACTIVITY_MEMCPY, .correlation = 1, .start_ns = 5000, .duration_ns = 1000000},
        {.kind = DL_ACTIVITY_KERNEL, .correlation = 2, .start_ns = 15000, .duration_ns = 70}};
    for (int i = 0; i < 2; i++)
        dl_trace_stream_append_activity(stream, &works[i]);
    close_writer(writer);
    DL_SCOPED(dl_trace) trace = read_trace(PATH);
    assert_int_equal(trace.activities[0].duration_ns, 10000);
    assert_int_equal(trace.activities[1].duration_ns, 70);
    assert_int_equal(trace.late_ends, 1);
    assert_int_equal(trace.late_worst_ns, 990000);
}

/* Equal texts have one id, also beyond the initial size of the table; "" is 0 and takes no
 * entry. */
static void test_names(void **state DL_UNUSED)
{
    dl_trace_writer *writer = open_writer(PATH);
    assert_int_equal(dl_trace_writer_intern(writer, ""), 0);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 1000; i++) {
            char name[32];
            snprintf(name, sizeof name, "layer%u", i);
            assert_int_equal(dl_trace_writer_intern(writer, name), i + 1);
        }
    }
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    dl_record record = {.kind = DL_RECORD_COMPUTE, .staleness = DL_NO_STALENESS, .name = 1000};
    dl_trace_stream_append(stream, &record);
    record.name = 0;
    dl_trace_stream_append(stream, &record);
    close_writer(writer);
    DL_SCOPED(dl_trace) trace = read_trace(PATH);
    assert_int_equal(trace.string_count, 1001);
    assert_string_equal(dl_trace_name(&trace, &trace.records[0]), "layer999");
    assert_string_equal(dl_trace_name(&trace, &trace.records[1]), "");
    record.name = 1001;
    assert_string_equal(dl_trace_name(&trace, &record), "");
}

static void test_meta(void **state DL_UNUSED)
{
    dl_trace_writer *writer = open_writer(PATH);
    dl_trace_writer_meta(writer, "model", "lenet");
    dl_trace_writer_meta(writer, "steps", "10");
    dl_trace_writer_meta(writer, "slow", "");
    dl_trace_writer_meta(writer, "steps", "12");
    close_writer(writer);
    dl_trace trace = read_trace(PATH);
    assert_int_equal(trace.meta_count, 3);
    assert_string_equal(dl_trace_meta(&trace, "model"), "lenet");
    assert_string_equal(dl_trace_meta(&trace, "steps"), "12");
    assert_string_equal(dl_trace_meta(&trace, "slow"), "");
    assert_null(dl_trace_meta(&trace, "Model"));
    assert_int_equal(trace.record_count, 0);
    assert_int_equal(trace.worker_count, 0);
    dl_trace_free(&trace);
    dl_trace_free(&trace); /* freeing twice is allowed */
}

/* Writes a small trace of all chunk types: meta, two names, records of two streams in two chunks
 * each, and activities of one of them in two. */
static void write_small(const char *path, char **data, size_t *bytes)
{
    dl_trace_writer *writer = open_writer(path);
    dl_trace_writer_meta(writer, "kind", "train");
    dl_trace_stream *streams[2] = {dl_trace_writer_stream(writer), dl_trace_writer_stream(writer)};
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t name = dl_trace_writer_intern(writer, i < 6 ? "conv1" : "dense");
        dl_record record = {.kind = DL_RECORD_COMPUTE,
                            .phase = DL_PHASE_FORWARD,
                            .worker = i % 2,
                            .name = name,
                            .step = i,
                            .bytes = 1000 * i,
                            .staleness = i,
                            .start_ns = 1000 + 100 * i,
                            .duration_ns = 90};
        dl_trace_stream_append(streams[i % 2], &record);
        dl_activity activity = {.kind = (uint8_t)(1 + i), .detail = name, .start_ns = 500 * i};
        dl_trace_stream_append_activity(streams[1], &activity);
        if (i == 7) dl_trace_stream_flush(streams[0]);
        if (i == 8) dl_trace_stream_flush(streams[1]);
    }
    close_writer(writer);
    dl_error err = {0};
    assert_int_equal(dl_file_read(path, data, bytes, &err), DL_OK);
}

/* Reads a block of exactly these bytes, so that a sanitizer detects a read beyond them. */
static dl_status read_copy(dl_trace *trace, const char *data, size_t bytes)
{
    dl_error err = {0};
    DL_AUTOFREE void *copy = dl_realloc(NULL, bytes, 1, "test");
    if (bytes > 0) memcpy(copy, data, bytes);
    dl_status status = dl_trace_read_bytes(trace, "bytes", copy, bytes, &err);
    assert_int_equal(status, err.code);
    return status;
}

/* Truncated at every byte: up to the first whole chunk it is not a trace; after that the content of
 * whole chunks is read, the rest is counted, and only the whole file is complete. */
static void test_cut_anywhere(void **state DL_UNUSED)
{
    char *data;
    size_t bytes, records_before = 0, activities_before = 0;
    write_small(PATH, &data, &bytes);
    size_t first_end =
        DL_DLT_HEADER_BYTES + DL_DLT_CHUNK_HEADER_BYTES + sizeof "kind" + sizeof "train";
    for (size_t cut = 0; cut <= bytes; cut++) {
        DL_SCOPED(dl_trace) trace = {0};
        dl_status status = read_copy(&trace, data, cut);
        assert_int_equal(status, cut < first_end ? DL_ERR_FORMAT : DL_OK);
        if (status != DL_OK) continue;
        assert_string_equal(dl_trace_meta(&trace, "kind"), "train");
        assert_int_equal(trace.complete, cut == bytes);
        assert_true(trace.record_count >= records_before);
        records_before = trace.record_count;
        assert_true(trace.activity_count >= activities_before);
        activities_before = trace.activity_count;
    }
    assert_int_equal(records_before, 12);
    assert_int_equal(activities_before, 12);
    free(data);
}

/* Each single flipped bit is detected: in the header the file is rejected; in a chunk the reading
 * ends before that chunk, so the result is a prefix of the original and never complete. */
static void test_bit_flips(void **state DL_UNUSED)
{
    char *data;
    size_t bytes;
    write_small(PATH, &data, &bytes);
    DL_SCOPED(dl_trace) whole = {0};
    assert_int_equal(read_copy(&whole, data, bytes), DL_OK);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        DL_SCOPED(dl_trace) trace = {0};
        data[bit / 8] ^= (char)(1 << bit % 8);
        dl_status status = read_copy(&trace, data, bytes);
        data[bit / 8] ^= (char)(1 << bit % 8);
        if (bit < 8 * DL_DLT_HEADER_BYTES) assert_int_equal(status, DL_ERR_FORMAT);
        if (status != DL_OK) continue;
        assert_false(trace.complete);
        assert_true(bytes - trace.bytes_ignored <= bit / 8);
        assert_true(trace.record_count <= whole.record_count);
        assert_true(trace.activity_count <= whole.activity_count);
        for (size_t i = 0; i < trace.activity_count; i++)
            assert_same_activity(&trace.activities[i], &whole.activities[i]);
        if (trace.record_count > 0) {
            assert_memory_equal(trace.records, whole.records,
                                trace.record_count * sizeof *trace.records);
        }
    }
    free(data);
}

/* Reads a file of header, one META chunk and one sealed chunk of `type` with this payload. Returns
 * whether the second chunk was accepted. */
static bool chunk_taken(uint32_t type, const void *payload, uint32_t payload_bytes)
{
    uint8_t file[512] = DL_DLT_MAGIC;
    dl_dlt_put_u32(file + DL_DLT_MAGIC_BYTES, DL_DLT_VERSION);
    uint8_t *chunk = file + DL_DLT_HEADER_BYTES;
    memcpy(chunk + DL_DLT_CHUNK_HEADER_BYTES, "k\0v", 4);
    dl_dlt_chunk_seal(chunk, DL_DLT_META, 4);
    chunk += DL_DLT_CHUNK_HEADER_BYTES + 4;
    if (payload_bytes > 0) memcpy(chunk + DL_DLT_CHUNK_HEADER_BYTES, payload, payload_bytes);
    dl_dlt_chunk_seal(chunk, (dl_dlt_chunk)type, payload_bytes);
    size_t bytes = (size_t)(chunk - file) + DL_DLT_CHUNK_HEADER_BYTES + payload_bytes;
    DL_SCOPED(dl_trace) trace = {0};
    assert_int_equal(read_copy(&trace, (const char *)file, bytes), DL_OK);
    assert_string_equal(dl_trace_meta(&trace, "k"), "v");
    bool taken = trace.bytes_ignored == 0;
    if (!taken) {
        assert_int_equal(trace.bytes_ignored, DL_DLT_CHUNK_HEADER_BYTES + payload_bytes);
        assert_int_equal(trace.meta_count, 1);
        assert_int_equal(trace.string_count, 1);
        assert_int_equal(trace.record_count, 0);
        assert_int_equal(trace.activity_count, 0);
        assert_int_equal(trace.worker_count, 0);
    }
    return taken;
}

/* Chunks with a correct checksum and invalid content are rejected as a whole. */
static void test_wrong_chunks(void **state DL_UNUSED)
{
    assert_true(chunk_taken(DL_DLT_META, "a\0b\0c\0", 7)); /* a = b, c = "" */
    assert_false(chunk_taken(DL_DLT_META, "", 0));
    assert_false(chunk_taken(DL_DLT_META, "a\0b\0c", 6)); /* a key without value */
    assert_false(chunk_taken(DL_DLT_META, "a\0b", 3));    /* unterminated text */
    assert_true(chunk_taken(DL_DLT_STRINGS, "\1\0\0\0a\0b", 8));
    assert_false(chunk_taken(DL_DLT_STRINGS, "\1\0\0", 3));
    assert_false(chunk_taken(DL_DLT_STRINGS, "\1\0\0\0ab", 6));
    assert_false(chunk_taken(DL_DLT_STRINGS, "\2\0\0\0ab", 7)); /* id 1 is missing */
    assert_false(chunk_taken(DL_DLT_STRINGS, "\0\0\0\0ab", 7)); /* id 0 is reserved */
    assert_true(chunk_taken(DL_DLT_RECORDS, "\1\0\0\0\2\0\5", 7));
    assert_false(chunk_taken(DL_DLT_RECORDS, "\1\0\0", 3));
    assert_false(chunk_taken(DL_DLT_RECORDS, "\2\0\0\0\2\0\5", 7));            /* one too few */
    assert_false(chunk_taken(DL_DLT_RECORDS, "\1\0\0\0\2\0\5\2\0\5", 10));     /* one too many */
    assert_false(chunk_taken(DL_DLT_RECORDS, "\1\0\0\0\2\0\x85", 7));          /* cut varint */
    assert_false(chunk_taken(DL_DLT_RECORDS, "\2\0\0\0\2\1\2\5\2\0\x85", 11)); /* second is bad */
    assert_false(chunk_taken(DL_DLT_RECORDS, "\1\0\0\0\2\x08\1\5", 8));        /* unknown name */
    assert_false(chunk_taken(DL_DLT_RECORDS, "\xFF\xFF\xFF\xFF\2\0\5", 7));    /* absurd count */
    assert_true(chunk_taken(DL_DLT_ACTIVITIES, "\1\0\0\0\1\0\5", 7));
    assert_false(chunk_taken(DL_DLT_ACTIVITIES, "\1\0\0", 3));
    assert_false(chunk_taken(DL_DLT_ACTIVITIES, "\2\0\0\0\1\0\5", 7));          /* one too few */
    assert_false(chunk_taken(DL_DLT_ACTIVITIES, "\1\0\0\0\1\0\5\1\0\5", 10));   /* one too many */
    assert_false(chunk_taken(DL_DLT_ACTIVITIES, "\2\0\0\0\1\0\5\1\0\x85", 10)); /* second is bad */
    assert_false(chunk_taken(DL_DLT_ACTIVITIES, "\1\0\0\0\1\1\1\5", 8));        /* unknown name */
    assert_false(chunk_taken(DL_DLT_ACTIVITIES, "\1\0\0\0\1\2\1\5", 8));        /* unknown detail */
    assert_false(chunk_taken(DL_DLT_ACTIVITIES, "\xFF\xFF\xFF\xFF\1\0\5", 7));
    assert_true(chunk_taken(DL_DLT_END, "", 0));
    assert_false(chunk_taken(DL_DLT_END, "x", 1));
    assert_false(chunk_taken(0, "", 0));
    assert_false(chunk_taken(DL_DLT_ACTIVITIES + 1, "", 0));
}

static void test_refused_files(void **state DL_UNUSED)
{
    dl_trace trace = {0};
    dl_error err = {0};
    assert_int_equal(dl_trace_read(&trace, "no/such/file.dlt", &err), DL_ERR_IO);
    assert_string_equal(err.file, "no/such/file.dlt");
    assert_int_equal(dl_trace_read(&trace, ".", &err), DL_ERR_IO);
    assert_int_equal(dl_trace_read_bytes(&trace, "t", "", 0, &err), DL_ERR_FORMAT);
    const char json[] = "{\"traceEvents\":[]}";
    assert_int_equal(dl_trace_read_bytes(&trace, "t", json, sizeof json, &err), DL_ERR_FORMAT);
    assert_contains(err.text, "not a .dlt trace");
    const char version_2[] = "DLTRACE\n\2\0\0\0\0\0\0";
    assert_int_equal(dl_trace_read_bytes(&trace, "t", version_2, 16, &err), DL_ERR_FORMAT);
    assert_contains(err.text, "version 2");
    /* Endless, but only the start is read. */
    if (access("/dev/zero", R_OK) == 0) {
        assert_int_equal(dl_trace_read(&trace, "/dev/zero", &err), DL_ERR_FORMAT);
    }
    const char reserved[] = "DLTRACE\n\1\0\0\0\1\0\0";
    assert_int_equal(dl_trace_read_bytes(&trace, "t", reserved, 16, &err), DL_ERR_FORMAT);
    const char only_header[] = "DLTRACE\n\1\0\0\0\0\0\0";
    assert_int_equal(dl_trace_read_bytes(&trace, "t", only_header, 16, &err), DL_ERR_FORMAT);
    assert_contains(err.text, "no whole chunk");
    assert_null(trace.records);

    dl_trace_writer *writer = NULL;
    assert_int_equal(dl_trace_writer_open(&writer, "no/such/dir/t.dlt", &err), DL_ERR_IO);
    assert_int_equal(dl_trace_writer_open(&writer, "/dev/full", &err), DL_ERR_IO);
    assert_string_equal(err.file, "/dev/full");
    assert_null(writer);
}

/* Bytes after END are ignored and counted. */
static void test_bytes_after_the_end(void **state DL_UNUSED)
{
    char *data;
    size_t bytes;
    write_small(PATH, &data, &bytes);
    data = dl_realloc(data, bytes + 5, 1, "test");
    memset(data + bytes, 'x', 5);
    DL_SCOPED(dl_trace) trace = {0};
    assert_int_equal(read_copy(&trace, data, bytes + 5), DL_OK);
    assert_true(trace.complete);
    assert_int_equal(trace.bytes_ignored, 5);
    free(data);
}

/* Records of one worker every 100 ms, named; the writer is open. At the end of the record at 1.0 s
 * the chunk begun at 0.1 s (end of the first record) was written at 0.6 s, and the second is not
 * due before 1.1 s: 6 records are in the file. */
static void test_flush_by_time(void **state DL_UNUSED)
{
    dl_trace_writer *writer = open_writer(PATH);
    uint32_t name = dl_trace_writer_intern(writer, "conv1");
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    for (int i = 0; i < 10; i++) {
        dl_record record = {.kind = DL_RECORD_COMPUTE,
                            .name = name,
                            .staleness = DL_NO_STALENESS,
                            .start_ns = i * 100000000LL,
                            .duration_ns = 100000000LL};
        dl_trace_stream_append(stream, &record);
    }
    dl_trace trace = read_trace(PATH);
    assert_false(trace.complete);
    assert_int_equal(trace.record_count, 6);
    assert_string_equal(dl_trace_name(&trace, &trace.records[5]), "conv1");
    dl_trace_free(&trace);
    dl_trace_stream_flush(stream);
    dl_trace_stream_flush(stream); /* nothing left: writes nothing */
    trace = read_trace(PATH);
    assert_int_equal(trace.record_count, 10);
    dl_trace_free(&trace);
    close_writer(writer);
}

/* A child appends endlessly and is killed (SIGKILL) once the file exceeds 1 MB: meta, names and the
 * records of all complete chunks are readable, in order and without gaps. */
static void test_killed_writer(void **state DL_UNUSED)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dl_trace_writer *writer = NULL;
        dl_error err = {0};
        if (dl_trace_writer_open(&writer, "test_dlt_killed.dlt", &err) != DL_OK) _exit(1);
        dl_trace_writer_meta(writer, "model", "lenet");
        dl_record record = {.kind = DL_RECORD_COMPUTE, .staleness = DL_NO_STALENESS};
        record.name = dl_trace_writer_intern(writer, "conv1");
        dl_trace_stream *stream = dl_trace_writer_stream(writer);
        for (uint32_t i = 0;; i++) {
            record.step = i;
            record.start_ns = 1000LL * i;
            record.duration_ns = 999;
            dl_trace_stream_append(stream, &record);
        }
    }
    long size = 0;
    while (size < 1000000 && waitpid(child, NULL, WNOHANG) == 0) {
        FILE *file = fopen("test_dlt_killed.dlt", "rb");
        if (file == NULL) continue;
        fseek(file, 0, SEEK_END);
        size = ftell(file);
        fclose(file);
    }
    kill(child, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    DL_SCOPED(dl_trace) trace = read_trace("test_dlt_killed.dlt");
    unlink("test_dlt_killed.dlt");
    assert_false(trace.complete);
    assert_string_equal(dl_trace_meta(&trace, "model"), "lenet");
    assert_true(trace.record_count > 50000);
    for (size_t i = 0; i < trace.record_count; i++) {
        assert_int_equal(trace.records[i].step, i);
        assert_int_equal(trace.records[i].start_ns, 1000 * i);
    }
    assert_string_equal(dl_trace_name(&trace, &trace.records[0]), "conv1");
}

/* The system allows 100,000 bytes (a partial write, then EFBIG): appending continues, close reports
 * the number of lost records, and earlier data are readable. */
static void test_full_disk(void **state DL_UNUSED)
{
    enum { APPENDED = 200000 };
    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 100000;
    void (*old_handler)(int) = signal(SIGXFSZ, SIG_IGN);
    dl_trace_writer *writer = open_writer(PATH);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (uint32_t i = 0; i < APPENDED; i++) {
        dl_record record = {
            .kind = DL_RECORD_STEP, .step = i, .staleness = 3, .start_ns = i, .duration_ns = 1};
        dl_trace_stream_append(stream, &record);
    }
    dl_error err = {0};
    dl_status status = dl_trace_writer_close(&writer, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, old_handler);
    assert_int_equal(status, DL_ERR_IO);
    assert_null(writer);
    assert_string_equal(err.file, PATH);
    DL_SCOPED(dl_trace) trace = read_trace(PATH);
    assert_false(trace.complete);
    assert_true(trace.record_count > 0);
    char lost[64];
    snprintf(lost, sizeof lost, "%zu records lost", APPENDED - trace.record_count);
    assert_contains(err.text, lost);
}

/* Fewer records than a chunk holds, for a part of which the file has room: these are kept, followed
 * by the reason. SIGXFSZ has its default action. */
static void test_full_disk_and_few_records(void **state DL_UNUSED)
{
    enum { APPENDED = 200, ROOM = 700 };
    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = ROOM;
    void (*old_handler)(int) = signal(SIGXFSZ, SIG_DFL);
    for (int activities = 0; activities < 2; activities++) {
        dl_trace_writer *writer = open_writer(PATH);
        const uint32_t name = dl_trace_writer_intern(writer, "conv1");
        dl_trace_stream *stream = dl_trace_writer_stream(writer);
        for (uint32_t i = 0; i < APPENDED; i++) {
            const dl_record record = {
                .kind = DL_RECORD_STEP, .step = i, .start_ns = 10 * i, .duration_ns = 1};
            const dl_activity activity = {
                .kind = DL_ACTIVITY_KERNEL, .name = name, .start_ns = 10 * i, .duration_ns = 1};
            if (activities) dl_trace_stream_append_activity(stream, &activity);
            if (!activities) dl_trace_stream_append(stream, &record);
        }
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        dl_trace_stream_flush(stream);
        const uint64_t lost = dl_trace_writer_look(writer).lost;
        assert_int_equal(dl_trace_writer_look(writer).error, EFBIG);
        dl_trace_writer_meta(writer, "stopped", "cannot write: File too large");
        dl_error err = {0};
        const dl_status status = dl_trace_writer_close(&writer, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, DL_ERR_IO);
        DL_SCOPED(dl_trace) trace = read_trace(PATH);
        const size_t kept = activities ? trace.activity_count : trace.record_count;
        assert_in_range(kept, 20, APPENDED - 1);
        assert_int_equal(kept + lost, APPENDED);
        assert_int_equal(trace.bytes_ignored, 0);
        assert_false(trace.complete);
        assert_string_equal(dl_trace_meta(&trace, "stopped"), "cannot write: File too large");
        for (size_t i = 0; i < kept; i++) {
            assert_int_equal(activities ? trace.activities[i].start_ns : trace.records[i].start_ns,
                             10 * i);
        }
    }
    signal(SIGXFSZ, old_handler);
}

typedef struct interruption {
    pthread_t thread;
    atomic_bool done;
} interruption;

static void *interrupt(void *argument)
{
    interruption *target = argument;
    while (!atomic_load(&target->done)) {
        pthread_kill(target->thread, SIGUSR1);
        usleep(200);
    }
    return NULL;
}

/* Activities are in the file after a flush of their stream, whatever their times; a chunk is
 * written automatically only when it is full. */
static void test_flush_of_activities(void **state DL_UNUSED)
{
    dl_trace_writer *writer = open_writer(PATH);
    dl_trace_writer_meta(writer, "rank", "0");
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    dl_activity activity = {.kind = DL_ACTIVITY_KERNEL, .duration_ns = 1};
    for (int64_t i = 0; i < 10; i++) {
        activity.start_ns = i * 10 * DL_TRACE_FLUSH_NS;
        dl_trace_stream_append_activity(stream, &activity);
    }
    dl_trace trace = read_trace(PATH);
    assert_int_equal(trace.activity_count, 0);
    dl_trace_free(&trace);
    dl_trace_stream_flush(stream);
    trace = read_trace(PATH);
    assert_int_equal(trace.activity_count, 10);
    assert_int_equal(trace.activities[9].start_ns, 90 * DL_TRACE_FLUSH_NS);
    dl_trace_free(&trace);
    for (int i = 0; i < 65536 / DL_ACTIVITY_BYTES_MIN; i++)
        dl_trace_stream_append_activity(stream, &activity);
    trace = read_trace(PATH);
    assert_true(trace.activity_count > 10);
    dl_trace_free(&trace);
    close_writer(writer);
}

/* A limit of 100,000 bytes: chunks up to it are written, then only META and END. Missing records
 * are counted, new texts get no id, known ones keep theirs, and the file is complete. */
static void test_limit(void **state DL_UNUSED)
{
    enum { APPENDED = 60000, LIMIT = 100000 };
    dl_trace_writer *writer = open_writer(PATH);
    dl_trace_writer_limit(writer, LIMIT);
    assert_int_equal(dl_trace_writer_intern(writer, "early"), 1);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    for (int i = 0; i < APPENDED; i++) {
        dl_activity activity = {.kind = DL_ACTIVITY_KERNEL, .name = 1, .start_ns = 3 * i};
        dl_trace_stream_append_activity(stream, &activity);
    }
    assert_true(dl_trace_writer_look(writer).lost > 0);
    /* This chunk would fit, but nothing is written after a chunk that did not fit. */
    dl_trace_stream *other = dl_trace_writer_stream(writer);
    dl_trace_stream_append(other, &(dl_record){.kind = DL_RECORD_STEP});
    dl_trace_stream_flush(other);
    dl_trace_stream_flush(stream);
    assert_int_equal(dl_trace_writer_intern(writer, "late"), 0);
    assert_int_equal(dl_trace_writer_intern(writer, "early"), 1);
    uint64_t lost = dl_trace_writer_look(writer).lost;
    dl_trace_writer_meta(writer, "stopped", "limit");
    close_writer(writer);
    DL_SCOPED(dl_trace) trace = read_trace(PATH);
    assert_true(trace.complete);
    assert_int_equal(trace.bytes_ignored, 0);
    assert_string_equal(dl_trace_meta(&trace, "stopped"), "limit");
    assert_in_range(trace.activity_count, 1, APPENDED - 1);
    assert_int_equal(trace.activity_count + lost, APPENDED + 1);
    assert_int_equal(trace.record_count, 0);
    assert_int_equal(trace.string_count, 2);
    DL_AUTOFREE char *data = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    assert_int_equal(dl_file_read(PATH, &data, &bytes, &err), DL_OK);
    assert_in_range(bytes, LIMIT - 65536, LIMIT + 100);
}

/* Texts alone also reach the limit, to the byte. */
static void test_limit_of_names(void **state DL_UNUSED)
{
    const uint64_t one = DL_DLT_CHUNK_HEADER_BYTES + 4 + sizeof "a";
    dl_trace_writer *writer = open_writer(PATH);
    dl_trace_writer_limit(writer, DL_DLT_HEADER_BYTES + 2 * one);
    assert_int_equal(dl_trace_writer_intern(writer, "a"), 1);
    assert_int_equal(dl_trace_writer_intern(writer, "b"), 2);
    assert_int_equal(dl_trace_writer_intern(writer, "c"), 0);
    assert_int_equal(dl_trace_writer_look(writer).lost, 0);
    close_writer(writer);
    DL_SCOPED(dl_trace) trace = read_trace(PATH);
    assert_true(trace.complete);
    assert_int_equal(trace.string_count, 3);
}

typedef struct busy_thread {
    dl_trace_writer *writer;
    atomic_bool done;
} busy_thread;

/* Holds the writer's lock most of the time. */
static void *intern_all_the_time(void *argument)
{
    busy_thread *busy = argument;
    char name[32];
    for (int i = 0; !atomic_load(&busy->done); i++) {
        snprintf(name, sizeof name, "name %d", i);
        dl_trace_writer_intern(busy->writer, name);
    }
    return NULL;
}

/* Children forked while another thread uses the writer abandon it: none hangs or fails, each
 * descriptor is closed, and no data of the streams at the fork are in the file twice. */
static void test_abandon_in_forked_children(void **state DL_UNUSED)
{
    enum { CHILDREN = 40 };
    dl_trace_writer *writer = open_writer(PATH);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    dl_activity activity = {.kind = DL_ACTIVITY_RANGE, .duration_ns = 1};
    dl_trace_stream_append_activity(stream, &activity);
    dl_trace_stream_append(stream, &(dl_record){.kind = DL_RECORD_STEP});
    busy_thread busy = {.writer = writer};
    pthread_t thread;
    pthread_create(&thread, NULL, intern_all_the_time, &busy);
    int next_fd = dup(STDIN_FILENO);
    assert_true(next_fd >= 0);
    close(next_fd);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(20);
            dl_trace_writer_abandon(&writer);
            int fd = dup(STDIN_FILENO); /* lowest free descriptor: the trace's */
            _exit(writer == NULL && fd >= 0 && fd < next_fd ? 0 : 1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&busy.done, true);
    pthread_join(thread, NULL);
    close_writer(writer);
    DL_SCOPED(dl_trace) trace = read_trace(PATH);
    assert_true(trace.complete);
    assert_int_equal(trace.activity_count, 1);
    assert_int_equal(trace.record_count, 1);
}

static void ignore_signal(int signal_number DL_UNUSED) {}

typedef struct drain {
    int fd;
    char *data;
    size_t bytes;
} drain;

static void *drain_slowly(void *argument)
{
    drain *pipe_end = argument;
    for (;;) {
        pipe_end->data = dl_realloc(pipe_end->data, pipe_end->bytes + 3000, 1, "test");
        ssize_t got = read(pipe_end->fd, pipe_end->data + pipe_end->bytes, 3000);
        if (got <= 0) return NULL;
        pipe_end->bytes += (size_t)got;
    }
}

/* The trace is written to a pipe that is emptied 3,000 bytes at a time while signals interrupt the
 * writer, so that writes are partial or end with EINTR: nothing is lost. */
static void test_partial_writes(void **state DL_UNUSED)
{
    enum { APPENDED = 60000 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct sigaction action = {.sa_handler = ignore_signal}, old_action; /* no SA_RESTART */
    sigaction(SIGUSR1, &action, &old_action);
    char path[64];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    dl_trace_writer *writer = open_writer(path);
    close(ends[1]);
    drain out = {.fd = ends[0]};
    interruption target = {.thread = pthread_self()};
    pthread_t drainer, interrupter;
    pthread_create(&drainer, NULL, drain_slowly, &out);
    pthread_create(&interrupter, NULL, interrupt, &target);
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    for (uint32_t i = 0; i < APPENDED; i++) {
        dl_record record = {.kind = DL_RECORD_STEP, .step = i, .staleness = 3, .start_ns = 50 * i};
        dl_trace_stream_append(stream, &record);
    }
    close_writer(writer);
    pthread_join(drainer, NULL);
    atomic_store(&target.done, true);
    pthread_join(interrupter, NULL);
    sigaction(SIGUSR1, &old_action, NULL);
    close(ends[0]);
    DL_SCOPED(dl_trace) trace = {0};
    assert_int_equal(read_copy(&trace, out.data, out.bytes), DL_OK);
    assert_true(trace.complete);
    assert_int_equal(trace.record_count, APPENDED);
    free(out.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_late_ends),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_meta),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_bit_flips),
        cmocka_unit_test(test_wrong_chunks),
        cmocka_unit_test(test_refused_files),
        cmocka_unit_test(test_bytes_after_the_end),
        cmocka_unit_test(test_flush_by_time),
        cmocka_unit_test(test_killed_writer),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_full_disk_and_few_records),
        cmocka_unit_test(test_partial_writes),
        cmocka_unit_test(test_flush_of_activities),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_limit_of_names),
        cmocka_unit_test(test_abandon_in_forked_children),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(PATH);
    return failed;
}
