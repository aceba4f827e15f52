#include "sim/platform/host.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"

/* Longer than any run, so effectively infinite, without overflowing the clock. */
#define SLICE_MAX_NS 1e18
/* Rates that differ by at most this fraction count as equal. */
#define RELATIVE_TOLERANCE 1e-12

static int64_t bounded_ns(double ns)
{
    return ns < SLICE_MAX_NS ? dl_ns_ceil(ns) : (int64_t)SLICE_MAX_NS;
}

void dl_host_init(dl_host *host, const dl_host_config *config)
{
    DL_ASSERT(config->cores >= 1 && config->threads >= 1 && config->slice_ns > 0,
              "%d cores, %d threads, slice %g ns", config->cores, config->threads,
              config->slice_ns);
    const size_t cores = (size_t)config->cores, threads = (size_t)config->threads;
    *host = (dl_host){
        .config = *config,
        .threads = dl_calloc(threads, sizeof(dl_thread), "threads"),
        .cores = dl_calloc(cores, sizeof(dl_core), "cores"),
        .running = dl_calloc(cores, sizeof(int), "running threads"),
        .sharing = dl_calloc(threads + 1, sizeof(double), "sharing"),
        .slice_ns = bounded_ns(config->slice_ns),
        .tick_ns = bounded_ns(config->tick_ns),
        .timer = -1,
    };
    for (int t = 0; t < config->threads; t++)
        host->threads[t].core = t % config->cores;
    for (size_t c = 0; c < cores; c++)
        host->cores[c].head = host->cores[c].tail = -1;
    for (int k = 1; k <= config->threads; k++)
        host->sharing[k] = dl_sharing(config->costs, k);
}

void dl_host_free(dl_host *host)
{
    free(host->threads);
    free(host->cores);
    free(host->running);
    free(host->sharing);
    *host = (dl_host){0};
}

static dl_core *core_of(dl_host *host, int thread)
{
    return &host->cores[host->threads[thread].core];
}

static int64_t now_ns(const dl_host *host)
{
    return host->config.engine->now_ns;
}

/* The first tick after the current time. */
static int64_t next_tick_ns(const dl_host *host)
{
    int64_t since_ns = now_ns(host) - host->tick_ns;
    if (since_ns < 0) return host->tick_ns;
    return host->tick_ns + (since_ns / host->slice_ns + 1) * host->slice_ns;
}

/* Puts the thread, which is in no queue, at the front or at the end of its core's queue. */
static void enqueue(dl_host *host, int thread, bool at_front)
{
    dl_core *core = core_of(host, thread);
    if (at_front || core->head < 0) {
        host->threads[thread].next = core->head;
        if (core->head < 0) core->tail = thread;
        core->head = thread;
        core->head_since_ns = now_ns(host);
    } else {
        host->threads[thread].next = -1;
        host->threads[core->tail].next = thread;
        core->tail = thread;
    }
}

/* Moves the thread, which is in no queue, to an idle core if its core is busy. */
static void find_idle_core(dl_host *host, int thread)
{
    if (core_of(host, thread)->head < 0) return;
    for (int c = 0; c < host->config.cores; c++) {
        if (host->cores[c].head >= 0) continue;
        host->threads[thread].core = c;
        return;
    }
}

/* Wakes the thread up. */
static void join(dl_host *host, int thread)
{
    if (thread >= host->config.pinned) find_idle_core(host, thread);
    dl_core *core = core_of(host, thread);
    if (core->head < 0) core->busy_since_ns = now_ns(host);
    enqueue(host, thread, core->head_since_ns < now_ns(host));
    host->runnable++;
    host->sharers += thread < host->config.sharers;
}

/* Number of threads waiting for the core. *before: the thread in front of the first migrating one
 * in the queue, -1 = no migrating thread. */
static int waiting_on(const dl_host *host, const dl_core *core, int *before)
{
    int count = 0;
    *before = -1;
    for (int t = core->head; t >= 0 && host->threads[t].next >= 0; t = host->threads[t].next) {
        count++;
        if (*before < 0 && host->threads[t].next >= host->config.pinned) *before = t;
    }
    return count;
}

