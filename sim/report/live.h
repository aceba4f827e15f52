/* Live pages contain the simulator as WebAssembly (share/dlscale/page/dlsim.core, built by ./check
 * --page) and a script (live.js beside it) whose controls run it again with other settings. All
 * file contents are data in the page, never code. */
#ifndef DL_SIM_LIVE_H
#define DL_SIM_LIVE_H

#include "sim/sweep.h"

/* Writes a page's controls for the study, and the rows of its points, against which the script
 * checks the output of the page's simulator. If the simulator's files are missing or the study's
 * files are too long, writes the reason instead. */
void dl_live_put(FILE *out, const dl_study *study, const dl_sweep *sweep);

/* Writes a page without a study, for choosing a network and a machine. DL_ERR_UNSUPPORTED if the
 * simulator's files are missing. */
dl_status dl_live_write(const char *path, dl_error *err) DL_MUST_CHECK;

#endif
