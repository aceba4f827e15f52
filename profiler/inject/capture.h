/* The recording of one process, to which every front end of the injected library (CUPTI, NVTX, the
 * NCCL plugin) appends: one .dlt file `<folder>/<host>.<pid>.<start-ns>.dlt`.
 *
 * It starts with the first call of dl_capture_active, _append, _intern, _meta or _path, in
 * whichever thread, and ends in an atexit handler. Any thread may call everything here at any time,
 * also before, during and after the end, and in forked children: when nothing is recorded (no
 * output folder, file not writable, forked child, ended, stopped) the calls do nothing. None of
 * them ever ends the program, prints on its standard output or changes errno.
 *
 * A forked child records nothing and leaves the parent's file alone; a child that calls exec is a
 * new process with a separate file. A killed process keeps everything up to the last flush, at most
 * DL_CAPTURE_FLUSH_MS before.
 *
 * Do not call these while holding a lock that a fork handler or an exit handler takes. */
#ifndef DL_PROFILER_INJECT_CAPTURE_H
#define DL_PROFILER_INJECT_CAPTURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "trace/activity/activity.h"

#define DL_CAPTURE_FLUSH_MS 500 /* interval at which the threads' buffers are written */

/* Returns whether activities are recorded now. Costs one load; lets a front end skip work. */
bool dl_capture_active(void);

/* Appends a copy of *activity, whose name and detail come from dl_capture_intern. About as cheap as
 * an uncontended lock. Activities that no file may hold (unknown kind, negative time or duration,
 * foreign name) are counted under the meta key "invalid_records" and dropped. */
void dl_capture_append(const dl_activity *activity);

/* Writes the calling thread's activities now, instead of at the next flush. */
void dl_capture_flush(void);

/* Returns the id of `text` in the trace's strings, the same for equal texts, valid until the
 * process ends; 0 for "", NULL, and when nothing is recorded. Takes a lock and hashes the text:
 * keep the ids of recurring texts. */
uint32_t dl_capture_intern(const char *text);

/* Writes key = value about the whole run; a later value overrides. Slow (one write): not for
 * events. */
void dl_capture_meta(const char *key, const char *value);
void dl_capture_meta_number(const char *key, uint64_t value);

/* Returns CLOCK_REALTIME in ns: the clock of all activities. */
int64_t dl_capture_now(void);

/* Returns the calling thread's gettid(), cached per thread. */
uint32_t dl_capture_thread(void);

/* Returns the settings of the recording, valid once the capture has started (dl_capture_active). */
const struct dl_capture_settings *dl_capture_settings_used(void);

/* Returns the path of a file next to the trace, with `ending` (".raw") instead of ".dlt"; NULL when
 * nothing is recorded. free() it. */
char *dl_capture_path(const char *ending);

/* `function` will be called once before the file is closed, at the end of the process or of the
 * recording, and may still append. 4 functions at most, each of them once. */
void dl_capture_at_end(void (*function)(void));

/* Logs a failure: one line in `<folder>/<host>.<pid>.<start-ns>.log` beside the trace; if no file
 * can be written, only the process's first such line, on its standard error. */
void dl_capture_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Starts a thread called `name` with all signals blocked: they are for the program's own threads.
 * If it cannot, logs why with the consequence `lost`, and returns false. */
bool dl_capture_start_thread(pthread_t *thread, void *(*run)(void *), const char *name,
                             const char *lost);

/* Timed waits with deadlines on the monotonic clock, which never jumps. */

/* Returns the time `wait_ns` (at least 0) from now. */
struct timespec dl_deadline(int64_t wait_ns);

/* Initialises a condition whose pthread_cond_timedwait takes such deadlines. */
void dl_deadline_cond_init(pthread_cond_t *condition);

/* Counts the steps that a program marks, to end a recording after a number of them. A step is a
 * RANGE or MARK whose text names one (dl_text_names_step in trace/activity/step_marks.h). Texts
 * that differ only in numbers ("step 1", "step 2") are counted together, other texts separately
 * ("train step", "Optimizer.step"); the limit is reached as soon as one count reaches it. Any
 * thread may call these functions. */

/* Sets the limit; 0 = none. Call it once, before the other functions. */
void dl_step_limit_begin(int64_t steps);

/* Registers the text of an id. */
void dl_step_limit_name(uint32_t id, const char *text);

/* Counts `activity` if it marks a step; returns whether it reaches the limit, or is a later step of
 * the same kind. */
bool dl_step_limit_reached(const dl_activity *activity);

#endif
