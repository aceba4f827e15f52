#include "common/options_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/output.h"
#include "common/units.h"
#include "common/wrap.h"

/* Maximum length of option_range's text, including its NUL. */
enum { RANGE_BYTES = 80 };

/* Limits of at least this size only catch slips, and are not shown in --help. */
#define SLIP_LIMIT 1e6
#define SLIP_LIMIT_BYTES 1e15

static void add_text(dl_text_list *list, const char *text)
{
    DL_APPEND(list->items, list->count, "text list") = text;
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

/* In --help: the rightmost start column of descriptions, and the line width. */
enum { MOST_INDENT = 30, LINE_WIDTH = 79 };

const char *dl_version(void)
{
    return DL_VERSION;
}

const char *dl_release_date(void)
{
    return DL_RELEASE_DATE;
}

static void print_version(const char *program)
{
    printf("%.*s %s\n", (int)strcspn(program, " "), program, dl_version());
}

/* Returns a byte count in the form of dl_parse_bytes, with the largest unit that keeps it whole. */
static char *exact_bytes(uint64_t bytes)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"GiB", 1 << 30}, {"GB", 1000000000}, {"MiB", 1 << 20},
                 {"MB", 1000000},  {"KiB", 1 << 10},   {"kB", 1000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (bytes >= units[i].bytes && bytes % units[i].bytes == 0) {
            return dl_format("%" PRIu64 "%s", bytes / units[i].bytes, units[i].name);
        }
    }
    return dl_format("%" PRIu64, bytes);
}

static bool is_whole(const dl_option *option)
{
    return option->type == DL_OPTION_INT || option->type == DL_OPTION_INT32;
}

/* Formats one end of a range; as a byte count for byte options. */
static void format_limit(const dl_option *option, double limit, char *text, size_t bytes)
{
    if (option->type == DL_OPTION_BYTES && limit >= 0.0 && limit < 0x1p64) {
        DL_AUTOFREE char *exact = exact_bytes((uint64_t)limit);
        snprintf(text, bytes, "%s", exact);
    } else if (is_whole(option) && fabs(limit) < 0x1p63) {
        snprintf(text, bytes, "%" PRId64, (int64_t)limit);
    } else {
        snprintf(text, bytes, "%g", limit);
    }
}

/* Formats the range: "1..1000", "at least 0"; "any" without limits. Returns text. */
static const char *option_range(const dl_option *option, char text[RANGE_BYTES])
{
    char low[DL_DOUBLE_TEXT_BYTES], high[DL_DOUBLE_TEXT_BYTES];
    /* Ends beyond the range of the type are not shown. */
    double most = option->type == DL_OPTION_DOUBLE  ? INFINITY
                  : option->type == DL_OPTION_BYTES ? 0x1p64
                                                    : (double)INT64_MAX;
    int has_low = option->type == DL_OPTION_BYTES ? option->low > 0.0 : option->low > -most;
    int has_high = option->high < most;
    format_limit(option, option->low, low, sizeof low);
    format_limit(option, option->high, high, sizeof high);
    if (has_high) {
        int open = !has_low && option->type != DL_OPTION_BYTES;
        if (open) snprintf(text, RANGE_BYTES, "at most %s", high);
        if (!open) snprintf(text, RANGE_BYTES, "%s..%s", low, high);
    } else if (has_low) {
        snprintf(text, RANGE_BYTES, "at least %s", low);
    } else {
        snprintf(text, RANGE_BYTES, "any");
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
    case DL_OPTION_INT32: return dl_format("%d", *(const int *)option->target);
    case DL_OPTION_DOUBLE:
        return dl_strdup(dl_format_double(number, *(const double *)option->target));
    case DL_OPTION_BYTES: return exact_bytes(*(const uint64_t *)option->target);
    case DL_OPTION_TEXT:
    case DL_OPTION_REGEX: {
        const char *text = *(const char *const *)option->target;
        return text == NULL ? NULL : dl_strdup(text);
    }
    case DL_OPTION_CHOICE: return dl_strdup(option->choices[*(const int *)option->target]);
    case DL_OPTION_KIND: {
        const int kind = *(const int *)option->target;
        return kind == 0 ? NULL : dl_strdup(option->choices[kind - 1]);
    }
    }
    DL_ASSERT(0, "option --%s has type %d", option->name, (int)option->type);
    return NULL;
}

