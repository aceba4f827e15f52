#include "profiler/run/target.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "profiler/run/run_traces.h"

#define DL_RUN_CLAIM ".dlprof-run" /* folder inside the traces' folder while a run uses it */

/* Maximum runs of one command that may start in the same second; more would be a mistake. */
#define SAME_SECOND_MAX 1000

/* Variables that name a library to load: for the driver at its start, for NVTX in each library that
 * contains it, and for NCCL. */
static const char *const injection_variables[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
                                                  "NCCL_PROFILER_PLUGIN"};

#define INJECTIONS 2
#define INJECTIONS_WITH_NCCL 3

bool dl_run_library_exports(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) return true;
    const bool found = dlsym(handle, name) != NULL;
    dlclose(handle);
    return found;
}

static dl_status cannot_make(const char *folder, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_IO, folder, 0, "cannot make the folder: %s",
                           strerror(errno));
}

/* Creates a new folder; free() its name. */
static dl_status make_default(const char *command, char **folder, dl_error *err)
{
    const char *name = dl_base_name(command);
    char when[32];
    const time_t now = time(NULL);
    struct tm local;
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    char *path = dl_format("dlprof.%s.%s", name, when);
    for (int again = 2; mkdir(path, 0777) != 0; again++) {
        const bool taken = errno == EEXIST && again < SAME_SECOND_MAX;
        const dl_status status = taken ? DL_OK : cannot_make(path, err);
        free(path);
        if (!taken) return status;
        path = dl_format("dlprof.%s.%s.%d", name, when, again);
    }
    *folder = path;
    return DL_OK;
}

dl_status dl_run_writable(const char *folder, dl_error *err)
{
    static const char text[] = "dlprof run";
    DL_AUTOFREE char *path = dl_format("%s/.dlprof.XXXXXX", folder);
    const int file = mkstemp(path);
    bool good = file >= 0;
    if (good) {
        errno = ENOSPC; /* for a short write */
        good = write(file, text, sizeof text) == (ssize_t)sizeof text;
        const int error = errno;
        close(file);
        unlink(path);
        errno = error;
    }
    if (!good) {
        dl_error_set_at(err, DL_ERR_IO, folder, 0, "cannot write into it: %s", strerror(errno));
    }
    return good ? DL_OK : DL_ERR_IO;
}

static char *claim_of(const char *folder)
{
    return dl_format("%s/" DL_RUN_CLAIM, folder);
}

/* Claims the folder: only one of several concurrent runs can create the subfolder. */
static dl_status claim(const char *folder, dl_error *err)
{
    DL_AUTOFREE char *path = claim_of(folder);
    const int error = mkdir(path, 0777) == 0 ? 0 : errno;
    if (error == 0) return DL_OK;
    if (error != EEXIST) {
        return dl_error_set_at(err, DL_ERR_IO, folder, 0, "cannot write into it: %s",
                               strerror(error));
    }
    return dl_error_set_at(
        err, DL_ERR_IO, folder, 0,
        "another dlprof run records into it (if that was killed: remove " DL_RUN_CLAIM " in it)");
}

void dl_run_release(const char *folder)
{
    DL_AUTOFREE char *path = claim_of(folder);
    rmdir(path);
}

static dl_status use_claimed(const char *folder, dl_error *err)
{
    const dl_status status = dl_run_writable(folder, err);
    if (status != DL_OK) return status;
    if (dl_run_traces_any(folder)) {
        return dl_error_set_at(
            err, DL_ERR_IO, folder, 0,
            "holds traces or logs of another run already; -o names another folder");
    }
    return DL_OK;
}

/* Makes the folder unless *made, and claims it. After an error, removes it if it was made. */
static dl_status use(const char *folder, bool *made, dl_error *err)
{
    if (folder[0] == '\0') return dl_error_set(err, DL_ERR_USAGE, "--output names no folder");
    if (!*made) *made = mkdir(folder, 0777) == 0;
    if (!*made && errno != EEXIST) return cannot_make(folder, err);
    dl_status status = claim(folder, err);
    const bool claimed = status == DL_OK;
    if (claimed) status = use_claimed(folder, err);
    if (claimed && status != DL_OK) dl_run_release(folder);
    if (*made && status != DL_OK) rmdir(folder);
    return status;
}

