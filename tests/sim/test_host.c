#include "tests/check.h"

#include <math.h>

#include "sim/platform/host.h"
#include "tests/sim_fixture.h"

enum { THREADS = 3 };

typedef struct machine {
    dl_engine engine;
    dl_host host;
    int64_t done_ns[THREADS];
} machine;

static void on_done(void *user, int thread)
{
    machine *m = user;
    m->done_ns[thread] = m->engine.now_ns;
}

static void set_up(machine *m, int cores, const char *costs_text, double memory_bytes_per_ns)
{
    *m = (machine){0};
    dl_costs costs = fixture_costs(costs_text);
    dl_engine_init(&m->engine, 1);
    dl_host_init(&m->host, &(dl_host_config){.engine = &m->engine,
                                             .cores = cores,
                                             .threads = THREADS,
                                             .slice_ns = 1e9,
                                             .memory_bytes_per_ns = memory_bytes_per_ns,
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

/* copies_2 = 1.25: 1000 ns of two at once take 1250; the longer one, with 600 of its 1400 left,
 * goes on alone: 1250 + 400 = 1650. */
static void computing_at_once_slows_by_sharing(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 2, "[costs]\nschema = 1\n[sharing]\ncopies_2 = 1.25\n", INFINITY);
    dl_host_compute(&m.host, 0, 1000);
    dl_host_compute(&m.host, 1, 1400);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 1250);
    assert_int_equal(m.done_ns[1], 1650);
    tear_down(&m);
}

/* Who waits for the core counts too: two on one core run at 1 / 1.25 one after the other until one
 * is left: 1000 * 1.25, then 1000. */
static void threads_in_the_queue_count_as_sharing(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 1, "[costs]\nschema = 1\n[sharing]\ncopies_2 = 1.25\n", INFINITY);
    dl_host_compute(&m.host, 0, 1000);
    dl_host_compute(&m.host, 1, 1000);
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 1250);
    assert_int_equal(m.done_ns[1], 2250);
    tear_down(&m);
}

/* Memory moves 3 bytes a ns; two tasks each want 2 (2000 bytes in 1000 ns): they get 1.5 each, and
 * take 1333.3 -> 1334. Next to them computing goes at full speed, and one task alone too. */
static void moving_bytes_shares_the_memory(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 3, "[costs]\nschema = 1\n", 3);
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

/* A task that wants little is not held back: memory 3, wants 0.5 and 4: they get 0.5 and 2.5. */
static void the_small_flow_keeps_its_rate(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 3, "[costs]\nschema = 1\n", 3);
    dl_host_move(&m.host, 0, (dl_work){.full_speed_ns = 1000, .traffic_bytes = 500});
    dl_host_move(&m.host, 1, (dl_work){.full_speed_ns = 500, .traffic_bytes = 2000});
    dl_engine_run(&m.engine);
    assert_int_equal(m.done_ns[0], 1000);
    assert_int_equal(m.done_ns[1], 800);
    tear_down(&m);
}

static void nothing_takes_no_time(void **state)
{
    (void)state;
    machine m;
    set_up(&m, 3, "[costs]\nschema = 1\n", 3);
    dl_host_move(&m.host, 0, (dl_work){0});
    dl_engine_run(&m.engine);
    assert_int_equal(m.engine.now_ns, 0);
    assert_int_equal(m.engine.handled, 1);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
