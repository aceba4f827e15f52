/* Shows how far a training run is, from a thread that looks at the recorder a few times a second.
 * Without a terminal there is no such thread: nothing but the training runs. */
#ifndef DL_PROFILER_RUN_PROGRESS_H
#define DL_PROFILER_RUN_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>

#include "profiler/progress.h"
#include "profiler/recorder.h"

typedef struct dl_run_progress {
    const dl_recorder *recorder; /* borrowed until stop */
    dl_progress progress;
    pthread_t thread;
    bool running;
    bool stop; /* under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t stopped;
} dl_run_progress;

void dl_run_progress_start(dl_run_progress *progress, const dl_recorder *recorder);
void dl_run_progress_stop(dl_run_progress *progress);

#endif
