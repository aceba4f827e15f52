#include "sim/platform/dispatch.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

const char *const dl_dispatch_names[3] = {"single", "per_gpu"};

void dl_dispatch_init(dl_dispatch *dispatch, const dl_dispatch_config *config)
{
    const int threads = config->kind == DL_DISPATCH_SINGLE ? 1 : config->workers;
    const size_t workers = (size_t)config->workers;
    *dispatch = (dl_dispatch){
        .config = *config,
        .threads = dl_calloc((size_t)threads, sizeof *dispatch->threads, "host threads"),
        .thread_count = threads,
        .launches = dl_calloc(workers, sizeof *dispatch->launches, "launched steps"),
    };
    for (int t = 0; t < threads; t++) {
        dispatch->threads[t].first = t;
        dispatch->threads[t].count = config->workers / threads;
        double own_ns = 0;
        for (int w = t; w < t + dispatch->threads[t].count && config->own_serial_ns != NULL; w++)
            own_ns += config->own_serial_ns[w];
        dispatch->threads[t].serial_ns = config->serial_ns + own_ns;
    }
}

void dl_dispatch_free(dl_dispatch *dispatch)
{
    free(dispatch->threads);
    free(dispatch->launches);
    *dispatch = (dl_dispatch){0};
}

static int64_t later(int64_t ns, double delay_ns)
{
    const int64_t whole_ns = dl_ns_ceil(delay_ns);
    return whole_ns < DL_NS_MAX - ns ? ns + whole_ns : DL_NS_MAX;
}

static void try_step(const dl_dispatch *dispatch, dl_launch_thread *t, int64_t now_ns)
{
    if (t->busy || t->awaited > 0 || t->step == dispatch->config.steps) return;
    t->busy = true;
    t->at = -1;
    t->since_ns = now_ns;
    t->next_ns = later(now_ns, t->serial_ns);
}

/* Advances the thread to its next step, which starts unless a worker must end a step first. */
static void next_step(const dl_dispatch *dispatch, dl_launch_thread *t)
{
    t->busy = false;
    t->step++;
    t->awaited = 0;
    for (int w = t->first; w < t->first + t->count; w++) {
        t->awaited += dispatch->launches[w].ended < t->step - dispatch->config.ahead;
    }
    try_step(dispatch, t, t->next_ns);
}

/* Ends a piece of the thread's work: the serial part, or the launch of a worker's step. */
static void go_on(const dl_dispatch *dispatch, dl_launch_thread *t)
{
    const dl_dispatch_config *config = &dispatch->config;
    dl_launches *launches = &dispatch->launches[t->first];
    if (config->piece != NULL)
        config->piece(config->observer, (int)(t - dispatch->threads),
                      t->at >= 0 ? t->first + t->at : -1, t->since_ns, t->next_ns);
    t->since_ns = t->next_ns;
    if (t->at >= 0) launches[t->at].launched++;
    if (++t->at < t->count) {
        launches[t->at].started++;
        const double *own_ns = config->own_launch_ns;
        t->next_ns =
            later(t->next_ns, own_ns != NULL ? own_ns[t->first + t->at] : config->per_worker_ns);
    } else {
        next_step(dispatch, t);
    }
}

/* Does the thread's work up to until_ns, for which no worker waited. */
static void catch_up(const dl_dispatch *dispatch, dl_launch_thread *t, int64_t until_ns)
{
    for (; t->busy && t->next_ns <= until_ns; dispatch->config.engine->handled++)
        go_on(dispatch, t);
}

static void on_piece(void *user, int thread);

/* Schedules an event for the thread's next piece of work if a worker waits for it, or all workers
 * are notified. */
static void watch(dl_dispatch *dispatch, int thread)
{
    dl_launch_thread *t = &dispatch->threads[thread];
    dl_engine *engine = dispatch->config.engine;
    if (t->has_event || !t->busy || (t->waiting == 0 && !dispatch->config.tells_all)) return;
    t->has_event = true;
    dl_engine_after_about(engine, t->next_ns - engine->now_ns, on_piece, dispatch, thread, thread);
}

