#include <math.h>

#include "sim/platform/host.h"
#include "tests/sim_fixture.h"

enum { THREADS = 4 };

typedef struct machine {
    dl_engine engine;
    dl_host host;
    double next_ns[THREADS];  /* work that follows at once, 0 = none */
    int64_t done_ns[THREADS]; /* end of the last work */
    double late_ns[THREADS];  /* work given by an event */
} machine;

static void on_done(void *user, int thread)
{
    machine *m = user;
    m->done_ns[thread] = m->engine.now_ns;
    double next_ns = m->next_ns[thread];
    m->next_ns[thread] = 0;
    if (next_ns > 0) dl_host_compute(&m->host, thread, next_ns);
}

static void on_late_start(void *user, int thread)
{
    machine *m = user;
    dl_host_compute(&m->host, thread, m->late_ns[thread]);
}

static void set_up(machine *m, int cores, double slice_ns, const char *costs_text)
{
    *m = (machine){0};
    dl_costs costs = fixture_costs(costs_text);
    dl_engine_init(&m->engine, THREADS + 1);
    dl_host_init(&m->host, &(dl_host_config){.engine = &m->engine,
                                             .cores = cores,
                                             .threads = THREADS,
                                             .slice_ns = slice_ns,
                                             .memory_bytes_per_ns = (double)INFINITY,
                                             .costs = &costs,
                                             .done = on_done,
                                             .user = m});
    dl_costs_free(&costs);
}

static void tear_down(machine *m)
{
    dl_host_free(&m->host);
    dl_host_free(&m->host);
    dl_engine_free(&m->engine);
}

/* Threads 0 and 2 on core 0, thread 1 on core 1. Slices of 10: core 0 runs 0 2 0 2 0 | 2 is done
 * with 20 at 40, 0 with 25 at 45. */
static void threads_of_a_core_take_turns(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 2, 10, "[costs]\nschema = 1\n");
    dl_host_compute(&m.host, 0, 25);
    dl_host_compute(&m.host, 2, 20);
    dl_host_compute(&m.host, 1, 25);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 45);
    assert_int_equal(m.done_ns[2], 40);
    assert_int_equal(m.done_ns[1], 25);
    assert_int_equal(dl_host_busy_ns(&m.host, 0), 45);
    assert_int_equal(dl_host_busy_ns(&m.host, 1), 25);
    tear_down(&m);
}

/* Two running threads go at half speed: 0 needs 30, 1 needs 10. Until 20 both run (10 each done),
 * then 0 is alone at full speed with 20 left: done at 40. */
static void progress_follows_the_speeds(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 4, 1e9, "[costs]\nschema = 1\n[sharing]\ncopies_2 = 2\n");
    dl_host_compute(&m.host, 0, 30);
    dl_host_compute(&m.host, 1, 10);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[1], 20);
    assert_int_equal(m.done_ns[0], 40);
    tear_down(&m);
}

/* One core, slices of 100. Thread 0 has 10 and at once 10 more: it keeps the core, done at 20; then
 * thread 1 runs its 5. */
static void work_that_follows_at_once_keeps_the_core(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 1, 100, "[costs]\nschema = 1\n");
    m.next_ns[0] = 10;
    dl_host_compute(&m.host, 0, 10);
    dl_host_compute(&m.host, 1, 5);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 20);
    assert_int_equal(m.done_ns[1], 25);
    tear_down(&m);
}

/* One core, ticks at 10, 20, ..., thread 0 alone from 0 with 50. Thread 1 wakes up at 14 with 5: it
 * takes the core and runs to 19; then thread 0 has 36 left: done at 55. */
static void who_wakes_up_takes_the_core(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 1, 10, "[costs]\nschema = 1\n");
    m.late_ns[1] = 5;
    dl_host_compute(&m.host, 0, 50);
    dl_engine_after(&m.engine, 14, on_late_start, &m, 1);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[1], 19);
    assert_int_equal(m.done_ns[0], 55);
    tear_down(&m);
}

/* As above, but thread 1 comes at 14 with 15: at the tick at 20 it has 9 left and goes behind
 * thread 0, which runs from 20 to 30 (14 done before); then 1 from 30 to 39; then 0's 26 left: 65.
 */
static void a_tick_ends_the_turn(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 1, 10, "[costs]\nschema = 1\n");
    m.late_ns[1] = 15;
    dl_host_compute(&m.host, 0, 50);
    dl_engine_after(&m.engine, 14, on_late_start, &m, 1);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[1], 39);
    assert_int_equal(m.done_ns[0], 65);
    tear_down(&m);
}

/* Idle between 10 and 30: not busy then. */
static void idle_time_is_not_busy(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 1, 1e30, "[costs]\nschema = 1\n");
    m.late_ns[0] = 5;
    dl_host_compute(&m.host, 0, 10);
    dl_engine_after(&m.engine, 30, on_late_start, &m, 0);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 35);
    assert_int_equal(dl_host_busy_ns(&m.host, 0), 15);
    tear_down(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_core_take_turns),
        cmocka_unit_test(progress_follows_the_speeds),
        cmocka_unit_test(work_that_follows_at_once_keeps_the_core),
        cmocka_unit_test(who_wakes_up_takes_the_core),
        cmocka_unit_test(a_tick_ends_the_turn),
        cmocka_unit_test(idle_time_is_not_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
