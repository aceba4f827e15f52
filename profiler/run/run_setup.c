#include "profiler/run/run_setup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "profiler/run/run_traces.h"

/* Runs of one command that start in the same second; more would be a mistake. */
#define SAME_SECOND_MAX 1000

/* The libraries that load ours: the driver at its start, NVTX in each library that holds it, NCCL.
 */
static const char *const injection_variables[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
                                                  "NCCL_PROFILER_PLUGIN"};
#define INJECTIONS 2
#define INJECTIONS_WITH_NCCL 3

dl_status dl_run_beside(const char *name, char **path, dl_error *err)
{
    char *self = dl_file_program();
    if (self == NULL) {
        return dl_error_set(err, DL_ERR_SYSTEM,
                            "cannot find the program's own file, beside which %s lies: %s", name,
                            strerror(errno));
    }
    const int folder = (int)(strrchr(self, '/') - self);
    char *found = dl_format("%.*s/%s", folder, self, name);
    free(self);
    if (access(found, R_OK) == 0) {
        *path = found;
        return DL_OK;
    }
    dl_error_set_at(err, DL_ERR_UNSUPPORTED, found, 0, "%s", strerror(errno));
    free(found);
    return DL_ERR_UNSUPPORTED;
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

dl_status dl_run_writable(const char *folder, dl_error *err)
{
    static const char text[] = "dlprof run";
    char *path = dl_format("%s/.dlprof.XXXXXX", folder);
    const int file = mkstemp(path);
    bool good = file >= 0;
    if (good) {
        errno = ENOSPC; /* of a short write */
        good = write(file, text, sizeof text) == (ssize_t)sizeof text;
        const int error = errno;
        close(file);
        unlink(path);
        errno = error;
    }
    if (!good) {
        dl_error_set_at(err, DL_ERR_IO, folder, 0, "cannot write into it: %s", strerror(errno));
    }
    free(path);
    return good ? DL_OK : DL_ERR_IO;
}

static char *claim_of(const char *folder)
{
    return dl_format("%s/" DL_RUN_CLAIM, folder);
}

/* Of all that want the folder at once one makes the claim. */
static dl_status claim(const char *folder, dl_error *err)
{
    char *path = claim_of(folder);
    const int error = mkdir(path, 0777) == 0 ? 0 : errno;
    free(path);
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
    char *path = claim_of(folder);
    rmdir(path);
    free(path);
}

static dl_status use_claimed(const char *folder, dl_error *err)
{
    const dl_status status = dl_run_writable(folder, err);
    if (status != DL_OK) return status;
    if (dl_run_traces_any(folder)) {
        return dl_error_set_at(err, DL_ERR_IO, folder, 0,
                               "holds traces or logs of another run already");
    }
    return DL_OK;
}

static dl_status use_wanted(const char *folder, bool *made, dl_error *err)
{
    if (folder[0] == '\0') return dl_error_set(err, DL_ERR_USAGE, "--output names no folder");
    *made = mkdir(folder, 0777) == 0;
    if (!*made && errno != EEXIST) return cannot_make(folder, err);
    dl_status status = claim(folder, err);
    if (status != DL_OK) return status;
    status = use_claimed(folder, err);
    if (status != DL_OK) dl_run_release(folder);
    return status;
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
    if (wanted == NULL) status = claim(folder, err);
    if (status != DL_OK) {
        free(new_folder);
        return status;
    }
    char *absolute = realpath(folder, NULL);
    if (absolute == NULL) {
        status = dl_error_set_at(err, DL_ERR_IO, folder, 0, "%s", strerror(errno));
    } else {
        status = dl_capture_set_path(path, absolute, err);
    }
    if (status != DL_OK) dl_run_release(folder);
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
