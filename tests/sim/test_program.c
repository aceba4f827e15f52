/* Programs of tasks on lanes, with times worked out by hand. */
#include "tests/check.h"

#include "sim/step/program.h"

typedef struct world {
    dl_engine engine;
    dl_program program;
    dl_program_run run;
    int64_t copy_ns; /* duration of an owned task */
    int done;
    uint32_t started; /* last owned task that started */
} world;

static void on_copied(void *user, int task)
{
    world *w = user;
    dl_program_end(&w->run, (uint32_t)task);
}

static void start_owned(void *user, int index, uint32_t task)
{
    world *w = user;
    assert_int_equal(index, 7);
    w->started = task;
    dl_engine_after(&w->engine, w->copy_ns, on_copied, w, (int)task);
}

static void on_done(void *user, int index DL_UNUSED)
{
    ((world *)user)->done++;
}

static const dl_program_owner owner = {.start = start_owned, .done = on_done};

static void open_world(world *w)
{
    dl_program_close(&w->program);
    dl_engine_init(&w->engine, 16);
    dl_program_run_init(&w->run, &w->program, &w->engine, &owner, w, 7);
}

static void begin_all(world *w)
{
    dl_program_start(&w->run);
    for (uint32_t l = 0; l < w->program.lane_count; l++)
        dl_program_begin_lane(&w->run, l, w->engine.now_ns);
}

static void close_world(world *w)
{
    dl_program_run_free(&w->run);
    dl_engine_free(&w->engine);
    dl_program_free(&w->program);
}

/* Makes a group of two tasks that takes 5 ns. */
static void group(world *w, const uint32_t *pair)
{
    DL_APPEND(w->program.groups, w->program.group_count, "groups") = (dl_task_group){2, 5};
    w->program.tasks[pair[0]].group = w->program.tasks[pair[1]].group = 0;
}

static uint32_t add(world *w, uint32_t lane, double work_ns)
{
    return dl_program_add(&w->program, &(dl_task){.lane = lane, .work_ns = work_ns});
}

/* a takes 100 ns, then a copy on a separate lane 30, then b on a third lane 50: 180. Then a second
 * step of the same program starts, and takes as long. */
static void tasks_follow_each_other(void **state DL_UNUSED)
{
    world w = {.copy_ns = 30};
    for (int l = 0; l < 3; l++)
        dl_program_add_lane(&w.program);
    const uint32_t a = add(&w, 0, 100);
    const uint32_t copy = dl_program_add(&w.program, &(dl_task){.lane = 1, .is_owned = true});
    const uint32_t b = add(&w, 2, 50);
    dl_program_add_after(&w.program, copy, a);
    dl_program_add_after(&w.program, b, copy);
    dl_program_add_after(&w.program, a, DL_TASK_NONE);
    open_world(&w);
    for (int step = 1; step <= 2; step++) {
        const int64_t since_ns = w.engine.now_ns;
        begin_all(&w);
        dl_engine_run(&w.engine);
        assert_int_equal(w.run.tasks[copy].start_ns - since_ns, 100);
        assert_int_equal(w.run.tasks[b].end_ns - since_ns, 180);
        assert_int_equal(w.done, step);
        assert_true(dl_program_is_idle(&w.run));
    }
    close_world(&w);
}

static void slow_down(void *user, int unused DL_UNUSED)
{
    dl_program_set_speed(&((world *)user)->run, 0, 0.5);
}

static void stand_still(void *user, int unused DL_UNUSED)
{
    dl_program_set_speed(&((world *)user)->run, 0, 0);
}

static void go_on(void *user, int unused DL_UNUSED)
{
    dl_program_set_speed(&((world *)user)->run, 0, 1);
}

/* 100 ns of work with factor 2: 40 at full speed, 80 at half speed (40 done), 50 stopped, then the
 * last 120. */
static void lanes_have_speeds(void **state DL_UNUSED)
{
    world w = {0};
    dl_program_add_lane(&w.program);
    const uint32_t a = add(&w, 0, 100);
    open_world(&w);
    w.run.lanes[0].factor = 2;
    dl_engine_after(&w.engine, 40, slow_down, &w, 0);
    dl_engine_after(&w.engine, 120, stand_still, &w, 0);
    dl_engine_after(&w.engine, 170, go_on, &w, 0);
    begin_all(&w);
    dl_engine_run(&w.engine);
    assert_int_equal(w.run.tasks[a].end_ns, 170 + 120);
    close_world(&w);
}

