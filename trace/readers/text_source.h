/* A file's bytes from the begin to the end, unpacked if it is gzipped. */
#ifndef DL_TRACE_READERS_TEXT_SOURCE_H
#define DL_TRACE_READERS_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

typedef struct dl_text_source dl_text_source;

/* Opens `path` (a gzip file of one or several members, or anything else as it is). DL_ERR_IO. */
dl_status dl_text_source_open(dl_text_source **source, const char *path,
                              dl_error *err) DL_MUST_CHECK;

/* Reads at most `room` bytes; fewer only at the end, 0 behind it or after an error. The first
 * argument is a dl_text_source, so that it is a dl_json_source. */
size_t dl_text_source_read(void *source, char *into, size_t room);

/* Closes. A failure of reading or unpacking is reported here: DL_ERR_IO, DL_ERR_FORMAT (damaged).
 * *cut (may be NULL): the packed data end too early, which is no failure. */
dl_status dl_text_source_close(dl_text_source *source, bool *cut, dl_error *err) DL_MUST_CHECK;

#endif
