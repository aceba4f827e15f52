/* Lines and cells of the summaries that people read. Write errors: ferror(out). */
#ifndef DL_TRACE_PRINT_H
#define DL_TRACE_PRINT_H

#include <stdio.h>

#define DL_PRINT_COLUMNS 80     /* of a line */
#define DL_PRINT_KEY_COLUMNS 17 /* before a value, the space included */

/* `first` (shorter than a line) and the text, which is broken at spaces, a long word at '/', and
 * continued under itself. */
void dl_print_wrapped(FILE *out, const char *first, const char *text);

/* "key   value", wrapped so; after a key of DL_PRINT_KEY_COLUMNS bytes or more (shorter than a
 * line) a space, and what is continued stands further in. */
void dl_print_pair(FILE *out, const char *key, const char *value);

#endif
