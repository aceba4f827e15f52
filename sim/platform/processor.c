#include "sim/platform/processor.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"

/* Longer slices than any run are as good as endless, and do not overflow the clock. */
#define SLICE_MAX_NS 1e18

static int64_t bounded_ns(double ns)
{
    return ns < SLICE_MAX_NS ? dl_ns_ceil(ns) : (int64_t)SLICE_MAX_NS;
}

void dl_processor_init(dl_processor *processor, const dl_processor_config *config)
{
    DL_ASSERT(config->cores >= 1 && config->threads >= 1 && config->slice_ns > 0,
              "%d cores, %d threads, slice %g ns", config->cores, config->threads,
              config->slice_ns);
    size_t cores = (size_t)config->cores;
    *processor = (dl_processor){
        .config = *config,
        .threads = dl_calloc((size_t)config->threads, sizeof(dl_thread), "threads"),
        .cores = dl_calloc(cores, sizeof(dl_core), "cores"),
        .running = dl_calloc(cores, sizeof(int), "running threads"),
        .speeds = dl_calloc(cores, sizeof(double), "speeds"),
        .slice_ns = bounded_ns(config->slice_ns),
        .tick_ns = bounded_ns(config->tick_ns),
        .timer = -1,
    };
    for (size_t c = 0; c < cores; c++)
        processor->cores[c].head = processor->cores[c].tail = -1;
}

void dl_processor_free(dl_processor *processor)
{
    free(processor->threads);
    free(processor->cores);
    free(processor->running);
    free(processor->speeds);
    *processor = (dl_processor){0};
}

static dl_core *core_of(dl_processor *processor, int thread)
{
    return &processor->cores[thread % processor->config.cores];
}

static int64_t now_ns(const dl_processor *processor)
{
    return processor->config.engine->now_ns;
}

/* The first tick after now. */
static int64_t next_tick_ns(const dl_processor *processor)
{
    int64_t since_ns = now_ns(processor) - processor->tick_ns;
    if (since_ns < 0) return processor->tick_ns;
    return processor->tick_ns + (since_ns / processor->slice_ns + 1) * processor->slice_ns;
}

static bool is_tick(const dl_processor *processor)
{
    int64_t since_ns = now_ns(processor) - processor->tick_ns;
    return since_ns >= 0 && since_ns % processor->slice_ns == 0;
}

/* Puts the thread, which is in no queue, at the front or at the end of its core's. */
static void enqueue(dl_processor *processor, int thread, bool at_front)
{
    dl_core *core = core_of(processor, thread);
    if (at_front || core->head < 0) {
        processor->threads[thread].next = core->head;
        if (core->head < 0) core->tail = thread;
        core->head = thread;
        core->head_since_ns = now_ns(processor);
    } else {
        processor->threads[thread].next = -1;
        processor->threads[core->tail].next = thread;
        core->tail = thread;
    }
}

/* The thread wakes up. */
static void join(dl_processor *processor, int thread)
{
    dl_core *core = core_of(processor, thread);
    if (core->head < 0) core->busy_since_ns = now_ns(processor);
    enqueue(processor, thread, core->head_since_ns < now_ns(processor));
    processor->runnable++;
}

/* Takes the head out of its queue. */
static void leave(dl_processor *processor, dl_core *core)
{
    core->head = processor->threads[core->head].next;
    processor->runnable--;
    if (core->head < 0) {
        core->tail = -1;
        core->busy_ns += now_ns(processor) - core->busy_since_ns;
    }
    core->head_since_ns = now_ns(processor);
}

/* Accounts for the progress of the running threads since the last change. */
static void progress(dl_processor *processor)
{
    int64_t now = now_ns(processor);
    double passed_ns = (double)(now - processor->updated_ns);
    for (int i = 0; i < processor->running_count; i++) {
        dl_thread *thread = &processor->threads[processor->running[i]];
        thread->ran_ns += now - processor->updated_ns;
        thread->left_ns -= passed_ns * thread->speed;
        if (thread->left_ns < 0 || thread->end_ns <= now) thread->left_ns = 0;
    }
    processor->updated_ns = now;
}

