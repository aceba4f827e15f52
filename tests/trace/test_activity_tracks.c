#include "tests/check.h"

#include "common/random.h"
#include "trace/activity/export.h"

static dl_activity host(dl_activity_kind kind, uint32_t thread, int64_t start_ns,
                        int64_t duration_ns)
{
    return (dl_activity){
        .kind = (uint8_t)kind, .thread = thread, .start_ns = start_ns, .duration_ns = duration_ns};
}

static dl_activity kernel(uint32_t device, uint32_t stream, int64_t start_ns, int64_t duration_ns)
{
    return (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                         .device = device,
                         .stream = stream,
                         .start_ns = start_ns,
                         .duration_ns = duration_ns};
}

static dl_activity_tracks lay_out(const dl_activity *activities, size_t count)
{
    DL_SCOPED(dl_launches) launches = {0};
    dl_activity_tracks tracks = {0};
    dl_launches_init(&launches, activities, count);
    dl_activity_tracks_init(&tracks, activities, count, &launches);
    return tracks;
}

/* The activity's lane on its thread or stream. */
static uint32_t lane_of(const dl_activity_tracks *tracks, size_t activity)
{
    return tracks->tracks[tracks->track_of[activity]].lane;
}

static void test_lines(void **state DL_UNUSED)
{
    dl_activity a[] = {
        kernel(1, 7, 50, 10),
        kernel(0, 9, 40, 10),
        kernel(0, 7, 30, 10),
        host(DL_ACTIVITY_CALL, 300, 20, 10),
        host(DL_ACTIVITY_MARK, 200, 10, 0),
        host(DL_ACTIVITY_EVENT, 300, 0, 0),
        host(DL_ACTIVITY_COMM, 300, 0, 0),
        host(DL_ACTIVITY_CLOCK, 300, 0, 0),
        host(DL_ACTIVITY_OVERHEAD, 200, 12, 5),
    };
    dl_activity_tracks tracks = lay_out(a, sizeof a / sizeof a[0]);
    static const dl_track expected[] = {
        {.thread = 200, .first = 0, .count = 2},
        {.thread = 300, .first = 2, .count = 1},
        {.is_stream = true, .stream = 7, .first = 3, .count = 1},
        {.is_stream = true, .stream = 9, .first = 4, .count = 1},
        {.is_stream = true, .device = 1, .stream = 7, .first = 5, .count = 1},
    };
    assert_int_equal(tracks.count, sizeof expected / sizeof expected[0]);
    for (size_t t = 0; t < tracks.count; t++) {
        assert_int_equal(tracks.tracks[t].is_stream, expected[t].is_stream);
        assert_int_equal(tracks.tracks[t].thread, expected[t].thread);
        assert_int_equal(tracks.tracks[t].device, expected[t].device);
        assert_int_equal(tracks.tracks[t].stream, expected[t].stream);
        assert_int_equal(tracks.tracks[t].lane, 0);
        assert_int_equal(tracks.tracks[t].first, expected[t].first);
        assert_int_equal(tracks.tracks[t].count, expected[t].count);
    }
    const uint32_t order[] = {4, 8, 3, 2, 1, 0};
    assert_memory_equal(tracks.order, order, sizeof order);
    for (size_t i = 5; i < 8; i++)
        assert_int_equal(tracks.track_of[i], DL_NO_TRACK);
    dl_activity_tracks_free(&tracks);
    assert_null(tracks.tracks);
}

/* Nested and adjacent slices stay on one track; outer slices come first. */
static void test_nested(void **state DL_UNUSED)
{
    dl_activity a[] = {
        host(DL_ACTIVITY_CALL, 1, 10, 10),  host(DL_ACTIVITY_RANGE, 1, 0, 50),
        host(DL_ACTIVITY_RANGE, 1, 10, 10), host(DL_ACTIVITY_CALL, 1, 20, 5),
        host(DL_ACTIVITY_RANGE, 1, 50, 10), host(DL_ACTIVITY_CALL, 1, 50, 0),
        host(DL_ACTIVITY_MARK, 1, 15, 0),
    };
    DL_SCOPED(dl_activity_tracks) tracks = lay_out(a, sizeof a / sizeof a[0]);
    assert_int_equal(tracks.count, 1);
    const uint32_t order[] = {1, 0, 2, 6, 3, 4, 5};
    assert_memory_equal(tracks.order, order, sizeof order);
}

/* A range that ends within a call moves, whichever begins first; of two ranges the later one; of
 * two kernels of a stream the later one. */
static void test_crossing(void **state DL_UNUSED)
{
    dl_activity a[] = {
        host(DL_ACTIVITY_RANGE, 1, 0, 25),
        host(DL_ACTIVITY_CALL, 1, 20, 10),
        host(DL_ACTIVITY_RANGE, 1, 28, 10),
        host(DL_ACTIVITY_RANGE, 1, 100, 20),
        host(DL_ACTIVITY_RANGE, 1, 110, 20),
        host(DL_ACTIVITY_OVERHEAD, 1, 21, 2),
        kernel(0, 7, 0, 20),
        kernel(0, 7, 10, 20),
        kernel(0, 7, 15, 20),
        kernel(0, 7, 20, 20),
    };
    DL_SCOPED(dl_activity_tracks) tracks = lay_out(a, sizeof a / sizeof a[0]);
    assert_int_equal(lane_of(&tracks, 0), 1);
    assert_int_equal(lane_of(&tracks, 1), 0);
    assert_int_equal(lane_of(&tracks, 2), 1);
    assert_int_equal(lane_of(&tracks, 3), 0);
    assert_int_equal(lane_of(&tracks, 4), 1);
    assert_int_equal(lane_of(&tracks, 5), 0);
    assert_int_equal(lane_of(&tracks, 6), 0);
    assert_int_equal(lane_of(&tracks, 7), 1);
    assert_int_equal(lane_of(&tracks, 8), 2);
    assert_int_equal(lane_of(&tracks, 9), 0);
    assert_int_equal(tracks.count, 5);
}

