#include "profiler/inject/capture.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "profiler/inject/capture_log.h"
#include "profiler/inject/capture_meta.h"
#include "profiler/inject/deadline.h"
#include "profiler/inject/settings.h"
#include "profiler/inject/step_limit.h"
#include "profiler/inject/stream_pool.h"
#include "trace/dlt/dlt.h"

#define AT_END_MAX 4
#define FLUSH_NS (DL_CAPTURE_FLUSH_MS * (DL_SECOND_NS / 1000))

/* Of the whole recording. ENDING still takes what the front ends have held back. */
enum { UNBORN, RECORDING, ENDING, OFF };

static struct {
    pthread_once_t once;
    atomic_int state;
    dl_capture_settings settings;
    char *stem; /* path of the trace without .dlt */
    pid_t owner;
    atomic_uint name_end; /* ids below it exist */
    atomic_ullong invalid;

    pthread_mutex_t lock;
    dl_trace_writer *writer; /* NULL = not open; changed with the lock */
    void (*at_end[AT_END_MAX])(void);
    size_t at_end_count;

    /* The flush thread: it is ordered to end, and says that it has. */
    pthread_mutex_t end_lock;
    pthread_cond_t end_signal;
    pthread_t thread;
    bool has_thread, end_ordered, ended;
    const char *stop_reason; /* NULL = the process ends */
} capture = {
    .once = PTHREAD_ONCE_INIT,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .end_lock = PTHREAD_MUTEX_INITIALIZER,
};

static __thread uint32_t own_thread;

static int64_t in_ns(struct timespec time)
{
    return time.tv_sec * DL_SECOND_NS + time.tv_nsec;
}

int64_t dl_capture_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return in_ns(now);
}

uint32_t dl_capture_thread(void)
{
    if (own_thread == 0) own_thread = (uint32_t)gettid();
    return own_thread;
}

static bool accepts(void)
{
    const int state = atomic_load_explicit(&capture.state, memory_order_acquire);
    return state == RECORDING || state == ENDING;
}

static void append(const dl_activity *activity)
{
    const unsigned names = atomic_load_explicit(&capture.name_end, memory_order_acquire);
    if (!dl_activity_valid(activity) || activity->name >= names || activity->detail >= names) {
        atomic_fetch_add(&capture.invalid, 1);
        return;
    }
    dl_stream_pool_append(activity);
    if (dl_step_limit_reached(activity)) dl_capture_stop("limit on steps");
}

void dl_capture_append(const dl_activity *activity)
{
    if (!dl_capture_active() && !accepts()) return;
    const int error = errno;
    append(activity);
    errno = error;
}

void dl_capture_flush(void)
{
    const int error = errno;
    if (accepts()) dl_stream_pool_flush_own();
    errno = error;
}

uint32_t dl_capture_intern(const char *text)
{
    if (text == NULL || text[0] == '\0') return 0;
    if (!dl_capture_active() && !accepts()) return 0;
    const int error = errno;
    char *cut = strnlen(text, DL_CAPTURE_TEXT_MAX) < DL_CAPTURE_TEXT_MAX
                    ? NULL
                    : dl_strndup(text, DL_CAPTURE_TEXT_MAX - 1);
    uint32_t id = 0;
    pthread_mutex_lock(&capture.lock);
    if (capture.writer != NULL) {
        id = dl_trace_writer_intern(capture.writer, cut != NULL ? cut : text);
        if (id >= atomic_load(&capture.name_end)) atomic_store(&capture.name_end, id + 1);
        dl_step_limit_name(id, text);
    }
    pthread_mutex_unlock(&capture.lock);
    free(cut);
    errno = error;
    return id;
}

static void write_meta(const char *key, const char *value)
{
    pthread_mutex_lock(&capture.lock);
    if (capture.writer != NULL) dl_trace_writer_meta(capture.writer, key, value);
    pthread_mutex_unlock(&capture.lock);
}

void dl_capture_meta(const char *key, const char *value)
{
    if (!dl_capture_active() && !accepts()) return;
    const int error = errno;
    write_meta(key, value);
    errno = error;
}

void dl_capture_meta_number(const char *key, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    dl_capture_meta(key, text);
}

