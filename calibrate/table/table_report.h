/* Prints and writes what a fit to a table found. */
#ifndef DL_CALIBRATE_TABLE_REPORT_H
#define DL_CALIBRATE_TABLE_REPORT_H

#include <stdio.h>

#include "calibrate/table/table_fit.h"

/* For people, at most 80 columns wide: costs with errors, every row with its residual and how far
 * off it is when it is left out, the notes. */
void dl_table_report_print(const dl_table_fit *fit, FILE *out);

/* The same content as JSON, in the units of the cost file; what is not known is null. Creates
 * (overwrites) `path`. DL_ERR_IO with the system's reason. */
dl_status dl_table_report_json_write(const dl_table_fit *fit, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

#endif
