/* libdlscale: the simulator of dlsim as a library. A scenario goes in, as a file or as text
 * (dlscale-scenario(5)); a table comes out, whose rows and columns are those of dlsim's results.
 *
 * The library prints nothing and installs no handler of signals; but on exhaustion of memory it
 * ends the process with exit status 1. All functions may be called from several threads at once,
 * each with results of its own. The locale of the caller does not matter: numbers are read and
 * written with a point.
 *
 * Machines that a scenario names are those of share/dlscale of the installation, or of the folder
 * that the variable DLSCALE_SHARE names. */
#ifndef DLSCALE_H
#define DLSCALE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dlscale_status {
    DLSCALE_OK = 0,
    DLSCALE_ERR_USAGE,       /* a wrong argument of the call */
    DLSCALE_ERR_IO,          /* a file cannot be read */
    DLSCALE_ERR_PARSE,       /* text does not follow its grammar */
    DLSCALE_ERR_NAME,        /* an unknown section, key, unit, mode, column */
    DLSCALE_ERR_RANGE,       /* a value outside its range */
    DLSCALE_ERR_FORMAT,      /* a file of another kind */
    DLSCALE_ERR_DATA,        /* costs that the scenario needs are missing, a point does not fit */
    DLSCALE_ERR_UNSUPPORTED, /* not in this build */
    DLSCALE_ERR_SYSTEM,      /* the system refused a thread */
    DLSCALE_ERR_UNFIT        /* no point fits into the memory of its GPUs */
} dlscale_status;

/* Why a call failed. */
typedef struct dlscale_error {
    int line;       /* of the file, from 1; 0: not known */
    char file[256]; /* "": it is not about a file */
    char text[512]; /* one sentence */
} dlscale_error;

/* A table of results; released with dlscale_free. */
typedef struct dlscale_result dlscale_result;

/* Reads the scenario in the file `path` and simulates it on `threads` threads (0: one per core; the
 * results do not depend on it). *result is the caller's then; after a failure it is NULL and *error
 * (may be NULL) says why. */
dlscale_status dlscale_simulate_file(const char *path, int threads, dlscale_result **result,
                                     dlscale_error *error);

/* The same with the scenario's text. `name` is the path that the scenario is taken to have, whether
 * or not there is such a file: errors name it, and names of files in the text are relative to its
 * folder. */
dlscale_status dlscale_simulate_text(const char *name, const char *text, int threads,
                                     dlscale_result **result, dlscale_error *error);

void dlscale_free(dlscale_result *result); /* NULL is fine */

/* Rows, one for each point of the scenario in the order of its lists, and columns: their names and
 * units are those of the results file. */
size_t dlscale_rows(const dlscale_result *result);
size_t dlscale_columns(const dlscale_result *result);

/* The column's name; NULL where there is none so far right. */
const char *dlscale_column_name(const dlscale_result *result, size_t column);

/* The number of a column, or -1. */
long dlscale_column(const dlscale_result *result, const char *name);

/* A cell as a number; NaN where it is empty or none, and where there is no such cell. */
double dlscale_number(const dlscale_result *result, size_t row, size_t column);

/* The same by the column's name. */
double dlscale_value(const dlscale_result *result, size_t row, const char *column);

/* A cell as text, as the results file has it ("" is empty; a list is "1;2.5"); NULL where there is
 * no such cell. Valid until dlscale_free. */
const char *dlscale_text(const dlscale_result *result, size_t row, size_t column);

/* What is to be known before the rows are used: costs that are not known, too few steps, ...
 * NULL where there is no such note. */
size_t dlscale_notes(const dlscale_result *result);
const char *dlscale_note(const dlscale_result *result, size_t note);

/* Release of the library, "0.1.0". */
const char *dlscale_version(void);

#ifdef __cplusplus
}
#endif

#endif