/* Writes a row: `left`, then `text` in a second column. */
static void write_row(FILE *out, const char *left, const char *text, int indent)
{
    int column = fprintf(out, "%s", left);
    if (column + 2 > indent) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", indent - column, "");
    dl_wrap(out, text, indent, indent, LINE_WIDTH);
}

/* Returns "  -n, --steps=COUNT". */
static char *option_left(const dl_option *option)
{
    char letter[8] = "    ";
    if (option->letter != 0) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    if (option->type == DL_OPTION_FLAG) return dl_format("  %s--%s", letter, option->name);
    if (option->type == DL_OPTION_KIND)
        return dl_format("  %s--%s[=%s]", letter, option->name, option->argument);
    return dl_format("  %s--%s=%s", letter, option->name, option->argument);
}

static bool has_range(const dl_option *option)
{
    return is_whole(option) || option->type == DL_OPTION_DOUBLE || option->type == DL_OPTION_BYTES;
}

/* Writes the argument's valid values: "; 1..1000", "; one of a, b". */
static void write_domain(FILE *out, const dl_option *option)
{
    char text[RANGE_BYTES];
    dl_option shown = *option;
    switch (option->type) {
    case DL_OPTION_KIND:
    case DL_OPTION_CHOICE:
        for (size_t i = 0; option->choices[i] != NULL; i++)
            fprintf(out, "%s%s", i == 0 ? "; one of " : ", ", option->choices[i]);
        return;
    case DL_OPTION_LIST: fputs("; may be given several times", out); return;
    case DL_OPTION_INT:
    case DL_OPTION_INT32:
    case DL_OPTION_DOUBLE:
    case DL_OPTION_BYTES:
        if (option->high >= (option->type == DL_OPTION_BYTES ? SLIP_LIMIT_BYTES : SLIP_LIMIT)) {
            if (option->low <= 1) return;
            shown.high = INFINITY;
        }
        fprintf(out, "; %s", option_range(&shown, text));
        return;
    default: return;
    }
}

char *dl_option_description(const dl_option *option)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0, help_bytes = strlen(option->help);
    FILE *notes = dl_text_stream(&text, &bytes);
    const bool says_default = strstr(option->help, "default:") != NULL;
    if (!says_default || !has_range(option)) write_domain(notes, option);
    DL_AUTOFREE char *value = dl_option_value(option);
    if (value != NULL && value[0] != '\0' && !says_default) fprintf(notes, "; default %s", value);
    fclose(notes);
    /* Remove the sentence's period, since notes follow. */
    if (bytes > 0 && help_bytes > 0 && option->help[help_bytes - 1] == '.') help_bytes--;
    return bytes > 0 ? dl_format("%.*s (%s)", (int)help_bytes, option->help, text + 2)
                     : dl_strdup(option->help);
}

/* Compares groups; NULL is the group of the options before the first heading. */
static bool same_group(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

dl_listed_option *dl_options_listed(const dl_command *command)
{
    const size_t count = command->option_count;
    DL_AUTOFREE const char **groups = dl_calloc(count, sizeof *groups, "groups of options");
    dl_listed_option *listed = dl_calloc(count, sizeof *listed, "options");
    for (size_t i = 0; i < count; i++) {
        groups[i] = command->options[i].group;
        if (groups[i] == NULL && i > 0) groups[i] = groups[i - 1];
    }
    size_t used = 0;
    for (size_t first = 0; first < count; first++) {
        const char *group = groups[first];
        bool is_first = true;
        for (size_t i = 0; i < first && is_first; i++)
            is_first = !same_group(groups[i], group);
        if (!is_first) continue;
        for (size_t i = first; i < count; i++) {
            if (!same_group(groups[i], group)) continue;
            listed[used++] = (dl_listed_option){&command->options[i], i == first ? group : NULL};
        }
    }
    return listed;
}

/* Returns the start column of descriptions: after all left texts that end before MOST_INDENT. */
static int description_indent(const dl_command *command)
{
    int indent = (int)strlen("      --version") + 2;
    for (size_t i = 0; i < command->option_count; i++) {
        DL_AUTOFREE char *left = option_left(&command->options[i]);
        int width = (int)strlen(left) + 2;
        if (width > indent && width <= MOST_INDENT) indent = width;
    }
    return indent;
}

/* Returns the text of --help; the caller frees it. */
static char *options_help(const dl_command *command)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&text, &bytes);
    fprintf(out, "Usage: %s [OPTION...]%s%s\n", command->program,
            command->positional[0] != '\0' ? " " : "", command->positional);
    dl_wrap(out, command->summary, 0, 0, LINE_WIDTH);
    const int indent = description_indent(command);
    DL_AUTOFREE dl_listed_option *listed = dl_options_listed(command);
    bool grouped = false;
    for (size_t i = 0; i < command->option_count; i++) {
        const char *heading = listed[i].heading;
        if (heading != NULL || i == 0)
            fprintf(out, "\n%s:\n", heading != NULL ? heading : "Options");
        grouped |= heading != NULL;
        DL_AUTOFREE char *left = option_left(listed[i].option);
        DL_AUTOFREE char *right = dl_option_description(listed[i].option);
        write_row(out, left, right, indent);
    }
    if (grouped || command->option_count == 0)
        fprintf(out, "\n%s:\n", grouped ? "Help" : "Options");
    write_row(out, "  -h, --help", "Show this help and exit.", indent);
    write_row(out, "      --version", "Show the version and exit.", indent);
    fclose(out);
    return text;
}

