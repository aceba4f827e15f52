#include "sim/report/figures.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/install.h"
#include "common/system.h"
#include "common/units.h"
#include "sim/report/html.h"

#define TIME_LIMIT_NS (60 * DL_NS_PER_S) /* a figure takes about one second of a core */
#define POLL_NS (5 * 1000 * 1000)

extern char **environ;

dl_status dl_drawing_begin(dl_drawing *drawing, dl_error *err)
{
    const char *parent = getenv("TMPDIR");
    char *folder =
        dl_format("%s/dlsim.XXXXXX", parent != NULL && *parent != '\0' ? parent : "/tmp");
    if (mkdtemp(folder) == NULL) {
        const int reason = errno;
        dl_error_set_at(err, DL_ERR_IO, folder, 0, "cannot make a folder for figures: %s",
                        strerror(reason));
        free(folder);
        return DL_ERR_IO;
    }
    *drawing = (dl_drawing){.folder = folder, .limit_ns = TIME_LIMIT_NS};
    return DL_OK;
}

void dl_drawing_end(dl_drawing *drawing)
{
    if (drawing->folder == NULL) return;
    DIR *folder = opendir(drawing->folder);
    for (struct dirent *entry = NULL; folder != NULL && (entry = readdir(folder)) != NULL;) {
        unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder != NULL) closedir(folder);
    rmdir(drawing->folder);
    free(drawing->folder);
    drawing->folder = NULL;
}

char *dl_drawing_path(const dl_drawing *drawing, const char *name)
{
    return dl_format("%s/%s", drawing->folder, name);
}

/* "'path'" as gnuplot reads it; free() it. */
static char *quoted(const char *path)
{
    char *text = dl_calloc(2 * strlen(path) + 3, 1, "a path for gnuplot"), *to = text;
    *to++ = '\'';
    for (const char *c = path; *c != '\0'; c++) {
        if (*c == '\'') *to++ = '\'';
        *to++ = *c;
    }
    *to = '\'';
    return text;
}

/* A file of the drawing, quoted. */
static char *quoted_file(const dl_drawing *drawing, const char *name)
{
    char *path = dl_drawing_path(drawing, name);
    char *text = quoted(path);
    free(path);
    return text;
}

/* What gnuplot is to do before the script. */
static char *prepare(const dl_drawing *drawing, const dl_figure *figure, const char *output)
{
    char *results = quoted_file(drawing, figure->results);
    char *histogram = figure->histogram != NULL ? quoted_file(drawing, figure->histogram) : NULL;
    char *svg = quoted_file(drawing, output);
    char *text = dl_format("results=%s; output=%s; compact=1; %s%s%s%s", results, svg,
                           histogram != NULL ? "histogram=" : "",
                           histogram != NULL ? histogram : "", histogram != NULL ? "; " : "",
                           figure->variables != NULL ? figure->variables : "");
    free(results);
    free(histogram);
    free(svg);
    return text;
}

/* Waits for the child until *left_ns are used up, then ends it; whether it exited with 0. Polls are
 * counted instead of reading the clock, which goes on while both processes are paused. */
static bool finish(pid_t pid, int64_t *left_ns, bool *late)
{
    int status = 0;
    *late = false;
    for (;;) {
        const pid_t ended = waitpid(pid, &status, *late ? 0 : WNOHANG);
        if (ended == pid) return !*late && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (ended < 0 && errno != EINTR) return false;
        if (ended == 0 && *left_ns <= 0) {
            kill(pid, SIGKILL);
            *late = true;
        } else if (ended == 0) {
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
            *left_ns -= POLL_NS;
        }
    }
}

/* The first line that gnuplot printed, NULL if there is none. */
static char *first_line(const char *log)
{
    char *text = NULL;
    size_t bytes = 0;
    dl_error ignored = {0};
    if (dl_file_read(log, &text, &bytes, &ignored) != DL_OK) return NULL;
    char *start_of = text + strspn(text, "\n");
    start_of[strcspn(start_of, "\n")] = '\0';
    char *line = *start_of != '\0' ? dl_strdup(start_of) : NULL;
    free(text);
    return line;
}

typedef struct child {
    pid_t pid; /* 0: not started */
    char *svg, *log;
} child;

static void launch(child *c, const dl_drawing *drawing, dl_figure *figure, size_t number)
{
    char *plots = dl_share_path("plots");
    char *script = dl_format("%s/%s.gp", plots, figure->name);
    free(plots);
    char *svg = dl_format("%zu.svg", number), *log = dl_format("%zu.log", number);
    char *before = prepare(drawing, figure, svg);
    c->svg = dl_drawing_path(drawing, svg);
    c->log = dl_drawing_path(drawing, log);
    if (access(script, R_OK) != 0) {
        figure->why_not = dl_format("there is no %s ($DLSCALE_SHARE names another folder)", script);
    } else {
        const char *const arguments[] = {"gnuplot", "-d", "-e", before, script, NULL};
        const int reason = dl_system_start(arguments, c->log, &c->pid);
        if (reason == ENOENT) {
            figure->why_not = dl_strdup("gnuplot is not installed");
        } else if (reason != 0) {
            figure->why_not = dl_format("gnuplot cannot be run: %s", strerror(reason));
        }
        if (reason != 0) c->pid = 0;
    }
    free(script);
    free(svg);
    free(log);
    free(before);
}

static void collect(child *c, dl_figure *figure, int64_t limit_ns, int64_t *left_ns)
{
    bool late = false;
    dl_error ignored = {0};
    if (c->pid != 0) {
        const bool drawn = finish(c->pid, left_ns, &late) &&
                           dl_file_read(c->svg, &figure->svg, &figure->bytes, &ignored) == DL_OK;
        if (late) {
            figure->why_not =
                dl_format("gnuplot took more than %g s", dl_ns_to_s((double)limit_ns));
        } else if (!drawn) {
            figure->why_not = first_line(c->log);
            if (figure->why_not == NULL) figure->why_not = dl_strdup("gnuplot failed");
        }
    }
    free(c->svg);
    free(c->log);
}

void dl_figures_draw(const dl_drawing *drawing, dl_figure *figures, size_t count)
{
    child *children = dl_calloc(count, sizeof *children, "figures");
    for (size_t i = 0; i < count; i++)
        launch(&children[i], drawing, &figures[i], i);
    int64_t left_ns = drawing->limit_ns;
    for (size_t i = 0; i < count; i++)
        collect(&children[i], &figures[i], drawing->limit_ns, &left_ns);
    free(children);
}

void dl_figure_put(FILE *out, const dl_figure *figure, const char *alt, const char *caption)
{
    if (figure->svg != NULL) {
        dl_html_figure(out, figure->svg, figure->bytes, alt, caption);
    } else if (figure->why_not != NULL) {
        dl_html(out, "<p class=\"sources\">The figure %s is not here: %s.</p>\n", figure->name,
                figure->why_not);
    }
}

void dl_figure_free(dl_figure *figure)
{
    free(figure->svg);
    free(figure->why_not);
    figure->svg = figure->why_not = NULL;
}
