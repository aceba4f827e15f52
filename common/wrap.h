/* Displayed text, in lines of a terminal. */
#ifndef DL_COMMON_WRAP_H
#define DL_COMMON_WRAP_H

#include <stdio.h>

#include "common/status.h"

/* Returns the line width of `out`, at least 40: the environment's COLUMNS, else that of its
 * terminal, else 80. A stream in memory has 80. */
int dl_wrap_columns(FILE *out);

/* Writes the words of `text` from `column` (the current length of the line), wrapped at blanks into
 * lines of at most `columns`, and at the text's own newlines; further lines start with `indent`
 * blanks. A longer word has a separate line. Ends the last line. */
void dl_wrap(FILE *out, const char *text, int column, int indent, int columns);

/* Writes a formatted text from the start of a line, in lines of dl_wrap_columns(out). */
void dl_wrap_print(FILE *out, int indent, const char *format, ...) DL_PRINTF(3, 4);

#endif