/* Limits a double to the range of int64_t; ends of ranges are given in double. */
static int64_t clamp_int(double value)
{
    if (value >= 0x1p63) return INT64_MAX;
    return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

static dl_status set_int32(const dl_option *option, const char *text, dl_error *err)
{
    int64_t number = 0;
    const dl_status status =
        dl_parse_int(text, clamp_int(option->low), clamp_int(option->high), &number, err);
    if (status == DL_OK) *(int *)option->target = (int)number;
    return status;
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

static int find_choice(const dl_option *option, const char *text, size_t *count)
{
    *count = 0;
    while (option->choices[*count] != NULL)
        ++*count;
    return dl_names_find(text, option->choices, *count);
}

static dl_status set_choice(const dl_option *option, const char *text, dl_error *err)
{
    size_t count;
    int index = find_choice(option, text, &count);
    if (index < 0) {
        char hint[256];
        dl_names_hint(hint, sizeof hint, text, option->choices, count);
        return dl_error_set(err, DL_ERR_NAME, "'%s' is unknown%s", text, hint);
    }
    *(int *)option->target = index + (option->type == DL_OPTION_KIND);
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
    case DL_OPTION_INT32: return set_int32(option, text, err);
    case DL_OPTION_DOUBLE: {
        double count = 0;
        if (strcmp(option->argument, "COUNT") != 0 || dl_parse_count(text, &count, NULL) != DL_OK ||
            count < option->low || count > option->high)
            return dl_parse_double(text, option->low, option->high, option->target, err);
        *(double *)option->target = count;
        return DL_OK;
    }
    case DL_OPTION_BYTES: return set_bytes(option, text, err);
    case DL_OPTION_TEXT: *(const char **)option->target = text; return DL_OK;
    case DL_OPTION_REGEX: return set_regex(option, text, err);
    case DL_OPTION_KIND:
        if (text == NULL) text = option->choices[0];
        return set_choice(option, text, err);
    case DL_OPTION_CHOICE: return set_choice(option, text, err);
    case DL_OPTION_LIST: add_text(option->target, text); return DL_OK;
    }
    DL_ASSERT(0, "option --%s has type %d", option->name, (int)option->type);
    return DL_ERR_USAGE;
}

/* State of the parser. */
typedef struct option_parse {
    const dl_command *command;
    char **arguments; /* [count] */
    int count, next;  /* next: index of the next argument */
    dl_text_list *positional;
    size_t positional_count; /* number on this command line */
    bool help, version;      /* requested; the rest is ignored */
    dl_error *err;
} option_parse;

static dl_status take_positional(option_parse *parse, const char *text)
{
    if (parse->positional_count == parse->command->positional_max) {
        return dl_error_set(
            parse->err, DL_ERR_USAGE, "superfluous argument '%s'%s", text,
            isdigit((unsigned char)text[0]) ? "; a list has commas and no spaces, as 1,2,4" : "");
    }
    parse->positional_count++;
    add_text(parse->positional, text);
    return DL_OK;
}

dl_status dl_option_read(const dl_option *option, const char *text, dl_error *err)
{
    const dl_status status = set_target(option, text, err);
    if (status == DL_ERR_PARSE && option->type == DL_OPTION_DOUBLE) {
        return dl_error_set(err, status, "'%s' is not a number: %s, without a unit, as in %g", text,
                            option->argument, option->high < 1.5 ? 0.5 : 1.5);
    }
    if (status != DL_ERR_RANGE) return status;
    char range[RANGE_BYTES]; /* in the form of --help */
    return dl_error_set(err, status, "'%s' is out of range (%s)", text,
                        option_range(option, range));
}

/* Returns whether the option's argument is the name of one or more files, or of a folder. */
static bool names_file(const dl_option *option)
{
    static const char *const names[] = {"FILE", "FILES", "FOLDER", "TRACE"};
    return dl_names_find(option->argument, names, DL_LENGTH(names)) >= 0;
}

static dl_status take_option(option_parse *parse, const dl_option *option, const char *text)
{
    dl_error why = {0};
    if (option->type == DL_OPTION_TEXT && text[0] == '\0' && names_file(option)) {
        return dl_error_set(parse->err, DL_ERR_USAGE, "--%s: the name of the file is empty",
                            option->name);
    }
    if (dl_option_read(option, text, &why) == DL_OK) return DL_OK;
    return dl_error_set(parse->err, DL_ERR_USAGE, "--%s: %s", option->name, why.text);
}

/* Returns all long names, "help" and "version" last; the caller frees the array. */
static const char **long_names(const dl_command *command, size_t *count)
{
    *count = command->option_count + 2;
    const char **names = dl_calloc(*count, sizeof *names, "option names");
    for (size_t i = 0; i < command->option_count; i++)
        names[i] = command->options[i].name;
    names[*count - 2] = "help";
    names[*count - 1] = "version";
    return names;
}

/* Finds the index of the name that equals `given`, is the equivalent of another program's option
 * `given`, or is the only one that starts with `given`. */
static dl_status find_long(const dl_command *command, const char *const *names, size_t count,
                           const char *given, size_t *found, dl_error *err)
{
    char matches[256] = "";
    size_t match_count = 0;
    int exact = dl_names_find(given, names, count);
    if (exact < 0 && command->word != NULL) {
        dl_status status = command->word(given, &given, err);
        if (status != DL_OK) return status;
        exact = dl_names_find(given, names, count);
    }
    for (size_t i = 0; i < count && exact < 0; i++) {
        if (strncmp(names[i], given, strlen(given)) != 0) continue;
        const size_t used = strlen(matches);
        snprintf(matches + used, sizeof matches - used, "%s--%s", used > 0 ? ", " : "", names[i]);
        match_count++;
        *found = i;
    }
    if (exact >= 0) *found = (size_t)exact;
    if (exact >= 0 || match_count == 1) return DL_OK;
    if (match_count > 1) {
        return dl_error_set(err, DL_ERR_USAGE, "option '--%s' is ambiguous: %s", given, matches);
    }
    const int nearest = dl_names_nearest(given, names, count);
    if (nearest < 0) {
        return dl_error_set(err, DL_ERR_USAGE, "unknown option '--%s'; --help lists all", given);
    }
    return dl_error_set(err, DL_ERR_USAGE, "unknown option '--%s'; did you mean '--%s'?", given,
                        names[nearest]);
}

/* Returns the argument of an option, NULL for a flag. An option of type KIND takes the next text
 * only if it is one of its choices. */
static const char *take_argument(option_parse *parse, const dl_option *option)
{
    size_t count;
    const bool is_there = parse->next < parse->count;
    if (option->type == DL_OPTION_FLAG ||
        (option->type == DL_OPTION_KIND &&
         !(is_there && find_choice(option, parse->arguments[parse->next], &count) >= 0)))
        return NULL;
    return parse->arguments[parse->next++];
}

static bool needs_argument(const dl_option *option)
{
    return option->type != DL_OPTION_FLAG && option->type != DL_OPTION_KIND;
}

/* Whether a text is next that can be the argument of an option: any but "--name", as in
 * "--html --workload", where the argument was forgotten. */
static bool has_argument(const option_parse *parse)
{
    if (parse->next == parse->count) return false;
    const char *next = parse->arguments[parse->next];
    return strncmp(next, "--", 2) != 0 || next[2] == '\0';
}

/* Parses "name" or "name=value", without its dashes. */
static dl_status take_long(option_parse *parse, const char *text)
{
    const dl_command *command = parse->command;
    const char *value = strchr(text, '=');
    size_t count, found = 0;
    DL_AUTOFREE const char **names = long_names(command, &count);
    DL_AUTOFREE char *given = dl_strndup(text, strcspn(text, "="));
    dl_status status = find_long(parse->command, names, count, given, &found, parse->err);
    const dl_option *option = found < command->option_count ? &command->options[found] : NULL;
    const bool flag = option == NULL || option->type == DL_OPTION_FLAG;
    if (status == DL_OK && flag && value != NULL) {
        status =
            dl_error_set(parse->err, DL_ERR_USAGE, "option '--%s' takes no argument", names[found]);
    }
    if (status == DL_OK && value == NULL && !has_argument(parse) && option != NULL &&
        needs_argument(option)) {
        const bool same = strncmp(names[found], given, strlen(given)) == 0;
        status = dl_error_set(parse->err, DL_ERR_USAGE, "option '--%s'%s%s needs an argument: %s",
                              same ? names[found] : given, same ? "" : ", here --",
                              same ? "" : names[found], option->argument);
    }
    if (status == DL_OK && option == NULL) {
        parse->help = found + 2 == count;
        parse->version = found + 1 == count;
    } else if (status == DL_OK) {
        value = value != NULL ? value + 1 : take_argument(parse, option);
        status = take_option(parse, option, value);
    }
    return status;
}

/* Parses the letters after a '-': flags, optionally followed by one option that takes an argument,
 * which is the rest of the word or the next word. */
static dl_status take_letters(option_parse *parse, const char *letters)
{
    const dl_command *command = parse->command;
    for (const char *c = letters; *c != '\0'; c++) {
        if (*c == 'h') {
            parse->help = true;
            return DL_OK;
        }
        size_t i = 0;
        while (i < command->option_count && command->options[i].letter != *c)
            i++;
        if (i == command->option_count) {
            return dl_error_set(parse->err, DL_ERR_USAGE, "unknown option '-%c'; --help lists all",
                                *c);
        }
        const char *value = NULL;
        const dl_option *option = &command->options[i];
        const bool flag = !needs_argument(option);
        if (!flag && c[1] == '\0' && !has_argument(parse)) {
            return dl_error_set(parse->err, DL_ERR_USAGE, "option '-%s' needs an argument",
                                letters);
        }
        if (!flag) value = c[1] != '\0' ? c + 1 : take_argument(parse, option);
        const dl_status status = take_option(parse, option, value);
        if (status != DL_OK || !flag) return status;
    }
    return DL_OK;
}

static void check_table(const dl_command *command)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const dl_option *option = &command->options[i];
        DL_ASSERT(!has_range(option) || option->low < option->high,
                  "option --%s has the range %g..%g", option->name, option->low, option->high);
        DL_ASSERT(option->letter != 'h', "option --%s takes -h", option->name);
    }
}

