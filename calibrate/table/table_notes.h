/* What a fit to a table has to say in words: costs that the rows do not determine or cannot tell
 * apart, rows that it does not explain, runs that failed; and the cost file that it becomes. */
#ifndef DL_CALIBRATE_TABLE_NOTES_H
#define DL_CALIBRATE_TABLE_NOTES_H

#include "calibrate/table/table_fit.h"

#define DL_TABLE_VALUE_BYTES 48

/* A cost with its unit for people, by its name: "1.82 ms", "9.1 GB/s", "1.04"; returns text. */
const char *dl_table_value_text(char text[DL_TABLE_VALUE_BYTES], const char *name, double value);

/* Fills fit->notes from its other members. */
void dl_table_notes_add(dl_table_fit *fit);

#endif
