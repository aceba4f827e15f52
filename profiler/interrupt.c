#include "profiler/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The handler has no other way to reach them. */
static atomic_bool caught;
static struct sigaction before;

static void handle(int number)
{
    static const char words[] = "\nstopping; once more ends at once\n";
    const int kept = errno;
    atomic_store(&caught, true);
    sigaction(number, &before, NULL);
    if (write(STDERR_FILENO, words, strlen(words)) < 0) errno = 0; /* nobody to tell */
    errno = kept;
}

const atomic_bool *dl_interrupt_catch(void)
{
    struct sigaction present;
    atomic_store(&caught, false);
    sigaction(SIGINT, NULL, &present);
    if (present.sa_handler == SIG_IGN || present.sa_handler == handle) return &caught;
    before = present;
    const struct sigaction ours = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &ours, NULL);
    return &caught;
}

bool dl_interrupt_caught(void)
{
    return atomic_load(&caught);
}
