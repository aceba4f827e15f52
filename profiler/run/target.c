#include "profiler/run/target.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/alloc.h"
#include "common/units.h"

/* What shells answer where a program cannot be run, and add to the signal that killed one. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128

static const int forwarded_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
#define FORWARDED_COUNT (sizeof forwarded_signals / sizeof forwarded_signals[0])

dl_environment dl_environment_copy(char *const *from)
{
    dl_environment made = {0};
    while (from[made.count] != NULL)
        made.count++;
    made.items = dl_calloc(made.count + 1, sizeof *made.items, "environment");
    for (size_t i = 0; i < made.count; i++)
        made.items[i] = dl_strdup(from[i]);
    return made;
}

/* Where the variable is, or environment->count. */
static size_t find(const dl_environment *environment, const char *name)
{
    const size_t length = strlen(name);
    size_t i = 0;
    while (i < environment->count && (strncmp(environment->items[i], name, length) != 0 ||
                                      environment->items[i][length] != '='))
        i++;
    return i;
}

const char *dl_environment_get(const dl_environment *environment, const char *name)
{
    const size_t i = find(environment, name);
    return i < environment->count ? environment->items[i] + strlen(name) + 1 : NULL;
}

void dl_environment_set(dl_environment *environment, const char *name, const char *value)
{
    char *item = dl_format("%s=%s", name, value);
    const size_t i = find(environment, name);
    if (i < environment->count) {
        free(environment->items[i]);
    } else {
        environment->count++;
        environment->items = dl_realloc(environment->items, environment->count + 1,
                                        sizeof *environment->items, "environment");
        environment->items[environment->count] = NULL;
    }
    environment->items[i] = item;
}

void dl_environment_unset(dl_environment *environment, const char *name)
{
    const size_t i = find(environment, name);
    if (i == environment->count) return;
    free(environment->items[i]);
    memmove(&environment->items[i], &environment->items[i + 1],
            (environment->count - i) * sizeof *environment->items);
    environment->count--;
}

void dl_environment_free(dl_environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->items[i]);
    free(environment->items);
    *environment = (dl_environment){0};
}

/* The target that signals are sent on to; 0 = none (yet). The handler, which may run on any thread,
 * has no other way to know. */
static _Atomic pid_t target;
static atomic_bool pending[FORWARDED_COUNT]; /* came and was not yet sent on */

/* Sends a signal on, once for whoever comes here first; without a target it stays pending. */
static void send_on(size_t index)
{
    const pid_t pid = atomic_load(&target);
    if (pid > 0 && atomic_exchange(&pending[index], false)) kill(pid, forwarded_signals[index]);
}

/* Sends on what a process (si_code <= 0) sent to us; what the kernel sends, as for Ctrl-C, goes to
 * the whole group. */
static void forward(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code > 0) return;
    const int kept = errno;
    for (size_t i = 0; i < FORWARDED_COUNT; i++) {
        if (forwarded_signals[i] != number) continue;
        atomic_store(&pending[i], true);
        send_on(i);
    }
    errno = kept;
}

/* How the signals acted before. */
typedef struct signal_state {
    struct sigaction forwarded[FORWARDED_COUNT], child;
} signal_state;

/* A signal that is ignored stays so, for the target too (nohup). Where a parent made us ignore
 * SIGCHLD, the kernel would throw the exit code away. */
static void take_signals(signal_state *state)
{
    const struct sigaction ours = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO};
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    atomic_store(&target, 0);
    for (size_t i = 0; i < FORWARDED_COUNT; i++) {
        atomic_store(&pending[i], false);
        sigaction(forwarded_signals[i], NULL, &state->forwarded[i]);
        if (state->forwarded[i].sa_handler == SIG_IGN) continue;
        sigaction(forwarded_signals[i], &ours, NULL);
    }
    sigaction(SIGCHLD, &usual, &state->child);
}

static void give_signals_back(const signal_state *state)
{
    for (size_t i = 0; i < FORWARDED_COUNT; i++)
        sigaction(forwarded_signals[i], &state->forwarded[i], NULL);
    sigaction(SIGCHLD, &state->child, NULL);
}

/* Waits for the end of the target, to which signals go from here on and until its number is free
 * for other processes; returns what waitpid says. */
static int wait_for_end(pid_t pid)
{
    atomic_store(&target, pid);
    for (size_t i = 0; i < FORWARDED_COUNT; i++)
        send_on(i);
    siginfo_t info;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {}
    atomic_store(&target, 0);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

dl_status dl_target_run(char *const *argv, const dl_environment *environment, dl_target_end *end,
                        dl_error *err)
{
    signal_state state;
    take_signals(&state);
    pid_t pid = 0;
    *end = (dl_target_end){0};
    const int64_t start_ns = dl_clock_ns();
    const int reason = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environment->items);
    const int status = reason == 0 ? wait_for_end(pid) : 0;
    end->elapsed_ns = dl_clock_ns() - start_ns;
    give_signals_back(&state);
    if (reason != 0) {
        end->exit_code = reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
        return dl_error_set_at(err, DL_ERR_IO, argv[0], 0, "cannot run it: %s", strerror(reason));
    }
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end->exit_code = end->signal != 0 ? EXIT_SIGNAL + end->signal : WEXITSTATUS(status);
    return DL_OK;
}
