#include "common/options_help.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

/* Of the text of --help: the column where descriptions start at the latest, and the line's end. */
enum { MOST_INDENT = 30, LINE_WIDTH = 79 };

const char *dl_version(void)
{
    return DL_VERSION;
}

void dl_print_version(const char *program)
{
    printf("%.*s %s\n", (int)strcspn(program, " "), program, dl_version());
}

/* A byte count as dl_parse_bytes reads it, with the largest unit that leaves it whole. */
static char *exact_bytes(uint64_t bytes)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"GiB", 1 << 30},   {"MiB", 1 << 20}, {"KiB", 1 << 10},
                 {"GB", 1000000000}, {"MB", 1000000},  {"kB", 1000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (bytes >= units[i].bytes && bytes % units[i].bytes == 0) {
            return dl_format("%" PRIu64 "%s", bytes / units[i].bytes, units[i].name);
        }
    }
    return dl_format("%" PRIu64, bytes);
}

/* One end of a range; as a byte count where it is one. */
static void format_limit(const dl_option *option, double limit, char *text, size_t bytes)
{
    if (option->type == DL_OPTION_BYTES && limit >= 0.0 && limit < 0x1p64) {
        char *exact = exact_bytes((uint64_t)limit);
        snprintf(text, bytes, "%s", exact);
        free(exact);
    } else if (option->type == DL_OPTION_INT && fabs(limit) < 0x1p63) {
        snprintf(text, bytes, "%" PRId64, (int64_t)limit);
    } else {
        snprintf(text, bytes, "%g", limit);
    }
}

const char *dl_option_range(const dl_option *option, char text[DL_OPTION_RANGE_BYTES])
{
    char low[DL_DOUBLE_TEXT_BYTES], high[DL_DOUBLE_TEXT_BYTES];
    /* Ends that the type cannot pass say nothing. */
    double most = option->type == DL_OPTION_DOUBLE  ? INFINITY
                  : option->type == DL_OPTION_BYTES ? 0x1p64
                                                    : (double)INT64_MAX;
    int has_low = option->type == DL_OPTION_BYTES ? option->low > 0.0 : option->low > -most;
    int has_high = option->high < most;
    format_limit(option, option->low, low, sizeof low);
    format_limit(option, option->high, high, sizeof high);
    if (has_high) {
        int open = !has_low && option->type != DL_OPTION_BYTES;
        if (open) snprintf(text, DL_OPTION_RANGE_BYTES, "at most %s", high);
        if (!open) snprintf(text, DL_OPTION_RANGE_BYTES, "%s..%s", low, high);
    } else if (has_low) {
        snprintf(text, DL_OPTION_RANGE_BYTES, "at least %s", low);
    } else {
        snprintf(text, DL_OPTION_RANGE_BYTES, "any");
    }
    return text;
}

char *dl_option_value(const dl_option *option)
{
    char number[DL_DOUBLE_TEXT_BYTES];
    switch (option->type) {
    case DL_OPTION_FLAG:
    case DL_OPTION_LIST: return NULL;
    case DL_OPTION_INT: return dl_format("%" PRId64, *(const int64_t *)option->target);
    case DL_OPTION_DOUBLE:
        return dl_strdup(dl_format_double(number, *(const double *)option->target));
    case DL_OPTION_BYTES: return exact_bytes(*(const uint64_t *)option->target);
    case DL_OPTION_TEXT:
    case DL_OPTION_REGEX: {
        const char *text = *(const char *const *)option->target;
        return text == NULL ? NULL : dl_strdup(text);
    }
    case DL_OPTION_CHOICE: return dl_strdup(option->choices[*(const int *)option->target]);
    }
    DL_ASSERT(0, "option --%s has type %d", option->name, (int)option->type);
    return NULL;
}

/* A stream into memory, for texts of unknown length. */
static FILE *open_text(char **text, size_t *bytes)
{
    FILE *out = open_memstream(text, bytes);
    DL_ASSERT(out != NULL, "%s", strerror(errno));
    return out;
}

/* Writes `text` from `column` on, broken between words and at its own newlines, with `indent`
 * blanks before each further line; ends the line. */
static void write_wrapped(FILE *out, const char *text, int column, int indent)
{
    int is_first = 1; /* word of its line */
    while (*text != '\0') {
        int bytes = (int)strcspn(text, " \n");
        if (!is_first && column + 1 + bytes > LINE_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            is_first = 1;
        }
        column += fprintf(out, "%s%.*s", is_first ? "" : " ", bytes, text);
        is_first = 0;
        text += bytes;
        if (*text == '\n') {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            is_first = 1;
        }
        if (*text != '\0') text++;
    }
    fputc('\n', out);
}

/* Writes a row: `left`, then `text` in a column of its own. */
static void write_row(FILE *out, const char *left, const char *text, int indent)
{
    int column = fprintf(out, "%s", left);
    if (column + 2 > indent) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", indent - column, "");
    write_wrapped(out, text, indent, indent);
}

/* "  -n, --steps=COUNT" */
static char *option_left(const dl_option *option)
{
    char letter[8] = "    ";
    if (option->letter != 0) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    if (option->type == DL_OPTION_FLAG) return dl_format("  %s--%s", letter, option->name);
    return dl_format("  %s--%s=%s", letter, option->name, option->argument);
}

