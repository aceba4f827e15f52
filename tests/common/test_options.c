#include "tests/check.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/options.h"

/* One option of each type. */
typedef struct settings {
    bool verbose;
    int64_t steps;
    double rate;
    uint64_t size_bytes;
    const char *out;
    int sync;
    dl_text_list with;
} settings;

static settings set;
static dl_text_list rest;
static const char *const modes[] = {"allreduce", "average", "async", NULL};
static const dl_option options[] = {
    DL_OPT_FLAG("verbose", 'v', &set.verbose, "Say more."),
    DL_OPT_INT("steps", 'n', &set.steps, 1, 1000, "COUNT", "Steps to run."),
    DL_OPT_ROW(DOUBLE, "rate", 0, &set.rate, "PER_S",
               "Learning rate of the optimizer, by which it multiplies the gradients of a step.",
               .low = 0, .high = INFINITY),
    DL_OPT_ROW(BYTES, "size", 's', &set.size_bytes, "BYTES", "Bucket size.", .low = 1,
               .high = 1 << 30),
    DL_OPT_TEXT("output", 'o', &set.out, "FILE", "Trace to write."),
    DL_OPT_CHOICE("sync", 0, &set.sync, modes, "MODE", "Exchange mode."),
    DL_OPT_LIST("with-a-very-long-name-indeed", 'w', &set.with, "NAME", "A further thing."),
};
static const dl_command command = {.program = "dlprof train",
                                   .positional = "TRACE...",
                                   .summary = "Trains a model.\nAnd profiles it.",
                                   .options = options,
                                   .option_count = 7,
                                   .positional_min = 1,
                                   .positional_max = 2};

static int set_defaults(void **state DL_UNUSED)
{
    set = (settings){.steps = 100, .rate = 0.1, .size_bytes = 4 << 20, .out = "run.dlt"};
    return 0;
}

static int free_lists(void **state DL_UNUSED)
{
    dl_text_list_free(&set.with);
    dl_text_list_free(&rest);
    return 0;
}

enum { MOST_ARGUMENTS = 16 };

/* Parses the NULL-terminated words after the program's name. */
static dl_status parse(const char *const *words, dl_options_action *action, dl_error *err)
{
    char *argv[MOST_ARGUMENTS + 2] = {(char *)"dlprof train"};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++)
        argv[argc] = (char *)words[argc - 1];
    return dl_options_parse(&command, argc, argv, &rest, action, err);
}

#define PARSE(action, err, ...) parse((const char *const[]){__VA_ARGS__, NULL}, action, err)

static void every_type_is_set(void **state DL_UNUSED)
{
    dl_options_action action = DL_OPTIONS_DONE;
    dl_error err = {0};
    dl_status status =
        PARSE(&action, &err, "a.dlt", "-v", "--steps=7", "--rate", "1e-3", "-s", "64MiB", "-ob.dlt",
              "--sync=async", "-w", "x", "--with=-y", "--", "-b.dlt");
    assert_string_equal(err.text, "");
    assert_int_equal(status, DL_OK);
    assert_int_equal(action, DL_OPTIONS_RUN);
    assert_true(set.verbose);
    assert_int_equal(set.steps, 7);
    assert_true(set.rate == 1e-3);
    assert_int_equal(set.size_bytes, 64 << 20);
    assert_string_equal(set.out, "b.dlt");
    assert_int_equal(set.sync, 2);
    assert_int_equal(set.with.count, 2);
    assert_string_equal(set.with.items[1], "-y");
    assert_int_equal(rest.count, 2);
    assert_string_equal(rest.items[0], "a.dlt");
    assert_string_equal(rest.items[1], "-b.dlt");
}

static void letters_may_stand_together_and_the_last_counts(void **state DL_UNUSED)
{
    dl_options_action action;
    assert_int_equal(PARSE(&action, NULL, "-vn5", "-vn", "6", "--out", "a", "t"), DL_OK);
    assert_int_equal(set.steps, 6);
    assert_string_equal(set.out, "a");
}

