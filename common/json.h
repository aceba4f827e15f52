/* JSON written to a stream. Write errors: ferror(out). */
#ifndef DL_COMMON_JSON_H
#define DL_COMMON_JSON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/status.h"

/* Writes the text in quotes, escaped; a byte of invalid UTF-8 becomes U+FFFD. */
void dl_json_string(FILE *out, const char *text);

/* Writes the shortest text that reads back to the same double; NaN and infinities, which JSON
 * lacks, become null. */
void dl_json_number(FILE *out, double value);

/* Writer of objects and lists item by item, with commas in between. Initialize with {out}. */
typedef struct dl_json {
    FILE *out;
    bool follows; /* the open list or object already has an item */
} dl_json;

/* Starts an item; `name` is that of an object's member, NULL in a list and for the root. The caller
 * then writes the value to to->out. */
void dl_json_item(dl_json *to, const char *name);

/* Open an object ('{') or a list ('['), and close it ('}' or ']'). */
void dl_json_begin(dl_json *to, const char *name, char bracket);
void dl_json_end(dl_json *to, char bracket);

/* Loop of `index` over 0 .. count - 1 within the list `name`, which it opens and closes; must not
 * be left by break or return. */
#define DL_JSON_LIST(to, name, index, count)                           \
    for (size_t index = (dl_json_begin((to), (name), '['), (size_t)0); \
         index < (count) || (dl_json_end((to), ']'), false); index++)

void dl_json_text_item(dl_json *to, const char *name, const char *text); /* NULL: null */
void dl_json_number_item(dl_json *to, const char *name, double number);
void dl_json_bool_item(dl_json *to, const char *name, bool value);
void dl_json_null_item(dl_json *to, const char *name);

/* Write members of the open object as named values (common/members.h), such as ("batch=%lld
 * fixed_ns=%g", (long long)batch, fixed_ns). */
void dl_json_members(dl_json *to, const char *format, ...) DL_PRINTF(2, 3);
void dl_json_put_members(dl_json *to, const char *format, va_list *args);

/* Writes a whole object of such members. */
void dl_json_object(dl_json *to, const char *name, const char *format, ...) DL_PRINTF(3, 4);

#endif
