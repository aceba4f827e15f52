/* Allocation that never returns NULL: on memory exhaustion, these functions end the process with
 * exit status 1 and a message with size and purpose, since no caller could continue. All blocks are
 * released with free(), except staggered ones. */
#ifndef DL_COMMON_ALLOC_H
#define DL_COMMON_ALLOC_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Declare a local variable that is released at the end of its scope, however the scope is left: a
 * pointer by free(), an object of `type` by type_free(&object), or by release(&object). It must be
 * initialized before the scope can be left, and its content must not be handed over to another
 * owner. The variable declared last is released first. Always inlined, so that a pointer need not
 * lie in memory. */
#define DL_AUTOFREE __attribute__((cleanup(dl_free_variable)))
#define DL_SCOPED(type) DL_AUTO(type##_free) type
#define DL_AUTO(release) __attribute__((cleanup(release)))
static inline __attribute__((always_inline)) void dl_free_variable(void *variable)
{
    free(*(void **)variable);
}

/* Number of elements of an array. */
#define DL_LENGTH(array) (sizeof(array) / sizeof *(array))

/* Returns `count` zeroed objects of `size` bytes each (0 is allowed). The message contains
 * `purpose`. */
void *dl_calloc(size_t count, size_t size, const char *purpose);

/* Resizes `block` (may be NULL) to count * size bytes; new bytes are not zeroed. */
void *dl_realloc(void *block, size_t count, size_t size, const char *purpose);

/* Appends an element to array[count] and returns it as an lvalue with undefined content. Capacity
 * doubles, so appending n elements costs O(n); such an array must not grow in any other way.
 * Evaluates its arguments more than once. */
#define DL_APPEND(array, count, purpose) \
    (*((array) = dl_grow((array), (count), sizeof *(array), purpose), &(array)[(count)++]))
void *dl_grow(void *block, size_t count, size_t size, const char *purpose);

/* Returns `bytes` zeroed bytes on a 64-byte boundary (a cache line), for arrays that threads
 * share. */
void *dl_alloc_aligned(size_t bytes, const char *purpose);

/* Like dl_alloc_aligned, for large vectors that are read together in one loop. Blocks of at least
 * DL_STAGGER_MIN_BYTES start 64 bytes after successive multiples of DL_STAGGER_BYTES modulo
 * DL_STAGGER_COUNT * DL_STAGGER_BYTES (256 KiB), so that two successive blocks are never a multiple
 * of 256 KiB apart: first-level caches that predict the way from address bits (AMD Zen: bits 12 to
 * 27) confuse vectors that are an exact multiple of 256 MiB apart. Requests transparent huge pages
 * for the whole pages of DL_HUGE_PAGE_BYTES in a block, to save address translations in vectors of
 * tens of MB. Thread-safe. Release with dl_free_staggered only, which accepts NULL. */
enum { DL_STAGGER_BYTES = 4096, DL_STAGGER_COUNT = 64, DL_STAGGER_MIN_BYTES = 65536 };
enum { DL_HUGE_PAGE_BYTES = 2 << 20 };

void *dl_alloc_staggered(size_t bytes, const char *purpose);
void dl_free_staggered(void *block);

/* Requests huge pages for the whole pages inside a block, before its first access: for large arrays
 * with random access. Has no effect if the kernel has no huge pages. */
void dl_ask_for_huge_pages(void *block, size_t bytes);

/* Returns a copy of `text`, which must not be NULL. */
char *dl_strdup(const char *text);

/* Returns a copy of the `bytes` bytes at text, terminated by a NUL. */
char *dl_strndup(const char *text, size_t bytes);

/* Like dl_strndup, without leading and trailing blanks and tabs. */
char *dl_strndup_trimmed(const char *text, size_t bytes);

/* Appends `between` and `more` to *text; if *text is NULL, it becomes a copy of `more`. */
void dl_join(char **text, const char *between, const char *more);

/* Like dl_join, with a text that is formatted like printf. */
void dl_join_format(char **text, const char *between, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends text that is formatted like printf to *text, which may be NULL. */
void dl_extend(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Format like printf into a new string. */
char *dl_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *dl_vformat(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/* Returns a stream that writes to memory. After fclose, *text is a string of *bytes bytes that the
 * caller frees. */
FILE *dl_text_stream(char **text, size_t *bytes);

#endif
