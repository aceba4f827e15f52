/* Text of a file that may be gzipped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/alloc.h"
#include "trace/readers/reader.h"

/* Input buffer of zlib: a multiple of the disk's read-ahead. */
#define BUFFER_BYTES (256U << 10)

struct dl_text_source {
    gzFile file;
    char *path;
    uint64_t bytes; /* number of unpacked bytes so far */
};

dl_status dl_text_source_open(dl_text_source **source, const char *path, dl_error *err)
{
    errno = 0;
    gzFile file = gzopen(path, "rbe");
    if (file == NULL) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot open it: %s",
                               errno != 0 ? strerror(errno) : "out of memory");
    }
    gzbuffer(file, BUFFER_BYTES);
    *source = dl_calloc(1, sizeof **source, "source of text");
    **source = (dl_text_source){.file = file, .path = dl_strdup(path)};
    return DL_OK;
}

size_t dl_text_source_read(void *source, char *into, size_t room)
{
    dl_text_source *s = source;
    size_t total = 0;
    while (total < room) {
        size_t wanted = room - total < (1U << 30) ? room - total : 1U << 30;
        int got = gzread(s->file, into + total, (unsigned)wanted);
        if (got <= 0) break;
        total += (size_t)got;
    }
    s->bytes += total;
    return total;
}

dl_status dl_text_source_close(dl_text_source *source, bool *cut, dl_error *err)
{
    int code = Z_OK, system_error = errno;
    const char *message = gzerror(source->file, &code);
    dl_status status = DL_OK;
    if (cut != NULL) *cut = code == Z_BUF_ERROR;
    if (code == Z_ERRNO) {
        status = dl_error_set_at(err, DL_ERR_IO, source->path, 0, "cannot read it: %s",
                                 strerror(system_error));
    } else if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        status = dl_error_set_at(err, DL_ERR_FORMAT, source->path, 0,
                                 "its packed data are damaged after unpacked byte %llu: %s",
                                 (unsigned long long)source->bytes, message);
    }
    gzclose(source->file);
    free(source->path);
    free(source);
    return status;
}
