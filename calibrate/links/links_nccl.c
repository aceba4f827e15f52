/* nccl-tests: "# ..." lines about devices, a head, and a row a size.
 *
 *   # Collective test starting: all_reduce_perf                        from version 2.17 on
 *   #  Rank  0 Group  0 Pid 41 on host device  0 [0000:1b:00] NVIDIA H100
 *   #       size   count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong
 *        1048576  262144  float    sum    -1  74.78  14.02  24.54      0  76.17  13.77  24.09      0
 *
 * Columns redop and root are missing where older versions have no use for them; the first group of
 * times is out of place. Sizes are bytes, times microseconds of a call. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/dataset.h"
#include "calibrate/links/links_lines.h"
#include "common/alloc.h"
#include "common/names.h"

#define NS_PER_US 1e3
#define HOSTS_MAX 1024
#define PLACES 2
#define FACTOR_MARGIN 0.05 /* relative; of two rates printed to three digits */
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* busbw over algbw; nccl-tests, doc/PERFORMANCE.md. */
typedef enum factor { TWICE_OTHERS, OTHERS, ONE, UNKNOWN } factor;

static const struct {
    const char *program, *name; /* program without "_perf" */
    bool redop, root;           /* columns that say something */
    factor factor;
} collectives[] = {
    {"all_reduce", "allreduce", true, false, TWICE_OTHERS},
    {"reduce_scatter", "reducescatter", true, false, OTHERS},
    {"all_gather", "allgather", false, false, OTHERS},
    {"alltoall", "alltoall", false, false, OTHERS},
    {"broadcast", "broadcast", false, true, ONE},
    {"reduce", "reduce", true, true, ONE},
    {"sendrecv", "sendrecv", true, false, ONE},
    {"gather", "gather", false, true, OTHERS},
    {"scatter", "scatter", false, true, OTHERS},
    {"hypercube", "hypercube", false, false, UNKNOWN},
};

typedef struct state {
    char *device;
    char *hosts[HOSTS_MAX];
    int ranks, nodes;
    bool listed;    /* ranks one by one */
    int collective; /* index, -1 = not said */
    /* Of the head: columns; count 0 = there was none. */
    size_t columns, time[PLACES], redop, root; /* 0 = there is none */
} state;

static void forget_devices(state *s)
{
    for (int i = 0; i < s->nodes; i++)
        free(s->hosts[i]);
    free(s->device);
    s->device = NULL;
    s->ranks = s->nodes = 0;
    s->listed = false;
}

static void add_host(state *s, const char *host)
{
    for (int i = 0; i < s->nodes; i++) {
        if (strcmp(s->hosts[i], host) == 0) return;
    }
    if (s->nodes < HOSTS_MAX) s->hosts[s->nodes++] = dl_strdup(host);
}

/* "#  Rank  0 Group  0 Pid 41 on host device  0 [0x1b] NVIDIA H100" */
static void take_rank(state *s, const dl_link_log *log)
{
    if (!s->listed) s->ranks = 0;
    s->listed = true;
    s->ranks++;
    for (size_t i = 2; i + 1 < log->word_count; i++) {
        if (strcmp(log->words[i], "on") == 0) add_host(s, log->words[i + 1]);
    }
    const char *model = strchr(log->text, ']');
    if (model == NULL || s->device != NULL) return;
    model++;
    model += strspn(model, " \t");
    size_t length = strlen(model);
    while (length > 0 && isspace((unsigned char)model[length - 1]))
        length--;
    if (length > 0) s->device = dl_strndup(model, length);
}

static dl_status take_program(state *s, const dl_link_log *log, dl_error *err)
{
    const char *names[LENGTH(collectives)];
    char program[64], hint[256];
    snprintf(program, sizeof program, "%s", log->words[log->word_count - 1]);
    char *end = strstr(program, "_perf");
    if (end != NULL) *end = '\0';
    for (size_t i = 0; i < LENGTH(collectives); i++)
        names[i] = collectives[i].program;
    s->columns = 0;
    s->collective = dl_names_find(program, names, LENGTH(names));
    if (s->collective >= 0) return DL_OK;
    dl_names_hint(hint, sizeof hint, program, names, LENGTH(names));
    return dl_link_log_error(log, DL_ERR_NAME, err, "unknown test '%s'%s", program, hint);
}

