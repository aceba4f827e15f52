#include "tests/check.h"

#include "trace/readers/json_events.h"

static dl_json_text text_of(const char *text)
{
    return (dl_json_text){text, strlen(text)};
}

/* An absolute time of 2024 in microseconds has 16 digits before the point; with three more decimals
 * a double (53 bits, 15.9 digits) would round it to a quarter of a microsecond. */
static void microseconds_become_nanoseconds_exactly(void **state DL_UNUSED)
{
    static const struct {
        const char *us;
        int64_t ns;
    } cases[] = {
        {"1712195495505543.207", 1712195495505543207},
        {"0", 0},
        {"41.407", 41407},
        {"-3.5", -3500},
        {"2.0005", 2001},
        {"2.0004", 2000},
        {"1.5e3", 1500000},
        {"1.712195495505543207E15", 1712195495505543207},
        {"\"12.25\"", 12250},
        {"9223372036854775.807", INT64_MAX},
        {"1e-9", 0},
        {"0.12345678901234567890123", 123},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ns = -1;
        assert_true(dl_json_us_to_ns(text_of(cases[i].us), &ns));
        assert_int_equal(ns, cases[i].ns);
    }
}

static void what_is_no_time_is_refused(void **state DL_UNUSED)
{
    static const char *const cases[] = {"",
                                        "-",
                                        ".",
                                        "null",
                                        "\"abc\"",
                                        "1x",
                                        "1e",
                                        "1e+x",
                                        "1e99",
                                        "9223372036854775.808",
                                        "99999999999999999999"};
    int64_t ns = 7;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_false(dl_json_us_to_ns(text_of(cases[i]), &ns));
    assert_false(dl_json_us_to_ns((dl_json_text){0}, &ns));
    assert_int_equal(ns, 7);
}

static void whole_numbers_are_read_from_numbers_and_texts(void **state DL_UNUSED)
{
    int64_t n = 0;
    assert_true(dl_json_int(text_of("57541"), &n));
    assert_int_equal(n, 57541);
    assert_true(dl_json_int(text_of("-1"), &n));
    assert_int_equal(n, -1);
    assert_true(dl_json_int(text_of("\"stream 7\""), &n));
    assert_int_equal(n, 7);
    assert_false(dl_json_int(text_of("1.5"), &n));
    assert_false(dl_json_int(text_of("1e3"), &n));
    assert_false(dl_json_int(text_of("\"Spans\""), &n));
    assert_false(dl_json_int(text_of("99999999999999999999"), &n));
    assert_false(dl_json_int((dl_json_text){0}, &n));
    assert_int_equal(n, 7);
}

static void escapes_are_taken_out(void **state DL_UNUSED)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"\"plain\"", "plain"},
        {"\"a\\n\\\"b\\\"\\\\\\/\"", "a\n\"b\"\\/"},
        {"\"\\u00e9\\u20AC\"", "\xC3\xA9\xE2\x82\xAC"},
        {"\"\\ud83d\\ude00\"", "\xF0\x9F\x98\x80"},
        {"\"\\ud83d!\\u0000\"", "\xEF\xBF\xBD!\xEF\xBF\xBD"},
        {"\"C:\\Users\\me\"", "C:\\Users\\me"}, /* written by a profiler, invalid in JSON */
        {"\"\\u12\"", "\\u12"},
        {"\"\"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char into[64];
        dl_json_text text = text_of(cases[i].json);
        assert_int_equal(dl_json_unescape(text, into), strlen(cases[i].text));
        assert_string_equal(into, cases[i].text);
        assert_true(strlen(into) < text.bytes);
    }
    assert_true(dl_json_is(text_of("\"kernel\""), "kernel"));
    assert_false(dl_json_is(text_of("\"kernels\""), "kernel"));
    assert_false(dl_json_is((dl_json_text){0}, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(microseconds_become_nanoseconds_exactly),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(whole_numbers_are_read_from_numbers_and_texts),
        cmocka_unit_test(escapes_are_taken_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
