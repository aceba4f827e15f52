/* Raw JSON values and their conversions; incremental reading of Chrome traces. */
#ifndef DL_TRACE_READERS_JSON_EVENTS_H
#define DL_TRACE_READERS_JSON_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#ifdef __cplusplus

extern "C" {
#endif

/* Raw text of a value without surrounding blanks, a string with its quotes; borrowed. at = NULL: no
 * value. */
typedef struct dl_json_text {
    const char *at;
    size_t bytes;
} dl_json_text;

/* Returns whether the value is the string `text`, which must not contain characters that JSON
 * escapes. */
bool dl_json_is(dl_json_text value, const char *text);

/* Parses a whole number, also from a string ("7"), even after other text ("stream 7"). Returns
 * false, with *number unchanged, if there is none or it does not fit. */
bool dl_json_int(dl_json_text value, int64_t *number);

/* Returns the number parsed by dl_json_int if it is positive; else 0. */
uint64_t dl_json_count(dl_json_text value);

/* Converts a decimal number of microseconds to nanoseconds, rounded to the nearest. Uses no
 * floating point, so up to three decimal places are exact. Returns false like dl_json_int. */
bool dl_json_us_to_ns(dl_json_text value, int64_t *ns);

/* Writes the string without quotes and escapes, and a NUL, to `into`, which has room for
 * value.bytes; returns its length. Replaces an embedded NUL and half a surrogate pair by U+FFFD.
 * Keeps an invalid escape ("C:\Users") unchanged. Of a value that is not a string, copies all but
 * the last byte. */
size_t dl_json_unescape(dl_json_text value, char *into);

#ifdef __cplusplus
}
#endif

/* Reads the events of a Chrome trace one by one from a stream. Memory holds only a window of the
 * file, whatever its size.
 *
 * simdjson's on-demand parser processes windows of 1 MiB whose open brackets are closed
 * artificially. An event that does not end within its window fails, and is parsed again at the
 * start of the next window, so no search for event boundaries is needed. Each event is delivered
 * once, after it was read completely.
 *
 * Reasons for simdjson: a trace of 221 MB (1.5 million events) is read into activities in 0.42 s
 * with 13 MiB of other memory (bench_readers). Tokenizing alone took yajl 0.6 s and more; building
 * a tree took json-c 6.3 s and 3.9 GB; simdjson itself took 0.49 s and 483 MiB with the whole file
 * in memory. The drawback is C++, in json_events.cpp.
 *
 * Requested values are parsed strictly; others are only skipped. Bytes that JSON forbids but
 * profilers write (control characters and invalid UTF-8 in names) are replaced and counted. */

#ifdef __cplusplus

extern "C" {
#endif

/* Begins UTF-8 texts of some editors and shells on Windows; a text may begin with it. */
#define DL_JSON_BYTE_ORDER_MARK "\xEF\xBB\xBF"

/* Maximum size of an event, and of the text before the events: 8 MiB. At most as much of the text
 * after them is read. */
#define DL_JSON_EVENT_BYTES_MAX (8U << 20)

/* Source of the text: writes at most `room` bytes to `into` and returns their number; 0 at the end
 * of the text (or on failure, which the source records itself). */
typedef size_t dl_json_source(void *context, char *into, size_t room);

typedef struct dl_json_events_spec {
    const char *const *keys; /* [key_count], at most 64: members of an event, "args/NAME" for those
                              * of its object "args"; others are skipped */
    size_t key_count;
    /* Called for each event: values[i] belongs to keys[i]. Valid during the call. */
    void (*event)(void *context, const dl_json_text *values);
    /* Called for each member of the outer object other than the events, in file order. */
    void (*member)(void *context, dl_json_text key, dl_json_text value);
    void *context;
} dl_json_events_spec;

typedef struct dl_json_events_result {
    uint64_t bytes;    /* size of the text */
    uint64_t events;   /* number of delivered events */
    uint64_t replaced; /* number of forbidden bytes that were replaced */
    uint64_t ignored;  /* bytes after the last whole event of a truncated text, or after its end */
    bool complete;     /* the text is not truncated */
} dl_json_events_result;

/* Reads a text that is an array of events, or an object whose member "traceEvents" is such an
 * array. A truncated text is not an error: all complete events are delivered. Returns DL_ERR_FORMAT
 * with the byte offset if the text is neither, an event is malformed, or an event or the text
 * before the events exceeds DL_JSON_EVENT_BYTES_MAX; earlier events are delivered before. */
dl_status dl_json_events_read(const dl_json_events_spec *spec, dl_json_source *read, void *source,
                              dl_json_events_result *result, dl_error *err) DL_MUST_CHECK;

/* Calls `visit` for each member of an object, or each element of an array (with key.at = NULL).
 * Returns false if the value is neither or malformed; earlier items are visited before. */
bool dl_json_visit(dl_json_text value,
                   void (*visit)(void *context, dl_json_text key, dl_json_text value),
                   void *context);

#ifdef __cplusplus
}
#endif

#endif