/* Moves the next migrating thread of the core with the longest queue to the idle core. */
static void take_over(dl_host *host, dl_core *idle)
{
    dl_core *from = NULL;
    int most = 0, before = -1;
    for (int c = 0; c < host->config.cores; c++) {
        int found;
        const int waiting = waiting_on(host, &host->cores[c], &found);
        if (found >= 0 && waiting > most) {
            most = waiting;
            before = found;
            from = &host->cores[c];
        }
    }
    if (from == NULL) return;
    const int thread = host->threads[before].next;
    host->threads[before].next = host->threads[thread].next;
    if (from->tail == thread) from->tail = before;
    host->threads[thread].core = (int)(idle - host->cores);
    idle->busy_since_ns = now_ns(host);
    enqueue(host, thread, true);
}

/* Removes the head of the core's queue. */
static void leave(dl_host *host, dl_core *core)
{
    host->sharers -= core->head < host->config.sharers;
    core->head = host->threads[core->head].next;
    host->runnable--;
    if (core->head < 0) {
        core->tail = -1;
        core->busy_ns += now_ns(host) - core->busy_since_ns;
        if (host->config.pinned < host->config.threads) take_over(host, core);
    }
    core->head_since_ns = now_ns(host);
}

/* Accounts for the progress of the running threads since the last change. */
static void progress(dl_host *host)
{
    int64_t now = now_ns(host);
    double passed_ns = (double)(now - host->updated_ns);
    for (int i = 0; i < host->running_count; i++) {
        dl_thread *thread = &host->threads[host->running[i]];
        thread->ran_ns += now - host->updated_ns;
        thread->left_ns -= passed_ns * thread->speed;
        if (thread->left_ns < 0 || thread->end_ns <= now) thread->left_ns = 0;
    }
    host->updated_ns = now;
}

/* Sets max-min fair shares of the memory's bandwidth, as speeds: the rates of all running threads
 * that move bytes grow together until the memory is saturated or a thread reaches full speed, which
 * fixes the threads concerned; the others continue to grow. */
static void share_memory(dl_host *host, int open)
{
    while (open > 0) {
        double left = host->config.memory_bytes_per_ns, level = INFINITY;
        for (int i = 0; i < host->running_count; i++) {
            const dl_thread *thread = &host->threads[host->running[i]];
            if (thread->rate > 0) left -= thread->rate;
            if (thread->rate < 0 && thread->bytes_per_ns < level) level = thread->bytes_per_ns;
        }
        if (left / open < level) level = left / open;
        const double limit = level * (1 + RELATIVE_TOLERANCE);
        const bool is_full = left <= limit * open;
        for (int i = 0; i < host->running_count; i++) {
            dl_thread *thread = &host->threads[host->running[i]];
            if (thread->rate >= 0 || (thread->bytes_per_ns > limit && !is_full)) continue;
            thread->rate = thread->bytes_per_ns < level ? thread->bytes_per_ns : level;
            thread->speed = thread->rate / thread->bytes_per_ns;
            open--;
        }
    }
}

static void set_speeds(dl_host *host)
{
    const double computing = host->sharers > 0 ? 1 / host->sharing[host->sharers] : 1;
    int moving = 0;
    for (int i = 0; i < host->running_count; i++) {
        dl_thread *thread = &host->threads[host->running[i]];
        const bool moves = thread->bytes_per_ns > 0;
        thread->rate = moves ? -1 : 0;
        thread->speed = host->running[i] < host->config.sharers ? computing : 1;
        moving += moves;
    }
    share_memory(host, moving);
}

static void on_timer(void *user, int index);

