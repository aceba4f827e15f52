#include "profiler/inject/capture.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/units.h"
#include "profiler/inject/settings.h"
#include "trace/activity/capture_cost.h"
#include "trace/activity/step_marks.h"
#include "trace/dlt/dlt.h"

#define DL_CAPTURE_CLOCK_S 10     /* interval of CLOCK activities */
#define DL_CAPTURE_TEXT_MAX 65536 /* bytes; longer texts are cut */

struct timespec dl_deadline(int64_t wait_ns)
{
    const int64_t until_ns = dl_clock_ns() + wait_ns;
    return (struct timespec){.tv_sec = until_ns / DL_NS_PER_S, .tv_nsec = until_ns % DL_NS_PER_S};
}

void dl_deadline_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Longer lines are cut. */
#define LINE_BYTES 1024

static _Atomic(char *) log_path; /* NULL = none yet: lines go to standard error */

static atomic_bool silent; /* in a forked child: no more messages */
static atomic_bool complained;

static bool write_to_file(const char *line, size_t bytes)
{
    const char *name = atomic_load(&log_path);
    if (name == NULL) return false;
    const int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return false;
    const bool written = write(fd, line, bytes) == (ssize_t)bytes;
    close(fd);
    return written;
}

void dl_capture_log(const char *format, ...)
{
    if (atomic_load(&silent)) return;
    const int error = errno;
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char line[LINE_BYTES + 16];
    const int bytes = snprintf(line, sizeof line, "%s\n", text);
    if (!write_to_file(line, (size_t)bytes) && !atomic_exchange(&complained, true)) {
        dprintf(STDERR_FILENO, "dlprof: %s\n", text);
    }
    errno = error;
}

/* Variables of each launcher, the most specific first: a program that torchrun starts in a Slurm
 * job also inherits Slurm's variables, which number the torchrun processes. */
static const struct launcher {
    const char *rank, *world_size, *local_rank;
} launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"}, /* torchrun, DeepSpeed, Accelerate */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}, /* MPICH, Intel MPI */
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

static bool read_variable(const char *name, int64_t *value)
{
    const char *text = getenv(name);
    return text != NULL && dl_parse_int(text, 0, INT32_MAX, value, NULL) == DL_OK;
}

static void write_rank(dl_trace_writer *writer)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        int64_t value;
        if (!read_variable(launchers[i].rank, &value)) continue;
        dl_trace_writer_metaf(writer, "rank", "%" PRId64, value);
        if (read_variable(launchers[i].world_size, &value)) {
            dl_trace_writer_metaf(writer, "world_size", "%" PRId64, value);
        }
        if (read_variable(launchers[i].local_rank, &value)) {
            dl_trace_writer_metaf(writer, "local_rank", "%" PRId64, value);
        }
        return;
    }
}

/* Writes the words of the command line, separated by blanks. */
static void write_command(dl_trace_writer *writer)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    if (dl_file_read("/proc/self/cmdline", &text, &bytes, NULL) != DL_OK) return;
    if (bytes > DL_CAPTURE_TEXT_MAX) text[bytes = DL_CAPTURE_TEXT_MAX] = '\0';
    while (bytes > 0 && text[bytes - 1] == '\0')
        bytes--;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\0') text[i] = ' ';
    dl_trace_writer_meta(writer, "command", text);
}

/* Meta keys that describe a trace's process: program, version, kind, clock, host, pid, command,
 * preset, graphs, capture_cost, and rank, world_size, local_rank if the launcher set them. */

/* Writes the keys of the calling process. */
static void capture_meta_process(dl_trace_writer *writer, const dl_capture_settings *settings)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    dl_trace_writer_meta(writer, "program", "dlprof");
    dl_trace_writer_meta(writer, "version", DL_VERSION);
    dl_trace_writer_meta(writer, "kind", "run");
    dl_trace_writer_meta(writer, "clock", "realtime");
    dl_trace_writer_meta(writer, "host", host);
    dl_trace_writer_metaf(writer, "pid", "%d", (int)getpid());
    write_command(writer);
    dl_trace_writer_meta(writer, "preset", dl_capture_preset_names[settings->preset]);
    dl_trace_writer_meta(writer, "graphs", dl_capture_graphs_names[settings->graphs]);
    dl_trace_writer_meta(writer, DL_CAPTURE_COST_KEY,
                         settings->cost[0] != '\0' ? settings->cost : DL_CAPTURE_COST_UNKNOWN);
    write_rank(writer);
}

