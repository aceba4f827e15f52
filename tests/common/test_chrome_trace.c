#include "tests/check.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/chrome_trace.h"
#include "common/file.h"

/* A strict scanner of JSON (RFC 8259): each function skips one element, or returns NULL. */
static const char *scan_value(const char *c);

static const char *scan_string(const char *c)
{
    if (*c++ != '"') return NULL;
    while (*c != '"') {
        if ((unsigned char)*c < 0x20) return NULL;
        if (*c == '\\') {
            c++;
            if (*c == 'u') {
                for (int i = 1; i <= 4; i++) {
                    if (!isxdigit((unsigned char)c[i])) return NULL;
                }
                c += 4;
            } else if (*c == '\0' || strchr("\"\\/bfnrt", *c) == NULL) {
                return NULL;
            }
        }
        c++;
    }
    return c + 1;
}

static const char *scan_digits(const char *c)
{
    if (!isdigit((unsigned char)*c)) return NULL;
    while (isdigit((unsigned char)*c))
        c++;
    return c;
}

static const char *scan_number(const char *c)
{
    if (*c == '-') c++;
    if (*c == '0' && isdigit((unsigned char)c[1])) return NULL;
    c = scan_digits(c);
    if (c != NULL && *c == '.') c = scan_digits(c + 1);
    if (c != NULL && (*c == 'e' || *c == 'E'))
        c = scan_digits(c + 1 + (c[1] == '-' || c[1] == '+'));
    return c;
}

static const char *skip_space(const char *c)
{
    return c == NULL ? NULL : c + strspn(c, " \t\r\n");
}

/* Skips members up to `close`, with keys in an object. */
static const char *scan_members(const char *c, char close)
{
    c = skip_space(c);
    if (*c == close) return c + 1;
    for (;;) {
        if (close == '}') {
            c = skip_space(scan_string(skip_space(c)));
            if (c == NULL || *c++ != ':') return NULL;
        }
        c = skip_space(scan_value(c));
        if (c == NULL) return NULL;
        if (*c == close) return c + 1;
        if (*c++ != ',') return NULL;
    }
}

static const char *scan_value(const char *c)
{
    c = skip_space(c);
    if (*c == '{') return scan_members(c + 1, '}');
    if (*c == '[') return scan_members(c + 1, ']');
    if (*c == '"') return scan_string(c);
    static const char *const words[] = {"null", "true", "false"};
    for (int i = 0; i < 3; i++) {
        if (strncmp(c, words[i], strlen(words[i])) == 0) return c + strlen(words[i]);
    }
    return scan_number(c);
}

static char path[] = "chrome_trace_test.json";
static dl_chrome_trace trace;

static int open_trace(void **state DL_UNUSED)
{
    return dl_chrome_trace_open(&trace, path, NULL);
}

/* Closes the trace and returns its text, which must be JSON; the caller frees it. */
static char *close_trace(void)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_chrome_trace_close(&trace, NULL), DL_OK);
    assert_null(trace.file.out);
    assert_int_equal(dl_file_read(path, &text, &bytes, NULL), DL_OK);
    unlink(path);
    const char *end = skip_space(scan_value(text));
    if (end == NULL || *end != '\0') fail_msg("not JSON: %s", text);
    return text;
}

