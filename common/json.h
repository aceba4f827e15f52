/* JSON written to a stream. Write errors: ferror(out). */
#ifndef DL_COMMON_JSON_H
#define DL_COMMON_JSON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/status.h"

/* The text in quotes, escaped; a byte that is no valid UTF-8 becomes U+FFFD. */
void dl_json_string(FILE *out, const char *text);

/* The shortest text that reads back to the same double; NaN and infinities, which JSON lacks,
 * become null. */
void dl_json_number(FILE *out, double value);

/* Writes objects and lists item by item, with commas between. Begin with {out}. */
typedef struct dl_json {
    FILE *out;
    bool follows; /* an item of the open list comes before the next one */
} dl_json;

/* Starts an item; `name` is that of an object's member, NULL in a list and for the whole. The
 * caller then writes the value to to->out. */
void dl_json_item(dl_json *to, const char *name);

/* Opens an object ('{') or a list ('['), and closes it ('}' or ']'). */
void dl_json_begin(dl_json *to, const char *name, char bracket);
void dl_json_end(dl_json *to, char bracket);

/* A loop of `index` over 0 .. count, within the list `name`, which it opens and closes: it must not
 * be left by break or return. */
#define DL_JSON_LIST(to, name, index, count)                           \
    for (size_t index = (dl_json_begin((to), (name), '['), (size_t)0); \
         index < (count) || (dl_json_end((to), ']'), false); index++)

void dl_json_text_item(dl_json *to, const char *name, const char *text); /* null for NULL */
void dl_json_number_item(dl_json *to, const char *name, double number);
void dl_json_bool_item(dl_json *to, const char *name, bool value);
void dl_json_null_item(dl_json *to, const char *name);

/* Members of the open object as named values (common/members.h), for instance
 * ("batch=%lld fixed_ns=%g", (long long)batch, fixed_ns). */
void dl_json_members(dl_json *to, const char *format, ...) DL_PRINTF(2, 3);
void dl_json_put_members(dl_json *to, const char *format, va_list *args);

/* A whole object of such members. */
void dl_json_object(dl_json *to, const char *name, const char *format, ...) DL_PRINTF(3, 4);

#endif
