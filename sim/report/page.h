/* A study's results as one self-contained HTML page: tables, figures, the parts of the time and the
 * largest gains, predictions beside measurements, assumptions, and the results as a table to
 * save. */
#ifndef DL_SIM_PAGE_H
#define DL_SIM_PAGE_H

#include "sim/report/accuracy.h"
#include "sim/report/explain.h"

/* Writes the page of an explained sweep (rows of the study's points) and measured [row_count] to
 * `path`. `results` is the file name of the table to save; explain_results adds the columns of
 * --explain to it. If a figure cannot be drawn, the page gives the reason; this is not an error. */
dl_status dl_page_write(const char *path, const char *results, const dl_explanation *explanation,
                        bool explain_results, const dl_measured *measured,
                        dl_error *err) DL_MUST_CHECK;

/* Writes the errors of measured rows, by use, as an HTML table. */
void dl_page_errors(FILE *out, const dl_errors *errors);

#endif
