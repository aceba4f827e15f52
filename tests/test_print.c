#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "trace/print.h"

static char *printed(const char *key, const char *value)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dl_print_pair(out, key, value);
    fclose(out);
    return text;
}

static void test_a_short_value_stays_on_its_line(void **state)
{
    (void)state;
    char *text = printed("key", "a value");
    assert_string_equal(text, "key              a value\n");
    free(text);
}

/* 63 columns are left of 80: a value breaks at the last space before, and continues under itself; a
 * word that is longer stands alone. */
static void test_a_long_value_is_broken(void **state)
{
    (void)state;
    char value[3 * 63];
    memset(value, 'a', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    value[40] = value[80] = ' ';
    char *text = printed("k", value);
    const char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    assert_int_equal(second - text, 17 + 40 + 1);
    assert_int_equal(third - second, 17 + 39 + 1);
    assert_int_equal(strspn(second, " "), 17);
    assert_int_equal(strlen(third), 17 + 107 + 1);
    free(text);
}

static void test_times_are_right_aligned(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dl_print_ns(out, 12, 1500);
    fclose(out);
    assert_string_equal(text, "     1.50 us");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_short_value_stays_on_its_line),
        cmocka_unit_test(test_a_long_value_is_broken),
        cmocka_unit_test(test_times_are_right_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