/* The host began to launch the lane 30 ns ago: a is launched 50 ns after that, 20 ns from now; its
 * launch ends at 80, 50 from now, later than its work of 10. b is launched by 90. */
static void launches_hold_tasks_back(void **state DL_UNUSED)
{
    world w = {0};
    dl_program_add_lane(&w.program);
    const uint32_t a = dl_program_add(
        &w.program, &(dl_task){.lane = 0, .work_ns = 10, .issue_ns = 50, .issued_ns = 80});
    const uint32_t b = dl_program_add(
        &w.program, &(dl_task){.lane = 0, .work_ns = 40, .issue_ns = 80, .issued_ns = 90});
    open_world(&w);
    dl_program_start(&w.run);
    dl_program_begin_lane(&w.run, 0, -30);
    dl_engine_run(&w.engine);
    assert_int_equal(w.run.tasks[a].start_ns, 20);
    assert_int_equal(w.run.tasks[a].end_ns, 50);
    assert_int_equal(w.run.tasks[b].start_ns, 50);
    assert_int_equal(w.run.tasks[b].end_ns, 90);
    close_world(&w);
}

/* Lanes of 10 and 60 ns meet in a group of 5 ns; an edge from a start has a lag of 20. */
static void groups_end_together(void **state DL_UNUSED)
{
    world w = {0};
    for (int l = 0; l < 3; l++)
        dl_program_add_lane(&w.program);
    const uint32_t first = add(&w, 0, 10);
    add(&w, 1, 60);
    const uint32_t pair[] = {add(&w, 0, 0), add(&w, 1, 0)};
    const uint32_t late = add(&w, 2, 1);
    group(&w, pair);
    dl_program_add_edge(&w.program, &(dl_task_edge){first, late, 20, true});
    open_world(&w);
    begin_all(&w);
    dl_engine_run(&w.engine);
    assert_int_equal(w.run.tasks[pair[0]].start_ns, 10);
    assert_int_equal(w.run.tasks[pair[0]].end_ns, 65);
    assert_int_equal(w.run.tasks[pair[1]].end_ns, 65);
    assert_int_equal(w.run.tasks[pair[0]].last_arrival, pair[1]);
    assert_int_equal(w.run.tasks[late].start_ns, 20);
    close_world(&w);
}

static void cut_now(void *user, int unused DL_UNUSED)
{
    dl_program_cut(&((world *)user)->run);
}

/* Cut at 50: the work on lane 0 and the task waiting in the group are dropped, the copy that
 * started at 10 ends at 110, and then the run is done; tasks after the copy do not start. */
static void a_cut_step_drains(void **state DL_UNUSED)
{
    world w = {.copy_ns = 100};
    for (int l = 0; l < 3; l++)
        dl_program_add_lane(&w.program);
    const uint32_t first = add(&w, 0, 10);
    add(&w, 0, 1000);
    const uint32_t copy = dl_program_add(&w.program, &(dl_task){.lane = 1, .is_owned = true});
    const uint32_t after = add(&w, 1, 5);
    const uint32_t pair[] = {add(&w, 2, 0), add(&w, 0, 0)};
    group(&w, pair);
    dl_program_add_after(&w.program, copy, first);
    open_world(&w);
    dl_engine_after(&w.engine, 50, cut_now, &w, 0);
    begin_all(&w);
    dl_engine_run(&w.engine);
    assert_int_equal(w.engine.now_ns, 110);
    assert_int_equal(w.done, 1);
    assert_int_equal(w.run.tasks[after].start_ns, 0);
    assert_true(dl_program_is_idle(&w.run));
    begin_all(&w);
    dl_engine_run(&w.engine);
    assert_int_equal(w.engine.now_ns, 110 + 10 + 1000 + 5);
    assert_int_equal(w.done, 2);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_follow_each_other),  cmocka_unit_test(lanes_have_speeds),
        cmocka_unit_test(launches_hold_tasks_back), cmocka_unit_test(groups_end_together),
        cmocka_unit_test(a_cut_step_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
