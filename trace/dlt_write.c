#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "trace/dlt.h"
#include "trace/dlt_codec.h"

#define CHUNK_BYTES 65536
#define RECORDS_HEAD_BYTES (DL_DLT_CHUNK_HEADER_BYTES + 4) /* chunk header, count */
#define NOT_STARTED INT64_MIN

struct dl_trace_stream {
    dl_trace_writer *writer;
    dl_trace_stream *next;
    uint8_t *at;       /* where the next record goes */
    int64_t due_ns;    /* a record that ends at or after it sends the chunk off */
    uint32_t count;    /* records in the chunk */
    uint32_t name_max; /* highest name id used */
    dl_dlt_previous previous;
    uint8_t chunk[CHUNK_BYTES];
};

/* Everything but `path` and `fd` is guarded by `lock`. */
struct dl_trace_writer {
    char *path;
    int fd;
    pthread_mutex_t lock;
    int error; /* errno of the first failed write; 0 = none */
    uint64_t records_lost;
    dl_trace_stream *streams;
    char **names; /* [name_count]; names[0] is "" and not in the file */
    uint32_t name_count, name_capacity;
    uint32_t *slots; /* [slot_count], a power of two: open hash of name ids, 0 = free */
    uint32_t slot_count;
};

/* Returns 0 or errno. */
static int write_all(int fd, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? errno : EIO;
        data += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* Chunks are written one after the other: the rest of a partial write must follow its begin. */
static void write_chunk_locked(dl_trace_writer *writer, const uint8_t *chunk, size_t bytes,
                               uint32_t records)
{
    if (writer->error == 0) writer->error = write_all(writer->fd, chunk, bytes);
    if (writer->error != 0) writer->records_lost += records;
}

/* A chunk of two texts (the second may be NULL) behind `head_bytes` of head. */
static void write_texts_locked(dl_trace_writer *writer, dl_dlt_chunk type, const uint8_t *head,
                               size_t head_bytes, const char *text, const char *second)
{
    size_t text_bytes = strlen(text) + 1;
    size_t second_bytes = second != NULL ? strlen(second) + 1 : 0;
    size_t payload_bytes = head_bytes + text_bytes + second_bytes;
    DL_ASSERT(payload_bytes <= UINT32_MAX, "payload %zu bytes", payload_bytes);
    uint8_t *chunk = dl_calloc(DL_DLT_CHUNK_HEADER_BYTES + payload_bytes, 1, "trace chunk");
    uint8_t *payload = chunk + DL_DLT_CHUNK_HEADER_BYTES;
    if (head_bytes > 0) memcpy(payload, head, head_bytes);
    memcpy(payload + head_bytes, text, text_bytes);
    if (second != NULL) memcpy(payload + head_bytes + text_bytes, second, second_bytes);
    dl_dlt_chunk_seal(chunk, type, (uint32_t)payload_bytes);
    write_chunk_locked(writer, chunk, DL_DLT_CHUNK_HEADER_BYTES + payload_bytes, 0);
    free(chunk);
}

dl_status dl_trace_writer_open(dl_trace_writer **writer, const char *path, dl_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot create: %s", strerror(errno));
    }
    uint8_t header[DL_DLT_HEADER_BYTES] = {0};
    memcpy(header, DL_DLT_MAGIC, DL_DLT_MAGIC_BYTES);
    dl_dlt_put_u32(header + DL_DLT_MAGIC_BYTES, DL_DLT_VERSION);
    int error = write_all(fd, header, sizeof header);
    if (error != 0) {
        close(fd);
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot write: %s", strerror(error));
    }
    dl_trace_writer *made = dl_calloc(1, sizeof *made, "trace writer");
    made->path = dl_strdup(path);
    made->fd = fd;
    pthread_mutex_init(&made->lock, NULL);
    made->slot_count = made->name_capacity = 64;
    made->slots = dl_calloc(made->slot_count, sizeof *made->slots, "trace names");
    made->names = dl_calloc(made->name_capacity, sizeof *made->names, "trace names");
    made->names[made->name_count++] = dl_strdup("");
    *writer = made;
    return DL_OK;
}

void dl_trace_writer_meta(dl_trace_writer *writer, const char *key, const char *value)
{
    DL_ASSERT(key[0] != '\0', "meta key of value \"%s\"", value);
    pthread_mutex_lock(&writer->lock);
    write_texts_locked(writer, DL_DLT_META, NULL, 0, key, value);
    pthread_mutex_unlock(&writer->lock);
}

/* FNV-1a (Fowler, Noll, Vo), 32 bits. */
static uint32_t text_hash(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash;
}

