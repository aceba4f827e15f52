#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "common/jobs.h"

enum { COUNT = 1000 };

typedef struct squares {
    int64_t value[COUNT];
    int64_t fails, fails_too; /* failing jobs; -1: none */
    int64_t shown;
} squares;

static dl_status square(void *user, int64_t job, dl_error *err)
{
    squares *s = user;
    if (job == s->fails || job == s->fails_too) {
        return dl_error_set(err, DL_ERR_DATA, "job %lld", (long long)job);
    }
    s->value[job] = job * job;
    return DL_OK;
}

static void show(void *user, int64_t done, int64_t count)
{
    squares *s = user;
    assert_int_equal(count, COUNT);
    assert_true(done > s->shown && done <= count);
    s->shown = done;
}

static void all_jobs_are_done(void **state DL_UNUSED)
{
    for (int threads = 1; threads <= 8; threads += 7) {
        squares s = {.fails = -1, .fails_too = -1, .shown = -1};
        dl_error err = {0};
        const dl_jobs jobs = {.count = COUNT,
                              .threads = threads,
                              .user = &s,
                              .run = square,
                              .progress = show,
                              .progress_user = &s};
        assert_int_equal(dl_jobs_run(&jobs, &err), DL_OK);
        for (int64_t i = 0; i < COUNT; i++)
            assert_int_equal(s.value[i], i * i);
        assert_int_equal(s.shown, COUNT);
    }
}

/* Whichever thread is first: all jobs before the first failure are done, and that failure is
 * reported. */
static void the_first_failure_counts(void **state DL_UNUSED)
{
    for (int round = 0; round < 50; round++) {
        squares s = {.fails = 17, .fails_too = 15};
        dl_error err = {0};
        const dl_jobs jobs = {.count = COUNT, .threads = 4, .user = &s, .run = square};
        assert_int_equal(dl_jobs_run(&jobs, &err), DL_ERR_DATA);
        assert_string_equal(err.text, "job 15");
        for (int64_t i = 0; i < 15; i++)
            assert_int_equal(s.value[i], i * i);
        assert_int_equal(s.value[COUNT - 1], 0);
    }
}

static void no_job_is_fine(void **state DL_UNUSED)
{
    dl_error err = {0};
    const dl_jobs jobs = {.count = 0, .threads = 4, .run = square};
    assert_int_equal(dl_jobs_run(&jobs, &err), DL_OK);
}

static void bytes_come_back(void **state DL_UNUSED)
{
    dl_bytes bytes = {0};
    for (int64_t i = 0; i < 100; i++)
        dl_bytes_add(&bytes, &i, sizeof i);
    dl_bytes_add(&bytes, "abc", 3);
    assert_int_equal(bytes.count, 803);
    dl_bytes_left left = {bytes.data, bytes.count};
    for (int64_t i = 0; i < 100; i++) {
        int64_t number = -1;
        assert_true(dl_bytes_take(&left, &number, sizeof number));
        assert_int_equal(number, i);
    }
    int64_t none = 5;
    assert_false(dl_bytes_take(&left, &none, sizeof none)); /* only 3 are left */
    assert_int_equal(none, 5);
    assert_true(dl_bytes_take(&left, NULL, 3));
    assert_int_equal(left.count, 0);
    free(bytes.data);
    /* The published value of FNV-1a 64 for "a". */
    assert_true(dl_hash_bytes(DL_HASH_START, "a", 1) == 0xaf63dc4c8601ec8cu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_jobs_are_done),
        cmocka_unit_test(the_first_failure_counts),
        cmocka_unit_test(no_job_is_fine),
        cmocka_unit_test(bytes_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
