#include "trace/held_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FLAGS (O_WRONLY | O_APPEND | O_CLOEXEC)

int dl_held_file_open(dl_held_file *file, const char *path)
{
    struct stat found;
    const int fd = open(path, FLAGS | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return errno;
    if (fstat(fd, &found) != 0) {
        const int error = errno;
        close(fd);
        return error;
    }
    *file = (dl_held_file){.fd = fd, .device = found.st_dev, .inode = found.st_ino};
    return 0;
}

static bool is_file(const dl_held_file *file, int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode;
}

/* The descriptor that was lost is somebody else's, and left alone. */
static int reopen(dl_held_file *file, const char *path)
{
    const int fd = open(path, FLAGS);
    if (fd < 0) return EBADF;
    if (!is_file(file, fd)) {
        close(fd);
        return EBADF;
    }
    file->fd = fd;
    file->reopened++;
    return 0;
}

static int write_all(int fd, const char *at, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(fd, at, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? errno : EIO;
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

int dl_held_file_write(dl_held_file *file, const char *path, const void *data, size_t bytes)
{
    if (!is_file(file, file->fd)) {
        const int error = reopen(file, path);
        if (error != 0) return error;
    }
    /* The signal comes to the thread that writes: it waits while blocked, and is taken away. */
    sigset_t too_large, before;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_large, &before);
    const int error = write_all(file->fd, data, bytes);
    if (error == EFBIG && !sigismember(&before, SIGXFSZ)) {
        while (sigtimedwait(&too_large, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {}
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

uint64_t dl_held_file_bytes(const dl_held_file *file)
{
    struct stat found;
    if (!is_file(file, file->fd) || fstat(file->fd, &found) != 0) return 0;
    return S_ISREG(found.st_mode) ? (uint64_t)found.st_size : 0;
}

void dl_held_file_cut(const dl_held_file *file, uint64_t bytes)
{
    if (dl_held_file_bytes(file) <= bytes) return;
    while (ftruncate(file->fd, (off_t)bytes) != 0 && errno == EINTR) {}
}

int dl_held_file_close(dl_held_file *file)
{
    if (!is_file(file, file->fd)) return 0;
    return close(file->fd) == 0 ? 0 : errno;
}
