#include "tests/check.h"

#include <stdlib.h>

#include "common/random.h"
#include "trace/activity/kernel_class.h"
#include "trace/activity/summary.h"

/* Classes by name id: 1 is a computing kernel, 2 a communicating one. */
static const uint8_t classes[] = {DL_KERNEL_OTHER, DL_KERNEL_GEMM, DL_KERNEL_COLLECTIVE};
enum { COMPUTE = 1, COLLECTIVE };

static dl_activity kernel(uint32_t name, int64_t start_ns, int64_t end_ns)
{
    return (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                         .name = name,
                         .start_ns = start_ns,
                         .duration_ns = end_ns - start_ns};
}

static dl_activity copy(dl_copy_direction direction, int64_t start_ns, int64_t end_ns)
{
    return (dl_activity){.kind = DL_ACTIVITY_MEMCPY,
                         .copy = direction,
                         .start_ns = start_ns,
                         .duration_ns = end_ns - start_ns};
}

static dl_activity_timeline timeline_of(const dl_activity *activities, size_t count,
                                        const dl_interval *window)
{
    dl_activity_timeline timeline = {0};
    DL_SCOPED(dl_launches) launches = {0};
    dl_launches_init(&launches, activities, count);
    dl_activity_timeline_init(&timeline, activities, count, classes, &launches, window);
    return timeline;
}

static void test_intervals(void **state DL_UNUSED)
{
    /* Overlapping, adjacent, nested, empty; unsorted. */
    dl_interval set[] = {{30, 40}, {0, 10}, {5, 12}, {12, 15}, {33, 35}, {20, 20}};
    assert_int_equal(dl_intervals_unite(set, 6), 2);
    assert_int_equal(set[0].start_ns, 0);
    assert_int_equal(set[0].end_ns, 15);
    assert_int_equal(set[1].start_ns, 30);
    assert_int_equal(set[1].end_ns, 40);
    assert_int_equal(dl_intervals_total(set, 2), 25);
    /* [10, 32) overlaps 5 of the first and 2 of the second, [39, 50) 1 more. */
    const dl_interval other[] = {{10, 32}, {39, 50}};
    assert_int_equal(dl_intervals_overlap(set, 2, other, 2), 8);
    assert_int_equal(dl_intervals_overlap(other, 2, set, 2), 8);
    assert_int_equal(dl_intervals_overlap(set, 2, other, 0), 0);
    assert_int_equal(dl_intervals_unite(NULL, 0), 0);
}

/*            50   100  120   180  200   250  270 280 290 300 310 330  400 410
 * compute          |-----------------|     |---------------|
 * collective                  |--------------------|
 * peer                                                        |---|
 * copies    |---------|                       |-------|            |---|
 *
 * Busy [50, 300) + [310, 330) + [400, 410) = 280 of the span 360. Compute 100 + 50; communication
 * 100 + 20, of which [180, 200) and [250, 280) hide; copies 70 + 20 + 10, of which [100, 120) and
 * [270, 290) hide. 150 + 70 + 60 = 280. */
static void test_parts(void **state DL_UNUSED)
{
    dl_activity activities[] = {
        kernel(COMPUTE, 250, 300),
        kernel(COMPUTE, 100, 200),
        kernel(COLLECTIVE, 180, 280),
        copy(DL_COPY_H2D, 50, 120),
        copy(DL_COPY_D2D, 270, 290),
        copy(DL_COPY_PEER, 310, 330),
        {.kind = DL_ACTIVITY_MEMSET, .start_ns = 400, .duration_ns = 10},
        {.kind = DL_ACTIVITY_CALL, .start_ns = 0, .duration_ns = 1000},
        {.kind = DL_ACTIVITY_RANGE, .start_ns = 0, .duration_ns = 1000},
    };
    dl_activity_timeline timeline = timeline_of(activities, 9, NULL);
    assert_int_equal(timeline.device_count, 1);
    const dl_device_timeline *d = &timeline.devices[0];
    assert_int_equal(d->start_ns, 50);
    assert_int_equal(d->end_ns, 410);
    assert_int_equal(d->busy_ns, 280);
    assert_int_equal(d->idle_ns, 80);
    assert_int_equal(d->gap_count, 2);
    assert_int_equal(d->kernel_ns, 200);
    assert_int_equal(d->compute_ns, 150);
    assert_int_equal(d->communication_ns, 120);
    assert_int_equal(d->exposed_communication_ns, 70);
    assert_int_equal(d->copy_ns, 100);
    assert_int_equal(d->exposed_copy_ns, 60);
    assert_int_equal(d->unknown_gap_ns, 80);
    assert_int_equal(d->launch_bound_ns, 0);
    dl_activity_timeline_free(&timeline);
    /* Within [110, 320): busy except for [300, 310). Compute [110, 200) + [250, 300), communication
     * 100 + 10, copies [110, 120) + [270, 290), all hidden. */
    timeline = timeline_of(activities, 9, &(dl_interval){110, 320});
    d = &timeline.devices[0];
    assert_int_equal(d->start_ns, 110);
    assert_int_equal(d->end_ns, 320);
    assert_int_equal(d->busy_ns, 200);
    assert_int_equal(d->compute_ns, 140);
    assert_int_equal(d->communication_ns, 110);
    assert_int_equal(d->copy_ns, 30);
    assert_int_equal(d->exposed_copy_ns, 0);
    dl_activity_timeline_free(&timeline);
    timeline = timeline_of(activities, 9, &(dl_interval){410, 500});
    assert_int_equal(timeline.device_count, 0);
    dl_activity_timeline_free(&timeline);
}

