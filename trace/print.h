/* Lines and cells of the summaries that people read. Write errors: ferror(out). */
#ifndef DL_TRACE_PRINT_H
#define DL_TRACE_PRINT_H

#include <stddef.h>
#include <stdio.h>

#include "common/json.h"

#define DL_PRINT_COLUMNS 80     /* of a line */
#define DL_PRINT_KEY_COLUMNS 17 /* before a value, the space included */

/* "key   value", which is broken at spaces, a long word at '/', and continued under itself; after a
 * key of DL_PRINT_KEY_COLUMNS bytes or more (shorter than a line) a space, and what is continued
 * stands further in. */
void dl_print_pair(FILE *out, const char *key, const char *value);

/* Sentences that go with a result: what was assumed, left out or looks doubtful. They are collected
 * by the modules and printed by the program. Owns its lines; zero before use, release with
 * dl_notes_free. */
typedef struct dl_notes {
    char **lines; /* [count] one sentence each, without newline */
    size_t count;
} dl_notes;

/* Adds a sentence, once. */
void dl_notes_add(dl_notes *notes, const char *format, ...) DL_PRINTF(2, 3);

/* If there are any: `title`, then each wrapped as above after `first`. */
void dl_notes_print(const dl_notes *notes, const char *title, const char *first, FILE *out);

/* The list `name` of them. */
void dl_notes_write_json(dl_json *to, const char *name, const dl_notes *notes);
void dl_notes_free(dl_notes *notes);

#endif
