#include "calibrate/notes.h"

#include <time.h>

#include "common/alloc.h"
#include "common/options.h"
#include "common/output.h"

const char *dl_date_text(char text[DL_DATE_BYTES])
{
    const time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, DL_DATE_BYTES, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

dl_status dl_cost_file_write(const dl_costs *costs, const char *path, const dl_notes *from,
                             const dl_notes *notes, dl_error *err)
{
    DL_AUTOFREE char *comment = NULL;
    size_t bytes = 0;
    FILE *lines = dl_text_stream(&comment, &bytes);
    for (size_t i = 0; i < from->count; i++)
        fprintf(lines, "%s\n", from->lines[i]);
    for (size_t i = 0; i < notes->count; i++)
        fprintf(lines, "%s\n", notes->lines[i]);
    fclose(lines);
    return dl_costs_write(costs, path, comment, err);
}

#define SCHEMA 1

dl_status dl_json_report_write(const char *path, dl_json_members_fn members, const void *report,
                               const dl_notes *notes, dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_json to = {output.out, false};
    dl_json_begin(&to, NULL, '{');
    dl_json_members(&to, "schema=%d program=%s version=%s", SCHEMA, "dlcal", dl_version());
    members(&to, report);
    dl_notes_write_json(&to, "notes", notes);
    dl_json_end(&to, '}');
    fputc('\n', output.out);
    return dl_output_close(&output, err);
}
