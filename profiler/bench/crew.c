#include "profiler/bench/crew.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"

typedef enum gate_state { GATE_CLOSED, GATE_OPEN, GATE_CANCELLED } gate_state;

typedef struct crew_state {
    dl_crew_fn fn;
    void *user;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    int ready; /* threads that wait at the gate */
    gate_state gate;
    dl_status status; /* of the first pinning that failed */
    dl_error error;
} crew_state;

typedef struct member {
    crew_state *crew;
    int index, core;
    pthread_t thread;
} member;

static void *member_main(void *user)
{
    member *self = user;
    crew_state *crew = self->crew;
    dl_error why = {0};
    const dl_status pinned = dl_cpu_pin(self->core, &why);
    pthread_mutex_lock(&crew->mutex);
    if (pinned != DL_OK && crew->status == DL_OK) {
        crew->status = pinned;
        crew->error = why;
    }
    crew->ready++;
    pthread_cond_broadcast(&crew->changed);
    while (crew->gate == GATE_CLOSED)
        pthread_cond_wait(&crew->changed, &crew->mutex);
    const gate_state gate = crew->gate;
    pthread_mutex_unlock(&crew->mutex);
    if (gate == GATE_OPEN) crew->fn(crew->user, self->index);
    return NULL;
}

/* Starts the threads and waits until all are at the gate; returns how many there are. */
static int start_members(crew_state *crew, member *members, int count, const int *cores)
{
    int started = 0;
    for (; started < count; started++) {
        member *one = &members[started];
        *one = (member){.crew = crew, .index = started, .core = cores[started]};
        const int failed = pthread_create(&one->thread, NULL, member_main, one);
        if (failed == 0) continue;
        pthread_mutex_lock(&crew->mutex);
        crew->status = dl_error_set(&crew->error, DL_ERR_SYSTEM, "cannot start thread %d of %d: %s",
                                    started + 1, count, strerror(failed));
        pthread_mutex_unlock(&crew->mutex);
        break;
    }
    pthread_mutex_lock(&crew->mutex);
    while (crew->ready < started)
        pthread_cond_wait(&crew->changed, &crew->mutex);
    pthread_mutex_unlock(&crew->mutex);
    return started;
}

dl_status dl_crew_run(int count, const int *cores, dl_crew_fn fn, void *user, dl_error *err)
{
    crew_state crew = {.fn = fn, .user = user};
    pthread_mutex_init(&crew.mutex, NULL);
    pthread_cond_init(&crew.changed, NULL);
    member *members = dl_calloc((size_t)count, sizeof *members, "threads");
    const int started = start_members(&crew, members, count, cores);
    pthread_mutex_lock(&crew.mutex);
    crew.gate = crew.status == DL_OK ? GATE_OPEN : GATE_CANCELLED;
    pthread_cond_broadcast(&crew.changed);
    pthread_mutex_unlock(&crew.mutex);
    for (int i = 0; i < started; i++)
        pthread_join(members[i].thread, NULL);
    free(members);
    pthread_cond_destroy(&crew.changed);
    pthread_mutex_destroy(&crew.mutex);
    if (crew.status != DL_OK && err != NULL) *err = crew.error;
    return crew.status;
}
