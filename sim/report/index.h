/* The index of many studies' pages: one HTML page from the results (CSV) that dlsim wrote for each
 * study. */
#ifndef DL_SIM_INDEX_H
#define DL_SIM_INDEX_H

#include <stdio.h>

#include "common/status.h"

/* Reads a list (CSV) with columns group, title, file, in display order. Files are relative to the
 * list's folder, in which the page `path` must be, too:
 *
 *   NAME.csv   results of dlsim: a row of the group's table, with a link to NAME.html. If it is
 *              missing, the study failed and the last line of NAME.txt gives the reason
 *   NAME.svg   a figure
 *   NAME.txt   a text shown verbatim on a click
 *
 * A study's title is the scenario's name in its results, else that of the list. Writes the page to
 * `path`, a table of all measured rows to `rows` (NULL: none), and a few lines to `summary` (NULL:
 * none): the number of studies with each verdict (accuracy.h), and the errors by use (measured.h)
 * of the rows of all studies. Errors: DL_ERR_NAME for a missing column, DL_ERR_DATA for a file
 * without one of these extensions; errors of reading and writing. */
dl_status dl_index_write(const char *path, const char *rows, FILE *summary, const char *list,
                         dl_error *err) DL_MUST_CHECK;

#endif
