/* Live pages: the page contains the simulator as WebAssembly (share/dlscale/page/dlsim.core, which
 * ./check --page builds), and a script (live.js beside it) with controls that runs it again with
 * other settings. All content of files is data in the page, never code. */
#ifndef DL_SIM_LIVE_H
#define DL_SIM_LIVE_H

#include "sim/sweep.h"

/* Writes a page's controls for the study and the rows of its points, with which the script compares
 * the output of the page's simulator; or the reason why not, if the simulator's files are missing
 * or the study's files are too long. */
void dl_live_put(FILE *out, const dl_study *study, const dl_sweep *sweep);

/* Writes the page without a study, for choosing a network and a machine. DL_ERR_UNSUPPORTED without
 * the files of the simulator. */
dl_status dl_live_write(const char *path, dl_error *err) DL_MUST_CHECK;

#endif
