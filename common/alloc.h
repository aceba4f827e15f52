/* Memory that is never NULL: on exhaustion these abort with the size and the purpose, because no
 * caller here could do anything better. Everything is released with free(). */
#ifndef DL_COMMON_ALLOC_H
#define DL_COMMON_ALLOC_H

#include <stdarg.h>
#include <stddef.h>

/* `count` zeroed objects of `size` bytes each (0 is allowed). `purpose` appears in the message. */
void *dl_calloc(size_t count, size_t size, const char *purpose);

/* Resizes `block` (may be NULL) to count * size bytes; new bytes are not zeroed. */
void *dl_realloc(void *block, size_t count, size_t size, const char *purpose);

/* `bytes` zeroed bytes on a 64-byte border (a cache line), for arrays that threads share. */
void *dl_alloc_aligned(size_t bytes, const char *purpose);

/* A copy of `text`, which must not be NULL. */
char *dl_strdup(const char *text);

/* A copy of the `bytes` bytes at text, ended by a NUL. */
char *dl_strndup(const char *text, size_t bytes);

/* printf into a string of its own. */
char *dl_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *dl_vformat(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

#endif
