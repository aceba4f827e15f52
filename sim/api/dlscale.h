/* libdlscale: the simulator of dlsim as a library. It takes a scenario, as a file or as text
 * (dlscale-scenario(5)), and returns a table with the rows and columns of dlsim's results.
 *
 * The library prints nothing and installs no signal handlers; only when memory is exhausted does it
 * end the process, with exit status 1. All functions may be called from several threads at once,
 * each with its own results. The caller's locale does not matter: numbers are read and written with
 * a point.
 *
 * Machines named in a scenario are searched in the installation's share/dlscale, or in the folder
 * named by the environment variable DLSCALE_SHARE. */
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
    char file[256]; /* "": not about a file */
    char text[512]; /* one sentence */
} dlscale_error;

/* A table of results; released with dlscale_free. */
typedef struct dlscale_result dlscale_result;

/* Reads the scenario in the file `path` and simulates it on `threads` threads (0: one per core; the
 * results do not depend on it). The caller owns *result; after a failure it is NULL and *error (may
 * be NULL) gives the reason. */
dlscale_status dlscale_simulate_file(const char *path, int threads, dlscale_result **result,
                                     dlscale_error *error);

/* The same with the scenario's text. `name` is the scenario's assumed path, whether or not such a
 * file exists: errors name it, and file names in the text are relative to its folder. */
dlscale_status dlscale_simulate_text(const char *name, const char *text, int threads,
                                     dlscale_result **result, dlscale_error *error);

void dlscale_free(dlscale_result *result); /* NULL is fine */

/* Number of rows, one per point of the scenario in the order of its lists, and of columns, with the
 * names and units of the results file. */
size_t dlscale_rows(const dlscale_result *result);
size_t dlscale_columns(const dlscale_result *result);

/* The column's name; NULL if `column` is out of range. */
const char *dlscale_column_name(const dlscale_result *result, size_t column);

/* The number of a column, or -1. */
long dlscale_column(const dlscale_result *result, const char *name);

/* A cell as a number; NaN if it is empty, not a number, or out of range. */
double dlscale_number(const dlscale_result *result, size_t row, size_t column);

/* The same by the column's name. */
double dlscale_value(const dlscale_result *result, size_t row, const char *column);

/* A cell as text, as in the results file ("" is empty; a list is "1;2.5"); NULL if out of range.
 * Valid until dlscale_free. */
const char *dlscale_text(const dlscale_result *result, size_t row, size_t column);

/* Notes on the validity of the rows: unknown costs, too few steps, ... Their number; a note, NULL
 * if out of range. */
size_t dlscale_notes(const dlscale_result *result);
const char *dlscale_note(const dlscale_result *result, size_t note);

/* Release of the library, "0.1.0". */
const char *dlscale_version(void);

#ifdef __cplusplus
}
#endif

#endif