/* Maximum number of groups of texts that are counted; no program uses as many for its steps. */
#define GROUPS_MAX 64

typedef struct group {
    char *text; /* without numbers */
    int64_t steps;
} group;

static int64_t limit;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static group groups[GROUPS_MAX];
static size_t group_count;
static uint8_t *group_of; /* [id_count] by text's id: 1 + its group, 0 = names no step */
static size_t id_count;

void dl_step_limit_begin(int64_t steps)
{
    limit = steps;
}

/* `text` without its digits. free(). */
static char *without_numbers(const char *text)
{
    char *made = dl_strdup(text);
    char *to = made;
    for (; *text != '\0'; text++)
        if (!isdigit((unsigned char)*text)) *to++ = *text;
    *to = '\0';
    return made;
}

/* Returns 1 + the text's group, which may be new; 0 = too many groups. */
static uint8_t find_group(const char *text)
{
    char *key = without_numbers(text);
    size_t i = 0;
    while (i < group_count && strcmp(groups[i].text, key) != 0)
        i++;
    if (i < group_count || i == GROUPS_MAX) {
        free(key);
        return i == GROUPS_MAX ? 0 : (uint8_t)(i + 1);
    }
    groups[group_count++] = (group){.text = key};
    return (uint8_t)group_count;
}

static void grow(uint32_t id)
{
    size_t count = id_count > 0 ? id_count : 1024;
    while (count <= id)
        count *= 2;
    group_of = dl_realloc(group_of, count, 1, "texts of steps");
    memset(group_of + id_count, 0, count - id_count);
    id_count = count;
}

void dl_step_limit_name(uint32_t id, const char *text)
{
    if (limit == 0 || !dl_text_names_step(text)) return;
    pthread_mutex_lock(&lock);
    if (id >= id_count) grow(id);
    if (group_of[id] == 0) group_of[id] = find_group(text);
    pthread_mutex_unlock(&lock);
}

bool dl_step_limit_reached(const dl_activity *activity)
{
    if (limit == 0) return false;
    if (activity->kind != DL_ACTIVITY_RANGE && activity->kind != DL_ACTIVITY_MARK) return false;
    bool reached = false;
    pthread_mutex_lock(&lock);
    const unsigned found = activity->name < id_count ? group_of[activity->name] : 0;
    if (found > 0) reached = ++groups[found - 1].steps >= limit;
    pthread_mutex_unlock(&lock);
    return reached;
}

/* A stream that threads use one after another. Its lock is contended only while another thread
 * writes the stream's content. Never freed: threads may outlive the recording. */
typedef struct slot {
    pthread_mutex_t lock;
    dl_trace_stream *stream; /* NULL = closed */
    bool taken;              /* guarded by pool_lock */
    struct slot *next;
} slot;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER; /* never taken while holding a slot's
                                                               * lock */
static dl_trace_writer *pool_writer;                          /* NULL = closed */
static slot *slots;                                           /* grows at its head */
static pthread_key_t thread_end;
static atomic_bool forgotten; /* in a forked child: threads that end return no slot */
static __thread slot *own;

static void give_back(void *taken)
{
    own = NULL;
    if (atomic_load(&forgotten)) return;
    pthread_mutex_lock(&pool_lock);
    ((slot *)taken)->taken = false;
    pthread_mutex_unlock(&pool_lock);
}

/* The streams of the trace writer. Each thread appends to a stream of which it is the only user;
 * when the thread ends, a new thread may take over the stream. Any thread may write the streams'
 * content, or close them while others append.
 *
 * One pool per process. A forked child must not use it: other threads may have held its locks at
 * the fork. */

/* Sets the writer, which is borrowed until stream_pool_flush(true). Called once. */
static void stream_pool_open(dl_trace_writer *writer)
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

/* Returns a stream for the calling thread; NULL when closed. */
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

