/* Whole files in memory, for the readers of small text files. */
#ifndef DL_COMMON_FILE_H
#define DL_COMMON_FILE_H

#include <stddef.h>

#include "common/status.h"

/* Reads all of `path` (a file, a pipe) into *text; *bytes is its length, and one NUL that does not
 * count follows. free(*text). DL_ERR_IO with the system's reason. */
dl_status dl_file_read(const char *path, char **text, size_t *bytes, dl_error *err) DL_MUST_CHECK;

#endif
