#include "profiler/inject/cupti_raw.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/dlt/codec.h"
#include "trace/dlt/dlt.h"

/* Texts by address. */
typedef struct text_entry {
    uint64_t address;
    char *text; /* own copy */
} text_entry;

struct dl_raw_dump {
    const dl_cupti_api *api;
    dl_held_file file;
    char *path;
    bool failed; /* a write failed */
    text_entry *texts;
    size_t text_count;
};

static void write_all(dl_raw_dump *dump, const void *data, size_t bytes)
{
    if (dump->failed) return;
    dump->failed = dl_held_file_write(&dump->file, dump->path, data, bytes) != 0;
}

static void write_block_head(dl_raw_dump *dump, uint32_t type, size_t bytes)
{
    uint8_t head[DL_RAW_BLOCK_BYTES];
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
    uint8_t header[DL_RAW_HEADER_BYTES] = {0};
    memcpy(header, DL_RAW_MAGIC, DL_RAW_MAGIC_BYTES);
    dl_dlt_put_u32(header + DL_RAW_MAGIC_BYTES, api->version);
    write_all(made, header, sizeof header);
    *dump = made;
    return DL_OK;
}

const char **dl_raw_text_field(CUpti_Activity *record)
{
    void *start = record;
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        return &((CUpti_ActivityKernel8 *)start)->name;
    }
    if (record->kind == CUPTI_ACTIVITY_KIND_DEVICE) return &((CUpti_ActivityDevice4 *)start)->name;
    return NULL;
}

static void write_text(dl_raw_dump *dump, const char *text)
{
    const uint64_t address = (uintptr_t)text;
    size_t i = 0;
    while (i < dump->text_count && dump->texts[i].address != address)
        i++;
    if (i == dump->text_count) {
        DL_APPEND(dump->texts, dump->text_count, "texts of raw buffers") =
            (text_entry){.address = address, .text = NULL};
    } else if (strcmp(dump->texts[i].text, text) == 0) {
        return;
    }
    free(dump->texts[i].text); /* another text is at that address now */
    dump->texts[i].text = dl_strdup(text);
    uint8_t head[DL_RAW_ADDRESS_BYTES];
    dl_dlt_put_u32(head, (uint32_t)address);
    dl_dlt_put_u32(head + 4, (uint32_t)(address >> 32));
    const size_t bytes = strlen(text) + 1;
    write_block_head(dump, DL_RAW_TEXT, DL_RAW_ADDRESS_BYTES + bytes);
    write_all(dump, head, sizeof head);
    write_all(dump, text, bytes);
}

bool dl_raw_dump_append(dl_raw_dump *dump, uint8_t *buffer, size_t bytes)
{
    CUpti_Activity *record = NULL;
    while (!dump->failed &&
           dump->api->ActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
        const char **text = dl_raw_text_field(record);
        if (text != NULL && *text != NULL) write_text(dump, *text);
    }
    write_block_head(dump, DL_RAW_BUFFER, bytes);
    write_all(dump, buffer, bytes);
    return !dump->failed;
}

void dl_raw_dump_close(dl_raw_dump *dump)
{
    for (size_t i = 0; i < dump->text_count; i++)
        free(dump->texts[i].text);
    free(dump->texts);
    (void)dl_held_file_close(&dump->file);
    free(dump->path);
    free(dump);
}
