/* Readers of logs: lines split into words, a reader for each supported program, and functions
 * shared by the reports of series. */
#ifndef DL_CALIBRATE_LINKS_LINKS_INTERNAL_H
#define DL_CALIBRATE_LINKS_LINKS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "calibrate/links/links.h"
#include "common/status.h"

/* Limits of a line: longer lines are cut, since no table has them. */
#define DL_LINK_LINE_BYTES 1024
#define DL_LINK_WORDS_MAX 96

/* Least and greatest credible time, in ns: 1 ps, 11 days. */
#define DL_LINK_TIME_MIN_NS 1e-3
#define DL_LINK_TIME_MAX_NS 1e15

/* Largest credible size, in bytes. */
#define DL_LINK_BYTES_MAX 1e15

/* A log that is read line by line. Before the first line, only path, at and end are set. */
typedef struct dl_link_log {
    const char *path;
    const char *at, *end;          /* unread rest of the log */
    int line;                      /* number of the current line */
    char text[DL_LINK_LINE_BYTES]; /* current line, without its newline */
    char words_text[DL_LINK_LINE_BYTES];
    char *words[DL_LINK_WORDS_MAX]; /* [word_count] borrowed from words_text */
    size_t word_count;
} dl_link_log;

/* Reads the next line and strips additions of other programs: colours, quotation marks, time
 * stamps, labels of mpirun, srun, torchrun, kubectl, docker compose and Ray (log.c), bars of a
 * Markdown table. Treats a NUL as a blank. Returns false at the end of the log. */
bool dl_link_log_next(dl_link_log *log);

/* Undoes the wrapping of the current line by a terminal or an e-mail: joins the following lines
 * while the total is at most `words` words. Leaves the line unchanged if the total is not exactly
 * `words`. */
void dl_link_log_unwrap(dl_link_log *log, size_t words);

/* Returns the index of the first word that names a program whose name begins with `prefix`;
 * word_count if there is none. */
size_t dl_link_log_program(const dl_link_log *log, const char *prefix);

/* Returns the number of processes that the command before the word `program` starts, e.g. by mpirun
 * -np 8 or srun -n 8; 1 if the command does not give it. */
int dl_link_log_processes(const dl_link_log *log, size_t program);

/* Parses `word` as a count from 1 to 65535; returns 1 if it is NULL or not such a number. */
int dl_link_log_count(const char *word);

/* Sets an error at the current line. */
#define dl_link_log_error(log, code, err, ...) \
    dl_error_set_at((err), (code), (log)->path, (log)->line, __VA_ARGS__)

/* Parses `word` as a number with low <= number <= high. Returns DL_ERR_PARSE or DL_ERR_RANGE. */
dl_status dl_link_log_number(const dl_link_log *log, const char *word, double low, double high,
                             double *number, dl_error *err) DL_MUST_CHECK;

/* Returns the relative standard error of rounding to the last digit of `word` (a number > 0): half
 * a unit of that digit, uniformly distributed. */
double dl_link_digits_error(const char *word, double value);

/* A rate in the current line. */
typedef struct dl_link_rate_text {
    const char *name, *pair; /* as in dl_link_rate */
    const char *word;        /* text of the number */
    double unit;             /* bytes per second, or ns, per unit of the number */
    bool is_latency;
} dl_link_rate_text;

/* Adds the rate unless it is 0, which programs print for an impossible copy. */
dl_status dl_link_data_add_rate(dl_link_data *data, const dl_link_log *log,
                                const dl_link_rate_text *rate, dl_error *err) DL_MUST_CHECK;

/* Reader of one program's output. `read` processes the program's own lines, skips all others, and
 * adds the number of tables or rows found to *tables. */
typedef struct dl_link_reader {
    const char *name;
    dl_status (*read)(dl_link_data *data, dl_link_log *log, size_t *tables, dl_error *err);
} dl_link_reader;

extern const dl_link_reader dl_link_nccl_tests, dl_link_bandwidth_test, dl_link_nvbandwidth,
    dl_link_p2p_test, dl_link_gpu_copy_bw, dl_link_perftest, dl_link_osu, dl_link_iperf3;

/* Adds the samples of a trace of dlprof bench. Returns DL_ERR_DATA if it has none. */
dl_status dl_link_bench_read(dl_link_data *data, const char *path, dl_error *err) DL_MUST_CHECK;

/* Returns the text table that nccl-tests would have printed for this JSON file; NULL if the file is
 * not from nccl-tests. The caller frees it. */
char *dl_nccl_json_table(const char *text, size_t bytes);

/* Formats a series as "allreduce 8 ranks in place" into text[bytes]; returns text. */
const char *dl_link_series_text(char *text, size_t bytes, const dl_link_series *series);

/* Returns busbw / algbw of nccl-tests for the series. busbw is comparable with a link's rate for
 * any number of ranks. NaN: unknown, or not a collective. */
double dl_link_busbw_factor(const dl_link_series *series);

/* Returns whether both rates belong to the same test and file. */
bool dl_link_same_test(const dl_link_rate *a, const dl_link_rate *b);

/* Returns whether rate `index` is the first of its test and file. */
bool dl_link_is_first(const dl_link_data *data, size_t index);

/* Sorts values[n] and returns their range; NaN if n is 0. */
dl_link_range dl_link_range_of(double *values, size_t n);

/* Returns whether the series is used for times of `place`: it has that place, or no series of its
 * group has that place. */
bool dl_link_is_chosen(const dl_link_results *links, const dl_link_series *series,
                       dl_link_place place);

#endif