static void bad_usage_names_the_option(void **state DL_UNUSED)
{
    static const struct {
        const char *words[5];
        const char *message;
    } cases[] = {
        {{"t", "--stpes=3"}, "unknown option '--stpes'; did you mean '--steps'?"},
        {{"t", "--zzzzzzz", "3"}, "unknown option '--zzzzzzz'; --help lists all"},
        {{"t", "--s=3"}, "option '--s' is ambiguous: --steps, --size, --sync"},
        {{"t", "--verbose=yes"}, "option '--verbose' takes no argument"},
        {{"t", "--help=yes"}, "option '--help' takes no argument"},
        {{"t", "--steps"}, "option '--steps' needs an argument: COUNT"},
        {{"t", "--step"}, "option '--steps' needs an argument: COUNT"},
        {{"t", "--steps", "--verbose"}, "option '--steps' needs an argument: COUNT"},
        {{"t", "-n"}, "option '-n' needs an argument"},
        {{"-n", "3", "-vn"}, "option '-vn' needs an argument"},
        {{"-x", "t"}, "unknown option '-x'"},
        {{"-xv", "t"}, "unknown option '-x'"},
        {{"-vx", "-v", "t"}, "unknown option '-x'"},
        {{"-v", "-vxv", "t"}, "unknown option '-x'"},
        {{"--output", "-z", "-yv", "t"}, "unknown option '-y'"},
        {{"-z", "-y"}, "unknown option '-z'"},
        {{"--steps=3x", "t"}, "--steps: '3x' is not a whole number"},
        {{"-n", "0", "t"}, "--steps: '0' is out of range (1..1000)"},
        {{"--rate=-1", "t"}, "--rate: '-1' is out of range (at least 0)"},
        {{"--rate=nan", "t"}, "--rate: 'nan' is not a number: PER_S, without a unit, as in 1.5"},
        {{"--size=5Mib", "t"}, "--size: unknown unit of bytes 'Mib'; did you mean 'MiB'?"},
        {{"--size=2GiB", "t"}, "--size: '2GiB' is out of range (1..1GiB)"},
        {{"--size=0", "t"}, "--size: '0' is out of range (1..1GiB)"},
        {{"--sync=asinc", "t"}, "--sync: 'asinc' is unknown; did you mean 'async'?"},
        {{"-v"}, "missing argument TRACE... (0 given, 1 needed)"},
        {{"a", "b", "c"}, "superfluous argument 'c'"},
        {{"a", "b", "4"}, "superfluous argument '4'; a list has commas and no spaces, as 1,2,4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dl_options_action action = DL_OPTIONS_RUN;
        dl_error err = {0};
        assert_int_equal(parse(cases[i].words, &action, &err), DL_ERR_USAGE);
        assert_contains(err.text, cases[i].message);
        dl_text_list_free(&rest);
    }
}

/* Without an argument it is its first word; the next text is its argument only if it is one of its
 * words. */
static void a_kind_needs_no_argument(void **state DL_UNUSED)
{
    static const char *const kinds[] = {"settings", "layout", NULL};
    static const struct {
        const char *words[4];
        int kind, positional;
    } cases[] = {{{"a"}, 0, 1},
                 {{"--advise"}, 1, 0},
                 {{"--advise", "a"}, 1, 1},
                 {{"--advise=layout", "a"}, 2, 1},
                 {{"--advise", "layout"}, 2, 0},
                 {{"--advise", "layout", "layout"}, 2, 1}};
    int kind = 0;
    const dl_option option =
        DL_OPT_ROW(KIND, "advise", 0, &kind, "KIND", "Search.", .choices = kinds);
    const dl_command of = {.program = "p",
                           .positional = "[FILE]",
                           .summary = "",
                           .options = &option,
                           .option_count = 1,
                           .positional_max = 1};
    dl_options_action action;
    dl_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *argv[5] = {(char *)"p"};
        int argc = 1;
        for (; argc < 5 && cases[i].words[argc - 1] != NULL; argc++)
            argv[argc] = (char *)cases[i].words[argc - 1];
        kind = 0;
        assert_int_equal(dl_options_parse(&of, argc, argv, &rest, &action, &err), DL_OK);
        assert_int_equal(kind, cases[i].kind);
        assert_int_equal(rest.count, cases[i].positional);
        dl_text_list_free(&rest);
    }
    char *wrong[] = {(char *)"p", (char *)"--advise=layuot"};
    assert_int_equal(dl_options_parse(&of, 2, wrong, &rest, &action, &err), DL_ERR_USAGE);
    assert_string_equal(err.text, "--advise: 'layuot' is unknown; did you mean 'layout'?");
}

static FILE *capture;
static int saved_stdout;

static void begin_capture(void)
{
    fflush(stdout);
    capture = tmpfile();
    saved_stdout = dup(STDOUT_FILENO);
    dup2(fileno(capture), STDOUT_FILENO);
}

