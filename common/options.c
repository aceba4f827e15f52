#include "common/options.h"

#include <argp.h>
#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/options_help.h"
#include "common/output.h"
#include "common/units.h"

/* argp's keys: option i is FIRST_KEY + i, behind all letters. */
enum { HELP_KEY = 'h', VERSION_KEY = 0x100, FIRST_KEY };

/* The state of one command line. */
typedef struct option_parse {
    const dl_command *command;
    dl_text_list *positional;
    size_t positional_count; /* given on this command line */
    int next;                /* argp's place after what was accepted last */
    int fault_next;          /* and when it refused something */
    dl_options_action action;
    int stop_key; /* HELP_KEY or VERSION_KEY when asked for */
    dl_status status;
    dl_error *err;
} option_parse;

static void append_text(dl_text_list *list, const char *text)
{
    list->items = dl_realloc(list->items, list->count + 1, sizeof *list->items, "text list");
    list->items[list->count++] = text;
}

void dl_text_list_free(dl_text_list *list)
{
    free(list->items);
    *list = (dl_text_list){0};
}

void dl_options_bind(dl_option *table, const dl_option *rows, size_t count, void *settings)
{
    for (size_t i = 0; i < count; i++) {
        table[i] = rows[i];
        table[i].target = (char *)settings + (uintptr_t)rows[i].target;
    }
}

/* The range is given in double: its ends may lie beyond the integers. */
static int64_t clamp_int(double value)
{
    if (value >= 0x1p63) return INT64_MAX;
    return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

static dl_status set_bytes(const dl_option *option, const char *text, dl_error *err)
{
    uint64_t bytes;
    dl_status status = dl_parse_bytes(text, &bytes, err);
    if (status != DL_OK) return status;
    if ((double)bytes < option->low || (double)bytes > option->high) {
        return dl_error_set(err, DL_ERR_RANGE, "out of range");
    }
    *(uint64_t *)option->target = bytes;
    return DL_OK;
}

static dl_status set_choice(const dl_option *option, const char *text, dl_error *err)
{
    size_t count = 0;
    while (option->choices[count] != NULL)
        count++;
    int index = dl_names_find(text, option->choices, count);
    if (index < 0) {
        char hint[256];
        dl_names_hint(hint, sizeof hint, text, option->choices, count);
        return dl_error_set(err, DL_ERR_NAME, "'%s' is unknown%s", text, hint);
    }
    *(int *)option->target = index;
    return DL_OK;
}

static dl_status set_regex(const dl_option *option, const char *text, dl_error *err)
{
    regex_t compiled;
    const int failure = regcomp(&compiled, text, REG_EXTENDED | REG_NOSUB);
    if (failure != 0) {
        char why[200];
        regerror(failure, &compiled, why, sizeof why);
        return dl_error_set(err, DL_ERR_PARSE, "'%s': %s", text, why);
    }
    regfree(&compiled);
    *(const char **)option->target = text;
    return DL_OK;
}

/* Reads the option's argument into its target. */
static dl_status set_target(const dl_option *option, const char *text, dl_error *err)
{
    switch (option->type) {
    case DL_OPTION_FLAG: *(bool *)option->target = true; return DL_OK;
    case DL_OPTION_INT:
        return dl_parse_int(text, clamp_int(option->low), clamp_int(option->high), option->target,
                            err);
    case DL_OPTION_DOUBLE:
        return dl_parse_double(text, option->low, option->high, option->target, err);
    case DL_OPTION_BYTES: return set_bytes(option, text, err);
    case DL_OPTION_TEXT: *(const char **)option->target = text; return DL_OK;
    case DL_OPTION_REGEX: return set_regex(option, text, err);
    case DL_OPTION_CHOICE: return set_choice(option, text, err);
    case DL_OPTION_LIST: append_text(option->target, text); return DL_OK;
    }
    DL_ASSERT(0, "option --%s has type %d", option->name, (int)option->type);
    return DL_ERR_USAGE;
}

static const dl_option *find_by_key(const dl_command *command, int key)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const dl_option *option = &command->options[i];
        if (key == FIRST_KEY + (int)i || (option->letter != 0 && key == option->letter)) {
            return option;
        }
    }
    return NULL;
}

static error_t take_option(option_parse *parse, const dl_option *option, const char *text)
{
    dl_error why = {0};
    dl_status status = set_target(option, text, &why);
    if (status == DL_OK) return 0;
    if (status == DL_ERR_RANGE) { /* in the words of --help */
        char range[DL_OPTION_RANGE_BYTES];
        dl_error_set(&why, status, "'%s' is out of range (%s)", text,
                     dl_option_range(option, range));
    }
    parse->status = dl_error_set(parse->err, DL_ERR_USAGE, "--%s: %s", option->name, why.text);
    return EINVAL;
}

