#include "profiler/bench/measuring_child.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "trace/dlt/dlt.h"

/* Of the child; exit handlers get no argument. */
static struct {
    const dl_child_work *work;
    int to_parent;
    char *result;
    size_t bytes;
} child;

static void hand_over(void)
{
    if (child.work->finish != NULL) child.work->finish(child.work->user, child.result);
    for (size_t done = 0; done < child.bytes;) {
        const ssize_t bytes = write(child.to_parent, child.result + done, child.bytes - done);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) _exit(1);
        done += (size_t)bytes;
    }
    _exit(0); /* the handlers that are left are the parent's */
}

/* Exit handlers run in the reverse order: this one runs behind those of libraries that the work
 * loads. */
static void run_child(const dl_child_work *work, int to_parent, void *result, size_t bytes)
{
    child.work = work;
    child.to_parent = to_parent;
    child.result = result;
    child.bytes = bytes;
    memset(result, 0, bytes);
    if (atexit(hand_over) != 0) _exit(1);
    work->work(work->user, result);
    exit(0);
}

static bool read_all(int from_child, char *result, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = read(from_child, result + done, bytes - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

dl_status dl_child_measure(const dl_child_work *work, void *result, size_t bytes, dl_error *err)
{
    int ends[2];
    fflush(NULL); /* the child would write it again */
    if (pipe(ends) != 0) return dl_error_set(err, DL_ERR_SYSTEM, "cannot make a pipe");
    const pid_t made = fork();
    if (made == 0) run_child(work, ends[1], result, bytes);
    close(ends[1]);
    const bool whole = made > 0 && read_all(ends[0], result, bytes);
    close(ends[0]);
    int status = 1;
    while (made > 0 && waitpid(made, &status, 0) < 0 && errno == EINTR) {}
    if (whole && status == 0) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "the process that was to be recorded failed");
}

static void set_variable(void *unused, const char *name, const char *value)
{
    (void)unused;
    setenv(name, value, 1);
}

void dl_child_inject(const dl_capture_settings *settings, const char *library, bool cuda)
{
    unsetenv("CUDA_INJECTION64_PATH");
    unsetenv("NVTX_INJECTION64_PATH");
    if (library == NULL) return;
    dl_capture_settings_to_environment(settings, set_variable, NULL);
    setenv("NVTX_INJECTION64_PATH", library, 1);
    if (cuda) setenv("CUDA_INJECTION64_PATH", library, 1);
}

dl_status dl_child_folder_make(const char *below, char **folder, dl_error *err)
{
    char *made = dl_format("%s/dlprof-XXXXXX", below);
    if (mkdtemp(made) != NULL) {
        *folder = made;
        return DL_OK;
    }
    const dl_status status =
        dl_error_set_at(err, DL_ERR_IO, made, 0, "cannot make a temporary folder");
    free(made);
    return status;
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

char *dl_child_folder_find(const char *folder, const char *ending)
{
    char *found = NULL;
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir != NULL && found == NULL && (entry = readdir(dir)) != NULL) {
        if (ends_with(entry->d_name, ending)) found = dl_format("%s/%s", folder, entry->d_name);
    }
    if (dir != NULL) closedir(dir);
    return found;
}

dl_status dl_child_recording_count(const char *folder, dl_child_recording *recording, dl_error *err)
{
    *recording = (dl_child_recording){0};
    char *path = dl_child_folder_find(folder, ".dlt");
    if (path == NULL) return DL_OK;
    dl_trace trace = {0};
    const dl_status status = dl_trace_read(&trace, path, err);
    free(path);
    if (status != DL_OK) return status;
    recording->found = true;
    recording->count = trace.activity_count;
    for (size_t i = 0; i < trace.activity_count; i++)
        recording->of_kind[trace.activities[i].kind]++;
    dl_trace_free(&trace);
    return DL_OK;
}

void dl_child_folder_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char *path = dl_format("%s/%s", folder, entry->d_name);
        unlink(path); /* fails for . and .. */
        free(path);
    }
    if (dir != NULL) closedir(dir);
}

void dl_child_folder_remove(char *folder)
{
    dl_child_folder_empty(folder);
    rmdir(folder);
    free(folder);
}
