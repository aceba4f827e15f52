#include "calibrate/cost_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *dl_date_text(char text[DL_DATE_BYTES])
{
    const time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, DL_DATE_BYTES, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

static void put_lines(FILE *out, const dl_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        fprintf(out, "%s\n", notes->lines[i]);
}

dl_status dl_cost_file_write(const dl_costs *costs, const char *path, const dl_notes *from,
                             const dl_notes *notes, dl_error *err)
{
    char *comment = NULL;
    size_t bytes = 0;
    FILE *lines = open_memstream(&comment, &bytes);
    DL_ASSERT(lines != NULL, "%s", strerror(errno));
    put_lines(lines, from);
    put_lines(lines, notes);
    fclose(lines);
    const dl_status status = dl_costs_write(costs, path, comment, err);
    free(comment);
    return status;
}
