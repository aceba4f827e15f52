#include "profiler/run/run_progress.h"

#include <time.h>

#include "common/units.h"

#define LOOK_NS (DL_NS_PER_S / 2)

static double done_frac(const dl_recorder *recorder)
{
    return (double)dl_recorder_steps_done(recorder, 0) / (double)recorder->steps;
}

static void *show(void *user)
{
    dl_run_progress *progress = user;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    pthread_mutex_lock(&progress->mutex);
    while (!progress->stop) {
        const int64_t ns = until.tv_nsec + LOOK_NS;
        until.tv_sec += (time_t)(ns / DL_NS_PER_S);
        until.tv_nsec = (long)(ns % DL_NS_PER_S);
        pthread_cond_timedwait(&progress->stopped, &progress->mutex, &until);
        if (!progress->stop) {
            dl_progress_update(&progress->progress, done_frac(progress->recorder));
        }
    }
    pthread_mutex_unlock(&progress->mutex);
    return NULL;
}

void dl_run_progress_start(dl_run_progress *progress, const dl_recorder *recorder)
{
    *progress = (dl_run_progress){.recorder = recorder};
    dl_progress_init(&progress->progress, "training");
    if (!progress->progress.terminal) return;
    pthread_mutex_init(&progress->mutex, NULL);
    pthread_cond_init(&progress->stopped, NULL);
    /* Without the thread there is no progress to see, and nothing else is lost. */
    progress->running = pthread_create(&progress->thread, NULL, show, progress) == 0;
}

void dl_run_progress_stop(dl_run_progress *progress)
{
    if (!progress->progress.terminal) return;
    if (progress->running) {
        pthread_mutex_lock(&progress->mutex);
        progress->stop = true;
        pthread_cond_signal(&progress->stopped);
        pthread_mutex_unlock(&progress->mutex);
        pthread_join(progress->thread, NULL);
    }
    dl_progress_end(&progress->progress);
    pthread_cond_destroy(&progress->stopped);
    pthread_mutex_destroy(&progress->mutex);
}