static bool is_head(const dl_link_log *log)
{
    return log->word_count > 6 && strcmp(log->words[0], "#") == 0 &&
           strcmp(log->words[1], "size") == 0 && strcmp(log->words[2], "count") == 0;
}

static dl_status take_head(state *s, const dl_link_log *log, dl_error *err)
{
    size_t times = 0;
    s->redop = s->root = 0;
    for (size_t i = 1; i < log->word_count; i++) {
        const char *word = log->words[i];
        if (strcmp(word, "redop") == 0) s->redop = i - 1;
        if (strcmp(word, "root") == 0) s->root = i - 1;
        if (strcmp(word, "time") == 0 && times < PLACES) s->time[times++] = i - 1;
    }
    s->columns = log->word_count - 1;
    if (times == PLACES && s->time[1] + 2 < s->columns) return DL_OK;
    return dl_link_log_error(log, DL_ERR_PARSE, err,
                             "want two groups of columns time, algbw, busbw");
}

static bool is_number(const char *word)
{
    return word[0] != '\0' && strspn(word, "0123456789") == strlen(word);
}

static bool is_row(const dl_link_log *log)
{
    return log->word_count > 2 && is_number(log->words[0]) && is_number(log->words[1]);
}

/* "none" and -1 stand where a newer version has a column without use. */
static bool says_something(const dl_link_log *row, size_t column)
{
    return column > 0 && strcmp(row->words[column], "none") != 0 &&
           strcmp(row->words[column], "-1") != 0;
}

static double factor_of(factor kind, int ranks)
{
    const double others = ranks > 0 ? (ranks - 1.0) / ranks : (double)NAN;
    switch (kind) {
    case TWICE_OTHERS: return 2 * others;
    case OTHERS: return others;
    case ONE: return 1;
    case UNKNOWN: break;
    }
    return (double)NAN;
}

/* Whether the file's name holds that of the collective, with or without '_'. */
static bool named_in(const char *path, size_t collective)
{
    char simple[128];
    size_t length = 0;
    for (const char *c = dl_base_name(path); *c != '\0'; c++) {
        if (isalpha((unsigned char)*c) && length + 1 < sizeof simple)
            simple[length++] = (char)tolower((unsigned char)*c);
    }
    simple[length] = '\0';
    return strstr(simple, collectives[collective].name) != NULL;
}

/* Which collective a table without an announcement is of: from the row's columns, busbw over algbw,
 * and where that fits several the file's name. */
static dl_status guess(state *s, const dl_link_log *row, double ratio, dl_error *err)
{
    int fits = 0, fits_by_name = 0, found = -1, found_by_name = -1;
    for (size_t i = 0; i < LENGTH(collectives); i++) {
        const double expected = factor_of(collectives[i].factor, s->ranks);
        if (collectives[i].redop != says_something(row, s->redop) ||
            collectives[i].root != says_something(row, s->root) ||
            !(fabs(ratio / expected - 1) < FACTOR_MARGIN)) {
            continue;
        }
        fits++;
        found = (int)i;
        if (!named_in(row->path, i)) continue;
        fits_by_name++;
        found_by_name = (int)i;
    }
    s->collective = fits_by_name == 1 ? found_by_name : fits == 1 ? found : -1;
    if (s->collective >= 0) return DL_OK;
    return dl_link_log_error(row, DL_ERR_DATA, err,
                             "cannot tell which collective this table is of: there is no line "
                             "'Collective test starting', so put its name into the file's "
                             "(..._allgather.log)");
}

/* busbw over algbw of the table's largest sizes, where they have most digits. */
static double find_ratio(const state *s, const dl_link_log *first)
{
    dl_link_log log = *first;
    double ratio = (double)NAN, best = 0;
    do {
        if (is_head(&log)) break;
        if (!is_row(&log) || log.word_count != s->columns) continue;
        const double algbw = strtod(log.words[s->time[0] + 1], NULL);
        const double busbw = strtod(log.words[s->time[0] + 2], NULL);
        if (!(algbw > best)) continue;
        best = algbw;
        ratio = busbw / algbw;
    } while (dl_link_log_next(&log));
    return ratio;
}

