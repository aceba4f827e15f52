/* Host threads that launch steps, on GPUs that only compute: a GPU starts a step when the step's
 * launch has started and the previous step has ended, and ends it no earlier than its launch. */
#include "tests/check.h"

#include "sim/platform/dispatch.h"

enum { MOST = 8, STEPS = 40 };

typedef struct gpus {
    dl_engine engine;
    dl_dispatch dispatch;
    int64_t work_ns;
    int workers;
    int64_t done[MOST]; /* completed steps */
    bool working[MOST], worked[MOST], arrived[MOST];
    int64_t ended_ns[MOST][STEPS];
    bool barrier; /* all start the next step when all have ended the current one */
    int waiting;
} gpus;

static void go_on(void *user, int w);

static void worked(void *user, int w)
{
    gpus *g = user;
    g->working[w] = false;
    g->worked[w] = true;
    go_on(g, w);
}

static void end_step(gpus *g, int w)
{
    g->ended_ns[w][g->done[w]++] = g->engine.now_ns;
    dl_dispatch_step_ended(&g->dispatch, w);
    go_on(g, w);
}

static void release(void *user, int unused DL_UNUSED)
{
    gpus *g = user;
    g->waiting = 0;
    for (int w = 0; w < g->workers; w++) {
        g->worked[w] = g->arrived[w] = false;
        end_step(g, w);
    }
}

static void go_on(void *user, int w)
{
    gpus *g = user;
    if (g->done[w] == STEPS || g->working[w]) return;
    if (!g->worked[w]) {
        if (!dl_dispatch_has_started(&g->dispatch, w, g->done[w])) return;
        g->working[w] = true;
        dl_engine_after(&g->engine, g->work_ns, worked, g, w);
    } else if (dl_dispatch_has_launched(&g->dispatch, w, g->done[w])) {
        if (!g->barrier) {
            g->worked[w] = false;
            end_step(g, w);
        } else if (!g->arrived[w]) {
            g->arrived[w] = true;
            if (++g->waiting == g->workers) dl_engine_after(&g->engine, 0, release, g, 0);
        }
    }
}

/* Returns the time of worker `of`'s last step, in ns, with a serial part of 100 ns and 50 ns per
 * GPU. */
static int64_t period(dl_dispatch_kind kind, int workers, int ahead, int64_t work_ns, bool barrier,
                      int of)
{
    gpus g = {.work_ns = work_ns, .workers = workers, .barrier = barrier};
    dl_engine_init(&g.engine, 3 * MOST);
    const dl_dispatch_config config = {.engine = &g.engine,
                                       .kind = kind,
                                       .workers = workers,
                                       .ahead = ahead,
                                       .steps = STEPS,
                                       .serial_ns = 100,
                                       .per_worker_ns = 50,
                                       .progress = go_on,
                                       .user = &g};
    dl_dispatch_init(&g.dispatch, &config);
    dl_dispatch_start(&g.dispatch);
    for (int w = 0; w < workers; w++)
        go_on(&g, w);
    dl_engine_run(&g.engine);
    assert_int_equal(g.done[of], STEPS);
    int64_t last = g.ended_ns[of][STEPS - 1] - g.ended_ns[of][STEPS - 2];
    dl_dispatch_free(&g.dispatch);
    dl_engine_free(&g.engine);
    return last;
}

/* A step takes max(GPU, 100 + 50 n) ns for any n and GPU time. */
static void one_thread_is_a_stage_of_a_pipeline(void **state DL_UNUSED)
{
    for (int n = 1; n <= MOST; n++) {
        for (int64_t gpu_ns = 60; gpu_ns < 1000; gpu_ns += 117) {
            int64_t host_ns = 100 + 50 * n, expected = gpu_ns > host_ns ? gpu_ns : host_ns;
            for (int ahead = 1; ahead <= 3; ahead++) {
                assert_int_equal(period(DL_DISPATCH_SINGLE, n, ahead, gpu_ns, true, n - 1),
                                 expected);
            }
        }
    }
}

/* With a read-back in each step: the serial part, the issues before the last GPU's, and its
 * work. */
static void a_read_back_puts_the_host_in_line(void **state DL_UNUSED)
{
    assert_int_equal(period(DL_DISPATCH_SINGLE, 4, 0, 1000, true, 0), 100 + 3 * 50 + 1000);
    assert_int_equal(period(DL_DISPATCH_PER_GPU, 4, 0, 1000, true, 0), 100 + 1000);
    assert_int_equal(period(DL_DISPATCH_PER_GPU, 4, 0, 20, true, 0), 100 + 50);
}

/* With one thread per GPU, the number of GPUs does not matter. */
static void a_thread_each_does_not_depend_on_the_others(void **state DL_UNUSED)
{
    for (int n = 1; n <= MOST; n++) {
        assert_int_equal(period(DL_DISPATCH_PER_GPU, n, 1, 120, false, n - 1), 150);
        assert_int_equal(period(DL_DISPATCH_PER_GPU, n, 1, 200, true, n - 1), 200);
    }
}

typedef struct pieces {
    int count, worker[3];
    int64_t start_ns[3], end_ns[3];
} pieces;

static void note_piece(void *user, int thread, int worker, int64_t start_ns, int64_t end_ns)
{
    pieces *p = user;
    assert_int_equal(thread, 0);
    if (p->count == 3) return;
    p->worker[p->count] = worker;
    p->start_ns[p->count] = start_ns;
    p->end_ns[p->count++] = end_ns;
}

static void not_called(void *user DL_UNUSED, int worker)
{
    fail_msg("worker %d waited for nothing", worker);
}

/* The serial part until 100 ns, then 50 ns for each of two workers. */
static void pieces_of_work_are_observed(void **state DL_UNUSED)
{
    pieces seen = {0};
    DL_SCOPED(dl_engine) engine;
    DL_SCOPED(dl_dispatch) dispatch;
    dl_engine_init(&engine, 4);
    const dl_dispatch_config config = {.engine = &engine,
                                       .kind = DL_DISPATCH_SINGLE,
                                       .workers = 2,
                                       .steps = 1,
                                       .serial_ns = 100,
                                       .per_worker_ns = 50,
                                       .progress = not_called,
                                       .piece = note_piece,
                                       .observer = &seen};
    dl_dispatch_init(&dispatch, &config);
    dl_dispatch_start(&dispatch);
    dl_engine_run(&engine);
    dl_dispatch_end(&dispatch);
    assert_int_equal(seen.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seen.worker[i], i - 1);
        assert_int_equal(seen.start_ns[i], i == 0 ? 0 : 50 + 50 * i);
        assert_int_equal(seen.end_ns[i], 100 + 50 * i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_is_a_stage_of_a_pipeline),
        cmocka_unit_test(a_read_back_puts_the_host_in_line),
        cmocka_unit_test(a_thread_each_does_not_depend_on_the_others),
        cmocka_unit_test(pieces_of_work_are_observed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
