/* Logs as lines of words: see links_internal.h. */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "common/names.h"
#include "common/units.h"

static bool is_timestamp(const char *text, size_t length)
{
    size_t digits = 0;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]) && strchr("-:.,TZ+/ ", text[i]) == NULL) return false;
        digits += isdigit((unsigned char)text[i]) != 0;
    }
    const char *colon = memchr(text, ':', length), *dash = memchr(text, '-', length);
    return digits >= 6 &&
           ((colon != NULL && memchr(colon + 1, ':', (size_t)(text + length - colon) - 1)) ||
            (dash != NULL && length >= 10 && text[4] == '-' && text[7] == '-'));
}

/* Length of a tag that another program put at the start of a line, or 0:
 *
 *   "> "                                   a quote; of docker compose "worker-0  | "
 *   " 3: "  "node-1: "                     srun --label, pdsh
 *   "[1,0]<stdout>:"  "[default0]:"        mpirun --tag-output, torchrun
 *   "[pod/nccl-0/main] "                   kubectl --prefix
 *   "2026-01-09T04:57:13.12Z stdout F "    time stamps of container logs
 *   "(Worker pid=12, ip=10.0.0.1) "        Ray */
static size_t tag_length(const char *text)
{
    const size_t blanks = strspn(text, " \t");
    const char *start = text + blanks, *end;
    const size_t word = strcspn(start, " \t\r");
    if (strncmp(start, "> ", 2) == 0) return blanks + 2;
    if (is_timestamp(start, word)) {
        const char *rest = start + word;
        const bool container =
            strncmp(rest, " stdout F ", 10) == 0 || strncmp(rest, " stderr F ", 10) == 0;
        return blanks + word + (container ? 10 : 0);
    }
    if (start[0] == '[') {
        end = strchr(start, ']');
        if (end == NULL) return 0;
        if (end[1] == '<' && (end = strstr(end, ">:")) != NULL) return (size_t)(end - text) + 2;
        end = strchr(start, ']');
        if (end[1] == ':' || strncmp(start, "[pod/", 5) == 0)
            return (size_t)(end - text) + 2 - (end[1] == '\0');
        if (is_timestamp(start + 1, (size_t)(end - start) - 1)) return (size_t)(end - text) + 1;
        return 0;
    }
    if (start[0] == '(' && (end = strchr(start, ')')) != NULL) {
        const char *pid = strstr(start, "pid=");
        return pid != NULL && pid < end ? (size_t)(end - text) + 1 : 0;
    }
    const char *rest = start + word + strspn(start + word, " \t");
    if (rest[0] == '|' && word > 0 && start[0] != '|') return (size_t)(rest - text) + 1;
    /* A label "NAME:" is a number, or contains a digit and precedes a comment, a row or nothing. */
    if (word > 1 && start[word - 1] == ':' && strcspn(start, "0123456789") < word) {
        const bool number = strspn(start, "0123456789") == word - 1;
        return number || rest[0] == '#' || isdigit((unsigned char)rest[0]) || rest[0] == '\0'
                   ? blanks + word
                   : 0;
    }
    return 0;
}

/* Removes colours ("ESC [ 32 m"), and replaces NULs and non-breaking spaces by blanks. */
static void clean(char *text, size_t length)
{
    size_t kept = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\033' && text[i + 1] == '[') {
            i += 2;
            while (i < length && !isalpha((unsigned char)text[i]))
                i++;
            continue;
        }
        const bool wide = text[i] == '\xc2' && text[i + 1] == '\xa0';
        text[kept++] = text[i] == '\0' || wide ? ' ' : text[i];
        i += wide;
    }
    text[kept] = '\0';
}

static void split(dl_link_log *log)
{
    char *rest = NULL;
    const bool barred = log->text[strspn(log->text, " \t")] == '|';
    const char *const blanks = barred ? " |\t\r" : " \t\r";
    memcpy(log->words_text, log->text, sizeof log->words_text);
    log->word_count = 0;
    for (char *word = strtok_r(log->words_text, blanks, &rest);
         word != NULL && log->word_count < DL_LINK_WORDS_MAX;
         word = strtok_r(NULL, blanks, &rest)) {
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
    clean(log->text, kept);
    log->at = feed != NULL ? feed + 1 : log->end;
    log->line++;
    for (size_t tag = tag_length(log->text); tag > 0; tag = tag_length(log->text))
        memmove(log->text, log->text + tag, strlen(log->text + tag) + 1);
    split(log);
    return true;
}

void dl_link_log_unwrap(dl_link_log *log, size_t words)
{
    dl_link_log next = *log, whole = *log;
    while (whole.word_count < words && dl_link_log_next(&next)) {
        size_t used = strlen(whole.text);
        if (whole.word_count + next.word_count > words ||
            used + strlen(next.text) + 2 > sizeof whole.text)
            return;
        whole.text[used++] = ' ';
        memcpy(whole.text + used, next.text, strlen(next.text) + 1);
        whole.at = next.at;
        split(&whole);
    }
    if (whole.word_count != words || whole.at == log->at) return;
    *log = whole;
    log->line = next.line;
    split(log); /* make the words point into this log's own buffer */
}

size_t dl_link_log_program(const dl_link_log *log, const char *prefix)
{
    size_t i = 0;
    while (i < log->word_count && strncmp(dl_base_name(log->words[i]), prefix, strlen(prefix)) != 0)
        i++;
    return i;
}

int dl_link_log_count(const char *word)
{
    const long count = word != NULL ? strtol(word, NULL, 10) : 1;
    return count > 0 && count < 1 << 16 ? (int)count : 1;
}

int dl_link_log_processes(const dl_link_log *log, size_t program)
{
    int processes = 1;
    for (size_t i = 0; i + 1 < log->word_count && i < program; i++) {
        const char *word = log->words[i];
        if (strcmp(word, "-np") == 0 || strcmp(word, "-n") == 0)
            processes = dl_link_log_count(log->words[i + 1]);
        if (strncmp(word, "--ntasks=", 9) == 0) processes = dl_link_log_count(word + 9);
    }
    return processes;
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
