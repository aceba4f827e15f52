/* Ctrl-C, and the SIGTERM of batch systems and timeout(1), as a request to stop, so that results
 * measured until then are kept. */
#ifndef DL_PROFILER_INTERRUPT_H
#define DL_PROFILER_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* From now on the first SIGINT or SIGTERM sets the returned flag, for dl_train_config.stop, and
 * says so on standard error; the second one, of either kind, acts as it did before the call. If
 * dl_interrupt_met is not called within limit_s >= 1 seconds of the first one, the process ends
 * with dl_interrupt_exit_code, so that a hanging thread cannot keep it alive: data already in files
 * stays. Uses SIGALRM for that. Ignored signals stay ignored. May be called again: then the flag is
 * cleared. */
const atomic_bool *dl_interrupt_catch(unsigned limit_s);

/* The requested stop is complete: the process is no longer forced to end. */
void dl_interrupt_met(void);

/* Time that training gives a step and an exchange to end, and a benchmark its current case. */
enum { DL_INTERRUPT_LIMIT_S = 10, DL_INTERRUPT_BENCH_LIMIT_S = 60 };

/* Whether a signal was caught since. */
bool dl_interrupt_caught(void);

/* The caught signal's name, "SIGINT" or "SIGTERM"; and the exit status of a command that it ended
 * early, 128 + its number, as a shell gives when the signal killed it. */
const char *dl_interrupt_name(void);
int dl_interrupt_exit_code(void);

#endif
