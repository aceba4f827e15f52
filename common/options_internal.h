/* Shared by options.c and manual.c. */
#ifndef DL_COMMON_OPTIONS_INTERNAL_H
#define DL_COMMON_OPTIONS_INTERNAL_H

#include <stdbool.h>

#include "common/options.h"

/* Returns the help text with range and default, "Steps to run (1..1000; default 100)", without
 * bounds that only exclude nonsense. The caller frees it. */
char *dl_option_description(const dl_option *option);

/* An option in the order of --help and the manual page. */
typedef struct dl_listed_option {
    const dl_option *option;
    const char *heading; /* heading above the first option of a group; NULL: another option of the
                          * group, or one without a group */
} dl_listed_option;

/* Returns all options of the command, group by group: [option_count]; the caller frees the
 * array. */
dl_listed_option *dl_options_listed(const dl_command *command);

/* Runs a command with argv[0] "program name", for its messages. */
int dl_subcommand_run(const char *program, const dl_subcommand *command, int argc, char **argv);

/* If the only argument is --print-man or --print-completion, prints the page or script: complete
 * for a program without sub-commands (command->manual), else the command's part. Also answers
 * --complete OPTION TYPED. Returns whether the arguments were handled. */
bool dl_manual_print_command(const dl_command *command, int argc, char **argv);

/* Prints the page or script of a program with sub-commands, whose parts it collects by running
 * them. Returns whether it printed. */
bool dl_manual_print_program(const char *program, const char *summary,
                             const dl_subcommand *commands, size_t count, const dl_manual *manual,
                             int argc, char **argv);

#endif
