/* Raw JSON values and their conversions. */
#ifndef DL_TRACE_READERS_JSON_EVENTS_H
#define DL_TRACE_READERS_JSON_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#ifdef __cplusplus

extern "C" {
#endif

/* The raw text of a value without surrounding blanks, a string with its quotes; borrowed. at =
 * NULL: no value. */
typedef struct dl_json_text {
    const char *at;
    size_t bytes;
} dl_json_text;

/* Whether the value is the string `text`, which must contain nothing that JSON escapes. */
bool dl_json_is(dl_json_text value, const char *text);

/* Reads a whole number, also from a string ("7"), even after other text ("stream 7"). False, with
 * *number unchanged, if there is none or it does not fit. */
bool dl_json_int(dl_json_text value, int64_t *number);

/* The number that dl_json_int reads if it is above 0; else 0. */
uint64_t dl_json_count(dl_json_text value);

/* Converts a decimal number of microseconds to nanoseconds, rounded to the nearest. Uses no
 * floating point, so up to three digits after the point are exact. False as dl_json_int. */
bool dl_json_us_to_ns(dl_json_text value, int64_t *ns);

/* Writes the string without quotes and escapes, and a NUL, to `into`, which has room for
 * value.bytes; returns its length. A NUL within becomes U+FFFD, and so does half a surrogate pair.
 * A wrong escape ("C:\Users") is kept as it is. A value that is no string is copied. */
size_t dl_json_unescape(dl_json_text value, char *into);

#ifdef __cplusplus
}
#endif

/* The events of a Chrome trace, one by one, from a stream: whatever the size of the file, only a
 * window of it is in memory.
 *
 * simdjson's on-demand parser walks windows of 1 MiB whose open brackets are closed by hand. An
 * event that does not end within its window fails, and is parsed again at the start of the next
 * window, so no search for event boundaries is needed. Each event is delivered once, after it was
 * read completely.
 *
 * Why simdjson: a trace of 221 MB (1.5 million events) is read into activities in 0.42 s with 13
 * MiB beside them (bench_readers). Tokenizing alone took yajl 0.6 s and more, building a tree
 * json-c 6.3 s and 3.9 GB, simdjson itself 0.49 s and 483 MiB with the whole file in memory. The
 * price is C++, in json_events.cpp.
 *
 * Requested values are parsed strictly; of others only the end is searched. Bytes that JSON forbids
 * but profilers write (in names, control characters and bytes that are not UTF-8) are replaced and
 * counted.
 */

#ifdef __cplusplus

extern "C" {
#endif

/* Longest event, and longest text before or after the events: 8 MiB. */
#define DL_JSON_EVENT_BYTES_MAX (8U << 20)

/* Source of the text: writes at most `room` bytes to `into` and returns their number; 0 = the text
 * has ended (or failed, which the source records itself). */
typedef size_t dl_json_source(void *context, char *into, size_t room);

typedef struct dl_json_events_spec {
    const char *const *keys; /* [key_count], 64 at most: members of an event, "args/NAME" for
                                those of its object "args"; others are skipped */
    size_t key_count;
    /* An event: values[i] is that of keys[i]. Valid during the call. */
    void (*event)(void *context, const dl_json_text *values);
    /* A member of the outer object, beside the events, in the order of the file. */
    void (*member)(void *context, dl_json_text key, dl_json_text value);
    void *context;
} dl_json_events_spec;

typedef struct dl_json_events_result {
    uint64_t bytes;    /* of the text */
    uint64_t events;   /* delivered */
    uint64_t replaced; /* forbidden bytes, in windows that contain any */
    uint64_t ignored;  /* bytes after the last whole event of a cut text, or after its end */
    bool complete;     /* the text did not end early */
} dl_json_events_result;

/* Reads a text that is an array of events, or an object whose member "traceEvents" is one. A text
 * that ends early is no error: all complete events are delivered. DL_ERR_FORMAT with the byte's
 * number if the text is neither, an event is malformed, or an item is longer than
 * DL_JSON_EVENT_BYTES_MAX; earlier events have been delivered then. */
dl_status dl_json_events_read(const dl_json_events_spec *spec, dl_json_source *read, void *source,
                              dl_json_events_result *result, dl_error *err) DL_MUST_CHECK;

/* Calls `visit` for each member of an object, or each element of an array (then key.at = NULL).
 * False if the value is neither or malformed; earlier items have been visited then. */
bool dl_json_visit(dl_json_text value,
                   void (*visit)(void *context, dl_json_text key, dl_json_text value),
                   void *context);

#ifdef __cplusplus
}
#endif

#endif
