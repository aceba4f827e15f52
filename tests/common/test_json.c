#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json.h"

static void writes_string(const char *text, const char *json)
{
    DL_AUTOFREE char *written = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&written, &bytes);
    dl_json_string(out, text);
    fclose(out);
    assert_string_equal(written, json);
}

static void writes_number(double value, const char *json)
{
    DL_AUTOFREE char *written = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&written, &bytes);
    dl_json_number(out, value);
    fclose(out);
    assert_string_equal(written, json);
}

/* Quote, backslash and control characters are escaped; UTF-8 of 2 to 4 bytes is kept; a stray
 * continuation, an overlong '/', a surrogate and a truncated character become one U+FFFD per
 * byte. */
static void test_strings(void **state DL_UNUSED)
{
    writes_string("", "\"\"");
    writes_string("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    writes_string("\n\t\x01", "\"\\u000a\\u0009\\u0001\"");
    writes_string("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    writes_string("\x80", "\"\xef\xbf\xbd\"");
    writes_string("\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    writes_string("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    writes_string("a\xe2\x82", "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void test_numbers(void **state DL_UNUSED)
{
    writes_number(0, "0");
    writes_number(-12, "-12");
    writes_number(0.1, "0.1");
    writes_number(0.1 + 0.2, "0.30000000000000004"); /* needs 17 digits */
    writes_number(NAN, "null");
    writes_number(-INFINITY, "null");
}

/* Objects in lists in objects: commas only between items, also after a closed list. */
static void test_items(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dl_json to = {out, false};
    dl_json_begin(&to, NULL, '{');
    dl_json_begin(&to, "empty", '[');
    dl_json_end(&to, ']');
    dl_json_begin(&to, "list", '[');
    for (int i = 0; i < 2; i++) {
        dl_json_begin(&to, NULL, '{');
        dl_json_number_item(&to, "n", i + 0.5);
        dl_json_text_item(&to, "quoted \"", "a\nb");
        dl_json_end(&to, '}');
    }
    dl_json_number_item(&to, NULL, 3);
    dl_json_end(&to, ']');
    dl_json_bool_item(&to, "yes", true);
    dl_json_null_item(&to, "none");
    dl_json_end(&to, '}');
    fclose(out);
    assert_string_equal(text, "{\"empty\":[],\"list\":[{\"n\":0.5,\"quoted \\\"\":\"a\\u000ab\"},"
                              "{\"n\":1.5,\"quoted \\\"\":\"a\\u000ab\"},3],"
                              "\"yes\":true,\"none\":null}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_items), cmocka_unit_test(test_strings),
                                       cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
