#include "profiler/inject/stream_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/alloc.h"

/* A stream that threads use one after the other. Its lock is free but while another thread writes
 * what the stream holds. Never freed: threads may outlive the recording. */
typedef struct slot {
    pthread_mutex_t lock;
    dl_trace_stream *stream; /* NULL = closed */
    bool taken;              /* guarded by pool_lock */
    struct slot *next;
} slot;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER; /* never taken behind a slot's */
static dl_trace_writer *pool_writer;                          /* NULL = closed */
static slot *slots;                                           /* grows at its head */
static pthread_key_t thread_end;
static atomic_bool forgotten;
static __thread slot *own;

static void give_back(void *taken)
{
    own = NULL;
    if (atomic_load(&forgotten)) return;
    pthread_mutex_lock(&pool_lock);
    ((slot *)taken)->taken = false;
    pthread_mutex_unlock(&pool_lock);
}

void dl_stream_pool_open(dl_trace_writer *writer)
{
    pthread_key_create(&thread_end, give_back);
    pthread_mutex_lock(&pool_lock);
    pool_writer = writer;
    pthread_mutex_unlock(&pool_lock);
}

static slot *make_locked(void)
{
    slot *made = dl_calloc(1, sizeof *made, "stream of a thread");
    pthread_mutex_init(&made->lock, NULL);
    made->stream = dl_trace_writer_stream(pool_writer);
    made->next = slots;
    slots = made;
    return made;
}

/* NULL when closed. */
static slot *take(void)
{
    slot *found = NULL;
    pthread_mutex_lock(&pool_lock);
    if (pool_writer != NULL) {
        for (found = slots; found != NULL && found->taken;)
            found = found->next;
        if (found == NULL) found = make_locked();
        found->taken = true;
    }
    pthread_mutex_unlock(&pool_lock);
    if (found != NULL) pthread_setspecific(thread_end, found);
    return found;
}

void dl_stream_pool_append(const dl_activity *activity)
{
    if (own == NULL) own = take();
    slot *to = own;
    if (to == NULL) return;
    pthread_mutex_lock(&to->lock);
    if (to->stream != NULL) dl_trace_stream_append_activity(to->stream, activity);
    pthread_mutex_unlock(&to->lock);
}

void dl_stream_pool_flush_own(void)
{
    if (own == NULL) return;
    pthread_mutex_lock(&own->lock);
    if (own->stream != NULL) dl_trace_stream_flush(own->stream);
    pthread_mutex_unlock(&own->lock);
}

static void flush_all(bool close)
{
    pthread_mutex_lock(&pool_lock);
    if (close) pool_writer = NULL;
    slot *each = slots;
    pthread_mutex_unlock(&pool_lock);
    for (; each != NULL; each = each->next) {
        pthread_mutex_lock(&each->lock);
        if (each->stream != NULL) dl_trace_stream_flush(each->stream);
        if (close) each->stream = NULL;
        pthread_mutex_unlock(&each->lock);
    }
}

void dl_stream_pool_flush(void)
{
    flush_all(false);
}

void dl_stream_pool_close(void)
{
    flush_all(true);
}

void dl_stream_pool_forget(void)
{
    atomic_store(&forgotten, true);
}
