/* The profiled program: environment, exit code, signals. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

#include "profiler/run/target.h"

/* Runs `script` with the shell, as "$0" with "$1" = argument. */
static dl_target_end run_script(const char *script, const char *argument)
{
    setenv("TARGET_VARIABLE", "for the target", 1);
    char shell[] = "sh", option[] = "-c";
    char *const argv[] = {shell, option, (char *)script, shell, (char *)argument, NULL};
    dl_target_end end;
    dl_error err = {0};
    if (dl_target_run(argv, &end, &err) != DL_OK) fail_msg("%s", err.text);
    return end;
}

static void exit_codes_pass(void **state DL_UNUSED)
{
    static const struct {
        const char *script;
        int exit_code, signal;
    } cases[] = {{"exit 0", 0, 0},
                 {"exit 1", 1, 0},
                 {"exit 255", 255, 0},
                 {"kill -TERM $$", 128 + SIGTERM, SIGTERM},
                 {"kill -KILL $$", 128 + SIGKILL, SIGKILL},
                 {"kill -SEGV $$", 128 + SIGSEGV, SIGSEGV},
                 /* the shell's own report of a killed child is an exit code */
                 {"sh -c 'kill -KILL $$'; exit $?", 128 + SIGKILL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const dl_target_end end = run_script(cases[i].script, "");
        assert_int_equal(end.exit_code, cases[i].exit_code);
        assert_int_equal(end.signal, cases[i].signal);
        assert_true(end.elapsed_ns > 0);
    }
}

static void arguments_and_environment_pass(void **state DL_UNUSED)
{
    const char *script = "test \"$1\" = 'two  words' && test \"$TARGET_VARIABLE\" = 'for the "
                         "target' || exit 3";
    assert_int_equal(run_script(script, "two  words").exit_code, 0);
}

static void says_what_cannot_run(void **state DL_UNUSED)
{
    static const struct {
        const char *program;
        int exit_code;
    } cases[] = {{"/no/such/program", 127}, {"/", 126}, {"/etc/passwd", 126}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *const argv[] = {(char *)cases[i].program, NULL};
        dl_target_end end;
        dl_error err = {0};
        assert_int_equal(dl_target_run(argv, &end, &err), DL_ERR_IO);
        assert_string_equal(err.file, cases[i].program);
        assert_contains(err.text, "cannot run");
        assert_int_equal(end.exit_code, cases[i].exit_code);
    }
}

/* Each signal that another process sends reaches the target once: the target counts them. */
static void signals_reach_the_target_once(void **state DL_UNUSED)
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM};
    static const char *const names[] = {"INT",  "TERM", "HUP",  "QUIT",
                                        "USR1", "USR2", "ALRM", "VTALRM"};
    const char *script = "count=0; trap 'count=$((count + 1))' $1; kill -$1 $PPID;"
                         "while [ $count -eq 0 ]; do sleep 0.05; done;"
                         "sleep 0.1; exit $count";
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction before, after;
        sigaction(numbers[i], NULL, &before);
        assert_int_equal(run_script(script, names[i]).exit_code, 1);
        sigaction(numbers[i], NULL, &after);
        assert_ptr_equal(before.sa_handler, after.sa_handler);
    }
}

static void *idle(void *stop)
{
    while (!atomic_load((atomic_bool *)stop))
        usleep(1000);
    return NULL;
}

/* Libraries start threads, and a signal to the process may be delivered to any of them. */
static void signals_may_reach_any_thread(void **state)
{
    atomic_bool stop = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, idle, &stop), 0);
    signals_reach_the_target_once(state);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

/* A signal to the whole group, such as a terminal's Ctrl-C, would end this test too: it runs in a
 * child with a separate group. A process's signal to the group cannot be told from one to dlprof
 * alone, and reaches the target twice; the test uses one that kills the target at the first
 * delivery. */
static void signals_to_the_group_end_the_target_only(void **state DL_UNUSED)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setpgid(0, 0);
        const dl_target_end end = run_script("kill -INT 0; sleep 1000", "");
        _exit(end.exit_code);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGINT);
}

/* The target inherits this process's mask and ignored signals (nohup). */
static void target_inherits_signal_settings(void **state DL_UNUSED)
{
    signal(SIGHUP, SIG_IGN);
    assert_int_equal(run_script("kill -HUP $$; exit 5", "").exit_code, 5);
    signal(SIGHUP, SIG_DFL);
    assert_int_equal(run_script("kill -HUP $$; exit 5", "").signal, SIGHUP);
}

/* As under nohup: the target ignores the signal, or handles it if it chooses to. The shell cannot
 * trap a signal that was ignored at its start; Python can. */
