/* Writing of result files: programs write a temporary file in the target's folder, which replaces
 * the target once it is complete. A run that fails leaves the old file as it was, or none if there
 * was none; a run that is killed may also leave the temporary file, ".NAME.partial-PID".
 *
 * A file that is replaced keeps its permission bits and, where the system lets it, its owner; a
 * symbolic link is kept, and the file that it points to is replaced. Other hard links to that file keep the
 * old content. A target that is no regular file (/dev/stdout, /dev/null, a FIFO), or the file to
 * which standard output or standard error goes, is written directly. */
#ifndef DL_COMMON_OUTPUT_H
#define DL_COMMON_OUTPUT_H

#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

/* An open output; {0} is none. Write to `out`; dl_output_close reports write errors. */
typedef struct dl_output {
    FILE *out;
    struct dl_output_file *file;
} dl_output;

/* DL_ERR_USAGE if `path` is empty; DL_ERR_IO with the system's reason if the target or its folder
 * cannot be written. */
dl_status dl_output_open(dl_output *output, const char *path, dl_error *err) DL_MUST_CHECK;

/* Puts the file in its place. DL_ERR_IO with the system's reason if it was not written completely;
 * the target is then as before. Leaves {0} in any case. */
dl_status dl_output_close(dl_output *output, dl_error *err) DL_MUST_CHECK;

/* Abandons an output, if any: the target stays as it was. Leaves {0}. */
void dl_output_abandon(dl_output *output);

/* Called at the end of a function that wrote `output`: closes it if `status` is DL_OK; else
 * abandons it and keeps *err, which describes the failure. Returns the first failure. */
dl_status dl_output_end(dl_output *output, dl_status status, dl_error *err) DL_MUST_CHECK;

/* From now on dl_output_close only completes files, and dl_outputs_end puts all of them in their
 * places together. Files written directly are not held. Not nested; one thread only. */
void dl_outputs_hold(void);

/* If `status` is DL_OK, puts all held files in their places: if one cannot be, DL_ERR_IO with its
 * name and the system's reason, and all targets are as before (on file systems that cannot exchange
 * two files, the message says how many are not). Else abandons all. Returns the first failure.
 * Nothing is held afterwards; without dl_outputs_hold it does nothing. */
dl_status dl_outputs_end(dl_status status, dl_error *err) DL_MUST_CHECK;

/* Called first by a program's main. From here on, control characters printed to standard output and
 * standard error, where names come from files, appear as "\u001b" instead of reaching the terminal:
 * all of C0 but newline and tab, DEL, C1 as UTF-8, and bytes that are not UTF-8. A write beyond the
 * limit on the size of files (RLIMIT_FSIZE) fails with EFBIG instead of ending the program. */
void dl_output_start(void);

/* A file of a command, and its role as the user knows it: "--output", "the cost file". */
typedef struct dl_file_role {
    const char *role;
    const char *path; /* NULL: not given */
} dl_file_role;

/* To be called before the work starts. DL_ERR_USAGE if an output's name is empty, or it is the same
 * file as an input or another output, under any name; DL_ERR_IO if it cannot be created or
 * replaced. Devices and pipes may be given twice. */
dl_status dl_outputs_check(const dl_file_role *outputs, size_t output_count,
                           const dl_file_role *inputs, size_t input_count,
                           dl_error *err) DL_MUST_CHECK;

/* As dl_outputs_check, with inputs paths[path_count] that all have the role `role`. */
dl_status dl_outputs_check_paths(const dl_file_role *outputs, size_t output_count, const char *role,
                                 const char *const *paths, size_t path_count,
                                 dl_error *err) DL_MUST_CHECK;

#endif