static void scanner_refuses_what_is_no_json(void **state DL_UNUSED)
{
    static const char *const wrong[] = {"{\"a\":}", "[1,]", "{a:1}",  "[1 2]", "\"\\x\"",  "[nan]",
                                        "[01]",     "[1.]", "\"\n\"", "[.5]",  "{\"a\" 1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_null(scan_value(wrong[i]));
    assert_non_null(scan_value("{\"a\": [1, -2.5e-3, \"\\u00e9\", null], \"b\": {}}"));
}

static void empty_trace_is_json(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = close_trace();
    assert_contains(text, "\"traceEvents\":[");
}

static void every_kind_of_event_is_written(void **state DL_UNUSED)
{
    const uint32_t grid[] = {64, UINT32_MAX};
    const dl_chrome_arg args[] = {{.key = "batch", .number = 128},
                                  {.key = "layer", .text = "conv\"1\""},
                                  {.key = "loss", .number = NAN},
                                  {.key = "rate", .number = 0.1}};
    const dl_chrome_arg arrays[] = {{.key = "grid", .numbers = grid, .number_count = 2},
                                    {.key = "none", .numbers = grid}};
    dl_chrome_trace_process(&trace, 1, "dlsim");
    dl_chrome_trace_thread(&trace, 1, 2, "worker 2");
    dl_chrome_trace_slice(&trace, 1, 2, "kernel", "forward", 1500, 2001, args, 4);
    dl_chrome_trace_slice(&trace, 1, 2, "wait", "barrier", 0, 0, NULL, 0);
    dl_chrome_trace_flow(&trace, 1, 2, UINT64_MAX, 1, "push", 1600);
    dl_chrome_trace_flow(&trace, 1, 3, UINT64_MAX, 0, "push", 1700);
    dl_chrome_trace_counter(&trace, 1, "link", 5, 0.25);
    dl_chrome_trace_slice(&trace, 1, 2, "kernel", "gemm", 3, 4, arrays, 2);
    dl_chrome_trace_instant(&trace, 1, 2, "mark", "now", 7, args, 1);
    dl_chrome_trace_instant(&trace, 1, 2, "mark", "then", 8, NULL, 0);
    assert_int_equal(trace.events, 10);
    DL_AUTOFREE char *text = close_trace();
    static const char *const lines[] = {
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"dlsim\"}},\n",
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,"
        "\"args\":{\"name\":\"worker 2\"}},\n",
        "{\"ph\":\"X\",\"name\":\"forward\",\"cat\":\"kernel\",\"pid\":1,\"tid\":2,\"ts\":1.500,"
        "\"dur\":2.001,\"args\":{\"batch\":128,\"layer\":\"conv\\\"1\\\"\",\"loss\":null,"
        "\"rate\":0.1}},\n",
        "{\"ph\":\"X\",\"name\":\"barrier\",\"cat\":\"wait\",\"pid\":1,\"tid\":2,\"ts\":0.000,"
        "\"dur\":0.000},\n",
        "{\"ph\":\"s\",\"name\":\"push\",\"cat\":\"flow\",\"id\":\"0xffffffffffffffff\",\"pid\":1,"
        "\"tid\":2,\"ts\":1.600},\n",
        "{\"ph\":\"f\",\"name\":\"push\",\"cat\":\"flow\",\"id\":\"0xffffffffffffffff\","
        "\"bp\":\"e\",\"pid\":1,\"tid\":3,\"ts\":1.700},\n",
        "{\"ph\":\"C\",\"name\":\"link\",\"pid\":1,\"ts\":0.005,\"args\":{\"value\":0.25}},\n",
        "\"ts\":0.003,\"dur\":0.004,\"args\":{\"grid\":[64,4294967295],\"none\":[]}},\n",
        "{\"ph\":\"i\",\"name\":\"now\",\"cat\":\"mark\",\"pid\":1,\"tid\":2,\"ts\":0.007,\"s\":"
        "\"t\","
        "\"args\":{\"batch\":128}},\n",
        "\"tid\":2,\"ts\":0.008,\"s\":\"t\"}\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_contains(text, lines[i]);
}

/* A double holds at most 2^53 ns (104 days) exactly; the text must be exact beyond. */
static void times_are_exact_over_the_whole_range(void **state DL_UNUSED)
{
    dl_chrome_trace_slice(&trace, 1, 1, "c", "n", INT64_MIN, INT64_MAX, NULL, 0);
    dl_chrome_trace_slice(&trace, 1, 1, "c", "n", -1, 9007199254740993, NULL, 0);
    DL_AUTOFREE char *text = close_trace();
    assert_contains(text, "\"ts\":-9223372036854775.808,\"dur\":9223372036854775.807");
    assert_contains(text, "\"ts\":-0.001,\"dur\":9007199254740.993");
}

/* Valid UTF-8 of 1 to 4 bytes is kept; control characters are escaped; each invalid byte (overlong
 * "/", a surrogate's three bytes, over U+10FFFF, truncated, stray) becomes one U+FFFD. */
static void strings_are_always_valid_utf8(void **state DL_UNUSED)
{
    static const struct {
        const char *name, *written;
    } cases[] = {{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
                 {"a\\b\n\x01", "a\\\\b\\u000a\\u0001"},
                 {"1\xc0\xaf.", "1??."},
                 {"2\xed\xa0\x80.", "2???."},
                 {"3\xf4\x90\x80\x80.", "3????."},
                 {"10\xf5\x80\x80\x80.", "10????."},
                 {"4\xe0\x80\xaf.", "4???."},
                 {"5\xf0\x80\x80\xaf.", "5????."},
                 {"6\xe2\x82", "6??"},
                 {"7\xff.", "7?."},
                 {"8\x80.", "8?."},
                 {"9\xc3", "9?"}};
    enum { CASES = sizeof cases / sizeof cases[0] };
    for (int i = 0; i < CASES; i++)
        dl_chrome_trace_process(&trace, i, cases[i].name);
    DL_AUTOFREE char *text = close_trace();
    for (int i = 0; i < CASES; i++) {
        char expected[100] = "\"args\":{\"name\":\"";
        for (const char *c = cases[i].written; *c != '\0'; c++) {
            if (*c == '?') strcat(expected, "\xef\xbf\xbd");
            if (*c != '?') strncat(expected, c, 1);
        }
        strcat(expected, "\"}");
        assert_contains(text, expected);
    }
}

static void write_errors_are_reported(void **state DL_UNUSED)
{
    dl_error err = {0};
    dl_chrome_trace none;
    assert_int_equal(dl_chrome_trace_open(&none, "no_such_folder/x.json", &err), DL_ERR_IO);
    assert_contains(err.text, "cannot create");
    if (access("/dev/full", W_OK) != 0) skip();
    assert_int_equal(dl_chrome_trace_open(&none, "/dev/full", NULL), DL_OK);
    for (int i = 0; i < 10000; i++)
        dl_chrome_trace_counter(&none, 1, "c", i, 1.0);
    assert_int_equal(dl_chrome_trace_close(&none, &err), DL_ERR_IO);
    assert_string_equal(err.file, "/dev/full");
    assert_null(none.file.out);
    /* so little data that nothing fails before the stream is closed */
    assert_int_equal(dl_chrome_trace_open(&none, "/dev/full", NULL), DL_OK);
    assert_int_equal(dl_chrome_trace_close(&none, &err), DL_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scanner_refuses_what_is_no_json),
        cmocka_unit_test_setup(empty_trace_is_json, open_trace),
        cmocka_unit_test_setup(every_kind_of_event_is_written, open_trace),
        cmocka_unit_test_setup(times_are_exact_over_the_whole_range, open_trace),
        cmocka_unit_test_setup(strings_are_always_valid_utf8, open_trace),
        cmocka_unit_test(write_errors_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
