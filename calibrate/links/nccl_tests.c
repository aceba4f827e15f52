/* nccl-tests: "# ..." lines about devices, a head, and a row per size.
 *
 *   # Collective test starting: all_reduce_perf                        from version 2.17 on
 *   #  Rank  0 Group  0 Pid 41 on host device  0 [0000:1b:00] NVIDIA H100
 *   #       size   count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw
 *           #wrong
 *        1048576  262144  float    sum    -1  74.78  14.02  24.54      0  76.17  13.77  24.09
 *                  0
 *
 * Columns redop and root are missing where older versions have no use for them; the first group of
 * times is out of place. Sizes are bytes, times microseconds of a call. The '#' of all these lines
 * may be gone, and so may all lines but the rows: what the columns are follows from the row then,
 * and how many ranks there are from busbw / algbw. */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"

#define NS_PER_US 1e3
#define HOSTS_MAX 1024
#define PLACES 2
#define FACTOR_MARGIN 0.05 /* relative; of two rates printed to three digits */

static const struct {
    const char *program, *name; /* program without "_perf" */
    bool redop, root;           /* columns that say something */
    double others, constant;    /* busbw / algbw = others x (n - 1) / n + constant, of n ranks
                                 * (nccl-tests, doc/PERFORMANCE.md); NaN = unknown */
} collectives[] = {
    {"all_reduce", "allreduce", true, false, 2, 0},
    {"reduce_scatter", "reducescatter", true, false, 1, 0},
    {"all_gather", "allgather", false, false, 1, 0},
    {"alltoall", "alltoall", false, false, 1, 0},
    {"broadcast", "broadcast", false, true, 0, 1},
    {"reduce", "reduce", true, true, 0, 1},
    {"sendrecv", "sendrecv", true, false, 0, 1},
    {"gather", "gather", false, true, 1, 0},
    {"scatter", "scatter", false, true, 1, 0},
    {"hypercube", "hypercube", false, false, NAN, NAN},
};

typedef struct nccl_state {
    char *device;
    char *hosts[HOSTS_MAX];
    int ranks, nodes;
    int thread_gpus; /* nGpus */
    bool listed;     /* ranks one by one */
    int collective;  /* index, -1 = not said */
    bool headless;   /* the columns are those of a row, without a head */
    double bytes;    /* of the row before */
    /* Of the head: columns; count 0 = there was none. */
    size_t columns, time[PLACES], redop, root; /* 0 = there is none */
} nccl_state;

static void forget_devices(nccl_state *s)
{
    for (int i = 0; i < s->nodes; i++)
        free(s->hosts[i]);
    free(s->device);
    s->device = NULL;
    s->ranks = s->nodes = 0;
    s->listed = false;
}

static void add_host(nccl_state *s, const char *host)
{
    for (int i = 0; i < s->nodes; i++) {
        if (strcmp(s->hosts[i], host) == 0) return;
    }
    if (s->nodes < HOSTS_MAX) s->hosts[s->nodes++] = dl_strdup(host);
}

/* "#  Rank  0 Group  0 Pid 41 on host device  0 [0x1b] NVIDIA H100" */
static void take_rank(nccl_state *s, const dl_link_log *log)
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

static dl_status take_program(nccl_state *s, const dl_link_log *log, dl_error *err)
{
    const char *names[DL_LENGTH(collectives)];
    char program[64], hint[256];
    snprintf(program, sizeof program, "%s", log->words[log->word_count - 1]);
    char *end = strstr(program, "_perf");
    if (end != NULL) *end = '\0';
    for (size_t i = 0; i < DL_LENGTH(collectives); i++)
        names[i] = collectives[i].program;
    s->columns = 0;
    s->collective = dl_names_find(program, names, DL_LENGTH(names));
    if (s->collective >= 0) return DL_OK;
    dl_names_hint(hint, sizeof hint, program, names, DL_LENGTH(names));
    return dl_link_log_error(log, DL_ERR_NAME, err, "unknown test '%s'%s", program, hint);
}

/* Takes the '#' of a comment off its first word, or that word out. */
static void drop_hash(dl_link_log *log)
{
    if (log->word_count == 0 || log->words[0][0] != '#' || strcmp(log->words[0], "#wrong") == 0)
        return;
    log->words[0]++;
    if (log->words[0][0] != '\0') return;
    log->word_count--;
    memmove(log->words, log->words + 1, log->word_count * sizeof *log->words);
}

