/* Values of JSON as they stand in the file, and what they mean. */
#ifndef DL_TRACE_READERS_JSON_VALUE_H
#define DL_TRACE_READERS_JSON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The raw text of a value without blanks around it, a string with its quotes; borrowed.
 * at = NULL: there is none. */
typedef struct dl_json_text {
    const char *at;
    size_t bytes;
} dl_json_text;

/* Whether the value is the string `text`, which holds nothing that JSON escapes. */
bool dl_json_is(dl_json_text value, const char *text);

/* A whole number, also one within a string ("7") and behind other text in it ("stream 7"). False
 * where there is none or it does not fit; *number stays then. */
bool dl_json_int(dl_json_text value, int64_t *number);

/* A decimal number of microseconds as nanoseconds, rounded to the nearest; exact for up to three
 * digits behind the point, whatever the size: no floating point is used. False as dl_json_int. */
bool dl_json_us_to_ns(dl_json_text value, int64_t *ns);

/* Writes the string without quotes and escapes, and a NUL, to `into`, which has room for
 * value.bytes; returns its length. A NUL within becomes U+FFFD, and so does half a surrogate pair.
 * A wrong escape ("C:\Users") is kept as it is. A value that is no string is copied. */
size_t dl_json_unescape(dl_json_text value, char *into);

#ifdef __cplusplus
}
#endif

#endif
