#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"
#include "common/system.h"

#define LINKS_MAX 40 /* limit of Linux (path_resolution(7)) */
/* Maximum number of temporary names for one process and target, or for equal PIDs in several
 * containers. */
#define PARTIAL_NAMES_MAX 100

struct dl_output_file {
    char *path;    /* path given by the user */
    char *target;  /* path after following symbolic links */
    char *partial; /* replaces the target; NULL: the target is written directly */
    int fd;
    int error;                   /* errno of the first failed write */
    struct dl_output_file *next; /* next held file */
    bool was_there;              /* the target existed before this file was moved to it */
    bool exchanged;              /* the replaced file now has the name `partial` */
};

/* Complete files held for dl_outputs_end, in the order of closing. */
static bool holding;
static struct dl_output_file *held;

/* --- paths ------------------------------------------------------------------------------------ */

/* Follows symbolic links, the last of which may be dangling; NULL if there are too many. Other
 * errors are reported when the file is opened. The caller frees the path. */
static char *follow_links(const char *path)
{
    char *at = dl_strdup(path);
    for (int links = 0; links <= LINKS_MAX; links++) {
        char link[PATH_MAX];
        const ssize_t bytes = readlink(at, link, sizeof link - 1);
        if (bytes < 0) return at;
        link[bytes] = '\0';
        char *next = dl_path_beside(at, link);
        free(at);
        at = next;
    }
    free(at);
    return NULL;
}

static bool same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* --- one output ------------------------------------------------------------------------------- */

static dl_status cannot(const char *what, const char *path, int error, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot %s: %s", what, strerror(error));
}

/* Stores the reason of a failed write, which streams do not keep. */
static ssize_t write_bytes(void *cookie, const char *data, size_t bytes)
{
    struct dl_output_file *file = cookie;
    if (file->error == 0) file->error = dl_file_write(file->fd, data, bytes);
    return file->error == 0 ? (ssize_t)bytes : 0;
}

/* Stores errors of close: some systems report a full disk or quota only here. */
static int close_bytes(void *cookie)
{
    struct dl_output_file *file = cookie;
    if (close(file->fd) != 0 && file->error == 0) file->error = errno;
    return 0;
}

/* Returns the descriptor of a standard stream, filtered or not; -1 if it has none. */
static int stream_fd(FILE *stream)
{
    const int fd = fileno(stream);
    if (fd >= 0) return fd;
    return stream == stdout ? STDOUT_FILENO : STDERR_FILENO;
}

/* Returns the standard stream that is redirected to this file; NULL if there is none. */
static FILE *standard_stream(const struct stat *target)
{
    FILE *const streams[] = {stdout, stderr};
    for (int i = 0; i < 2; i++) {
        struct stat found;
        if (fstat(stream_fd(streams[i]), &found) == 0 && same_inode(&found, target)) {
            return streams[i];
        }
    }
    return NULL;
}

/* Copies the old file's owner, group and mode to the new file as far as possible: without the right
 * to change the owner it stays the user's, and some file systems have no modes. */
static void keep_permissions(int fd, const struct stat *old)
{
    const bool kept =
        fchown(fd, old->st_uid, old->st_gid) == 0 || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    const mode_t mode = old->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
    fchmod(fd, kept ? mode : mode & ~(mode_t)S_IRWXG); /* no rights for a different group */
}

/* Creates the temporary file; returns its descriptor, or -1 with errno. */
static int create_partial(struct dl_output_file *file)
{
    const char *name = dl_base_name(file->target);
    const int folder = (int)(name - file->target);
    if (name[0] == '\0') {
        errno = EISDIR;
        return -1;
    }
    for (int i = 0; i < PARTIAL_NAMES_MAX; i++) {
        char again[16] = "";
        if (i > 0) snprintf(again, sizeof again, ".%d", i);
        /* Truncate long names, so that the result is a valid name. */
        char *partial = dl_format("%.*s.%.200s.partial-%ld%s", folder, file->target, name,
                                  (long)getpid(), again);
        const int fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        const int error = errno;
        if (fd >= 0) file->partial = partial;
        if (fd < 0) free(partial);
        errno = error;
        if (fd >= 0 || error != EEXIST) return fd;
    }
    return -1;
}

/* Returns whether the path leads to a regular file that a rename can replace, unlike a deleted file
 * that is open under /dev/fd. */
static bool is_replaceable(const struct stat *old, const char *target)
{
    struct stat found;
    return S_ISREG(old->st_mode) && target != NULL && stat(target, &found) == 0 &&
           same_inode(&found, old);
}

