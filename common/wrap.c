#include "common/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/alloc.h"

enum { COLUMNS_DEFAULT = 80, COLUMNS_LEAST = 40, COLUMNS_MOST = 10000 };

int dl_wrap_columns(FILE *out)
{
    const char *given = getenv("COLUMNS");
    const long columns = given != NULL ? strtol(given, NULL, 10) : 0;
    struct winsize size = {0};
    /* A stream in memory has no number, nor has filtered standard output (common/output.h). */
    const int file = out == stdout ? STDOUT_FILENO : fileno(out);
    if (file >= 0 && columns > 0 && columns <= COLUMNS_MOST)
        return columns > COLUMNS_LEAST ? (int)columns : COLUMNS_LEAST;
    if (file < 0 || !isatty(file) || ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return COLUMNS_DEFAULT;
    }
    return size.ws_col > COLUMNS_LEAST ? size.ws_col : COLUMNS_LEAST;
}

void dl_wrap(FILE *out, const char *text, int column, int indent, int columns)
{
    bool is_first = true; /* first word of its line */
    for (const char *at = text + strspn(text, " "); *at != '\0'; at += strspn(at, " ")) {
        const int bytes = (int)strcspn(at, " \n");
        if (bytes > 0) {
            if (!is_first && column + 1 + bytes > columns) {
                fprintf(out, "\n%*s", indent, "");
                column = indent;
                is_first = true;
            }
            column += fprintf(out, "%s%.*s", is_first ? "" : " ", bytes, at);
            is_first = false;
            at += bytes;
        } else { /* a newline */
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            is_first = true;
            at++;
        }
    }
    fputc('\n', out);
}

void dl_wrap_print(FILE *out, int indent, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *text = dl_vformat(format, args);
    va_end(args);
    dl_wrap(out, text, 0, indent, dl_wrap_columns(out));
}
