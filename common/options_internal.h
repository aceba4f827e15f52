/* Shared by options.c and manual.c. */
#ifndef DL_COMMON_OPTIONS_INTERNAL_H
#define DL_COMMON_OPTIONS_INTERNAL_H

#include <stdbool.h>

#include "common/options.h"

/* The help text with range and default, "Steps to run (1..1000; default 100)", without bounds that
 * only exclude nonsense. free() it. */
char *dl_option_description(const dl_option *option);

/* An option as help and manual page list it. */
typedef struct dl_listed_option {
    const dl_option *option;
    const char *heading; /* above it; NULL: none, as for an option of no group */
} dl_listed_option;

/* All options of the command, group by group: [option_count], free() it. */
dl_listed_option *dl_options_listed(const dl_command *command);

/* Runs a command with argv[0] "program name", so that its messages name it so. */
int dl_subcommand_run(const char *program, const dl_subcommand *command, int argc, char **argv);

/* If the only argument is --print-man or --print-completion, prints the page or script: complete
 * for a program without commands (command->manual), else the command's part. */
bool dl_manual_print_command(const dl_command *command, int argc, char **argv);

/* Prints them for a program with commands, whose parts it collects by running the commands. */
bool dl_manual_print_program(const char *program, const char *summary,
                             const dl_subcommand *commands, size_t count, const dl_manual *manual,
                             int argc, char **argv);

#endif
