#include "tests/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/manual.h"
#include "common/options.h"

/* Returns the output of dl_man_text; the caller frees it. */
static char *man_text(const char *text)
{
    char *written = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&written, &bytes);
    assert_non_null(out);
    dl_man_text(out, text);
    fclose(out);
    return written;
}

static void check_text(const char *text, const char *expected)
{
    DL_AUTOFREE char *written = man_text(text);
    assert_string_equal(written, expected);
}

/* A dot or an apostrophe starts a request only at the start of a line. */
static void nothing_of_a_text_is_a_request(void **state DL_UNUSED)
{
    check_text("a.b .c", "a.b .c\n");
    check_text(".TH x", "\\&.TH x\n");
    check_text("'s \\n --all", "\\&\\(aqs \\en \\-\\-all\n");
    check_text("", "");
}

static void lines_and_paragraphs(void **state DL_UNUSED)
{
    check_text("One.\nTwo.", "One.\n.br\nTwo.\n");
    check_text("One.\n\nTwo.", "One.\n.PP\nTwo.\n");
    /* 39 times "a" separated by blanks are 77 columns; no more fits with its blank. A dot that
     * moves to the start of a line is not a request either. */
    char text[80], expected[90];
    for (int i = 0; i < 80; i += 2)
        memcpy(&text[i], i < 78 ? "a " : ".", 2);
    snprintf(expected, sizeof expected, "%.77s\n\\&.\n", text);
    check_text(text, expected);
}

static int64_t steps = 100;
static const char *output = "a-b.dlt";
static int mode;
static const char *const modes[] = {"allreduce", "async", NULL};
static bool quiet;
static const dl_option options[] = {
    DL_OPT_INT("steps", 'n', &steps, 1, 1000, "COUNT", "Steps to run."),
    DL_OPT_TEXT("output", 'o', &output, "FILE", "What to write."),
    DL_OPT_CHOICE("mode", 0, &mode, modes, "MODE", "How.", .group = "Other things"),
    DL_OPT_FLAG("quiet", 0, &quiet, "Print nothing."),
};
static const dl_manual manual = {
    .title = "do it",
    .description = "At length.",
    .exit_codes = (const dl_manual_item[]){{"3", "Otherwise."}, {NULL, NULL}},
    .environment = (const dl_manual_item[]){{"IT", "Which."}, {NULL, NULL}},
    .see_also = "that(1), those(5)",
};

static FILE *capture;
static int saved_stdout;

static void begin_capture(void)
{
    fflush(stdout);
    capture = tmpfile();
    assert_non_null(capture);
    saved_stdout = dup(STDOUT_FILENO);
    dup2(fileno(capture), STDOUT_FILENO);
}

static char *end_capture(void)
{
    fflush(stdout);
    dup2(saved_stdout, STDOUT_FILENO);
    close(saved_stdout);
    char *text = calloc(1, 8192);
    assert_non_null(text);
    rewind(capture);
    text[fread(text, 1, 8191, capture)] = '\0';
    fclose(capture);
    return text;
}

/* Returns the output of a program without sub-commands for `asked`; the caller frees it. */
static char *print(const char *asked)
{
    const dl_command command = {.program = "doit",
                                .positional = "FILE...",
                                .summary = "Does it.",
                                .options = options,
                                .option_count = 4,
                                .positional_max = 9,
                                .manual = &manual};
    char *argv[] = {(char *)"doit", (char *)asked, NULL};
    dl_options_action action = DL_OPTIONS_RUN;
    begin_capture();
    dl_status status = dl_options_parse(&command, 2, argv, NULL, &action, NULL);
    char *text = end_capture();
    assert_int_equal(status, DL_OK);
    assert_int_equal(action, DL_OPTIONS_DONE);
    return text;
}

static void a_page_has_all_that_the_table_has(void **state DL_UNUSED)
{
    char *text = print("--print-man"), head[200];
    snprintf(head, sizeof head, ".TH DOIT 1 \"%s\" \"dlscale %s\" \"User Commands\"\n",
             dl_release_date(), dl_version());
    assert_true(strncmp(text, head, strlen(head)) == 0);
    static const char *const parts[] = {
        ".SH NAME\ndoit \\- do it\n",
        ".SH SYNOPSIS\n\\fBdoit\\fR [\\fIOPTION\\fR...] \\fIFILE...\\fR\n",
        ".SH DESCRIPTION\nDoes it.\n.PP\nAt length.\n",
        ".TP\n\\fB\\-n\\fR, \\fB\\-\\-steps\\fR=\\fICOUNT\\fR\n"
        "Steps to run (1..1000; default 100)\n",
        "What to write (default a\\-b.dlt)\n.PP\n\\fIOther things\\fR\n.TP\n",
        "How (one of allreduce, async; default allreduce)\n",
        ".TP\n\\fB\\-\\-quiet\\fR\nPrint nothing.\n.PP\n\\fIHelp\\fR\n.TP\n",
        ".TP\n\\fB2\\fR\nThe command line is faulty.\n.TP\n\\fB3\\fR\nOtherwise.\n",
        ".SH ENVIRONMENT\n.TP\n\\fBIT\\fR\nWhich.\n.SH SEE ALSO\n.BR that (1),\n.BR those (5)\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_contains(text, parts[i]);
    assert_null(strstr(text, ".SH FILES"));
    free(text);
}

static void completion_knows_options_and_choices(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = print("--print-completion");
    assert_contains(text, "options='--steps= --output= --mode= --quiet --help --version'\n");
    assert_contains(text, "--steps | -n) kind=value words='' ;;\n");
    assert_contains(text, "--mode) kind=value words='allreduce async' ;;\n");
    assert_contains(text, "--output | -o) kind=file ;;\n");
    assert_contains(text, "complete -o default -F _doit doit\n");
}

static int run_command(int argc, char **argv)
{
    const dl_command command = {.program = argv[0],
                                .positional = "",
                                .summary = "Goes.",
                                .options = options,
                                .option_count = 1};
    dl_options_action action = DL_OPTIONS_RUN;
    assert_int_equal(dl_options_parse(&command, argc, argv, NULL, &action, NULL), DL_OK);
    return action == DL_OPTIONS_DONE ? 0 : 1;
}

static void commands_give_their_parts(void **state DL_UNUSED)
{
    static const dl_subcommand commands[] = {{"go", "go on", run_command}};
    char *argv[] = {(char *)"doit", (char *)"--print-man", NULL};
    begin_capture();
    int exit_status = dl_subcommands_main("doit", "Does.", commands, 1, &manual, 2, argv);
    char *text = end_capture();
    assert_int_equal(exit_status, 0);
    assert_contains(text, ".SH COMMANDS\n.TP\n\\fBgo\\fR\ngo on\n");
    assert_contains(text, ".SS doit go\n\\fBdoit go\\fR [\\fIOPTION\\fR...]\n.PP\nGoes.\n.TP\n");
    free(text);
    argv[1] = (char *)"--print-completion";
    begin_capture();
    exit_status = dl_subcommands_main("doit", "Does.", commands, 1, &manual, 2, argv);
    text = end_capture();
    assert_int_equal(exit_status, 0);
    assert_contains(text, "words='go --help --version'\n");
    assert_contains(text, "    go)\n        options='--steps= --help --version'\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_a_text_is_a_request),
        cmocka_unit_test(lines_and_paragraphs),
        cmocka_unit_test(a_page_has_all_that_the_table_has),
        cmocka_unit_test(completion_knows_options_and_choices),
        cmocka_unit_test(commands_give_their_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
