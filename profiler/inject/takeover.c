#include "profiler/inject/takeover.h"

#include <stdlib.h>

#include "profiler/inject/capture.h"

/* Between CUPTI's clock and CLOCK_REALTIME, of which it is one reading: also a step of the system's
 * clock between the two is well below. */
#define CLOCK_TOLERANCE_NS 1000000000LL

/* Of silence, 5 s at 2 checks a second. A thread's buffer comes only when all kernels in it have
 * ended. */
#define SILENT_MAX 10

static void check_clock(dl_takeover *takeover, const dl_cupti_api *api)
{
    uint64_t theirs_ns = 0;
    if (takeover->clock || api->GetTimestamp(&theirs_ns) != CUPTI_SUCCESS) return;
    const int64_t ours_ns = dl_capture_now();
    if (theirs_ns <= INT64_MAX && llabs((int64_t)theirs_ns - ours_ns) < CLOCK_TOLERANCE_NS) return;
    takeover->clock = true;
    dl_capture_meta("takeover", "clock");
    dl_capture_log("another profiler has set CUPTI's clock: what came later is left out");
}

void dl_takeover_check(dl_takeover *takeover, const dl_cupti_api *api, unsigned calls,
                       uint64_t records)
{
    check_clock(takeover, api);
    if (records > 0)
        takeover->silent = 0;
    else if (calls != takeover->calls)
        takeover->silent++;
    takeover->calls = calls;
    const bool buffers = takeover->silent >= SILENT_MAX;
    if (buffers == takeover->buffers || takeover->clock) return;
    takeover->buffers = buffers;
    dl_capture_meta("takeover", buffers ? "buffers" : "");
    if (buffers) dl_capture_log("CUPTI's buffers seem to go to another profiler");
}
