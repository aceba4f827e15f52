/* Memory that is never NULL: on exhaustion these abort with the size and the purpose, because no
 * caller here could do anything better. Everything is released with free(). */
#ifndef DL_COMMON_ALLOC_H
#define DL_COMMON_ALLOC_H

#include <stddef.h>

/* `count` zeroed objects of `size` bytes each (0 is allowed). `purpose` appears in the message. */
void *dl_calloc(size_t count, size_t size, const char *purpose);

/* Resizes `block` (may be NULL) to count * size bytes; new bytes are not zeroed. */
void *dl_realloc(void *block, size_t count, size_t size, const char *purpose);

/* `bytes` zeroed bytes on a 64-byte border (a cache line), for arrays that threads share. */
void *dl_alloc_aligned(size_t bytes, const char *purpose);

/* A copy of `text`, which must not be NULL. */
char *dl_strdup(const char *text);

/* printf into a string of its own. */
char *dl_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
