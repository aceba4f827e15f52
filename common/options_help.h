/* How options and their values are shown: the other half of options.c, for it alone. */
#ifndef DL_COMMON_OPTIONS_HELP_H
#define DL_COMMON_OPTIONS_HELP_H

#include "common/options.h"

#define DL_OPTION_RANGE_BYTES 80

/* Writes the valid range of an INT, DOUBLE or BYTES option ("1..100", "at least 1", "any") into
 * `text` and returns it. */
const char *dl_option_range(const dl_option *option, char text[DL_OPTION_RANGE_BYTES]);

/* The present value of the target as the parser would read it; NULL for a flag, a list, and a text
 * that is NULL. A string of its own; free() it. */
char *dl_option_value(const dl_option *option);

/* The text of --help, with the present values of the targets as defaults; free() it. */
char *dl_options_help(const dl_command *command);

/* Writes "dlprof 0.1.0" to stdout: the version is that of the program, `program`'s first word. */
void dl_print_version(const char *program);

#endif