dl_status dl_options_parse(const dl_command *command, int argc, char **argv,
                           dl_text_list *positional, dl_options_action *action, dl_error *err)
{
    check_table(command);
    if (dl_manual_print_command(command, argc, argv)) {
        *action = DL_OPTIONS_DONE;
        return DL_OK;
    }
    option_parse parse = {.command = command,
                          .arguments = argv,
                          .count = argc,
                          .next = 1,
                          .positional = positional,
                          .err = err};
    DL_AUTOFREE char *help =
        options_help(command); /* before any target changes, so that help shows the
                                         * defaults */
    dl_status status = DL_OK;
    bool options_end = false;
    while (status == DL_OK && parse.next < argc && !parse.help && !parse.version) {
        const char *text = argv[parse.next++];
        if (options_end || text[0] != '-' || text[1] == '\0') {
            status = take_positional(&parse, text);
            options_end |= command->runs_program;
        } else if (text[1] != '-') {
            status = take_letters(&parse, text + 1);
        } else if (text[2] != '\0') {
            status = take_long(&parse, text + 2);
        } else {
            options_end = true;
        }
    }
    const bool done = parse.help || parse.version;
    if (status == DL_OK && parse.help) fputs(help, stdout);
    if (status == DL_OK && parse.version) print_version(command->program);
    if (status == DL_OK && !done && parse.positional_count < command->positional_min) {
        status = dl_error_set(err, DL_ERR_USAGE, "missing argument %s (%zu given, %zu needed)",
                              command->positional, parse.positional_count, command->positional_min);
    }
    if (status == DL_OK) *action = done ? DL_OPTIONS_DONE : DL_OPTIONS_RUN;
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

dl_status dl_command_run(const dl_command *command, int argc, char **argv, dl_command_fn run,
                         void *user, dl_error *err)
{
    DL_SCOPED(dl_text_list) positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_status status = dl_options_parse(command, argc, argv, &positional, &action, err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        dl_outputs_hold();
        status = run(&positional, user, err);
        status = dl_outputs_end(status, err);
    }
    if (status == DL_OK) status = dl_stdout_check(err);
    return status;
}

int dl_command_main(const dl_command *command, int argc, char **argv, dl_command_fn run, void *user)
{
    dl_error err = {0};
    const dl_status status = dl_command_run(command, argc, argv, run, user, &err);
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    return dl_status_exit_code(status);
}

char *dl_options_dump(const dl_command *command)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&text, &bytes);
    for (size_t i = 0; i < command->option_count; i++) {
        const dl_option *option = &command->options[i];
        if (option->type == DL_OPTION_FLAG) {
            if (*(const bool *)option->target) fprintf(out, " %s", option->name);
        } else if (option->type == DL_OPTION_LIST) {
            const dl_text_list *list = option->target;
            for (size_t j = 0; j < list->count; j++)
                dump_value(out, option->name, list->items[j]);
        } else {
            DL_AUTOFREE char *value = dl_option_value(option);
            if (value != NULL) dump_value(out, option->name, value);
        }
    }
    fclose(out);
    if (bytes > 0) memmove(text, text + 1, bytes); /* remove the leading blank */
    return text;
}

