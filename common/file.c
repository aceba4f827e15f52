#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/bytes.h"

#define FIRST_ROOM ((size_t)1 << 16)

/* Bytes read so far, with room for a terminating NUL. */
typedef struct content {
    char *text;
    size_t room, used;
} content;

/* Reads to the end or up to `max_bytes`, without using the file's size, which pipes and files in
 * /proc do not report. */
static void read_on(FILE *in, size_t max_bytes, content *to)
{
    while (to->used < max_bytes) {
        if (to->used + 1 >= to->room) {
            const size_t wanted = to->room > 0 ? 2 * to->room : FIRST_ROOM;
            to->room = wanted - 1 < max_bytes ? wanted : max_bytes + 1;
            to->text = dl_realloc(to->text, to->room, 1, "file");
        }
        const size_t space = to->room - 1 - to->used;
        const size_t read = fread(to->text + to->used, 1, space, in);
        to->used += read;
        if (read < space) break;
    }
}

dl_status dl_file_refuse_folder(const char *path, dl_error *err)
{
    char *first = NULL;
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.' || (first != NULL && strcmp(entry->d_name, first) >= 0)) {
            continue;
        }
        free(first);
        first = dl_strdup(entry->d_name);
    }
    if (folder != NULL) closedir(folder);
    const char *slash = path[0] != '\0' && path[strlen(path) - 1] == '/' ? "" : "/";
    const dl_status status =
        first == NULL ? dl_error_set_at(err, DL_ERR_IO, path, 0, "is an empty folder")
                      : dl_error_set_at(err, DL_ERR_IO, path, 0,
                                        "is a folder: name the files in it, as in %s%s%s", path,
                                        slash, first);
    free(first);
    return status;
}

/* Closes the file, and returns its content if there was no error. */
static dl_status finish(FILE *in, const char *path, content *read, char **text, size_t *bytes,
                        dl_error *err)
{
    const int failed = ferror(in) ? errno : 0;
    fclose(in);
    if (failed != 0) {
        free(read->text);
        if (failed == EISDIR) return dl_file_refuse_folder(path, err);
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot read: %s", strerror(failed));
    }
    read->text[read->used] = '\0';
    *text = read->text;
    *bytes = read->used;
    return DL_OK;
}

static dl_status open_file(const char *path, FILE **in, dl_error *err)
{
    *in = fopen(path, "rb");
    if (*in != NULL) return DL_OK;
    return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot open: %s", strerror(errno));
}

dl_status dl_file_read_up_to(const char *path, size_t max_bytes, char **text, size_t *bytes,
                             dl_error *err)
{
    FILE *in;
    const dl_status status = open_file(path, &in, err);
    if (status != DL_OK) return status;
    content read = {0};
    read_on(in, max_bytes + 1, &read); /* one more byte detects a larger file */
    if (read.used > max_bytes) {
        fclose(in);
        free(read.text);
        return dl_error_set_at(err, DL_ERR_RANGE, path, 0,
                               "is longer than %zu bytes, more than such a file may have",
                               max_bytes);
    }
    return finish(in, path, &read, text, bytes, err);
}

dl_status dl_file_read(const char *path, char **text, size_t *bytes, dl_error *err)
{
    return dl_file_read_up_to(path, DL_FILE_BYTES_MAX, text, bytes, err);
}

dl_status dl_file_read_format(const char *path, const char *magic, size_t magic_bytes, char **text,
                              size_t *bytes, dl_error *err)
{
    FILE *in;
    const dl_status status = open_file(path, &in, err);
    if (status != DL_OK) return status;
    content read = {0};
    read_on(in, magic_bytes, &read);
    if (read.used == magic_bytes && memcmp(read.text, magic, magic_bytes) == 0) {
        read_on(in, SIZE_MAX / 2, &read);
    }
    return finish(in, path, &read, text, bytes, err);
}

dl_status dl_file_hash(uint64_t *hash, const char *path, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    if (path == NULL) return DL_OK;
    const dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status == DL_OK) *hash = dl_hash_bytes(*hash, text, bytes);
    return status;
}

int dl_file_write(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        const ssize_t written = write(fd, at, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? errno : EIO;
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}