/* Appends a copy of a valid *activity. Does nothing when closed. Any thread. */
static void stream_pool_append(const dl_activity *activity)
{
    if (own == NULL) own = take();
    slot *to = own;
    if (to == NULL) return;
    pthread_mutex_lock(&to->lock);
    if (to->stream != NULL) dl_trace_stream_append_activity(to->stream, activity);
    pthread_mutex_unlock(&to->lock);
}

/* Writes the calling thread's buffered activities. */
static void stream_pool_flush_own(void)
{
    if (own == NULL) return;
    pthread_mutex_lock(&own->lock);
    if (own->stream != NULL) dl_trace_stream_flush(own->stream);
    pthread_mutex_unlock(&own->lock);
}

/* Writes the content of all streams. `close`: appends do nothing from now on, and the writer may be
 * closed. May be called by any thread. */
static void stream_pool_flush(bool close)
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

#define AT_END_MAX 4
#define FLUSH_NS (DL_CAPTURE_FLUSH_MS * (DL_NS_PER_S / 1000))

/* State of the recording. ENDING still accepts activities held back by the front ends. */
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

    /* The flush thread: end_ordered requests its end, `ended` confirms it. */
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
    return time.tv_sec * DL_NS_PER_S + time.tv_nsec;
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

/* Ends the recording of this process before its end (limit on steps, time or size reached). The
 * file is completed and closed by the capture's own thread soon after; `reason` goes into the meta
 * key "stopped". */
static void capture_stop(const char *reason)
{
    int recording = RECORDING;
    if (!atomic_compare_exchange_strong(&capture.state, &recording, ENDING)) return;
    pthread_mutex_lock(&capture.end_lock);
    capture.stop_reason = reason;
    capture.end_ordered = true;
    pthread_cond_signal(&capture.end_signal);
    pthread_mutex_unlock(&capture.end_lock);
}

static void append(const dl_activity *activity)
{
    const unsigned names = atomic_load_explicit(&capture.name_end, memory_order_acquire);
    if (!dl_activity_valid(activity) || activity->name >= names || activity->detail >= names) {
        atomic_fetch_add(&capture.invalid, 1);
        return;
    }
    stream_pool_append(activity);
    if (dl_step_limit_reached(activity)) capture_stop("limit on steps");
}

static dl_status open_file(dl_error *err)
{
    dl_capture_settings *settings = &capture.settings;
    dl_status status = dl_capture_settings_from_environment(settings, environ, err);
    if (status != DL_OK) return status;
    /* Copied, as the program may change its environment. */
    settings->output = dl_strdup(settings->output);
    settings->cupti = dl_strdup(settings->cupti);
    settings->cost = dl_strdup(settings->cost);
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    capture.stem = dl_format("%s/%s.%d.%lld", capture.settings.output, host, (int)capture.owner,
                             (long long)dl_capture_now());
    atomic_store(&log_path, dl_format("%s.log", capture.stem));
    DL_AUTOFREE char *path = dl_format("%s.dlt", capture.stem);
    return dl_trace_writer_open(&capture.writer, path, err);
}

