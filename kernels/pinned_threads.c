#include "kernels/pinned_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"

typedef enum gate_state { GATE_CLOSED, GATE_OPEN, GATE_CANCELLED } gate_state;

typedef struct team_state {
    dl_pinned_thread_fn fn;
    void *user;
    pthread_mutex_t mutex; /* protects the members below */
    pthread_cond_t changed;
    int ready; /* threads that wait at the gate */
    gate_state gate;
    dl_status status; /* DL_OK, or the status of a failed start, else of the first failed pinning */
    dl_error error;
} team_state;

typedef struct member {
    team_state *team;
    int index, core; /* core -1: any */
    pthread_t thread;
} member;

static void *member_main(void *user)
{
    member *self = user;
    team_state *team = self->team;
    dl_error why = {0};
    const dl_status pinned = self->core >= 0 ? dl_cpu_pin(self->core, &why) : DL_OK;
    pthread_mutex_lock(&team->mutex);
    if (pinned != DL_OK && team->status == DL_OK) {
        team->status =
            dl_error_set(&team->error, pinned, "thread %d: %.400s", self->index, why.text);
    }
    team->ready++;
    pthread_cond_broadcast(&team->changed);
    while (team->gate == GATE_CLOSED)
        pthread_cond_wait(&team->changed, &team->mutex);
    const gate_state gate = team->gate;
    pthread_mutex_unlock(&team->mutex);
    if (gate == GATE_OPEN) team->fn(team->user, self->index);
    return NULL;
}

/* Starts the threads and waits until all are at the gate; returns the number started. */
static int start_members(team_state *team, member *members, int count, const int *cores)
{
    int started = 0;
    for (; started < count; started++) {
        member *one = &members[started];
        const int core = cores != NULL ? cores[started] : -1;
        *one = (member){.team = team, .index = started, .core = core};
        const int failed = pthread_create(&one->thread, NULL, member_main, one);
        if (failed == 0) continue;
        pthread_mutex_lock(&team->mutex);
        team->status = dl_error_set(&team->error, DL_ERR_SYSTEM, "cannot start thread %d of %d: %s",
                                    started + 1, count, strerror(failed));
        pthread_mutex_unlock(&team->mutex);
        break;
    }
    pthread_mutex_lock(&team->mutex);
    while (team->ready < started)
        pthread_cond_wait(&team->changed, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
    return started;
}

dl_status dl_pinned_threads_run(int count, const int *cores, dl_pinned_thread_fn fn, void *user,
                                dl_error *err)
{
    team_state team = {.fn = fn, .user = user};
    pthread_mutex_init(&team.mutex, NULL);
    pthread_cond_init(&team.changed, NULL);
    DL_AUTOFREE member *members = dl_calloc((size_t)count, sizeof *members, "threads");
    const int started = start_members(&team, members, count, cores);
    pthread_mutex_lock(&team.mutex);
    team.gate = team.status == DL_OK ? GATE_OPEN : GATE_CANCELLED;
    pthread_cond_broadcast(&team.changed);
    pthread_mutex_unlock(&team.mutex);
    for (int i = 0; i < started; i++)
        pthread_join(members[i].thread, NULL);
    pthread_cond_destroy(&team.changed);
    pthread_mutex_destroy(&team.mutex);
    if (team.status != DL_OK && err != NULL) *err = team.error;
    return team.status;
}
