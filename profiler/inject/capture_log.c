#include "profiler/inject/capture_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "profiler/inject/capture.h"

/* A line that says more is cut. */
#define LINE_BYTES 1024

static _Atomic(char *) path; /* NULL = none yet */
static atomic_bool silent, complained;

void dl_capture_log_open(const char *stem)
{
    atomic_store(&path, dl_format("%s.log", stem));
}

void dl_capture_log_silence(void)
{
    atomic_store(&silent, true);
}

static bool write_to_file(const char *line, size_t bytes)
{
    const char *name = atomic_load(&path);
    if (name == NULL) return false;
    const int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return false;
    const bool written = write(fd, line, bytes) == (ssize_t)bytes;
    close(fd);
    return written;
}

void dl_capture_log(const char *format, ...)
{
    if (atomic_load(&silent)) return;
    const int error = errno;
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char line[LINE_BYTES + 16];
    const int bytes = snprintf(line, sizeof line, "%s\n", text);
    if (!write_to_file(line, (size_t)bytes) && !atomic_exchange(&complained, true)) {
        dprintf(STDERR_FILENO, "dlprof: %s\n", text);
    }
    errno = error;
}
