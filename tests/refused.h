/* Tables of wrong texts: with what status a reader refuses each, at which line, in what words. */
#ifndef DL_TESTS_REFUSED_H
#define DL_TESTS_REFUSED_H

#include "tests/check.h"

typedef struct refused_text {
    const char *text;
    dl_status status;
    int line;         /* 0: no single line is at fault */
    const char *says; /* a part of the message */
} refused_text;

/* Reads `text`; where that fails it checks that nothing is left behind. */
typedef dl_status refused_reader(const char *text, dl_error *err);

/* Fails at the first of cases[count] that `read` takes, or refuses otherwise than the table says;
 * `file` is the file that every error must be about, NULL for any. */
static inline void check_all_refused(const refused_text *cases, size_t count, const char *file,
                                     refused_reader *read)
{
    for (size_t i = 0; i < count; i++) {
        const refused_text *c = &cases[i];
        dl_error err = {0};
        const dl_status status = read(c->text, &err);
        if (status != c->status || err.line != c->line || strstr(err.text, c->says) == NULL ||
            (file != NULL && strcmp(err.file, file) != 0)) {
            fail_msg("case %zu: %s, %s:%d: %s\n  expected %s, %s:%d: ...%s... of the text\n%s", i,
                     status_name(status), err.file, err.line, err.text, status_name(c->status),
                     file != NULL ? file : "any file", c->line, c->says, c->text);
        }
    }
}

#define assert_all_refused(cases, file, read) \
    check_all_refused((cases), sizeof(cases) / sizeof *(cases), (file), (read))

#endif