static error_t take_positional(option_parse *parse, const char *text)
{
    if (parse->positional_count == parse->command->positional_max) {
        parse->status = dl_error_set(parse->err, DL_ERR_USAGE, "superfluous argument '%s'", text);
        return EINVAL;
    }
    parse->positional_count++;
    append_text(parse->positional, text);
    return 0;
}

/* argp's parser function. */
static error_t parse_key(int key, char *text, struct argp_state *state)
{
    option_parse *parse = state->input;
    error_t result = 0;
    if (key == ARGP_KEY_ERROR) {
        parse->fault_next = state->next;
        return 0;
    }
    if (key == HELP_KEY || key == VERSION_KEY) {
        parse->action = DL_OPTIONS_DONE;
        parse->stop_key = key;
        return ECANCELED; /* what follows does not matter */
    }
    const dl_option *option = find_by_key(parse->command, key);
    if (option != NULL) {
        result = take_option(parse, option, text);
    } else if (key == ARGP_KEY_ARG) {
        result = take_positional(parse, text);
    } else {
        return ARGP_ERR_UNKNOWN;
    }
    parse->next = state->next;
    return result;
}

/* argp's table from ours. One row a long name; a letter gets its own row, as an alias. */
static struct argp_option *make_argp_options(const dl_command *command)
{
    struct argp_option *rows =
        dl_calloc(2 * command->option_count + 3, sizeof *rows, "argp options");
    size_t count = 0;
    for (size_t i = 0; i < command->option_count; i++) {
        const dl_option *option = &command->options[i];
        DL_ASSERT((option->type != DL_OPTION_INT && option->type != DL_OPTION_DOUBLE &&
                   option->type != DL_OPTION_BYTES) ||
                      option->low < option->high,
                  "option --%s has the range %g..%g", option->name, option->low, option->high);
        rows[count++] = (struct argp_option){
            .name = option->name, .key = FIRST_KEY + (int)i, .arg = option->argument};
        if (option->type == DL_OPTION_FLAG) rows[count - 1].arg = NULL;
        if (option->letter == 0) continue;
        DL_ASSERT(option->letter != HELP_KEY, "option --%s takes -h", option->name);
        rows[count++] = (struct argp_option){.key = option->letter, .flags = OPTION_ALIAS};
    }
    rows[count++] = (struct argp_option){.name = "help", .key = HELP_KEY};
    rows[count++] = (struct argp_option){.name = "version", .key = VERSION_KEY};
    return rows;
}

/* All long names, with "help" and "version" at the end; free() the array. */
static const char **long_names(const dl_command *command, size_t *count)
{
    const char **names = dl_calloc(command->option_count + 2, sizeof *names, "option names");
    for (size_t i = 0; i < command->option_count; i++)
        names[i] = command->options[i].name;
    names[command->option_count] = "help";
    names[command->option_count + 1] = "version";
    *count = command->option_count + 2;
    return names;
}

/* What is wrong with --name or --name=value, which argp refused. names[count] as long_names. */
static dl_status diagnose_long(const dl_command *command, const char *const *names, size_t count,
                               const char *name, dl_error *err)
{
    char *given = dl_strndup(name, strcspn(name, "="));
    char matches[256] = "";
    size_t match_count = 0, match = 0;
    int exact = dl_names_find(given, names, count);
    for (size_t i = 0; i < count; i++) {
        if (exact >= 0 ? i != (size_t)exact : strncmp(names[i], given, strlen(given)) != 0)
            continue;
        size_t used = strlen(matches);
        snprintf(matches + used, sizeof matches - used, "%s--%s", used > 0 ? ", " : "", names[i]);
        match_count++;
        match = i;
    }
    int nearest = dl_names_nearest(given, names, count);
    if (match_count > 1) {
        dl_error_set(err, DL_ERR_USAGE, "option '--%s' is ambiguous: %s", given, matches);
    } else if (match_count == 1 && name[strlen(given)] == '=') {
        dl_error_set(err, DL_ERR_USAGE, "option '--%s' takes no argument", names[match]);
    } else if (match_count == 1) {
        dl_error_set(err, DL_ERR_USAGE, "option '--%s' needs an argument: %s", names[match],
                     command->options[match].argument);
    } else if (nearest >= 0) {
        dl_error_set(err, DL_ERR_USAGE, "unknown option '--%s'; did you mean '--%s'?", given,
                     names[nearest]);
    } else {
        dl_error_set(err, DL_ERR_USAGE, "unknown option '--%s'; --help lists all", given);
    }
    free(given);
    return DL_ERR_USAGE;
}

