/* Notes of a calibration (trace/print.h) in the files that dlcal writes. */
#ifndef DL_CALIBRATE_NOTES_H
#define DL_CALIBRATE_NOTES_H

#include "common/json.h"
#include "common/status.h"
#include "sim/costs/costs.h"
#include "trace/print.h"

/* Cost files of dlcal begin with comment lines: the origin of the values, and all notes. */

/* Formats the current UTC time as "2026-01-31T12:00:00Z"; returns text. */
#define DL_DATE_BYTES 32

const char *dl_date_text(char text[DL_DATE_BYTES]);

/* Writes the cost file (dl_costs_write) with a comment of the lines of `from` (program, date,
 * inputs) and `notes`. Returns the errors of dl_costs_write. */
dl_status dl_cost_file_write(const dl_costs *costs, const char *path, const dl_notes *from,
                             const dl_notes *notes, dl_error *err) DL_MUST_CHECK;

/* JSON file of a report of dlcal: one object with schema, program and version, the report's own
 * members, and all notes. */

/* Writes the report's own members. */
typedef void (*dl_json_members_fn)(dl_json *to, const void *report);

/* Writes the report to `path`. Returns the errors of dl_output_open and dl_output_close. */
dl_status dl_json_report_write(const char *path, dl_json_members_fn members, const void *report,
                               const dl_notes *notes, dl_error *err) DL_MUST_CHECK;

#endif
