/* Ctrl-C, and the SIGTERM of batch systems and timeout(1), as a request to stop, so that what was
 * measured until then is kept. */
#ifndef DL_PROFILER_INTERRUPT_H
#define DL_PROFILER_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* From now on the first SIGINT or SIGTERM sets the flag that is returned, for dl_train_config.stop,
 * and says so on standard error; the second one, whichever it is, acts as it did before the call.
 * If dl_interrupt_met is not called within limit_s >= 1 seconds of the first one, the process ends
 * with dl_interrupt_exit_code, so that a thread that hangs cannot keep it: what is in files stays.
 * Takes SIGALRM for that. What is ignored stays ignored. May be called again: then the flag is
 * cleared. */
const atomic_bool *dl_interrupt_catch(unsigned limit_s);

/* Everything that was asked to stop has stopped: nothing is forced any more. */
void dl_interrupt_met(void);

/* What training gives a step and an exchange to end, and a benchmark the case that it measures. */
enum { DL_INTERRUPT_LIMIT_S = 10, DL_INTERRUPT_BENCH_LIMIT_S = 60 };

/* Whether a signal was caught since. */
bool dl_interrupt_caught(void);

/* Of the signal that was caught: its name, "SIGINT" or "SIGTERM"; and the exit status of a command
 * that it ended early, 128 + its number, which is what a shell gives where the signal killed it. */
const char *dl_interrupt_name(void);
int dl_interrupt_exit_code(void);

#endif
