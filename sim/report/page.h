/* A study's results as one HTML page that needs nothing beside it: tables, figures, what takes the
 * time and what would help most, predicted beside measured, what was assumed, and the results as a
 * table to save. */
#ifndef DL_SIM_PAGE_H
#define DL_SIM_PAGE_H

#include "sim/report/accuracy.h"
#include "sim/report/explain.h"

/* Writes the page of an explained sweep (rows of the study's points) and measured [row_count] to
 * `path`; `results` is how the table to save is called, which has what --explain adds where
 * explain_results is set. A figure that cannot be drawn is no error: the page says why. */
dl_status dl_page_write(const char *path, const char *results, const dl_explanation *explanation,
                        bool explain_results, const dl_measured *measured,
                        dl_error *err) DL_MUST_CHECK;

/* The errors of measured rows by what they are to the prediction, as a table of HTML. */
void dl_page_errors(FILE *out, const dl_errors *errors);

#endif
