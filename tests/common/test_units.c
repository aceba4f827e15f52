#include <time.h>

#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "common/random.h"
#include "common/units.h"

static void clocks_do_not_go_back(void **state DL_UNUSED)
{
    int64_t wall = dl_clock_ns(), cpu = dl_clock_thread_cpu_ns();
    int64_t wall_later = wall, cpu_later = cpu;
    while (wall_later == wall || cpu_later == cpu) {
        wall_later = dl_clock_ns();
        cpu_later = dl_clock_thread_cpu_ns();
    }
    assert_true(wall_later > wall);
    assert_true(cpu_later > cpu);
}

static void ceil_rounds_up_to_whole_ns(void **state DL_UNUSED)
{
    assert_int_equal(dl_ns_ceil(0.0), 0);
    assert_int_equal(dl_ns_ceil(1e-9), 1);
    assert_int_equal(dl_ns_ceil(2.0), 2);
    assert_int_equal(dl_ns_ceil(2.25), 3);
    assert_int_equal(dl_ns_ceil(0x1p62), DL_NS_MAX);
    assert_int_equal(dl_ns_ceil(1e300), DL_NS_MAX);
}

static void bytes_take_decimal_and_binary_units(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},
                 {"4096", 4096},
                 {"7B", 7},
                 {"3kB", 3000},
                 {"2MB", 2000000},
                 {"5GB", 5000000000},
                 {"3KiB", 3072},
                 {"64MiB", 67108864},
                 {"2GiB", 2147483648},
                 {"18446744073709551615", UINT64_MAX},
                 {"17179869183GiB", 17179869183ull << 30}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 1;
        assert_int_equal(dl_parse_bytes(cases[i].text, &bytes, NULL), DL_OK);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void bytes_refuse_what_they_cannot_hold(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        dl_status status;
        const char *message;
    } cases[] = {{"", DL_ERR_PARSE, "not a number of bytes"},
                 {"-1", DL_ERR_PARSE, "not a number of bytes"},
                 {" 1", DL_ERR_PARSE, "not a number of bytes"},
                 {"MB", DL_ERR_PARSE, "not a number of bytes"},
                 {"1.5MB", DL_ERR_NAME, "unit of bytes '.5MB'"},
                 {"1Mb", DL_ERR_NAME, "did you mean 'MB'?"},
                 {"1MB ", DL_ERR_NAME, "did you mean 'MB'?"},
                 {"18446744073709551616", DL_ERR_RANGE, "2^64 - 1"},
                 {"17179869184GiB", DL_ERR_RANGE, "2^64 - 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dl_error err = {0};
        uint64_t bytes = 77;
        assert_int_equal(dl_parse_bytes(cases[i].text, &bytes, &err), cases[i].status);
        assert_contains(err.text, cases[i].message);
        assert_int_equal(bytes, 77);
    }
}

static void int_is_strict(void **state DL_UNUSED)
{
    int64_t value = 0;
    assert_int_equal(dl_parse_int("-12", -12, 5, &value, NULL), DL_OK);
    assert_int_equal(value, -12);
    assert_int_equal(dl_parse_int("+5", -12, 5, &value, NULL), DL_OK);
    assert_int_equal(value, 5);
    assert_int_equal(dl_parse_int("-9223372036854775808", INT64_MIN, 0, &value, NULL), DL_OK);
    assert_true(value == INT64_MIN);
    assert_int_equal(dl_parse_int("25.6e6", 0, INT64_MAX, &value, NULL), DL_OK);
    assert_int_equal(value, 25600000);
    assert_int_equal(dl_parse_int("1E3", 0, 999, &value, NULL), DL_ERR_RANGE);
    value = 77;
    static const char *const no_ints[] = {"",   " 1",    "1 ", "1.0", "0x10", "15e-1",
                                          "1e", "1e400", "-",  "--1", "1-"};
    for (size_t i = 0; i < sizeof no_ints / sizeof no_ints[0]; i++) {
        dl_error err = {0};
        assert_int_equal(dl_parse_int(no_ints[i], -100, 100, &value, &err), DL_ERR_PARSE);
        assert_contains(err.text, "is not a whole number");
    }
    dl_error err = {0};
    assert_int_equal(dl_parse_int("6", -12, 5, &value, &err), DL_ERR_RANGE);
    assert_string_equal(err.text, "6 is not in -12..5");
    assert_int_equal(dl_parse_int("-13", -12, 5, &value, NULL), DL_ERR_RANGE);
    assert_int_equal(dl_parse_int("9223372036854775808", 0, INT64_MAX, &value, NULL), DL_ERR_RANGE);
    assert_int_equal(value, 77);
}