/* Sets the speeds of the running threads, and the timer to the next end of work or slice. */
static void reschedule(dl_host *host)
{
    const dl_host_config *config = &host->config;
    host->running_count = 0;
    for (int c = 0; c < config->cores; c++) {
        int head = host->cores[c].head;
        if (head >= 0) host->running[host->running_count++] = head;
    }
    if (host->timer >= 0) dl_engine_cancel(config->engine, host->timer);
    host->timer = -1;
    if (host->running_count == 0) return;

    set_speeds(host);
    const bool some_wait = host->runnable > host->running_count;
    const int64_t tick_ns = some_wait ? next_tick_ns(host) : INT64_MAX;
    int64_t now = now_ns(host), next_ns = INT64_MAX;
    for (int i = 0; i < host->running_count; i++) {
        dl_thread *thread = &host->threads[host->running[i]];
        DL_ASSERT(thread->speed > 0, "thread %d at speed %g", host->running[i], thread->speed);
        thread->end_ns = now + dl_ns_ceil(thread->left_ns / thread->speed);
        if (thread->end_ns < next_ns) next_ns = thread->end_ns;
        if (thread->next >= 0 && tick_ns < next_ns) next_ns = tick_ns;
    }
    if (next_ns < now) next_ns = now;
    host->timer = dl_engine_after(config->engine, next_ns - now, on_timer, host, 0);
}

/* The head's time slice is over: moves it to the end of the queue, which must have another
 * thread. */
static void rotate(dl_host *host, dl_core *core)
{
    int thread = core->head;
    core->head = host->threads[thread].next;
    core->head_since_ns = now_ns(host);
    enqueue(host, thread, false);
}

static void on_timer(void *user, int index DL_UNUSED)
{
    dl_host *host = user;
    host->timer = -1;
    progress(host);
    host->updating = true;
    const int64_t now = now_ns(host), ticked_ns = now - host->tick_ns;
    for (int i = 0; i < host->running_count; i++) {
        int number = host->running[i];
        dl_thread *thread = &host->threads[number];
        dl_core *core = core_of(host, number);
        if (thread->end_ns <= now) {
            thread->has_work = false;
            host->config.done(host->config.user, number);
        }
        if (!thread->has_work) {
            leave(host, core);
        } else if (thread->next >= 0 && ticked_ns >= 0 && ticked_ns % host->slice_ns == 0) {
            rotate(host, core);
        }
    }
    host->updating = false;
    reschedule(host);
}

static void start_work(dl_host *host, int thread, double work_ns, double bytes_per_ns)
{
    dl_thread *starting = &host->threads[thread];
    DL_ASSERT(!starting->has_work && work_ns >= 0, "thread %d gets %g ns of work", thread, work_ns);
    dl_core *core = core_of(host, thread);
    starting->has_work = true;
    starting->left_ns = work_ns;
    starting->bytes_per_ns = bytes_per_ns;
    if (host->updating) {
        DL_ASSERT(core->head == thread, "thread %d was started by another one's end", thread);
        return;
    }
    progress(host);
    join(host, thread);
    reschedule(host);
}

void dl_host_compute(dl_host *host, int thread, double work_ns)
{
    start_work(host, thread, work_ns, 0);
}

void dl_host_move(dl_host *host, int thread, dl_work work)
{
    host->traffic_bytes += work.traffic_bytes;
    start_work(host, thread, work.full_speed_ns,
               work.full_speed_ns > 0 ? work.traffic_bytes / work.full_speed_ns : 0);
}

bool dl_host_is_ending(const dl_host *host, int thread)
{
    const dl_thread *t = &host->threads[thread];
    return host->updating && host->cores[t->core].head == thread && !t->has_work;
}

void dl_host_cut(dl_host *host, int thread)
{
    if (!host->threads[thread].has_work) return;
    if (!host->updating) progress(host);
    host->threads[thread].left_ns = 0;
    if (!host->updating) reschedule(host);
}

int64_t dl_host_busy_ns(const dl_host *host, int core)
{
    const dl_core *c = &host->cores[core];
    return c->busy_ns + (c->head >= 0 ? now_ns(host) - c->busy_since_ns : 0);
}
