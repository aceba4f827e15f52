/* Command lines: parsing, --help and the dump of the effective settings all use one table of
 * options. --help and the manual page list options by group, in the order of the groups' first
 * options.
 *
 * A program with sub-commands ("dlprof train") has one dl_command for each. --help (-h) and
 * --version always exist. Long options may be abbreviated to a unique prefix; "--" ends the
 * options; all other words are positional, and may be mixed with options. */
#ifndef DL_COMMON_OPTIONS_H
#define DL_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/manual.h"
#include "common/status.h"

typedef enum dl_option_type {
    DL_OPTION_FLAG,   /* bool *           no argument */
    DL_OPTION_INT,    /* int64_t *        whole number in low..high */
    DL_OPTION_INT32,  /* int *            whole number in low..high */
    DL_OPTION_DOUBLE, /* double *         number in low..high */
    DL_OPTION_BYTES,  /* uint64_t *       byte count with unit (dl_parse_bytes) in low..high */
    DL_OPTION_TEXT,   /* const char **    any text; borrowed from argv */
    DL_OPTION_REGEX,  /* const char **    extended regular expression (regex.h); borrowed */
    DL_OPTION_CHOICE, /* int *            index into choices[] */
    DL_OPTION_KIND,   /* int * 0: not given; else 1 + index into choices[], 1 without an argument.
                       * The argument follows '=', or is the next text if that is a choice */
    DL_OPTION_LIST    /* dl_text_list *   may be repeated; borrowed from argv */
} dl_option_type;

/* Borrowed texts in the given order; grown by the parser, released with dl_text_list_free. */
typedef struct dl_text_list {
    const char **items;
    size_t count;
} dl_text_list;

typedef struct dl_option {
    const char *name; /* long name without dashes */
    char letter;      /* short name, or 0 */
    dl_option_type type;
    void *target;               /* set to the default by the caller before parsing */
    double low, high;           /* valid range of INT, INT32, DOUBLE, BYTES */
    const char *const *choices; /* CHOICE, KIND: NULL-terminated names */
    const char *argument;       /* name of the argument in --help, with its unit: "COUNT",
                                 * "SECONDS" */
    const char *help; /* one sentence; the default from *target is appended unless the text contains
                       * it, "(default: one per core)" */
    const char *group; /* heading in --help; NULL: that of the previous option in the table */
} dl_option;

/* Rows of a table of options: long name, letter or 0, target, range or choices, argument, and last
 * the help, optionally followed by .group = "Heading". */
#define DL_OPT_FLAG(name_, letter_, target_, ...) \
    DL_OPT_ROW(FLAG, name_, letter_, target_, NULL, __VA_ARGS__)
#define DL_OPT_TEXT(name_, letter_, target_, argument_, ...) \
    DL_OPT_ROW(TEXT, name_, letter_, target_, argument_, __VA_ARGS__)
#define DL_OPT_REGEX(name_, letter_, target_, argument_, ...) \
    DL_OPT_ROW(REGEX, name_, letter_, target_, argument_, __VA_ARGS__)
#define DL_OPT_LIST(name_, letter_, target_, argument_, ...) \
    DL_OPT_ROW(LIST, name_, letter_, target_, argument_, __VA_ARGS__)
#define DL_OPT_INT(name_, letter_, target_, low_, high_, argument_, ...) \
    DL_OPT_ROW(INT, name_, letter_, target_, argument_, __VA_ARGS__, .low = low_, .high = high_)
#define DL_OPT_CHOICE(name_, letter_, target_, choices_, argument_, ...) \
    DL_OPT_ROW(CHOICE, name_, letter_, target_, argument_, __VA_ARGS__, .choices = choices_)
#define DL_OPT_ROW(type_, name_, letter_, target_, argument_, ...)                      \
    {                                                                                   \
        .name = name_, .letter = letter_, .type = DL_OPTION_##type_, .target = target_, \
        .argument = argument_, .help = __VA_ARGS__                                      \
    }

/* Target in a constant table: a field of a struct whose address is passed to dl_options_bind. */
#define DL_OPTION_FIELD(type, field) ((void *)offsetof(type, field))

/* Rows of such a table: long name, letter or 0, field, type-specific arguments, and last the help,
 * optionally followed by .group = "Heading". */
#define DL_OPTION_ROW(of, long_name, short_name, settings, field, shown, ...) \
    .name = (long_name), .letter = (short_name), .type = DL_OPTION_##of,      \
    .target = DL_OPTION_FIELD(settings, field), .argument = (shown), .help = __VA_ARGS__
#define DL_OPTION_ROW_FLAG(name, letter, settings, field, ...)                \
    {                                                                         \
        DL_OPTION_ROW(FLAG, name, letter, settings, field, NULL, __VA_ARGS__) \
    }
#define DL_OPTION_ROW_TEXT(name, letter, settings, field, shown, ...)          \
    {                                                                          \
        DL_OPTION_ROW(TEXT, name, letter, settings, field, shown, __VA_ARGS__) \
    }
#define DL_OPTION_ROW_LIST(name, letter, settings, field, shown, ...)          \
    {                                                                          \
        DL_OPTION_ROW(LIST, name, letter, settings, field, shown, __VA_ARGS__) \
    }
#define DL_OPTION_ROW_CHOICE(name, letter, settings, field, names, shown, ...)    \
    {                                                                             \
        DL_OPTION_ROW(CHOICE, name, letter, settings, field, shown, __VA_ARGS__), \
            .choices = (names)                                                    \
    }
