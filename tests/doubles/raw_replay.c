#include "tests/doubles/raw_replay.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "profiler/inject/cupti_raw.h"
#include "trace/dlt/codec.h"

/* Texts by address, in order of appearance: of two at one address the later one is valid. */
typedef struct text_entry {
    uint64_t address;
    const char *text; /* part of the file */
} text_entry;

typedef struct text_list {
    text_entry *entries;
    size_t count;
} text_list;

static const text_entry *find_text(const text_list *texts, uint64_t address)
{
    for (size_t i = texts->count; i-- > 0;)
        if (texts->entries[i].address == address) return &texts->entries[i];
    return NULL;
}

/* Replaces a record's addresses by those of texts in this process. With `owned`, the reader owns a
 * device's name, as with CUPTI. The data of an overhead record was not dumped. */
static void relocate(CUpti_Activity *record, const text_list *texts, bool owned)
{
    void *start = record;
    if (record->kind == CUPTI_ACTIVITY_KIND_OVERHEAD && owned) {
        ((CUpti_ActivityOverhead3 *)start)->overheadData = NULL;
    }
    const char **field = dl_raw_text_field(record);
    if (field == NULL || *field == NULL) return;
    const text_entry *entry = find_text(texts, (uintptr_t)*field);
    const bool copy = owned && record->kind == CUPTI_ACTIVITY_KIND_DEVICE;
    *field = entry == NULL ? NULL : copy ? dl_strdup(entry->text) : entry->text;
}

static void replay_buffer(const uint8_t *bytes, size_t count, const dl_cupti_api *api,
                          dl_cupti_decoder *decoder, const text_list *texts)
{
    DL_AUTOFREE uint8_t *buffer = dl_alloc_aligned(count > 0 ? count : 1, "raw buffer");
    memcpy(buffer, bytes, count);
    CUpti_Activity *record = NULL;
    while (api->ActivityGetNextRecord(buffer, count, &record) == CUPTI_SUCCESS)
        relocate(record, texts, dl_cupti_gives_names(api));
    dl_cupti_decode(decoder, buffer, count);
}

/* Reads one block; false if its form is unknown. */
static bool replay_block(uint32_t type, const uint8_t *payload, size_t bytes,
                         const dl_cupti_api *api, dl_cupti_decoder *decoder, text_list *texts)
{
    if (type == DL_RAW_BUFFER) {
        replay_buffer(payload, bytes, api, decoder, texts);
        return true;
    }
    if (type != DL_RAW_TEXT || bytes <= DL_RAW_ADDRESS_BYTES || payload[bytes - 1] != '\0')
        return false;
    const uint64_t address = dl_dlt_get_u32(payload) | (uint64_t)dl_dlt_get_u32(payload + 4) << 32;
    DL_APPEND(texts->entries, texts->count, "texts of raw buffers") =
        (text_entry){address, (const char *)payload + DL_RAW_ADDRESS_BYTES};
    return true;
}

static dl_status replay_bytes(const char *path, const uint8_t *data, size_t bytes,
                              const dl_cupti_api *api, dl_cupti_decoder *decoder, dl_error *err)
{
    if (bytes < DL_RAW_HEADER_BYTES || memcmp(data, DL_RAW_MAGIC, DL_RAW_MAGIC_BYTES) != 0) {
        return dl_error_set_at(err, DL_ERR_FORMAT, path, 0, "holds no raw buffers of CUPTI");
    }
    const uint32_t version = dl_dlt_get_u32(data + DL_RAW_MAGIC_BYTES);
    if (version != api->version) {
        return dl_error_set_at(err, DL_ERR_UNSUPPORTED, path, 0,
                               "was written by CUPTI %u; CUPTI %u cannot read it",
                               (unsigned)version, (unsigned)api->version);
    }
    text_list texts = {0};
    dl_status status = DL_OK;
    for (size_t at = DL_RAW_HEADER_BYTES; bytes - at >= DL_RAW_BLOCK_BYTES && status == DL_OK;) {
        const uint8_t *block = data + at;
        const size_t payload_bytes = dl_dlt_get_u32(block + 4);
        at += DL_RAW_BLOCK_BYTES;
        if (payload_bytes > bytes - at) break;
        if (!replay_block(dl_dlt_get_u32(block), block + DL_RAW_BLOCK_BYTES, payload_bytes, api,
                          decoder, &texts)) {
            status = dl_error_set_at(err, DL_ERR_FORMAT, path, 0, "a block at byte %zu is damaged",
                                     at - DL_RAW_BLOCK_BYTES);
        }
        at += payload_bytes;
    }
    free(texts.entries);
    return status;
}

dl_status raw_replay(const char *path, const dl_cupti_api *api, dl_cupti_decoder *decoder,
                     dl_error *err)
{
    char *data = NULL;
    size_t bytes = 0;
    dl_status status =
        dl_file_read_format(path, DL_RAW_MAGIC, DL_RAW_MAGIC_BYTES, &data, &bytes, err);
    if (status != DL_OK) return status;
    status = replay_bytes(path, (const uint8_t *)data, bytes, api, decoder, err);
    free(data);
    return status;
}
