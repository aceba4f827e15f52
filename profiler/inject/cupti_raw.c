#include "profiler/inject/cupti_raw.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "trace/dlt/codec.h"
#include "trace/dlt/dlt.h"

#define MAGIC "DLRAWBUF"
#define MAGIC_BYTES 8
#define HEADER_BYTES 16
#define BLOCK_BYTES 8 /* of a block's type and length */
#define ADDRESS_BYTES 8

enum { TEXT = 1, BUFFER = 2 };

/* Texts by address, in order of appearance: of two at one address the later one holds. */
typedef struct text_entry {
    uint64_t address;
    const char *text; /* in reading part of the file, in writing an own copy */
} text_entry;

typedef struct text_list {
    text_entry *entries;
    size_t count, capacity;
} text_list;

struct dl_raw_dump {
    const dl_cupti_api *api;
    dl_held_file file;
    char *path;
    bool failed; /* a write has */
    text_list texts;
};

static text_entry *find_text(const text_list *texts, uint64_t address)
{
    for (size_t i = texts->count; i-- > 0;)
        if (texts->entries[i].address == address) return &texts->entries[i];
    return NULL;
}

static void add_text(text_list *texts, uint64_t address, const char *text)
{
    if (texts->count == texts->capacity) {
        texts->capacity = texts->capacity > 0 ? 2 * texts->capacity : 64;
        texts->entries = dl_realloc(texts->entries, texts->capacity, sizeof *texts->entries,
                                    "texts of raw buffers");
    }
    texts->entries[texts->count++] = (text_entry){address, text};
}

static void write_all(dl_raw_dump *dump, const void *data, size_t bytes)
{
    if (dump->failed) return;
    dump->failed = dl_held_file_write(&dump->file, dump->path, data, bytes) != 0;
}

static void write_block_head(dl_raw_dump *dump, uint32_t type, size_t bytes)
{
    uint8_t head[BLOCK_BYTES];
    dl_dlt_put_u32(head, type);
    dl_dlt_put_u32(head + 4, (uint32_t)bytes);
    write_all(dump, head, sizeof head);
}

dl_status dl_raw_dump_open(dl_raw_dump **dump, const char *path, const dl_cupti_api *api,
                           dl_error *err)
{
    dl_held_file file;
    const int error = dl_held_file_open(&file, path);
    if (error != 0) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot create: %s", strerror(error));
    }
    dl_raw_dump *made = dl_calloc(1, sizeof *made, "raw buffers");
    made->api = api;
    made->file = file;
    made->path = dl_strdup(path);
    uint8_t header[HEADER_BYTES] = {0};
    memcpy(header, MAGIC, MAGIC_BYTES);
    dl_dlt_put_u32(header + MAGIC_BYTES, api->version);
    write_all(made, header, sizeof header);
    *dump = made;
    return DL_OK;
}

/* The field of a record that points to a text; NULL if it has none. */
static const char **text_field(CUpti_Activity *record)
{
    void *start = record;
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        return &((CUpti_ActivityKernel10 *)start)->name;
    }
    if (record->kind == CUPTI_ACTIVITY_KIND_DEVICE) return &((CUpti_ActivityDevice5 *)start)->name;
    return NULL;
}

static void write_text(dl_raw_dump *dump, const char *text)
{
    const uint64_t address = (uintptr_t)text;
    text_entry *known = find_text(&dump->texts, address);
    if (known != NULL && strcmp(known->text, text) == 0) return;
    if (known != NULL) { /* another text lies there now */
        free((void *)known->text);
        known->text = dl_strdup(text);
    } else {
        add_text(&dump->texts, address, dl_strdup(text));
    }
    uint8_t head[ADDRESS_BYTES];
    dl_dlt_put_u32(head, (uint32_t)address);
    dl_dlt_put_u32(head + 4, (uint32_t)(address >> 32));
    const size_t bytes = strlen(text) + 1;
    write_block_head(dump, TEXT, ADDRESS_BYTES + bytes);
    write_all(dump, head, sizeof head);
    write_all(dump, text, bytes);
}

bool dl_raw_dump_append(dl_raw_dump *dump, uint8_t *buffer, size_t bytes)
{
    CUpti_Activity *record = NULL;
    while (!dump->failed &&
           dump->api->ActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
        const char **text = text_field(record);
        if (text != NULL && *text != NULL) write_text(dump, *text);
    }
    write_block_head(dump, BUFFER, bytes);
    write_all(dump, buffer, bytes);
    return !dump->failed;
}

