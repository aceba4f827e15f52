/* CSV tables of calls timed by a script: see links.h. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/csv.h"
#include "common/names.h"
#include "sim/collective/collective.h"

#define RANKS_MAX 65536
#define STARTS_MAX 1000000

enum { COLLECTIVE, RANKS, BYTES, TIME, NODES, START, COLUMNS };

/* Names of columns, case-insensitive; time columns imply a unit. */
static const struct {
    int column;
    const char *name;
    double ns; /* ns per unit of the time; 0 for other columns */
} names[] = {
    {COLLECTIVE, "collective", 0}, {COLLECTIVE, "operation", 0},
    {COLLECTIVE, "op", 0},         {COLLECTIVE, "test", 0},
    {RANKS, "ranks", 0},           {RANKS, "nranks", 0},
    {RANKS, "world_size", 0},      {RANKS, "gpus", 0},
    {BYTES, "bytes", 0},           {BYTES, "size", 0},
    {BYTES, "size_bytes", 0},      {BYTES, "message_bytes", 0},
    {TIME, "time_us", 1e3},        {TIME, "latency_us", 1e3},
    {TIME, "time_ns", 1},          {TIME, "time_ms", 1e6},
    {TIME, "latency_ms", 1e6},     {TIME, "time_s", 1e9},
    {NODES, "nodes", 0},           {START, "start", 0},
};

static const char *const column_names[COLUMNS] = {"collective", "ranks", "bytes",
                                                  "time_us",    "nodes", "start"};

/* Returns the column named text[length], or -1; sets *ns to the unit of a time column. */
static int column_of(const char *text, size_t length, double *ns)
{
    while (length > 0 && strchr(" \t\r\"", text[0]) != NULL)
        text++, length--;
    while (length > 0 && strchr(" \t\r\"", text[length - 1]) != NULL)
        length--;
    for (size_t i = 0; i < DL_LENGTH(names); i++) {
        if (strlen(names[i].name) != length || strncasecmp(names[i].name, text, length) != 0)
            continue;
        if (names[i].column == TIME) *ns = names[i].ns;
        return names[i].column;
    }
    return -1;
}

bool dl_link_table_recognized(const char *text, size_t bytes)
{
    bool has[COLUMNS] = {false};
    double ns;
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        bytes -= 3;
    }
    while (bytes > 0 && *text == '#') { /* skip comments before the names */
        const char *end = memchr(text, '\n', bytes);
        if (end == NULL) return false;
        bytes -= (size_t)(end + 1 - text);
        text = end + 1;
    }
    const char *feed = memchr(text, '\n', bytes), *end = feed != NULL ? feed : text + bytes;
    while (text < end) {
        const char *stop = text;
        while (stop < end && strchr(",;\t", *stop) == NULL)
            stop++;
        const int column = column_of(text, (size_t)(stop - text), &ns);
        if (column >= 0) has[column] = true;
        text = stop + 1;
    }
    return has[COLLECTIVE] && has[RANKS] && has[BYTES] && has[TIME];
}

/* Collectives of nccl-tests that the simulator lacks: fitted, but not written to cost files. */
static const char *const unsimulated[] = {"sendrecv", "gather", "scatter", "hypercube"};

/* Returns the name in the simulator or in nccl-tests of a collective such as "all_reduce_perf" or
 * "AllReduce", or the text itself if it is unknown. */