void dl_capture_at_end(void (*function)(void))
{
    pthread_mutex_lock(&capture.lock);
    if (capture.at_end_count < AT_END_MAX) capture.at_end[capture.at_end_count++] = function;
    pthread_mutex_unlock(&capture.lock);
}

const dl_capture_settings *dl_capture_settings_used(void)
{
    return &capture.settings;
}

char *dl_capture_path(const char *ending)
{
    if (!dl_capture_active()) return NULL;
    const int error = errno;
    char *path = dl_format("%s%s", capture.stem, ending);
    errno = error;
    return path;
}

static void append_clock(void)
{
    struct timespec monotonic, raw;
    const int64_t now_ns = dl_capture_now();
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
    const dl_activity activity = {.kind = DL_ACTIVITY_CLOCK,
                                  .start_ns = now_ns,
                                  .object = (uint64_t)in_ns(monotonic),
                                  .bytes = (uint64_t)in_ns(raw)};
    append(&activity);
}

static void run_at_end(void)
{
    pthread_mutex_lock(&capture.lock);
    const size_t count = capture.at_end_count;
    pthread_mutex_unlock(&capture.lock);
    for (size_t i = 0; i < count; i++)
        capture.at_end[i]();
}

/* Why the file takes no more. In the flush thread, or at exit. */
static const char *full_reason(void)
{
    static char text[128];
    const int error = dl_trace_writer_error(capture.writer);
    if (error == 0) return "limit on size";
    snprintf(text, sizeof text, "cannot write: %s", strerrordesc_np(error));
    return text;
}

/* The program goes about with all descriptors: it should not be believed that nothing happened. */
static void say_reopened(void)
{
    const uint32_t reopened = dl_trace_writer_reopened(capture.writer);
    if (reopened == 0) return;
    dl_capture_log("the program closed the trace's descriptor %u times: opened again, nothing lost",
                   (unsigned)reopened);
}

/* In the flush thread, or at exit if there is none. */
static void close_file(void)
{
    run_at_end();
    append_clock();
    const unsigned long long invalid = atomic_load(&capture.invalid);
    if (invalid > 0) dl_capture_meta_number("invalid_records", invalid);

    dl_stream_pool_close();
    say_reopened();
    const uint64_t lost = dl_trace_writer_lost(capture.writer);
    if (lost > 0) dl_capture_meta_number("lost_records", lost);
    if (lost > 0 && capture.stop_reason == NULL) capture.stop_reason = full_reason();
    if (capture.stop_reason != NULL) write_meta("stopped", capture.stop_reason);

    pthread_mutex_lock(&capture.lock);
    atomic_store(&capture.state, OFF);
    dl_trace_writer *writer = capture.writer;
    capture.writer = NULL;
    pthread_mutex_unlock(&capture.lock);
    dl_error err = {0};
    if (dl_trace_writer_close(&writer, &err) != DL_OK) dl_capture_log("%s", err.text);
}

/* Waits `limit_ns` at most; whether the end was ordered. */
static bool wait_for_order(int64_t limit_ns)
{
    const struct timespec until = dl_deadline(limit_ns);
    pthread_mutex_lock(&capture.end_lock);
    int error = 0;
    while (!capture.end_ordered && error == 0)
        error = pthread_cond_timedwait(&capture.end_signal, &capture.end_lock, &until);
    const bool ordered = capture.end_ordered;
    pthread_mutex_unlock(&capture.end_lock);
    return ordered;
}

static void *flush_loop(void *unused)
{
    (void)unused;
    const int64_t begin_ns = dl_monotonic_ns();
    const double duration_ns = capture.settings.duration_s * 1e9;
    int64_t clock_due_ns = begin_ns + DL_CAPTURE_CLOCK_S * DL_SECOND_NS;
    int64_t wait_ns = FLUSH_NS;
    do {
        dl_stream_pool_flush();
        if (dl_trace_writer_lost(capture.writer) > 0) dl_capture_stop(full_reason());
        const int64_t now_ns = dl_monotonic_ns();
        if (now_ns >= clock_due_ns) {
            append_clock();
            clock_due_ns = now_ns + DL_CAPTURE_CLOCK_S * DL_SECOND_NS;
        }
        wait_ns = FLUSH_NS;
        if (duration_ns == 0) continue;
        const double left_ns = duration_ns - (double)(now_ns - begin_ns);
        if (left_ns <= 0) dl_capture_stop("limit on time");
        if (left_ns < FLUSH_NS) wait_ns = left_ns > 0 ? (int64_t)left_ns + 1 : 0;
    } while (!wait_for_order(wait_ns));
    close_file();
    pthread_mutex_lock(&capture.end_lock);
    capture.ended = true;
    pthread_cond_signal(&capture.end_signal);
    pthread_mutex_unlock(&capture.end_lock);
    return NULL;
}