void dl_raw_dump_close(dl_raw_dump *dump)
{
    for (size_t i = 0; i < dump->texts.count; i++)
        free((void *)dump->texts.entries[i].text);
    free(dump->texts.entries);
    (void)dl_held_file_close(&dump->file);
    free(dump->path);
    free(dump);
}

/* Gives a record texts of this process, as CUPTI would: a device's name is the reader's. Data of an
 * overhead record was not dumped. */
static void relocate(CUpti_Activity *record, const text_list *texts, uint32_t version)
{
    void *start = record;
    if (record->kind == CUPTI_ACTIVITY_KIND_OVERHEAD && version >= DL_CUPTI_13_0) {
        ((CUpti_ActivityOverhead3 *)start)->overheadData = NULL;
    }
    const char **field = text_field(record);
    if (field == NULL || *field == NULL) return;
    const text_entry *entry = find_text(texts, (uintptr_t)*field);
    const bool owned = record->kind == CUPTI_ACTIVITY_KIND_DEVICE;
    *field = entry == NULL ? NULL : owned ? dl_strdup(entry->text) : entry->text;
}

static void replay_buffer(const uint8_t *bytes, size_t count, const dl_cupti_api *api,
                          dl_cupti_decoder *decoder, const text_list *texts)
{
    uint8_t *buffer = dl_alloc_aligned(count > 0 ? count : 1, "raw buffer");
    memcpy(buffer, bytes, count);
    CUpti_Activity *record = NULL;
    while (api->ActivityGetNextRecord(buffer, count, &record) == CUPTI_SUCCESS)
        relocate(record, texts, api->version);
    dl_cupti_decode(decoder, buffer, count);
    free(buffer);
}

/* Takes one block; false if it is of no known form. */
static bool replay_block(uint32_t type, const uint8_t *payload, size_t bytes,
                         const dl_cupti_api *api, dl_cupti_decoder *decoder, text_list *texts)
{
    if (type == BUFFER) {
        replay_buffer(payload, bytes, api, decoder, texts);
        return true;
    }
    if (type != TEXT || bytes <= ADDRESS_BYTES || payload[bytes - 1] != '\0') return false;
    const uint64_t address = dl_dlt_get_u32(payload) | (uint64_t)dl_dlt_get_u32(payload + 4) << 32;
    add_text(texts, address, (const char *)payload + ADDRESS_BYTES);
    return true;
}

static dl_status replay_bytes(const char *path, const uint8_t *data, size_t bytes,
                              const dl_cupti_api *api, dl_cupti_decoder *decoder, dl_error *err)
{
    if (bytes < HEADER_BYTES || memcmp(data, MAGIC, MAGIC_BYTES) != 0) {
        return dl_error_set_at(err, DL_ERR_FORMAT, path, 0, "holds no raw buffers of CUPTI");
    }
    const uint32_t version = dl_dlt_get_u32(data + MAGIC_BYTES);
    if (version != api->version) {
        return dl_error_set_at(err, DL_ERR_UNSUPPORTED, path, 0,
                               "was written by CUPTI %u; CUPTI %u cannot read it",
                               (unsigned)version, (unsigned)api->version);
    }
    text_list texts = {0};
    dl_status status = DL_OK;
    for (size_t at = HEADER_BYTES; bytes - at >= BLOCK_BYTES && status == DL_OK;) {
        const uint8_t *block = data + at;
        const size_t payload_bytes = dl_dlt_get_u32(block + 4);
        at += BLOCK_BYTES;
        if (payload_bytes > bytes - at) break;
        if (!replay_block(dl_dlt_get_u32(block), block + BLOCK_BYTES, payload_bytes, api, decoder,
                          &texts)) {
            status = dl_error_set_at(err, DL_ERR_FORMAT, path, 0, "a block at byte %zu is damaged",
                                     at - BLOCK_BYTES);
        }
        at += payload_bytes;
    }
    free(texts.entries);
    return status;
}

dl_status dl_raw_replay(const char *path, const dl_cupti_api *api, dl_cupti_decoder *decoder,
                        dl_error *err)
{
    char *data = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read_format(path, MAGIC, MAGIC_BYTES, &data, &bytes, err);
    if (status != DL_OK) return status;
    status = replay_bytes(path, (const uint8_t *)data, bytes, api, decoder, err);
    free(data);
    return status;
}
