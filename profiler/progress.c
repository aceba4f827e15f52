#include "profiler/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "common/units.h"

#define FIRST_NS (2 * DL_NS_PER_S)
#define EVERY_NS (DL_NS_PER_S / 4)

void dl_progress_init(dl_progress *progress, const char *what)
{
    *progress = (dl_progress){
        .what = what, .terminal = isatty(STDERR_FILENO) == 1, .next_ns = dl_clock_ns() + FIRST_NS};
}

void dl_progress_update(dl_progress *progress, double done_frac)
{
    if (!progress->terminal) return;
    const int64_t now_ns = dl_clock_ns();
    if (now_ns < progress->next_ns) return;
    dprintf(STDERR_FILENO, "\r%s: %3.0f %% ", progress->what, 100 * done_frac);
    progress->shown = true;
    progress->next_ns = now_ns + EVERY_NS;
}

void dl_progress_end(dl_progress *progress)
{
    if (progress->shown) dprintf(STDERR_FILENO, "\r\033[K");
    progress->shown = false;
}
