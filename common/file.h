/* Reading of whole files into memory, for small text files. */
#ifndef DL_COMMON_FILE_H
#define DL_COMMON_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Maximum size of text files: INI, CSV, logs. The largest in scenarios/ has 100 kB. */
#define DL_FILE_BYTES_MAX ((size_t)1 << 26)

/* Reads all of `path` (a file, a pipe) into *text, which the caller frees; *bytes is its length
 * without the terminating NUL. Returns DL_ERR_IO with the system's reason; DL_ERR_RANGE for more
 * than DL_FILE_BYTES_MAX bytes, e.g. from an endless device. */
dl_status dl_file_read(const char *path, char **text, size_t *bytes, dl_error *err) DL_MUST_CHECK;

/* Like dl_file_read with a limit of `max_bytes`, less than SIZE_MAX. */
dl_status dl_file_read_up_to(const char *path, size_t max_bytes, char **text, size_t *bytes,
                             dl_error *err) DL_MUST_CHECK;

/* Returns DL_ERR_IO for a `path` that is a folder where a file is expected; the text names the
 * first file in the folder as an example. */
dl_status dl_file_refuse_folder(const char *path, dl_error *err);

/* Like dl_file_read without a limit, for files that start with magic[magic_bytes]. Of any other
 * file only the first magic_bytes bytes are read, which the caller compares. */
dl_status dl_file_read_format(const char *path, const char *magic, size_t magic_bytes, char **text,
                              size_t *bytes, dl_error *err) DL_MUST_CHECK;

/* Continues *hash (dl_hash_bytes) with the file's content; unchanged if path is NULL. Returns the
 * errors of dl_file_read, with *hash unchanged. */
dl_status dl_file_hash(uint64_t *hash, const char *path, dl_error *err) DL_MUST_CHECK;

/* Writes all bytes, repeating partial writes. Returns 0 or an errno value. */
int dl_file_write(int fd, const void *data, size_t bytes);

#endif
