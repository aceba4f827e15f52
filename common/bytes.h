/* Byte buffers for messages between ranks and records of a journal; reading checks every length.
 * Numbers are in the machine's byte order. */
#ifndef DL_COMMON_BYTES_H
#define DL_COMMON_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed object is empty; release with free(data). */
typedef struct dl_bytes {
    unsigned char *data;
    size_t count, room;
} dl_bytes;

void dl_bytes_add(dl_bytes *bytes, const void *data, size_t count);

/* Unread bytes; borrowed. */
typedef struct dl_bytes_left {
    const unsigned char *at;
    size_t count;
} dl_bytes_left;

/* Copies the next `count` bytes into `data` (NULL: skips them). Returns false and reads nothing if
 * fewer are left. */
bool dl_bytes_take(dl_bytes_left *left, void *data, size_t count);

/* Returns the 64-bit FNV-1a hash of data[count], continued from `hash` (initially
 * DL_HASH_START). */
#define DL_HASH_START 0xcbf29ce484222325u
uint64_t dl_hash_bytes(uint64_t hash, const void *data, size_t count);
/* Continues a hash with a text and its final NUL; NULL counts as "". */
uint64_t dl_hash_add_text(uint64_t hash, const char *text);

#endif
