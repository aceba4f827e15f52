/* Cost files as dlcal writes them: their first lines say where the values come from, and all that
 * was noted. */
#ifndef DL_CALIBRATE_COST_FILE_H
#define DL_CALIBRATE_COST_FILE_H

#include "calibrate/notes.h"
#include "sim/costs/costs.h"

/* Now in UTC, as "2026-01-31T12:00:00Z". */
#define DL_DATE_BYTES 32
const char *dl_date_text(char text[DL_DATE_BYTES]);

/* dl_costs_write with the lines of `from` (program, date, inputs), then those of `notes`, as the
 * comment. */
dl_status dl_cost_file_write(const dl_costs *costs, const char *path, const dl_notes *from,
                             const dl_notes *notes, dl_error *err) DL_MUST_CHECK;

#endif