static void write_subcommands(FILE *out, const char *program, const char *summary,
                              const dl_subcommand *commands, size_t count)
{
    fprintf(out, "Usage: %s COMMAND [OPTION...]\n", program);
    dl_wrap(out, summary, 0, 0, LINE_WIDTH);
    fputs("\nCommands:\n", out);
    int indent = 0;
    for (size_t i = 0; i < count; i++) {
        int width = (int)strlen(commands[i].name) + 4;
        if (width > indent && width <= MOST_INDENT) indent = width;
    }
    for (size_t i = 0; i < count; i++) {
        DL_AUTOFREE char *left = dl_format("  %s", commands[i].name);
        write_row(out, left, commands[i].summary, indent);
    }
    fprintf(out, "\n'%s COMMAND --help' explains a command; '%s --version' shows the version.\n",
            program, program);
}

int dl_subcommand_run(const char *program, const dl_subcommand *command, int argc, char **argv)
{
    DL_AUTOFREE char **shifted =
        dl_calloc((size_t)argc, sizeof *shifted, "arguments"); /* NULL-terminated */
    DL_AUTOFREE char *name = dl_format("%s %s", program, command->name);
    memcpy(shifted, argv + 1, (size_t)(argc - 1) * sizeof *shifted);
    shifted[0] = name;
    return command->run(argc - 1, shifted);
}

