/* Remarks that go with a result: what was assumed, left out or looks doubtful. They are collected
 * by the modules and printed by the program. */
#ifndef DL_CALIBRATE_NOTES_H
#define DL_CALIBRATE_NOTES_H

#include <stddef.h>
#include <stdio.h>

#include "common/json.h"
#include "common/status.h"
#include "sim/costs/costs.h"

/* Owns its lines; zero before use, release with dl_notes_free. */
typedef struct dl_notes {
    char **lines; /* [count] one sentence each, without newline */
    size_t count;
} dl_notes;

void dl_notes_add(dl_notes *notes, const char *format, ...) DL_PRINTF(2, 3);

/* One after the other after "  - ", lines of at most 80 columns broken between words. */
void dl_notes_print(const dl_notes *notes, FILE *out);
void dl_notes_free(dl_notes *notes);

/* Cost files as dlcal writes them: their first lines say where the values come from, and all that
 * was noted. */

/* Now in UTC, as "2026-01-31T12:00:00Z". */
#define DL_DATE_BYTES 32

const char *dl_date_text(char text[DL_DATE_BYTES]);

/* dl_costs_write with the lines of `from` (program, date, inputs), then those of `notes`, as the
 * comment. */
dl_status dl_cost_file_write(const dl_costs *costs, const char *path, const dl_notes *from,
                             const dl_notes *notes, dl_error *err) DL_MUST_CHECK;

/* The JSON file of a report of dlcal: one object with schema, program and version, what the report
 * is of, and all notes. */

/* Writes the members that `report` has of its own. */
typedef void (*dl_json_members_fn)(dl_json *to, const void *report);

/* Writes `path`. Errors of dl_output_open and dl_output_close. */
dl_status dl_json_report_write(const char *path, dl_json_members_fn members, const void *report,
                               const dl_notes *notes, dl_error *err) DL_MUST_CHECK;

#endif