/* What is wrong with the letters behind '-', which argp refused. */
static dl_status diagnose_short(const dl_command *command, const char *letters, dl_error *err)
{
    for (const char *c = letters; *c != '\0'; c++) {
        if (find_by_key(command, (unsigned char)*c) == NULL) {
            return dl_error_set(err, DL_ERR_USAGE, "unknown option '-%c'; --help lists all", *c);
        }
    }
    /* All are known, so the last one is where an argument was missing. */
    return dl_error_set(err, DL_ERR_USAGE, "option '-%s' needs an argument", letters);
}

/* The error for an argument that argp refused; it tells no more than its place `next`: still on the
 * argument where the fault lies inside a group of letters, else behind it. */
static dl_status diagnose(const option_parse *parse, int argc, char **argv, int next)
{
    int index = next == parse->next ? next : next - 1;
    DL_ASSERT(index >= 1 && index < argc, "argument %d of %d", index, argc);
    const char *text = argv[index];
    if (strncmp(text, "--", 2) != 0) return diagnose_short(parse->command, text + 1, parse->err);
    size_t count;
    const char **names = long_names(parse->command, &count);
    dl_status status = diagnose_long(parse->command, names, count, text + 2, parse->err);
    free(names);
    return status;
}

dl_status dl_options_parse(const dl_command *command, int argc, char **argv,
                           dl_text_list *positional, dl_options_action *action, dl_error *err)
{
    option_parse parse = {.command = command, .positional = positional, .next = 1, .err = err};
    /* made before any target changes: it shows the defaults */
    char *help = dl_options_help(command);
    struct argp_option *rows = make_argp_options(command);
    struct argp argp = {.options = rows, .parser = parse_key};
    error_t failed = argp_parse(&argp, argc, argv, ARGP_SILENT | ARGP_IN_ORDER, NULL, &parse);
    free(rows);
    dl_status status = parse.status;
    if (parse.action == DL_OPTIONS_DONE) {
        if (parse.stop_key == HELP_KEY) fputs(help, stdout);
        if (parse.stop_key == VERSION_KEY) dl_print_version(command->program);
    } else if (failed != 0 && status == DL_OK) {
        status = diagnose(&parse, argc, argv, parse.fault_next);
    } else if (failed == 0 && parse.positional_count < command->positional_min) {
        status = dl_error_set(err, DL_ERR_USAGE, "missing argument %s (%zu given, %zu needed)",
                              command->positional, parse.positional_count, command->positional_min);
    }
    free(help);
    if (status == DL_OK) *action = parse.action;
    return status;
}

/* Writes one " name=value" of the dump. */
static void dump_value(FILE *out, const char *name, const char *value)
{
    fprintf(out, " %s=", name);
    if (value[0] != '\0' && strpbrk(value, " \t\n\"\\") == NULL) {
        fputs(value, out);
        return;
    }
    fputc('"', out);
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') fputc('\\', out);
        fputc(*c, out);
    }
    fputc('"', out);
}

dl_status dl_stdout_check(dl_error *err)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) return DL_OK;
    return dl_error_set(err, DL_ERR_IO, "standard output: cannot write all of it");
}

int dl_command_main(const dl_command *command, int argc, char **argv, dl_command_fn run, void *user)
{
    dl_text_list positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    dl_status status = dl_options_parse(command, argc, argv, &positional, &action, &err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        dl_outputs_hold();
        status = run(&positional, user, &err);
        status = dl_outputs_end(status, &err);
    }
    if (status == DL_OK) status = dl_stdout_check(&err);
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    dl_text_list_free(&positional);
    return dl_status_exit_code(status);
}

char *dl_options_dump(const dl_command *command)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    DL_ASSERT(out != NULL, "%s", strerror(errno));
    for (size_t i = 0; i < command->option_count; i++) {
        const dl_option *option = &command->options[i];
        if (option->type == DL_OPTION_FLAG) {
            if (*(const bool *)option->target) fprintf(out, " %s", option->name);
        } else if (option->type == DL_OPTION_LIST) {
            const dl_text_list *list = option->target;
            for (size_t j = 0; j < list->count; j++)
                dump_value(out, option->name, list->items[j]);
        } else {
            char *value = dl_option_value(option);
            if (value != NULL) dump_value(out, option->name, value);
            free(value);
        }
    }
    fclose(out);
    if (bytes > 0) memmove(text, text + 1, bytes); /* the first blank */
    return text;
}
