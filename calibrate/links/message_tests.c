/* Programs that time messages between two processes, or collectives of several, by size: perftest
 * (ib_write_bw, ib_read_lat, ...) and the OSU micro-benchmarks; and iperf3's rates.
 *
 *                      RDMA_Write BW Test
 *    #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 *    65536      5000             44326.24            44276.64          0.708426
 *
 *   # OSU MPI-CUDA Allreduce Latency Test v7.0
 *   # Size       Avg Latency(us)
 *   1048576               86.30
 *
 *   [SUM]   0.00-10.00  sec  31.9 GBytes  27.4 Gbits/sec                  receiver
 *
 * perftest's MB are 2^20 bytes (consistent with its message rate), OSU's are 10^6 bytes. OSU's size
 * is the number of bytes that a rank sends to all ranks or to one. Sizes of all-gathers and similar
 * collectives are therefore multiplied by the number of ranks, taken from the command above the
 * table. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/units.h"

#define MIB 1048576.0
#define GBIT 1.25e8

/* Tests by the title of their table, or by the command if there is no title. */
static const struct test {
    const char *text, *name;
    bool collective;
    bool parts; /* the size is that of one rank's part */
} tests[] = {
    {"RDMA_Write", "rdma write", false, false},
    {"ib_write_", "rdma write", false, false},
    {"RDMA_Read", "rdma read", false, false},
    {"ib_read_", "rdma read", false, false},
    {"Send BW", "rdma send", false, false},
    {"Send Latency", "rdma send", false, false},
    {"Send Bidirectional", "rdma send", false, false},
    {"ib_send_", "rdma send", false, false},
    {" Allreduce ", "allreduce", true, false},
    {" Reduce_scatter ", "reducescatter", true, false},
    {" Allgather ", "allgather", true, true},
    {" All-to-All Personalized Exchange ", "alltoall", true, true},
    {" Alltoall ", "alltoall", true, true},
    {" Broadcast ", "broadcast", true, false},
    {" Reduce ", "reduce", true, false},
    {" Gather ", "gather", true, true},
    {" Scatter ", "scatter", true, true},
    {" Bandwidth Test", "mpi message", false, false},
    {" Bi-Directional Bandwidth Test", "mpi message", false, false},
    {" Latency Test", "mpi message", false, false},
    {" Message Rate Test", "mpi messages of all pairs", false, false}, /* osu_mbw_mr: their sum */
};

typedef struct table {
    const struct test *test;
    bool both_ways, is_osu;
    size_t column; /* column of the value; 0: outside a table */
    double unit;   /* bytes per second per unit of a rate; 0: the value is a time in us */
    int ranks;     /* 0: unknown */
} table;

static void take_title(table *t, const dl_link_log *log)
{
    const bool is_osu = strstr(log->text, "# OSU ") != NULL;
    const size_t program = dl_link_log_program(log, "osu_");
    if (program < log->word_count) {
        const int processes = dl_link_log_processes(log, program);
        t->ranks = processes > 1 ? processes : 0;
    }
    for (size_t i = 0; i < DL_LENGTH(tests); i++) {
        const bool of_osu = strncmp(tests[i].name, "rdma", 4) != 0;
        if (of_osu != is_osu || strstr(log->text, tests[i].text) == NULL) continue;
        const bool both_ways = strstr(log->text, "Bidirectional") != NULL ||
                               strstr(log->text, "Bi-Directional") != NULL;
        *t =
            (table){.test = &tests[i], .both_ways = both_ways, .is_osu = is_osu, .ranks = t->ranks};
        return;
    }
}

/* Returns whether the line is the head of a table of sizes; sets the column and the unit of its
 * values. A word "BW" and the next word name one column. */
static bool take_head(table *t, const dl_link_log *log)
{
    size_t column = 0;
    const bool bytes = strstr(log->text, "#bytes") != NULL && log->word_count > 2;
    const bool size = t->is_osu && log->word_count > 2 && strcmp(log->words[0], "#") == 0 &&
                      strcmp(log->words[1], "Size") == 0;
    if (!bytes && !size) return false;
    t->column = size;
    t->unit = size && strstr(log->text, "MB/s") != NULL ? 1e6 : 0;
    /* A non-blocking collective's first column, Overall, includes computation. */
    for (size_t i = 2, units = 0; i < log->word_count && size; i++) {
        if (strcmp(log->words[i], "Pure") == 0) t->column = units + 1;
        units += strchr(log->words[i], '(') != NULL; /* of a column before, "Coll. Init(us)" */
    }
    for (size_t i = 0; i < log->word_count && bytes; i++) {
        const char *word = log->words[i];
        if (strcmp(word, "BW") == 0) continue;
        if (strncmp(word, "average[", 8) == 0) {
            t->column = column;
            t->unit = strstr(word, "[Gb/sec]") != NULL ? GBIT : MIB;
        }
        if (strcmp(word, "t_typical[usec]") == 0) t->column = column;
        column++;
    }
    return true;
}