dl_status dl_run_folder(const char *wanted, const char *command, char **path, bool *made,
                        dl_error *err)
{
    DL_AUTOFREE char *new_folder = NULL;
    *made = wanted == NULL;
    dl_status status = wanted != NULL ? DL_OK : make_default(command, &new_folder, err);
    const char *folder = wanted != NULL ? wanted : new_folder;
    if (status == DL_OK) status = use(folder, made, err);
    if (status != DL_OK) return status;
    char *absolute = realpath(folder, NULL);
    if (absolute == NULL) {
        status = dl_error_set_at(err, DL_ERR_IO, folder, 0, "%s", strerror(errno));
        dl_run_release(folder);
    } else {
        *path = absolute;
    }
    return status;
}

dl_status dl_run_environment(const char *library, const dl_capture_settings *settings, bool nccl,
                             bool force, dl_error *err)
{
    const int count = library == NULL ? 0 : nccl ? INJECTIONS_WITH_NCCL : INJECTIONS;
    for (int i = 0; i < count && !force; i++) {
        const char *other = getenv(injection_variables[i]);
        if (other == NULL || other[0] == '\0') continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "%s is set already, to %.200s: is another profiler at work? --force "
                            "replaces it",
                            injection_variables[i], other);
    }
    for (int i = 0; i < count; i++)
        setenv(injection_variables[i], library, 1);
    dl_capture_settings_to_environment(settings);
    unsetenv("KINETO_USE_DAEMON");
    return DL_OK;
}

void dl_run_python_path(const char *folder)
{
    const char *given = getenv("PYTHONPATH");
    const bool any = given != NULL && given[0] != '\0';
    DL_AUTOFREE char *path = dl_format("%s%s%s", folder, any ? ":" : "", any ? given : "");
    setenv("PYTHONPATH", path, 1);
}

/* Exit codes that shells return if a program cannot be run, and the offset for the signal that
 * killed one. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128

static const int forwarded_signals[] = {SIGINT,  SIGTERM, SIGHUP,    SIGQUIT, SIGUSR1,
                                        SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF};

#define FORWARDED_COUNT (sizeof forwarded_signals / sizeof forwarded_signals[0])

/* The target to which signals are passed on; 0 = none (yet). Global, as the handler may run on any
 * thread. */
static _Atomic pid_t target;
static atomic_bool pending[FORWARDED_COUNT]; /* received and not yet passed on */

/* Passes a pending signal on, once even with concurrent calls; without a target it stays
 * pending. */
static void send_on(size_t index)
{
    const pid_t pid = atomic_load(&target);
    if (pid > 0 && atomic_exchange(&pending[index], false)) kill(pid, forwarded_signals[index]);
}

/* Passes on signals that a process (si_code <= 0) sent to us; the kernel sends its own, such as
 * Ctrl-C's, to the whole group. */
static void forward(int number, siginfo_t *info, void *context DL_UNUSED)
{
    if (info->si_code > 0) return;
    const int kept = errno;
    for (size_t i = 0; i < FORWARDED_COUNT; i++) {
        if (forwarded_signals[i] != number) continue;
        atomic_store(&pending[i], true);
        send_on(i);
    }
    errno = kept;
}

static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

#define TIMER_COUNT (sizeof timers / sizeof timers[0])

/* Attributes that the target would inherit if it replaced this process, and must inherit as a
 * child. */
typedef struct inherited {
    struct sigaction forwarded[FORWARDED_COUNT], child;
    sigset_t mask;
    struct itimerval timers[TIMER_COUNT];
} inherited;

/* Catches the signals, also ignored ones: they stay ignored for the target (nohup), which may
 * choose to handle them. If a parent made us ignore SIGCHLD, the kernel would discard the exit
 * code. Running timers, such as a parent's alarm(), become the target's. */
