/* Self-contained HTML pages: head with style, escaped text, tables, pictures. Write errors stay in
 * the stream (ferror) for the caller that closes it. */
#ifndef DL_SIM_HTML_H
#define DL_SIM_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/columns.h"
#include "common/status.h"

/* dl_html_begin: document type, head and first heading. dl_html_end: the end of the page. */
void dl_html_begin(FILE *out, const char *title);
void dl_html_end(FILE *out);

/* printf of HTML, in which the text of %s is escaped (& < > " ', control characters except line
 * breaks become spaces) and NaN prints as nothing. Conversions: %s, %.*s, %d, %lld, %zu, %f, %g
 * with flags, width and precision, and %%. */
void dl_html(FILE *out, const char *format, ...) DL_PRINTF(2, 3);

/* JSON as data of the page that scripts find by `id`; nothing in it ends the element. */
void dl_html_data(FILE *out, const char *id, const char *json);

/* A script of share/dlscale/page (common/install.h); false, and a remark in the page, where it is
 * missing. */
bool dl_html_script(FILE *out, const char *name);

/* dl_html_figures: the element in which figures.js draws the figures of this JSON.
 * dl_html_show: the call that draws them, to be put after all data. */
void dl_html_figures(FILE *out, const char *json);
void dl_html_show(FILE *out);

/* An SVG picture inside the page; `alt` describes it for screen readers. */
void dl_html_figure(FILE *out, const char *svg, size_t bytes, const char *alt, const char *caption);

/* A verbatim text, shown on a click on its title. */
void dl_html_details(FILE *out, const char *title, const char *text);

/* Writes the columns that have a heading. A row's first cell is its heading; mark and remark are in
 * columns of their own at the end; the chosen row has the class "best". */
void dl_html_table(FILE *out, const char *caption, const dl_column_table *table);

#endif