/* The child lacks the parent's other threads, which may hold locks forever: so it takes no lock. */
static void in_forked_child(void)
{
    const bool open = accepts();
    atomic_store(&capture.state, OFF);
    atomic_store(&silent, true);
    atomic_store(&forgotten, true);
    if (open) dl_trace_writer_abandon(&capture.writer);
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

/* Returns why the file takes no more records. Called in the flush thread, or at exit. */
static const char *full_reason(void)
{
    static char text[128];
    const int error = dl_trace_writer_look(capture.writer).error;
    if (error == 0) return "limit on size";
    snprintf(text, sizeof text, "cannot write: %s", strerrordesc_np(error));
    return text;
}

/* Waits at most `limit_ns` until *flag, which end_lock guards, is set; returns whether it is. */
static bool wait_for(const bool *flag, int64_t limit_ns)
{
    const struct timespec until = dl_deadline(limit_ns);
    pthread_mutex_lock(&capture.end_lock);
    int error = 0;
    while (!*flag && error == 0)
        error = pthread_cond_timedwait(&capture.end_signal, &capture.end_lock, &until);
    const bool is_set = *flag;
    pthread_mutex_unlock(&capture.end_lock);
    return is_set;
}

static void run_at_end(void)
{
    pthread_mutex_lock(&capture.lock);
    const size_t count = capture.at_end_count;
    pthread_mutex_unlock(&capture.lock);
    for (size_t i = 0; i < count; i++)
        capture.at_end[i]();
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

/* Logs that the program closed the trace's descriptor, and that nothing was lost. */
static void say_reopened(void)
{
    const uint32_t reopened = dl_trace_writer_look(capture.writer).reopened;
    if (reopened == 0) return;
    dl_capture_log("the program closed the trace's descriptor %u times: opened again, nothing lost",
                   (unsigned)reopened);
}

/* Completes and closes the file. Called in the flush thread, or at exit if there is none. */
static void close_file(void)
{
    run_at_end();
    append_clock();
    const unsigned long long invalid = atomic_load(&capture.invalid);
    if (invalid > 0) dl_capture_meta_number("invalid_records", invalid);

    stream_pool_flush(true);
    say_reopened();
    const uint64_t lost = dl_trace_writer_look(capture.writer).lost;
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

static void *flush_loop(void *unused DL_UNUSED)
{
    const int64_t begin_ns = dl_clock_ns();
    const double duration_ns = capture.settings.duration_s * 1e9;
    int64_t clock_due_ns = begin_ns + DL_CAPTURE_CLOCK_S * DL_NS_PER_S;
    int64_t wait_ns = FLUSH_NS;
    do {
        stream_pool_flush(false);
        if (dl_trace_writer_look(capture.writer).lost > 0) capture_stop(full_reason());
        const int64_t now_ns = dl_clock_ns();
        if (now_ns >= clock_due_ns) {
            append_clock();
            clock_due_ns = now_ns + DL_CAPTURE_CLOCK_S * DL_NS_PER_S;
        }
        wait_ns = FLUSH_NS;
        if (duration_ns == 0) continue;
        const double left_ns = duration_ns - (double)(now_ns - begin_ns);
        if (left_ns <= 0) capture_stop("limit on time");
        if (left_ns < FLUSH_NS) wait_ns = left_ns > 0 ? (int64_t)left_ns + 1 : 0;
    } while (!wait_for(&capture.end_ordered, wait_ns));
    close_file();
    pthread_mutex_lock(&capture.end_lock);
    capture.ended = true;
    pthread_cond_signal(&capture.end_signal);
    pthread_mutex_unlock(&capture.end_lock);
    return NULL;
}

bool dl_capture_start_thread(pthread_t *thread, void *(*run)(void *), const char *name,
                             const char *lost)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        dl_capture_log("cannot start a thread: %s; %s", strerror(error), lost);
        return false;
    }
    pthread_setname_np(*thread, name);
    return true;
}

/* Waits for the flush thread's end, at most end_wait_s. */
static void join_thread(void)
{
    const int64_t limit_ns = (int64_t)dl_s_to_ns(dl_capture_settings_used()->end_wait_s);
    if (wait_for(&capture.ended, limit_ns)) pthread_join(capture.thread, NULL);
}

/* Exit handler: ends the recording, except in a forked child. */
static void at_exit(void)
{
    if (getpid() != capture.owner) return;
    if (atomic_load(&capture.state) != OFF) capture_stop(NULL);
    if (capture.has_thread) {
        join_thread();
    } else if (atomic_load(&capture.state) != OFF) {
        close_file();
    }
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
    stream_pool_open(capture.writer);
    capture_meta_process(capture.writer, &capture.settings);
    dl_deadline_cond_init(&capture.end_signal);
    pthread_atfork(NULL, NULL, in_forked_child);
    atomic_store(&capture.state, RECORDING);
    append_clock();
    capture.has_thread =
        dl_capture_start_thread(&capture.thread, flush_loop, "dlprof", "written at the end only");
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
    if (accepts()) stream_pool_flush_own();
    errno = error;
}

uint32_t dl_capture_intern(const char *text)
{
    if (text == NULL || text[0] == '\0') return 0;
    if (!dl_capture_active() && !accepts()) return 0;
    const int error = errno;
    DL_AUTOFREE char *cut = strnlen(text, DL_CAPTURE_TEXT_MAX) < DL_CAPTURE_TEXT_MAX
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
    errno = error;
    return id;
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
