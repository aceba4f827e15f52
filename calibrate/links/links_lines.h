/* The lines of a log and their words: for links_*.c only. */
#ifndef DL_CALIBRATE_LINKS_LINES_H
#define DL_CALIBRATE_LINKS_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "calibrate/links/links_data.h"
#include "common/status.h"

/* Longer lines are no tables and are cut; so are lines with more words. */
#define DL_LINK_LINE_BYTES 1024
#define DL_LINK_WORDS_MAX 96

typedef struct dl_link_log {
    const char *path;
    const char *at, *end;          /* what is still to be read */
    int line;                      /* number of the present one */
    char text[DL_LINK_LINE_BYTES]; /* the present line, without its end */
    char words_text[DL_LINK_LINE_BYTES];
    char *words[DL_LINK_WORDS_MAX]; /* [word_count] borrowed from words_text */
    size_t word_count;
} dl_link_log;

/* Log of text[bytes]; borrows both. */
void dl_link_log_init(dl_link_log *log, const char *path, const char *text, size_t bytes);

/* Goes to the next line, without "[1,0]<stdout>:" that mpirun --tag-output puts in front; false at
 * the end. A NUL counts as a blank. */
bool dl_link_log_next(dl_link_log *log);

/* Error about the present line. Returns `code`. */
dl_status dl_link_log_error(const dl_link_log *log, dl_status code, dl_error *err,
                            const char *format, ...) DL_PRINTF(4, 5);

/* The word as a number low < number < high. */
dl_status dl_link_log_number(const dl_link_log *log, const char *word, double low, double high,
                             double *number, dl_error *err) DL_MUST_CHECK;

/* Half a unit of the last digit of `word` (a number > 0), over its value, as a standard error (that
 * of equal chances between both ends). */
double dl_link_digits_error(const char *word, double value);

/* Least and greatest time that is believed, in ns: 1 ps, 11 days. */
#define DL_LINK_TIME_MIN_NS 1e-3
#define DL_LINK_TIME_MAX_NS 1e15
/* Greatest size. */
#define DL_LINK_BYTES_MAX 1e15

/* One parser each; *tables counts what it found. */
typedef dl_status dl_link_parser(dl_link_data *data, dl_link_log *log, size_t *tables,
                                 dl_error *err);
dl_link_parser dl_link_parse_nccl, dl_link_parse_cuda, dl_link_parse_rates;

/* Adds the samples of a trace of dlprof bench. */
dl_status dl_link_read_bench(dl_link_data *data, const char *path, dl_error *err) DL_MUST_CHECK;

#endif