static int dispatch(const char *program, const char *summary, const dl_subcommand *commands,
                    size_t count, const dl_manual *manual, int argc, char **argv)
{
    if (dl_manual_print_program(program, summary, commands, count, manual, argc, argv)) return 0;
    if (argc < 2) {
        write_subcommands(stderr, program, summary, commands, count);
        return dl_status_exit_code(DL_ERR_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        write_subcommands(stdout, program, summary, commands, count);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version(program);
        return 0;
    }
    DL_AUTOFREE const char **names = dl_calloc(count, sizeof *names, "command names");
    for (size_t i = 0; i < count; i++)
        names[i] = commands[i].name;
    int index = dl_names_find(argv[1], names, count);
    char hint[256];
    dl_names_hint(hint, sizeof hint, argv[1], names, count);
    if (index >= 0) return dl_subcommand_run(program, &commands[index], argc, argv);
    fprintf(stderr, "%s: unknown command '%s'%s\n", program, argv[1], hint);
    return dl_status_exit_code(DL_ERR_USAGE);
}

int dl_subcommands_main(const char *program, const char *summary, const dl_subcommand *commands,
                        size_t count, const dl_manual *manual, int argc, char **argv)
{
    const int exit_status = dispatch(program, summary, commands, count, manual, argc, argv);
    if (exit_status != 0) return exit_status;
    dl_error err = {0};
    const dl_status status = dl_stdout_check(&err);
    if (status != DL_OK) dl_error_print(&err, program, stderr);
    return dl_status_exit_code(status);
}