static bool is_head(const dl_link_log *log)
{
    return log->word_count > 5 && strcmp(log->words[0], "size") == 0 &&
           strcmp(log->words[1], "count") == 0;
}

static dl_status take_head(nccl_state *s, const dl_link_log *log, dl_error *err)
{
    size_t times = 0;
    s->redop = s->root = 0;
    for (size_t i = 0; i < log->word_count; i++) {
        const char *word = log->words[i];
        if (strcmp(word, "redop") == 0) s->redop = i;
        if (strcmp(word, "root") == 0) s->root = i;
        if (strcmp(word, "time") == 0 && times < PLACES) s->time[times++] = i;
    }
    s->columns = log->word_count;
    s->headless = false;
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

static bool is_measured(const char *word)
{
    char *end = NULL;
    if (strcmp(word, "N/A") == 0) return true;
    return isdigit((unsigned char)word[0]) && (strtod(word, &end), *end == '\0');
}

/* Whether the row is one of nccl-tests by itself: size, count, a type, maybe redop and root, and
 * two groups of time, algbw, busbw, #wrong. Sets the columns then. */
static bool take_row_as_head(nccl_state *s, const dl_link_log *log)
{
    const size_t n = log->word_count;
    enum { GROUP = 4, FIRST = 3 }; /* words of a group; those before redop */
    if (n < FIRST + PLACES * GROUP || n > FIRST + 2 + PLACES * GROUP || !is_row(log)) return false;
    if (!isalpha((unsigned char)log->words[2][0])) return false;
    const size_t between = n - FIRST - PLACES * GROUP;
    for (size_t i = FIRST + between; i < n; i++) {
        if (!is_measured(log->words[i])) return false;
    }
    s->redop = s->root = 0;
    for (size_t i = FIRST; i < FIRST + between; i++)
        *(isalpha((unsigned char)log->words[i][0]) ? &s->redop : &s->root) = i;
    s->time[0] = FIRST + between;
    s->time[1] = FIRST + between + GROUP;
    s->columns = n;
    s->headless = true;
    return true;
}

/* "none" and -1 stand where a newer version has a column without use. */
static bool says_something(const dl_link_log *row, size_t column)
{
    return column > 0 && strcmp(row->words[column], "none") != 0 &&
           strcmp(row->words[column], "-1") != 0;
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
static dl_status guess(nccl_state *s, const dl_link_log *row, double ratio, dl_error *err)
{
    int fits = 0, fits_by_name = 0, found = -1, found_by_name = -1;
    for (size_t i = 0; i < DL_LENGTH(collectives); i++) {
        const double others = collectives[i].others;
        const double expected =
            others != 0 ? others * (s->ranks > 0 ? (s->ranks - 1.0) / s->ranks : (double)NAN)
                        : collectives[i].constant;
        /* Without the number of ranks, n ranks >= 2 give 1/2 to 1 times `others`. */
        const bool may_be = s->ranks <= 1 && others != 0 && ratio / others < 1 &&
                            ratio / others > 0.5 * (1 - FACTOR_MARGIN);
        if (collectives[i].redop != says_something(row, s->redop) ||
            collectives[i].root != says_something(row, s->root) ||
            !(may_be || fabs(ratio / expected - 1) < FACTOR_MARGIN)) {
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
                             "cannot determine which collective this table is of: there is no line "
                             "'Collective test starting', so put its name into the file's "
                             "(..._allgather.log)");
}

/* busbw over algbw of the table's largest sizes, where they have most digits. */
static double find_ratio(const nccl_state *s, const dl_link_log *first)
{
    dl_link_log log = *first;
    double ratio = (double)NAN, best = 0, bytes = 0;
    do {
        drop_hash(&log);
        if (is_head(&log)) break;
        if (s->headless && is_row(&log)) {
            if (strtod(log.words[0], NULL) < bytes) break; /* the next table */
            bytes = strtod(log.words[0], NULL);
        }
        if (!is_row(&log) || log.word_count != s->columns) continue;
        const double algbw = strtod(log.words[s->time[0] + 1], NULL);
        const double busbw = strtod(log.words[s->time[0] + 2], NULL);
        if (!(algbw > best)) continue;
        best = algbw;
        ratio = busbw / algbw;
    } while (dl_link_log_next(&log));
    return ratio;
}

/* How many ranks the ratio of two rates of three digits gives: 0 = it does not, above RANKS_KNOWN
 * or for collectives whose busbw is algbw. */
static int ranks_of(int collective, double ratio)
{
    enum { RANKS_KNOWN = 16 };
    const double share = ratio / collectives[collective].others; /* (n - 1) / n */
    if (!(collectives[collective].others > 0) || !(share > 0) || share >= 1) return 0;
    const double ranks = 1 / (1 - share);
    return ranks >= 1.5 && ranks < RANKS_KNOWN + 0.5 ? (int)lround(ranks) : 0;
}

static dl_status take_time(dl_link_data *data, const nccl_state *s, const dl_link_log *row,
                           int place, dl_error *err)
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
        .thread_gpus = s->thread_gpus,
        .place = place == 0 ? DL_LINK_OUT_OF_PLACE : DL_LINK_IN_PLACE,
    };
    const dl_link_point point = {.bytes = bytes,
                                 .time_ns = us * NS_PER_US,
                                 .error_frac = dl_link_digits_error(word, us),
                                 .count = 1,
                                 .line = row->line};
    dl_link_data_add(data, &key, point);
    return DL_OK;
}

static dl_status take_row(dl_link_data *data, nccl_state *s, const dl_link_log *row, dl_error *err)
{
    if (row->word_count != s->columns) {
        return dl_link_log_error(row, DL_ERR_PARSE, err, "%zu columns where the head has %zu",
                                 row->word_count, s->columns);
    }
    dl_status status = DL_OK;
    const double bytes = strtod(row->words[0], NULL);
    if (s->headless && bytes < s->bytes) { /* the next table */
        s->collective = -1;
        s->ranks = 0;
    }
    s->bytes = bytes;
    const double ratio = s->collective < 0 || s->ranks <= 1 ? find_ratio(s, row) : 0;
    if (s->collective < 0) status = guess(s, row, ratio, err);
    if (status == DL_OK && s->ranks <= 1 && ranks_of(s->collective, ratio) > 1)
        s->ranks = ranks_of(s->collective, ratio);
    for (int place = 0; place < PLACES && status == DL_OK; place++)
        status = take_time(data, s, row, place, err);
    return status;
}

/* "# nThread 1 nGpus 8 ...": the ranks of one process, if no line gives them one by one. */
static void take_settings(nccl_state *s, const dl_link_log *log)
{
    long count = 1;
    s->thread_gpus = 0;
    for (size_t i = 1; i + 1 < log->word_count; i++) {
        const bool gpus = strcmp(log->words[i], "nGpus") == 0;
        if (!gpus && strcmp(log->words[i], "nThread") != 0) continue;
        const long each = strtol(log->words[i + 1], NULL, 10) % (1 << 16);
        if (gpus && each > 0) s->thread_gpus = (int)each;
        count *= each;
    }
    s->collective = s->columns > 0 ? -1 : s->collective;
    s->columns = 0;
    forget_devices(s);
    s->ranks = count > 0 && count < INT32_MAX ? (int)count : 0;
}

static dl_status take_line(dl_link_data *data, nccl_state *s, dl_link_log *log, size_t *tables,
                           dl_error *err)
{
    drop_hash(log);
    const size_t n = log->word_count;
    if (n > 3 && strcmp(log->words[0], "Collective") == 0 && strcmp(log->words[1], "test") == 0 &&
        strcmp(log->words[2], "starting:") == 0) {
        return take_program(s, log, err);
    }
    if (n > 1) {
        if (strcmp(log->words[0], "nThread") == 0) take_settings(s, log);
        if (strcmp(log->words[0], "Using") == 0 && s->listed) forget_devices(s);
        if (strcmp(log->words[0], "Rank") == 0 && strstr(log->text, " Pid ") != NULL)
            take_rank(s, log);
    }
    if (is_head(log)) return take_head(s, log, err);
    if (!is_row(log) || (s->columns == 0 && !take_row_as_head(s, log))) return DL_OK;
    (*tables)++;
    return take_row(data, s, log, err);
}

static dl_status parse(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    nccl_state s = {.collective = -1};
    dl_status status = DL_OK;
    while (status == DL_OK && dl_link_log_next(log))
        status = take_line(data, &s, log, tables, err);
    forget_devices(&s);
    return status;
}

const dl_link_reader dl_link_nccl_tests = {"nccl-tests", parse};
