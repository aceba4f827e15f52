/* The profiled program: its environment, start, signals and end. */
#ifndef DL_PROFILER_TARGET_H
#define DL_PROFILER_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cpu.h"
#include "common/status.h"
#include "profiler/inject/settings.h"

/* How a target ended. */
typedef struct dl_target_end {
    int exit_code;                /* as in a shell: 128 + signal if a signal killed the target */
    int signal;                   /* the signal that killed it, or 0 */
    int64_t elapsed_ns;           /* from its start to its end */
    dl_cpu_disturbance disturbed; /* use of the processors meanwhile by other programs and by the
                                   * host, without the target and this process */
} dl_target_end;

/* As dl_cpu_usage_now, but own_s includes children that have been waited for, and their
 * descendants. */
dl_cpu_usage dl_target_usage_now(void);

/* Runs argv[0] with the arguments argv (ended by a NULL) and waits for its end. As with execvp, the
 * program is looked up in PATH, and /bin/sh runs a script without #!. The target inherits
 * environment, process group, directory, standard streams, ignored signals and signal mask, and
 * takes over the timers (alarm) of this process.
 *
 * Meanwhile this process passes on SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM,
 * SIGVTALRM and SIGPROF to the target, except those from the terminal or the kernel, which the
 * whole group gets, and otherwise ignores them. Afterwards they have their previous effect.
 *
 * If the target cannot be started: DL_ERR_IO, and `end` holds the exit code that a shell would
 * give, 127 for a missing program and 126 for one that cannot be run. Else DL_OK, however it ended.
 * One at a time. */
dl_status dl_target_run(char *const *argv, dl_target_end *end, dl_error *err) DL_MUST_CHECK;

/* Preparations of `dlprof run` before the target starts: the injected library, the folder of the
 * traces, the target's environment. */
#define DL_INJECTED_LIBRARY "libdlprof_inject.so"

/* Entry points of the injected library, which the CUDA driver and NVTX look up. A build without the
 * headers of CUPTI or NVTX lacks the entry point concerned, and records nothing from it. */
#define DL_CUDA_ENTRY "InitializeInjection"
#define DL_NVTX_ENTRY "InitializeInjectionNvtx2"

/* Whether `library` exports the function `name`. Loads `library` into this process; true if that
 * fails, as nothing is known then. */
bool dl_run_library_exports(const char *library, const char *name);

/* Finds or creates the folder of the traces, and locks it until dl_run_release(path); *path is its
 * absolute path, free() it; *made is whether it was created. `wanted` may be missing, but not its
 * parent; NULL: a new folder dlprof.<command's last part>.<local time>, with a number if that
 * exists. DL_ERR_IO if the folder cannot be created or written to, is another run's, or holds
 * traces; it may exist nevertheless. DL_ERR_USAGE if `wanted` is "". */
dl_status dl_run_folder(const char *wanted, const char *command, char **path, bool *made,
                        dl_error *err) DL_MUST_CHECK;

/* Checks that a file in `folder` can be written. DL_ERR_IO with the system's reason. */
dl_status dl_run_writable(const char *folder, dl_error *err) DL_MUST_CHECK;

/* Lets other runs use the folder (which they still refuse if it holds traces). */
void dl_run_release(const char *folder);

/* Sets environment variables that pass the settings to processes started from now on, and make
 * CUDA, NVTX and, with `nccl`, NCCL load `library` (NULL: none) into them. DL_ERR_USAGE, with the
 * environment unchanged, if a variable that names a library to load is set already, unless `force`.
 * Removes KINETO_USE_DAEMON, which makes PyTorch touch CUPTI on import. */
dl_status dl_run_environment(const char *library, const dl_capture_settings *settings, bool nccl,
                             bool force, dl_error *err) DL_MUST_CHECK;

/* Puts `folder` first in PYTHONPATH, so that Python programs run `folder`/sitecustomize.py at their
 * start, which records training with PyTorch on processors. */
void dl_run_python_path(const char *folder);

#endif
