#include "common/manual.h"

#include <string.h>

#include "common/alloc.h"
#include "common/options_internal.h"

/* Width of text lines; troff refills them. */
enum { LINE_WIDTH = 78 };

static const char print_man[] = "--print-man", print_completion[] = "--print-completion",
                  complete[] = "--complete";

/* --- manual pages ----------------------------------------------------------------------------- */

static void put_character(FILE *out, char c)
{
    switch (c) {
    case '\\': fputs("\\e", out); break;
    case '-': fputs("\\-", out); break; /* minus sign as typed, not a hyphen */
    case '\'': fputs("\\(aq", out); break;
    case '`': fputs("\\(ga", out); break;
    case '^': fputs("\\(ha", out); break;
    case '~': fputs("\\(ti", out); break;
    default: fputc(c, out);
    }
}

static void put_bytes(FILE *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        put_character(out, text[i]);
}

void dl_man_words(FILE *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

void dl_man_text(FILE *out, const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        const size_t bytes = strcspn(text, " \n");
        if (column > 0 && column + 1 + bytes > LINE_WIDTH) {
            fputc('\n', out);
            column = 0;
        } else if (column > 0 && bytes > 0) {
            fputc(' ', out);
            column++;
        }
        if (column == 0 && bytes > 0 && (text[0] == '.' || text[0] == '\'')) fputs("\\&", out);
        put_bytes(out, text, bytes);
        column += bytes;
        text += bytes;
        if (*text == '\n') {
            if (column > 0) fputc('\n', out);
            fputs(text[1] == '\n' ? ".PP\n" : ".br\n", out);
            text += strspn(text, "\n");
            column = 0;
        } else if (*text == ' ') {
            text++;
        }
    }
    if (column > 0) fputc('\n', out);
}

/* Writes the name in capitals, as in a page's title. */
static void put_capitals(FILE *out, const char *name)
{
    for (; *name != '\0'; name++)
        put_character(out, *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name);
}

void dl_man_head(FILE *out, const char *name, int section, const char *title)
{
    fputs(".TH ", out);
    put_capitals(out, name);
    fprintf(out, " %d \"%s\" \"dlscale %s\"", section, dl_release_date(), dl_version());
    fprintf(out, " \"%s\"\n", section == 5 ? "File Formats" : "User Commands");
    fputs(".nh\n.ad l\n.SH NAME\n", out); /* do not hyphenate option names */
    dl_man_words(out, name);
    fputs(" \\- ", out);
    dl_man_words(out, title);
    fputc('\n', out);
}

void dl_man_heading(FILE *out, const char *title)
{
    fputs(".SH ", out);
    put_capitals(out, title);
    fputc('\n', out);
}

static void put_items(FILE *out, const dl_manual_item *items)
{
    for (; items != NULL && items->name != NULL; items++) {
        fputs(".TP\n\\fB", out);
        dl_man_words(out, items->name);
        fputs("\\fR\n", out);
        dl_man_text(out, items->text);
    }
}

void dl_man_see_also(FILE *out, const char *names)
{
    dl_man_heading(out, "see also");
    while (*names != '\0') {
        const size_t bytes = strcspn(names, "("), rest = strcspn(names + bytes, " ");
        fputs(".BR ", out);
        put_bytes(out, names, bytes);
        fputc(' ', out);
        put_bytes(out, names + bytes, rest);
        fputc('\n', out);
        names += bytes + rest;
        names += strspn(names, " ");
    }
}

static void put_option(FILE *out, const dl_option *option)
{
    fputs(".TP\n", out);
    if (option->letter != 0) fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", out);
    dl_man_words(out, option->name);
    fputs("\\fR", out);
    if (option->type != DL_OPTION_FLAG) {
        const bool is_kind = option->type == DL_OPTION_KIND;
        fprintf(out, "%s=\\fI", is_kind ? "[" : "");
        dl_man_words(out, option->argument);
        fprintf(out, "\\fR%s", is_kind ? "]" : "");
    }
    fputc('\n', out);
    DL_AUTOFREE char *text = dl_option_description(option);
    dl_man_text(out, text);
}

static void put_synopsis(FILE *out, const dl_command *command)
{
    fputs("\\fB", out);
    dl_man_words(out, command->program);
    fputs("\\fR [\\fIOPTION\\fR...]", out);
    if (command->positional[0] != '\0') {
        fputs(" \\fI", out);
        dl_man_words(out, command->positional);
        fputs("\\fR", out);
    }
    fputc('\n', out);
}

static void put_group(FILE *out, const char *heading)
{
    fputs(".PP\n\\fI", out);
    dl_man_words(out, heading);
    fputs("\\fR\n", out);
}

