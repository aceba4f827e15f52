#include "calibrate/links/links_read.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/links/links_lines.h"
#include "common/file.h"
#include "common/units.h"

void dl_link_log_init(dl_link_log *log, const char *path, const char *text, size_t bytes)
{
    *log = (dl_link_log){.path = path, .at = text, .end = text + bytes};
}

/* Length of "[1,0]<stdout>:" at the begin of a line, or 0. */
static size_t tag_length(const char *text)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    if (end == NULL || end[1] != '<') return 0;
    end = strstr(end, ">:");
    return end != NULL ? (size_t)(end - text) + 2 : 0;
}

static void split(dl_link_log *log)
{
    char *rest = NULL;
    memcpy(log->words_text, log->text, sizeof log->words_text);
    log->word_count = 0;
    for (char *word = strtok_r(log->words_text, " \t\r", &rest);
         word != NULL && log->word_count < DL_LINK_WORDS_MAX;
         word = strtok_r(NULL, " \t\r", &rest)) {
        log->words[log->word_count++] = word;
    }
}

bool dl_link_log_next(dl_link_log *log)
{
    if (log->at == log->end) return false;
    const char *feed = memchr(log->at, '\n', (size_t)(log->end - log->at));
    const size_t length = (size_t)((feed != NULL ? feed : log->end) - log->at);
    const size_t kept = length < sizeof log->text - 1 ? length : sizeof log->text - 1;
    memcpy(log->text, log->at, kept);
    log->text[kept] = '\0';
    for (size_t i = 0; i < kept; i++) {
        if (log->text[i] == '\0') log->text[i] = ' ';
    }
    log->at = feed != NULL ? feed + 1 : log->end;
    log->line++;
    const size_t tag = tag_length(log->text);
    memmove(log->text, log->text + tag, kept + 1 - tag);
    split(log);
    return true;
}

dl_status dl_link_log_error(const dl_link_log *log, dl_status code, dl_error *err,
                            const char *format, ...)
{
    char text[DL_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return dl_error_set_at(err, code, log->path, log->line, "%s", text);
}

dl_status dl_link_log_number(const dl_link_log *log, const char *word, double low, double high,
                             double *number, dl_error *err)
{
    dl_error inner = {0};
    double value;
    const dl_status status = dl_parse_double(word, low, high, &value, &inner);
    if (status != DL_OK) return dl_link_log_error(log, status, err, "%s", inner.text);
    *number = value;
    return DL_OK;
}

double dl_link_digits_error(const char *word, double value)
{
    const char *point = strchr(word, '.');
    const double digits = point != NULL ? (double)strspn(point + 1, "0123456789") : 0;
    return pow(10, -digits) / 2 / value / sqrt(3);
}

dl_status dl_link_data_read_text(dl_link_data *data, const char *name, const char *text,
                                 size_t bytes, dl_error *err)
{
    dl_link_parser *const parsers[] = {dl_link_parse_nccl, dl_link_parse_cuda, dl_link_parse_rates};
    size_t tables = 0;
    dl_status status = DL_OK;
    for (size_t i = 0; i < sizeof parsers / sizeof *parsers && status == DL_OK; i++) {
        dl_link_log log;
        dl_link_log_init(&log, name, text, bytes);
        if (tables == 0) status = parsers[i](data, &log, &tables, err);
    }
    if (status != DL_OK || tables > 0) return status;
    return dl_error_set_at(err, DL_ERR_DATA, name, 0,
                           "there is no table of nccl-tests, bandwidthTest, nvbandwidth or "
                           "gpu_copy_bw in it");
}

dl_status dl_link_data_read(dl_link_data *data, const char *path, dl_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    const bool is_trace = bytes >= 8 && memcmp(text, "DLTRACE\n", 8) == 0;
    if (!is_trace) status = dl_link_data_read_text(data, path, text, bytes, err);
    free(text);
    return is_trace ? dl_link_read_bench(data, path, err) : status;
}
