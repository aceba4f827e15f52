/* A progress line for long work on stderr: only on a terminal, and only after two seconds. */
#ifndef DL_PROFILER_PROGRESS_H
#define DL_PROFILER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dl_progress {
    const char *what; /* borrowed; for example "training" */
    bool terminal;
    bool shown;
    int64_t next_ns; /* time of the next update of the line */
} dl_progress;

/* Initialises the line, and starts its delay of two seconds. */
void dl_progress_init(dl_progress *progress, const char *what);

/* Shows "what: NN %" in place of the previous line, at most four times a second. */
void dl_progress_update(dl_progress *progress, double done_frac);

/* Clears the line. */
void dl_progress_end(dl_progress *progress);

#endif
