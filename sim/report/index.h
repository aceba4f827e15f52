/* The index of many studies' pages: one HTML page from the results (CSV) that dlsim wrote for
 * each. */
#ifndef DL_SIM_INDEX_H
#define DL_SIM_INDEX_H

#include <stdio.h>

#include "common/status.h"

/* Reads a list (CSV) with columns group, title, file, in display order; files are relative to the
 * list's folder, where the page, `path`, belongs too:
 *
 *   NAME.csv   results of dlsim: a row of the group's table, with a link to NAME.html. If it is
 *              missing the study failed; the last line of NAME.txt then says why
 *   NAME.svg   a figure                  NAME.txt   a text shown verbatim on a click
 *
 * The title is used for the latter two, and for a study without results. Writes the page to `path`,
 * to `rows` (NULL: not) a table of all measured rows, and to `summary` (NULL: not) a few lines: the
 * number of predicted studies, and the errors by use (measured.h). Each study counts with the
 * errors of its rows and its verdict (accuracy.h). DL_ERR_NAME for a missing column, DL_ERR_DATA
 * for a file of another kind; errors of reading. */
dl_status dl_index_write(const char *path, const char *rows, FILE *summary, const char *list,
                         dl_error *err) DL_MUST_CHECK;

#endif
