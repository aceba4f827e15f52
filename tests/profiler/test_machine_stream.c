#include "profiler/machine/machine_box.h"

#include <math.h>
#include <stdatomic.h>

#include "common/cpu.h"
#include "tests/check.h"

/* Called once by each thread. */
static int in_turn(int cpu DL_UNUSED)
{
    static atomic_int turn;
    return atomic_fetch_add(&turn, 1) % 2;
}

static int the_only(int cpu DL_UNUSED)
{
    return 7;
}

static void arrays_are_larger_than_the_caches(void **state DL_UNUSED)
{
    assert_true(dl_stream_default_config(32e6, 64e9).array_bytes >= 4 * 32e6);
    assert_true(dl_stream_default_config(0, 0).array_bytes >= 64e6);
    assert_true(dl_stream_default_config(1e9, 1e9).array_bytes <= 1e9 / 16);
    const dl_stream_config config = dl_stream_default_config(0, 0);
    assert_int_equal(config.threads, dl_cpu_count());
    assert_true(config.socket_of_cpu(0) >= 0);
    assert_int_equal(config.socket_of_cpu(1 << 20), 0); /* this core does not exist */
}

static void one_socket_has_no_link(void **state DL_UNUSED)
{
    const dl_stream_config config = {
        .threads = dl_cpu_count(), .array_bytes = 1e6, .passes = 2, .socket_of_cpu = the_only};
    dl_stream_rates rates = {.link_bytes_per_s = 1};
    dl_error err = {0};
    if (dl_stream_measure(&config, &rates, &err) != DL_OK) fail_msg("%s", err.text);
    assert_true(isfinite(rates.triad_bytes_per_s) && rates.triad_bytes_per_s > 0);
    assert_true(rates.link_bytes_per_s <= 0);
}

/* Cores assigned to two sockets read each other's blocks; the measurement checks the sums. */
static void two_sockets_read_each_other(void **state DL_UNUSED)
{
    if (dl_cpu_count() < 2) skip();
    dl_stream_config config = {.array_bytes = 1e6, .passes = 2, .socket_of_cpu = in_turn};
    for (config.threads = 2; config.threads <= dl_cpu_count() && config.threads < 6;
         config.threads++) {
        dl_stream_rates rates = {0};
        dl_error err = {0};
        if (dl_stream_measure(&config, &rates, &err) != DL_OK) fail_msg("%s", err.text);
        assert_true(isfinite(rates.link_bytes_per_s) && rates.link_bytes_per_s > 0);
    }
}

static void tiny_arrays_are_no_error(void **state DL_UNUSED)
{
    const dl_stream_config config = {
        .threads = 1, .array_bytes = 0, .passes = 1, .socket_of_cpu = the_only};
    dl_stream_rates rates = {0};
    dl_error err = {0};
    assert_int_equal(dl_stream_measure(&config, &rates, &err), DL_OK);
    assert_true(rates.triad_bytes_per_s > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_larger_than_the_caches),
        cmocka_unit_test(one_socket_has_no_link),
        cmocka_unit_test(two_sockets_read_each_other),
        cmocka_unit_test(tiny_arrays_are_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
