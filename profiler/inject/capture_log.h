/* Where dl_capture_log (capture.h) writes. */
#ifndef DL_PROFILER_INJECT_CAPTURE_LOG_H
#define DL_PROFILER_INJECT_CAPTURE_LOG_H

/* From now on lines go to `<stem>.log`, made when there is one; before, to standard error. */
void dl_capture_log_open(const char *stem);

/* From now on nothing is said. Takes no lock: for forked children. */
void dl_capture_log_silence(void);

#endif
