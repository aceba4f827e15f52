#include "tests/doubles/thread_ranks.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/exchange.h"

/* A rank's arguments to a joint call. */
typedef struct offer {
    bool flag;
    void *data;
    const void *const *vectors;
    int n;
} offer;

struct thread_ranks {
    int size, arrived;
    double limit_s;
    unsigned round;
    offer offers[DL_RANKS_MAX];
    bool failed;
    dl_error failure;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

typedef struct thread_rank {
    dl_rank_group base;
    thread_ranks *ranks;
} thread_rank;

static thread_ranks *ranks_of(dl_rank_group *group)
{
    return ((thread_rank *)group)->ranks;
}

/* Called with the mutex. */
static void fail(thread_ranks *ranks, int rank, const char *what)
{
    if (ranks->failed) return;
    (void)dl_error_set(&ranks->failure, DL_ERR_SYSTEM, "rank %d %s", rank, what);
    ranks->failed = true;
    pthread_cond_broadcast(&ranks->changed);
}

/* Waits until all ranks have called it, each with its offer. */
static dl_status meet(dl_rank_group *group, const offer *mine, dl_error *err)
{
    thread_ranks *ranks = ranks_of(group);
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    const int64_t until_ns = until.tv_nsec + dl_ns_ceil(dl_s_to_ns(ranks->limit_s));
    until.tv_sec += until_ns / DL_NS_PER_S;
    until.tv_nsec = until_ns % DL_NS_PER_S;
    pthread_mutex_lock(&ranks->mutex);
    const unsigned round = ranks->round;
    if (mine != NULL) ranks->offers[group->rank] = *mine;
    if (++ranks->arrived == ranks->size) {
        ranks->arrived = 0;
        ranks->round++;
        pthread_cond_broadcast(&ranks->changed);
    }
    while (!ranks->failed && ranks->round == round) {
        if (pthread_cond_timedwait(&ranks->changed, &ranks->mutex, &until) != 0)
            fail(ranks, group->rank, "has waited for longer than the limit");
    }
    const dl_status status = ranks->failed ? ranks->failure.code : DL_OK;
    if (status != DL_OK && err != NULL) *err = ranks->failure;
    pthread_mutex_unlock(&ranks->mutex);
    return status;
}

static dl_status sum(dl_rank_group *group, void *result, const void *const *vectors, int n, int of,
                     size_t count, dl_precision precision, dl_error *err)
{
    thread_ranks *ranks = ranks_of(group);
    const void *all[DL_RANKS_MAX];
    int vector_count = 0;
    dl_status status = meet(group, &(offer){.vectors = vectors, .n = n}, err);
    for (int r = 0; status == DL_OK && r < ranks->size; r++) {
        memcpy(all + vector_count, ranks->offers[r].vectors, (size_t)n * sizeof *vectors);
        vector_count += n;
    }
    if (status == DL_OK) dl_exchange_sum(result, all, vector_count, of, 0, count, precision);
    return status == DL_OK ? meet(group, NULL, err) : status;
}

static dl_status agree(dl_rank_group *group, bool mine, bool *any, dl_error *err)
{
    thread_ranks *ranks = ranks_of(group);
    dl_status status = meet(group, &(offer){.flag = mine}, err);
    bool flag = false;
    for (int r = 0; status == DL_OK && r < ranks->size; r++)
        flag |= ranks->offers[r].flag;
    if (status == DL_OK) status = meet(group, NULL, err);
    if (status == DL_OK) *any = flag;
    return status;
}

static dl_status broadcast(dl_rank_group *group, void *data, size_t bytes, dl_error *err)
{
    thread_ranks *ranks = ranks_of(group);
    const dl_status status = meet(group, &(offer){.data = data}, err);
    if (status != DL_OK) return status;
    if (group->rank > 0) memcpy(data, ranks->offers[0].data, bytes);
    return meet(group, NULL, err);
}

static dl_status gather(dl_rank_group *group, const void *data, void *all, size_t bytes,
                        dl_error *err)
{
    thread_ranks *ranks = ranks_of(group);
    const dl_status status = meet(group, &(offer){.data = (void *)(uintptr_t)data}, err);
    if (status != DL_OK) return status;
    for (int r = 0; group->rank == 0 && r < ranks->size; r++)
        memcpy((char *)all + (size_t)r * bytes, ranks->offers[r].data, bytes);
    return meet(group, NULL, err);
}

static bool lost(dl_rank_group *group)
{
    thread_ranks *ranks = ranks_of(group);
    pthread_mutex_lock(&ranks->mutex);
    const bool failed = ranks->failed;
    pthread_mutex_unlock(&ranks->mutex);
    return failed;
}

static void abandon(dl_rank_group *group, const dl_error *failure)
{
    thread_ranks *ranks = ranks_of(group);
    DL_AUTOFREE char *what = dl_format("has failed: %s", failure->text);
    pthread_mutex_lock(&ranks->mutex);
    fail(ranks, group->rank, what);
    pthread_mutex_unlock(&ranks->mutex);
}

static void leave(dl_rank_group *group, const dl_error *failure)
{
    if (failure != NULL) abandon(group, failure);
    free(group);
}

thread_ranks *thread_ranks_make(int size, double limit_s)
{
    thread_ranks *made = dl_calloc(1, sizeof *made, "ranks");
    made->size = size;
    made->limit_s = limit_s;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    return made;
}

void thread_ranks_free(thread_ranks *ranks)
{
    pthread_cond_destroy(&ranks->changed);
    pthread_mutex_destroy(&ranks->mutex);
    free(ranks);
}

dl_rank_group *thread_ranks_join(thread_ranks *ranks, int rank)
{
    thread_rank *made = dl_calloc(1, sizeof *made, "rank");
    *made = (thread_rank){.base = {.rank = rank,
                                   .size = ranks->size,
                                   .local_rank = rank,
                                   .local_size = ranks->size,
                                   .limit_s = ranks->limit_s,
                                   .sum = sum,
                                   .agree = agree,
                                   .broadcast = broadcast,
                                   .gather = gather,
                                   .lost = lost,
                                   .abandon = abandon,
                                   .leave = leave},
                          .ranks = ranks};
    return &made->base;
}
