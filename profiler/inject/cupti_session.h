/* The CUPTI front end: subscribes, hands buffers to CUPTI and takes them back, and decodes them
 * into the capture in a thread of its own, every DL_CAPTURE_FLUSH_MS and when one is full.
 *
 * Meta keys that it writes: cupti_version and driver_version (numbers as CUPTI and the driver give
 * them), refused_kinds (what CUPTI would not record), dropped_records (by CUPTI, for want of
 * buffers), lost_timestamps (records without times), unknown_records, buffer_bytes (of memory for
 * CUPTI at most), takeover ("clock": another tool has set CUPTI's clock, what came later was left
 * out; "buffers": CUPTI's buffers seem to go to another tool).
 */
#ifndef DL_PROFILER_INJECT_CUPTI_SESSION_H
#define DL_PROFILER_INJECT_CUPTI_SESSION_H

#include <stdbool.h>

/* Begins recording through CUPTI, once a process: from InitializeInjection, before any context is
 * made. False if that cannot be, which the capture's log says; CUPTI is left alone then. */
bool dl_cupti_session_start(void);

#endif