/* Sets file->fd; returns 0 or an errno value. */
static int open_file(struct dl_output_file *file)
{
    struct stat old;
    const bool exists = stat(file->path, &old) == 0;
    if (!exists && errno != ENOENT) return errno;
    FILE *const stream = exists ? standard_stream(&old) : NULL;
    if (stream != NULL) { /* write after the text printed to the stream */
        fflush(stream);
        file->fd = fcntl(stream_fd(stream), F_DUPFD_CLOEXEC, 0);
        return file->fd >= 0 ? 0 : errno;
    }
    file->target = follow_links(file->path);
    if (exists && !is_replaceable(&old, file->target)) {
        file->fd = open(file->path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
        return file->fd >= 0 ? 0 : errno;
    }
    if (file->target == NULL) return ELOOP;
    if (exists && faccessat(AT_FDCWD, file->target, W_OK, AT_EACCESS) != 0) return errno;
    file->fd = create_partial(file);
    if (file->fd < 0) return errno;
    if (exists) keep_permissions(file->fd, &old);
    return 0;
}

static void free_file(struct dl_output_file *file)
{
    free(file->path);
    free(file->target);
    free(file->partial);
    free(file);
}

dl_status dl_output_open(dl_output *output, const char *path, dl_error *err)
{
    if (path[0] == '\0') {
        return dl_error_set(err, DL_ERR_USAGE, "the name of the file to write is empty");
    }
    struct dl_output_file *file = dl_calloc(1, sizeof *file, "output");
    file->path = dl_strdup(strcmp(path, "-") == 0 ? "/dev/stdout" : path);
    const int error = open_file(file);
    if (error != 0) {
        free_file(file);
        return cannot("create", path, error, err);
    }
    FILE *out =
        fopencookie(file, "w", (cookie_io_functions_t){.write = write_bytes, .close = close_bytes});
    DL_ASSERT(out != NULL, "%s", strerror(errno));
    *output = (dl_output){out, file};
    return DL_OK;
}

/* Flushes the stream's buffer and closes the stream. */
static void finish_stream(dl_output *output)
{
    const bool failed = ferror(output->out) != 0;
    if ((fclose(output->out) != 0 || failed) && output->file->error == 0) output->file->error = EIO;
}

/* Adds a complete file to the held ones. */
static void hold(struct dl_output_file *file)
{
    struct dl_output_file **last = &held;
    while (*last != NULL)
        last = &(*last)->next;
    *last = file;
}

dl_status dl_output_close(dl_output *output, dl_error *err)
{
    struct dl_output_file *file = output->file;
    finish_stream(output);
    *output = (dl_output){0};
    dl_status status = DL_OK;
    if (file->error != 0) {
        status = cannot("write", file->path, file->error, err);
    } else if (holding && file->partial != NULL) {
        hold(file);
        return DL_OK;
    } else if (file->partial != NULL && rename(file->partial, file->target) != 0) {
        status = cannot("replace it", file->path, errno, err);
    }
    if (status != DL_OK && file->partial != NULL) unlink(file->partial);
    free_file(file);
    return status;
}

void dl_output_abandon(dl_output *output)
{
    if (output->file == NULL) return;
    finish_stream(output);
    if (output->file->partial != NULL) unlink(output->file->partial);
    free_file(output->file);
    *output = (dl_output){0};
}

dl_status dl_output_end(dl_output *output, dl_status status, dl_error *err)
{
    if (status == DL_OK) return dl_output_close(output, err);
    dl_output_abandon(output);
    return status;
}

dl_status dl_output_text(const char *path, const char *text, dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status == DL_OK) fputs(text, output.out);
    return dl_output_end(&output, status, err);
}

/* --- held outputs ----------------------------------------------------------------------------- */

void dl_outputs_hold(void)
{
    holding = true;
}

/* Moves the complete file to its target, by an exchange if possible, so that the old file can be
 * restored; returns 0 or an errno value. */
static int put_in_place(struct dl_output_file *file)
{
    struct stat old;
    file->was_there = stat(file->target, &old) == 0;
    /* An exchange would also succeed with a folder. */
    if (file->was_there && S_ISREG(old.st_mode) &&
        dl_system_exchange(file->partial, file->target) == 0) {
        file->exchanged = true;
        return 0;
    }
    return rename(file->partial, file->target) == 0 ? 0 : errno;
}

/* Restores the target to its state before put_in_place; returns whether it succeeded. */
static bool take_back(const struct dl_output_file *file)
{
    if (file->exchanged) return rename(file->partial, file->target) == 0;
    return !file->was_there && unlink(file->target) == 0;
}