/* Ranges that end within a call both move, though the inner one is nested in the outer. */
static void test_call_moves_all_that_it_crosses(void **state DL_UNUSED)
{
    dl_activity a[] = {host(DL_ACTIVITY_RANGE, 1, 0, 100), host(DL_ACTIVITY_RANGE, 1, 5, 20),
                       host(DL_ACTIVITY_RANGE, 1, 10, 14), host(DL_ACTIVITY_CALL, 1, 20, 10)};
    DL_SCOPED(dl_activity_tracks) tracks = lay_out(a, 4);
    assert_int_equal(lane_of(&tracks, 0), 0);
    assert_int_equal(lane_of(&tracks, 1), 1);
    assert_int_equal(lane_of(&tracks, 2), 1);
    assert_int_equal(lane_of(&tracks, 3), 0);
}

/* A SYNC is on the thread of its call. */
static void test_sync_lies_on_the_thread_of_its_call(void **state DL_UNUSED)
{
    dl_activity a[] = {host(DL_ACTIVITY_CALL, 77, 10, 10), host(DL_ACTIVITY_SYNC, 0, 12, 5),
                       host(DL_ACTIVITY_SYNC, 0, 12, 5)};
    a[0].correlation = a[1].correlation = 3;
    a[2].correlation = 4;
    DL_SCOPED(dl_activity_tracks) tracks = lay_out(a, 3);
    assert_int_equal(tracks.count, 2);
    assert_int_equal(tracks.tracks[tracks.track_of[1]].thread, 77);
    assert_int_equal(tracks.tracks[tracks.track_of[2]].thread, 0);
}

/* Checks, pair by pair, that each slice of a track begins no earlier than the previous one and is
 * nested in the open slices or follows them. */
static void assert_nested(const dl_activity_tracks *tracks, const dl_track *track,
                          const dl_activity *activities)
{
    for (size_t i = track->first; i < track->first + track->count; i++) {
        const dl_activity *x = &activities[tracks->order[i]];
        for (size_t j = i + 1; j < track->first + track->count; j++) {
            const dl_activity *y = &activities[tracks->order[j]];
            int64_t x_end = x->start_ns + x->duration_ns, y_end = y->start_ns + y->duration_ns;
            assert_true(x->start_ns <= y->start_ns);
            if (x->kind == DL_ACTIVITY_MARK || y->kind == DL_ACTIVITY_MARK) continue;
            assert_true(y->start_ns >= x_end || y_end <= x_end);
        }
    }
}

static void test_any_activities_nest(void **state DL_UNUSED)
{
    enum { ROUNDS = 200, MOST = 60 };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        dl_random random;
        dl_random_init(&random, round, 0, 0, 0);
        dl_activity a[MOST];
        size_t count = dl_random_below(&random, MOST + 1), drawn = 0, marks_aside = 0;
        for (size_t i = 0; i < count; i++) {
            a[i] = (dl_activity){
                .kind = (uint8_t)(1 + dl_random_below(&random, DL_ACTIVITY_KIND_END - 1)),
                .stream = (uint32_t)dl_random_below(&random, 2),
                .thread = (uint32_t)dl_random_below(&random, 2),
                .correlation = (uint32_t)dl_random_below(&random, 8),
                .start_ns = (int64_t)dl_random_below(&random, 100),
                .duration_ns = (int64_t)dl_random_below(&random, 40)};
            if (a[i].kind == DL_ACTIVITY_MARK) a[i].duration_ns = 0;
            drawn += a[i].kind != DL_ACTIVITY_EVENT && a[i].kind != DL_ACTIVITY_COMM &&
                     a[i].kind != DL_ACTIVITY_CLOCK;
        }
        DL_SCOPED(dl_activity_tracks) tracks = lay_out(a, count);
        size_t placed = 0;
        for (size_t t = 0; t < tracks.count; t++) {
            const dl_track *track = &tracks.tracks[t];
            assert_int_equal(track->first, placed);
            assert_true(track->count > 0);
            placed += track->count;
            assert_nested(&tracks, track, a);
            for (size_t i = track->first; i < placed; i++)
                assert_int_equal(tracks.track_of[tracks.order[i]], t);
        }
        assert_int_equal(placed, drawn);
        for (size_t i = 0; i < count; i++)
            marks_aside += a[i].kind == DL_ACTIVITY_MARK && lane_of(&tracks, i) > 0;
        assert_int_equal(marks_aside, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_call_moves_all_that_it_crosses),
        cmocka_unit_test(test_sync_lies_on_the_thread_of_its_call),
        cmocka_unit_test(test_any_activities_nest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
