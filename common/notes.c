#include "common/notes.h"

#include <stdarg.h>
#include <string.h>

#include "common/alloc.h"

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

void dl_notes_free(dl_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->lines[i]);
    free(notes->lines);
    *notes = (dl_notes){0};
}