/* Restores the targets of the files before `end`; returns the number of failures. */
static int take_back_until(const struct dl_output_file *end)
{
    int stuck = 0;
    for (const struct dl_output_file *file = held; file != end; file = file->next)
        stuck += !take_back(file);
    return stuck;
}

static dl_status put_all_in_place(dl_error *err)
{
    for (struct dl_output_file *file = held; file != NULL; file = file->next) {
        const int error = put_in_place(file);
        if (error == 0) continue;
        const int stuck = take_back_until(file);
        if (stuck == 0) return cannot("replace it", file->path, error, err);
        return dl_error_set_at(err, DL_ERR_IO, file->path, 0,
                               "cannot replace it: %s; %d other %s of this run replaced already",
                               strerror(error), stuck, stuck == 1 ? "file is" : "files are");
    }
    return DL_OK;
}

dl_status dl_outputs_end(dl_status status, dl_error *err)
{
    if (status == DL_OK) status = put_all_in_place(err);
    while (held != NULL) {
        struct dl_output_file *file = held;
        held = file->next;
        unlink(file->partial); /* a file not moved to its target, or the file that it replaced */
        free_file(file);
    }
    holding = false;
    return status;
}

/* --- files of a command ----------------------------------------------------------------------- */

/* The file denoted by a path, or the location where it would be created. */
typedef struct place {
    bool exists; /* `found` is the file if it exists, else its folder */
    bool known;  /* a regular file or, if it does not exist, its folder was found; otherwise opening
                  * it reports the error */
    struct stat found;
    char *target, *folder; /* after following symbolic links; NULL: too many links */
} place;

static place find_place(const char *path)
{
    place at = {.target = follow_links(path)};
    at.folder = at.target != NULL ? dl_folder_name(at.target) : NULL;
    at.exists = stat(path, &at.found) == 0;
    if (at.exists) {
        at.known = S_ISREG(at.found.st_mode);
    } else {
        at.known = at.folder != NULL && stat(at.folder, &at.found) == 0;
    }
    return at;
}

static void free_place(place *at)
{
    free(at->target);
    free(at->folder);
}

static bool same_file(const char *first, const char *second)
{
    place a = find_place(first), b = find_place(second);
    const bool same = a.known && b.known && a.exists == b.exists &&
                      same_inode(&a.found, &b.found) &&
                      (a.exists || strcmp(dl_base_name(a.target), dl_base_name(b.target)) == 0);
    free_place(&a);
    free_place(&b);
    return same;
}

/* Returns 0 or an errno value. */
static int try_access(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0 ? 0 : errno;
}

/* Checks that the file can be replaced or created, before the work starts. */
static dl_status check_access(const char *path, dl_error *err)
{
    place at = find_place(path);
    int error = 0;
    if (at.exists) {
        if (standard_stream(&at.found) == NULL) error = try_access(path, W_OK);
    } else {
        error = at.folder != NULL ? try_access(at.folder, W_OK | X_OK) : ELOOP;
    }
    free_place(&at);
    return error == 0 ? DL_OK : cannot("create", path, error, err);
}

static dl_status check_against(const dl_file_role *output, const dl_file_role *others, size_t count,
                               const char *relation, dl_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (others[i].path == NULL || !same_file(output->path, others[i].path)) continue;
        return dl_error_set(err, DL_ERR_USAGE, "%s %s %s: %s", output->role, relation,
                            others[i].role, output->path);
    }
    return DL_OK;
}

dl_status dl_outputs_check(const dl_file_role *outputs, size_t output_count,
                           const dl_file_role *inputs, size_t input_count, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t i = 0; i < output_count && status == DL_OK; i++) {
        const dl_file_role *output = &outputs[i];
        if (output->path == NULL) continue;
        if (output->path[0] == '\0') {
            return dl_error_set(err, DL_ERR_USAGE, "%s: the name of the file is empty",
                                output->role);
        }
        status = check_against(output, inputs, input_count, "would overwrite", err);
        if (status == DL_OK) {
            status = check_against(output, outputs, i, "is the same file as", err);
        }
        if (status == DL_OK) status = check_access(output->path, err);
    }
    return status;
}

dl_status dl_outputs_check_paths(const dl_file_role *outputs, size_t output_count, const char *role,
                                 const char *const *paths, size_t path_count, dl_error *err)
{
    DL_AUTOFREE dl_file_role *inputs = dl_calloc(path_count, sizeof *inputs, "paths");
    for (size_t i = 0; i < path_count; i++)
        inputs[i] = (dl_file_role){role, paths[i]};
    return dl_outputs_check(outputs, output_count, inputs, path_count, err);
}
