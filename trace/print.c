#include "trace/print.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* Length of the part of `text` that goes on a line of `room` bytes: up to the last space, else to
 * after the last '/', else the first word. */
static size_t line_length(const char *text, size_t room)
{
    size_t length = strlen(text);
    if (length <= room) return length;
    for (length = room; length > 0 && text[length] != ' '; length--)
        ;
    if (length > 0) return length;
    for (length = room; length > 0 && text[length - 1] != '/'; length--)
        ;
    return length > 0 ? length : strcspn(text, " ");
}

void dl_print_wrapped(FILE *out, const char *first, const char *text)
{
    const size_t indent = strlen(first);
    fputs(first, out);
    for (;;) {
        const size_t length = line_length(text, DL_PRINT_COLUMNS - indent);
        fprintf(out, "%.*s\n", (int)length, text);
        text += length + (text[length] == ' ');
        if (*text == '\0') return;
        fprintf(out, "%*s", (int)indent, "");
    }
}

void dl_print_pair(FILE *out, const char *key, const char *value)
{
    char *first = dl_format("%-*s ", DL_PRINT_KEY_COLUMNS - 1, key);
    dl_print_wrapped(out, first, value);
    free(first);
}
