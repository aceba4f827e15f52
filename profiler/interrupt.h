/* Ctrl-C, and the SIGTERM of batch systems and timeout(1), as a request to stop, so that what was
 * measured until then is kept. */
#ifndef DL_PROFILER_INTERRUPT_H
#define DL_PROFILER_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* From now on the first SIGINT or SIGTERM sets the flag that is returned, for dl_train_config.stop,
 * and says so on standard error; the second one, whichever it is, acts as it did before the call.
 * What is ignored stays ignored. May be called again: then the flag is cleared. */
const atomic_bool *dl_interrupt_catch(void);

/* Whether a signal was caught since. */
bool dl_interrupt_caught(void);

/* Of the signal that was caught: its name, "SIGINT" or "SIGTERM"; and the exit status of a command
 * that it ended early, 128 + its number, which is what a shell gives where the signal killed it. */
const char *dl_interrupt_name(void);
int dl_interrupt_exit_code(void);

#endif
