#include "tests/check.h"

#include "common/random.h"
#include "sim/event_queue.h"

static void nothing(void *user, int index)
{
    (void)user;
    (void)index;
}

static void earliest_first_and_ties_in_order_of_scheduling(void **state)
{
    (void)state;
    dl_event_queue queue;
    dl_event_queue_init(&queue, 8);
    static const int64_t times_ns[] = {30, 10, 20, 10, 30, 10};
    static const int order[] = {1, 3, 5, 2, 0, 4};
    for (int i = 0; i < 6; i++)
        dl_event_queue_push(&queue, times_ns[i], nothing, NULL, i);
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

/* The queue against a plain list that is searched each time: random pushes, pops, cancels. */
static void agrees_with_a_list(void **state)
{
    (void)state;
    enum { ROOM = 40 };
    typedef struct entry {
        int64_t time_ns;
        int number, id;
    } entry;
    entry list[ROOM];
    int count = 0, number = 0;
    dl_random stream;
    dl_random_init(&stream, 5, 0, 0, 0);
    dl_event_queue queue;
    dl_event_queue_init(&queue, ROOM);
    for (int round = 0; round < 20000; round++) {
        uint64_t what = dl_random_below(&stream, 5);
        if (what < 2 && count < ROOM) {
            entry *e = &list[count++];
            *e = (entry){(int64_t)dl_random_below(&stream, 25), number++, 0};
            e->id = dl_event_queue_push(&queue, e->time_ns, nothing, NULL, e->number);
        } else if (what < 4 && count > 0) {
            int least = 0;
            for (int i = 1; i < count; i++) {
                bool sooner = list[i].time_ns < list[least].time_ns;
                bool tie = list[i].time_ns == list[least].time_ns;
                if (sooner || (tie && list[i].number < list[least].number)) least = i;
            }
            dl_event event;
            assert_true(dl_event_queue_pop(&queue, &event));
            assert_int_equal(event.index, list[least].number);
            list[least] = list[--count];
        } else if (count > 0) {
            int victim = (int)dl_random_below(&stream, (uint64_t)count);
            dl_event_queue_cancel(&queue, list[victim].id);
            list[victim] = list[--count];
        }
        assert_int_equal(queue.count - queue.stale, count);
    }
    dl_event_queue_free(&queue);
}

/* The last number is used up by the second of five events: they are numbered anew and keep their
 * order, ties too. */
static void order_stays_when_numbers_run_out(void **state)
{
    (void)state;
    static const int64_t times_ns[] = {7, 3, 7, 3, 7};
    static const int order[] = {1, 3, 0, 2, 4};
    dl_event_queue queue;
    dl_event_queue_init(&queue, 5);
    queue.next_number = ((uint64_t)1 << (64 - DL_EVENT_ID_BITS)) - 2;
    for (int i = 0; i < 5; i++)
        dl_event_queue_push(&queue, times_ns[i], nothing, NULL, i);
    assert_int_equal(queue.next_number, 5);
    for (int i = 0; i < 5; i++) {
        dl_event event;
        assert_true(dl_event_queue_pop(&queue, &event));
        assert_int_equal(event.index, order[i]);
    }
    dl_event_queue_free(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earliest_first_and_ties_in_order_of_scheduling),
        cmocka_unit_test(agrees_with_a_list),
        cmocka_unit_test(order_stays_when_numbers_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
