#include "profiler/inject/cupti_session.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"
#include "profiler/inject/capture.h"
#include "profiler/inject/cupti_decode.h"
#include "profiler/inject/cupti_raw.h"
#include "profiler/inject/settings.h"

/* Room for dl_buffer before the data. */
#define HEAD_BYTES 64

_Static_assert(sizeof(dl_buffer) <= HEAD_BYTES, "a buffer's head fits before its data");

struct dl_buffer_pool {
    size_t bytes, limit;
    pthread_mutex_t lock;
    dl_buffer *spare;
    size_t count; /* existing buffers, taken or spare; kept until the end */
};

dl_buffer_pool *dl_buffer_pool_new(size_t bytes, size_t limit)
{
    dl_buffer_pool *pool = dl_calloc(1, sizeof *pool, "buffer pool");
    pool->bytes = bytes;
    pool->limit = limit;
    pthread_mutex_init(&pool->lock, NULL);
    return pool;
}

static dl_buffer *map(const dl_buffer_pool *pool)
{
    void *memory = mmap(NULL, HEAD_BYTES + pool->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

dl_buffer *dl_buffer_pool_take(dl_buffer_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    dl_buffer *taken = pool->spare;
    if (taken != NULL) {
        pool->spare = taken->next;
        taken->next = NULL;
    } else if (pool->limit == 0 || pool->count < pool->limit) {
        taken = map(pool);
        if (taken != NULL) pool->count++;
    }
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

uint8_t *dl_buffer_data(dl_buffer *buffer)
{
    return (uint8_t *)buffer + HEAD_BYTES;
}

void dl_buffer_pool_give(dl_buffer_pool *pool, dl_buffer *buffer)
{
    DL_ASSERT(buffer->used <= pool->bytes, "%zu used bytes of %zu", buffer->used, pool->bytes);
    memset(dl_buffer_data(buffer), 0,
           pool->bytes); /* CUPTI may have written beyond the used part */
    buffer->used = 0;
    pthread_mutex_lock(&pool->lock);
    buffer->next = pool->spare;
    pool->spare = buffer;
    pthread_mutex_unlock(&pool->lock);
}

dl_buffer *dl_buffer_of(uint8_t *data)
{
    return (dl_buffer *)(void *)(data - HEAD_BYTES);
}

size_t dl_buffer_pool_peak_bytes(dl_buffer_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const size_t bytes = pool->count * (HEAD_BYTES + pool->bytes);
    pthread_mutex_unlock(&pool->lock);
    return bytes;
}

void dl_buffer_pool_free(dl_buffer_pool *pool)
{
    size_t freed = 0;
    for (dl_buffer *buffer = pool->spare; buffer != NULL; freed++) {
        dl_buffer *next = buffer->next;
        munmap(buffer, HEAD_BYTES + pool->bytes);
        buffer = next;
    }
    DL_ASSERT(freed == pool->count, "%zu of %zu buffers given back", freed, pool->count);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Largest accepted difference between CUPTI's clock, which also reads CLOCK_REALTIME, and ours; an
 * adjustment of the system's clock between the two readings is far smaller. */
#define CLOCK_TOLERANCE_NS 1000000000LL

/* Consecutive checks with calls but without records before CUPTI counts as taken over: 5 s at 2
 * checks a second. CUPTI delivers a thread's buffer only when all kernels in it have ended. */
#define SILENT_MAX 10

static void check_clock(dl_preemption *preemption, const dl_cupti_api *api)
{
    uint64_t theirs_ns = 0;
    const int64_t before_ns = dl_capture_now(); /* this thread may be descheduled between the
                                                 * readings */
    if (preemption->clock || api->GetTimestamp(&theirs_ns) != CUPTI_SUCCESS) return;
    const int64_t after_ns = dl_capture_now();
    if (theirs_ns <= INT64_MAX && (int64_t)theirs_ns > before_ns - CLOCK_TOLERANCE_NS &&
        (int64_t)theirs_ns < after_ns + CLOCK_TOLERANCE_NS)
        return;
    preemption->clock = true;
    dl_capture_meta("takeover", "clock");
    dl_capture_log("another profiler has set CUPTI's clock: later records are left out");
}

static void count_silence(dl_preemption *preemption, unsigned calls, uint64_t records,
                          unsigned silent_max)
{
    if (records > 0)
        preemption->silent = 0;
    else if (calls != preemption->calls)
        preemption->silent++;
    preemption->calls = calls;
    const bool buffers = preemption->silent >= silent_max;
    if (buffers == preemption->buffers || preemption->clock) return;
    preemption->buffers = buffers;
    dl_capture_meta("takeover", buffers ? "buffers" : "");
    if (buffers) dl_capture_log("CUPTI's buffers seem to go to another profiler");
}

void dl_preemption_check(dl_preemption *preemption, const dl_cupti_api *api, unsigned calls,
                         uint64_t records)
{
    check_clock(preemption, api);
    count_silence(preemption, calls, records, SILENT_MAX);
}

void dl_preemption_end(dl_preemption *preemption, unsigned calls, uint64_t records)
{
    count_silence(preemption, calls, records, 1);
}

#define FLUSH_NS (DL_CAPTURE_FLUSH_MS * (DL_NS_PER_S / 1000))

/* CUPTI's guide advises 1 to 10 MB; each thread that calls CUDA holds one. */
#define BUFFER_BYTES (4u << 20)
#define BUFFERS_MAX 64 /* 256 MiB; reached by as many threads, or if the disk is too slow */

/* Flushes of CUPTI at the end of the session, for unfinished records. */
#define END_FLUSHES 3

static struct {
    atomic_bool started;
    dl_cupti_api api;
    dl_cuda_api cuda;
    CUpti_SubscriberHandle subscriber;
    dl_buffer_pool *pool;
    dl_cupti_decoder *decoder;
    dl_raw_dump *raw; /* NULL = none */
    dl_preemption preemption;
    uint64_t dropped, checked; /* checked: records at the last check for another profiler */

    /* Written by CUPTI's callbacks. */
    _Atomic(dl_buffer *) filled; /* list, newest first */
    sem_t wake;
    atomic_uint contexts; /* number of contexts created so far */
    atomic_uint waits;    /* calls that waited for the device */
    atomic_bool forked;   /* in a child: CUPTI is never called again */
    atomic_bool dead;     /* CUPTI has reported a fatal error */

    /* The end of the session, ordered by the first caller of end(). */
    atomic_bool end_taken, end_ordered;
    pthread_t thread;
    bool at_exit;      /* the program ends, not just the recording */
    CUcontext context; /* current in the thread that ends the program; NULL = none */
    pthread_mutex_t end_lock;
    pthread_cond_t ended_signal;
    bool ended, given_up; /* given_up: it took too long, and no later caller waits */
} session = {.end_lock = PTHREAD_MUTEX_INITIALIZER};

/* CUPTI asks for an empty buffer, in a thread of the program. */
static void CUPTIAPI on_request(uint8_t **data, size_t *bytes, size_t *records_max)
{
    const int error = errno;
    dl_buffer *buffer = NULL;
    /* In a forked child the pool's lock may be held forever. */
    if (!atomic_load(&session.forked)) buffer = dl_buffer_pool_take(session.pool);
    *data = buffer != NULL ? dl_buffer_data(buffer) : NULL;
    *bytes = buffer != NULL ? BUFFER_BYTES : 0;
    *records_max = 0; /* as many records as fit */
    errno = error;
}

/* CUPTI gives a buffer back, in any thread. */
static void CUPTIAPI on_complete(CUcontext context, uint32_t stream, uint8_t *data, size_t bytes,
                                 size_t used_bytes)
{
    (void)context, (void)stream, (void)bytes;
    if (data == NULL || atomic_load(&session.forked)) return;
    dl_buffer *buffer = dl_buffer_of(data);
    buffer->used = used_bytes;
    buffer->next = atomic_load(&session.filled);
    while (!atomic_compare_exchange_weak(&session.filled, &buffer->next, buffer)) {}
    sem_post(&session.wake);
}

static void on_state(CUpti_CallbackId id, const CUpti_StateData *state)
{
    const char *message = state->notification.message;
    dl_capture_log("CUPTI reports %s%s%s",
                   dl_cupti_result_name(&session.api, state->notification.result),
                   message != NULL ? ": " : "", message != NULL ? message : "");
    if (id == CUPTI_CBID_STATE_FATAL_ERROR) atomic_store(&session.dead, true);
}

static void on_call(CUpti_CallbackId call, const CUpti_CallbackData *data)
{
    if (data->callbackSite != CUPTI_API_ENTER) return;
    if (call == CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020) {
        (void)session.api.ActivityFlushAll(0);
    } else {
        atomic_fetch_add(&session.waits, 1);
    }
}

static void CUPTIAPI on_event(void *user DL_UNUSED, CUpti_CallbackDomain domain,
                              CUpti_CallbackId id, const void *data)
{
    if (atomic_load(&session.forked)) return;
    if (domain == CUPTI_CB_DOMAIN_STATE) on_state(id, data);
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) on_call(id, data);
    if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
    if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED) atomic_fetch_add(&session.contexts, 1);
    if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) (void)session.api.ActivityFlushAll(0);
}

/* Subscribes as CUPTI's only tool. If another tool came first, fails, and logs that tool's name.
 * From CUPTI 13.3 on several tools can subscribe if each uses the ..._v2 functions and callbacks,
 * with driver 610 or later; this is untested and not used. */
static bool subscribe(const dl_cupti_api *api)
{
    char other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
    CUpti_SubscriberParams parameters = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                         .subscriberName = "dlprof",
                                         .oldSubscriberName = other,
                                         .oldSubscriberSize = sizeof other};
    const CUptiResult result =
        api->Subscribe_v2 != NULL
            ? api->Subscribe_v2(&session.subscriber, on_event, NULL, &parameters)
            : api->Subscribe(&session.subscriber, on_event, NULL);
    if (result == CUPTI_SUCCESS) return true;
    other[sizeof other - 1] = '\0';
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
        dl_capture_log("another tool has CUPTI already%s%s%s: CUDA is not recorded",
                       other[0] != '\0' ? " (" : "", other, other[0] != '\0' ? ")" : "");
    } else {
        dl_capture_log("cannot subscribe to CUPTI %u: %s: CUDA is not recorded",
                       (unsigned)api->version, dl_cupti_result_name(api, result));
    }
    return false;
}

