/* Ctrl-C as a request to stop, so that what was measured until then is kept. */
#ifndef DL_PROFILER_INTERRUPT_H
#define DL_PROFILER_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* Exit status of a command that SIGINT ended early: what a shell gives where the signal killed it.
 */
#define DL_INTERRUPT_EXIT_CODE 130

/* From now on the first SIGINT sets the flag that is returned, for dl_train_config.stop, and says
 * so on standard error; the second one acts as it did before the call. Where SIGINT is ignored, it
 * stays ignored. May be called again: then the flag is cleared. */
const atomic_bool *dl_interrupt_catch(void);

/* Whether a SIGINT was caught since. */
bool dl_interrupt_caught(void);

#endif
