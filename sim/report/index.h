/* The index of many studies' pages: one HTML page from the results (CSV) that dlsim wrote of
 * each. */
#ifndef DL_SIM_INDEX_H
#define DL_SIM_INDEX_H

#include <stdio.h>

#include "common/status.h"

/* Reads a list (CSV) with columns group, title, file, in the order to be shown; files relative to
 * the list's folder, where `path`, the page, belongs too:
 *
 *   NAME.csv   results of dlsim: a row of the group's table, with a link to NAME.html. If it is not
 *              there the study failed; then the last line of NAME.txt says why
 *   NAME.svg   a figure                  NAME.txt   a text to be shown as it is by a click
 *
 * The title is of the latter two, and of a study without results. Writes the page to `path`, to
 * `rows` (NULL: not) a table of all measured rows, and to `summary` (NULL: not) a few lines: how
 * many studies are predicted, and the errors by use (measured.h). Of each study counted: errors of
 * its rows, the verdict (accuracy.h). DL_ERR_NAME for a column that is missing, DL_ERR_DATA for a
 * file of another kind; errors of reading. */
dl_status dl_index_write(const char *path, const char *rows, FILE *summary, const char *list,
                         dl_error *err) DL_MUST_CHECK;

#endif