/* Sets optional attributes that make recording cheaper or more exact; an older CUPTI may lack
 * some. */
static void set_attributes(const dl_cupti_api *api)
{
    if (api->SetThreadIdType != NULL) {
        (void)api->SetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    }
    uint8_t zeroed = 1; /* the pool zeroes its buffers: CUPTI need not do it in the program's
                         * threads */
    size_t bytes = sizeof zeroed;
    if (api->ActivitySetAttribute != NULL) {
        (void)api->ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes,
                                        &zeroed);
    }
    /* Skip queries of events that are not ready yet: allocators and watchdogs poll. */
    if (api->ActivityEnableAllSyncRecords != NULL) (void)api->ActivityEnableAllSyncRecords(0);
}

static void enable_callbacks(const dl_cupti_api *api, const dl_capture_settings *settings)
{
    static const struct {
        CUpti_CallbackDomain domain;
        CUpti_CallbackId id;
        dl_capture_preset preset;
    } wanted[] = {
        {CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_ERROR, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_WARNING, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020,
         DL_CAPTURE_LIGHT},
        /* Calls that programs make once or a few times per step. They are recorded, so their count
         * shows whether records are missing. */
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
         DL_CAPTURE_DEFAULT},
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_ptsz_v7000,
         DL_CAPTURE_DEFAULT},
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020,
         DL_CAPTURE_DEFAULT},
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
         DL_CAPTURE_DEFAULT},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (settings->preset >= (int)wanted[i].preset)
            (void)api->EnableCallback(1, session.subscriber, wanted[i].domain, wanted[i].id);
}

