#include "calibrate/notes.h"

#include <stdarg.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "trace/print.h"

void dl_notes_add(dl_notes *notes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *line = dl_vformat(format, args);
    va_end(args);
    notes->lines = dl_realloc(notes->lines, notes->count + 1, sizeof *notes->lines, "notes");
    notes->lines[notes->count++] = line;
}

void dl_notes_print(const dl_notes *notes, FILE *out)
{
    for (size_t i = 0; i < notes->count; i++)
        dl_print_wrapped(out, "  - ", notes->lines[i]);
}

void dl_notes_free(dl_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->lines[i]);
    free(notes->lines);
    *notes = (dl_notes){0};
}
