#include "profiler/measuring_child.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"

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