static void an_ignored_signal_is_sent_on(void **state DL_UNUSED)
{
    signal(SIGHUP, SIG_IGN);
    assert_int_equal(run_script("kill -HUP $PPID; sleep 0.1; exit 5", "").exit_code, 5);
    char python[] = "python3", option[] = "-c";
    char script[] = "import os, signal, time\n"
                    "signal.signal(signal.SIGHUP, lambda number, frame: os._exit(6))\n"
                    "os.kill(os.getppid(), signal.SIGHUP)\ntime.sleep(60)\n";
    char *const argv[] = {python, option, script, NULL};
    dl_target_end end;
    dl_error err = {0};
    const dl_status status = dl_target_run(argv, &end, &err);
    signal(SIGHUP, SIG_DFL);
    if (end.exit_code == 127) skip(); /* Python is missing */
    assert_int_equal(status, DL_OK);
    assert_int_equal(end.exit_code, 6);
}

/* A parent's alarm() ends the target, as it would without dlprof, and not dlprof, which is a child
 * here. SIGCHLD, bit 16 of the mask of ignored signals, stays ignored. */
static void the_target_has_what_the_program_would_inherit(void **state DL_UNUSED)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(1);
        const dl_target_end end = run_script("exec sleep 1000", "");
        _exit(end.signal == SIGALRM && alarm(0) == 0 ? 3 : 4);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    signal(SIGCHLD, SIG_IGN);
    char shell[] = "grep", quiet[] = "-q", pattern[] = "^SigIgn:.*[13579bdf]....$",
         file[] = "/proc/self/status";
    char *const argv[] = {shell, quiet, pattern, file, NULL};
    dl_target_end end;
    dl_error err = {0};
    assert_int_equal(dl_target_run(argv, &end, &err), DL_OK);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(end.exit_code, 0);
    assert_int_equal(dl_target_run(argv, &end, &err), DL_OK);
    assert_int_equal(end.exit_code, 1);
}

/* As with execvp and shells: a script without #! is run by the shell, given by its path or found in
 * PATH. */
static void a_script_without_an_interpreter_is_the_shells(void **state DL_UNUSED)
{
    static const char path[] = "./target-script";
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("test \"$1\" = 'two  words' && exit 6\n", file);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
    DL_AUTOFREE char *before = strdup(getenv("PATH"));
    DL_AUTOFREE char *both = NULL;
    assert_true(asprintf(&both, ".:%s", before) > 0);
    static const char *const names[] = {path, "target-script"};
    setenv("PATH", both, 1);
    for (int i = 0; i < 2; i++) {
        char argument[] = "two  words";
        char *const argv[] = {(char *)names[i], argument, NULL};
        dl_target_end end;
        dl_error err = {0};
        assert_int_equal(dl_target_run(argv, &end, &err), DL_OK);
        assert_int_equal(end.exit_code, 6);
    }
    setenv("PATH", before, 1);
    unlink(path);
}

static void exit_code_survives_ignored_children(void **state DL_UNUSED)
{
    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(run_script("exit 7", "").exit_code, 7);
    struct sigaction after;
    sigaction(SIGCHLD, NULL, &after);
    assert_ptr_equal(after.sa_handler, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
}

/* Children left behind by the target, and earlier children of this process, do not disturb the
 * wait. */
static void other_children_do_not_matter(void **state DL_UNUSED)
{
    const pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        usleep(20000);
        _exit(9);
    }
    assert_int_equal(run_script("sleep 0.1; exit 4", "").exit_code, 4);
    int status = 0;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(WEXITSTATUS(status), 9);
}

static void exports_of_libraries(void **state DL_UNUSED)
{
    assert_true(dl_run_library_exports("libm.so.6", "cos"));
    assert_false(dl_run_library_exports("libm.so.6", DL_NVTX_ENTRY));
    assert_true(dl_run_library_exports("/no/such/library.so", DL_NVTX_ENTRY));
}

int main(void)
{
    /* A shell's background jobs ignore these signals, and a process cannot trap a signal that it
     * ignores from its start. */
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_pass),
        cmocka_unit_test(exports_of_libraries),
        cmocka_unit_test(arguments_and_environment_pass),
        cmocka_unit_test(says_what_cannot_run),
        cmocka_unit_test(signals_reach_the_target_once),
        cmocka_unit_test(signals_may_reach_any_thread),
        cmocka_unit_test(signals_to_the_group_end_the_target_only),
        cmocka_unit_test(target_inherits_signal_settings),
        cmocka_unit_test(an_ignored_signal_is_sent_on),
        cmocka_unit_test(the_target_has_what_the_program_would_inherit),
        cmocka_unit_test(a_script_without_an_interpreter_is_the_shells),
        cmocka_unit_test(exit_code_survives_ignored_children),
        cmocka_unit_test(other_children_do_not_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
