/* nccl-tests and rccl-tests: "# ..." lines about devices, a head, and a row per size.
 *
 *   $ mpirun -np 8 ./build/all_reduce_perf -b 8 -e 1G                  if the command is included
 *   # Collective test starting: all_reduce_perf                        from version 2.17 on
 *   #  Rank  0 Group  0 Pid 41 on host device  0 [0000:1b:00] NVIDIA H100
 *   #       size   count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw
 *           #wrong
 *        1048576  262144  float    sum    -1  74.78  14.02  24.54      0  76.17  13.77  24.09
 *                  0
 *
 * Older versions omit the columns redop and root if a collective does not use them; the first group
 * of times is out of place. Sizes are bytes, times microseconds per call (milliseconds in tables of
 * NCCL 1, whose heads say "bytes N type op"). In excerpts, a group may lack its time or a rate, or
 * one of the groups may be missing; the time is then computed from a rate. All these lines may lack
 * their '#', and all lines except the rows may be missing; the row then determines the meaning of
 * the columns, and busbw / algbw the number of ranks. A row of 0 bytes is not a call: its size was
 * too small to be divided among the ranks. */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

#define NS_PER_US 1e3
#define NS_PER_MS 1e6
#define HOSTS_MAX 1024
#define NAMED_MAX 16 /* maximum number of command programs without a table yet */
#define PLACES 2
#define FACTOR_MARGIN 0.05 /* relative tolerance for two rates printed to three digits */