/* Returns the output to stdout since begin_capture; the caller frees it. */
static char *end_capture(void)
{
    fflush(stdout);
    dup2(saved_stdout, STDOUT_FILENO);
    close(saved_stdout);
    char *text = calloc(1, 8192);
    rewind(capture);
    size_t bytes = fread(text, 1, 8191, capture);
    fclose(capture);
    text[bytes] = '\0';
    return text;
}

/* Help shows the defaults before parsing, though -n precedes -h; arguments after -h are ignored. */
static void help_shows_ranges_units_and_defaults(void **state DL_UNUSED)
{
    dl_options_action action = DL_OPTIONS_RUN;
    begin_capture();
    dl_status status = PARSE(&action, NULL, "-n", "5", "-h", "--nonsense");
    DL_AUTOFREE char *text = end_capture();
    assert_int_equal(status, DL_OK);
    assert_int_equal(action, DL_OPTIONS_DONE);
    assert_string_equal(
        text, "Usage: dlprof train [OPTION...] TRACE...\n"
              "Trains a model.\n"
              "And profiles it.\n"
              "\n"
              "Options:\n"
              "  -v, --verbose      Say more.\n"
              "  -n, --steps=COUNT  Steps to run (1..1000; default 100)\n"
              "      --rate=PER_S   Learning rate of the optimizer, by which it multiplies the\n"
              "                     gradients of a step (default 0.1)\n"
              "  -s, --size=BYTES   Bucket size (1..1GiB; default 4MiB)\n"
              "  -o, --output=FILE  Trace to write (default run.dlt)\n"
              "      --sync=MODE    Exchange mode (one of allreduce, average, async; default\n"
              "                     allreduce)\n"
              "  -w, --with-a-very-long-name-indeed=NAME\n"
              "                     A further thing (may be given several times)\n"
              "  -h, --help         Show this help and exit.\n"
              "      --version      Show the version and exit.\n");
}

/* An option without a group belongs to the group of the previous row; a repeated group is listed
 * once. Limits of a million and more, and a default given by the sentence itself, are not shown. */
static void help_lists_options_by_group(void **state DL_UNUSED)
{
    int64_t numbers[4] = {0, 5, 6, 7};
    const dl_option rows[] = {
        DL_OPT_INT("first", 0, &numbers[0], 0, 9, "N", "First (default: any)."),
        DL_OPT_INT("second", 0, &numbers[1], 1, 1e6, "N", "Second.", .group = "Costs"),
        DL_OPT_INT("third", 0, &numbers[2], 2, 1e9, "N", "Third."),
        DL_OPT_FLAG("fourth", 0, &set.verbose, "Fourth.", .group = "Results"),
        DL_OPT_INT("fifth", 0, &numbers[3], 1, 9, "N", "Fifth.", .group = "Costs"),
    };
    const dl_command grouped = {.program = "dlsim",
                                .positional = "",
                                .summary = "Simulates.",
                                .options = rows,
                                .option_count = 5};
    char *argv[] = {(char *)"dlsim", (char *)"--help", NULL};
    dl_options_action action = DL_OPTIONS_RUN;
    begin_capture();
    dl_status status = dl_options_parse(&grouped, 2, argv, NULL, &action, NULL);
    DL_AUTOFREE char *text = end_capture();
    assert_int_equal(status, DL_OK);
    assert_string_equal(text, "Usage: dlsim [OPTION...]\n"
                              "Simulates.\n"
                              "\n"
                              "Options:\n"
                              "      --first=N   First (default: any).\n"
                              "\n"
                              "Costs:\n"
                              "      --second=N  Second (default 5)\n"
                              "      --third=N   Third (at least 2; default 6)\n"
                              "      --fifth=N   Fifth (1..9; default 7)\n"
                              "\n"
                              "Results:\n"
                              "      --fourth    Fourth.\n"
                              "\n"
                              "Help:\n"
                              "  -h, --help      Show this help and exit.\n"
                              "      --version   Show the version and exit.\n");
}

static void version_names_the_program(void **state DL_UNUSED)
{
    dl_options_action action = DL_OPTIONS_RUN;
    char expected[64];
    begin_capture();
    dl_status status = PARSE(&action, NULL, "--version");
    DL_AUTOFREE char *text = end_capture();
    assert_int_equal(status, DL_OK);
    assert_int_equal(action, DL_OPTIONS_DONE);
    snprintf(expected, sizeof expected, "dlprof %s\n", dl_version());
    assert_string_equal(text, expected);
}

