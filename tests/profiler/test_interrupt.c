/* SIGINT and SIGTERM as requests to stop. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

#include "profiler/interrupt.h"

static void first_signal_asks_to_stop(void **state DL_UNUSED)
{
    const atomic_bool *stop = dl_interrupt_catch(60);
    assert_false(*stop);
    assert_false(dl_interrupt_caught());
    raise(SIGINT);
    assert_true(*stop);
    assert_true(dl_interrupt_caught());
    assert_ptr_equal(dl_interrupt_catch(60), stop); /* next run */
    assert_false(*stop);
    raise(SIGINT);
    assert_true(*stop);
}

/* Exit status and name are those of the first signal. */
static void both_signals_are_caught(void **state DL_UNUSED)
{
    static const struct {
        int number, exit_code;
        const char *name;
    } cases[] = {{SIGINT, 130, "SIGINT"}, {SIGTERM, 143, "SIGTERM"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const atomic_bool *stop = dl_interrupt_catch(60);
        assert_false(*stop);
        raise(cases[i].number);
        assert_true(*stop);
        assert_int_equal(dl_interrupt_exit_code(), cases[i].exit_code);
        assert_string_equal(dl_interrupt_name(), cases[i].name);
    }
}

/* For each order of the two signals. */
static void second_signal_kills(void **state DL_UNUSED)
{
    static const int pairs[][2] = {
        {SIGINT, SIGINT}, {SIGTERM, SIGTERM}, {SIGINT, SIGTERM}, {SIGTERM, SIGINT}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)dl_interrupt_catch(60);
            raise(pairs[i][0]);
            if (!dl_interrupt_caught()) _exit(1);
            raise(pairs[i][1]);
            _exit(2);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), pairs[i][1]);
    }
}

/* For example, a library retries forever to allocate memory. */
static void a_stop_that_does_not_come_is_forced(void **state DL_UNUSED)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dl_interrupt_catch(1);
        raise(SIGTERM);
        for (;;)
            pause();
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 143);
}

static void a_stop_that_came_is_not(void **state DL_UNUSED)
{
    (void)dl_interrupt_catch(60);
    raise(SIGINT);
    dl_interrupt_met();
    assert_int_equal(alarm(0), 0); /* no alarm was set */
    (void)dl_interrupt_catch(60);
    dl_interrupt_met();
    raise(SIGINT); /* after the training has ended */
    assert_int_equal(alarm(0), 0);
}

static void ignored_stays_ignored(void **state DL_UNUSED)
{
    struct sigaction before;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &ignore, &before);
    const atomic_bool *stop = dl_interrupt_catch(60);
    raise(SIGINT);
    assert_false(*stop);
    raise(SIGTERM); /* the other signal is still caught */
    assert_true(*stop);
    sigaction(SIGINT, &before, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_signal_asks_to_stop),
                                       cmocka_unit_test(both_signals_are_caught),
                                       cmocka_unit_test(second_signal_kills),
                                       cmocka_unit_test(a_stop_that_does_not_come_is_forced),
                                       cmocka_unit_test(a_stop_that_came_is_not),
                                       cmocka_unit_test(ignored_stays_ignored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