/* "Steps to run (1..1000; default 100)" */
static char *option_right(const dl_option *option)
{
    char *text = NULL;
    size_t bytes = 0, help_bytes = strlen(option->help);
    FILE *notes = open_text(&text, &bytes);
    char range[DL_OPTION_RANGE_BYTES] = "any";
    if (option->type == DL_OPTION_CHOICE) {
        for (size_t i = 0; option->choices[i] != NULL; i++) {
            fprintf(notes, "%s%s", i == 0 ? "; one of " : ", ", option->choices[i]);
        }
    } else if (option->type == DL_OPTION_LIST) {
        fputs("; may be given several times", notes);
    } else if (option->type != DL_OPTION_FLAG && option->type != DL_OPTION_TEXT &&
               option->type != DL_OPTION_REGEX) {
        dl_option_range(option, range);
    }
    if (strcmp(range, "any") != 0) fprintf(notes, "; %s", range);
    char *value = dl_option_value(option);
    if (value != NULL && value[0] != '\0') fprintf(notes, "; default %s", value);
    free(value);
    fclose(notes);
    /* The sentence's dot would stand before the notes. */
    if (bytes > 0 && help_bytes > 0 && option->help[help_bytes - 1] == '.') help_bytes--;
    char *right = bytes > 0 ? dl_format("%.*s (%s)", (int)help_bytes, option->help, text + 2)
                            : dl_strdup(option->help);
    free(text);
    return right;
}

char *dl_options_help(const dl_command *command)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_text(&text, &bytes);
    fprintf(out, "Usage: %s [OPTION...]%s%s\n", command->program,
            command->positional[0] != '\0' ? " " : "", command->positional);
    write_wrapped(out, command->summary, 0, 0);
    fputs("\nOptions:\n", out);
    int indent = (int)strlen("      --version") + 2;
    for (size_t i = 0; i < command->option_count; i++) {
        char *left = option_left(&command->options[i]);
        int width = (int)strlen(left) + 2;
        if (width > indent && width <= MOST_INDENT) indent = width;
        free(left);
    }
    for (size_t i = 0; i < command->option_count; i++) {
        char *left = option_left(&command->options[i]);
        char *right = option_right(&command->options[i]);
        write_row(out, left, right, indent);
        free(right);
        free(left);
    }
    write_row(out, "  -h, --help", "Show this help and exit.", indent);
    write_row(out, "      --version", "Show the version and exit.", indent);
    fclose(out);
    return text;
}

static void write_subcommands(FILE *out, const char *program, const char *summary,
                              const dl_subcommand *commands, size_t count)
{
    fprintf(out, "Usage: %s COMMAND [OPTION...]\n", program);
    write_wrapped(out, summary, 0, 0);
    fputs("\nCommands:\n", out);
    int indent = 0;
    for (size_t i = 0; i < count; i++) {
        int width = (int)strlen(commands[i].name) + 4;
        if (width > indent && width <= MOST_INDENT) indent = width;
    }
    for (size_t i = 0; i < count; i++) {
        char *left = dl_format("  %s", commands[i].name);
        write_row(out, left, commands[i].summary, indent);
        free(left);
    }
    fprintf(out, "\n'%s COMMAND --help' explains a command; '%s --version' shows the version.\n",
            program, program);
}

/* Runs a command with argv[0] "program name", so that its messages name it so. */
static int run_subcommand(const char *program, const dl_subcommand *command, int argc, char **argv)
{
    char **shifted = dl_calloc((size_t)argc, sizeof *shifted, "arguments"); /* NULL at the end */
    char *name = dl_format("%s %s", program, command->name);
    memcpy(shifted, argv + 1, (size_t)(argc - 1) * sizeof *shifted);
    shifted[0] = name;
    int exit_status = command->run(argc - 1, shifted);
    free(name);
    free(shifted);
    return exit_status;
}

static int dispatch(const char *program, const char *summary, const dl_subcommand *commands,
                    size_t count, int argc, char **argv)
{
    if (argc < 2) {
        write_subcommands(stderr, program, summary, commands, count);
        return dl_status_exit_code(DL_ERR_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        write_subcommands(stdout, program, summary, commands, count);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        dl_print_version(program);
        return 0;
    }
    const char **names = dl_calloc(count, sizeof *names, "command names");
    for (size_t i = 0; i < count; i++)
        names[i] = commands[i].name;
    int index = dl_names_find(argv[1], names, count);
    char hint[256];
    dl_names_hint(hint, sizeof hint, argv[1], names, count);
    free(names);
    if (index >= 0) return run_subcommand(program, &commands[index], argc, argv);
    fprintf(stderr, "%s: unknown command '%s'%s\n", program, argv[1], hint);
    return dl_status_exit_code(DL_ERR_USAGE);
}

int dl_subcommands_main(const char *program, const char *summary, const dl_subcommand *commands,
                        size_t count, int argc, char **argv)
{
    const int exit_status = dispatch(program, summary, commands, count, argc, argv);
    if (exit_status != 0) return exit_status;
    dl_error err = {0};
    const dl_status status = dl_stdout_check(&err);
    if (status != DL_OK) dl_error_print(&err, program, stderr);
    return dl_status_exit_code(status);
}
