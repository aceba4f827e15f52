/* Logs as lines of words: see links_internal.h. */
#include <math.h>
#include <string.h>

#include "calibrate/links/links_internal.h"
#include "common/units.h"

/* Length of "[1,0]<stdout>:" (mpirun --tag-output) or " 3: " (srun --label) at the start of a line,
 * or 0. */
static size_t tag_length(const char *text)
{
    const size_t blanks = strspn(text, " "), digits = strspn(text + blanks, "0123456789");
    if (digits > 0 && text[blanks + digits] == ':') {
        const char after = text[blanks + digits + 1];
        return after == ' ' || after == '\0' ? blanks + digits + 1 : 0;
    }
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
