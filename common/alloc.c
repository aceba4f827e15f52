#include "common/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void out_of_memory(size_t count, size_t size, const char *purpose)
{
    if (size > 1 && count > 1) {
        fprintf(stderr, "out of memory: %zu x %zu bytes for %s\n", count, size, purpose);
    } else {
        fprintf(stderr, "out of memory: %zu bytes for %s\n", count > 1 ? count : size, purpose);
    }
    _exit(EXIT_FAILURE);
}

void *dl_calloc(size_t count, size_t size, const char *purpose)
{
    void *block = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
    if (block == NULL) out_of_memory(count, size, purpose);
    return block;
}

void *dl_realloc(void *block, size_t count, size_t size, const char *purpose)
{
    if (size > 0 && count > SIZE_MAX / size) out_of_memory(count, size, purpose);
    size_t bytes = count * size;
    void *grown = realloc(block, bytes > 0 ? bytes : 1);
    if (grown == NULL) out_of_memory(count, size, purpose);
    return grown;
}

void *dl_grow(void *block, size_t count, size_t size, const char *purpose)
{
    if ((count & (count - 1)) != 0) return block; /* the block is full only at powers of two */
    return dl_realloc(block, count > 0 ? 2 * count : 1, size, purpose);
}

void *dl_alloc_aligned(size_t bytes, const char *purpose)
{
    void *block = NULL;
    size_t rounded = bytes > 0 ? (bytes + 63) / 64 * 64 : 64;
    if (rounded < bytes || posix_memalign(&block, 64, rounded) != 0) {
        out_of_memory(1, bytes, purpose);
    }
    memset(block, 0, rounded);
    return block;
}

/* Header before a staggered block: the address to pass to free(). */
typedef struct stagger_head {
    _Alignas(64) void *memory;
} stagger_head;

void dl_ask_for_huge_pages(void *block, size_t bytes)
{
    const uintptr_t huge = DL_HUGE_PAGE_BYTES, start = (uintptr_t)block;
    const uintptr_t first = (start + huge - 1) / huge * huge, end = (start + bytes) / huge * huge;
    if (first < end) (void)madvise((char *)block + (first - start), end - first, MADV_HUGEPAGE);
}

void *dl_alloc_staggered(size_t bytes, const char *purpose)
{
    static atomic_size_t blocks;
    const size_t cycle = (size_t)DL_STAGGER_BYTES * DL_STAGGER_COUNT;
    const bool staggers = bytes >= DL_STAGGER_MIN_BYTES;
    const size_t more = sizeof(stagger_head) + (staggers ? cycle : 0);
    const size_t rounded = bytes > 0 ? (bytes + 63) / 64 * 64 : 64;
    void *memory = NULL;
    if (rounded < bytes || rounded > SIZE_MAX - more ||
        posix_memalign(&memory, 64, rounded + more) != 0) {
        out_of_memory(1, bytes, purpose);
    }
    char *block = (char *)memory + sizeof(stagger_head);
    if (staggers) {
        const size_t number = atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
        const size_t place = number % DL_STAGGER_COUNT * DL_STAGGER_BYTES;
        block += (place + cycle - (uintptr_t)block % cycle + sizeof(stagger_head)) % cycle;
    }
    dl_ask_for_huge_pages(block, rounded);
    memset(block, 0, rounded);
    ((stagger_head *)(void *)block)[-1].memory = memory;
    return block;
}

void dl_free_staggered(void *block)
{
    if (block != NULL) free(((stagger_head *)block)[-1].memory);
}

char *dl_strdup(const char *text)
{
    return dl_strndup(text, strlen(text));
}

char *dl_strndup(const char *text, size_t bytes)
{
    char *copy = dl_realloc(NULL, bytes + 1, 1, "string");
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *dl_strndup_trimmed(const char *text, size_t bytes)
{
    for (; bytes > 0 && (*text == ' ' || *text == '\t'); bytes--)
        text++;
    while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t'))
        bytes--;
    return dl_strndup(text, bytes);
}

void dl_join(char **text, const char *between, const char *more)
{
    char *joined = *text != NULL ? dl_format("%s%s%s", *text, between, more) : dl_strdup(more);
    free(*text);
    *text = joined;
}

void dl_join_format(char **text, const char *between, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *more = dl_vformat(format, args);
    va_end(args);
    dl_join(text, between, more);
}

void dl_extend(char **text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *more = dl_vformat(format, args);
    va_end(args);
    dl_join(text, "", more);
}

char *dl_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = dl_vformat(format, args);
    va_end(args);
    return text;
}

char *dl_vformat(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0) {
        fprintf(stderr, "cannot format '%s'\n", format);
        abort();
    }
    char *text = dl_realloc(NULL, (size_t)length + 1, 1, "string");
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

FILE *dl_text_stream(char **text, size_t *bytes)
{
    FILE *out = open_memstream(text, bytes);
    if (out == NULL) out_of_memory(1, BUFSIZ, "a text");
    return out;
}
