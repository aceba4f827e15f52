/* Writing of result files: programs write a temporary file in the target's folder, which replaces
 * the target once it is complete. A failed run leaves the old file unchanged, or none if there was
 * none; a killed run may also leave the temporary file, ".NAME.partial-PID".
 *
 * A replaced file keeps its permission bits and, if the system permits, its owner; a symbolic link
 * is kept, and the file that it points to is replaced. Other hard links to that file keep the old
 * content. A target that is not a regular file (/dev/stdout, /dev/null, a FIFO), or the file to
 * which standard output or standard error is redirected, is written directly. */
#ifndef DL_COMMON_OUTPUT_H
#define DL_COMMON_OUTPUT_H

#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

/* An open output; {0}: none. Write to `out`; dl_output_close reports write errors. */
typedef struct dl_output {
    FILE *out;
    struct dl_output_file *file;
} dl_output;

/* Opens an output; "-" is standard output. Returns DL_ERR_USAGE if `path` is empty; DL_ERR_IO with the system's reason if
 * the target or its folder cannot be written. */
dl_status dl_output_open(dl_output *output, const char *path, dl_error *err) DL_MUST_CHECK;

/* Moves the file to its target. Returns DL_ERR_IO with the system's reason if it was not written
 * completely; the target is then unchanged, unless it is written directly. Leaves {0} in any
 * case. */
dl_status dl_output_close(dl_output *output, dl_error *err) DL_MUST_CHECK;

/* Abandons an output, if any; the target is unchanged, unless it is written directly. Leaves
 * {0}. */
void dl_output_abandon(dl_output *output);

/* Called at the end of a function that wrote `output`: closes it if `status` is DL_OK; else
 * abandons it and keeps *err, which describes the failure. Returns the first failure. */
dl_status dl_output_end(dl_output *output, dl_status status, dl_error *err) DL_MUST_CHECK;

/* Writes `text` to a file. Returns the errors of dl_output_open and dl_output_close. */
dl_status dl_output_text(const char *path, const char *text, dl_error *err) DL_MUST_CHECK;

/* From this call, dl_output_close only completes files, and dl_outputs_end moves all of them to
 * their targets together. Files written directly are not held. Not nested; for one thread only. */
void dl_outputs_hold(void);

/* If `status` is DL_OK, moves all held files to their targets. If one fails, returns DL_ERR_IO with
 * its name and the system's reason, and restores all targets (on file systems that cannot exchange
 * two files, the message gives the number of targets that are not restored). Otherwise abandons all
 * held files. Returns the first failure. Nothing is held afterwards; no effect without
 * dl_outputs_hold. */
dl_status dl_outputs_end(dl_status status, dl_error *err) DL_MUST_CHECK;

/* Called first in a program's main. From this call, control characters printed to standard output
 * and standard error, which may come from file names, appear as "\u001b" instead of reaching the
 * terminal: all of C0 except newline and tab, DEL, C1 as UTF-8, and bytes that neither start nor
 * continue a UTF-8 sequence. A write beyond the file size limit (RLIMIT_FSIZE) fails with EFBIG
 * instead of ending the program. */
void dl_output_start(void);

/* A file of a command, and its role in messages: "--output", "the cost file". */
typedef struct dl_file_role {
    const char *role;
    const char *path; /* NULL: not given */
} dl_file_role;

/* Checks files before the work starts. Returns DL_ERR_USAGE if an output's name is empty, or it is
 * the same file as an input or another output, under any name; DL_ERR_IO if it cannot be created or
 * replaced. Devices and pipes may be used repeatedly. */
dl_status dl_outputs_check(const dl_file_role *outputs, size_t output_count,
                           const dl_file_role *inputs, size_t input_count,
                           dl_error *err) DL_MUST_CHECK;

/* Like dl_outputs_check, with inputs paths[path_count] that all have the role `role`. */
dl_status dl_outputs_check_paths(const dl_file_role *outputs, size_t output_count, const char *role,
                                 const char *const *paths, size_t path_count,
                                 dl_error *err) DL_MUST_CHECK;

#endif
