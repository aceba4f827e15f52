/* Shared by options.c and manual.c. */
#ifndef DL_COMMON_OPTIONS_INTERNAL_H
#define DL_COMMON_OPTIONS_INTERNAL_H

#include <stdbool.h>

#include "common/options.h"

/* "Steps to run (1..1000; default 100)", without an end of the range that only excludes nonsense.
 * free() it. */
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

/* If argv is --print-man or --print-completion alone, prints it: the whole for a program without
 * commands (command->manual), its part for a command. */
bool dl_manual_print_command(const dl_command *command, int argc, char **argv);

/* The same for a program with commands, whose parts it collects by running them. */
bool dl_manual_print_program(const char *program, const char *summary,
                             const dl_subcommand *commands, size_t count, const dl_manual *manual,
                             int argc, char **argv);

#endif
