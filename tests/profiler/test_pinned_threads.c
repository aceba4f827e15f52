/* Threads pinned to cores that run one function together. */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/check.h"

#include "common/cpu.h"
#include "kernels/pinned_threads.h"

/* The linker redirects the library's pinning here (--wrap), so that tests can refuse it. */
dl_status __real_dl_cpu_pin(int index, dl_error *err);
dl_status __wrap_dl_cpu_pin(int index, dl_error *err);
static int refused_core = -1;
static atomic_int pinned;

dl_status __wrap_dl_cpu_pin(int index, dl_error *err)
{
    pinned++;
    if (index == refused_core) return dl_error_set(err, DL_ERR_SYSTEM, "core %d refused", index);
    return __real_dl_cpu_pin(index, err);
}

#define THREADS 5

static atomic_int calls[THREADS];
static atomic_int cores_of[THREADS];

static void note_call(void *user, int index)
{
    assert_ptr_equal(user, calls);
    cores_of[index] = sched_getcpu();
    calls[index]++;
}

/* All threads run once; those of equal core numbers run on the same core. */
static void all_run_where_they_belong(void **state DL_UNUSED)
{
    const int cores[THREADS] = {0, 1 % dl_cpu_count(), 0, 0, 1 % dl_cpu_count()};
    for (int i = 0; i < THREADS; i++)
        calls[i] = 0;
    dl_error err = {0};
    assert_int_equal(dl_pinned_threads_run(THREADS, cores, note_call, calls, &err), DL_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(calls[i], 1);
    assert_int_equal(cores_of[0], cores_of[2]);
    assert_int_equal(cores_of[0], cores_of[3]);
    assert_int_equal(cores_of[1], cores_of[4]);
    if (dl_cpu_count() > 1) assert_int_not_equal(cores_of[0], cores_of[1]);
}

static void none_runs_if_one_cannot_be_pinned(void **state DL_UNUSED)
{
    const int cores[THREADS] = {0, 0, 7, 0, 0};
    for (int i = 0; i < THREADS; i++)
        calls[i] = 0;
    refused_core = 7;
    dl_error err = {0};
    assert_int_equal(dl_pinned_threads_run(THREADS, cores, note_call, calls, &err), DL_ERR_SYSTEM);
    refused_core = -1;
    assert_string_equal(err.text, "thread 2: core 7 refused");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(calls[i], 0);
}

static void without_cores_none_is_pinned(void **state DL_UNUSED)
{
    for (int i = 0; i < THREADS; i++)
        calls[i] = 0;
    pinned = 0;
    dl_error err = {0};
    assert_int_equal(dl_pinned_threads_run(THREADS, NULL, note_call, calls, &err), DL_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(calls[i], 1);
    assert_int_equal(pinned, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_run_where_they_belong),
                                       cmocka_unit_test(none_runs_if_one_cannot_be_pinned),
                                       cmocka_unit_test(without_cores_none_is_pinned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
