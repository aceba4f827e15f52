#include "tests/check.h"

#include <stdlib.h>

#include "common/names.h"

static const char *const modes[] = {"allreduce", "average", "async", "ps"};
enum { MODES = 4 };

static void find_is_exact(void **state DL_UNUSED)
{
    assert_int_equal(dl_names_find("async", modes, MODES), 2);
    assert_int_equal(dl_names_find("asyn", modes, MODES), -1);
    assert_int_equal(dl_names_find("Async", modes, MODES), -1);
    assert_int_equal(dl_names_find("async", modes, 0), -1);
}

/* One letter missing, one too many, one wrong, two exchanged (2 edits of 7 letters). */
static void nearest_survives_typing_errors(void **state DL_UNUSED)
{
    assert_int_equal(dl_names_nearest("asyc", modes, MODES), 2);
    assert_int_equal(dl_names_nearest("alllreduce", modes, MODES), 0);
    assert_int_equal(dl_names_nearest("everage", modes, MODES), 1);
    assert_int_equal(dl_names_nearest("avearge", modes, MODES), 1);
    assert_int_equal(dl_names_nearest("async", modes, MODES), 2);
    /* One that continues the text is nearer than one at a distance of two letters. */
    const char *const networks[] = {"lenet", "resnet18"};
    assert_int_equal(dl_names_nearest("resnet", networks, 2), 1);
    assert_int_equal(dl_names_nearest("lenett", networks, 2), 0);
}

/* "xxync" is 2 edits from "async", and 2 <= 5/2; "xxxnc" is 3 edits away. */
static void nearest_refuses_more_than_half_of_the_letters(void **state DL_UNUSED)
{
    assert_int_equal(dl_names_nearest("xxync", modes, MODES), 2);
    assert_int_equal(dl_names_nearest("xxxnc", modes, MODES), -1);
    assert_int_equal(dl_names_nearest("", modes, MODES), -1);
    assert_int_equal(dl_names_nearest("ps", modes, 0), -1);
}

/* "ASYNC" differs only in case; "all" would need 6 edits, but is the prefix of one name; "al" is
 * too short a prefix. */
static void nearest_ignores_case_and_completes(void **state DL_UNUSED)
{
    assert_int_equal(dl_names_nearest("ASYNC", modes, MODES), 2);
    assert_int_equal(dl_names_nearest("All", modes, MODES), 0);
    assert_int_equal(dl_names_nearest("al", modes, MODES), -1);
    assert_int_equal(dl_names_nearest("aver", modes, MODES), 1);
}

static void hint_names_the_nearest_or_all(void **state DL_UNUSED)
{
    char text[100];
    dl_names_hint(text, sizeof text, "asyc", modes, MODES);
    assert_string_equal(text, "; did you mean 'async'?");
    dl_names_hint(text, sizeof text, "gossip", modes, MODES);
    assert_string_equal(text, "; known: allreduce, average, async, ps");
    dl_names_hint(text, sizeof text, "gossip", modes, 0);
    assert_string_equal(text, "");
}

static void hint_is_cut_to_its_room(void **state DL_UNUSED)
{
    char text[16];
    memset(text, 'x', sizeof text);
    dl_names_hint(text, 12, "gossip", modes, MODES);
    assert_string_equal(text, "; known: al");
    assert_int_equal(text[12], 'x');
}

static void check_path(char *path, const char *expected)
{
    assert_string_equal(path, expected);
    free(path);
}

static void paths_are_beside_a_file(void **state DL_UNUSED)
{
    assert_string_equal(dl_base_name("a/b.ini"), "b.ini");
    assert_string_equal(dl_base_name("a/"), "");
    check_path(dl_folder_name("a/b.ini"), "a/");
    check_path(dl_folder_name("/b.ini"), "/");
    check_path(dl_folder_name("b.ini"), ".");
    check_path(dl_path_beside("a/b.ini", "../c.ini"), "a/../c.ini");
    check_path(dl_path_beside("a/b.ini", "/c.ini"), "/c.ini");
    check_path(dl_path_beside("b.ini", "c.ini"), "c.ini");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_beside_a_file),
        cmocka_unit_test(find_is_exact),
        cmocka_unit_test(nearest_survives_typing_errors),
        cmocka_unit_test(nearest_refuses_more_than_half_of_the_letters),
        cmocka_unit_test(nearest_ignores_case_and_completes),
        cmocka_unit_test(hint_names_the_nearest_or_all),
        cmocka_unit_test(hint_is_cut_to_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
