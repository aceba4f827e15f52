#include "tests/check.h"

#include "tests/hand_trace.h"
#include "trace/training/summary.h"

/* Two workers with interleaved records. Worker 0, step 0 from 100 to 200: input 100-110, compute
 * 110-150, wait 150-155, push 155-160, average 160-180, pull 180-186, slowdown 186-190; the last 10
 * ns are dispatch. Worker 1, step 5 from 120 to 170: compute 130-160, 20 ns dispatch. A record of
 * worker 0 before the first step and one of worker 1 after its last step are in no step. */
static void test_parts(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    hand_record(&trace, DL_RECORD_COPY, 0, 50, 30);
    hand_record(&trace, DL_RECORD_INPUT, 0, 100, 10);
    hand_record(&trace, DL_RECORD_COMPUTE, 0, 110, 40);
    hand_record(&trace, DL_RECORD_WAIT, 0, 150, 5);
    hand_record(&trace, DL_RECORD_COMPUTE, 1, 130, 30);
    hand_record(&trace, DL_RECORD_COPY, 0, 155, 5)->phase = DL_PHASE_PUSH;
    dl_record *mark = hand_record(&trace, DL_RECORD_STEP, 1, 120, 50);
    mark->step = 5;
    mark->samples = 64;
    mark->staleness = 2;
    hand_record(&trace, DL_RECORD_AVERAGE, 0, 160, 20);
    hand_record(&trace, DL_RECORD_COPY, 0, 180, 6)->phase = DL_PHASE_PULL;
    hand_record(&trace, DL_RECORD_BENCH, 0, 181, 1);
    hand_record(&trace, DL_RECORD_SLOWDOWN, 0, 186, 4);
    hand_record(&trace, DL_RECORD_COMPUTE, 1, 171, 29);
    hand_record(&trace, DL_RECORD_STEP, 0, 100, 100);

    DL_SCOPED(dl_steps) steps = {0};
    dl_steps_init(&steps, &trace);
    assert_int_equal(steps.count, 2);
    assert_int_equal(steps.worker_count, 2);
    assert_int_equal(steps.worker_first[0], 0);
    assert_int_equal(steps.worker_first[1], 1);
    assert_int_equal(steps.worker_first[2], 2);
    assert_int_equal(steps.outside_count, 2);
    assert_int_equal(steps.overlap_count, 0);
    const int64_t parts_ns[DL_PART_COUNT] = {
        [DL_PART_COMPUTE] = 40,   [DL_PART_DISPATCH] = 10, [DL_PART_COMMUNICATION] = 11,
        [DL_PART_AVERAGING] = 20, [DL_PART_WAITING] = 5,   [DL_PART_INPUT] = 10,
        [DL_PART_SLOWDOWN] = 4};
    const dl_step *first = &steps.steps[0], *second = &steps.steps[1];
    assert_memory_equal(first->part_ns, parts_ns, sizeof parts_ns);
    assert_int_equal(first->staleness, DL_NO_STALENESS);
    assert_int_equal(first->record_count, 8);
    assert_int_equal(dl_steps_record(&steps, &trace, first, 0)->kind, DL_RECORD_INPUT);
    assert_int_equal(dl_steps_record(&steps, &trace, first, 7)->kind, DL_RECORD_STEP);
    assert_int_equal(second->worker, 1);
    assert_int_equal(second->step, 5);
    assert_int_equal(second->samples, 64);
    assert_int_equal(second->staleness, 2);
    assert_int_equal(second->start_ns, 120);
    assert_int_equal(second->duration_ns, 50);
    assert_int_equal(second->part_ns[DL_PART_COMPUTE], 30);
    assert_int_equal(second->part_ns[DL_PART_DISPATCH], 20);
}

/* Records of 60 + 70 ns in a step of 100 ns: the step counts as overlapping, and the parts still
 * add up to the step. */
