/* What `dlprof run` prepares before the target starts: the injected library, the folder of the
 * traces, the target's environment. */
#ifndef DL_PROFILER_RUN_SETUP_H
#define DL_PROFILER_RUN_SETUP_H

#include <stdbool.h>

#include "common/status.h"
#include "profiler/inject/settings.h"
#include "profiler/run/target.h"

#define DL_INJECTED_LIBRARY "libdlprof_inject.so"
#define DL_RUN_CLAIM ".dlprof-run" /* a folder within that of the traces, while a run has it */

/* *path is the absolute path of the readable file `name` beside the running program; free() it.
 * DL_ERR_UNSUPPORTED, naming the file and the system's reason, if it is not there or not readable;
 * DL_ERR_SYSTEM if the program cannot find its own file (no /proc, and it has been moved). */
dl_status dl_run_beside(const char *name, char **path, dl_error *err) DL_MUST_CHECK;

/* Whether `library` has the entry that CUDA's driver calls; without it only NVTX and NCCL are
 * recorded. Loads it into this process; true if it cannot be loaded, since nothing is known then.
 */
bool dl_run_library_records_cuda(const char *library);

/* Makes sure that there is a folder for the traces and writes its absolute path to `path`. `wanted`
 * is made if it is missing, but not the folder above it; NULL stands for a new one, named
 * dlprof.<command's last part>.<local time>. *made is whether it is new. The folder is this run's
 * alone until dl_run_release(path). DL_ERR_IO where it cannot be made or written into, another run
 * has it, or it holds traces of one; then it may exist nevertheless. */
dl_status dl_run_folder(const char *wanted, const char *command, char path[DL_CAPTURE_PATH_BYTES],
                        bool *made, dl_error *err) DL_MUST_CHECK;

/* Tries whether a file in `folder` can be written. DL_ERR_IO with the system's reason. */
dl_status dl_run_writable(const char *folder, dl_error *err) DL_MUST_CHECK;

/* Lets other runs have the folder (which then hold back because of the traces, if there are any). */
void dl_run_release(const char *folder);

/* Has CUDA and NVTX, and with `nccl` NCCL too, load `library` into processes with this environment,
 * and hands it the settings. DL_ERR_USAGE, with the environment unchanged, if another library is to
 * be loaded in its place already, unless `force`. Takes away KINETO_USE_DAEMON, which has PyTorch
 * touch CUPTI when it is imported. */
dl_status dl_run_environment(dl_environment *environment, const char *library,
                             const dl_capture_settings *settings, bool nccl, bool force,
                             dl_error *err) DL_MUST_CHECK;

#endif