/* The slot that holds `text`, or the free one where it belongs. */
static uint32_t *find_slot(const dl_trace_writer *writer, const char *text)
{
    uint32_t at = text_hash(text) & (writer->slot_count - 1);
    while (writer->slots[at] != 0 && strcmp(writer->names[writer->slots[at]], text) != 0) {
        at = (at + 1) & (writer->slot_count - 1);
    }
    return &writer->slots[at];
}

/* Keeps at least half of the slots free. */
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

uint32_t dl_trace_writer_intern(dl_trace_writer *writer, const char *text)
{
    if (text[0] == '\0') return 0;
    pthread_mutex_lock(&writer->lock);
    uint32_t id = *find_slot(writer, text);
    if (id == 0) {
        grow_names(writer);
        id = writer->name_count++;
        writer->names[id] = dl_strdup(text);
        *find_slot(writer, text) = id;
        uint8_t first_id[4];
        dl_dlt_put_u32(first_id, id);
        write_texts_locked(writer, DL_DLT_STRINGS, first_id, sizeof first_id, text, NULL);
    }
    pthread_mutex_unlock(&writer->lock);
    return id;
}

static void begin_chunk(dl_trace_stream *stream)
{
    stream->at = stream->chunk + RECORDS_HEAD_BYTES;
    stream->count = 0;
    stream->previous = (dl_dlt_previous){0};
}

dl_trace_stream *dl_trace_writer_stream(dl_trace_writer *writer)
{
    dl_trace_stream *stream = dl_alloc_aligned(sizeof *stream, "trace stream");
    stream->writer = writer;
    stream->due_ns = NOT_STARTED;
    begin_chunk(stream);
    pthread_mutex_lock(&writer->lock);
    stream->next = writer->streams;
    writer->streams = stream;
    pthread_mutex_unlock(&writer->lock);
    return stream;
}

void dl_trace_stream_flush(dl_trace_stream *stream)
{
    if (stream->count == 0) return;
    dl_trace_writer *writer = stream->writer;
    size_t bytes = (size_t)(stream->at - stream->chunk);
    dl_dlt_put_u32(stream->chunk + DL_DLT_CHUNK_HEADER_BYTES, stream->count);
    dl_dlt_chunk_seal(stream->chunk, DL_DLT_RECORDS, (uint32_t)(bytes - DL_DLT_CHUNK_HEADER_BYTES));
    pthread_mutex_lock(&writer->lock);
    DL_ASSERT(stream->name_max < writer->name_count, "name %u of %u", stream->name_max,
              writer->name_count);
    write_chunk_locked(writer, stream->chunk, bytes, stream->count);
    pthread_mutex_unlock(&writer->lock);
    begin_chunk(stream);
}

/* A chunk is full, or due, or the stream's clock starts with this record. */
static void spill(dl_trace_stream *stream, bool full)
{
    int64_t end_ns = stream->previous.end_ns;
    if (full || stream->due_ns != NOT_STARTED) dl_trace_stream_flush(stream);
    stream->due_ns =
        end_ns < INT64_MAX - DL_TRACE_FLUSH_NS ? end_ns + DL_TRACE_FLUSH_NS : INT64_MAX;
}

void dl_trace_stream_append(dl_trace_stream *stream, const dl_record *record)
{
    DL_ASSERT(dl_dlt_valid(record),
              "kind %d, phase %d, worker %u, staleness %lld, start %lld ns, duration %lld ns",
              (int)record->kind, (int)record->phase, record->worker, (long long)record->staleness,
              (long long)record->start_ns, (long long)record->duration_ns);
    stream->at = dl_dlt_encode(stream->at, record, &stream->previous);
    stream->count++;
    if (record->name > stream->name_max) stream->name_max = record->name;
    bool full = stream->chunk + CHUNK_BYTES - stream->at < DL_DLT_RECORD_BYTES_MAX;
    if (full || stream->previous.end_ns >= stream->due_ns) spill(stream, full);
}

static void writer_free(dl_trace_writer *writer)
{
    while (writer->streams != NULL) {
        dl_trace_stream *stream = writer->streams;
        writer->streams = stream->next;
        free(stream);
    }
    for (uint32_t id = 0; id < writer->name_count; id++)
        free(writer->names[id]);
    free(writer->names);
    free(writer->slots);
    free(writer->path);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
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
    write_chunk_locked(closing, end, sizeof end, 0);
    if (close(closing->fd) != 0 && closing->error == 0) closing->error = errno;
    dl_status status = DL_OK;
    if (closing->error != 0) {
        status =
            dl_error_set_at(err, DL_ERR_IO, closing->path, 0, "cannot write: %s; %llu records lost",
                            strerror(closing->error), (unsigned long long)closing->records_lost);
    }
    writer_free(closing);
    return status;
}
