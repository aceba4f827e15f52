#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/output.h"

/* Each test starts in an empty folder. */
static char folder[] = "test_output_XXXXXX";

static int make_folder(void **state DL_UNUSED)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int remove_folder(void **state DL_UNUSED)
{
    DL_AUTOFREE char *command = dl_format("rm -rf %s", folder);
    return chdir("..") != 0 || system(command) != 0;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void check_holds(const char *path, const char *expected)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    assert_int_equal(dl_file_read(path, &text, &bytes, &err), DL_OK);
    assert_string_equal(text, expected);
}

/* Returns the number of entries, including hidden ones, except "." and "..". */
static int count_entries(void)
{
    int count = 0;
    DIR *dir = opendir(".");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2;
}

static void write_text(const char *path, const char *text)
{
    dl_output output = {0};
    dl_error err = {0};
    if (dl_output_open(&output, path, &err) != DL_OK) fail_msg("%s", err.text);
    fputs(text, output.out);
    if (dl_output_close(&output, &err) != DL_OK) fail_msg("%s", err.text);
    assert_null(output.out);
}

static void check_refused(const char *path, const char *says)
{
    dl_output output = {0};
    dl_error err = {0};
    assert_int_equal(dl_output_open(&output, path, &err), DL_ERR_IO);
    assert_string_equal(err.file, path);
    assert_contains(err.text, says);
    assert_null(output.file);
}

static void the_file_appears_when_it_is_whole(void **state DL_UNUSED)
{
    dl_output output = {0};
    dl_error err = {0};
    DL_AUTOFREE char *partial = dl_format(".x.partial-%ld", (long)getpid());
    assert_int_equal(dl_output_open(&output, "x", &err), DL_OK);
    assert_int_equal(access("x", F_OK), -1);
    assert_int_equal(access(partial, F_OK), 0);
    fputs("new", output.out);
    assert_int_equal(dl_output_close(&output, &err), DL_OK);
    check_holds("x", "new");
    assert_int_equal(count_entries(), 1);
}

static void an_abandoned_one_leaves_the_old_file(void **state DL_UNUSED)
{
    put("x", "old");
    const char *const paths[] = {"x", "fresh"};
    for (int i = 0; i < 2; i++) {
        dl_output output = {0};
        dl_error err = {0};
        assert_int_equal(dl_output_open(&output, paths[i], &err), DL_OK);
        fputs("new", output.out);
        assert_int_equal(dl_output_end(&output, DL_ERR_DATA, &err), DL_ERR_DATA);
        dl_output_abandon(&output); /* already empty */
    }
    check_holds("x", "old");
    assert_int_equal(count_entries(), 1);
}

static mode_t mode_of(const char *path)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    return found.st_mode & 07777;
}

static void permission_bits_stay_and_new_ones_follow_the_umask(void **state DL_UNUSED)
{
    const mode_t old = umask(027);
    put("x", "old");
    assert_int_equal(chmod("x", 0604), 0);
    write_text("x", "new");
    write_text("fresh", "new");
    umask(old);
    assert_int_equal(mode_of("x"), 0604);
    assert_int_equal(mode_of("fresh"), 0640);
}

static bool is_link(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 && S_ISLNK(found.st_mode);
}

/* A chain of links in two folders, to a file and to none. */
static void links_stay_links(void **state DL_UNUSED)
{
    assert_int_equal(mkdir("data", 0777), 0);
    put("data/x", "old");
    assert_int_equal(symlink("x", "data/second"), 0);
    assert_int_equal(symlink("data/second", "first"), 0);
    write_text("first", "new");
    assert_true(is_link("first") && is_link("data/second"));
    check_holds("data/x", "new");
    assert_int_equal(symlink("data/fresh", "dangling"), 0);
    write_text("dangling", "new");
    assert_true(is_link("dangling"));
    check_holds("data/fresh", "new");
    assert_int_equal(symlink("loop", "loop"), 0);
    check_refused("loop", "symbolic links");
}

static void two_open_ones_of_a_name_have_files_of_their_own(void **state DL_UNUSED)
{
    dl_output first = {0}, second = {0};
    dl_error err = {0};
    assert_int_equal(dl_output_open(&first, "x", &err), DL_OK);
    assert_int_equal(dl_output_open(&second, "x", &err), DL_OK);
    fputs("first", first.out);
    fputs("second", second.out);
    assert_int_equal(dl_output_close(&second, &err), DL_OK);
    assert_int_equal(dl_output_close(&first, &err), DL_OK);
    check_holds("x", "first");
    assert_int_equal(count_entries(), 1);
}

