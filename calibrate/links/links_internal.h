/* Reading of logs: lines of words, and a reader for each program that writes them; and functions
 * shared by the reports of series. */
#ifndef DL_CALIBRATE_LINKS_LINKS_INTERNAL_H
#define DL_CALIBRATE_LINKS_LINKS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "calibrate/links/links.h"
#include "common/status.h"

/* Lines with more bytes or words are cut, as they are not part of a table. */
#define DL_LINK_LINE_BYTES 1024
#define DL_LINK_WORDS_MAX 96

/* Least and greatest credible time, in ns: 1 ps, 11 days. */
#define DL_LINK_TIME_MIN_NS 1e-3
#define DL_LINK_TIME_MAX_NS 1e15

/* Greatest size. */
#define DL_LINK_BYTES_MAX 1e15

/* A log that is read line by line. Before the first line only path, at and end are set. */
typedef struct dl_link_log {
    const char *path;
    const char *at, *end;          /* the rest, still to be read */
    int line;                      /* number of the present line */
    char text[DL_LINK_LINE_BYTES]; /* the present line, without its end */
    char words_text[DL_LINK_LINE_BYTES];
    char *words[DL_LINK_WORDS_MAX]; /* [word_count] borrowed from words_text */
    size_t word_count;
} dl_link_log;

/* Reads the next line, without the additions of other programs: colours, quotation marks, time
 * stamps, labels of mpirun, srun, torchrun, kubectl, docker compose and Ray (log.c), bars of a
 * Markdown table; false at the end. A NUL counts as a blank. */
bool dl_link_log_next(dl_link_log *log);

/* Undoes the wrapping of the present line by a terminal or a mail: joins following lines while
 * together they have at most `words` words. Changes nothing if they do not give exactly `words`. */
void dl_link_log_unwrap(dl_link_log *log, size_t words);

/* The first word that names a program whose name begins with `prefix`; word_count: none does. */
size_t dl_link_log_program(const dl_link_log *log, const char *prefix);

/* Number of processes that the command before the word `program` starts: mpirun -np 8, srun -n 8; 1
 * if the command does not say. */
int dl_link_log_processes(const dl_link_log *log, size_t program);

/* Parses the word as a count of 1 to 65535; 1 if it is NULL or no such number. */
int dl_link_log_count(const char *word);

/* Error about the present line. */
#define dl_link_log_error(log, code, err, ...) \
    dl_error_set_at((err), (code), (log)->path, (log)->line, __VA_ARGS__)

/* The word as a number low < number < high; DL_ERR_PARSE, DL_ERR_RANGE. */
dl_status dl_link_log_number(const dl_link_log *log, const char *word, double low, double high,
                             double *number, dl_error *err) DL_MUST_CHECK;

/* Relative standard error of rounding to the last digit of `word` (a number > 0): half a unit of
 * that digit, all errors within it equally likely. */
double dl_link_digits_error(const char *word, double value);

/* A rate of the present line. */
typedef struct dl_link_rate_text {
    const char *name, *pair; /* as in dl_link_rate */
    const char *word;        /* the number */
    double unit;             /* of the number: bytes per second, or ns */
    bool is_latency;
} dl_link_rate_text;

/* Adds the rate unless it is 0, as programs print where a copy is impossible. */
dl_status dl_link_data_add_rate(dl_link_data *data, const dl_link_log *log,
                                const dl_link_rate_text *rate, dl_error *err) DL_MUST_CHECK;

/* A program whose output is read. `read` takes its own lines, skips all others, and adds to *tables
 * the number of tables or rows that it found. */
typedef struct dl_link_reader {
    const char *name;
    dl_status (*read)(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err);
} dl_link_reader;

extern const dl_link_reader dl_link_nccl_tests, dl_link_bandwidth_test, dl_link_nvbandwidth,
    dl_link_p2p_test, dl_link_gpu_copy_bw, dl_link_perftest, dl_link_osu, dl_link_iperf3;

/* Adds the samples of a trace of dlprof bench. DL_ERR_DATA if it has none. */
dl_status dl_link_bench_read(dl_link_data *data, const char *path, dl_error *err) DL_MUST_CHECK;

/* The table that nccl-tests would have printed with this JSON file; NULL: the file is not from
 * nccl-tests. free() it. */
char *dl_nccl_json_table(const char *text, size_t bytes);

/* A series as "allreduce 8 ranks in place" into text[bytes]; returns text. */
const char *dl_link_series_text(char *text, size_t bytes, const dl_link_series *series);

/* Ratio of busbw to algbw in nccl-tests: busbw is comparable with a link's rate for any number of
 * ranks. NaN: unknown, or not a collective. */
double dl_link_busbw_factor(const dl_link_series *series);

/* Whether both rates are of the same test and file. */
bool dl_link_same_test(const dl_link_rate *a, const dl_link_rate *b);

/* Whether rate `index` is the first of its test and file. */
bool dl_link_is_first(const dl_link_data *data, size_t index);

/* Sorts values[n] and returns their range; NaN if n is 0. */
dl_link_range dl_link_range_of(double *values, size_t n);

/* Whether the series is used when times of `place` are wanted: it has that place, or no series of
 * its group has. */
bool dl_link_is_chosen(const dl_link_results *links, const dl_link_series *series,
                       dl_link_place place);

#endif