static void take_signals(inherited *before)
{
    const struct sigaction ours = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO};
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    const struct itimerval none = {0};
    sigset_t all;
    sigfillset(&all);
    atomic_store(&target, 0);
    pthread_sigmask(SIG_SETMASK, &all, &before->mask); /* until the target has been started */
    for (size_t i = 0; i < FORWARDED_COUNT; i++) {
        atomic_store(&pending[i], false);
        sigaction(forwarded_signals[i], &ours, &before->forwarded[i]);
    }
    sigaction(SIGCHLD, &usual, &before->child);
    for (size_t t = 0; t < TIMER_COUNT; t++)
        setitimer((__itimer_which_t)timers[t], &none, &before->timers[t]);
}

static void give_signals_back(const inherited *before)
{
    for (size_t i = 0; i < FORWARDED_COUNT; i++)
        sigaction(forwarded_signals[i], &before->forwarded[i], NULL);
    sigaction(SIGCHLD, &before->child, NULL);
}

/* In the child: becomes the target, as execvp does (a script without #! by the shell); on failure
 * reports the error. */
static void become_target(char *const *argv, const inherited *before, int report)
{
    give_signals_back(before);
    for (size_t t = 0; t < TIMER_COUNT; t++)
        setitimer((__itimer_which_t)timers[t], &before->timers[t], NULL);
    pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
    execvp(argv[0], argv);
    const int reason = errno;
    while (write(report, &reason, sizeof reason) < 0 && errno == EINTR) {}
    _exit(EXIT_CANNOT_RUN);
}

/* Starts the target; returns errno on failure, 0 if it runs. */
static int start_target(char *const *argv, const inherited *before, pid_t *pid)
{
    int report[2], reason = 0;
    if (pipe2(report, O_CLOEXEC) != 0) return errno;
    *pid = fork();
    if (*pid == 0) become_target(argv, before, report[1]);
    if (*pid < 0) reason = errno;
    close(report[1]);
    ssize_t got = 0; /* 0: the pipe was closed by a successful start */
    while (*pid > 0 && (got = read(report[0], &reason, sizeof reason)) < 0 && errno == EINTR) {}
    close(report[0]);
    if (got > 0) {
        while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR) {}
    }
    return reason;
}

/* Waits for the target's end and passes signals on to it until its pid may be reused; returns the
 * status from waitpid. */
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

dl_cpu_usage dl_target_usage_now(void)
{
    dl_cpu_usage usage = dl_cpu_usage_now();
    struct rusage children = {0};
    (void)getrusage(RUSAGE_CHILDREN, &children);
    usage.own_s += (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
                   1e-6 * (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec);
    return usage;
}

dl_status dl_target_run(char *const *argv, dl_target_end *end, dl_error *err)
{
    inherited before;
    take_signals(&before);
    pid_t pid = 0;
    *end = (dl_target_end){0};
    const dl_cpu_usage used = dl_target_usage_now();
    const int64_t start_ns = dl_clock_ns();
    const int reason = start_target(argv, &before, &pid);
    pthread_sigmask(SIG_SETMASK, &before.mask, NULL);
    const int status = reason == 0 ? wait_for_end(pid) : 0;
    end->elapsed_ns = dl_clock_ns() - start_ns;
    const dl_cpu_usage used_now = dl_target_usage_now();
    end->disturbed = dl_cpu_disturbed(&used, &used_now);
    give_signals_back(&before);
    if (reason != 0) {
        end->exit_code = reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
        return dl_error_set_at(err, DL_ERR_IO, argv[0], 0, "cannot run it: %s%s", strerror(reason),
                               dl_ends_with(argv[0], ".py")
                                   ? "; a script follows its interpreter: python3 SCRIPT.py"
                                   : "");
    }
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end->exit_code = end->signal != 0 ? EXIT_SIGNAL + end->signal : WEXITSTATUS(status);
    return DL_OK;
}
