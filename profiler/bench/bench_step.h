/* What sharing the machine costs: k copies of the model's step side by side without exchange.
 *
 * Copies are pinned as training's workers are. A copy's first steps are left out, and so are steps
 * that ended after the first copy was done, when fewer than k were running. */
#ifndef DL_PROFILER_BENCH_STEP_H
#define DL_PROFILER_BENCH_STEP_H

#include "profiler/bench/bench.h"

/* Runs for every k = 1 .. workers_max and batch, in several rounds, within about budget_ns. */
dl_status dl_bench_step(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                        dl_error *err) DL_MUST_CHECK;

#endif
