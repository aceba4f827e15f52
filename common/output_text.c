/* Displayed output: a terminal receives no control characters except line breaks and tabs. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/output.h"
#include "common/system.h"

/* State of the filter between a text stream and a file descriptor. */
typedef struct text_filter {
    int fd;
    int following; /* remaining bytes of a UTF-8 sequence */
    bool pending;  /* a 0xc2 is held back, since with the next byte it may be a control character */
    char out[4096];
    size_t used;
} text_filter;

static text_filter filters[2]; /* filters of standard output and standard error */

static bool send(text_filter *filter)
{
    const int error = dl_file_write(filter->fd, filter->out, filter->used);
    filter->used = 0;
    return error == 0;
}

/* Appends an escape sequence, for which the caller has ensured room. */
static void put_escaped(text_filter *filter, unsigned code)
{
    filter->used += (size_t)snprintf(filter->out + filter->used, sizeof filter->out - filter->used,
                                     "\\u%04x", code);
}

/* Returns the number of bytes after the first byte `byte` of a UTF-8 sequence; -1 if `byte` starts
 * none. */
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

enum { ESCAPED_BYTES = 8 }; /* maximum output for one byte, including a held one */

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

static void ignore_signal(int number DL_UNUSED) {}

void dl_output_start(void)
{
    /* Caught instead of ignored, because child programs would inherit an ignored signal. */
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
