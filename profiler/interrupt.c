#include "profiler/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/status.h"

static const int numbers[] = {SIGINT, SIGTERM};
enum { SIGNAL_COUNT = sizeof numbers / sizeof *numbers };

/* Offset that a shell adds to the number of the signal that ended a command. */
#define EXIT_CODE_BASE 128

/* Global: the handler cannot reach them otherwise. */
static atomic_bool caught;
static atomic_int caught_number;
static struct sigaction before[SIGNAL_COUNT];
static volatile sig_atomic_t taken[SIGNAL_COUNT];

static atomic_uint limit_s;

/* May only use async-signal-safe functions. */
static void force(int number DL_UNUSED)
{
    static const char words[] = "still not stopped: ended by force\n";
    if (write(STDERR_FILENO, words, strlen(words)) < 0)
        errno = 0; /* a failure cannot be reported */
    _exit(EXIT_CODE_BASE + atomic_load(&caught_number));
}

static void handle(int number)
{
    static const char words[] = "\nstopping; a second interrupt ends immediately\n";
    const int kept = errno;
    atomic_store(&caught_number, number);
    atomic_store(&caught, true);
    for (int i = 0; i < SIGNAL_COUNT; i++)
        if (taken[i]) sigaction(numbers[i], &before[i], NULL);
    alarm(atomic_load(&limit_s));
    if (write(STDERR_FILENO, words, strlen(words)) < 0)
        errno = 0; /* a failure cannot be reported */
    errno = kept;
}

const atomic_bool *dl_interrupt_catch(unsigned limit)
{
    DL_ASSERT(limit >= 1, "limit %u s", limit);
    dl_interrupt_met();
    atomic_store(&limit_s, limit);
    struct sigaction forced = {.sa_handler = force};
    sigemptyset(&forced.sa_mask);
    sigaction(SIGALRM, &forced, NULL);
    struct sigaction ours = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < SIGNAL_COUNT; i++)
        sigaddset(&ours.sa_mask, numbers[i]);
    atomic_store(&caught, false);
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        struct sigaction present;
        sigaction(numbers[i], NULL, &present);
        if (present.sa_handler == SIG_IGN || present.sa_handler == handle) continue;
        before[i] = present;
        taken[i] = 1;
        sigaction(numbers[i], &ours, NULL);
    }
    return &caught;
}

void dl_interrupt_met(void)
{
    atomic_store(&limit_s, 0); /* a signal that arrives now sets no alarm */
    alarm(0);
}

bool dl_interrupt_caught(void)
{
    return atomic_load(&caught);
}

const char *dl_interrupt_name(void)
{
    DL_ASSERT(dl_interrupt_caught(), "number %d", atomic_load(&caught_number));
    return atomic_load(&caught_number) == SIGTERM ? "SIGTERM" : "SIGINT";
}

int dl_interrupt_exit_code(void)
{
    DL_ASSERT(dl_interrupt_caught(), "number %d", atomic_load(&caught_number));
    return EXIT_CODE_BASE + atomic_load(&caught_number);
}
