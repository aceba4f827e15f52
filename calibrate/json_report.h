/* The JSON file of a report of dlcal: one object with schema, program and version, what the report
 * is of, and all notes. */
#ifndef DL_CALIBRATE_JSON_REPORT_H
#define DL_CALIBRATE_JSON_REPORT_H

#include "calibrate/notes.h"
#include "common/json.h"

/* Writes the members that `report` has of its own. */
typedef void (*dl_json_members_fn)(dl_json *to, const void *report);

/* Writes `path`. Errors of dl_output_open and dl_output_close. */
dl_status dl_json_report_write(const char *path, dl_json_members_fn members, const void *report,
                               const dl_notes *notes, dl_error *err) DL_MUST_CHECK;

#endif
