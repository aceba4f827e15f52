#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/system.h"

#define LINKS_MAX 40 /* as many as Linux follows (path_resolution(7)) */
#define PARTIAL_NAMES_MAX \
    100 /* of one process and target, or of equal PIDs in several containers */

struct dl_output_file {
    char *path;    /* as the user gave it */
    char *target;  /* behind symbolic links */
    char *partial; /* takes the target's place; NULL = the target is written directly */
    int fd;
    int error;                   /* errno of the first write that failed */
    struct dl_output_file *next; /* next held one */
    bool was_there;              /* it replaced a file */
    bool exchanged;              /* that file now has the name `partial` */
};

/* Complete files that wait for dl_outputs_end, in the order of closing. */
static bool holding;
static struct dl_output_file *held;

/* --- paths ------------------------------------------------------------------------------------ */

/* Bytes of the folder's part of a path, its slash included; 0 if it has none. */
static size_t folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

/* free() it. */
static char *folder_of(const char *path)
{
    const size_t bytes = folder_bytes(path);
    return bytes > 0 ? dl_format("%.*s", (int)bytes, path) : dl_strdup(".");
}

/* The file behind symbolic links, the last of which may be dangling; NULL if there are too many.
 * Other errors show when the file is opened. free() it. */
static char *follow_links(const char *path)
{
    char *at = dl_strdup(path);
    for (int links = 0; links <= LINKS_MAX; links++) {
        char link[PATH_MAX];
        const ssize_t bytes = readlink(at, link, sizeof link - 1);
        if (bytes < 0) return at;
        link[bytes] = '\0';
        char *next =
            link[0] == '/' ? dl_strdup(link) : dl_format("%.*s%s", (int)folder_bytes(at), at, link);
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

/* Returns 0 or errno. */
static int write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? errno : EIO;
        data += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* Streams forget why a write failed; this does not. */
static ssize_t write_bytes(void *cookie, const char *data, size_t bytes)
{
    struct dl_output_file *file = cookie;
    if (file->error == 0) file->error = write_all(file->fd, data, bytes);
    return file->error == 0 ? (ssize_t)bytes : 0;
}

/* Some systems report a full disk or quota only here. */
static int close_bytes(void *cookie)
{
    struct dl_output_file *file = cookie;
    if (close(file->fd) != 0 && file->error == 0) file->error = errno;
    return 0;
}

/* Descriptor of a standard stream, filtered or not; -1 if it has none. */
static int stream_fd(FILE *stream)
{
    const int fd = fileno(stream);
    if (fd >= 0) return fd;
    return stream == stdout ? STDOUT_FILENO : STDERR_FILENO;
}

/* The standard stream that goes to this file; NULL if there is none. */
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

/* A user who may not give files away owns the new one; a file system without permissions keeps
 * none. */
static void keep_permissions(int fd, const struct stat *old)
{
    const bool kept =
        fchown(fd, old->st_uid, old->st_gid) == 0 || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    const mode_t mode = old->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
    fchmod(fd, kept ? mode : mode & ~(mode_t)S_IRWXG); /* not for another group */
}

/* Creates the temporary file; returns its descriptor, or -1 with errno. */
static int create_partial(struct dl_output_file *file)
{
    const int folder = (int)folder_bytes(file->target);
    const char *name = file->target + folder;
    if (name[0] == '\0') {
        errno = EISDIR;
        return -1;
    }
    for (int i = 0; i < PARTIAL_NAMES_MAX; i++) {
        char again[16] = "";
        if (i > 0) snprintf(again, sizeof again, ".%d", i);
        /* Long names are cut, so that the whole is a valid name. */
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

/* Whether the path leads to a regular file that a rename can replace: /dev/fd may lead to a file
 * whose name is gone. */
static bool is_replaceable(const struct stat *old, const char *target)
{
    struct stat found;
    return S_ISREG(old->st_mode) && target != NULL && stat(target, &found) == 0 &&
           same_inode(&found, old);
}

/* Sets file->fd; returns 0 or errno. */
static int open_file(struct dl_output_file *file)
{
    struct stat old;
    const bool exists = stat(file->path, &old) == 0;
    if (!exists && errno != ENOENT) return errno;
    FILE *const stream = exists ? standard_stream(&old) : NULL;
    if (stream != NULL) { /* after the text printed to it */
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
    file->path = dl_strdup(path);
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

/* Writes the stream's buffer, and closes. */
static void finish_stream(dl_output *output)
{
    const bool failed = ferror(output->out) != 0;
    if ((fclose(output->out) != 0 || failed) && output->file->error == 0) output->file->error = EIO;
}

/* Adds a complete file to those that wait. */
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

/* --- outputs that appear together ------------------------------------------------------------- */

void dl_outputs_hold(void)
{
    holding = true;
}

/* Puts a file in its place, if possible such that the old one can be restored; returns 0 or
 * errno. */
static int put_in_place(struct dl_output_file *file)
{
    struct stat old;
    file->was_there = stat(file->target, &old) == 0;
    /* The exchange would also work on a folder. */
    if (file->was_there && S_ISREG(old.st_mode) &&
        dl_system_exchange(file->partial, file->target) == 0) {
        file->exchanged = true;
        return 0;
    }
    return rename(file->partial, file->target) == 0 ? 0 : errno;
}

/* Returns whether the target is as it was before put_in_place. */
static bool take_back(const struct dl_output_file *file)
{
    if (file->exchanged) return rename(file->partial, file->target) == 0;
    return !file->was_there && unlink(file->target) == 0;
}

/* Takes back the files before `end`; returns how many cannot be. */
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
        unlink(file->partial); /* files not put in place, and replaced ones */
        free_file(file);
    }
    holding = false;
    return status;
}

/* --- files of a command ----------------------------------------------------------------------- */

/* The file that a path denotes, or the place where it would be created. */
typedef struct place {
    bool known;  /* false: opening it reports the error */
    bool exists; /* then `found` is the file, else its folder */
    struct stat found;
    char *target; /* behind symbolic links; NULL = unknown */
} place;

static place find_place(const char *path)
{
    place at = {.target = follow_links(path)};
    at.exists = stat(path, &at.found) == 0;
    if (at.exists) {
        at.known = S_ISREG(at.found.st_mode);
    } else if (at.target != NULL) {
        char *folder = folder_of(at.target);
        at.known = stat(folder, &at.found) == 0;
        free(folder);
    }
    return at;
}

static bool same_file(const char *first, const char *second)
{
    place a = find_place(first), b = find_place(second);
    bool same = a.known && b.known && a.exists == b.exists && same_inode(&a.found, &b.found);
    if (same && !a.exists) {
        same = strcmp(a.target + folder_bytes(a.target), b.target + folder_bytes(b.target)) == 0;
    }
    free(a.target);
    free(b.target);
    return same;
}

/* Checks that the file can be replaced or created, before hours of work instead of after them. */
static dl_status check_access(const char *path, dl_error *err)
{
    const place at = find_place(path);
    int error = 0;
    if (at.exists && standard_stream(&at.found) == NULL &&
        faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) {
        error = errno;
    }
    if (!at.exists && at.target == NULL) error = ELOOP;
    if (!at.exists && at.target != NULL) {
        char *folder = folder_of(at.target);
        if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0) error = errno;
        free(folder);
    }
    free(at.target);
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
    dl_file_role *inputs = dl_calloc(path_count, sizeof *inputs, "paths");
    for (size_t i = 0; i < path_count; i++)
        inputs[i] = (dl_file_role){role, paths[i]};
    const dl_status status = dl_outputs_check(outputs, output_count, inputs, path_count, err);
    free(inputs);
    return status;
}

/* --- output for people ------------------------------------------------------------------------ */

/* State of a stream of text on its way to a descriptor. */
typedef struct text_filter {
    int fd;
    int following; /* bytes of a UTF-8 sequence still to come */
    bool pending;  /* a 0xc2 is held back: with the next byte it may be a control character */
    char out[4096];
    size_t used;
} text_filter;

static text_filter filters[2]; /* of standard output and standard error */

static bool send(text_filter *filter)
{
    const int error = write_all(filter->fd, filter->out, filter->used);
    filter->used = 0;
    return error == 0;
}

/* The filter has room for an escape sequence when this is called. */
static void put_escaped(text_filter *filter, unsigned code)
{
    filter->used += (size_t)snprintf(filter->out + filter->used, sizeof filter->out - filter->used,
                                     "\\u%04x", code);
}

/* Bytes of the UTF-8 sequence after its first byte `byte`; -1 if that starts none. */
static int sequence_rest(unsigned char byte)
{
    if (byte < 0x80) return 0;
    if (byte >= 0xc2 && byte < 0xe0) return 1;
    if (byte >= 0xe0 && byte < 0xf0) return 2;
    return byte >= 0xf0 && byte < 0xf5 ? 3 : -1;
}

static void put_byte(text_filter *filter, unsigned char byte)
{
    const bool continues = (byte & 0xc0) == 0x80;
    if (filter->pending) {
        filter->pending = false;
        if (continues && byte < 0xa0) {
            put_escaped(filter, byte); /* U+0080 to U+009F */
            filter->following = 0;
            return;
        }
        filter->out[filter->used++] = (char)0xc2;
    }
    if (continues && filter->following > 0) {
        filter->following--;
        filter->out[filter->used++] = (char)byte;
        return;
    }
    const int rest = sequence_rest(byte);
    filter->following = rest > 0 ? rest : 0;
    filter->pending = byte == 0xc2;
    if (rest < 0 || byte == 0x7f || (byte < 0x20 && byte != '\n' && byte != '\t')) {
        put_escaped(filter, byte);
    } else if (!filter->pending) {
        filter->out[filter->used++] = (char)byte;
    }
}

enum { ESCAPED_BYTES = 8 }; /* the most that one byte becomes, with one held back */

static ssize_t filter_bytes(void *cookie, const char *data, size_t bytes)
{
    text_filter *filter = cookie;
    bool good = true;
    for (size_t i = 0; i < bytes && good; i++) {
        if (filter->used + ESCAPED_BYTES > sizeof filter->out) good = send(filter);
        put_byte(filter, (unsigned char)data[i]);
    }
    return good && send(filter) ? (ssize_t)bytes : 0;
}

static FILE *filter_stream(text_filter *filter, int fd, int buffering)
{
    filter->fd = fd;
    FILE *stream = fopencookie(filter, "w", (cookie_io_functions_t){.write = filter_bytes});
    DL_ASSERT(stream != NULL, "%s", strerror(errno));
    setvbuf(stream, NULL, buffering, BUFSIZ);
    return stream;
}

static void ignore_signal(int number)
{
    (void)number;
}

void dl_output_start(void)
{
    /* Caught, not ignored: programs started from here shall not inherit that. */
    struct sigaction limit;
    if (sigaction(SIGXFSZ, NULL, &limit) == 0 && limit.sa_handler == SIG_DFL) {
        limit.sa_handler = ignore_signal;
        sigaction(SIGXFSZ, &limit, NULL);
    }
    fflush(stdout);
    FILE *out = filter_stream(&filters[0], STDOUT_FILENO, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    FILE *err = filter_stream(&filters[1], STDERR_FILENO, _IONBF);
    if (dl_system_set_streams(out, err) == 0) return;
    fclose(out);
    fclose(err);
}
