/* Status codes and error reports, used by all functions that can fail.
 *
 * Unless stated otherwise, a fallible function returns dl_status (0 = success) and takes a dl_error
 * as its last argument, in which it describes the failure. Its other out-parameters are unchanged
 * on failure. Library code neither prints errors nor exits, except when memory is exhausted
 * (alloc.h); a program's main() prints the dl_error and converts the code to an exit status
 * (dl_status_exit_code).
 *
 * A broken invariant is not an error but a bug: DL_ASSERT (like assert.h, also enabled in release
 * builds) prints the runtime values and aborts. */
#ifndef DL_COMMON_STATUS_H
#define DL_COMMON_STATUS_H

#include <stdio.h>

typedef enum dl_status {
    DL_OK = 0,
    DL_ERR_USAGE,       /* invalid command line                                   -> exit 2 */
    DL_ERR_IO,          /* open, read, write, close failed                         -> exit 1 */
    DL_ERR_PARSE,       /* text does not follow its grammar                        -> exit 1 */
    DL_ERR_NAME,        /* unknown section, key, unit, model, mode, column         -> exit 1 */
    DL_ERR_RANGE,       /* a value lies outside its valid range                    -> exit 1 */
    DL_ERR_FORMAT,      /* binary file: wrong magic, version, checksum, truncation -> exit 1 */
    DL_ERR_DATA,        /* insufficient data (too few samples, costs missing)      -> exit 1 */
    DL_ERR_UNSUPPORTED, /* not available on this machine or in this build          -> exit 1 */
    DL_ERR_SYSTEM,      /* thread, affinity, memory map refused by the system      -> exit 1 */
    DL_ERR_UNFIT        /* no point fits into the memory of its GPUs               -> exit 3 */
} dl_status;

#define DL_ERROR_TEXT_BYTES 512
#define DL_ERROR_FILE_BYTES 256

/* Description and location of a failure. Zero-initialise before use ({0}). */
typedef struct dl_error {
    dl_status code;
    int line;                       /* 1-based; 0: unknown */
    char file[DL_ERROR_FILE_BYTES]; /* input file; "": not about a file */
    char text[DL_ERROR_TEXT_BYTES]; /* one sentence without newline */
} dl_error;

#define DL_MUST_CHECK __attribute__((warn_unused_result))
#define DL_UNUSED __attribute__((unused)) /* a parameter that a callback ignores */
#define DL_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))

/* Fills `err` (may be NULL) with `code` and the formatted text; clears file and line. Returns
 * `code`, so that a caller can write `return dl_error_set(err, DL_ERR_IO, ...)`. Text longer than
 * the buffer is truncated. */
dl_status dl_error_set(dl_error *err, dl_status code, const char *format, ...) DL_PRINTF(3, 4);

/* Like dl_error_set, for line `line` (0: whole file) of `file`. */
dl_status dl_error_set_at(dl_error *err, dl_status code, const char *file, int line,
                          const char *format, ...) DL_PRINTF(5, 6);

/* Prints "program: file:line: text" (the known parts) and a newline to `out`. */
void dl_error_print(const dl_error *err, const char *program, FILE *out);

/* Returns the exit status of a program that ended with `code`: 0, 1 (failed), 2 (bad usage), 3
 * (nothing fits). */
int dl_status_exit_code(dl_status code);

/* Aborts with file, line, the expression and the formatted values if `expr` is false. */
#define DL_ASSERT(expr, ...)                                                   \
    do {                                                                       \
        if (!(expr)) dl_assert_failed(__FILE__, __LINE__, #expr, __VA_ARGS__); \
    } while (0)

void dl_assert_failed(const char *file, int line, const char *expr, const char *format, ...)
    DL_PRINTF(4, 5) __attribute__((noreturn));

#endif