static const struct {
    const char *program, *name; /* program without "_perf"; name of the collective */
    bool redop, root;           /* the column is used by the collective */
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

static double busbw_factor(size_t collective, int ranks)
{
    const double others = collectives[collective].others;
    return others != 0 ? others * (ranks - 1) / ranks : collectives[collective].constant;
}

double dl_link_busbw_factor(const dl_link_series *series)
{
    for (size_t i = 0; i < DL_LENGTH(collectives) && series->collective && series->ranks > 1; i++)
        if (strcmp(collectives[i].name, series->name) == 0) return busbw_factor(i, series->ranks);
    return (double)NAN;
}

enum { TIME, ALGBW, BUSBW, WRONG, VALUES };

static const char *const value_names[VALUES] = {"time", "algbw", "busbw", "#wrong"};

typedef struct nccl_state {
    char *device;
    char *hosts[HOSTS_MAX];
    int ranks, nodes;
    int thread_gpus;                   /* GPUs per thread, nGpus */
    bool listed;                       /* ranks were listed one by one */
    int collective;                    /* index into collectives[]; -1: unknown */
    bool has_rows;                     /* the current collective has rows */
    int named[NAMED_MAX], named_count; /* collectives of earlier commands without a table yet, in
                                        * order */
    int processes;                     /* number of processes of the last command */
    bool headless;                     /* columns were derived from a row, without a head */
    double bytes;                      /* size of the previous row */
    /* Columns of the head; columns 0: no head. */
    size_t columns, redop, root; /* redop, root 0: no such column */
    bool counted;                /* the second column is the count of elements */
    bool typed;                  /* there is a type column, so redop and root were not cut off */
    size_t value[PLACES][VALUES];
    int places;     /* number of column groups (out of place, in place) */
    double unit_ns; /* ns per unit of a time */
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

/* Reads a line such as "#  Rank  0 Group  0 Pid 41 on host device  0 [0x1b] NVIDIA H100". */
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

/* Returns the index of the collective that a program such as "./build/all_reduce_perf" or
 * "all_reduce_perf_mpi" tests, -1 if none; sets program[64] to "all_reduce". */
static int find_program(const char *word, char *program, const char **names)
{
    snprintf(program, 64, "%s", dl_base_name(word));
    char *end = strstr(program, "_perf");
    if (end == NULL) return -1;
    *end = '\0';
    for (size_t i = 0; i < DL_LENGTH(collectives); i++)
        names[i] = collectives[i].program;
    return dl_names_find(program, names, DL_LENGTH(collectives));
}

static dl_status take_program(nccl_state *s, const dl_link_log *log, dl_error *err)
{
    const char *names[DL_LENGTH(collectives)] = {NULL};
    char program[64], hint[256] = "";
    s->columns = 0;
    s->has_rows = false;
    s->collective = find_program(log->words[log->word_count - 1], program, names);
    if (s->collective >= 0) return DL_OK;
    if (names[0] != NULL) dl_names_hint(hint, sizeof hint, program, names, DL_LENGTH(names));
    return dl_link_log_error(log, DL_ERR_NAME, err, "unknown test '%s'%s", program, hint);
}

static int program_of(const char *word)
{
    const char *names[DL_LENGTH(collectives)];
    char program[64];
    return find_program(word, program, names);
}

/* Reads a command line with a program of nccl-tests, recognized by a path or options. A command at
 * a shell prompt replaces earlier ones, as it runs next; commands of a script run in order. */
static void take_command(nccl_state *s, const dl_link_log *log)
{
    size_t at = 0;
    int ranks = 1;
    bool prompt = false, option = false;
    while (at < log->word_count && program_of(log->words[at]) < 0) {
        const char *word = log->words[at++];
        prompt |= strchr("$#%>+", word[strlen(word) - 1]) != NULL;
    }
    if (at == log->word_count) return;
    for (size_t i = at + 1; i < log->word_count; i++) {
        const char *word = log->words[i],
                   *next = i + 1 < log->word_count ? log->words[i + 1] : NULL;
        option |= word[0] == '-';
        if ((strcmp(word, "-g") == 0 || strcmp(word, "-t") == 0) && ranks < 1 << 8)
            ranks *= dl_link_log_count(next);
    }
    if (!option && strchr(log->words[at], '/') == NULL) return;
    if (prompt || s->has_rows || s->named_count == NAMED_MAX) s->named_count = 0;
    s->named[s->named_count++] = program_of(log->words[at]);
    s->collective = -1;
    s->has_rows = false;
    s->columns = 0;
    forget_devices(s);
    s->processes = dl_link_log_processes(log, at);
    s->ranks = (int)fmin((double)s->processes * ranks, 1 << 16);
}

/* Removes the '#' of a comment, which is the first word or its prefix. */
static void drop_hash(dl_link_log *log)
{
    if (log->word_count == 0 || log->words[0][0] != '#' || strcmp(log->words[0], "#wrong") == 0)
        return;
    log->words[0]++;
    if (log->words[0][0] != '\0') return;
    log->word_count--;
    memmove(log->words, log->words + 1, log->word_count * sizeof *log->words);
}

/* Returns whether the word names a column, possibly with its unit: "time(us)". */
static bool is_name(const char *word, const char *name)
{
    const size_t length = strlen(name);
    return strncasecmp(word, name, length) == 0 && (word[length] == '\0' || word[length] == '(');
}

/* Removes separate unit words such as "(us)" from a head. */
static void drop_units(dl_link_log *log)
{
    size_t kept = 0;
    for (size_t i = 0; i < log->word_count; i++)
        if (log->words[i][0] != '(') log->words[kept++] = log->words[i];
    log->word_count = kept;
}

/* Returns whether the line is a head of nccl-tests, or of another program, which also ends the
 * table. */
static bool is_head(const dl_link_log *log)
{
    return log->word_count > 1 &&
           (is_name(log->words[0], "size") || is_name(log->words[0], "bytes")) &&
           !isdigit((unsigned char)log->words[1][0]);
}

/* Adds the column to the last group of values, or starts a new group if the last one already has
 * it. */
static void take_value_column(nccl_state *s, int value, size_t column, const char *word)
{
    if (s->places == 0 || s->value[s->places - 1][value] > 0) s->places++;
    if (s->places <= PLACES) s->value[s->places - 1][value] = column;
    if (value == TIME && strstr(word, "(ms)") != NULL) s->unit_ns = NS_PER_MS;
    if (value == TIME && strstr(word, "(us)") != NULL) s->unit_ns = NS_PER_US;
}

static void take_head(nccl_state *s, dl_link_log *log)
{
    drop_units(log);
    s->redop = s->root = 0;
    s->places = 0;
    s->typed = false;
    memset(s->value, 0, sizeof s->value);
    s->counted = is_name(log->words[1], "count") || is_name(log->words[1], "N");
    s->unit_ns = is_name(log->words[0], "bytes") && s->counted ? NS_PER_MS : NS_PER_US;
    for (size_t i = 0; i < log->word_count && s->places <= PLACES; i++) {
        const char *word = log->words[i];
        if (is_name(word, "redop") || is_name(word, "op")) s->redop = i;
        if (is_name(word, "root")) s->root = i;
        s->typed |= is_name(word, "type");
        for (int value = 0; value < VALUES; value++)
            if (is_name(word, value_names[value])) take_value_column(s, value, i, word);
    }
    const bool own = s->places > 0 && s->places <= PLACES &&
                     (s->counted || s->value[0][ALGBW] + s->value[0][BUSBW] > 0);
    s->columns = own ? log->word_count : 0;
    if (own && is_name(log->words[log->word_count - 1], "timestamp")) s->columns++; /* two words */
    s->headless = false;
}

static bool is_number(const char *word)
{
    return word[0] != '\0' && strspn(word, "0123456789") == strlen(word);
}

/* Returns whether the line starts like a row with a count of elements. */
static bool is_row(const dl_link_log *log)
{
    return log->word_count > 2 && is_number(log->words[0]) && is_number(log->words[1]);
}

/* Returns whether the line is a row of the current table. */
static bool is_row_of(const nccl_state *s, const dl_link_log *log)
{
    if (s->counted) return is_row(log);
    return log->word_count == s->columns && is_number(log->words[0]);
}

static bool is_measured(const char *word)
{
    char *end = NULL;
    if (strcmp(word, "N/A") == 0) return true;
    return isdigit((unsigned char)word[0]) && (strtod(word, &end), *end == '\0');
}

/* Returns whether the row is recognizable without a head: size, count, a type, optionally redop and
 * root, and two groups of time, algbw, busbw, #wrong. If so, sets the columns. */
static bool take_row_as_head(nccl_state *s, const dl_link_log *log)
{
    const size_t n = log->word_count;
    enum { GROUP = 4, FIRST = 3 }; /* words per group; words before redop */
    if (n < FIRST + PLACES * GROUP || n > FIRST + 2 + PLACES * GROUP || !is_row(log)) return false;
    if (!isalpha((unsigned char)log->words[2][0])) return false;
    const size_t between = n - FIRST - PLACES * GROUP;
    for (size_t i = FIRST + between; i < n; i++) {
        if (!is_measured(log->words[i])) return false;
    }
    s->redop = s->root = 0;
    for (size_t i = FIRST; i < FIRST + between; i++)
        *(isalpha((unsigned char)log->words[i][0]) ? &s->redop : &s->root) = i;
    for (int place = 0; place < PLACES; place++)
        for (int value = 0; value < VALUES; value++)
            s->value[place][value] = FIRST + between + (size_t)(place * GROUP + value);
    s->places = PLACES;
    s->unit_ns = NS_PER_US;
    s->counted = s->typed = true;
    s->columns = n;
    s->headless = true;
    return true;
}

/* Returns whether the column has a value. Newer versions fill unused columns with "none" or -1. */
static bool says_something(const dl_link_log *row, size_t column)
{
    return column > 0 && strcmp(row->words[column], "none") != 0 &&
           strcmp(row->words[column], "-1") != 0;
}

/* Returns whether the file's name contains the collective's name, with or without '_'. */
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

/* Returns whether the row's columns, and busbw / algbw (NaN: unknown), fit the collective. */
static bool may_be(const nccl_state *s, const dl_link_log *row, size_t i, double ratio)
{
    const double others = collectives[i].others;
    const double expected =
        others != 0 ? others * (s->ranks > 1 ? (s->ranks - 1.0) / s->ranks : (double)NAN)
                    : collectives[i].constant;
    /* For an unknown number of ranks n >= 2, the factor lies between 1/2 and 1 times `others`. */
    const bool is_share = s->ranks <= 1 && others != 0 && ratio / others < 1 &&
                          ratio / others > 0.5 * (1 - FACTOR_MARGIN);
    if (s->typed && (collectives[i].redop != says_something(row, s->redop) ||
                     collectives[i].root != says_something(row, s->root)))
        return false;
    return isnan(ratio) || is_share || fabs(ratio / expected - 1) < FACTOR_MARGIN;
}

/* Finds the collective of a table without an announcement: that of the next command that fits, else
 * the one that fits the row's columns and busbw / algbw and, if several fit, the file's name. */
static dl_status guess(nccl_state *s, const dl_link_log *row, double ratio, dl_error *err)
{
    int fits = 0, fits_by_name = 0, found = -1, found_by_name = -1;
    for (int k = 0; k < s->named_count; k++) {
        if (!may_be(s, row, (size_t)s->named[k], ratio)) continue;
        s->collective = s->named[k];
        if (k + 1 < s->named_count) { /* the last command may run several times */
            s->named_count -= k + 1;
            memmove(s->named, s->named + k + 1, (size_t)s->named_count * sizeof *s->named);
        }
        return DL_OK;
    }
    for (size_t i = 0; i < DL_LENGTH(collectives); i++) {
        if (!may_be(s, row, i, ratio)) continue;
        fits++;
        found = (int)i;
        if (!named_in(row->path, i)) continue;
        fits_by_name++;
        found_by_name = (int)i;
    }
    s->collective = fits_by_name == 1 ? found_by_name : fits == 1 ? found : -1;
    if (s->collective >= 0) return DL_OK;
    return dl_link_log_error(row, DL_ERR_DATA, err,
                             "cannot determine which collective this table is of: there is neither "
                             "a line 'Collective test starting' nor the command (./all_gather_perf "
                             "-b ...) above, so put its name into the file's (..._allgather.log)");
}

/* busbw / algbw of the table's row with the highest algbw, which has the most digits; NaN:
 * unknown. */
static double find_ratio(const nccl_state *s, const dl_link_log *first)
{
    dl_link_log log = *first;
    double ratio = (double)NAN, best = 0, bytes = 0;
    const size_t *columns = s->value[0];
    if (columns[ALGBW] == 0 || columns[BUSBW] == 0) return ratio;
    do {
        drop_hash(&log);
        if (is_head(&log)) break;
        if (s->headless && is_row(&log)) {
            if (strtod(log.words[0], NULL) < bytes) break; /* start of the next table */
            bytes = strtod(log.words[0], NULL);
        }
        if (!is_row_of(s, &log) || log.word_count != s->columns) continue;
        const double algbw = strtod(log.words[columns[ALGBW]], NULL);
        const double busbw = strtod(log.words[columns[BUSBW]], NULL);
        if (!(algbw > best)) continue;
        best = algbw;
        ratio = busbw / algbw;
    } while (dl_link_log_next(&log));
    return ratio;
}

/* Number of ranks from busbw / algbw, both of three digits; 0 if undetermined: above RANKS_KNOWN
 * ranks, or for collectives whose busbw equals algbw. */
static int ranks_of(int collective, double ratio)
{
    enum { RANKS_KNOWN = 16 };
    const double share = ratio / collectives[collective].others; /* (n - 1) / n */
    if (!(collectives[collective].others > 0) || !(share > 0) || share >= 1) return 0;
    const double ranks = 1 / (1 - share);
    return ranks >= 1.5 && ranks < RANKS_KNOWN + 0.5 ? (int)lround(ranks) : 0;
}

/* Sets the point's time from the row's time, else from one of its rates (GB/s); leaves it unchanged
 * if the row has no measurement. */
static dl_status parse_time(const nccl_state *s, const dl_link_log *row, int place,
                            dl_link_point *point, dl_error *err)
{
    const size_t *columns = s->value[place];
    const int value = columns[TIME] > 0 ? TIME : columns[ALGBW] > 0 ? ALGBW : BUSBW;
    const char *word = row->words[columns[value]];
    const double others = collectives[s->collective].others;
    double number = 0, factor = 1; /* busbw / algbw */
    if (strcmp(word, "N/A") == 0) return DL_OK;
    if (value == TIME) {
        const dl_status status = dl_link_log_number(row, word, DL_LINK_TIME_MIN_NS / s->unit_ns,
                                                    DL_LINK_TIME_MAX_NS / s->unit_ns, &number, err);
        point->time_ns = number * s->unit_ns;
        point->error_frac = status == DL_OK ? dl_link_digits_error(word, number) : 0;
        return status;
    }
    if (value == BUSBW && others != 0) {
        if (s->ranks < 2 || isnan(others)) {
            return dl_link_log_error(row, DL_ERR_DATA, err,
                                     "busbw alone gives no time without the number of ranks: keep "
                                     "the column time or algbw, or the command's -g and -np above");
        }
        factor = busbw_factor((size_t)s->collective, s->ranks);
    }
    const dl_status status = dl_link_log_number(row, word, -1, 1e9, &number, err);
    if (status != DL_OK || number <= 0) return status; /* rate below the printed precision */
    point->time_ns = point->bytes * factor / number;
    point->error_frac = dl_link_digits_error(word, number);
    return DL_OK;
}

/* Range of (bytes / time) / algbw for a printed algbw. For collectives whose size is that of all
 * ranks' parts, old versions of nccl-tests omit a rank's own part (count x (ranks - 1), as in their
 * all_gather.cu); an unknown number of ranks is taken as two or more. NaN: unknown. */
static void algbw_range(const nccl_state *s, double *low, double *high)
{
    const double others = collectives[s->collective].others;
    *low = isnan(others) ? others : 1;
    *high = *low;
    if (others == 1) *high = s->ranks > 1 ? s->ranks / (s->ranks - 1.0) : 2;
}

/* Checks that size, time and algbw of a row agree, within their digits and FACTOR_MARGIN. */
static dl_status check_rate(const nccl_state *s, const dl_link_log *row, int place,
                            const dl_link_point *point, dl_error *err)
{
    const size_t column = s->value[place][ALGBW];
    double algbw = 0, low, high;
    if (s->value[place][TIME] == 0 || column == 0 || strcmp(row->words[column], "N/A") == 0)
        return DL_OK;
    const dl_status status = dl_link_log_number(row, row->words[column], -1, 1e9, &algbw, err);
    if (status != DL_OK || algbw <= 0) return status; /* rate below the printed precision */
    algbw_range(s, &low, &high);
    const double digits = dl_link_digits_error(row->words[column], algbw) + point->error_frac;
    const double margin = FACTOR_MARGIN + sqrt(3) * digits, rate = point->bytes / point->time_ns;
    if (isnan(low) || (rate > algbw * low * (1 - margin) && rate < algbw * high * (1 + margin)))
        return DL_OK;
    return dl_link_log_error(row, DL_ERR_DATA, err,
                             "size, time and algbw contradict one another: %.0f bytes in %s are "
                             "%.4g GB/s, not %s",
                             point->bytes, DL_NS_TEXT(point->time_ns), rate, row->words[column]);
}

static dl_status take_time(dl_link_data *data, const nccl_state *s, const dl_link_log *row,
                           int place, dl_error *err)
{
    static const dl_link_place places[] = {DL_LINK_OUT_OF_PLACE, DL_LINK_IN_PLACE};
    dl_link_point point = {.count = 1, .line = row->line};
    dl_status status =
        dl_link_log_number(row, row->words[0], 0, DL_LINK_BYTES_MAX, &point.bytes, err);
    if (status != DL_OK || point.bytes <= 0) return status; /* 0 bytes: not a call */
    status = parse_time(s, row, place, &point, err);
    if (status != DL_OK || point.time_ns <= 0) return status;
    status = check_rate(s, row, place, &point, err);
    if (status != DL_OK) return status;
    const dl_link_series key = {
        .path = (char *)row->path,
        .name = (char *)collectives[s->collective].name,
        .device = s->device,
        .collective = true,
        .ranks = s->ranks,
        .nodes = s->nodes,
        .thread_gpus = s->thread_gpus,
        .place = s->places == PLACES ? places[place] : DL_LINK_ANYWHERE,
    };
    dl_link_data_add(data, &key, point);
    if (s->value[place][WRONG] > 0 && strtod(row->words[s->value[place][WRONG]], NULL) > 0 &&
        data->wrong++ == 0)
        data->first_wrong = dl_format("%s:%d", row->path, row->line);
    return DL_OK;
}

static dl_status take_row(dl_link_data *data, nccl_state *s, dl_link_log *row, dl_error *err)
{
    dl_link_log_unwrap(row, s->columns);
    if (row->word_count != s->columns) {
        return dl_link_log_error(row, DL_ERR_PARSE, err, "%zu columns where the head has %zu",
                                 row->word_count, s->columns);
    }
    dl_status status = DL_OK;
    const double bytes = strtod(row->words[0], NULL);
    if (s->headless && bytes < s->bytes) { /* start of the next table */
        s->collective = -1;
        s->ranks = 0;
    }
    s->bytes = bytes;
    const double ratio = s->collective < 0 || s->ranks <= 1 ? find_ratio(s, row) : 0;
    s->has_rows = true;
    if (s->collective < 0) status = guess(s, row, ratio, err);
    if (status == DL_OK && s->ranks <= 1 && ranks_of(s->collective, ratio) > 1)
        s->ranks = ranks_of(s->collective, ratio);
    for (int place = 0; place < s->places && status == DL_OK; place++)
        status = take_time(data, s, row, place, err);
    return status;
}

/* Reads "# nThread 1 nGpus 8 ...": the product is the number of ranks per process. Multiplied by
 * the processes of the last command, it is the total number of ranks if no line lists the ranks. */
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
    count *= s->processes > 0 ? s->processes : 1;
    s->collective = s->has_rows ? -1 : s->collective;
    s->has_rows = false;
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
    take_command(s, log);
    if (n > 1) {
        if (strcmp(log->words[0], "nThread") == 0) take_settings(s, log);
        if (strcmp(log->words[0], "Using") == 0 && s->listed) forget_devices(s);
        if (strcmp(log->words[0], "Rank") == 0 && strstr(log->text, " Pid ") != NULL)
            take_rank(s, log);
    }
    if (is_head(log)) {
        if (s->has_rows) s->collective = -1; /* the settings of the new table are unknown */
        s->has_rows = false;
        take_head(s, log);
        return DL_OK;
    }
    if (s->columns > 0 ? !is_row_of(s, log) : !take_row_as_head(s, log)) return DL_OK;
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