/* Gaps a..b with the launch's start s; in us:
 *
 *     a    b    s  launch-bound
 *     1   50   40  49: late launch
 *    60  200   70  30: it may have been in flight until 90, then another cause
 *   210  250  195   5: launched before the device became idle, in flight until 215
 *   260  300  100   0: launched long before
 *   310  320  330  10: clocks differ
 *   330  340    -   unknown: 10 */
static void test_launch_bound(void **state DL_UNUSED)
{
    const int64_t works_us[][3] = {{0, 1, 0},       {50, 60, 40},    {200, 210, 70},
                                   {250, 260, 195}, {300, 310, 100}, {320, 330, 330},
                                   {340, 350, -1}};
    dl_activity activities[14] = {{0}};
    size_t count = 0;
    for (uint32_t i = 0; i < 7; i++) {
        const int64_t *us = works_us[i];
        activities[count] = kernel(COMPUTE, us[0] * 1000, us[1] * 1000);
        activities[count++].correlation = i + 1;
        if (us[2] < 0) continue;
        activities[count++] = (dl_activity){.kind = DL_ACTIVITY_CALL,
                                            .correlation = i + 1,
                                            .start_ns = us[2] * 1000,
                                            .duration_ns = 5000};
    }
    DL_SCOPED(dl_activity_timeline) timeline = timeline_of(activities, count, NULL);
    const dl_device_timeline *d = &timeline.devices[0];
    assert_int_equal(d->gap_count, 6);
    assert_int_equal(d->idle_ns, 289000);
    assert_int_equal(d->launch_bound_ns, 94000);
    assert_int_equal(d->unknown_gap_ns, 10000);
}

/* Devices 3 and 1 have work: one graph of 100, two kernels of 10 with 5 between them. */
static void test_devices(void **state DL_UNUSED)
{
    dl_activity activities[] = {
        kernel(COMPUTE, 0, 10),
        {.kind = DL_ACTIVITY_GRAPH, .device = 1, .start_ns = 0, .duration_ns = 100},
        kernel(COMPUTE, 15, 25)};
    activities[0].device = activities[2].device = 3;
    dl_activity_timeline timeline = timeline_of(activities, 3, NULL);
    assert_int_equal(timeline.device_count, 2);
    assert_int_equal(timeline.devices[0].device, 1);
    assert_int_equal(timeline.devices[0].compute_ns, 100);
    assert_int_equal(timeline.devices[0].kernel_ns, 100);
    assert_int_equal(dl_activity_timeline_device(&timeline, 3)->busy_ns, 20);
    assert_int_equal(dl_activity_timeline_device(&timeline, 3)->idle_ns, 5);
    assert_null(dl_activity_timeline_device(&timeline, 0));
    dl_activity_timeline_free(&timeline);
    timeline = timeline_of(NULL, 0, NULL);
    assert_int_equal(timeline.device_count, 0);
    dl_activity_timeline_free(&timeline);
}

enum { MOMENTS = 400 };

/* Reference implementation that checks the coverage of each 1 ns moment. */
static void check_by_moments(const dl_activity *activities, size_t count,
                             const dl_device_timeline *d)
{
    bool compute[MOMENTS] = {0}, communication[MOMENTS] = {0}, copies[MOMENTS] = {0};
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &activities[i];
        bool *part = a->kind == DL_ACTIVITY_MEMCPY
                         ? (a->copy == DL_COPY_PEER ? communication : copies)
                         : (a->name == COLLECTIVE ? communication : compute);
        for (int64_t t = a->start_ns; t < a->start_ns + a->duration_ns; t++)
            part[t] = true;
    }
    int64_t busy = 0, hidden_communication = 0, hidden_copies = 0;
    for (int t = 0; t < MOMENTS; t++) {
        busy += compute[t] || communication[t] || copies[t];
        hidden_communication += communication[t] && compute[t];
        hidden_copies += copies[t] && (compute[t] || communication[t]);
    }
    assert_int_equal(d->busy_ns, busy);
    assert_int_equal(d->communication_ns - d->exposed_communication_ns, hidden_communication);
    assert_int_equal(d->copy_ns - d->exposed_copy_ns, hidden_copies);
    assert_int_equal(d->busy_ns, d->compute_ns + d->exposed_communication_ns + d->exposed_copy_ns);
    assert_int_equal(d->end_ns - d->start_ns, d->busy_ns + d->idle_ns);
    assert_int_equal(d->unknown_gap_ns, d->idle_ns);
}

static void test_random(void **state DL_UNUSED)
{
    enum { WORKS = 12, ROUNDS = 500 };
    dl_random random;
    dl_random_init(&random, 7, 0, 0, 0);
    for (int round = 0; round < ROUNDS; round++) {
        dl_activity activities[WORKS];
        for (int i = 0; i < WORKS; i++) {
            int64_t start = (int64_t)dl_random_below(&random, MOMENTS - 60);
            int64_t end = start + (int64_t)dl_random_below(&random, 60);
            double what = dl_random_uniform(&random);
            activities[i] = what < 0.5 ? kernel(what < 0.3 ? COMPUTE : COLLECTIVE, start, end)
                                       : copy(what < 0.6 ? DL_COPY_PEER : DL_COPY_D2H, start, end);
        }
        DL_SCOPED(dl_activity_timeline) timeline = timeline_of(activities, WORKS, NULL);
        check_by_moments(activities, WORKS, &timeline.devices[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals),    cmocka_unit_test(test_parts),
        cmocka_unit_test(test_launch_bound), cmocka_unit_test(test_devices),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
