/* Lines and cells of text summaries. Write errors: ferror(out). */
#ifndef DL_TRACE_PRINT_H
#define DL_TRACE_PRINT_H

#include <stddef.h>
#include <stdio.h>

#include "common/json.h"

#define DL_PRINT_COLUMNS 80     /* width of a line */
#define DL_PRINT_KEY_COLUMNS 17 /* width before a value, including the space */

/* Prints "key   value"; continuation lines of the value are aligned with its start. After a key of
 * DL_PRINT_KEY_COLUMNS bytes or more, a single space precedes the value. */
void dl_print_pair(FILE *out, const char *key, const char *value);

/* Notes on a result: assumptions, omissions, doubtful values. Modules collect them; the program
 * prints them. Owns its lines; zero before use, release with dl_notes_free. */
typedef struct dl_notes {
    char **lines; /* [count] one sentence each, without newline */
    size_t count;
} dl_notes;

/* Adds the formatted sentence unless the notes already contain it. */
void dl_notes_add(dl_notes *notes, const char *format, ...) DL_PRINTF(2, 3);

/* If there are notes, prints `title`, then each note wrapped as above, preceded by `first`. */
void dl_notes_print(const dl_notes *notes, const char *title, const char *first, FILE *out);

/* Writes the notes as the array `name`. */
void dl_notes_write_json(dl_json *to, const char *name, const dl_notes *notes);
void dl_notes_free(dl_notes *notes);

#endif