static void double_is_strict_and_finite(void **state DL_UNUSED)
{
    double value = 0.0;
    assert_int_equal(dl_parse_double("-1.5e-3", -1.0, 1.0, &value, NULL), DL_OK);
    assert_true(value == -1.5e-3);
    assert_int_equal(dl_parse_double("1e300", 0.0, INFINITY, &value, NULL), DL_OK);
    assert_true(value == 1e300);
    value = 77.0;
    static const char *const no_numbers[] = {"", " 1", "1 ", "inf", "nan", "0x1p3", "1e", "1,5"};
    for (size_t i = 0; i < sizeof no_numbers / sizeof no_numbers[0]; i++) {
        dl_error err = {0};
        assert_int_equal(dl_parse_double(no_numbers[i], -INFINITY, INFINITY, &value, &err),
                         DL_ERR_PARSE);
        assert_contains(err.text, "is not a number");
    }
    dl_error err = {0};
    assert_int_equal(dl_parse_double("1.01", 0.0, 1.0, &value, &err), DL_ERR_RANGE);
    assert_string_equal(err.text, "1.01 is not in 0..1");
    assert_int_equal(dl_parse_double("1e999", 0.0, INFINITY, &value, NULL), DL_ERR_RANGE);
    assert_true(value == 77.0);
}

/* Any bit pattern that is a number must read back equal; 0.1 must stay short. */
static void double_text_reads_back(void **state DL_UNUSED)
{
    char text[DL_DOUBLE_TEXT_BYTES];
    assert_string_equal(dl_format_double(text, 0.1), "0.1");
    assert_string_equal(dl_format_double(text, -0.0), "-0");
    assert_string_equal(dl_format_double(text, 0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(dl_format_double(text, -INFINITY), "-inf");
    assert_string_equal(dl_format_double(text, -2.2250738585072014e-308),
                        "-2.2250738585072014e-308");
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = dl_random_u64(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        double back = strtod(dl_format_double(text, value), NULL);
        assert_memory_equal(&back, &value, sizeof value);
    }
}

static void people_get_three_digits(void **state DL_UNUSED)
{
    char text[32];
    assert_string_equal(dl_format_ns(text, sizeof text, 12.0), "12.0 ns");
    assert_string_equal(dl_format_ns(text, sizeof text, 999.4), "999 ns");
    assert_string_equal(dl_format_ns(text, sizeof text, 999.6), "1.00 us");
    assert_string_equal(dl_format_signed_ns(text, sizeof text, 12.0), "+12.0 ns");
    assert_string_equal(dl_format_signed_ns(text, sizeof text, -1500.0), "-1.50 us");
    assert_string_equal(dl_format_signed_ns(text, sizeof text, 0), "+0 ns");
    assert_string_equal(dl_format_ns(text, sizeof text, 9994.0), "9.99 us");
    assert_string_equal(dl_format_ns(text, sizeof text, 9996.0), "10.0 us");
    assert_string_equal(dl_format_ns(text, sizeof text, 99960.0), "100 us");
    assert_string_equal(dl_format_ns(text, sizeof text, 12345.0), "12.3 us");
    assert_string_equal(dl_format_ns(text, sizeof text, 4.56e6), "4.56 ms");
    assert_string_equal(dl_format_ns(text, sizeof text, -4.56e6), "-4.56 ms");
    assert_string_equal(dl_format_ns(text, sizeof text, 1.5e12), "1500 s");
    assert_string_equal(dl_format_bytes(text, sizeof text, 512.0), "512 B");
    assert_string_equal(dl_format_bytes(text, sizeof text, 0.0), "0 B");
    assert_string_equal(dl_format_bytes(text, sizeof text, 1724320.0), "1.72 MB");
    assert_string_equal(dl_format_bytes(text, sizeof text, 99.96e9), "100 GB");
}

/* A thread that sleeps for 0.2 s has used less than a tenth of that; one that computes until the
 * clock has advanced has used some. */
static void a_stopwatch_leaves_sleep_out(void **state DL_UNUSED)
{
    dl_stopwatch watch = dl_stopwatch_start();
    const struct timespec nap = {.tv_nsec = 200000000};
    nanosleep(&nap, NULL);
    assert_true(dl_stopwatch_ns(&watch) < 20000000);
    watch = dl_stopwatch_start();
    while (dl_clock_thread_cpu_ns() - watch.start_cpu_ns < 1000000) {}
    assert_true(dl_stopwatch_ns(&watch) >= 900000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopwatch_leaves_sleep_out),
        cmocka_unit_test(clocks_do_not_go_back),
        cmocka_unit_test(ceil_rounds_up_to_whole_ns),
        cmocka_unit_test(bytes_take_decimal_and_binary_units),
        cmocka_unit_test(bytes_refuse_what_they_cannot_hold),
        cmocka_unit_test(int_is_strict),
        cmocka_unit_test(double_is_strict_and_finite),
        cmocka_unit_test(double_text_reads_back),
        cmocka_unit_test(people_get_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