/* Writes the options; returns whether they have groups. */
static bool put_options(FILE *out, const dl_command *command)
{
    bool grouped = false;
    DL_AUTOFREE dl_listed_option *listed = dl_options_listed(command);
    for (size_t i = 0; i < command->option_count; i++) {
        if (listed[i].heading != NULL) put_group(out, listed[i].heading);
        grouped |= listed[i].heading != NULL;
        put_option(out, listed[i].option);
    }
    return grouped;
}

static const dl_manual_item common_options[] = {
    {"-h, --help", "Show a short help and exit."},
    {"--version", "Show the version and exit."},
    {NULL, NULL},
};

static const dl_manual_item common_exit_codes[] = {
    {"0", "Done."},
    {"1", "The run failed; a faulty input file, too."},
    {"2", "The command line is faulty."},
    {NULL, NULL},
};

static void put_tail(FILE *out, const dl_manual *manual)
{
    dl_man_heading(out, "exit status");
    put_items(out, common_exit_codes);
    put_items(out, manual->exit_codes);
    if (manual->environment != NULL) dl_man_heading(out, "environment");
    put_items(out, manual->environment);
    if (manual->files != NULL) dl_man_heading(out, "files");
    put_items(out, manual->files);
    dl_man_see_also(out, manual->see_also);
}

static void print_page(FILE *out, const dl_command *command)
{
    const dl_manual *manual = command->manual;
    dl_man_head(out, command->program, 1, manual->title);
    dl_man_heading(out, "synopsis");
    put_synopsis(out, command);
    dl_man_heading(out, "description");
    dl_man_text(out, command->summary);
    fputs(".PP\n", out);
    dl_man_text(out, manual->description);
    dl_man_heading(out, "options");
    if (put_options(out, command)) put_group(out, "Help");
    put_items(out, common_options);
    put_tail(out, manual);
}

static void print_section(FILE *out, const dl_command *command)
{
    fputs(".SS ", out);
    dl_man_words(out, command->program);
    fputc('\n', out);
    put_synopsis(out, command);
    fputs(".PP\n", out);
    dl_man_text(out, command->summary);
    put_options(out, command);
}

/* --- completion for bash ---------------------------------------------------------------------- */

static bool takes_file(const dl_option *option)
{
    return option->argument != NULL &&
           (strstr(option->argument, "FILE") != NULL || strstr(option->argument, "FOLDER") != NULL);
}

void dl_complete_word(FILE *out, const char *typed, size_t kept, const char *word)
{
    if (strncmp(word, typed + kept, strlen(typed + kept)) == 0)
        fprintf(out, "%.*s%s\n", (int)kept, typed, word);
}

/* Returns whether the program itself lists the words of the option's argument. */
static bool is_asked(const dl_command *command, const char *option)
{
    if (command->complete == NULL) return false;
    DL_AUTOFREE char *words = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&words, &bytes);
    const bool known = command->complete(out, option, "");
    fclose(out);
    return known;
}

/* Prints the completion script's case of an option with an argument: a file name, a word from the
 * program, one of the option's choices, or any value. */
static void print_argument(FILE *out, const dl_command *command, const dl_option *option)
{
    if (option->type == DL_OPTION_FLAG) return;
    fprintf(out, "        --%s", option->name);
    if (option->letter != 0) fprintf(out, " | -%c", option->letter);
    fprintf(out, ") kind=%s", takes_file(option) ? "file" : "value");
    if (is_asked(command, option->name)) {
        const char *name = strchr(command->program, ' ');
        fprintf(out, " ask='%s%s%s %s'", name != NULL ? name + 1 : "", name != NULL ? " " : "",
                complete, option->name);
    } else if (!takes_file(option)) {
        fputs(" words='", out);
        for (size_t i = 0; option->choices != NULL && option->choices[i] != NULL; i++)
            fprintf(out, "%s%s", i > 0 ? " " : "", option->choices[i]);
        fputs("'", out);
    }
    fputs(" ;;\n", out);
}

static void print_options(FILE *out, const dl_command *command)
{
    fputs("        options='", out);
    for (size_t i = 0; i < command->option_count; i++) {
        const dl_option *option = &command->options[i];
        const bool alone = option->type == DL_OPTION_FLAG || option->type == DL_OPTION_KIND;
        fprintf(out, "--%s%s ", option->name, alone ? "" : "=");
    }
    fputs("--help --version'\n        case $before in\n", out);
    for (size_t i = 0; i < command->option_count; i++)
        print_argument(out, command, &command->options[i]);
    fputs("        esac\n", out);
}

