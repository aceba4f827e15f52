#include "tests/check.h"

#include "common/random.h"
#include "sim/event_queue.h"

static void nothing(void *user DL_UNUSED, int index DL_UNUSED) {}

static void earliest_first_and_ties_in_order_of_scheduling(void **state DL_UNUSED)
{
    dl_event_queue queue;
    dl_event_queue_init(&queue, 8);
    static const int64_t times_ns[] = {30, 10, 20, 10, 30, 10};
    static const int order[] = {1, 3, 5, 2, 0, 4};
    for (int i = 0; i < 6; i++)
        dl_event_queue_push(&queue, times_ns[i], nothing, NULL, i, -1);
    dl_event event;
    for (int i = 0; i < 6; i++) {
        assert_true(dl_event_queue_pop(&queue, &event));
        assert_int_equal(event.index, order[i]);
        assert_int_equal(event.time_ns, times_ns[order[i]]);
    }
    assert_false(dl_event_queue_pop(&queue, &event));
    dl_event_queue_free(&queue);
    dl_event_queue_free(&queue);
}

/* Returns the delay from now of a test's n-th event. */
typedef int64_t (*delay_fn)(dl_random *stream, int n);

static int64_t often_equal(dl_random *stream, int n DL_UNUSED)
{
    return (int64_t)dl_random_below(stream, 4);
}

static int64_t even(dl_random *stream, int n DL_UNUSED)
{
    return (int64_t)dl_random_below(stream, 1000000);
}

/* Each number of bits up to 40 is equally frequent. */
static int64_t geometric(dl_random *stream, int n DL_UNUSED)
{
    return (int64_t)dl_random_below(stream, UINT64_C(1) << dl_random_below(stream, 41));
}

/* Makes the near part of the queue too large while other events are distant. */
static int64_t mostly_soon(dl_random *stream, int n)
{
    return (int64_t)dl_random_below(stream, n % 16 == 0 ? 100000000 : 400);
}

static int64_t none(dl_random *stream DL_UNUSED, int n DL_UNUSED)
{
    return 0;
}

static int64_t constant(dl_random *stream DL_UNUSED, int n DL_UNUSED)
{
    return 1000;
}

/* Each event is before all events scheduled earlier. */
static int64_t ever_sooner(dl_random *stream DL_UNUSED, int n)
{
    return 10000000 - n;
}

/* Alternately adds an event at a time shared by many others, and one between now and that time. */
static int64_t before_a_crowd(dl_random *stream DL_UNUSED, int n)
{
    return n % 2 == 0 ? 64 : 1;
}

static const delay_fn delays[] = {often_equal, even,     geometric,   mostly_soon,
                                  none,        constant, ever_sooner, before_a_crowd};

/* Compares the queue with a plain list that is searched each time: random pushes, pops and cancels,
 * with alternately more and fewer pushes than pops. */
static void agrees_with_a_list(void **state DL_UNUSED)
{
    enum { ROOM = 500, ROUNDS = 20000 };
    typedef struct entry {
        int64_t time_ns;
        int number, id;
    } entry;
    for (size_t d = 0; d < DL_LENGTH(delays); d++) {
        entry list[ROOM];
        int count = 0, number = 0;
        int64_t now_ns = 0;
        dl_random stream;
        dl_random_init(&stream, 5, 0, 0, 0);
        DL_SCOPED(dl_event_queue) queue;
        dl_event_queue_init(&queue, ROOM);
        for (int round = 0; round < ROUNDS; round++) {
            const uint64_t what = dl_random_below(&stream, 8);
            const uint64_t pushes = round / 1000 % 2 == 0 ? 5 : 3;
            if (what < pushes && count < ROOM) {
                entry *e = &list[count++];
                *e = (entry){now_ns + delays[d](&stream, number), number, 0};
                e->id = dl_event_queue_push(&queue, e->time_ns, nothing, NULL, number++, -1);
            } else if (what < 7 && count > 0) {
                int least = 0;
                for (int i = 1; i < count; i++) {
                    bool sooner = list[i].time_ns < list[least].time_ns;
                    bool tie = list[i].time_ns == list[least].time_ns;
                    if (sooner || (tie && list[i].number < list[least].number)) least = i;
                }
                dl_event event;
                assert_true(dl_event_queue_pop(&queue, &event));
                assert_int_equal(event.index, list[least].number);
                assert_int_equal(event.time_ns, list[least].time_ns);
                now_ns = event.time_ns;
                list[least] = list[--count];
            } else if (count > 0) {
                int victim = (int)dl_random_below(&stream, (uint64_t)count);
                dl_event_queue_cancel(&queue, list[victim].id);
                list[victim] = list[--count];
            }
            assert_int_equal(queue.count - queue.stale, count);
        }
    }
}

/* 200,000 pending events, each of which schedules another when it is popped: ordered by time, then
 * by number. A queue that moves a whole crowd for each event would take minutes. With `cancels`, a
 * popped event also schedules a third one, which is cancelled at the next pop. */
static void hold_many(delay_fn delay, bool cancels)
{
    enum { PENDING = 200000 };
    dl_random stream;
    dl_random_init(&stream, 7, 0, 0, 0);
    dl_event_queue queue;
    dl_event_queue_init(&queue, PENDING + 1);
    int number = 0, left = 0, timer = -1;
    for (; number < PENDING; number++)
        dl_event_queue_push(&queue, delay(&stream, number), nothing, NULL, number, -1);
    dl_event event, last = {.time_ns = -1};
    for (; dl_event_queue_pop(&queue, &event); last = event, left++) {
        assert_true(event.time_ns > last.time_ns ||
                    (event.time_ns == last.time_ns && event.index > last.index));
        if (timer >= 0) dl_event_queue_cancel(&queue, timer);
        timer = -1;
        if (number == 2 * PENDING) continue;
        dl_event_queue_push(&queue, event.time_ns + delay(&stream, number), nothing, NULL, number,
                            -1);
        number++;
        if (cancels) timer = dl_event_queue_push(&queue, INT64_MAX, nothing, NULL, -1, -1);
    }
    assert_int_equal(left, 2 * PENDING);
    assert_int_equal(queue.count, 0);
    dl_event_queue_free(&queue);
}

static void many_leave_in_order(void **state DL_UNUSED)
{
    for (size_t d = 0; d < DL_LENGTH(delays); d++) {
        hold_many(delays[d], false);
        hold_many(delays[d], true);
    }
}

/* The only remaining event of 100,000 is found; after it is popped, an event may be earlier than
 * the cancelled ones. */
static void cancelled_ones_do_not_stay(void **state DL_UNUSED)
{
    enum { PENDING = 100000 };
    static int ids[PENDING];
    DL_SCOPED(dl_event_queue) queue;
    dl_event_queue_init(&queue, PENDING);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PENDING; i++)
            ids[i] = dl_event_queue_push(&queue, 10 * round + (int64_t)i * i, nothing, NULL, i, -1);
        for (int i = 0; i < PENDING; i++)
            if (i != 3) dl_event_queue_cancel(&queue, ids[i]);
        assert_in_range(queue.stale, 0, 200);
        dl_event event;
        assert_true(dl_event_queue_pop(&queue, &event));
        assert_int_equal(event.index, 3);
        assert_int_equal(event.time_ns, 10 * round + 9);
        assert_false(dl_event_queue_pop(&queue, &event));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earliest_first_and_ties_in_order_of_scheduling),
        cmocka_unit_test(agrees_with_a_list),
        cmocka_unit_test(many_leave_in_order),
        cmocka_unit_test(cancelled_ones_do_not_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
