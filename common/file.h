/* Whole files in memory, for the readers of small text files. */
#ifndef DL_COMMON_FILE_H
#define DL_COMMON_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Limit of text files: INI, CSV, logs. The largest of scenarios/ has 100 kB. */
#define DL_FILE_BYTES_MAX ((size_t)1 << 26)

/* Reads all of `path` (a file, a pipe) into *text; *bytes is its length without the NUL that
 * follows. free(*text). DL_ERR_IO with the system's reason; DL_ERR_RANGE for more than
 * DL_FILE_BYTES_MAX bytes, as of a device that never ends. */
dl_status dl_file_read(const char *path, char **text, size_t *bytes, dl_error *err) DL_MUST_CHECK;

/* As dl_file_read with a limit of `max_bytes`, less than SIZE_MAX. */
dl_status dl_file_read_up_to(const char *path, size_t max_bytes, char **text, size_t *bytes,
                             dl_error *err) DL_MUST_CHECK;

/* DL_ERR_IO for a folder where a file is wanted; the text names the first file in it. */
dl_status dl_file_refuse_folder(const char *path, dl_error *err);

/* As dl_file_read without a limit, for files that start with magic[magic_bytes]. Of any other file
 * only the first magic_bytes bytes are read, which the caller compares. */
dl_status dl_file_read_format(const char *path, const char *magic, size_t magic_bytes, char **text,
                              size_t *bytes, dl_error *err) DL_MUST_CHECK;

/* Continues *hash (dl_hash_bytes) with the file's content, or not at all if path is NULL. Errors as
 * dl_file_read; *hash is unchanged then. */
dl_status dl_file_hash(uint64_t *hash, const char *path, dl_error *err) DL_MUST_CHECK;

/* Writes all bytes, whatever the system takes at a time. Returns 0 or a value of errno. */
int dl_file_write(int fd, const void *data, size_t bytes);

#endif