/* The dump must contain the effective settings in a form that the parser reads back. */
static void dump_tells_all_settings(void **state DL_UNUSED)
{
    char *text = dl_options_dump(&command);
    assert_string_equal(text, "steps=100 rate=0.1 size=4MiB output=run.dlt sync=allreduce");
    free(text);
    dl_options_action action;
    assert_int_equal(PARSE(&action, NULL, "t", "-v", "--size=1000000", "-oa \"b", "-w", "", "-wz"),
                     DL_OK);
    text = dl_options_dump(&command);
    assert_string_equal(text,
                        "verbose steps=100 rate=0.1 size=1MB output=\"a \\\"b\" sync=allreduce "
                        "with-a-very-long-name-indeed=\"\" with-a-very-long-name-indeed=z");
    free(text);
    set.out = NULL;
    set.size_bytes = 1001;
    text = dl_options_dump(&command);
    assert_contains(text, "rate=0.1 size=1001 sync=");
    free(text);
}

static void command_without_options_takes_nothing(void **state DL_UNUSED)
{
    const dl_command bare = {.program = "dlsim", .positional = "", .summary = "Simulates."};
    char *argv[] = {(char *)"dlsim", (char *)"x", NULL};
    dl_options_action action;
    dl_error err = {0};
    assert_int_equal(dl_options_parse(&bare, 1, argv, NULL, &action, NULL), DL_OK);
    assert_int_equal(dl_options_parse(&bare, 2, argv, NULL, &action, &err), DL_ERR_USAGE);
    DL_AUTOFREE char *text = dl_options_dump(&bare);
    assert_string_equal(text, "");
}

/* A constant table serves any number of settings; fields of nested structs are allowed. */
static void bound_targets_lie_in_the_settings(void **state DL_UNUSED)
{
    typedef struct nested {
        int first;
        settings inner;
    } nested;
    static const dl_option rows[] = {
        {.name = "first",
         .type = DL_OPTION_INT32,
         .target = DL_OPTION_FIELD(nested, first),
         .high = 9,
         .argument = "COUNT",
         .help = "First."},
        {.name = "rate",
         .type = DL_OPTION_DOUBLE,
         .target = DL_OPTION_FIELD(nested, inner.rate),
         .high = 1,
         .argument = "RATE",
         .help = "Rate."},
    };
    nested one = {.first = 1, .inner.rate = 0.5}, other = one;
    dl_option table[2];
    dl_options_bind(table, rows, 2, &other);
    dl_options_bind(table, rows, 2, &one);
    const dl_command bound = {.program = "dlsim",
                              .positional = "",
                              .summary = "Simulates.",
                              .options = table,
                              .option_count = 2};
    char *argv[] = {(char *)"dlsim", (char *)"--first=7", (char *)"--rate=0.25", NULL};
    dl_options_action action;
    assert_int_equal(dl_options_parse(&bound, 3, argv, NULL, &action, NULL), DL_OK);
    assert_int_equal(one.first, 7);
    assert_true(one.inner.rate == 0.25);
    assert_int_equal(other.first, 1);
    assert_string_equal(table[1].name, "rate");
}

static int run_train(int argc, char **argv)
{
    printf("%s with %d:", argv[0], argc);
    for (int i = 1; i < argc; i++)
        printf(" %s", argv[i]);
    return argv[argc] == NULL ? 7 : 0;
}

static const dl_subcommand commands[] = {{"train", "Trains.", run_train},
                                         {"bench", "Measures.", run_train}};

static void subcommands_are_dispatched(void **state DL_UNUSED)
{
    char *argv[] = {(char *)"./dlprof", (char *)"train", (char *)"--help", (char *)"x", NULL};
    begin_capture();
    int exit_status = dl_subcommands_main("dlprof", "Profiles.", commands, 2, NULL, 4, argv);
    DL_AUTOFREE char *text = end_capture();
    assert_int_equal(exit_status, 7);
    assert_string_equal(text, "dlprof train with 3: --help x");
}

static void subcommands_explain_themselves(void **state DL_UNUSED)
{
    static const char *const ways[] = {"-h", "--help"};
    char *argv[] = {(char *)"dlprof", NULL, NULL}, *text;
    int exit_status;
    for (size_t i = 0; i < 2; i++) {
        argv[1] = (char *)ways[i];
        begin_capture();
        exit_status = dl_subcommands_main("dlprof", "Profiles.", commands, 2, NULL, 2, argv);
        text = end_capture();
        assert_int_equal(exit_status, 0);
        assert_contains(text, "Usage: dlprof COMMAND [OPTION...]\nProfiles.\n\nCommands:\n"
                              "  train  Trains.\n  bench  Measures.\n");
        free(text);
    }
    argv[1] = (char *)"--version";
    begin_capture();
    exit_status = dl_subcommands_main("dlprof", "Profiles.", commands, 2, NULL, 2, argv);
    text = end_capture();
    assert_int_equal(exit_status, 0);
    assert_contains(text, "dlprof ");
    free(text);
    argv[1] = (char *)"trian";
    assert_int_equal(dl_subcommands_main("dlprof", "Profiles.", commands, 2, NULL, 2, argv), 2);
    assert_int_equal(dl_subcommands_main("dlprof", "Profiles.", commands, 2, NULL, 1, argv), 2);
}

