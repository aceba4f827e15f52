/* Buffers as CUPTI delivered them, for tests on machines without a GPU.
 *
 *   header   magic "DLRAWBUF", u32 version of CUPTI, u32 reserved
 *   block    u32 type, u32 bytes, payload;  repeated
 *   TEXT     u64 address, the text there; comes before the first buffer that points to it
 *   BUFFER   the used bytes of a buffer
 *
 * All integers little-endian. Addresses are those of the recorded process: of two texts at one
 * address the later one holds. The last block may be truncated. */
#ifndef DL_PROFILER_INJECT_CUPTI_RAW_H
#define DL_PROFILER_INJECT_CUPTI_RAW_H

#include <stdbool.h>

#include "profiler/inject/cupti_decode.h"

#define DL_RAW_MAGIC "DLRAWBUF"
#define DL_RAW_MAGIC_BYTES 8
#define DL_RAW_HEADER_BYTES 16
#define DL_RAW_BLOCK_BYTES 8 /* type and length of a block */
#define DL_RAW_ADDRESS_BYTES 8

enum { DL_RAW_TEXT = 1, DL_RAW_BUFFER = 2 };

typedef struct dl_raw_dump dl_raw_dump;

/* Creates (overwrites) `path`; free with dl_raw_dump_close. `api` is borrowed. */
dl_status dl_raw_dump_open(dl_raw_dump **dump, const char *path, const dl_cupti_api *api,
                           dl_error *err) DL_MUST_CHECK;

/* Appends a buffer and its new texts. Returns false after a write error; nothing is written
 * then. */
bool dl_raw_dump_append(dl_raw_dump *dump, uint8_t *buffer, size_t bytes);
void dl_raw_dump_close(dl_raw_dump *dump);

/* Returns the field of a record that points to a text; NULL if there is none. */
const char **dl_raw_text_field(CUpti_Activity *record);

#endif
