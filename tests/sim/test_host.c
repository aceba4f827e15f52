/* Threads on cores: they share the machine and its memory, and those of one core take turns. */
#include "tests/check.h"

#include <math.h>

#include "sim/platform/host.h"
#include "tests/sim_fixture.h"

enum { THREADS = 4 };

typedef struct machine {
    dl_engine engine;
    dl_host host;
    double next_ns[THREADS];  /* work that follows immediately; 0: none */
    int64_t done_ns[THREADS]; /* end of the thread's last work */
    double late_ns[THREADS];  /* work started by an event */
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

/* THREADS threads on `cores` cores, with slices of slice_ns and a memory of memory_bytes_per_ns. */
static void set_up_memory(machine *m, int cores, double slice_ns, const char *costs_text,
                          double memory_bytes_per_ns)
{
    *m = (machine){0};
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    dl_engine_init(&m->engine, THREADS + 1);
    dl_host_init(&m->host, &(dl_host_config){.engine = &m->engine,
                                             .cores = cores,
                                             .threads = THREADS,
                                             .pinned = THREADS,
                                             .sharers = THREADS,
                                             .slice_ns = slice_ns,
                                             .memory_bytes_per_ns = memory_bytes_per_ns,
                                             .costs = &costs,
                                             .done = on_done,
                                             .user = m});
}

static void set_up(machine *m, int cores, double slice_ns, const char *costs_text)
{
    set_up_memory(m, cores, slice_ns, costs_text, (double)INFINITY);
}

static void tear_down(machine *m)
{
    dl_host_free(&m->host);
    dl_host_free(&m->host);
    dl_engine_free(&m->engine);
}

/* copies_2 = 1.25: 1000 ns of two concurrent threads take 1250; the longer one, with 600 of its
 * 1400 left, continues alone: 1250 + 400 = 1650. */
static void computing_at_once_slows_by_sharing(void **state DL_UNUSED)
{
    machine m;
    set_up(&m, 2, 1e9, "[costs]\nschema = 1\n[sharing]\ncopies_2 = 1.25\n");
    dl_host_compute(&m.host, 0, 1000);
    dl_host_compute(&m.host, 1, 1400);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 1250);
    assert_int_equal(m.done_ns[1], 1650);
    tear_down(&m);
}

/* Threads waiting for the core count too: two on one core run in turns at 1 / 1.25 until one is
 * left: 1000 * 1.25, then 1000. */
static void threads_in_the_queue_count_as_sharing(void **state DL_UNUSED)
{
    machine m;
    set_up(&m, 1, 1e9, "[costs]\nschema = 1\n[sharing]\ncopies_2 = 1.25\n");
    dl_host_compute(&m.host, 0, 1000);
    dl_host_compute(&m.host, 1, 1000);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 1250);
    assert_int_equal(m.done_ns[1], 2250);
    tear_down(&m);
}

/* Memory moves 3 bytes/ns; two tasks that request 2 each (2000 bytes in 1000 ns) get 1.5 each, and
 * take 1333.3 -> 1334. Concurrent compute runs at full speed, and so does a single task. */
static void moving_bytes_shares_the_memory(void **state DL_UNUSED)
{
    machine m;
    set_up_memory(&m, 3, 1e9, "[costs]\nschema = 1\n", 3);
    const dl_work work = {.full_speed_ns = 1000, .traffic_bytes = 2000};
    dl_host_move(&m.host, 0, work);
    dl_host_move(&m.host, 1, work);
    dl_host_compute(&m.host, 2, 1000);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 1334);
    assert_int_equal(m.done_ns[1], 1334);
    assert_int_equal(m.done_ns[2], 1000);
    dl_host_move(&m.host, 0, work);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 2334);
    assert_true(m.host.traffic_bytes == 6000);
    tear_down(&m);
}

/* A task with a small demand is not slowed: with a memory of 3 and demands of 0.5 and 4, the tasks
 * get 0.5 and 2.5. */
static void the_small_flow_keeps_its_rate(void **state DL_UNUSED)
{
    machine m;
    set_up_memory(&m, 3, 1e9, "[costs]\nschema = 1\n", 3);
    dl_host_move(&m.host, 0, (dl_work){.full_speed_ns = 1000, .traffic_bytes = 500});
    dl_host_move(&m.host, 1, (dl_work){.full_speed_ns = 500, .traffic_bytes = 2000});
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 1000);
    assert_int_equal(m.done_ns[1], 800);
    tear_down(&m);
}

static void nothing_takes_no_time(void **state DL_UNUSED)
{
    machine m;
    set_up_memory(&m, 3, 1e9, "[costs]\nschema = 1\n", 3);
    dl_host_move(&m.host, 0, (dl_work){0});
    dl_engine_run(&m.engine);
    assert_int_equal(m.engine.now_ns, 0);
    assert_int_equal(m.engine.handled, 1);
    tear_down(&m);
}

/* Threads 0 and 2 on core 0, thread 1 on core 1. With slices of 10 core 0 runs 0 2 0 2 0: 2
 * finishes its 20 at 40, 0 its 25 at 45. */
static void threads_of_a_core_take_turns(void **state DL_UNUSED)
{
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

/* Two running threads have half speed: 0 needs 30, 1 needs 10. Until 20 both run (10 done each),
 * then 0 runs alone at full speed with 20 left and finishes at 40. */
static void progress_follows_the_speeds(void **state DL_UNUSED)
{
    machine m;
    set_up(&m, 4, 1e9, "[costs]\nschema = 1\n[sharing]\ncopies_2 = 2\n");
    dl_host_compute(&m.host, 0, 30);
    dl_host_compute(&m.host, 1, 10);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[1], 20);
    assert_int_equal(m.done_ns[0], 40);
    tear_down(&m);
}

