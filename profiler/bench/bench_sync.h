/* What waiting costs: release from a spinning barrier, wake-up of a blocked thread, hand-over of a
 * contended lock, and how long the scheduler lets a thread run while others want its core. */
#ifndef DL_PROFILER_BENCH_SYNC_H
#define DL_PROFILER_BENCH_SYNC_H

#include "profiler/bench/bench.h"

/* Bursts of all cases in turn for budget_ns, at least one of each. A case that has no sample then is
 * measured in longer bursts, some seconds, until it has one; bench->gaps tells. */
dl_status dl_bench_sync(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                        dl_error *err) DL_MUST_CHECK;

#endif