static void begin_completion(FILE *out, const char *program)
{
    fprintf(out,
            "# Completion for bash, made by %s %s.\n"
            "_%s()\n"
            "{\n"
            "    local current=${COMP_WORDS[COMP_CWORD]} typed before at=$COMP_CWORD\n"
            "    local options='' words='' kind='' ask='' i\n"
            "    # --name=value comes in three words, --name=key=value in five, and so on.\n"
            "    [[ $current != = ]] || { current='' at=$((at + 1)); }\n"
            "    typed=$current\n"
            "    while ((at > 1)) && [[ ${COMP_WORDS[at - 1]} == = ]]; do\n"
            "        at=$((at - 1))\n"
            "        [[ ${COMP_WORDS[at - 1]} != -* ]] || break\n"
            "        typed=${COMP_WORDS[at - 1]}=$typed at=$((at - 1))\n"
            "    done\n"
            "    before=${COMP_WORDS[at - 1]}\n"
            "    COMPREPLY=()\n"
            "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
            "        [[ ${COMP_WORDS[i]} != -- ]] || return 0\n"
            "    done\n",
            program, print_completion, program);
}

/* Writes the end of the script: if there are no words to choose from, the shell completes file
 * names, except where an option's value must follow. */
static void end_completion(FILE *out, const char *program)
{
    fprintf(out,
            "    [[ $kind != '' || $current != -* ]] || words=$options\n"
            "    [[ $kind != value ]] || compopt +o default 2>/dev/null\n"
            "    if [[ $ask != '' ]]; then\n"
            "        mapfile -t COMPREPLY < <(\"${COMP_WORDS[0]/#\\~/$HOME}\" $ask \"$typed\" "
            "2>/dev/null)\n"
            "        COMPREPLY=(\"${COMPREPLY[@]#\"${typed%%\"$current\"}\"}\")\n"
            "    elif [[ $words != '' ]]; then\n"
            "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
            "    fi\n"
            "    [[ ${COMPREPLY-} != *= ]] || compopt -o nospace 2>/dev/null\n"
            "}\n"
            "complete -o default -F _%s %s\n",
            program, program);
}

static void print_whole_completion(FILE *out, const dl_command *command)
{
    begin_completion(out, command->program);
    print_options(out, command);
    end_completion(out, command->program);
}

static void print_case(FILE *out, const dl_command *command)
{
    fprintf(out, "    %s)\n", strchr(command->program, ' ') + 1);
    print_options(out, command);
    fputs("        ;;\n", out);
}

/* --- functions called by options.c ------------------------------------------------------------ */

bool dl_manual_print_command(const dl_command *command, int argc, char **argv)
{
    if (argc == 4 && command->complete != NULL && strcmp(argv[1], complete) == 0) {
        command->complete(stdout, argv[2], argv[3]);
        return true;
    }
    if (argc != 2) return false;
    const bool man = strcmp(argv[1], print_man) == 0;
    if (!man && strcmp(argv[1], print_completion) != 0) return false;
    if (command->manual != NULL) {
        (man ? print_page : print_whole_completion)(stdout, command);
        return true;
    }
    /* Print a command's part; a program without sub-commands, as in tests, has none. */
    if (strchr(command->program, ' ') == NULL) return false;
    (man ? print_section : print_case)(stdout, command);
    return true;
}

static void run_all(const char *program, const dl_subcommand *commands, size_t count, char **argv)
{
    for (size_t i = 0; i < count; i++) {
        DL_AUTOFREE char *name = dl_strdup(commands[i].name);
        char *arguments[] = {argv[0], name, argv[1], NULL};
        const int exit_status = dl_subcommand_run(program, &commands[i], 3, arguments);
        DL_ASSERT(exit_status == 0, "%s %s %s ended with %d", program, name, argv[1], exit_status);
    }
}

bool dl_manual_print_program(const char *program, const char *summary,
                             const dl_subcommand *commands, size_t count, const dl_manual *manual,
                             int argc, char **argv)
{
    if (argc != 2 || manual == NULL) return false;
    if (strcmp(argv[1], print_man) == 0) {
        dl_man_head(stdout, program, 1, manual->title);
        dl_man_heading(stdout, "synopsis");
        printf("\\fB%s\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n", program);
        dl_man_heading(stdout, "description");
        dl_man_text(stdout, summary);
        fputs(".PP\n", stdout);
        dl_man_text(stdout, manual->description);
        dl_man_heading(stdout, "commands");
        for (size_t i = 0; i < count; i++) {
            const dl_manual_item item[] = {{commands[i].name, commands[i].summary}, {NULL, NULL}};
            put_items(stdout, item);
        }
        dl_man_heading(stdout, "options of all commands");
        put_items(stdout, common_options);
        dl_man_heading(stdout, "options by command");
        run_all(program, commands, count, argv);
        put_tail(stdout, manual);
        return true;
    }
    if (strcmp(argv[1], print_completion) != 0) return false;
    begin_completion(stdout, program);
    printf("    if ((COMP_CWORD == 1)); then\n        kind=value words='");
    for (size_t i = 0; i < count; i++)
        printf("%s ", commands[i].name);
    printf("--help --version'\n    fi\n    case ${COMP_WORDS[1]} in\n");
    run_all(program, commands, count, argv);
    printf("    esac\n");
    end_completion(stdout, program);
    return true;
}
