/* What manual.c takes from options.c and gives to it. */
#ifndef DL_COMMON_OPTIONS_INTERNAL_H
#define DL_COMMON_OPTIONS_INTERNAL_H

#include <stdbool.h>

#include "common/options.h"

/* "Steps to run (1..1000; default 100)". Of a range, ends are left out that only keep out what
 * makes no sense. free() it. */
char *dl_option_description(const dl_option *option);

/* An option as help and manual page list it. */
typedef struct dl_listed_option {
    const dl_option *option;
    const char *heading; /* to be written above it; NULL: none, as with an option of no group */
} dl_listed_option;

/* All options of the command, group by group: [option_count], free() it. */
dl_listed_option *dl_options_listed(const dl_command *command);

/* Runs a command with argv[0] "program name", so that its messages name it so. */
int dl_subcommand_run(const char *program, const dl_subcommand *command, int argc, char **argv);

/* If argv is --print-man or --print-completion alone, prints that: of a program without commands
 * (command->manual) all, of a command its part. */
bool dl_manual_print_command(const dl_command *command, int argc, char **argv);

/* The same for a program with commands, whose parts it collects by running them. */
bool dl_manual_print_program(const char *program, const char *summary,
                             const dl_subcommand *commands, size_t count, const dl_manual *manual,
                             int argc, char **argv);

#endif