/* Registers buffers and enables kinds. */
static bool start_recording(const dl_cupti_api *api, const dl_capture_settings *settings)
{
    const CUptiResult result = api->ActivityRegisterCallbacks(on_request, on_complete);
    if (result != CUPTI_SUCCESS) {
        dl_capture_log("CUPTI accepts no buffers: %s: CUDA is not recorded",
                       dl_cupti_result_name(api, result));
        return false;
    }
    char refused[DL_REFUSED_BYTES];
    const bool kernels = dl_cupti_kinds_enable(api, settings, refused);
    if (refused[0] != '\0') {
        dl_capture_meta("refused_kinds", refused);
        dl_capture_log("CUPTI does not record: %s", refused);
    }
    return kernels;
}

/* Sets CUPTI up and starts recording: subscription, attributes, buffers, kinds, callbacks. On
 * failure nothing is subscribed, and the capture's log gives the reason, with the name of another
 * tool that uses CUPTI. */
static bool cupti_set_up(const dl_capture_settings *settings)
{
    const dl_cupti_api *api = &session.api;
    if (!subscribe(api)) return false;
    set_attributes(api);
    if (!start_recording(api, settings)) {
        (void)api->Unsubscribe(session.subscriber);
        return false;
    }
    enable_callbacks(api, settings);
    return true;
}