static void test_overlap(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    hand_record(&trace, DL_RECORD_COMPUTE, 0, 0, 60);
    hand_record(&trace, DL_RECORD_COPY, 0, 30, 70);
    hand_record(&trace, DL_RECORD_STEP, 0, 0, 100);
    DL_SCOPED(dl_steps) steps = {0};
    dl_steps_init(&steps, &trace);
    assert_int_equal(steps.overlap_count, 1);
    assert_int_equal(steps.steps[0].part_ns[DL_PART_COMPUTE], 60);
    assert_int_equal(steps.steps[0].part_ns[DL_PART_COMMUNICATION], 40);
    assert_int_equal(steps.steps[0].part_ns[DL_PART_DISPATCH], 0);
}

/* Returns the number of flagged leading steps; fails on a flag after an unflagged step. */
static size_t count_warmup(const int64_t *durations_ns, size_t count)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    for (size_t i = 0; i < count; i++) {
        hand_record(&trace, DL_RECORD_STEP, 0, (int64_t)i * 1000000, durations_ns[i]);
    }
    DL_SCOPED(dl_steps) steps = {0};
    dl_steps_init(&steps, &trace);
    size_t flagged = 0;
    while (flagged < count && steps.steps[flagged].warmup)
        flagged++;
    for (size_t i = flagged; i < count; i++)
        assert_false(steps.steps[i].warmup);
    return flagged;
}

/* The warm-up rule of summary.h, on series of 100 ns with inserted slow steps. */
static void test_warmup(void **state DL_UNUSED)
{
    enum { MANY = 200 };
    int64_t series[MANY];
    for (int i = 0; i < MANY; i++)
        series[i] = 100;
    assert_int_equal(count_warmup(series, MANY), 0);
    series[0] = 126; /* over 1.25 x 100 */
    assert_int_equal(count_warmup(series, MANY), 1);
    series[0] = 125;
    assert_int_equal(count_warmup(series, MANY), 0);
    series[0] = 500, series[1] = 300, series[2] = 200;
    assert_int_equal(count_warmup(series, MANY), 3);
    series[1] = 100; /* the first fast step ends it */
    assert_int_equal(count_warmup(series, MANY), 1);
    for (int i = 0; i < 15; i++)
        series[i] = 500;
    assert_int_equal(count_warmup(series, MANY), 10); /* at most 10 */
    /* At most a tenth: 2 of 20, and 1 of 5. */
    const int64_t twenty[20] = {500, 500, 500, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(count_warmup(twenty, 20), 0); /* 3 of 20 = p90: usual in this run */
    const int64_t two_of_twenty[20] = {500, 500, 1, 1, 1, 1, 1, 1, 1, 1,
                                       1,   1,   1, 1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(count_warmup(two_of_twenty, 20), 2);
    const int64_t five[5] = {500, 1, 1, 1, 1};
    assert_int_equal(count_warmup(five, 5), 1);
    assert_int_equal(count_warmup(five, 1), 0);
    /* Every fourth step is slow: a slow first one is not warm-up. */
    for (int i = 0; i < MANY; i++)
        series[i] = i % 4 == 0 ? 200 : 100;
    assert_int_equal(count_warmup(series, MANY), 0);
}

static void test_no_steps(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    dl_steps steps = {0};
    dl_steps_init(&steps, &trace);
    assert_int_equal(steps.count, 0);
    assert_int_equal(steps.worker_first[0], 0);
    dl_steps_free(&steps);
    hand_record(&trace, DL_RECORD_BENCH, 3, 0, 10);
    hand_record(&trace, DL_RECORD_COMPUTE, 3, 0, 10);
    dl_steps_init(&steps, &trace);
    assert_int_equal(steps.count, 0);
    assert_int_equal(steps.outside_count, 1);
    assert_int_equal(steps.worker_first[4], 0);
    dl_steps_free(&steps);
}

static void test_part_names(void **state DL_UNUSED)
{
    assert_string_equal(dl_part_name(DL_PART_COMPUTE), "compute");
    assert_string_equal(dl_part_name(DL_PART_COMMUNICATION), "communication");
    assert_string_equal(dl_part_name(DL_PART_SLOWDOWN), "slowdown");
    assert_string_equal(dl_part_name(DL_PART_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),      cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_warmup),     cmocka_unit_test(test_no_steps),
        cmocka_unit_test(test_part_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
