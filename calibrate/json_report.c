#include "calibrate/json_report.h"

#include <errno.h>
#include <string.h>

#include "common/options.h"

#define SCHEMA 1

dl_status dl_json_report_write(const char *path, dl_json_members_fn members, const void *report,
                               const dl_notes *notes, dl_error *err)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot create: %s", strerror(errno));
    }
    dl_json to = {out, false};
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
    fputc('\n', out);
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot write: %s", strerror(errno));
    }
    return DL_OK;
}
