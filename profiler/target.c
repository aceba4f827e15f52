#include "profiler/target.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
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

/* The signals of this process as they were, while they are taken one by one. */
typedef struct signal_state {
    sigset_t taken, mask;
    struct sigaction child;
} signal_state;

/* From here on the forwarded signals and SIGCHLD wait until they are asked for. */
static void take_signals(signal_state *state)
{
    sigemptyset(&state->taken);
    for (size_t i = 0; i < FORWARDED_COUNT; i++)
        sigaddset(&state->taken, forwarded_signals[i]);
    sigaddset(&state->taken, SIGCHLD);
    sigprocmask(SIG_BLOCK, &state->taken, &state->mask);
    /* Where a parent made us ignore SIGCHLD, the kernel would throw the exit code away. */
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &usual, &state->child);
}

/* What came too late to be forwarded is dropped: it was meant to end the target, which has ended.
 */
static void give_signals_back(const signal_state *state)
{
    const struct timespec now = {0};
    while (sigtimedwait(&state->taken, NULL, &now) > 0 || errno == EINTR) {}
    sigaction(SIGCHLD, &state->child, NULL);
    sigprocmask(SIG_SETMASK, &state->mask, NULL);
}

/* Starts the target with the signals as they were before they were taken. */
static int start(char *const *argv, const dl_environment *environment, const signal_state *state,
                 pid_t *pid)
{
    posix_spawnattr_t attributes;
    int reason = posix_spawnattr_init(&attributes);
    if (reason != 0) return reason;
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &state->mask);
    reason = posix_spawnp(pid, argv[0], NULL, &attributes, argv, environment->items);
    posix_spawnattr_destroy(&attributes);
    return reason;
}

/* Waits for the end and sends on what a process (si_code <= 0) sent to us alone. */
static int wait_for_end(pid_t pid, const signal_state *state)
{
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        siginfo_t info;
        const int number = sigwaitinfo(&state->taken, &info);
        if (number > 0 && number != SIGCHLD && info.si_code <= 0) kill(pid, number);
    }
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
    const int reason = start(argv, environment, &state, &pid);
    const int status = reason == 0 ? wait_for_end(pid, &state) : 0;
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
