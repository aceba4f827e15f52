#include "calibrate/json_report.h"

#include "common/options.h"
#include "common/output.h"

#define SCHEMA 1

dl_status dl_json_report_write(const char *path, dl_json_members_fn members, const void *report,
                               const dl_notes *notes, dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_json to = {output.out, false};
    dl_json_begin(&to, NULL, '{');
    dl_json_number_item(&to, "schema", SCHEMA);
    dl_json_text_item(&to, "program", "dlcal");
    dl_json_text_item(&to, "version", dl_version());
    members(&to, report);
    dl_json_begin(&to, "notes", '[');
    for (size_t i = 0; i < notes->count; i++)
        dl_json_text_item(&to, NULL, notes->lines[i]);
    dl_json_end(&to, ']');
    dl_json_end(&to, '}');
    fputc('\n', output.out);
    return dl_output_close(&output, err);
}