#define DL_OPTION_ROW_KIND(name, letter, settings, field, names, shown, ...)                       \
    {                                                                                              \
        DL_OPTION_ROW(KIND, name, letter, settings, field, shown, __VA_ARGS__), .choices = (names) \
    }
/* `of` is INT, INT32, DOUBLE or BYTES; `least` and `most` are inclusive. */
#define DL_OPTION_ROW_NUMBER(of, name, letter, settings, field, least, most, shown, ...)      \
    {                                                                                         \
        DL_OPTION_ROW(of, name, letter, settings, field, shown, __VA_ARGS__), .low = (least), \
                                                                              .high = (most)  \
    }

/* Copies rows[count], whose targets are DL_OPTION_FIELDs of the type of *settings, to table[count],
 * whose targets are in *settings. */
void dl_options_bind(dl_option *table, const dl_option *rows, size_t count, void *settings);

/* Reads an argument into the option's target; a flag becomes true, whatever the text. Returns
 * DL_ERR_PARSE, DL_ERR_NAME or DL_ERR_RANGE, without the option's name. */
dl_status dl_option_read(const dl_option *option, const char *text, dl_error *err) DL_MUST_CHECK;

/* Returns the target's value in the form of a command line; NULL for flags, lists, and texts and
 * kinds that are not set. The caller frees it. */
char *dl_option_value(const dl_option *option);

/* For completion: prints the arguments of the option that start with `typed`, one per line. Returns
 * false if the option's arguments are unknown. */
typedef bool (*dl_complete_fn)(FILE *out, const char *option, const char *typed);

/* Sets *option to the equivalent of another program's option `given`, or leaves it unchanged if
 * that is unknown. Returns DL_ERR_USAGE, naming a replacement, if there is no equivalent. */
typedef dl_status (*dl_option_word_fn)(const char *given, const char **option, dl_error *err);

typedef struct dl_command {
    const char *program;    /* name in messages: "dlprof train" */
    const char *positional; /* "TRACE..." in the usage line; "" if none */
    const char *summary;    /* purpose of the command; first lines of --help */
    const dl_option *options;
    size_t option_count;
    size_t positional_min, positional_max;
    bool runs_program; /* the first positional argument ends the options and begins the command line
                        * of another program */
    const dl_manual *manual; /* for a program without sub-commands; else NULL */
    dl_option_word_fn word;  /* translates other programs' options; NULL: none */
    dl_complete_fn complete; /* NULL: completes only arguments with choices */
} dl_command;

typedef enum dl_options_action {
    DL_OPTIONS_RUN, /* continue */
    DL_OPTIONS_DONE /* --help, --version or another requested text was printed to stdout: exit with
                     * 0 */
} dl_options_action;

/* Parses argv[1..argc-1]. Stores each option's argument in its target immediately, so that after a
 * failure some targets hold new values; `action` and argv then stay unchanged. Appends positional
 * arguments to `positional` (borrowed from argv; may be NULL if positional_max is 0); the last
 * occurrence of a repeated option applies. Returns DL_ERR_USAGE for an unknown option (with the
 * nearest name), a missing or superfluous argument, an empty file name, a value that does not parse
 * or lies outside its range, an unknown choice. */
dl_status dl_options_parse(const dl_command *command, int argc, char **argv,
                           dl_text_list *positional, dl_options_action *action,
                           dl_error *err) DL_MUST_CHECK;

/* Runs a program or sub-command after parsing its command line; `user` points to its settings. */
typedef dl_status (*dl_command_fn)(const dl_text_list *positional, void *user, dl_error *err);

/* Returns DL_ERR_IO if the output to stdout was not completely written (a full disk). */
dl_status dl_stdout_check(dl_error *err) DL_MUST_CHECK;

/* Executes a command: parses the command line, calls `run` unless --help or --version was given,
 * and prints any error, including that of dl_stdout_check, to stderr after argv[0]. Holds the
 * command's outputs (common/output.h) until `run` calls dl_outputs_end or returns. Returns the exit
 * status. */
int dl_command_main(const dl_command *command, int argc, char **argv, dl_command_fn run,
                    void *user);

/* Like dl_command_main, but the caller reports the error. */
dl_status dl_command_run(const dl_command *command, int argc, char **argv, dl_command_fn run,
                         void *user, dl_error *err) DL_MUST_CHECK;

/* Returns the effective settings as a new string "name=value flag name=value ..." (flags only if
 * set, texts with spaces quoted); the caller frees it. */
char *dl_options_dump(const dl_command *command);
void dl_text_list_free(dl_text_list *list);

/* An entry of a program's list of sub-commands. */
typedef struct dl_subcommand {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is "program name"; returns the exit status */
} dl_subcommand;

/* main() of a program with sub-commands: dispatches on argv[1]; prints --help, --version, and for
 * an unknown name the nearest one (exit 2). Calls dl_stdout_check after a command that ends with 0.
 * `manual` is used for its manual page; NULL: none. */
int dl_subcommands_main(const char *program, const char *summary, const dl_subcommand *commands,
                        size_t count, const dl_manual *manual, int argc, char **argv);

/* Return the version of the programs, "0.1.0", and its date, "2026-11-22", from the project in
 * CMakeLists.txt. */
const char *dl_version(void);
const char *dl_release_date(void);

#endif
