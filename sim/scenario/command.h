/* A scenario from the command line. Options stand for keys of a scenario file; they change its
 * text, or make a new one:
 *
 *   dlsim scenario.ini --workers 1,2,4 --set exchange.overlap=yes
 *   dlsim --costs costs.ini --machine dgx1_v100 --workers 1,2,4,8 --batch 256 --save scenario.ini
 */
#ifndef DL_SIM_SCENARIO_COMMAND_H
#define DL_SIM_SCENARIO_COMMAND_H

#include <stdbool.h>

#include "common/options.h"

/* Name in error texts of a scenario without a file. */
#define DL_SCENARIO_FROM_COMMAND "(command line)"

#define DL_SCENARIO_OPTIONS 25 /* that stand for one key each */
/* With --set, --parameters, --parameter-type, --no-scale and --rules. */
#define DL_SCENARIO_OPTIONS_ALL 30

#define DL_SCENARIO_HELP_BYTES 320

/* Scenario options of the command line. Zero: none. */
typedef struct dl_scenario_command {
    const char *values[DL_SCENARIO_OPTIONS]; /* of the options, as typed; NULL: not given */
    dl_text_list set;                        /* "SECTION.KEY=VALUE"; of --set */
    const char *parameters;                  /* of --parameters; NULL: not given */
    int parameter_type;                      /* of --parameter-type, from 1; 0: not given */
    bool no_scale;                           /* of --no-scale */
    bool for_layouts;                        /* one worker by default: layouts start from it */
    bool rows_have_batches;                  /* no batch is needed: a table's rows have theirs */
    const char *rules;                       /* of --rules; NULL: not given */
    char helps[DL_SCENARIO_OPTIONS][DL_SCENARIO_HELP_BYTES]; /* texts of dl_scenario_options */
} dl_scenario_command;

/* Writes the options, with targets in *command, to append to a program's table:
 * DL_SCENARIO_OPTIONS_ALL. Their help names their keys, and the defaults. */
void dl_scenario_options(dl_option *options, dl_scenario_command *command);

/* A dl_option_word_fn of these options. */
dl_status dl_scenario_option_word(const char *given, const char **option,
                                  dl_error *err) DL_MUST_CHECK;

/* Name of the option, without "--", for this key; NULL: only --set. */
const char *dl_scenario_option_of(const char *section, const char *key);

/* A dl_complete_fn of these options: names of machines and networks, choices, and for --set keys
 * and their choices. */
bool dl_scenario_complete(FILE *out, const char *option, const char *typed);

bool dl_scenario_command_given(const dl_scenario_command *command);

/* For a search, which varies mode and key separately: replaces another program's word for a mode
 * with a key by these two. DL_ERR_USAGE for such a word in a list. */
dl_status dl_scenario_plain_mode(char **text, dl_error *err) DL_MUST_CHECK;

/* Whether --rules is the only scenario option given. */
bool dl_scenario_command_rules_alone(const dl_scenario_command *command);

/* Makes the text of a scenario, freed by the caller: that of the file `path`, with its keys
 * replaced by the command line's, and those of --rules that neither has; or, if `path` is NULL, a
 * new one, which needs --costs, --samples-per-s, or --workload and --machine, and, unless the cost
 * file gives the measured one, a batch. A new one defaults to mode allreduce and 1, 2, 4, ...
 * workers up to the machine's GPUs, or 1, 2, 4, 8 on the measured cores. *name, freed by the
 * caller, is its name in error texts and the base of relative file names in it: `path`, or
 * DL_SCENARIO_FROM_COMMAND in the current folder. A machine is a file or the name of one that comes
 * with the program. DL_ERR_USAGE for a malformed --set and for an unknown machine. */
dl_status dl_scenario_text(const dl_scenario_command *command, const char *path, char **text,
                           char **name, dl_error *err) DL_MUST_CHECK;

/* Improves an error from reading the scenario `path` (NULL: from the command line alone) or its
 * costs: for a value of the command line, names its option instead of a line that nobody wrote,
 * with DL_ERR_USAGE; for a file that is no INI file, says what it is, and which program reads it.
 * Returns the error's code. */
dl_status dl_scenario_command_error(const char *path, dl_error *err);

/* Writes such a text to a file. File names in it, relative to `name`, become absolute if the file
 * is in another folder. */
dl_status dl_scenario_save(const char *file, const char *text, const char *name,
                           dl_error *err) DL_MUST_CHECK;

#endif
