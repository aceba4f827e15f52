#include "profiler/run/run_setup.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "profiler/run/run_traces.h"

/* Runs of one command that start in the same second; more would be a mistake. */
#define SAME_SECOND_MAX 1000

/* The libraries that load ours: the driver at its start, NVTX in each library that holds it, NCCL.
 */
static const char *const injection_variables[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
                                                  "NCCL_PROFILER_PLUGIN"};
#define INJECTIONS 2
#define INJECTIONS_WITH_NCCL 3

char *dl_run_beside(const char *name)
{
    char self[PATH_MAX];
    const ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    if (bytes < 0) return NULL;
    self[bytes] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL) return NULL;
    char *path = dl_format("%.*s/%s", (int)(slash - self), self, name);
    if (access(path, R_OK) == 0) return path;
    free(path);
    return NULL;
}

char *dl_run_library(void)
{
    return dl_run_beside(DL_INJECTED_LIBRARY);
}

bool dl_run_library_records_cuda(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) return true;
    const bool found = dlsym(handle, "InitializeInjection") != NULL;
    dlclose(handle);
    return found;
}

static dl_status cannot_make(const char *folder, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_IO, folder, 0, "cannot make the folder: %s",
                           strerror(errno));
}

/* A new folder; free() its name. */
static dl_status make_default(const char *command, char **folder, dl_error *err)
{
    const char *slash = strrchr(command, '/');
    const char *name = slash != NULL ? slash + 1 : command;
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

/* Tried, since rights do not tell all: a full disk, /proc. */
static bool can_write(const char *folder)
{
    static const char text[] = "dlprof run";
    char *path = dl_format("%s/.dlprof.XXXXXX", folder);
    const int file = mkstemp(path);
    bool good = file >= 0;
    if (good) {
        good = write(file, text, sizeof text) == (ssize_t)sizeof text;
        const int error = errno;
        close(file);
        unlink(path);
        errno = error;
    }
    free(path);
    return good;
}

static dl_status use_wanted(const char *folder, bool *made, dl_error *err)
{
    if (folder[0] == '\0') return dl_error_set(err, DL_ERR_USAGE, "--output names no folder");
    *made = mkdir(folder, 0777) == 0;
    if (!*made && errno != EEXIST) return cannot_make(folder, err);
    if (!can_write(folder)) {
        return dl_error_set_at(err, DL_ERR_IO, folder, 0, "cannot write into it: %s",
                               strerror(errno));
    }
    if (dl_run_traces_any(folder)) {
        return dl_error_set_at(err, DL_ERR_IO, folder, 0,
                               "holds traces or logs of another run already");
    }
    return DL_OK;
}

dl_status dl_run_folder(const char *wanted, const char *command, char path[DL_CAPTURE_PATH_BYTES],
                        bool *made, dl_error *err)
{
    char *new_folder = NULL;
    *made = wanted == NULL;
    dl_status status =
        wanted != NULL ? use_wanted(wanted, made, err) : make_default(command, &new_folder, err);
    if (status != DL_OK) return status;
    const char *folder = wanted != NULL ? wanted : new_folder;
    char *absolute = realpath(folder, NULL);
    if (absolute == NULL) {
        status = dl_error_set_at(err, DL_ERR_IO, folder, 0, "%s", strerror(errno));
    } else {
        status = dl_capture_set_path(path, absolute, err);
    }
    free(absolute);
    free(new_folder);
    return status;
}

static void set_variable(void *environment, const char *name, const char *value)
{
    dl_environment_set(environment, name, value);
}

dl_status dl_run_environment(dl_environment *environment, const char *library,
                             const dl_capture_settings *settings, bool nccl, bool force,
                             dl_error *err)
{
    const int count = nccl ? INJECTIONS_WITH_NCCL : INJECTIONS;
    for (int i = 0; i < count && !force; i++) {
        const char *other = dl_environment_get(environment, injection_variables[i]);
        if (other == NULL || other[0] == '\0') continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "%s is set already, to %.200s: is another profiler at work? --force "
                            "replaces it",
                            injection_variables[i], other);
    }
    for (int i = 0; i < count; i++)
        dl_environment_set(environment, injection_variables[i], library);
    dl_capture_settings_to_environment(settings, set_variable, environment);
    dl_environment_unset(environment, "KINETO_USE_DAEMON");
    return DL_OK;
}