/* Decodes the buffers that CUPTI has given back, the oldest first. */
static void drain(void)
{
    dl_buffer *buffer = atomic_exchange(&session.filled, NULL);
    dl_buffer *oldest = NULL;
    while (buffer != NULL) {
        dl_buffer *next = buffer->next;
        buffer->next = oldest;
        oldest = buffer;
        buffer = next;
    }
    while (oldest != NULL) {
        dl_buffer *next = oldest->next;
        uint8_t *data = dl_buffer_data(oldest);
        if (!session.preemption.clock) {
            if (session.raw != NULL) dl_raw_dump_append(session.raw, data, oldest->used);
            dl_cupti_decode(session.decoder, data, oldest->used);
        }
        dl_buffer_pool_give(session.pool, oldest);
        oldest = next;
    }
}

/* Writes `value` under `key` if it has changed. */
static void write_count(const char *key, uint64_t value, uint64_t *written)
{
    if (value == *written) return;
    *written = value;
    dl_capture_meta_number(key, value);
}

/* Writes the counts at every flush, since the process may be killed. */
static void write_counts(void)
{
    static uint64_t dropped, lost, unknown, bytes;
    const dl_decode_counts counts = dl_cupti_decoder_counts(session.decoder);
    write_count("dropped_records", session.dropped, &dropped);
    write_count("lost_timestamps", counts.lost_timestamps, &lost);
    write_count("unknown_records", counts.unknown, &unknown);
    write_count("buffer_bytes", dl_buffer_pool_peak_bytes(session.pool), &bytes);
}

/* Called without a lock, as CUPTI may ask for a buffer meanwhile. */
static void count_dropped(void)
{
    size_t dropped = 0;
    if (session.api.ActivityGetNumDroppedRecords(NULL, 0, &dropped) == CUPTI_SUCCESS) {
        session.dropped += dropped;
    }
}

static void flush(uint32_t flag)
{
    (void)session.api.ActivityFlushAll(flag);
    drain();
    count_dropped();
}

/* Number of records since the last call. */
static uint64_t new_records(void)
{
    const uint64_t before = session.checked;
    session.checked = dl_cupti_decoder_counts(session.decoder).records;
    return session.checked - before;
}

/* Called every FLUSH_NS. */
static void tick(void)
{
    flush(0);
    dl_preemption_check(&session.preemption, &session.api, atomic_load(&session.waits),
                        new_records());
    dl_capture_flush();
    write_counts();
}

/* Waits for the program's last kernels; a failed context returns immediately. */
static void wait_for_device(void)
{
    if (session.context == NULL || session.cuda.CtxSetCurrent == NULL) return;
    if (session.cuda.CtxSetCurrent(session.context) == CUDA_SUCCESS &&
        session.cuda.CtxSynchronize != NULL) {
        (void)session.cuda.CtxSynchronize();
    }
}

/* Takes CUPTI's remaining records. If the program continues, records of running kernels are not
 * requested: they would have no end times. */
static void take_rest(void)
{
    if (session.at_exit) wait_for_device();
    for (int i = 0; i < END_FLUSHES; i++)
        flush(0);
    /* CUPTI 13.0 without its first update might hang here. */
    if (!session.at_exit || session.api.version != DL_CUPTI_13_0) {
        dl_cupti_kinds_disable(&session.api, dl_capture_settings_used());
    }
    if (!session.at_exit) return;
    flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    dl_preemption_end(&session.preemption, atomic_load(&session.waits), new_records());
}

static void finish(void)
{
    const bool used =
        atomic_load(&session.contexts) > 0 || dl_cupti_decoder_counts(session.decoder).records > 0;
    if (!atomic_load(&session.dead) && (used || !session.at_exit)) {
        take_rest();
        (void)session.api.Unsubscribe(session.subscriber);
    }
    drain();
    write_counts();
    if (session.raw != NULL) dl_raw_dump_close(session.raw);
    session.raw = NULL;
    pthread_mutex_lock(&session.end_lock);
    session.ended = true;
    pthread_cond_broadcast(&session.ended_signal);
    pthread_mutex_unlock(&session.end_lock);
}

