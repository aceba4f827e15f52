#include "common/units.h"
#include "profiler/inject/capture.h"

#include <errno.h>

#include "tests/check.h"

static int64_t in_ns(struct timespec time)
{
    return time.tv_sec * DL_NS_PER_S + time.tv_nsec;
}

static void a_deadline_is_a_valid_time_ahead(void **state DL_UNUSED)
{
    static const int64_t waits_ns[] = {0, 1, DL_NS_PER_S - 1, DL_NS_PER_S, 90 * DL_NS_PER_S + 7};
    for (size_t i = 0; i < sizeof waits_ns / sizeof *waits_ns; i++) {
        const int64_t before_ns = dl_clock_ns();
        const struct timespec at = dl_deadline(waits_ns[i]);
        const int64_t after_ns = dl_clock_ns();
        assert_true(at.tv_nsec >= 0 && at.tv_nsec < DL_NS_PER_S);
        assert_true(in_ns(at) >= before_ns + waits_ns[i] && in_ns(at) <= after_ns + waits_ns[i]);
    }
}

/* On the wall clock, which is decades ahead, such a deadline would have passed long ago. */
static void a_condition_waits_until_it(void **state DL_UNUSED)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    dl_deadline_cond_init(&condition);
    const struct timespec until = dl_deadline(20000000);
    pthread_mutex_lock(&lock);
    int error = 0;
    while (error == 0)
        error = pthread_cond_timedwait(&condition, &lock, &until);
    pthread_mutex_unlock(&lock);
    assert_int_equal(error, ETIMEDOUT);
    assert_true(dl_clock_ns() >= in_ns(until));
    pthread_cond_destroy(&condition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_is_a_valid_time_ahead),
        cmocka_unit_test(a_condition_waits_until_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
