#include "common/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* Reads to the end whatever the size is: a pipe or a file in /proc does not tell it. */
static char *read_all(FILE *in, size_t *bytes)
{
    size_t room = 1 << 16, used = 0;
    char *text = dl_realloc(NULL, room, 1, "file");
    for (;;) {
        used += fread(text + used, 1, room - 1 - used, in);
        if (used < room - 1) break;
        room *= 2;
        text = dl_realloc(text, room, 1, "file");
    }
    text[used] = '\0';
    *bytes = used;
    return text;
}

dl_status dl_file_read(const char *path, char **text, size_t *bytes, dl_error *err)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot open: %s", strerror(errno));
    }
    size_t used;
    errno = 0;
    char *all = read_all(in, &used);
    int failed = ferror(in) ? errno : 0;
    fclose(in);
    if (failed != 0) {
        free(all);
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot read: %s", strerror(failed));
    }
    *text = all;
    *bytes = used;
    return DL_OK;
}
