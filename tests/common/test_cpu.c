#include "tests/check.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>

#include "common/cpu.h"

static cpu_set_t mask_at_start;

static void count_is_that_of_the_affinity_mask(void **state DL_UNUSED)
{
    assert_int_equal(dl_cpu_count(), CPU_COUNT(&mask_at_start));
}

/* Returns an error of this thread's pinning, or NULL: each index must select one core of the mask,
 * and indices count() apart the same one. */
static const char *find_fault(void)
{
    int count = dl_cpu_count();
    for (int index = -count; index < 2 * count; index++) {
        cpu_set_t once, again;
        if (dl_cpu_pin(index, NULL) != DL_OK) return "refused";
        if (sched_getaffinity(0, sizeof once, &once) != 0) return "no mask";
        if (CPU_COUNT(&once) != 1) return "more than one core";
        if (!CPU_ISSET(sched_getcpu(), &once)) return "running elsewhere";
        if (dl_cpu_pin(index + count, NULL) != DL_OK) return "refused";
        if (sched_getaffinity(0, sizeof again, &again) != 0) return "no mask";
        if (!CPU_EQUAL(&once, &again)) return "not modulo the count";
        CPU_AND(&again, &again, &mask_at_start);
        if (CPU_COUNT(&again) != 1) return "outside the mask";
    }
    return dl_cpu_count() == count ? NULL : "the count changed";
}

static void *pin_everywhere(void *fault)
{
    *(const char **)fault = find_fault();
    return NULL;
}

/* Runs in a separate thread, so that only its mask is narrowed. */
static void pin_goes_round_the_allowed_cores(void **state DL_UNUSED)
{
    pthread_t thread;
    const char *fault = NULL;
    assert_int_equal(pthread_create(&thread, NULL, pin_everywhere, &fault), 0);
    pthread_join(thread, NULL);
    if (fault != NULL) fail_msg("%s", fault);
}

static void name_is_never_empty_and_fits(void **state DL_UNUSED)
{
    char text[64], small[4];
    assert_ptr_equal(dl_cpu_name(text, sizeof text), text);
    assert_true(strlen(text) > 0);
    assert_null(strchr(text, '\n'));
    assert_true(strlen(dl_cpu_name(small, sizeof small)) < sizeof small);
}

/* 1.2e-38 is a normal float, half of it is subnormal. */
static void *halve(void *result)
{
    volatile float small = 1.2e-38F, half = 0.5F;
    *(float *)result = small * half;
    return NULL;
}

/* Runs in a separate thread, and in one that it starts. */
static void *halve_flushed(void *results)
{
    float *halves = results;
    pthread_t thread;
    halve(&halves[0]);
    dl_cpu_flush_subnormals();
    halve(&halves[1]);
    if (pthread_create(&thread, NULL, halve, &halves[2]) == 0) pthread_join(thread, NULL);
    return NULL;
}

static void subnormals_are_flushed_in_threads_started_after(void **state DL_UNUSED)
{
#if defined(__x86_64__) || defined(__aarch64__)
    pthread_t thread;
    float halves[3] = {-1, -1, -1};
    assert_int_equal(pthread_create(&thread, NULL, halve_flushed, halves), 0);
    pthread_join(thread, NULL);
    assert_true(halves[0] > 0);
    assert_true(halves[1] == 0);
    assert_true(halves[2] == 0);
#else
    skip();
#endif
}

/* 10 s of 20 s (two processors) were busy, 3 s of them in this process: others had 7 of 20 s; the
 * host took 1 of 20. Own time above the busy time (ticks are coarse) gives no negative share. */
static void disturbance_is_what_others_used(void **state DL_UNUSED)
{
    const dl_cpu_usage from = {.own_s = 1, .busy_s = 5, .steal_s = 2, .total_s = 100};
    const dl_cpu_usage to = {.own_s = 4, .busy_s = 15, .steal_s = 3, .total_s = 120};
    dl_cpu_disturbance disturbed = dl_cpu_disturbed(&from, &to);
    assert_true(fabs(disturbed.others_frac - 7.0 / 20) < 1e-12);
    assert_true(fabs(disturbed.steal_frac - 1.0 / 20) < 1e-12);
    const dl_cpu_usage coarse = {.own_s = 2, .busy_s = 5, .steal_s = 2, .total_s = 102};
    assert_true(dl_cpu_disturbed(&from, &coarse).others_frac == 0);
    assert_true(isnan(dl_cpu_disturbed(&from, &from).others_frac));
}

/* A spinning tenth of a second is this process's time. */
static void own_time_is_counted(void **state DL_UNUSED)
{
    const dl_cpu_usage from = dl_cpu_usage_now();
    dl_cpu_usage to = from;
    while (to.own_s < from.own_s + 0.1)
        to = dl_cpu_usage_now();
    assert_true(to.total_s > from.total_s);
    assert_true(dl_cpu_disturbed(&from, &to).others_frac < 1);
}

int main(void)
{
    if (sched_getaffinity(0, sizeof mask_at_start, &mask_at_start) != 0) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(count_is_that_of_the_affinity_mask),
        cmocka_unit_test(pin_goes_round_the_allowed_cores),
        cmocka_unit_test(name_is_never_empty_and_fits),
        cmocka_unit_test(disturbance_is_what_others_used),
        cmocka_unit_test(own_time_is_counted),
        cmocka_unit_test(subnormals_are_flushed_in_threads_started_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