/* One core, slices of 100. Thread 0 has 10 and immediately 10 more: it keeps the core and finishes
 * at 20; then thread 1 runs its 5. */
static void work_that_follows_at_once_keeps_the_core(void **state DL_UNUSED)
{
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
 * takes the core and runs to 19; then thread 0 has 36 left and finishes at 55. */
static void who_wakes_up_takes_the_core(void **state DL_UNUSED)
{
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

/* The same, but thread 1 wakes up at 14 with 15: at the tick at 20 it has 9 left and queues behind
 * thread 0, which runs from 20 to 30 (14 done before); then 1 runs from 30 to 39; then 0 runs its
 * remaining 26 until 65. */
static void a_tick_ends_the_turn(void **state DL_UNUSED)
{
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

/* The core is idle, not busy, between 10 and 30. */
static void idle_time_is_not_busy(void **state DL_UNUSED)
{
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

/* Threads 0 and 2 on core 0, thread 1 on core 1, slices of 10. At 5 thread 1 finishes, and its core
 * takes over the waiting thread 2 for 30, to 35. Thread 0 continues to 25 without being preempted
 * at a tick. At 27 thread 3, which was on core 1, wakes up on the idle core 0. */
static void threads_migrate_to_idle_cores(void **state DL_UNUSED)
{
    machine m;
    set_up(&m, 2, 10, "[costs]\nschema = 1\n");
    m.host.config.pinned = 0;
    m.late_ns[3] = 6;
    dl_host_compute(&m.host, 0, 25);
    dl_host_compute(&m.host, 1, 5);
    dl_host_compute(&m.host, 2, 30);
    dl_engine_after(&m.engine, 27, on_late_start, &m, 3);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 25);
    assert_int_equal(m.done_ns[1], 5);
    assert_int_equal(m.done_ns[2], 35);
    assert_int_equal(m.done_ns[3], 33);
    assert_int_equal(dl_host_busy_ns(&m.host, 0), 25 + 6);
    assert_int_equal(dl_host_busy_ns(&m.host, 1), 35);
    tear_down(&m);
}

/* Of three threads waiting on core 0 (0 runs), the next one is taken over first, then its
 * successor: slices are longer than all work. 1: 10; 2: 10 to 20; 3: 20 to 30, when 0 has run 30 of
 * 40. */
static void who_has_waited_longest_is_taken_over(void **state DL_UNUSED)
{
    machine m;
    set_up(&m, 2, 1e9, "[costs]\nschema = 1\n");
    m.host.config.pinned = 0;
    for (int t = 0; t < THREADS; t++)
        m.host.threads[t].core = t == 1;
    dl_host_compute(&m.host, 0, 40);
    for (int t = 1; t < THREADS; t++)
        dl_host_compute(&m.host, t, 10);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 40);
    assert_int_equal(m.done_ns[1], 10);
    assert_int_equal(m.done_ns[2], 20);
    assert_int_equal(m.done_ns[3], 30);
    tear_down(&m);
}

/* Threads 0, 2 and 3 on core 0, of which only 3 may migrate. Core 1 is idle from 5 on, and takes
 * over thread 3 instead of 2, which waits until 0 finishes. Later thread 3 wakes up while its core
 * 1 is busy, and moves to core 0. */
static void pinned_threads_stay(void **state DL_UNUSED)
{
    machine m;
    set_up(&m, 2, 1e9, "[costs]\nschema = 1\n");
    m.host.config.pinned = 3;
    m.host.threads[3].core = 0;
    m.late_ns[1] = 100;
    m.late_ns[3] = 7;
    dl_host_compute(&m.host, 0, 20);
    dl_host_compute(&m.host, 1, 5);
    dl_host_compute(&m.host, 2, 10);
    dl_host_compute(&m.host, 3, 10);
    dl_engine_after(&m.engine, 40, on_late_start, &m, 1);
    dl_engine_after(&m.engine, 50, on_late_start, &m, 3);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 20);
    assert_int_equal(m.done_ns[2], 30);
    assert_int_equal(m.done_ns[3], 57);
    assert_int_equal(dl_host_busy_ns(&m.host, 0), 30 + 7);
    assert_int_equal(dl_host_busy_ns(&m.host, 1), 5 + 10 + 100);
    tear_down(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computing_at_once_slows_by_sharing),
        cmocka_unit_test(threads_in_the_queue_count_as_sharing),
        cmocka_unit_test(moving_bytes_shares_the_memory),
        cmocka_unit_test(the_small_flow_keeps_its_rate),
        cmocka_unit_test(nothing_takes_no_time),
        cmocka_unit_test(threads_of_a_core_take_turns),
        cmocka_unit_test(progress_follows_the_speeds),
        cmocka_unit_test(work_that_follows_at_once_keeps_the_core),
        cmocka_unit_test(who_wakes_up_takes_the_core),
        cmocka_unit_test(a_tick_ends_the_turn),
        cmocka_unit_test(idle_time_is_not_busy),
        cmocka_unit_test(threads_migrate_to_idle_cores),
        cmocka_unit_test(pinned_threads_stay),
        cmocka_unit_test(who_has_waited_longest_is_taken_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