static void names_may_be_as_long_as_the_system_lets_them(void **state DL_UNUSED)
{
    char name[257];
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    write_text(name, "new");
    check_holds(name, "new");
    name[255] = 'n';
    name[256] = '\0';
    dl_output output = {0};
    dl_error err = {0};
    assert_int_equal(dl_output_open(&output, name, &err), DL_ERR_IO);
    assert_contains(err.text, "too long");
}

static void names_that_cannot_be_written_are_refused(void **state DL_UNUSED)
{
    dl_output output = {0};
    dl_error err = {0};
    assert_int_equal(dl_output_open(&output, "", &err), DL_ERR_USAGE);
    assert_contains(err.text, "is empty");
    put("x", "old");
    check_refused("no/such/folder", "cannot create: No such file");
    check_refused(".", "directory");
    check_refused("fresh/", "directory");
    check_refused("x/y", "Not a directory");
    assert_int_equal(chmod("x", 0444), 0);
    if (access("x", W_OK) != 0) check_refused("x", "Permission denied"); /* except for root */
    check_holds("x", "old");
    assert_int_equal(count_entries(), 1);
}

/* A file size limit simulates a full disk. */
static void a_full_disk_is_told_and_leaves_the_old_file(void **state DL_UNUSED)
{
    put("x", "old");
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {.rlim_cur = 10000, .rlim_max = old.rlim_max};
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    const int sizes[] = {10001, 100000}; /* detected at the close, and long before it */
    for (int i = 0; i < 2; i++) {
        dl_output output = {0};
        dl_error err = {0};
        assert_int_equal(dl_output_open(&output, "x", &err), DL_OK);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        for (int b = 0; b < sizes[i]; b++)
            fputc('n', output.out);
        const dl_status status = dl_output_close(&output, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(status, DL_ERR_IO);
        assert_string_equal(err.file, "x");
        assert_string_equal(err.text, "cannot write: File too large");
        check_holds("x", "old");
        assert_int_equal(count_entries(), 1);
    }
    signal(SIGXFSZ, handler);
}

static void a_target_that_became_a_folder_is_told(void **state DL_UNUSED)
{
    dl_output output = {0};
    dl_error err = {0};
    assert_int_equal(dl_output_open(&output, "x", &err), DL_OK);
    assert_int_equal(mkdir("x", 0777), 0);
    assert_int_equal(dl_output_close(&output, &err), DL_ERR_IO);
    assert_contains(err.text, "cannot replace it: Is a directory");
    assert_int_equal(count_entries(), 1);
}

static void devices_are_written_directly(void **state DL_UNUSED)
{
    write_text("/dev/null", "new");
    struct stat found;
    assert_int_equal(stat("/dev/null", &found), 0);
    assert_true(S_ISCHR(found.st_mode));
    if (access("/dev/full", W_OK) != 0) return;
    dl_output output = {0};
    dl_error err = {0};
    assert_int_equal(dl_output_open(&output, "/dev/full", &err), DL_OK);
    fputs("new", output.out);
    assert_int_equal(dl_output_close(&output, &err), DL_ERR_IO);
    assert_string_equal(err.text, "cannot write: No space left on device");
}

static void a_fifo_is_written_directly(void **state DL_UNUSED)
{
    assert_int_equal(mkfifo("pipe", 0666), 0);
    const int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    write_text("pipe", "new");
    char text[8] = "";
    assert_int_equal(read(reader, text, sizeof text), 3);
    assert_string_equal(text, "new");
    close(reader);
    assert_int_equal(count_entries(), 1);
}

/* Runs in a child whose standard output is a file: printed and written text appear in order. */
static void the_file_of_standard_output_is_written_in_turn(void **state DL_UNUSED)
{
    const char *const names[] = {"/dev/stdout", "printed"};
    for (int i = 0; i < 2; i++) {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (freopen("printed", "w", stdout) == NULL) _exit(1);
            printf("before ");
            dl_output output = {0};
            if (dl_output_open(&output, names[i], NULL) != DL_OK) _exit(2);
            fputs("output ", output.out);
            if (dl_output_close(&output, NULL) != DL_OK) _exit(3);
            printf("after");
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        check_holds("printed", "before output after");
    }
}

static dl_status close_text(const char *path, const char *text, dl_error *err)
{
    dl_output output = {0};
    if (dl_output_open(&output, path, err) != DL_OK) fail_msg("%s", err->text);
    fputs(text, output.out);
    return dl_output_close(&output, err);
}

/* Three files, the second of which is new: none exists before the end, all do after it. */
static void held_outputs_appear_together(void **state DL_UNUSED)
{
    dl_error err = {0};
    put("a", "old a");
    put("c", "old c");
    dl_outputs_hold();
    assert_int_equal(close_text("a", "new a", &err), DL_OK);
    assert_int_equal(close_text("b", "new b", &err), DL_OK);
    assert_int_equal(close_text("c", "new c", &err), DL_OK);
    check_holds("a", "old a");
    assert_int_not_equal(access("b", F_OK), 0);
    assert_int_equal(dl_outputs_end(DL_OK, &err), DL_OK);
    check_holds("a", "new a");
    check_holds("b", "new b");
    check_holds("c", "new c");
    assert_int_equal(count_entries(), 3);
    assert_int_equal(close_text("a", "newest", &err), DL_OK); /* no longer held */
    check_holds("a", "newest");
}

static void held_outputs_stay_away_together(void **state DL_UNUSED)
{
    dl_error err = {0};
    put("a", "old a");
    /* The command fails after its first file. */
    dl_outputs_hold();
    assert_int_equal(close_text("a", "new a", &err), DL_OK);
    assert_int_equal(dl_outputs_end(DL_ERR_DATA, &err), DL_ERR_DATA);
    check_holds("a", "old a");
    assert_int_equal(count_entries(), 1);
    /* The last target has become a folder: earlier targets are restored. */
    dl_outputs_hold();
    assert_int_equal(close_text("a", "new a", &err), DL_OK);
    assert_int_equal(close_text("b", "new b", &err), DL_OK);
    assert_int_equal(close_text("c", "new c", &err), DL_OK);
    assert_int_equal(mkdir("c", 0777), 0);
    put("c/x", "x");
    assert_int_equal(dl_outputs_end(DL_OK, &err), DL_ERR_IO);
    assert_string_equal(err.file, "c");
    assert_contains(err.text, "cannot replace it");
    check_holds("a", "old a");
    assert_int_not_equal(access("b", F_OK), 0);
    assert_int_equal(count_entries(), 2);
}

/* Runs a child that prints after dl_output_start, with standard output and standard error in
 * "printed". */
static void print_started(const char *text, bool to_stderr)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int fd = open("printed", O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(1);
        dl_output_start();
        fputs(text, to_stderr ? stderr : stdout);
        if (fflush(stdout) != 0) _exit(2);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void control_characters_are_escaped(void **state DL_UNUSED)
{
    const char *const cases[][2] = {
        {"plain\ttext\n", "plain\ttext\n"},
        {"\033[31mred\033]0;title\a", "\\u001b[31mred\\u001b]0;title\\u0007"},
        {"over\rwritten\b\177", "over\\u000dwritten\\u0008\\u007f"},
        {"caf\u00e9 \u4e2d \U0001f600", "caf\u00e9 \u4e2d \U0001f600"},
        {"\u00a0\xc2\x9b"
         "31m",
         "\u00a0\\u009b31m"}, /* CSI as one character */
        {"\x9b"
         "31m \xff \xe4\x1b",
         "\\u009b31m \\u00ff \xe4\\u001b"},
        {"\x80 rest", "\\u0080 rest"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_started(cases[i][0], i % 2 == 1);
        check_holds("printed", cases[i][1]);
    }
    DL_AUTOFREE char *many = dl_format("%05000d\033", 0); /* more than the filter's buffer */
    DL_AUTOFREE char *expected = dl_format("%05000d\\u001b", 0);
    print_started(many, false);
    check_holds("printed", expected);
}

/* With a file size limit of 8 bytes, the write fails and the program continues. */
static void a_limit_on_files_fails_the_write(void **state DL_UNUSED)
{
    put("x", "old");
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {8, 8};
        dl_output output = {0};
        dl_error err = {0};
        signal(SIGXFSZ, SIG_DFL);
        dl_output_start();
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || dl_output_open(&output, "x", &err) != DL_OK) {
            _exit(1);
        }
        fputs("more than eight", output.out);
        _exit(dl_output_close(&output, &err) == DL_ERR_IO &&
                      strstr(err.text, "File too large") != NULL
                  ? 0
                  : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_holds("x", "old");
    assert_int_equal(count_entries(), 1);
}

static dl_status check_roles(const char *output, const char *timeline, const char *input,
                             dl_error *err)
{
    const dl_file_role outputs[] = {{"--output", output}, {"--timeline", timeline}};
    const dl_file_role inputs[] = {{"the cost file", NULL}, {"the scenario", input}};
    return dl_outputs_check(outputs, 2, inputs, 2, err);
}

static void outputs_must_be_files_of_their_own(void **state DL_UNUSED)
{
    assert_int_equal(mkdir("data", 0777), 0);
    put("x", "old");
    assert_int_equal(symlink("x", "to_x"), 0);
    assert_int_equal(symlink("fresh", "to_fresh"), 0);
    const struct {
        const char *output, *timeline, *input, *says;
    } cases[] = {
        {"x", NULL, "y", NULL},
        {"fresh", "other", "x", NULL},
        {"data/x", "x", "y", NULL},
        {"data/fresh", "fresh", "x", NULL},
        {"/dev/null", "/dev/null", "/dev/null", NULL},
        {"/dev/stdout", NULL, "x", NULL},
        {"x", NULL, "x", "--output would overwrite the scenario: x"},
        {"x", NULL, "data/../x", "--output would overwrite the scenario"},
        {"to_x", NULL, "x", "--output would overwrite the scenario"},
        {NULL, "x", "to_x", "--timeline would overwrite the scenario"},
        {"x", "./x", "y", "--timeline is the same file as --output: ./x"},
        {"fresh", "data/../fresh", "y", "--timeline is the same file as --output"},
        {"fresh", "to_fresh", "y", "--timeline is the same file as --output"},
        {"", NULL, "y", "--output: the name of the file is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error err = {0};
        const dl_status status =
            check_roles(cases[i].output, cases[i].timeline, cases[i].input, &err);
        assert_int_equal(status, cases[i].says != NULL ? DL_ERR_USAGE : DL_OK);
        if (cases[i].says != NULL) assert_contains(err.text, cases[i].says);
    }
}

static void each_of_many_inputs_is_kept(void **state DL_UNUSED)
{
    put("b", "old");
    const dl_file_role output = {"--output", "./b"};
    const char *const paths[] = {"a", "b", "c"};
    dl_error err = {0};
    assert_int_equal(dl_outputs_check_paths(&output, 1, "a trace", paths, 1, &err), DL_OK);
    assert_int_equal(dl_outputs_check_paths(&output, 1, "a trace", paths, 3, &err), DL_ERR_USAGE);
    assert_string_equal(err.text, "--output would overwrite a trace: ./b");
}

static void outputs_that_cannot_be_written_are_told_before_the_work(void **state DL_UNUSED)
{
    dl_error err = {0};
    assert_int_equal(check_roles("no/such/x", NULL, NULL, &err), DL_ERR_IO);
    assert_string_equal(err.file, "no/such/x");
    assert_string_equal(err.text, "cannot create: No such file or directory");
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(check_roles("loop", NULL, NULL, &err), DL_ERR_IO);
    put("x", "old");
    assert_int_equal(chmod("x", 0444), 0);
    if (access("x", W_OK) == 0) return; /* root has access */
    assert_int_equal(check_roles("x", NULL, NULL, &err), DL_ERR_IO);
    assert_string_equal(err.text, "cannot create: Permission denied");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_file_appears_when_it_is_whole),
        TEST(an_abandoned_one_leaves_the_old_file),
        TEST(permission_bits_stay_and_new_ones_follow_the_umask),
        TEST(links_stay_links),
        TEST(two_open_ones_of_a_name_have_files_of_their_own),
        TEST(names_may_be_as_long_as_the_system_lets_them),
        TEST(names_that_cannot_be_written_are_refused),
        TEST(a_full_disk_is_told_and_leaves_the_old_file),
        TEST(a_target_that_became_a_folder_is_told),
        TEST(devices_are_written_directly),
        TEST(a_fifo_is_written_directly),
        TEST(the_file_of_standard_output_is_written_in_turn),
        TEST(held_outputs_appear_together),
        TEST(held_outputs_stay_away_together),
        TEST(control_characters_are_escaped),
        TEST(a_limit_on_files_fails_the_write),
        TEST(outputs_must_be_files_of_their_own),
        TEST(each_of_many_inputs_is_kept),
        TEST(outputs_that_cannot_be_written_are_told_before_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
