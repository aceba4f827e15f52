#include "profiler/inject/cupti_session.h"

#include <stdio.h>
#include <time.h>

#include "profiler/inject/capture.h"
#include "tests/check.h"

/* Replace the capture's functions. */
void __wrap_dl_capture_meta(const char *key, const char *value);
void __wrap_dl_capture_log(const char *format, ...) DL_PRINTF(1, 2);
int64_t __wrap_dl_capture_now(void);

static int64_t slept_ns;
static char takeover_meta[32];
static int logged;

void __wrap_dl_capture_meta(const char *key, const char *value)
{
    assert_string_equal(key, "takeover");
    snprintf(takeover_meta, sizeof takeover_meta, "%s", value);
}

void __wrap_dl_capture_log(const char *format DL_UNUSED, ...)
{
    logged++;
}

int64_t __wrap_dl_capture_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec + slept_ns;
}

static int64_t ahead_ns, held_up_ns; /* held_up_ns: delay after CUPTI's reading */
static CUptiResult timestamp_result;

static CUptiResult get_timestamp(uint64_t *timestamp)
{
    *timestamp = (uint64_t)(__wrap_dl_capture_now() + ahead_ns);
    slept_ns += held_up_ns;
    return timestamp_result;
}

static const dl_cupti_api api = {.GetTimestamp = get_timestamp};
static dl_preemption takeover;
static unsigned calls;

static int begin(void **state DL_UNUSED)
{
    takeover = (dl_preemption){0};
    ahead_ns = held_up_ns = 0;
    timestamp_result = CUPTI_SUCCESS;
    strcpy(takeover_meta, "-");
    logged = 0;
    calls = 0;
    return 0;
}

static void check_often(int times, unsigned calls_each, uint64_t records)
{
    for (int i = 0; i < times; i++)
        dl_preemption_check(&takeover, &api, calls += calls_each, records);
}

static void nothing_is_taken(void **state DL_UNUSED)
{
    check_often(100, 3, 6);
    check_often(100, 0, 0); /* idle program */
    ahead_ns = 900000000;
    check_often(1, 0, 0);
    ahead_ns = 0;
    held_up_ns = 5000000000;
    check_often(3, 0, 0); /* busy machine */
    held_up_ns = 0;
    timestamp_result = CUPTI_ERROR_UNKNOWN;
    ahead_ns = -5000000000;
    check_often(1, 0, 0);
    assert_string_equal(takeover_meta, "-");
    assert_int_equal(logged, 0);
}

static void another_clock_is_for_good(void **state DL_UNUSED)
{
    ahead_ns = -5000000000;
    check_often(1, 0, 0);
    assert_true(takeover.clock);
    assert_string_equal(takeover_meta, "clock");
    ahead_ns = 0;
    check_often(100, 1, 0);
    assert_true(takeover.clock);
    assert_string_equal(takeover_meta, "clock");
    assert_int_equal(logged, 1);
}

static void buffers_that_stay_away_are_noticed_and_come_back(void **state DL_UNUSED)
{
    check_often(5, 1, 2);
    check_often(9, 1, 0);
    assert_string_equal(takeover_meta, "-");
    check_often(50, 0, 0); /* no calls and no records: these checks do not count */
    assert_string_equal(takeover_meta, "-");
    check_often(1, 1, 0);
    assert_true(takeover.buffers);
    assert_string_equal(takeover_meta, "buffers");
    assert_int_equal(logged, 1);
    check_often(1, 0, 5);
    assert_false(takeover.buffers);
    assert_string_equal(takeover_meta, "");
    assert_false(takeover.clock);
}

static void a_short_program_is_silent_at_its_end(void **state DL_UNUSED)
{
    check_often(3, 1, 2);
    dl_preemption_end(&takeover, calls, 0);
    assert_string_equal(takeover_meta, "-"); /* all calls have left records */
    dl_preemption_end(&takeover, calls += 1, 1);
    assert_string_equal(takeover_meta, "-");
    dl_preemption_end(&takeover, calls += 1, 0);
    assert_string_equal(takeover_meta, "buffers");
    assert_int_equal(logged, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_taken, begin),
        cmocka_unit_test_setup(another_clock_is_for_good, begin),
        cmocka_unit_test_setup(buffers_that_stay_away_are_noticed_and_come_back, begin),
        cmocka_unit_test_setup(a_short_program_is_silent_at_its_end, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
