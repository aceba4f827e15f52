#include "tests/check.h"

#include <stdio.h>

#include "common/units.h"
#include "trace/print.h"

enum { TEXT_BYTES = 512 };

static void printed(char text[TEXT_BYTES], const char *key, const char *value)
{
    FILE *out = fmemopen(text, TEXT_BYTES, "w");
    assert_non_null(out);
    dl_print_pair(out, key, value);
    fclose(out);
}

static void test_a_short_value_stays_on_its_line(void **state DL_UNUSED)
{
    char text[TEXT_BYTES];
    printed(text, "key", "a value");
    assert_string_equal(text, "key              a value\n");
}

/* Two keys with a common prefix must stay distinct. */
static void test_a_long_key_is_kept(void **state DL_UNUSED)
{
    char text[TEXT_BYTES];
    printed(text, "a_key_of_20_columns_", "a value");
    assert_string_equal(text, "a_key_of_20_columns_ a value\n");
}

/* 63 of 80 columns remain: a value breaks at the last space that fits, and continues aligned; a
 * longer word has a separate line. */
static void test_a_long_value_is_broken(void **state DL_UNUSED)
{
    char value[3 * 63];
    memset(value, 'a', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    value[40] = value[80] = ' ';
    char text[TEXT_BYTES];
    printed(text, "k", value);
    const char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    assert_int_equal(second - text, 17 + 40 + 1);
    assert_int_equal(third - second, 17 + 39 + 1);
    assert_int_equal(strspn(second, " "), 17);
    assert_int_equal(strlen(third), 17 + 107 + 1);
}

static void test_times_are_texts_of_their_block(void **state DL_UNUSED)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%12s%9s", DL_NS_TEXT(1500), DL_NS_TEXT(2));
    assert_string_equal(text, "     1.50 us  2.00 ns");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_short_value_stays_on_its_line),
        cmocka_unit_test(test_a_long_key_is_kept),
        cmocka_unit_test(test_a_long_value_is_broken),
        cmocka_unit_test(test_times_are_texts_of_their_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
