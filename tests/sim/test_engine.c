#include "tests/check.h"

#include "sim/engine.h"

typedef struct log {
    dl_engine *engine;
    int64_t times_ns[16];
    int indices[16];
    int count, victim;
} log;

/* Event 0 schedules events 1 and 2 behind it and cancels the victim. */
static void note(void *user, int index)
{
    log *l = user;
    l->times_ns[l->count] = l->engine->now_ns;
    l->indices[l->count++] = index;
    if (index != 0) return;
    dl_engine_after(l->engine, 5, note, l, 1);
    dl_engine_after(l->engine, 0, note, l, 2);
    dl_engine_cancel(l->engine, l->victim);
}

/* 0 at 10; from it 2 at once and 1 at 15; 3 was there at 15 before; 4 at 12 is cancelled. */
static void events_are_handled_in_order(void **state)
{
    (void)state;
    dl_engine engine;
    dl_engine_init(&engine, 8);
    log l = {.engine = &engine};
    dl_engine_after(&engine, 10, note, &l, 0);
    dl_engine_after(&engine, 15, note, &l, 3);
    l.victim = dl_engine_after(&engine, 12, note, &l, 4);
    dl_engine_run(&engine);
    static const int indices[] = {0, 2, 3, 1};
    static const int64_t times_ns[] = {10, 10, 15, 15};
    assert_int_equal(l.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(l.indices[i], indices[i]);
        assert_int_equal(l.times_ns[i], times_ns[i]);
    }
    assert_int_equal(engine.now_ns, 15);
    assert_int_equal(engine.handled, 4);
    dl_engine_free(&engine);
    dl_engine_free(&engine);
}

/* 0 at once; from it 2 and 1; the event in more than 146 years never comes. */
static void it_ends_before_time_overflows(void **state)
{
    (void)state;
    dl_engine engine;
    dl_engine_init(&engine, 8);
    log l = {.engine = &engine};
    dl_engine_after(&engine, 10, note, &l, 0);
    l.victim = dl_engine_after(&engine, 12, note, &l, 4);
    dl_engine_after(&engine, INT64_MAX, note, &l, 5);
    dl_engine_run(&engine);
    assert_true(engine.too_long);
    assert_int_equal(l.count, 3);
    assert_int_equal(engine.now_ns, 15);
    dl_engine_free(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_handled_in_order),
        cmocka_unit_test(it_ends_before_time_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
