/* A text in memory as a source that delivers it in parts, for the tests of readers. */
#ifndef DL_TESTS_TRACE_TEXT_PARTS_H
#define DL_TESTS_TRACE_TEXT_PARTS_H

#include <stddef.h>
#include <string.h>

typedef struct text_parts {
    const char *text;
    size_t bytes, at;
    size_t part; /* bytes per read */
} text_parts;

static inline text_parts parts_of(const char *text, size_t part)
{
    return (text_parts){.text = text, .bytes = strlen(text), .part = part};
}

static inline size_t read_part(void *context, char *into, size_t room)
{
    text_parts *parts = context;
    size_t bytes = parts->bytes - parts->at;
    if (bytes > parts->part) bytes = parts->part;
    if (bytes > room) bytes = room;
    if (bytes > 0) memcpy(into, parts->text + parts->at, bytes);
    parts->at += bytes;
    return bytes;
}

#endif
