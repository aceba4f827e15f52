#include "tests/check.h"

#include "common/random.h"
#include "sim/engine.h"

typedef struct log {
    dl_engine *engine;
    int64_t times_ns[16];
    int indices[16];
    int count, victim;
} log;

/* Event 0 schedules events 1 and 2 and cancels the victim. */
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

/* Event 0 is at 10 ns; it schedules 2 immediately and 1 at 15; 3 was scheduled at 15 before; 4 at
 * 12 is cancelled. */
static void events_are_handled_in_order(void **state DL_UNUSED)
{
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

/* Event 0 occurs immediately and schedules 2 and 1; the event in more than 146 years never
 * occurs. */
static void it_ends_before_time_overflows(void **state DL_UNUSED)
{
    DL_SCOPED(dl_engine) engine;
    dl_engine_init(&engine, 8);
    log l = {.engine = &engine};
    dl_engine_after(&engine, 10, note, &l, 0);
    l.victim = dl_engine_after(&engine, 12, note, &l, 4);
    dl_engine_after(&engine, INT64_MAX, note, &l, 5);
    dl_engine_run(&engine);
    assert_true(engine.too_long);
    assert_int_equal(l.count, 3);
    assert_int_equal(engine.now_ns, 15);
}

/* The pending events as a plain list that is searched each time. */
enum { PENDING_MOST = 300, EVENTS = 100000 };

typedef struct pending {
    int64_t time_ns;
    int number, id;
} pending;

typedef struct listed {
    dl_engine engine;
    dl_random stream;
    pending list[PENDING_MOST];
    int count, number;
} listed;

static int first_of(const listed *l)
{
    int first = 0;
    for (int i = 1; i < l->count; i++) {
        const pending *a = &l->list[i], *b = &l->list[first];
        const bool is_tie = a->time_ns == b->time_ns;
        if (a->time_ns < b->time_ns || (is_tie && a->number < b->number)) first = i;
    }
    return first;
}

static void happen(void *user, int number);

static void schedule(listed *l)
{
    static const int64_t delays_ns[] = {0, 0, 1, 2, 3, 70, 5000, 100000};
    if (l->count == PENDING_MOST || l->number >= EVENTS) return;
    const int64_t delay_ns = delays_ns[dl_random_below(&l->stream, DL_LENGTH(delays_ns))];
    l->list[l->count++] = (pending){l->engine.now_ns + delay_ns, l->number,
                                    dl_engine_after(&l->engine, delay_ns, happen, l, l->number)};
    l->number++;
}

/* Each event schedules up to three others and may cancel one. */
static void happen(void *user, int number)
{
    listed *l = user;
    const int first = first_of(l);
    assert_int_equal(l->list[first].number, number);
    assert_int_equal(l->list[first].time_ns, l->engine.now_ns);
    l->list[first] = l->list[--l->count];
    assert_int_equal(dl_engine_pending(&l->engine), l->count);
    if (dl_engine_goes_on(&l->engine) && l->count > 0)
        assert_true(l->list[first_of(l)].time_ns > l->engine.now_ns);
    for (uint64_t left = dl_random_below(&l->stream, l->count < 100 ? 4 : 2); left > 0; left--)
        schedule(l);
    if (l->count == 0 || dl_random_below(&l->stream, 8) > 0) return;
    const int victim = (int)dl_random_below(&l->stream, (uint64_t)l->count);
    dl_engine_cancel(&l->engine, l->list[victim].id);
    l->list[victim] = l->list[--l->count];
}

static void the_order_is_that_of_a_list(void **state DL_UNUSED)
{
    static listed l;
    dl_random_init(&l.stream, 3, 0, 0, 0);
    dl_engine_init(&l.engine, PENDING_MOST);
    for (int i = 0; i < 20; i++)
        schedule(&l);
    dl_engine_run(&l.engine);
    assert_int_equal(l.number, EVENTS);
    assert_int_equal(l.count, 0);
    dl_engine_free(&l.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_handled_in_order),
        cmocka_unit_test(it_ends_before_time_overflows),
        cmocka_unit_test(the_order_is_that_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