void dl_capture_stop(const char *reason)
{
    int recording = RECORDING;
    if (!atomic_compare_exchange_strong(&capture.state, &recording, ENDING)) return;
    pthread_mutex_lock(&capture.end_lock);
    capture.stop_reason = reason;
    capture.end_ordered = true;
    pthread_cond_signal(&capture.end_signal);
    pthread_mutex_unlock(&capture.end_lock);
}

/* Waits for the flush thread's end, but not for ever. */
static void join_thread(void)
{
    const struct timespec until = dl_deadline(DL_CAPTURE_END_LIMIT_S * DL_SECOND_NS);
    pthread_mutex_lock(&capture.end_lock);
    int error = 0;
    while (!capture.ended && error == 0)
        error = pthread_cond_timedwait(&capture.end_signal, &capture.end_lock, &until);
    const bool ended = capture.ended;
    pthread_mutex_unlock(&capture.end_lock);
    if (ended) pthread_join(capture.thread, NULL);
}

/* Ends the recording. */
static void at_exit(void)
{
    if (getpid() != capture.owner) return;
    if (atomic_load(&capture.state) != OFF) dl_capture_stop(NULL);
    if (capture.has_thread) {
        join_thread();
    } else if (atomic_load(&capture.state) != OFF) {
        close_file();
    }
}

/* The other threads are gone, and the locks are as they left them: none is taken from here on. */
static void in_forked_child(void)
{
    const bool open = accepts();
    atomic_store(&capture.state, OFF);
    dl_capture_log_silence();
    dl_stream_pool_forget();
    if (open) dl_trace_writer_abandon(&capture.writer);
}

/* The target's signals are for its own threads. */
static bool start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&capture.thread, NULL, flush_loop, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        dl_capture_log("cannot start a thread: %s; written at the end only", strerror(error));
        return false;
    }
    pthread_setname_np(capture.thread, "dlprof");
    return true;
}

static dl_status open_file(dl_error *err)
{
    dl_status status = dl_capture_settings_from_environment(&capture.settings, environ, err);
    if (status != DL_OK) return status;
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    capture.stem = dl_format("%s/%s.%d.%lld", capture.settings.output, host, (int)capture.owner,
                             (long long)dl_capture_now());
    dl_capture_log_open(capture.stem);
    char *path = dl_format("%s.dlt", capture.stem);
    status = dl_trace_writer_open(&capture.writer, path, err);
    free(path);
    return status;
}

static void begin(void)
{
    dl_error err = {0};
    capture.owner = getpid();
    if (open_file(&err) != DL_OK) {
        atomic_store(&capture.state, OFF);
        dl_capture_log("%s%s%s; nothing is recorded", err.file, err.file[0] ? ": " : "", err.text);
        return;
    }
    atomic_store(&capture.name_end, 1);
    dl_step_limit_begin(capture.settings.steps);
    if (capture.settings.limit_bytes > 0) {
        dl_trace_writer_limit(capture.writer, capture.settings.limit_bytes);
    }
    dl_stream_pool_open(capture.writer);
    dl_capture_meta_process(capture.writer, &capture.settings);
    dl_deadline_cond_init(&capture.end_signal);
    pthread_atfork(NULL, NULL, in_forked_child);
    atomic_store(&capture.state, RECORDING);
    append_clock();
    capture.has_thread = start_thread();
    atexit(at_exit);
}

bool dl_capture_active(void)
{
    int state = atomic_load_explicit(&capture.state, memory_order_acquire);
    if (state == UNBORN) {
        const int error = errno;
        pthread_once(&capture.once, begin);
        errno = error;
        state = atomic_load_explicit(&capture.state, memory_order_acquire);
    }
    return state == RECORDING;
}
