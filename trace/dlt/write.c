#include "trace/dlt/dlt.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"
#include "trace/dlt/codec.h"

#define FLAGS (O_WRONLY | O_APPEND | O_CLOEXEC)

int dl_held_file_open(dl_held_file *file, const char *path)
{
    struct stat found;
    const int fd = open(path, FLAGS | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return errno;
    if (fstat(fd, &found) != 0) {
        const int error = errno;
        close(fd);
        return error;
    }
    *file = (dl_held_file){.fd = fd, .device = found.st_dev, .inode = found.st_ino};
    return 0;
}

static bool is_file(const dl_held_file *file, int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode;
}

/* Reopens the file after other code closed its descriptor, whose number may now be in use by that
 * code. */
static int reopen(dl_held_file *file, const char *path)
{
    const int fd = open(path, FLAGS);
    if (fd < 0) return EBADF;
    if (!is_file(file, fd)) {
        close(fd);
        return EBADF;
    }
    file->fd = fd;
    file->reopened++;
    return 0;
}

int dl_held_file_write(dl_held_file *file, const char *path, const void *data, size_t bytes)
{
    if (!is_file(file, file->fd)) {
        const int error = reopen(file, path);
        if (error != 0) return error;
    }
    /* SIGXFSZ is sent to the writing thread: while blocked, it stays pending and is then
     * discarded. */
    sigset_t too_large, before;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_large, &before);
    int error = dl_file_write(file->fd, data, bytes);
    if (error == EBADF) { /* closed since the check; a chunk is one write, so none of it is in the
                           * file */
        error = reopen(file, path);
        if (error == 0) error = dl_file_write(file->fd, data, bytes);
    }
    if (error == EFBIG && !sigismember(&before, SIGXFSZ)) {
        while (sigtimedwait(&too_large, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {}
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Size of the file in bytes; 0 if unknown. */
static uint64_t held_file_bytes(const dl_held_file *file)
{
    struct stat found;
    if (!is_file(file, file->fd) || fstat(file->fd, &found) != 0) return 0;
    return S_ISREG(found.st_mode) ? (uint64_t)found.st_size : 0;
}

/* Truncates the file to `bytes` if the descriptor still refers to it. */
static void held_file_cut(const dl_held_file *file, uint64_t bytes)
{
    if (held_file_bytes(file) <= bytes) return;
    while (ftruncate(file->fd, (off_t)bytes) != 0 && errno == EINTR) {}
}

int dl_held_file_close(dl_held_file *file)
{
    if (!is_file(file, file->fd)) return 0;
    return close(file->fd) == 0 ? 0 : errno;
}

#define CHUNK_BYTES 65536
#define RECORDS_HEAD_BYTES (DL_DLT_CHUNK_HEADER_BYTES + 4) /* chunk header, count */
#define NOT_STARTED INT64_MIN

/* A chunk under construction, of records or activities. */
typedef struct open_chunk {
    uint8_t *at;       /* position of the next record */
    uint32_t count;    /* number of records in the chunk */
    uint32_t name_max; /* highest text id used so far */
    uint8_t bytes[CHUNK_BYTES];
} open_chunk;

/* A chunk is NULL until the stream's first record of its type. */
struct dl_trace_stream {
    dl_trace_writer *writer;
    dl_trace_stream *next;
    open_chunk *records, *activities;
    int64_t due_ns; /* the chunk is flushed at the first record that ends at or after this time */
    dl_dlt_previous previous;
    dl_activity_previous previous_activity;
};

/* `lock` protects all members except `path`. */
struct dl_trace_writer {
    char *path;
    dl_held_file file;
    pthread_mutex_t lock;
    int error;            /* errno of the first failed write; 0: none */
    bool full;            /* file full: META may still fit and is written, nothing else */
    bool limited;         /* limit reached: only META and END are still written */
    uint64_t bytes_limit; /* limit of the file size */
    uint64_t bytes;       /* current file size */
    uint64_t lost;        /* number of records and activities not written */
    dl_trace_stream *streams;
    char **names; /* [name_count]; names[0] is "" and not in the file */
    uint32_t name_count, name_capacity;
    uint32_t *slots; /* [slot_count], a power of two: open-addressing hash table of name ids, 0:
                      * free */
    uint32_t slot_count;
};

/* Returns whether the error means a full file (full disk, quota, file size limit). */
static bool is_full(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* Appends a whole chunk to the file; removes a partial write. Returns whether the chunk is in the
 * file. */
static bool put_chunk_locked(dl_trace_writer *writer, const uint8_t *chunk, size_t bytes)
{
    const int error = dl_held_file_write(&writer->file, writer->path, chunk, bytes);
    if (error == 0) {
        writer->bytes += bytes;
        return true;
    }
    if (writer->error == 0) writer->error = error;
    writer->full = is_full(error);
    held_file_cut(&writer->file, writer->bytes);
    return false;
}

/* Room reserved for the META chunk with the reason for the end. */
#define FULL_META_BYTES 256

/* Returns the size of the leading whole records of the chunk that fit into `room`; sets *count to
 * their number. */
static size_t fitting_bytes(const open_chunk *chunk, dl_dlt_chunk type, size_t room,
                            uint32_t *count)
{
    const uint8_t *at = chunk->bytes + RECORDS_HEAD_BYTES;
    dl_dlt_previous previous = {0};
    dl_activity_previous previous_activity = {0};
    *count = 0;
    while (*count < chunk->count) {
        dl_record record;
        dl_activity activity;
        const uint8_t *next =
            type == DL_DLT_RECORDS
                ? dl_dlt_decode(at, chunk->at, &record, &previous)
                : dl_activity_decode(at, chunk->at, &activity, &previous_activity);
        if (next == NULL || (size_t)(next - chunk->bytes) > room) break;
        at = next;
        ++*count;
    }
    return (size_t)(at - chunk->bytes);
}

/* Writes a chunk of records. If the file system has room for a part only, writes the records that
 * fit. Returns the number of records written. */
static uint32_t write_records_locked(dl_trace_writer *writer, open_chunk *chunk, dl_dlt_chunk type)
{
    const size_t bytes = (size_t)(chunk->at - chunk->bytes);
    if (writer->error != 0) return 0;
    const int error = dl_held_file_write(&writer->file, writer->path, chunk->bytes, bytes);
    if (error == 0) {
        writer->bytes += bytes;
        return chunk->count;
    }
    writer->error = error;
    const uint64_t reached = held_file_bytes(&writer->file);
    held_file_cut(&writer->file, writer->bytes);
    if (!is_full(error)) return 0;
    writer->full = true;
    if (reached < writer->bytes + FULL_META_BYTES) return 0;
    uint32_t count = 0;
    const size_t fitting =
        fitting_bytes(chunk, type, (size_t)(reached - writer->bytes) - FULL_META_BYTES, &count);
    if (count == 0) return 0;
    dl_dlt_put_u32(chunk->bytes + DL_DLT_CHUNK_HEADER_BYTES, count);
    dl_dlt_chunk_seal(chunk->bytes, type, (uint32_t)(fitting - DL_DLT_CHUNK_HEADER_BYTES));
    return put_chunk_locked(writer, chunk->bytes, fitting) ? count : 0;
}

/* Returns whether the limit leaves room for `bytes` more. After the first failure always returns
 * false, because a later, smaller chunk could use names of an unwritten one. */
static bool within_limit_locked(dl_trace_writer *writer, size_t bytes)
{
    if (writer->bytes > writer->bytes_limit || bytes > writer->bytes_limit - writer->bytes) {
        writer->limited = true;
    }
    return !writer->limited;
}

/* Writes a chunk of two texts (the second may be NULL) after a head of `head_bytes`. */
static void write_texts_locked(dl_trace_writer *writer, dl_dlt_chunk type, const uint8_t *head,
                               size_t head_bytes, const char *text, const char *second)
{
    size_t text_bytes = strlen(text) + 1;
    size_t second_bytes = second != NULL ? strlen(second) + 1 : 0;
    size_t payload_bytes = head_bytes + text_bytes + second_bytes;
    DL_ASSERT(payload_bytes <= UINT32_MAX, "payload %zu bytes", payload_bytes);
    DL_AUTOFREE uint8_t *chunk =
        dl_calloc(DL_DLT_CHUNK_HEADER_BYTES + payload_bytes, 1, "trace chunk");
    uint8_t *payload = chunk + DL_DLT_CHUNK_HEADER_BYTES;
    if (head_bytes > 0) memcpy(payload, head, head_bytes);
    memcpy(payload + head_bytes, text, text_bytes);
    if (second != NULL) memcpy(payload + head_bytes + text_bytes, second, second_bytes);
    dl_dlt_chunk_seal(chunk, type, (uint32_t)payload_bytes);
    if (writer->error == 0 || (writer->full && type == DL_DLT_META)) {
        put_chunk_locked(writer, chunk, DL_DLT_CHUNK_HEADER_BYTES + payload_bytes);
    }
}

dl_status dl_trace_writer_open(dl_trace_writer **writer, const char *path, dl_error *err)
{
    dl_held_file file;
    int error = dl_held_file_open(&file, path);
    if (error != 0) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot create: %s", strerror(error));
    }
    uint8_t header[DL_DLT_HEADER_BYTES] = {0};
    memcpy(header, DL_DLT_MAGIC, DL_DLT_MAGIC_BYTES);
    dl_dlt_put_u32(header + DL_DLT_MAGIC_BYTES, DL_DLT_VERSION);
    error = dl_held_file_write(&file, path, header, sizeof header);
    if (error != 0) {
        struct stat found;
        if (fstat(file.fd, &found) == 0 && S_ISREG(found.st_mode)) unlink(path);
        (void)dl_held_file_close(&file);
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot write: %s", strerror(error));
    }
    dl_trace_writer *made = dl_calloc(1, sizeof *made, "trace writer");
    made->path = dl_strdup(path);
    made->file = file;
    made->bytes_limit = UINT64_MAX;
    made->bytes = sizeof header;
    pthread_mutex_init(&made->lock, NULL);
    made->slot_count = made->name_capacity = 64;
    made->slots = dl_calloc(made->slot_count, sizeof *made->slots, "trace names");
    made->names = dl_calloc(made->name_capacity, sizeof *made->names, "trace names");
    made->names[made->name_count++] = dl_strdup("");
    *writer = made;
    return DL_OK;
}

void dl_trace_writer_limit(dl_trace_writer *writer, uint64_t bytes)
{
    pthread_mutex_lock(&writer->lock);
    writer->bytes_limit = bytes;
    pthread_mutex_unlock(&writer->lock);
}

dl_trace_writer_state dl_trace_writer_look(dl_trace_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    const dl_trace_writer_state state = {
        .lost = writer->lost, .error = writer->error, .reopened = writer->file.reopened};
    pthread_mutex_unlock(&writer->lock);
    return state;
}

void dl_trace_writer_meta(dl_trace_writer *writer, const char *key, const char *value)
{
    DL_ASSERT(key[0] != '\0', "meta key of value \"%s\"", value);
    pthread_mutex_lock(&writer->lock);
    write_texts_locked(writer, DL_DLT_META, NULL, 0, key, value);
    pthread_mutex_unlock(&writer->lock);
}

void dl_trace_writer_metaf(dl_trace_writer *writer, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *value = dl_vformat(format, args);
    va_end(args);
    dl_trace_writer_meta(writer, key, value);
}

/* Returns the slot that holds `text`, or the free slot for it. */
static uint32_t *find_slot(const dl_trace_writer *writer, const char *text)
{
    uint32_t at = (uint32_t)dl_hash_text(text) & (writer->slot_count - 1);
    while (writer->slots[at] != 0 && strcmp(writer->names[writer->slots[at]], text) != 0) {
        at = (at + 1) & (writer->slot_count - 1);
    }
    return &writer->slots[at];
}

/* Grows the tables so that at least half of the slots stay free. */
static void grow_names(dl_trace_writer *writer)
{
    if (writer->name_count == writer->name_capacity) {
        writer->name_capacity *= 2;
        writer->names =
            dl_realloc(writer->names, writer->name_capacity, sizeof *writer->names, "trace names");
    }
    if (writer->name_count < writer->slot_count / 2) return;
    writer->slot_count *= 2;
    free(writer->slots);
    writer->slots = dl_calloc(writer->slot_count, sizeof *writer->slots, "trace names");
    for (uint32_t id = 1; id < writer->name_count; id++) {
        *find_slot(writer, writer->names[id]) = id;
    }
}

/* Gives `text` the next id and writes it. */
static uint32_t add_name_locked(dl_trace_writer *writer, const char *text)
{
    grow_names(writer);
    uint32_t id = writer->name_count++;
    writer->names[id] = dl_strdup(text);
    *find_slot(writer, text) = id;
    uint8_t first_id[4];
    dl_dlt_put_u32(first_id, id);
    write_texts_locked(writer, DL_DLT_STRINGS, first_id, sizeof first_id, text, NULL);
    return id;
}

uint32_t dl_trace_writer_intern(dl_trace_writer *writer, const char *text)
{
    if (text[0] == '\0') return 0;
    size_t chunk_bytes = DL_DLT_CHUNK_HEADER_BYTES + 4 + strlen(text) + 1;
    pthread_mutex_lock(&writer->lock);
    uint32_t id = *find_slot(writer, text);
    if (id == 0 && within_limit_locked(writer, chunk_bytes)) id = add_name_locked(writer, text);
    pthread_mutex_unlock(&writer->lock);
    return id;
}

static open_chunk *new_chunk(void)
{
    open_chunk *chunk = dl_alloc_aligned(sizeof *chunk, "trace chunk");
    chunk->at = chunk->bytes + RECORDS_HEAD_BYTES;
    return chunk;
}

dl_trace_stream *dl_trace_writer_stream(dl_trace_writer *writer)
{
    dl_trace_stream *stream = dl_alloc_aligned(sizeof *stream, "trace stream");
    stream->writer = writer;
    stream->due_ns = NOT_STARTED;
    pthread_mutex_lock(&writer->lock);
    stream->next = writer->streams;
    writer->streams = stream;
    pthread_mutex_unlock(&writer->lock);
    return stream;
}

/* Writes the chunk and empties it; no effect without a chunk, or on an empty one. */
static void flush_chunk(dl_trace_writer *writer, open_chunk *chunk, dl_dlt_chunk type)
{
    if (chunk == NULL || chunk->count == 0) return;
    size_t bytes = (size_t)(chunk->at - chunk->bytes);
    dl_dlt_put_u32(chunk->bytes + DL_DLT_CHUNK_HEADER_BYTES, chunk->count);
    dl_dlt_chunk_seal(chunk->bytes, type, (uint32_t)(bytes - DL_DLT_CHUNK_HEADER_BYTES));
    pthread_mutex_lock(&writer->lock);
    DL_ASSERT(chunk->name_max < writer->name_count, "name %u of %u", chunk->name_max,
              writer->name_count);
    bool written = within_limit_locked(writer, bytes);
    const uint32_t kept = written ? write_records_locked(writer, chunk, type) : 0;
    writer->lost += chunk->count - kept;
    pthread_mutex_unlock(&writer->lock);
    chunk->at = chunk->bytes + RECORDS_HEAD_BYTES;
    chunk->count = 0;
}

static void flush_records(dl_trace_stream *stream)
{
    flush_chunk(stream->writer, stream->records, DL_DLT_RECORDS);
    stream->previous = (dl_dlt_previous){0};
}

static void flush_activities(dl_trace_stream *stream)
{
    flush_chunk(stream->writer, stream->activities, DL_DLT_ACTIVITIES);
    stream->previous_activity = (dl_activity_previous){0};
}

void dl_trace_stream_flush(dl_trace_stream *stream)
{
    flush_records(stream);
    flush_activities(stream);
}

/* Flushes the records if the chunk is full or due; the stream's first record only starts the flush
 * interval. */
static void spill_records(dl_trace_stream *stream, bool full)
{
    int64_t end_ns = stream->previous.end_ns;
    if (full || stream->due_ns != NOT_STARTED) flush_records(stream);
    stream->due_ns =
        end_ns < INT64_MAX - DL_TRACE_FLUSH_NS ? end_ns + DL_TRACE_FLUSH_NS : INT64_MAX;
}

void dl_trace_stream_append(dl_trace_stream *stream, const dl_record *record)
{
    DL_ASSERT(dl_dlt_valid(record),
              "kind %d, phase %d, worker %u, staleness %lld, start %lld ns, duration %lld ns",
              (int)record->kind, (int)record->phase, record->worker, (long long)record->staleness,
              (long long)record->start_ns, (long long)record->duration_ns);
    if (stream->records == NULL) stream->records = new_chunk();
    open_chunk *chunk = stream->records;
    chunk->at = dl_dlt_encode(chunk->at, record, &stream->previous);
    chunk->count++;
    if (record->name > chunk->name_max) chunk->name_max = record->name;
    bool full = chunk->bytes + CHUNK_BYTES - chunk->at < DL_DLT_RECORD_BYTES_MAX;
    if (full || stream->previous.end_ns >= stream->due_ns) spill_records(stream, full);
}

void dl_trace_stream_append_activity(dl_trace_stream *stream, const dl_activity *activity)
{
    DL_ASSERT(dl_activity_valid(activity),
              "kind %d, copy %d, memory %d, start %lld ns, duration %lld ns", activity->kind,
              activity->copy, activity->memory, (long long)activity->start_ns,
              (long long)activity->duration_ns);
    if (stream->activities == NULL) stream->activities = new_chunk();
    open_chunk *chunk = stream->activities;
    chunk->at = dl_activity_encode(chunk->at, activity, &stream->previous_activity);
    chunk->count++;
    if (activity->name > chunk->name_max) chunk->name_max = activity->name;
    if (activity->detail > chunk->name_max) chunk->name_max = activity->detail;
    if (chunk->bytes + CHUNK_BYTES - chunk->at < DL_ACTIVITY_BYTES_MAX) flush_activities(stream);
}

static void writer_free(dl_trace_writer *writer)
{
    while (writer->streams != NULL) {
        DL_AUTOFREE dl_trace_stream *stream = writer->streams;
        writer->streams = stream->next;
        free(stream->records);
        free(stream->activities);
    }
    for (uint32_t id = 0; id < writer->name_count; id++)
        free(writer->names[id]);
    free(writer->names);
    free(writer->slots);
    free(writer->path);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
}

void dl_trace_writer_abandon(dl_trace_writer **writer)
{
    dl_trace_writer *abandoned = *writer;
    *writer = NULL;
    (void)dl_held_file_close(&abandoned->file);
    /* A lock held here belongs to a thread that does not exist after the fork, possibly in the
     * middle of a change. */
    if (pthread_mutex_trylock(&abandoned->lock) != 0) return;
    pthread_mutex_unlock(&abandoned->lock);
    writer_free(abandoned);
}

dl_status dl_trace_writer_close(dl_trace_writer **writer, dl_error *err)
{
    dl_trace_writer *closing = *writer;
    *writer = NULL;
    for (dl_trace_stream *stream = closing->streams; stream != NULL; stream = stream->next) {
        dl_trace_stream_flush(stream);
    }
    uint8_t end[DL_DLT_CHUNK_HEADER_BYTES];
    dl_dlt_chunk_seal(end, DL_DLT_END, 0);
    if (closing->error == 0) put_chunk_locked(closing, end, sizeof end);
    const int error = dl_held_file_close(&closing->file);
    if (closing->error == 0) closing->error = error;
    dl_status status = DL_OK;
    if (closing->error != 0) {
        status =
            dl_error_set_at(err, DL_ERR_IO, closing->path, 0, "cannot write: %s; %llu records lost",
                            strerror(closing->error), (unsigned long long)closing->lost);
    }
    writer_free(closing);
    return status;
}
