#include "common/status.h"

#include <stdarg.h>
#include <stdlib.h>

static void fill(dl_error *err, dl_status code, const char *file, int line, const char *format,
                 va_list args)
{
    if (err == NULL) return;
    err->code = code;
    err->line = line;
    snprintf(err->file, sizeof err->file, "%s", file != NULL ? file : "");
    vsnprintf(err->text, sizeof err->text, format, args);
}

dl_status dl_error_set(dl_error *err, dl_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, NULL, 0, format, args);
    va_end(args);
    return code;
}

dl_status dl_error_set_at(dl_error *err, dl_status code, const char *file, int line,
                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, file, line, format, args);
    va_end(args);
    return code;
}

void dl_error_print(const dl_error *err, const char *program, FILE *out)
{
    fprintf(out, "%s: ", program);
    if (err->file[0] != '\0') {
        fprintf(out, "%s:", err->file);
        if (err->line > 0) fprintf(out, "%d:", err->line);
        fputc(' ', out);
    }
    fprintf(out, "%s\n", err->text);
}

int dl_status_exit_code(dl_status code)
{
    if (code == DL_OK) return 0;
    return code == DL_ERR_USAGE ? 2 : code == DL_ERR_UNFIT ? 3 : 1;
}

void dl_assert_failed(const char *file, int line, const char *expr, const char *format, ...)
{
    fprintf(stderr, "%s:%d: broken invariant (%s): ", file, line, expr);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}
