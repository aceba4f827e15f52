#include "profiler/inject/cupti_session.h"

#include <pthread.h>

#include "tests/check.h"

#define BYTES 8192

static int all_zero(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != 0) return 0;
    return 1;
}

static void buffers_are_zero_even_the_second_time(void **state DL_UNUSED)
{
    dl_buffer_pool *pool = dl_buffer_pool_new(BYTES, 1);
    for (int use = 0; use < 3; use++) {
        dl_buffer *buffer = dl_buffer_pool_take(pool);
        assert_non_null(buffer);
        uint8_t *data = dl_buffer_data(buffer);
        assert_int_equal((uintptr_t)data % 64, 0);
        assert_ptr_equal(dl_buffer_of(data), buffer);
        assert_true(all_zero(data, BYTES));
        buffer->used = use == 1 ? BYTES : 100;
        memset(data, 0xab, BYTES); /* also beyond the used part */
        dl_buffer_pool_give(pool, buffer);
    }
    dl_buffer_pool_free(pool);
}

static void limit_refuses_until_one_comes_back(void **state DL_UNUSED)
{
    dl_buffer_pool *pool = dl_buffer_pool_new(BYTES, 2);
    dl_buffer *first = dl_buffer_pool_take(pool), *second = dl_buffer_pool_take(pool);
    assert_non_null(first);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
    assert_null(dl_buffer_pool_take(pool));
    const size_t peak = dl_buffer_pool_peak_bytes(pool);
    assert_in_range(peak, 2 * BYTES, 2 * BYTES + 4096);
    dl_buffer_pool_give(pool, first);
    assert_ptr_equal(dl_buffer_pool_take(pool), first);
    dl_buffer_pool_give(pool, first);
    dl_buffer_pool_give(pool, second);
    assert_int_equal(dl_buffer_pool_peak_bytes(pool), peak);
    dl_buffer_pool_free(pool);
}

static void no_limit_is_none(void **state DL_UNUSED)
{
    enum { COUNT = 300 };
    dl_buffer_pool *pool = dl_buffer_pool_new(BYTES, 0);
    dl_buffer *taken[COUNT];
    for (int i = 0; i < COUNT; i++)
        assert_non_null(taken[i] = dl_buffer_pool_take(pool));
    for (int i = 0; i < COUNT; i++)
        dl_buffer_pool_give(pool, taken[i]);
    dl_buffer_pool_free(pool);
}

/* The size exceeds the address space. */
static void no_memory_is_no_buffer(void **state DL_UNUSED)
{
    dl_buffer_pool *pool = dl_buffer_pool_new(SIZE_MAX / 2, 0);
    assert_null(dl_buffer_pool_take(pool));
    dl_buffer_pool_free(pool);
}

/* Each buffer has one holder at a time, which alone writes to it. */
static void *take_and_give(void *pool)
{
    for (int i = 0; i < 2000; i++) {
        dl_buffer *buffer = dl_buffer_pool_take(pool);
        if (buffer == NULL) continue;
        uint8_t *data = dl_buffer_data(buffer);
        if (!all_zero(data, 256)) return data;
        memset(data, i | 1, 256);
        buffer->used = 256;
        dl_buffer_pool_give(pool, buffer);
    }
    return NULL;
}

static void threads_share_buffers(void **state DL_UNUSED)
{
    enum { THREADS = 4 };
    dl_buffer_pool *pool = dl_buffer_pool_new(BYTES, THREADS - 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, pool), 0);
    for (int i = 0; i < THREADS; i++) {
        void *dirty = pool;
        assert_int_equal(pthread_join(threads[i], &dirty), 0);
        assert_null(dirty);
    }
    dl_buffer_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_zero_even_the_second_time),
        cmocka_unit_test(limit_refuses_until_one_comes_back),
        cmocka_unit_test(no_limit_is_none),
        cmocka_unit_test(no_memory_is_no_buffer),
        cmocka_unit_test(threads_share_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
