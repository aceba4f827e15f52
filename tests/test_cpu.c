#include "tests/check.h"

#include <pthread.h>
#include <sched.h>

#include "common/cpu.h"

static cpu_set_t mask_at_start;

static void count_is_that_of_the_affinity_mask(void **state)
{
    (void)state;
    assert_int_equal(dl_cpu_count(), CPU_COUNT(&mask_at_start));
}

/* What is wrong with the pinning of this thread, or NULL: each index must land on one core of the
 * mask, and indices count() apart on the same. */
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

/* In a thread of its own, whose mask alone is narrowed. */
static void pin_goes_round_the_allowed_cores(void **state)
{
    (void)state;
    pthread_t thread;
    const char *fault = NULL;
    assert_int_equal(pthread_create(&thread, NULL, pin_everywhere, &fault), 0);
    pthread_join(thread, NULL);
    if (fault != NULL) fail_msg("%s", fault);
}

static void name_is_never_empty_and_fits(void **state)
{
    (void)state;
    char text[64], small[4];
    assert_ptr_equal(dl_cpu_name(text, sizeof text), text);
    assert_true(strlen(text) > 0);
    assert_null(strchr(text, '\n'));
    assert_true(strlen(dl_cpu_name(small, sizeof small)) < sizeof small);
}

int main(void)
{
    if (sched_getaffinity(0, sizeof mask_at_start, &mask_at_start) != 0) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(count_is_that_of_the_affinity_mask),
        cmocka_unit_test(pin_goes_round_the_allowed_cores),
        cmocka_unit_test(name_is_never_empty_and_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
