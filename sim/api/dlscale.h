/* libdlscale: the simulator of dlsim as a library. It takes a scenario, as a file or as text
 * (dlscale-scenario(5)), and returns a table with the rows and columns of dlsim's results.
 *
 * The library prints nothing and installs no signal handlers. It ends the process, with exit status
 * 1, only if memory is exhausted. All functions may be called concurrently from several threads,
 * each with its own results. Numbers are read and written with a decimal point, independently of
 * the caller's locale.
 *
 * Machines named in a scenario are searched for in the installation's share/dlscale, or in the
 * folder named by the environment variable DLSCALE_SHARE. */
#ifndef DLSCALE_H
#define DLSCALE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dlscale_status {
    DLSCALE_OK = 0,
    DLSCALE_ERR_USAGE,       /* an invalid argument of the call */
    DLSCALE_ERR_IO,          /* a file cannot be read */
    DLSCALE_ERR_PARSE,       /* a text violates its grammar */
    DLSCALE_ERR_NAME,        /* an unknown section, key, unit, mode, column */
    DLSCALE_ERR_RANGE,       /* a value outside its range */
    DLSCALE_ERR_FORMAT,      /* a file of the wrong kind */
    DLSCALE_ERR_DATA,        /* missing costs, contradictory data, or other unusable data */
    DLSCALE_ERR_UNSUPPORTED, /* a combination of settings that is not supported */
    DLSCALE_ERR_SYSTEM,      /* a thread cannot be created */
    DLSCALE_ERR_UNFIT        /* no point fits into the memory of its GPUs */
} dlscale_status;

/* Reason why a call failed. */
typedef struct dlscale_error {
    int line;       /* line of the file, from 1; 0: unknown */
    char file[256]; /* "" if no file is concerned */
    char text[512]; /* the reason in one sentence */
} dlscale_error;

/* A table of results. Release it with dlscale_free. */
typedef struct dlscale_result dlscale_result;

/* Reads the scenario in the file `path` and simulates it on `threads` threads (0 to 1024; 0: one
 * per core; the results do not depend on it). The caller owns *result. On failure *result is NULL
 * and *error (`error` may be NULL) gives the reason. */
dlscale_status dlscale_simulate_file(const char *path, int threads, dlscale_result **result,
                                     dlscale_error *error);

/* Simulates a scenario given as text. `name` is the scenario's nominal path, whether or not such a
 * file exists: errors contain it, and file names in the text are relative to its folder. */
dlscale_status dlscale_simulate_text(const char *name, const char *text, int threads,
                                     dlscale_result **result, dlscale_error *error);

void dlscale_free(dlscale_result *result); /* accepts NULL */

/* Return the number of rows, one per point of the scenario in the order of its lists, and the
 * number of columns, which have the names and units of the results file. */
size_t dlscale_rows(const dlscale_result *result);
size_t dlscale_columns(const dlscale_result *result);

/* Returns the column's name; NULL if `column` is out of range. */
const char *dlscale_column_name(const dlscale_result *result, size_t column);

/* Returns the index of a column; -1 if there is none with this name. */
long dlscale_column(const dlscale_result *result, const char *name);

/* Returns a cell as a number; NaN if it is empty, not a number, or out of range. */
double dlscale_number(const dlscale_result *result, size_t row, size_t column);

/* Returns a cell, selected by its column's name, as a number; NaN as for dlscale_number or for an
 * unknown column. */
double dlscale_value(const dlscale_result *result, size_t row, const char *column);

/* Returns a cell as text, as in the results file ("" if empty; a list is "1;2.5"); NULL if out of
 * range. The text is valid until dlscale_free. */
const char *dlscale_text(const dlscale_result *result, size_t row, size_t column);

/* Notes on the validity of the rows: unknown costs, too few steps, ... Return the number of notes,
 * and a note or, if out of range, NULL. Notes are valid until dlscale_free. */
size_t dlscale_notes(const dlscale_result *result);
const char *dlscale_note(const dlscale_result *result, size_t note);

/* Returns the version of the library, "0.1.0". */
const char *dlscale_version(void);

#ifdef __cplusplus
}
#endif

#endif
