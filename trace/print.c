#include "trace/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* Returns the number of bytes of `text` for a line of `room` bytes: up to the last space that fits,
 * else up to and including the last '/' that fits, else the whole first word. */
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

/* Prints `first` (shorter than a line), then `text` wrapped at spaces (long words at '/'), with
 * continuation lines aligned to the text's start. */
static void print_wrapped(FILE *out, const char *first, const char *text)
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
    DL_AUTOFREE char *first = dl_format("%-*s ", DL_PRINT_KEY_COLUMNS - 1, key);
    print_wrapped(out, first, value);
}

void dl_notes_add(dl_notes *notes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *line = dl_vformat(format, args);
    va_end(args);
    for (size_t i = 0; i < notes->count; i++) {
        if (strcmp(notes->lines[i], line) != 0) continue;
        free(line);
        return;
    }
    DL_APPEND(notes->lines, notes->count, "notes") = line;
}

void dl_notes_print(const dl_notes *notes, const char *title, const char *first, FILE *out)
{
    if (notes->count > 0) fputs(title, out);
    for (size_t i = 0; i < notes->count; i++)
        print_wrapped(out, first, notes->lines[i]);
}

void dl_notes_write_json(dl_json *to, const char *name, const dl_notes *notes)
{
    DL_JSON_LIST (to, name, i, notes->count)
        dl_json_text_item(to, NULL, notes->lines[i]);
}

void dl_notes_free(dl_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->lines[i]);
    free(notes->lines);
    *notes = (dl_notes){0};
}
