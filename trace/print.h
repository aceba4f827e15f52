/* Lines and cells of text summaries. Write errors: ferror(out). */
#ifndef DL_TRACE_PRINT_H
#define DL_TRACE_PRINT_H

#include <stdio.h>

#include "common/json.h"
#include "common/notes.h"

#define DL_PRINT_COLUMNS 80     /* width of a line */
#define DL_PRINT_KEY_COLUMNS 17 /* width before a value, including the space */

/* Prints "key   value"; continuation lines of the value are aligned with its start. After a key of
 * DL_PRINT_KEY_COLUMNS bytes or more, a single space precedes the value. */
void dl_print_pair(FILE *out, const char *key, const char *value);

/* If there are notes, prints `title`, then each note wrapped as above, preceded by `first`. */
void dl_notes_print(const dl_notes *notes, const char *title, const char *first, FILE *out);

/* Writes the notes as the array `name`. */
void dl_notes_write_json(dl_json *to, const char *name, const dl_notes *notes);

#endif
