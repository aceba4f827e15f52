/* What the injected library costs a program: the time that NVTX ranges and marks take in a process
 * that loads it, less the time they take without it. One thread, and the library's own thread
 * writes the trace meanwhile. What CUPTI costs is not in here: only a GPU can tell. */
#ifndef DL_PROFILER_CAPTURE_COST_H
#define DL_PROFILER_CAPTURE_COST_H

#include "common/status.h"

typedef enum dl_capture_case {
    DL_CAPTURE_COST_PUSH,       /* nvtxRangePushA and Pop: the text is looked up */
    DL_CAPTURE_COST_REGISTERED, /* nvtxDomainRangePushEx of a registered text, and Pop */
    DL_CAPTURE_COST_START,      /* nvtxRangeStartA and End */
    DL_CAPTURE_COST_MARK,       /* nvtxMarkA: one record and nothing else */
    DL_CAPTURE_COST_COUNT
} dl_capture_case;

extern const char *const dl_capture_case_names[DL_CAPTURE_COST_COUNT];

/* Each case is timed in so many rounds of so many calls. */
#define DL_CAPTURE_COST_ROUNDS 61
#define DL_CAPTURE_COST_CALLS 1000

/* ns a range or mark: median over the rounds and its distribution-free interval with a confidence
 * of DL_OVERHEAD_CONFIDENCE, both less the median without the library. */
typedef struct dl_capture_cost {
    double added_ns, low_ns, high_ns;
} dl_capture_cost;

/* Measures in two child processes. The trace is written below `folder` and removed. The process
 * must have a single thread. DL_ERR_UNSUPPORTED in a build without NVTX's headers; DL_ERR_DATA if
 * the library recorded something else than what was called. */
dl_status dl_capture_cost_measure(const char *library, const char *folder,
                                  dl_capture_cost costs[DL_CAPTURE_COST_COUNT],
                                  dl_error *err) DL_MUST_CHECK;

#endif