static dl_status take_row(dl_link_data *data, const table *t, const dl_link_log *log, dl_error *err)
{
    char name[48];
    const char *word = log->words[t->column];
    double value = 0;
    dl_link_point point = {.count = 1, .line = log->line};
    dl_status status;
    if ((status =
             dl_link_log_number(log, log->words[0], 0, DL_LINK_BYTES_MAX, &point.bytes, err)) ||
        (status = dl_link_log_number(log, word, -1, 1e12, &value, err)) || point.bytes < 1 ||
        value <= 0) {
        return status;
    }
    point.time_ns = t->unit > 0 ? point.bytes / (value * t->unit) * DL_NS_PER_S : value * 1e3;
    point.error_frac = dl_link_digits_error(word, value);
    if (t->test != NULL && t->test->parts) {
        if (t->ranks < 2) {
            return dl_link_log_error(log, DL_ERR_DATA, err,
                                     "sizes are those of one rank's part, so the number of ranks "
                                     "is needed: keep the command (mpirun -np 8 ...) above");
        }
        point.bytes *= t->ranks;
    }
    const bool collective = t->test != NULL && t->test->collective;
    snprintf(name, sizeof name, "%s%s%s", t->test != NULL ? t->test->name : "rdma",
             t->unit > 0 || collective ? "" : " latency", t->both_ways ? " both ways" : "");
    const dl_link_series key = {.path = (char *)log->path,
                                .name = name,
                                .collective = collective,
                                .ranks = collective ? t->ranks : 1,
                                .copy = t->unit > 0};
    dl_link_data_add(data, &key, point);
    return DL_OK;
}

static bool is_row(const table *t, const dl_link_log *log)
{
    return t->column > 0 && log->word_count > t->column &&
           strspn(log->words[0], "0123456789") == strlen(log->words[0]) &&
           isdigit((unsigned char)log->words[t->column][0]);
}

static dl_status read_messages(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err,
                               bool osu)
{
    table t = {0};
    dl_status status = DL_OK;
    while (status == DL_OK && dl_link_log_next(log)) {
        take_title(&t, log);
        if (take_head(&t, log) || t.is_osu != osu || !is_row(&t, log)) continue;
        (*tables)++;
        status = take_row(data, &t, log, err);
    }
    return status;
}

static dl_status read_perftest(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    return read_messages(data, log, tables, err, false);
}

static dl_status read_osu(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    return read_messages(data, log, tables, err, true);
}

const dl_link_reader dl_link_perftest = {"perftest (ib_write_bw)", read_perftest};
const dl_link_reader dl_link_osu = {"OSU micro-benchmarks", read_osu};

/* Bytes per second of a unit such as "Gbits/sec". */
static double bit_unit(const char *word)
{
    const char *rest = word + (strchr("KMGT", word[0]) != NULL && word[0] != '\0');
    const double factor = *word == 'K'   ? 1e3
                          : *word == 'M' ? 1e6
                          : *word == 'G' ? 1e9
                          : *word == 'T' ? 1e12
                                         : 1;
    return strcasecmp(rest, "bits/sec") == 0 ? factor / 8 : 0;
}

/* Drops the last rates of streams, but none before index `from`. */
static void drop_streams(dl_link_data *data, size_t from)
{
    while (data->rate_count > from &&
           strcmp(data->rates[data->rate_count - 1].pair, "stream") == 0) {
        dl_link_rate *rate = &data->rates[--data->rate_count];
        free(rate->path);
        free(rate->name);
        free(rate->pair);
    }
}

/* Returns an error if the line shows that iperf3 sent datagrams. */
static dl_status refuse_datagrams(const dl_link_log *log, dl_error *err)
{
    const bool text = log->words[0][0] == '[' && strstr(log->text, "Lost/Total Datagrams") != NULL;
    const bool json = log->word_count > 1 && strcmp(log->words[0], "\"protocol\":") == 0 &&
                      strncmp(log->words[1], "\"UDP\"", 5) == 0;
    if (!text && !json) return DL_OK;
    return dl_link_log_error(log, DL_ERR_DATA, err,
                             "iperf3 -u sends datagrams at the rate of its option -b, not as fast "
                             "as the link allows: measure without -u");
}

/* Reads the receivers' summary of all streams, or of each stream of a text without that. */
static dl_status read_iperf3(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err)
{
    dl_status status = DL_OK;
    bool received = false; /* JSON receiver section */
    const size_t before = data->rate_count;
    size_t run = before; /* the first rate of the current run */
    while (status == DL_OK && dl_link_log_next(log)) {
        dl_link_rate_text rate = {.name = "iperf3, received", .pair = "all streams", .unit = 0.125};
        const size_t n = log->word_count;
        if (n == 0) continue;
        if ((status = refuse_datagrams(log, err)) != DL_OK) return status;
        if (strcmp(log->words[0], "Connecting") == 0 || strcmp(log->words[0], "iperf") == 0 ||
            strcmp(log->words[0], "Accepted") == 0)
            run = data->rate_count;
        if (log->words[0][0] == '"') received |= strcmp(log->words[0], "\"sum_received\":") == 0;
        if (received && n > 1 && strcmp(log->words[0], "\"bits_per_second\":") == 0) {
            log->words[1][strcspn(log->words[1], ",")] = '\0';
            rate.word = log->words[1];
            received = false;
        } else if (n > 4 && log->words[0][0] == '[' && strcmp(log->words[n - 1], "receiver") == 0) {
            const bool sum = strncmp(log->words[0], "[SUM]", 5) == 0; /* "[SUM][TX-C]" */
            rate.pair = sum ? "all streams" : "stream";
            if (sum) drop_streams(data, run);
            for (size_t i = 1; i < n; i++)
                if (bit_unit(log->words[i]) > 0) {
                    rate.word = log->words[i - 1];
                    rate.unit = bit_unit(log->words[i]);
                }
        }
        if (rate.word != NULL) status = dl_link_data_add_rate(data, log, &rate, err);
    }
    *tables += data->rate_count - before;
    return status;
}

const dl_link_reader dl_link_iperf3 = {"iperf3", read_iperf3};
