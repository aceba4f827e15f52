#include "common/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "common/units.h"

#define TERMINAL_AFTER_NS (2 * DL_NS_PER_S)
#define TERMINAL_EVERY_NS (DL_NS_PER_S / 5)
#define LOG_EVERY_NS (60 * DL_NS_PER_S)

void dl_progress_start(dl_progress *progress, const char *program, const char *what)
{
    const int64_t now_ns = dl_clock_ns();
    *progress = (dl_progress){.program = program,
                              .what = what,
                              .terminal = isatty(STDERR_FILENO) != 0,
                              .start_ns = now_ns,
                              .last_ns = now_ns,
                              .before = -1};
}

const char *dl_duration_text(char *text, int bytes, double seconds)
{
    static const struct {
        double up_to, unit;
        const char *format;
    } scales[] = {{100, 1, "%.0f s"},
                  {6000, 60, "%.0f min"},
                  {2 * 86400, 3600, "%.1f h"},
                  {2 * 31557600.0, 86400, "%.0f days"},
                  {1e300, 31557600.0, "%.3g years"}};
    size_t s = 0;
    while (s + 1 < sizeof scales / sizeof *scales && seconds >= scales[s].up_to)
        s++;
    snprintf(text, (size_t)bytes, scales[s].format, seconds / scales[s].unit);
    return text;
}

void dl_progress_show(void *user, int64_t done, int64_t count)
{
    dl_progress *p = user;
    const int64_t now_ns = dl_clock_ns();
    if (p->before < 0) { /* exclude jobs from a journal from the speed */
        p->before = done;
        char whole[80];
        snprintf(whole, sizeof whole, p->what, (long long)count);
        if (done > 0) {
            dprintf(STDERR_FILENO, "%s: continues with %lld %s from the journal\n", p->program,
                    (long long)done, whole);
        }
    }
    const int64_t every_ns = p->terminal ? TERMINAL_EVERY_NS : LOG_EVERY_NS;
    if (now_ns - p->last_ns < every_ns) return;
    if (p->terminal && now_ns - p->start_ns < TERMINAL_AFTER_NS) return;
    char whole[80], left[40] = "", line[200];
    snprintf(whole, sizeof whole, p->what, (long long)count);
    if (done > p->before) {
        const double each_s =
            dl_ns_to_s((double)(now_ns - p->start_ns)) / (double)(done - p->before);
        dl_duration_text(left, sizeof left, each_s * (double)(count - done));
    }
    snprintf(line, sizeof line, "%lld %s%s%s%s", (long long)done, whole,
             left[0] != '\0' ? ", " : "", left, left[0] != '\0' ? " left" : "");
    if (p->terminal) {
        dprintf(STDERR_FILENO, "\r%-50s", line);
    } else {
        dprintf(STDERR_FILENO, "%s: %s\n", p->program, line);
    }
    p->last_ns = now_ns;
    p->shown = true;
}

void dl_progress_end(dl_progress *progress)
{
    if (progress->shown && progress->terminal) dprintf(STDERR_FILENO, "\r%60s\r", "");
    progress->shown = false;
}