static void *run_session(void *unused DL_UNUSED)
{
    struct timespec due = dl_deadline(FLUSH_NS);
    while (!atomic_load(&session.end_ordered) && !atomic_load(&session.dead)) {
        if (sem_clockwait(&session.wake, CLOCK_MONOTONIC, &due) == 0) {
            drain();
        } else if (errno == ETIMEDOUT) {
            tick();
            due = dl_deadline(FLUSH_NS);
        }
    }
    finish();
    return NULL;
}

/* Requests the end of the session and waits for it, at most end_wait_s; returns whether it has
 * ended. */
static bool end(bool at_exit)
{
    if (atomic_load(&session.forked)) return false;
    if (!atomic_exchange(&session.end_taken, true)) {
        session.at_exit = at_exit;
        if (at_exit && session.cuda.CtxGetCurrent != NULL &&
            session.cuda.CtxGetCurrent(&session.context) != CUDA_SUCCESS) {
            session.context = NULL;
        }
        atomic_store(&session.end_ordered, true);
        sem_post(&session.wake);
    }
    const struct timespec until =
        dl_deadline((int64_t)dl_s_to_ns(dl_capture_settings_used()->end_wait_s));
    pthread_mutex_lock(&session.end_lock);
    int error = 0;
    while (!session.ended && !session.given_up && error == 0)
        error = pthread_cond_timedwait(&session.ended_signal, &session.end_lock, &until);
    const bool ended = session.ended;
    session.given_up = !ended;
    pthread_mutex_unlock(&session.end_lock);
    return ended;
}

static void at_program_end(void)
{
    if (end(true)) {
        pthread_join(session.thread, NULL);
    } else if (!atomic_load(&session.forked)) {
        dl_capture_meta("stopped", "CUPTI's last records came too late");
        dl_capture_log("CUPTI's last records took over %g s: some may be missing",
                       dl_capture_settings_used()->end_wait_s);
    }
}

static void at_capture_end(void)
{
    (void)end(false);
}

static void in_forked_child(void)
{
    atomic_store(&session.forked, true);
}

static void open_raw(void)
{
    DL_AUTOFREE char *path = dl_capture_path(".raw");
    dl_error err = {0};
    if (path != NULL && dl_raw_dump_open(&session.raw, path, &session.api, &err) != DL_OK) {
        dl_capture_log("%s: %s", err.file, err.text);
    }
}

/* Prepares the state used by CUPTI's callbacks. CUPTI before 12.9, which may crash when refused a
 * buffer, gets an unlimited number. */
static void prepare(void)
{
    const dl_activity_sink sink = {dl_capture_append, dl_capture_intern, dl_capture_meta};
    const size_t limit = session.api.version >= DL_CUPTI_12_9 ? BUFFERS_MAX : 0;
    session.pool = dl_buffer_pool_new(BUFFER_BYTES, limit);
    session.decoder = dl_cupti_decoder_new(&session.api, &session.cuda, sink);
    dl_cupti_decoder_choose(session.decoder, dl_capture_settings_used()->preset);
    sem_init(&session.wake, 0, 0);
    dl_deadline_cond_init(&session.ended_signal);
    pthread_atfork(NULL, NULL, in_forked_child);
}

static bool start(void)
{
    const dl_capture_settings *settings = dl_capture_settings_used();
    dl_error err = {0};
    session.cuda = dl_cuda_api_find();
    if (dl_cupti_api_load(&session.api, settings->cupti, session.cuda.version, &err) != DL_OK) {
        dl_capture_log("%s: CUDA is not recorded", err.text);
        return false;
    }
    dl_capture_meta_number("cupti_version", session.api.version);
    if (session.cuda.version > 0) {
        dl_capture_meta_number("driver_version", (uint64_t)session.cuda.version);
    }
    prepare();
    if (!cupti_set_up(settings)) return false;
    if (settings->dump_raw) open_raw();
    if (!dl_capture_start_thread(&session.thread, run_session, "dlprof-cupti",
                                 "CUDA is not recorded")) {
        dl_cupti_kinds_disable(&session.api, settings);
        (void)session.api.Unsubscribe(session.subscriber);
        return false;
    }
    dl_capture_at_end(at_capture_end);
    atexit(at_program_end);
    return true;
}

bool dl_cupti_session_start(void)
{
    static bool running;
    if (atomic_exchange(&session.started, true)) return running;
    running = dl_capture_active() && start();
    return running;
}