static void on_timer(void *user, int index);

/* Asks for the speeds of who runs now and sets the timer to the next end of work or slice. */
static void reschedule(dl_processor *processor)
{
    const dl_processor_config *config = &processor->config;
    processor->running_count = 0;
    for (int c = 0; c < config->cores; c++) {
        int head = processor->cores[c].head;
        if (head >= 0) processor->running[processor->running_count++] = head;
    }
    if (processor->timer >= 0) dl_engine_cancel(config->engine, processor->timer);
    processor->timer = -1;
    if (processor->running_count == 0) return;

    config->speed(config->user, processor->running, processor->running_count, processor->runnable,
                  processor->speeds);
    int64_t now = now_ns(processor), next_ns = INT64_MAX, tick_ns = next_tick_ns(processor);
    for (int i = 0; i < processor->running_count; i++) {
        dl_thread *thread = &processor->threads[processor->running[i]];
        DL_ASSERT(processor->speeds[i] > 0, "thread %d at speed %g", processor->running[i],
                  processor->speeds[i]);
        thread->speed = processor->speeds[i];
        thread->end_ns = now + dl_ns_ceil(thread->left_ns / thread->speed);
        if (thread->end_ns < next_ns) next_ns = thread->end_ns;
        if (thread->next >= 0 && tick_ns < next_ns) next_ns = tick_ns;
    }
    if (next_ns < now) next_ns = now;
    processor->timer = dl_engine_after(config->engine, next_ns - now, on_timer, processor, 0);
}

/* The head's time slice is over: to the end of the queue, in which there are others. */
static void rotate(dl_processor *processor, dl_core *core)
{
    int thread = core->head;
    core->head = processor->threads[thread].next;
    core->head_since_ns = now_ns(processor);
    enqueue(processor, thread, false);
}

static void on_timer(void *user, int index)
{
    (void)index;
    dl_processor *processor = user;
    processor->timer = -1;
    progress(processor);
    processor->updating = true;
    int64_t now = now_ns(processor);
    for (int i = 0; i < processor->running_count; i++) {
        int number = processor->running[i];
        dl_thread *thread = &processor->threads[number];
        dl_core *core = core_of(processor, number);
        if (thread->end_ns <= now) {
            thread->has_work = false;
            processor->config.done(processor->config.user, number);
        }
        if (!thread->has_work) {
            leave(processor, core);
        } else if (thread->next >= 0 && is_tick(processor)) {
            rotate(processor, core);
        }
    }
    processor->updating = false;
    reschedule(processor);
}

void dl_processor_start(dl_processor *processor, int thread, double work_ns)
{
    dl_thread *starting = &processor->threads[thread];
    DL_ASSERT(!starting->has_work && work_ns >= 0, "thread %d gets %g ns of work", thread, work_ns);
    dl_core *core = core_of(processor, thread);
    starting->has_work = true;
    starting->left_ns = work_ns;
    if (processor->updating) {
        DL_ASSERT(core->head == thread, "thread %d was started by another one's end", thread);
        return;
    }
    progress(processor);
    join(processor, thread);
    reschedule(processor);
}

void dl_processor_cut(dl_processor *processor, int thread)
{
    if (!processor->threads[thread].has_work) return;
    if (!processor->updating) progress(processor);
    processor->threads[thread].left_ns = 0;
    if (!processor->updating) reschedule(processor);
}

int64_t dl_processor_ran_ns(const dl_processor *processor, int thread)
{
    return processor->threads[thread].ran_ns;
}

int64_t dl_processor_busy_ns(const dl_processor *processor, int core)
{
    const dl_core *c = &processor->cores[core];
    return c->busy_ns + (c->head >= 0 ? now_ns(processor) - c->busy_since_ns : 0);
}
