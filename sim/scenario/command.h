/* A scenario from the command line. Options correspond to keys of a scenario file; they change its
 * text, or create a new one:
 *
 *   dlsim scenario.ini --workers 1,2,4 --set exchange.overlap=yes
 *   dlsim --costs costs.ini --machine dgx1_v100 --workers 1,2,4,8 --batch 256 --save scenario.ini
 */
#ifndef DL_SIM_SCENARIO_COMMAND_H
#define DL_SIM_SCENARIO_COMMAND_H

#include <stdbool.h>

#include "common/options.h"

/* Name of a scenario without a file in error texts. */
#define DL_SCENARIO_FROM_COMMAND "(command line)"

#define DL_SCENARIO_OPTIONS 25 /* number of options that set one key each */
/* Total with --set, --parameters, --parameter-type, --no-scale and --rules. */
#define DL_SCENARIO_OPTIONS_ALL 30

#define DL_SCENARIO_HELP_BYTES 320

/* Scenario options of the command line. Zeroed: no option is given. */
typedef struct dl_scenario_command {
    const char *values[DL_SCENARIO_OPTIONS]; /* option values as typed; NULL: not given */
    dl_text_list set;                        /* values of --set, "SECTION.KEY=VALUE" */
    const char *parameters;                  /* value of --parameters; NULL: not given */
    int parameter_type;                      /* 1 + index of the value of --parameter-type; 0: not
                                              * given */
    bool no_scale;                           /* --no-scale is given */
    bool for_layouts;                        /* for --advise layout: one worker by default, and
                                              * --workers is refused */
    bool needs_no_batch;                     /* a batch is not required: the rows of a table have
                                              * their own, or nothing is simulated */
    const char *searched;                    /* key of --solve; NULL: not given. If it is the batch
                                              * per worker, the search starts from one sample */
    const char *rules;                       /* value of --rules; NULL: not given */
    char helps[DL_SCENARIO_OPTIONS][DL_SCENARIO_HELP_BYTES]; /* help texts that dl_scenario_options
                                                              * writes */
} dl_scenario_command;

/* Appends DL_SCENARIO_OPTIONS_ALL options to a program's table, with targets in *command. Their
 * help names their keys and defaults. */
void dl_scenario_options(dl_option *options, dl_scenario_command *command);

/* A dl_option_word_fn for these options. */
dl_status dl_scenario_option_word(const char *given, const char **option,
                                  dl_error *err) DL_MUST_CHECK;

/* Returns the name, without "--", of the option for this key; NULL: the key can be set only by
 * --set. */
const char *dl_scenario_option_of(const char *section, const char *key);

/* A dl_complete_fn for these options: completes names of machines and networks, choices, and for
 * --set keys and their choices. */
bool dl_scenario_complete(FILE *out, const char *option, const char *typed);

bool dl_scenario_command_given(const dl_scenario_command *command);

/* For a search that varies mode and key separately: replaces another program's word that means a
 * mode and a key value by these two. DL_ERR_USAGE if such a word is in a list. */
dl_status dl_scenario_plain_mode(char **text, dl_error *err) DL_MUST_CHECK;

/* Returns the value of an option that sets a key, "workers", as given by it or by --set; NULL: not
 * given. */
const char *dl_scenario_command_value(const dl_scenario_command *command, const char *option);

/* Whether --rules is the only scenario option given. */
bool dl_scenario_command_rules_alone(const dl_scenario_command *command);

/* Returns the text of --machine if it is the only scenario option given, else NULL. */
const char *dl_scenario_command_machine_alone(const dl_scenario_command *command);

/* Returns the text of a scenario in *text, freed by the caller: the text of the file `path` with
 * its keys replaced by those of the command line or, if `path` is NULL, a new scenario of the
 * command line's keys and defaults for the others (mode allreduce; 1, 2, 4, ... workers, at most
 * 64). Then adds the keys of --rules that are not set. *name, freed by the caller, is the
 * scenario's name in error texts and the base of its relative file names: `path`, or
 * DL_SCENARIO_FROM_COMMAND in the current folder. A machine is a file or the name of a machine that
 * comes with the program. *batch_by_costs: the command line has no batch and searches none, and
 * that of the costs is taken. DL_ERR_USAGE for a malformed --set, an unknown machine, options that
 * exclude each other and, of a new scenario, a missing option; DL_ERR_DATA for a file with a NUL
 * byte; errors of reading files. */
dl_status dl_scenario_text(const dl_scenario_command *command, const char *path, char **text,
                           char **name, bool *batch_by_costs, dl_error *err) DL_MUST_CHECK;

/* Improves an error from reading the scenario `path` (NULL: from the command line alone) as changed
 * by the command, or from reading its costs. For a value from the command line, names its option
 * instead of a line of generated text, with DL_ERR_USAGE; for a file that is not an INI file, names
 * its kind and the program that reads it. Returns the error's code. */
dl_status dl_scenario_command_error(const dl_scenario_command *command, const char *path,
                                    dl_error *err);

/* Writes the scenario's text to `file`. File names in it, relative to `name`, become absolute if
 * `file` is in another folder. */
dl_status dl_scenario_save(const char *file, const char *text, const char *name,
                           dl_error *err) DL_MUST_CHECK;

#endif
