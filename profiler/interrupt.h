/* Ctrl-C, and the SIGTERM of batch systems and timeout(1), as a request to stop, so that results
 * measured until then are kept. */
#ifndef DL_PROFILER_INTERRUPT_H
#define DL_PROFILER_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* From this call on, the first SIGINT or SIGTERM sets the returned flag, for dl_train_config.stop,
 * and prints a message to standard error; a second one, of either kind, has its previous effect. If
 * dl_interrupt_met is not called within limit_s >= 1 seconds of the first, SIGALRM ends the process
 * with dl_interrupt_exit_code, so that a hanging thread cannot keep it alive; files keep their
 * data. Ignored signals stay ignored. A further call clears the flag. */
const atomic_bool *dl_interrupt_catch(unsigned limit_s);

/* Call when the requested stop is complete: the process is then no longer forced to end. */
void dl_interrupt_met(void);

/* Limits in seconds for the end of training's step and exchange, and of a benchmark's current
 * case. */
enum { DL_INTERRUPT_LIMIT_S = 10, DL_INTERRUPT_BENCH_LIMIT_S = 60 };

/* Whether a signal was caught since dl_interrupt_catch. */
bool dl_interrupt_caught(void);

/* The caught signal's name, "SIGINT" or "SIGTERM"; and the exit status of a command that it ended
 * early: 128 + the signal's number, as a shell reports for a command that the signal killed. */
const char *dl_interrupt_name(void);
int dl_interrupt_exit_code(void);

#endif
