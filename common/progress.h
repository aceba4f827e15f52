/* Progress of a long run, and its remaining time, on standard error: on a terminal as one line that
 * is updated, else (log files, batch systems) as one line per minute. Runs shorter than two seconds
 * on a terminal, or a minute elsewhere, show nothing. */
#ifndef DL_COMMON_PROGRESS_H
#define DL_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dl_progress {
    const char *program; /* prefix of log lines: "dlsim" */
    const char *what;    /* text with the total: "of %lld runs" */
    bool terminal, shown;
    int64_t start_ns, last_ns;
    int64_t before; /* number done at the start; -1: not known yet */
} dl_progress;

void dl_progress_start(dl_progress *progress, const char *program, const char *what);

/* A dl_progress_fn (common/jobs.h); user: a dl_progress. Prints the number of jobs from a journal
 * once. */
void dl_progress_show(void *user, int64_t done, int64_t count);

/* Clears the line on a terminal. */
void dl_progress_end(dl_progress *progress);

/* Formats "4 s", "7 min", "3.2 h", "12 days", "40 years". Returns text. */
const char *dl_duration_text(char *text, int bytes, double seconds);

#endif
