/* Buffers as CUPTI delivered them, for tests on machines without a GPU.
 *
 *   header   magic "DLRAWBUF", u32 version of CUPTI, u32 reserved
 *   block    u32 type, u32 bytes, payload;  repeated
 *   TEXT     u64 address, the text there; stands before the first buffer that points to it
 *   BUFFER   the used bytes of a buffer
 *
 * All integers little-endian. Addresses are those of the recorded process; reading puts the texts'
 * new addresses in their place. A cut last block is ignored.
 */
#ifndef DL_PROFILER_INJECT_CUPTI_RAW_H
#define DL_PROFILER_INJECT_CUPTI_RAW_H

#include <stdbool.h>

#include "profiler/inject/cupti_decode.h"

typedef struct dl_raw_dump dl_raw_dump;

/* Creates (overwrites) `path`; free with dl_raw_dump_close. `api` is borrowed. */
dl_status dl_raw_dump_open(dl_raw_dump **dump, const char *path, const dl_cupti_api *api,
                           dl_error *err) DL_MUST_CHECK;

/* Appends a buffer and the texts that are new in it. A write error ends the writing; whether it
 * has. */
bool dl_raw_dump_append(dl_raw_dump *dump, uint8_t *buffer, size_t bytes);
void dl_raw_dump_close(dl_raw_dump *dump);

/* Decodes all buffers of `path`. The library behind the decoder must be of the version that wrote
 * them: DL_ERR_UNSUPPORTED if not. DL_ERR_FORMAT if it is no such file. */
dl_status dl_raw_replay(const char *path, const dl_cupti_api *api, dl_cupti_decoder *decoder,
                        dl_error *err) DL_MUST_CHECK;

#endif
