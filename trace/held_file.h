/* A file that is appended to from within a program that knows nothing of it, and may close all its
 * descriptors (as daemons do) or open others under the same number. */
#ifndef DL_TRACE_HELD_FILE_H
#define DL_TRACE_HELD_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct dl_held_file {
    int fd;
    dev_t device; /* with the inode, what tells it from other files */
    ino_t inode;
    uint32_t reopened; /* times that the descriptor was lost and found again */
} dl_held_file;

/* Creates (overwrites) `path`. Returns 0 or errno. */
int dl_held_file_open(dl_held_file *file, const char *path);

/* The bytes that the file holds; 0 where that cannot be known. */
uint64_t dl_held_file_bytes(const dl_held_file *file);

/* Cuts the file to `bytes`, if the descriptor is still its own. */
void dl_held_file_cut(const dl_held_file *file, uint64_t bytes);

/* Appends; a descriptor that is closed or stands for another file is first replaced by a new one of
 * `path`, if that is still the same file. Returns 0 or errno, EBADF if it is not. Beyond the limit on the size
 * of files (RLIMIT_FSIZE) it returns EFBIG, and no SIGXFSZ ends the program. */
int dl_held_file_write(dl_held_file *file, const char *path, const void *data, size_t bytes);

/* Closes the descriptor, unless it stands for another file by now. Returns 0 or errno. */
int dl_held_file_close(dl_held_file *file);

#endif
