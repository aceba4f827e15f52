#include "common/wrap.h"

#include <stdlib.h>

#include "tests/check.h"

static void check(const char *text, int column, int indent, int columns, const char *expected)
{
    DL_AUTOFREE char *written = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&written, &bytes);
    assert_non_null(out);
    dl_wrap(out, text, column, indent, columns);
    fclose(out);
    assert_string_equal(written, expected);
}

/* "aa bb cc" in 5 columns: two words and a blank take 5, a third does not fit. */
static void lines_are_broken_at_blanks(void **state DL_UNUSED)
{
    check("aa bb cc", 0, 0, 5, "aa bb\ncc\n");
    check("aa bb cc", 0, 0, 4, "aa\nbb\ncc\n");
    check("aa  bb ", 0, 0, 8, "aa bb\n");
    check("", 0, 2, 8, "\n");
}

/* "note:" uses 5 of 8 columns; the following lines start with two blanks. */
static void what_is_there_already_counts(void **state DL_UNUSED)
{
    check("aa bb cc dd", 5, 2, 8, "aa\n  bb cc\n  dd\n");
    check("one_that_is_longer aa", 0, 2, 8, "one_that_is_longer\n  aa\n");
}

static void newlines_of_the_text_are_kept(void **state DL_UNUSED)
{
    check("aa\nbb cc", 0, 1, 80, "aa\n bb cc\n");
    check("aa\n\nbb", 0, 0, 80, "aa\n\nbb\n");
}

static void other_streams_than_terminals_have_80_columns(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes), *file = tmpfile();
    unsetenv("COLUMNS");
    assert_int_equal(dl_wrap_columns(memory), 80);
    assert_int_equal(dl_wrap_columns(file), 80);
    setenv("COLUMNS", "200", 1);
    assert_int_equal(dl_wrap_columns(memory), 80);
    assert_int_equal(dl_wrap_columns(file), 200);
    setenv("COLUMNS", "7", 1);
    assert_int_equal(dl_wrap_columns(file), 40);
    setenv("COLUMNS", "wide", 1);
    assert_int_equal(dl_wrap_columns(file), 80);
    unsetenv("COLUMNS");
    fclose(memory);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_broken_at_blanks),
        cmocka_unit_test(what_is_there_already_counts),
        cmocka_unit_test(newlines_of_the_text_are_kept),
        cmocka_unit_test(other_streams_than_terminals_have_80_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
