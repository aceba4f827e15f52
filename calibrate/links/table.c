/* Tables of calls that a script has timed: see links.h. */
#include <stdlib.h>
#include <string.h>

#include "calibrate/links/links.h"
#include "common/csv.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/collective/collective.h"

#define BYTES_MAX 1e15
#define TIME_MAX_US 1e12
#define NS_PER_US 1e3
#define RANKS_MAX 65536

enum { COLLECTIVE, RANKS, BYTES, TIME, COLUMNS };

static const char *const column_names[COLUMNS] = {"collective", "ranks", "bytes", "time_us"};

bool dl_link_table_recognized(const char *text, size_t bytes)
{
    static const char head[] = "collective,ranks,bytes,time_us";
    while (bytes > 0 && *text == '#') { /* comments before the names */
        const char *end = memchr(text, '\n', bytes);
        if (end == NULL) return false;
        bytes -= (size_t)(end + 1 - text);
        text = end + 1;
    }
    return bytes >= sizeof head - 1 && memcmp(text, head, sizeof head - 1) == 0;
}

static dl_status number_at(const dl_csv *csv, size_t row, int column, double low, double high,
                           double *value, dl_error *err)
{
    const dl_status status = dl_csv_number(csv, row, (size_t)column, value, err);
    if (status != DL_OK || (*value >= low && *value <= high)) return status;
    return dl_error_set_at(err, DL_ERR_RANGE, csv->path, csv->lines[row],
                           "%s: want a number from %g to %g", csv->names[column], low, high);
}

static dl_status take_row(dl_link_data *data, const dl_csv *csv, size_t row, const int *columns,
                          dl_error *err)
{
    static const char *const copies[] = {"roundtrip", "update"};
    const char *name = dl_csv_cell(csv, row, (size_t)columns[COLLECTIVE]);
    const bool collective = dl_names_find(name, dl_collective_kind_names, DL_COLLECTIVE_KINDS) >= 0;
    double ranks, bytes, time_us;
    dl_status status;
    if (!collective && dl_names_find(name, copies, 2) < 0) {
        char hint[200];
        dl_names_hint(hint, sizeof hint, name, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
        return dl_error_set_at(err, DL_ERR_NAME, csv->path, csv->lines[row],
                               "unknown collective '%.40s'%s, nor is it roundtrip or update", name,
                               hint);
    }
    if ((status = number_at(csv, row, columns[RANKS], 1, RANKS_MAX, &ranks, err)) ||
        (status = number_at(csv, row, columns[BYTES], 0, BYTES_MAX, &bytes, err)) ||
        (status = number_at(csv, row, columns[TIME], 1e-6, TIME_MAX_US, &time_us, err))) {
        return status;
    }
    const dl_link_series key = {
        .path = csv->path,
        .name = (char *)name,
        .collective = collective,
        .ranks = (int)ranks,
        .nodes = 1,
        .place = collective ? DL_LINK_IN_PLACE : DL_LINK_ANYWHERE,
    };
    dl_link_data_add(
        data, &key,
        (dl_link_point){
            .bytes = bytes, .time_ns = time_us * NS_PER_US, .count = 1, .line = csv->lines[row]});
    return DL_OK;
}

dl_status dl_link_table_read(dl_link_data *data, const char *name, const char *text, size_t bytes,
                             dl_error *err)
{
    dl_csv csv = {0};
    int columns[COLUMNS];
    dl_status status = dl_csv_read_text(&csv, name, text, bytes, err);
    for (int c = 0; c < COLUMNS && status == DL_OK; c++) {
        columns[c] = dl_csv_column(&csv, column_names[c]);
        if (columns[c] < 0) {
            status = dl_error_set_at(err, DL_ERR_DATA, name, 0, "no column '%s'", column_names[c]);
        }
    }
    if (status == DL_OK && csv.rows == 0) {
        status = dl_error_set_at(err, DL_ERR_DATA, name, 0, "the table has no rows");
    }
    for (size_t row = 0; row < csv.rows && status == DL_OK; row++)
        status = take_row(data, &csv, row, columns, err);
    dl_csv_free(&csv);
    return status;
}
