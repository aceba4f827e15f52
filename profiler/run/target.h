/* The profiled program: its environment, start, signals and end. */
#ifndef DL_PROFILER_TARGET_H
#define DL_PROFILER_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cpu.h"
#include "common/status.h"
#include "profiler/inject/settings.h"

/* How a target ended. */
typedef struct dl_target_end {
    int exit_code;                /* as in a shell: 128 + signal if a signal killed the target */
    int signal;                   /* the signal that killed it, or 0 */
    int64_t elapsed_ns;           /* from its start to its end */
    dl_cpu_disturbance disturbed; /* meanwhile, by all but the target and this process */
} dl_target_end;

/* dl_cpu_usage_now, where children that have ended, and theirs, are not other programs. */
dl_cpu_usage dl_target_usage_now(void);

/* Runs argv[0] with the arguments argv (ended by a NULL) as execvp does: looked up in PATH, a
 * script without #! by /bin/sh; in this process's own environment, group, directory and standard
 * streams, with its ignored signals, its mask and its timers (alarm), which it gives up; and waits
 * for its end.
 *
 * Meanwhile SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM and SIGPROF sent
 * to this process do nothing here and are passed on to the target, except signals from the terminal
 * or the kernel, which the whole group got. Afterwards these signals have their previous effect.
 *
 * If the target cannot be started: DL_ERR_IO, and `end` holds the exit code that a shell would
 * give, 127 for a missing program and 126 for one that cannot be run. Else DL_OK, however it ended.
 * One at a time. */
dl_status dl_target_run(char *const *argv, dl_target_end *end, dl_error *err) DL_MUST_CHECK;

/* Preparations of `dlprof run` before the target starts: the injected library, the folder of the
 * traces, the target's environment. */
#define DL_INJECTED_LIBRARY "libdlprof_inject.so"

/* Whether `library` has the entry that CUDA's driver calls; without it only NVTX and NCCL are
 * recorded. Loads it into this process; true if it cannot be loaded, since then it is not known. */
bool dl_run_library_records_cuda(const char *library);

/* Makes sure that there is a folder for the traces; *path is its absolute path, free() it. `wanted`
 * is created if missing, but not its parent; NULL stands for a new one, named dlprof.<command's
 * last part>.<local time>. *made is whether it is new. The folder is this run's alone until
 * dl_run_release(path). DL_ERR_IO if it cannot be made or written to, another run has it, or it
 * holds traces of one; then it may exist nevertheless. */
dl_status dl_run_folder(const char *wanted, const char *command, char **path, bool *made,
                        dl_error *err) DL_MUST_CHECK;

/* Checks that a file in `folder` can be written. DL_ERR_IO with the system's reason. */
dl_status dl_run_writable(const char *folder, dl_error *err) DL_MUST_CHECK;

/* Lets other runs use the folder (which they still refuse if it holds traces). */
void dl_run_release(const char *folder);

/* Passes the settings, as environment variables, to processes started from now on, and makes CUDA
 * and NVTX, and with `nccl` NCCL too, load `library` into them (NULL: there is none). DL_ERR_USAGE,
 * with the environment unchanged, if another library is already to be loaded in its place, unless
 * `force`. Removes KINETO_USE_DAEMON, which makes PyTorch touch CUPTI on import. */
dl_status dl_run_environment(const char *library, const dl_capture_settings *settings, bool nccl,
                             bool force, dl_error *err) DL_MUST_CHECK;

/* Makes Python programs among them run `folder`/sitecustomize.py at their start, which records
 * training with PyTorch on processors: puts `folder` before PYTHONPATH's entries. */
void dl_run_python_path(const char *folder);

#endif