static const char *plain_name(const char *text)
{
    char plain[32];
    size_t length = 0;
    for (const char *c = text; *c != '\0' && strcmp(c, "_perf") != 0; c++) {
        if (*c == '_' || *c == '-' || *c == ' ') continue;
        if (length + 1 == sizeof plain) return text;
        plain[length++] = (char)tolower((unsigned char)*c);
    }
    plain[length] = '\0';
    const int kind = dl_names_find(plain, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
    if (kind >= 0) return dl_collective_kind_names[kind];
    const int other = dl_names_find(plain, unsimulated, DL_LENGTH(unsimulated));
    return other >= 0 ? unsimulated[other] : text;
}

static dl_status number_at(const dl_csv *csv, size_t row, int column, double low, double high,
                           double *value, dl_error *err)
{
    const dl_status status = dl_csv_number(csv, row, (size_t)column, value, err);
    if (status != DL_OK || (*value >= low && *value <= high)) return status;
    return dl_error_set_at(err, DL_ERR_RANGE, csv->path, csv->lines[row],
                           "%s: expected a number from %g to %g", csv->names[column], low, high);
}

static dl_status take_row(dl_link_data *data, const dl_csv *csv, size_t row, const int *columns,
                          double unit_ns, dl_error *err)
{
    static const char *const others[] = {"roundtrip",        "update",         "allreduce_pair",
                                         "allreduce_beside", "allreduce_late", "pushpull"};
    const char *name = plain_name(dl_csv_cell(csv, row, (size_t)columns[COLLECTIVE]));
    const bool collective =
        dl_names_find(name, dl_collective_kind_names, DL_COLLECTIVE_KINDS) >= 0 ||
        dl_names_find(name, unsimulated, DL_LENGTH(unsimulated)) >= 0;
    double ranks, bytes, time, nodes = 1, start = 0;
    dl_status status;
    if (!collective && dl_names_find(name, others, DL_LENGTH(others)) < 0) {
        char hint[200];
        dl_names_hint(hint, sizeof hint, name, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
        return dl_error_set_at(err, DL_ERR_NAME, csv->path, csv->lines[row],
                               "unknown collective '%.40s'%s, nor is it roundtrip, pushpull, "
                               "update, allreduce_pair, allreduce_beside or allreduce_late",
                               name, hint);
    }
    if ((status = number_at(csv, row, columns[RANKS], 1, RANKS_MAX, &ranks, err)) ||
        (status = number_at(csv, row, columns[BYTES], 0, DL_LINK_BYTES_MAX, &bytes, err)) ||
        (status = number_at(csv, row, columns[TIME], DL_LINK_TIME_MIN_NS / unit_ns,
                            DL_LINK_TIME_MAX_NS / unit_ns, &time, err)) ||
        (columns[NODES] >= 0 &&
         (status = number_at(csv, row, columns[NODES], 1, ranks, &nodes, err))) ||
        (columns[START] >= 0 &&
         (status = number_at(csv, row, columns[START], 1, STARTS_MAX, &start, err)))) {
        return status;
    }
    const dl_link_series key = {
        .path = csv->path,
        .name = (char *)name,
        .collective = collective,
        .ranks = (int)ranks,
        .nodes = (int)nodes,
        .place = collective ? DL_LINK_IN_PLACE : DL_LINK_ANYWHERE,
    };
    dl_link_data_add(data, &key,
                     (dl_link_point){.bytes = bytes,
                                     .time_ns = time * unit_ns,
                                     .count = 1,
                                     .line = csv->lines[row],
                                     .start = (int)start});
    return DL_OK;
}

dl_status dl_link_table_read(dl_link_data *data, const char *name, const char *text, size_t bytes,
                             dl_error *err)
{
    DL_SCOPED(dl_csv) csv = {0};
    int columns[COLUMNS];
    dl_status status = dl_csv_read_text(&csv, name, text, bytes, err);
    double unit_ns = 1;
    for (int c = 0; c < COLUMNS; c++)
        columns[c] = -1;
    for (size_t i = 0; i < csv.columns && status == DL_OK; i++) {
        double ns = 1;
        const int c = column_of(csv.names[i], strlen(csv.names[i]), &ns);
        if (c < 0 || columns[c] >= 0) continue;
        columns[c] = (int)i;
        if (c == TIME) unit_ns = ns;
    }
    for (int c = 0; c < NODES && status == DL_OK; c++) {
        if (columns[c] < 0)
            status = dl_error_set_at(err, DL_ERR_DATA, name, 0, "no column '%s'", column_names[c]);
    }
    if (status == DL_OK && csv.rows == 0) {
        status = dl_error_set_at(err, DL_ERR_DATA, name, 0, "the table has no rows");
    }
    for (size_t row = 0; row < csv.rows && status == DL_OK; row++)
        status = take_row(data, &csv, row, columns, unit_ns, err);
    return status;
}
