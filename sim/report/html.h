/* HTML pages that need nothing beside them: head with style, escaped text, tables, pictures. Write
 * errors stay in the stream (ferror) for whoever closes it. */
#ifndef DL_SIM_HTML_H
#define DL_SIM_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

/* Document type, head and the page's first heading; and the end of what that began. */
void dl_html_begin(FILE *out, const char *title);
void dl_html_end(FILE *out);

/* printf of HTML, in which the text of %s is escaped (& < > " ', control characters but line breaks
 * become blanks) and a number that is NaN is nothing. Conversions: %s, %.*s, %d, %lld, %zu, %f, %g
 * with flags, width and precision, and %%. */
void dl_html(FILE *out, const char *format, ...) DL_PRINTF(2, 3);

/* text[bytes] as base64. */
void dl_html_base64(FILE *out, const char *text, size_t bytes);

/* An SVG picture inside the page; `alt` says what it shows to whom cannot see it. */
void dl_html_figure(FILE *out, const char *svg, size_t bytes, const char *alt, const char *caption);

/* A text as it is, behind a click on its title. */
void dl_html_details(FILE *out, const char *title, const char *text);

/* A table. Each heading is a column's name with its unit; one that starts with '<' is of text,
 * aligned left, the others are of numbers; a column NULL is not shown. The first cell of a row is
 * its heading. */
typedef struct dl_html_table {
    FILE *out;
    const char *const *columns;
    size_t count;
} dl_html_table;

void dl_html_table_begin(dl_html_table *table, FILE *out, const char *caption,
                         const char *const *columns, size_t count);
void dl_html_table_end(dl_html_table *table);

/* A row of a class of the style sheet, or NULL: the format is that of dl_html with a tab before
 * each cell but the first. A cell with a number that is NaN is empty. */
void dl_html_row(dl_html_table *table, const char *row_class, const char *format, ...)
    DL_PRINTF(3, 4);

#endif
