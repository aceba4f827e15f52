/* Self-contained HTML pages: head with style, escaped text, tables, figures. Write errors stay in
 * the stream (ferror) for the caller that closes it. */
#ifndef DL_SIM_HTML_H
#define DL_SIM_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/columns.h"
#include "common/status.h"

/* dl_html_begin writes the document type, head and first heading; dl_html_end writes the end of the
 * page. */
void dl_html_begin(FILE *out, const char *title);
void dl_html_end(FILE *out);

/* Formats HTML like printf. The text of %s is escaped (& < > " '; control characters except line
 * breaks become spaces); NaN prints nothing. Conversions: %s, %.*s, %d, %lld, %zu, %f, %g with
 * flags, width and precision, and %%. */
void dl_html(FILE *out, const char *format, ...) DL_PRINTF(2, 3);

/* Writes JSON as a data element that scripts find by `id`; the JSON cannot end the element. */
void dl_html_data(FILE *out, const char *id, const char *json);

/* Writes the script that draws figures, from share/dlscale/page (common/install.h). If the file is
 * missing, returns false and writes a remark into the page. */
bool dl_html_figures_script(FILE *out);

/* dl_html_figures writes the element in which figures.js draws the figures of this JSON.
 * dl_html_show writes the call that draws them; call it after all data. */
void dl_html_figures(FILE *out, const char *json);
void dl_html_show(FILE *out);

/* Embeds an SVG figure; `alt` describes it for screen readers. */
void dl_html_figure(FILE *out, const char *svg, size_t bytes, const char *alt, const char *caption);

/* Writes a verbatim text that opens on a click on its title. */
void dl_html_details(FILE *out, const char *title, const char *text);

/* Writes the columns that have a heading and values. A row's first cell is a header cell; mark and
 * remark share a column at the end; the chosen row has the class "best". */
void dl_html_table(FILE *out, const char *caption, const dl_column_table *table);

#endif
