#include "kernels/thread_team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cpu.h"

/* The leader describes a loop and publishes a ticket: the loop's number in the high bits, so that
 * no ticket repeats, and the number of parts not yet taken in the low ones. A thread that takes a
 * part may read the description, since the leader waits for the part. A thread that is not
 * scheduled delays no other, since the others take its parts. */
struct dl_thread_team {
    int threads;
    dl_wait wait;
    dl_loop_part part;
    const void *loop;
    size_t count, grain;
    int parts;
    _Alignas(64) atomic_ullong ticket; /* number of the loop << 32 | parts not yet taken */
    atomic_bool dismissed;
    _Alignas(64) atomic_int undone; /* parts not yet finished */
    pthread_mutex_t mutex;          /* BLOCK: held to change the state that threads wait on */
    pthread_cond_t started, done;
};

/* Parts per thread, so that none waits long for a delayed one. */
enum { PARTS_A_THREAD = 4 };

static _Thread_local dl_thread_team *led; /* team that this thread leads; NULL: none */

dl_thread_team *dl_thread_team_make(int threads, dl_wait wait)
{
    DL_ASSERT(threads >= 1 && wait != DL_WAIT_AUTO, "%d threads, wait %d", threads, (int)wait);
    dl_thread_team *team = dl_alloc_aligned(sizeof *team, "team of threads");
    team->threads = threads;
    team->wait = wait;
    atomic_init(&team->ticket, 0);
    atomic_init(&team->dismissed, false);
    atomic_init(&team->undone, 0);
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->started, NULL);
    pthread_cond_init(&team->done, NULL);
    return team;
}

void dl_thread_team_free(dl_thread_team *team)
{
    if (team == NULL) return;
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->started);
    pthread_mutex_destroy(&team->mutex);
    free(team);
}

void dl_thread_team_lead(dl_thread_team *team)
{
    led = team;
}

static unsigned parts_left(unsigned long long ticket)
{
    return (unsigned)(ticket & UINT32_MAX);
}

static unsigned long long read_ticket(dl_thread_team *team)
{
    return atomic_load_explicit(&team->ticket, memory_order_acquire);
}

static bool is_dismissed(dl_thread_team *team)
{
    return atomic_load_explicit(&team->dismissed, memory_order_acquire);
}

/* Wakes blocked threads when there are parts, or no more loops. */
static void wake_others(dl_thread_team *team)
{
    if (team->wait == DL_WAIT_SPIN) return;
    pthread_mutex_lock(&team->mutex);
    pthread_cond_broadcast(&team->started);
    pthread_mutex_unlock(&team->mutex);
}

/* Waits until there are parts or the team is dismissed. */
static void await_parts(dl_thread_team *team)
{
    if (team->wait == DL_WAIT_SPIN) {
        while (parts_left(read_ticket(team)) == 0 && !is_dismissed(team))
            dl_cpu_relax();
        return;
    }
    pthread_mutex_lock(&team->mutex);
    while (parts_left(read_ticket(team)) == 0 && !is_dismissed(team))
        pthread_cond_wait(&team->started, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

static int undone(dl_thread_team *team)
{
    return atomic_load_explicit(&team->undone, memory_order_acquire);
}

static void await_end(dl_thread_team *team)
{
    if (team->wait == DL_WAIT_SPIN) {
        while (undone(team) > 0)
            dl_cpu_relax();
        return;
    }
    pthread_mutex_lock(&team->mutex);
    while (undone(team) > 0)
        pthread_cond_wait(&team->done, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

static void end_part(dl_thread_team *team)
{
    const int left = atomic_fetch_sub_explicit(&team->undone, 1, memory_order_acq_rel) - 1;
    if (left > 0 || team->wait == DL_WAIT_SPIN) return;
    pthread_mutex_lock(&team->mutex);
    pthread_cond_signal(&team->done);
    pthread_mutex_unlock(&team->mutex);
}

/* Returns the start of a part: whole grains, shared as equally as possible. */
static size_t part_start(const dl_thread_team *team, size_t part)
{
    const size_t grains = (team->count + team->grain - 1) / team->grain;
    const size_t start = grains * part / (size_t)team->parts * team->grain;
    return start < team->count ? start : team->count;
}

/* Computes parts until all of the loop are taken. */
static void take_parts(dl_thread_team *team)
{
    unsigned long long ticket = read_ticket(team);
    while (parts_left(ticket) > 0) {
        if (!atomic_compare_exchange_weak_explicit(&team->ticket, &ticket, ticket - 1,
                                                   memory_order_acquire, memory_order_acquire)) {
            continue;
        }
        const size_t part = (size_t)team->parts - parts_left(ticket);
        team->part(team->loop, part_start(team, part), part_start(team, part + 1));
        end_part(team);
        ticket = read_ticket(team);
    }
}

void dl_thread_team_serve(dl_thread_team *team)
{
    while (!is_dismissed(team)) {
        take_parts(team);
        await_parts(team);
    }
}

void dl_thread_team_dismiss(dl_thread_team *team)
{
    atomic_store_explicit(&team->dismissed, true, memory_order_release);
    wake_others(team);
}

void dl_divide(dl_loop_part part, const void *loop, size_t count, size_t grain)
{
    dl_thread_team *team = led;
    if (team == NULL || team->threads == 1 || count <= grain) {
        if (count > 0) part(loop, 0, count);
        return;
    }
    const size_t grains = (count + grain - 1) / grain;
    const size_t most = (size_t)team->threads * PARTS_A_THREAD;
    const unsigned long long number = (read_ticket(team) >> 32) + 1;
    team->part = part;
    team->loop = loop;
    team->count = count;
    team->grain = grain;
    team->parts = (int)(grains < most ? grains : most);
    atomic_store_explicit(&team->undone, team->parts, memory_order_relaxed);
    atomic_store_explicit(&team->ticket, number << 32 | (unsigned)team->parts,
                          memory_order_release);
    wake_others(team);
    take_parts(team);
    await_end(team);
}
