/* What makes a page live: in it, as WebAssembly, is the simulator itself (share/dlscale/page/dlsim.core,
 * which ./check --page builds), and a script (live.js beside it) with controls that runs it again with
 * other settings. All that comes from files is data in the page, never code. */
#ifndef DL_SIM_LIVE_H
#define DL_SIM_LIVE_H

#include "sim/sweep.h"

/* Writes the part of a page with the controls of a study and the rows of its points, with which the
 * script compares what the simulator in the page gives; without the files of the simulator, or where
 * the files of the study are too long, why there are none. */
void dl_live_put(FILE *out, const dl_study *study, const dl_sweep *sweep);

/* Writes the page of no study: choose a network and a machine. DL_ERR_UNSUPPORTED without the files
 * of the simulator. */
dl_status dl_live_write(const char *path, dl_error *err) DL_MUST_CHECK;

#endif