static int print_train(int argc DL_UNUSED, char **argv)
{
    printf("%s\n", argv[0]);
    return 0;
}

/* Runs in a child, since the error state of a stream is permanent. */
static void a_program_that_could_not_print_all_fails(void **state DL_UNUSED)
{
    if (access("/dev/full", W_OK) != 0) skip();
    static const dl_subcommand printing[] = {{"train", "Trains.", print_train}};
    static const char *const first[] = {"train", "--help", "--version"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        char *argv[] = {(char *)"dlprof", (char *)first[i], NULL};
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (freopen("/dev/full", "w", stdout) == NULL) _exit(3);
            _exit(dl_subcommands_main("dlprof", "Profiles.", printing, 1, NULL, 2, argv));
        }
        int ended = 0;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(WIFEXITED(ended));
        assert_int_equal(WEXITSTATUS(ended), 1);
    }
}

/* A command that counts its arguments, and fails on three steps. */
static dl_status count_arguments(const dl_text_list *positional, void *user, dl_error *err)
{
    *(size_t *)user = positional->count;
    if (set.steps == 3) return dl_error_set(err, DL_ERR_IO, "three steps");
    return DL_OK;
}

static int run_command(const char *first, const char *second, size_t *count)
{
    static char program[] = "dlprof train";
    char words[2][64];
    snprintf(words[0], sizeof words[0], "%s", first);
    snprintf(words[1], sizeof words[1], "%s", second);
    char *argv[] = {program, words[0], words[1], NULL};
    *count = 0;
    return dl_command_main(&command, 3, argv, count_arguments, count);
}

static void commands_run_and_tell_how_they_ended(void **state DL_UNUSED)
{
    size_t count;
    assert_int_equal(run_command("a.dlt", "b.dlt", &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(run_command("--steps=3", "b.dlt", &count), 1);
    assert_int_equal(count, 1);
    assert_int_equal(run_command("--stops=3", "b.dlt", &count), 2);
    assert_int_equal(count, 0);
    set.steps = 100;
    assert_int_equal(run_command("--version", "b.dlt", &count), 0);
    assert_int_equal(count, 0);
}

/* Rejected on parsing, not on first use. */
static void regexes_must_compile(void **state DL_UNUSED)
{
    const char *marks = NULL;
    const dl_option only[] = {{.name = "marks",
                               .type = DL_OPTION_REGEX,
                               .target = (void *)&marks,
                               .argument = "REGEX",
                               .help = "Steps."}};
    const dl_command with_regex = {
        .program = "info", .positional = "", .summary = "", .options = only, .option_count = 1};
    dl_options_action action;
    dl_error err = {0};
    char *good[] = {(char *)"info", (char *)"--marks=^st(e|o)p$", NULL};
    assert_int_equal(dl_options_parse(&with_regex, 2, good, &rest, &action, &err), DL_OK);
    assert_string_equal(marks, "^st(e|o)p$");
    char *bad[] = {(char *)"info", (char *)"--marks=st(", NULL};
    assert_int_equal(dl_options_parse(&with_regex, 2, bad, &rest, &action, &err), DL_ERR_USAGE);
    assert_contains(err.text, "--marks: 'st(': ");
    assert_string_equal(marks, "^st(e|o)p$");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_defaults, free_lists)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_type_is_set),
        TEST(letters_may_stand_together_and_the_last_counts),
        TEST(bad_usage_names_the_option),
        TEST(a_kind_needs_no_argument),
        TEST(help_shows_ranges_units_and_defaults),
        TEST(help_lists_options_by_group),
        TEST(version_names_the_program),
        TEST(dump_tells_all_settings),
        TEST(bound_targets_lie_in_the_settings),
        TEST(command_without_options_takes_nothing),
        TEST(subcommands_are_dispatched),
        TEST(subcommands_explain_themselves),
        TEST(a_program_that_could_not_print_all_fails),
        TEST(commands_run_and_tell_how_they_ended),
        TEST(regexes_must_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