/* Whether worker `number` of the thread is to be notified; it then no longer waits. */
static bool is_told(const dl_dispatch *dispatch, dl_launch_thread *t, int number)
{
    if (number < 0 || number >= t->count) return false;
    dl_launches *l = &dispatch->launches[t->first + number];
    const bool waits = l->waits;
    l->waits = false;
    t->waiting -= waits;
    return waits || dispatch->config.tells_all;
}

static void on_piece(void *user, int thread)
{
    dl_dispatch *dispatch = user;
    const dl_dispatch_config *config = &dispatch->config;
    dl_launch_thread *t = &dispatch->threads[thread];
    const int done = t->at, next = done + 1;
    t->has_event = false;
    go_on(dispatch, t);
    const bool tells_done = is_told(dispatch, t, done), tells_next = is_told(dispatch, t, next);
    watch(dispatch, thread);
    if (tells_done) config->progress(config->user, t->first + done);
    if (tells_next) config->progress(config->user, t->first + next);
}

void dl_dispatch_start(dl_dispatch *dispatch)
{
    for (int t = 0; t < dispatch->thread_count; t++) {
        try_step(dispatch, &dispatch->threads[t], 0);
        watch(dispatch, t);
    }
}

static int thread_of(const dl_dispatch *dispatch, int worker)
{
    return dispatch->config.kind == DL_DISPATCH_SINGLE ? 0 : worker;
}

/* The worker's launches, brought up to date. */
static dl_launches *launches_now(dl_dispatch *dispatch, int worker)
{
    dl_launch_thread *t = &dispatch->threads[thread_of(dispatch, worker)];
    if (!t->has_event) catch_up(dispatch, t, dispatch->config.engine->now_ns);
    return &dispatch->launches[worker];
}

/* Returns is_so; if false, marks the worker as waiting. */
static bool wait_unless(dl_dispatch *dispatch, int worker, bool is_so)
{
    dl_launches *l = &dispatch->launches[worker];
    if (is_so || l->waits) return is_so;
    const int thread = thread_of(dispatch, worker);
    l->waits = true;
    dispatch->threads[thread].waiting++;
    watch(dispatch, thread);
    return false;
}

bool dl_dispatch_has_started(dl_dispatch *dispatch, int worker, int64_t step)
{
    return wait_unless(dispatch, worker, launches_now(dispatch, worker)->started > step);
}

bool dl_dispatch_has_launched(dl_dispatch *dispatch, int worker, int64_t step)
{
    return wait_unless(dispatch, worker, launches_now(dispatch, worker)->launched > step);
}

void dl_dispatch_step_ended(dl_dispatch *dispatch, int worker)
{
    const int thread = thread_of(dispatch, worker);
    dl_launch_thread *t = &dispatch->threads[thread];
    const int ended = ++launches_now(dispatch, worker)->ended;
    if (t->busy || ended != t->step - dispatch->config.ahead) return;
    t->awaited--;
    try_step(dispatch, t, dispatch->config.engine->now_ns);
    watch(dispatch, thread);
}

void dl_dispatch_end(dl_dispatch *dispatch)
{
    dl_engine *engine = dispatch->config.engine;
    const bool is_over = !engine->stopped && !engine->too_long;
    const int64_t until_ns = is_over ? DL_NS_MAX - 1 : engine->now_ns;
    for (dl_launch_thread *t = dispatch->threads; t < dispatch->threads + dispatch->thread_count;
         t++) {
        catch_up(dispatch, t, until_ns);
        if (!is_over) continue;
        engine->too_long |= t->busy;
        if (!t->busy && t->next_ns > engine->now_ns) engine->now_ns = t->next_ns;
    }
}
