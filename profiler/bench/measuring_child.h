/* Measuring in a child process, whether it is recorded or not, and a folder for what it writes
 * meanwhile. */
#ifndef DL_PROFILER_MEASURING_CHILD_H
#define DL_PROFILER_MEASURING_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "profiler/inject/settings.h"
#include "trace/activity/activity.h"

/* What a child does. Both functions get `user` and the result's memory, zeroed before. */
typedef struct dl_child_work {
    void (*work)(void *user, void *result);
    void (*finish)(void *user, void *result); /* behind all exit handlers that `work` led to; NULL =
                                                 nothing */
    void *user;
} dl_child_work;

/* Forks; the child works, runs the exit handlers that its work led to, as a program does at its end,
 * and hands over result[bytes]. The calling process must have a single thread. DL_ERR_SYSTEM if the child cannot be made,
 * ends otherwise or hands nothing over; the result is undefined then. */
dl_status dl_child_measure(const dl_child_work *work, void *result, size_t bytes,
                           dl_error *err) DL_MUST_CHECK;

/* In the child, before its first call: has NVTX, and with `cuda` the driver, load the library as
 * dlprof run does, which then records by the settings. Library NULL: nothing is loaded, whatever the
 * environment said. */
void dl_child_inject(const dl_capture_settings *settings, const char *library, bool cuda);

/* A new folder below `below`; free() its path. DL_ERR_IO if it cannot be made. */
dl_status dl_child_folder_make(const char *below, char **folder, dl_error *err) DL_MUST_CHECK;

/* Path of one file in the folder with this ending (".dlt"), or NULL if there is none. free() it. */
char *dl_child_folder_find(const char *folder, const char *ending);

/* The activities of the trace that a recorded child left. */
typedef struct dl_child_recording {
    bool found; /* there is a trace */
    size_t count, of_kind[DL_ACTIVITY_KIND_END];
} dl_child_recording;

/* Counts them. Fails as dl_trace_read; no trace at all is no error. */
dl_status dl_child_recording_count(const char *folder, dl_child_recording *recording,
                                   dl_error *err) DL_MUST_CHECK;

/* Removes the files in the folder; it may hold no folders. */
void dl_child_folder_empty(const char *folder);

/* Removes folder and files, and frees the path. */
void dl_child_folder_remove(char *folder);

#endif