static dl_status take_time(dl_link_data *data, const state *s, const dl_link_log *row, int place,
                           dl_error *err)
{
    const char *word = row->words[s->time[place]];
    double bytes = 0, us = 0;
    if (strcmp(word, "N/A") == 0) return DL_OK; /* not measured in place */
    dl_status status = dl_link_log_number(row, row->words[0], 0, DL_LINK_BYTES_MAX, &bytes, err);
    if (status == DL_OK) {
        status = dl_link_log_number(row, word, DL_LINK_TIME_MIN_NS / NS_PER_US,
                                    DL_LINK_TIME_MAX_NS / NS_PER_US, &us, err);
    }
    if (status != DL_OK) return status;
    const dl_link_series key = {
        .path = (char *)row->path,
        .name = (char *)collectives[s->collective].name,
        .device = s->device,
        .collective = true,
        .ranks = s->ranks,
        .nodes = s->nodes,
        .place = place == 0 ? DL_LINK_OUT_OF_PLACE : DL_LINK_IN_PLACE,
    };
    dl_link_series_add(dl_link_data_series(data, &key),
                       (dl_link_point){.bytes = bytes,
                                       .time_ns = us * NS_PER_US,
                                       .error_frac = dl_link_digits_error(word, us),
                                       .count = 1,
                                       .line = row->line});
    return DL_OK;
}

static dl_status take_row(dl_link_data *data, state *s, const dl_link_log *row, dl_error *err)
{
    if (row->word_count != s->columns) {
        return dl_link_log_error(row, DL_ERR_PARSE, err, "%zu columns where the head has %zu",
                                 row->word_count, s->columns);
    }
    dl_status status = DL_OK;
    if (s->collective < 0) status = guess(s, row, find_ratio(s, row), err);
    for (int place = 0; place < PLACES && status == DL_OK; place++)
        status = take_time(data, s, row, place, err);
    return status;
}

/* "# nThread 1 nGpus 8 ...": the ranks of one process, if no line tells them one by one. */
static void take_settings(state *s, const dl_link_log *log)
{
    long count = 1;
    for (size_t i = 1; i + 1 < log->word_count; i++) {
        if (strcmp(log->words[i], "nThread") == 0 || strcmp(log->words[i], "nGpus") == 0)
            count *= strtol(log->words[i + 1], NULL, 10) % (1 << 16);
    }
    s->collective = s->columns > 0 ? -1 : s->collective;
    s->columns = 0;
    forget_devices(s);
    s->ranks = count > 0 && count < INT32_MAX ? (int)count : 0;
}

static dl_status take_line(dl_link_data *data, state *s, const dl_link_log *log, size_t *tables,
                           dl_error *err)
{
    const size_t n = log->word_count;
    if (n > 4 && strcmp(log->words[1], "Collective") == 0 && strcmp(log->words[2], "test") == 0 &&
        strcmp(log->words[3], "starting:") == 0) {
        return take_program(s, log, err);
    }
    if (n > 2 && strcmp(log->words[0], "#") == 0) {
        if (strcmp(log->words[1], "nThread") == 0) take_settings(s, log);
        if (strcmp(log->words[1], "Using") == 0 && s->listed) forget_devices(s);
        if (strcmp(log->words[1], "Rank") == 0) take_rank(s, log);
    }
    if (is_head(log)) return take_head(s, log, err);
    if (s->columns == 0 || !is_row(log)) return DL_OK;
    (*tables)++;
    return take_row(data, s, log, err);
}

dl_status dl_link_parse_nccl(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    state s = {.collective = -1};
    dl_status status = DL_OK;
    while (status == DL_OK && dl_link_log_next(log))
        status = take_line(data, &s, log, tables, err);
    forget_devices(&s);
    return status;
}
