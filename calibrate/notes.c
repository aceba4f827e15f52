#include "calibrate/notes.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

#define COLUMNS 80

void dl_notes_add(dl_notes *notes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *line = dl_vformat(format, args);
    va_end(args);
    notes->lines = dl_realloc(notes->lines, notes->count + 1, sizeof *notes->lines, "notes");
    notes->lines[notes->count++] = line;
}

/* A note, its lines broken between words. */
static void print_note(const char *note, FILE *out)
{
    size_t column = 0;
    fputs("  -", out);
    column = 3;
    for (const char *word = note; *word != '\0';) {
        const size_t length = strcspn(word, " ");
        if (column + 1 + length > COLUMNS && column > 4) {
            fputs("\n   ", out);
            column = 3;
        }
        fprintf(out, " %.*s", (int)length, word);
        column += 1 + length;
        word += length + (word[length] == ' ');
    }
    fputc('\n', out);
}

void dl_notes_print(const dl_notes *notes, FILE *out)
{
    for (size_t i = 0; i < notes->count; i++)
        print_note(notes->lines[i], out);
}

void dl_notes_free(dl_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->lines[i]);
    free(notes->lines);
    *notes = (dl_notes){0};
}
