#include "tests/refused.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/keys.h"

static dl_ini read_ok(const char *text)
{
    dl_ini ini = {0};
    dl_error err = {0};
    if (dl_ini_read_text(&ini, "t.ini", text, strlen(text), &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    return ini;
}

static void assert_refused(const char *text, size_t bytes, int line, const char *message)
{
    dl_ini ini = {0};
    dl_error err = {0};
    assert_int_equal(dl_ini_read_text(&ini, "t.ini", text, bytes, &err), DL_ERR_PARSE);
    assert_string_equal(err.file, "t.ini");
    assert_contains(err.text, message);
    assert_int_equal(err.line, line);
    assert_null(ini.path);
}

static void entries_keep_order_and_lines(void **state DL_UNUSED)
{
    dl_ini ini = read_ok("\xef\xbb\xbf; head\r\n"
                         "top = 0\n"
                         "\n"
                         "[machine]  ; which\n"
                         "# gpus = 9\n"
                         "  gpus=2\t; two\n"
                         "name = a;b # c = d\n"
                         "[op conv1.forward]\n"
                         "none =\n"
                         "[machine]\n"
                         "last = 1");
    static const struct {
        const char *section, *key, *value;
        int line;
    } expected[] = {{"", "top", "0", 2},
                    {"machine", "gpus", "2", 6},
                    {"machine", "name", "a;b # c = d", 7},
                    {"op conv1.forward", "none", "", 9},
                    {"machine", "last", "1", 11}};
    assert_int_equal(ini.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(ini.entries[i].section, expected[i].section);
        assert_string_equal(ini.entries[i].key, expected[i].key);
        assert_string_equal(ini.entries[i].value, expected[i].value);
        assert_int_equal(ini.entries[i].line, expected[i].line);
    }
    assert_int_equal(ini.section_count, 3);
    assert_string_equal(ini.sections[1].name, "op conv1.forward");
    assert_int_equal(ini.sections[2].line, 10);
    dl_ini_free(&ini);
    dl_ini_free(&ini); /* a zeroed object is accepted */
}

static void empty_text_is_an_empty_file(void **state DL_UNUSED)
{
    DL_SCOPED(dl_ini) ini = read_ok("");
    assert_int_equal(ini.count, 0);
}

static void broken_lines_are_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        int line;
        const char *message;
    } cases[] = {
        {"[a]\nx\n", 2, "expected key = value"},
        {"[a]\nx: 1\n", 2, "expected key = value"},
        {"[a]\nx ; = 1\n", 2, "expected key = value"},
        {"[a]\n\n= 1\n", 3, "empty key"},
        {"[a\nx = 1\n", 1, "expected ']'"},
        {"[a ; b]\n", 1, "expected ']' before the comment"},
        {"[]\n", 1, "empty section name"},
        {"[a] x = 1\n", 1, "unexpected text after ']'"},
        {"[a]]\n", 1, "unexpected text after ']'"},
        {"[a]\nx = 1\ny = 1\n\nx = 2\ny = 2\n", 5, "the key is given already in line 2"},
        {"[a]\nx = 1\ny = 1\ny = 2\nx = 2\n", 4, "the key is given already in line 3"},
        {"[a]\nx = 1\n[b]\nx = 1\n[a]\nx = 1\n", 6,
         "[a] x = 1: the key is given already in line 2"},
        {"[a]\nx = 1\ry = 2\n", 2, "control character"},
        {" \xef\xbb\xbf= 1\n", 1, "byte-order mark"},
        {"\xef\xbb\xbf\xef\xbb\xbf[a]\n", 1, "byte-order mark"},
        {"[a]\nx = 1\n y\n", 3, "expected key = value"}, /* no continuation lines */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].text, strlen(cases[i].text), cases[i].line, cases[i].message);
    }
    assert_refused("[a]\nx = \0\n", 10, 2, "control character");
}

/* Lines and names of any length are read whole. */
static void long_lines_are_read_whole(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = dl_format(";%09999d\n[%0999d]\n x = %099999d ; end\ny = 2\n", 7, 7, 7);
    DL_SCOPED(dl_ini) ini = read_ok(text);
    assert_int_equal(ini.count, 2);
    assert_int_equal(strlen(ini.entries[0].section), 999);
    assert_int_equal(strlen(ini.entries[0].value), 99999);
    assert_int_equal(ini.entries[0].line, 3);
    assert_string_equal(ini.entries[1].value, "2");
}

/* A comment inside a line starts only at ';' after a blank. */
static void comments_start_after_a_blank(void **state DL_UNUSED)
{
    DL_SCOPED(dl_ini) ini = read_ok("[a];b\na = ; x\nb =;x\nc = 1;2 ;3 ;4\nd = 1\t;2  \n");
    static const char *const values[] = {"", ";x", "1;2", "1"};
    assert_int_equal(ini.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(ini.entries[i].value, values[i]);
}

static const dl_key rows[] = {
    {.section = "machine", .name = "gpus"},
    {.section = "machine", .name = "name"},
    {.section = "op *", .name = "*"},
    {.section = "op special", .name = "gpus"},
};
static const dl_keys keys = {rows, sizeof rows / sizeof *rows, NULL, NULL};

static void tables_admit_patterns(void **state DL_UNUSED)
{
    dl_ini ini = read_ok("[machine]\ngpus = 1\n[op x y]\nfoo = 1\n[op special]\ngpus = n\n");
    assert_int_equal(dl_keys_check(&keys, &ini, NULL), DL_OK);
    dl_ini_free(&ini);
}

static dl_status check_wrong(const char *text, dl_error *err)
{
    DL_SCOPED(dl_ini) ini = read_ok(text);
    return dl_keys_check(&keys, &ini, err);
}

static void tables_name_what_they_do_not_know(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"[machine]\n[machin]\n", DL_ERR_NAME, 2,
         "unknown section [machin]; did you mean 'machine'?"},
        {"[network]\nx = 1\n", DL_ERR_NAME, 1,
         "unknown section [network]; known: machine, op *, op special"},
        {"[op]\nx = 1\n", DL_ERR_NAME, 1, "unknown section [op]"},
        {"[machine]\ngpu = 1\n", DL_ERR_NAME, 2,
         "unknown key 'gpu' in [machine]; did you mean 'gpus'?"},
        {"[machine]\nzzzz = 1\n", DL_ERR_NAME, 2,
         "unknown key 'zzzz' in [machine]; known: gpus, name"},
        {"gpus = 1\n[machine]\n", DL_ERR_NAME, 1, "key 'gpus' is before the first [section]"},
    };
    assert_all_refused(cases, "t.ini", check_wrong);
}

static void getters_read_and_fall_back(void **state DL_UNUSED)
{
    DL_SCOPED(dl_ini) ini = read_ok("[s]\ni = -4\nt = some text\n");
    int64_t i = 0, i0 = 15;
    const char *t = NULL;
    assert_int_equal(dl_ini_get_int(&ini, "s", "i", -5, 5, NULL, &i, NULL), DL_OK);
    assert_int_equal(i, -4);
    assert_int_equal(dl_ini_get_int(&ini, "r", "i", -5, 5, &i0, &i, NULL), DL_OK);
    assert_int_equal(i, 15);
    assert_int_equal(dl_ini_get_string(&ini, "s", "t", NULL, &t, NULL), DL_OK);
    assert_string_equal(t, "some text");
    assert_int_equal(dl_ini_get_string(&ini, "s", "no", "else", &t, NULL), DL_OK);
    assert_string_equal(t, "else");
}

static void getters_refuse_with_file_line_key_value(void **state DL_UNUSED)
{
    DL_SCOPED(dl_ini) ini = read_ok("[s]\ni = 6\nj = 6x\n");
    dl_error err = {0};
    int64_t i = 7;
    const char *t = "untouched";
    assert_int_equal(dl_ini_get_int(&ini, "s", "i", -5, 5, NULL, &i, &err), DL_ERR_RANGE);
    assert_string_equal(err.text, "[s] i = 6: 6 is not in -5..5");
    assert_string_equal(err.file, "t.ini");
    assert_int_equal(err.line, 2);
    assert_int_equal(dl_ini_get_int(&ini, "s", "j", -5, 5, NULL, &i, &err), DL_ERR_PARSE);
    assert_int_equal(err.line, 3);
    assert_int_equal(dl_ini_get_int(&ini, "s", "x", 0, 9, NULL, &i, &err), DL_ERR_DATA);
    assert_string_equal(err.text, "[s] x is missing");
    assert_int_equal(dl_ini_get_string(&ini, "s", "x", NULL, &t, &err), DL_ERR_DATA);
    assert_int_equal(i, 7);
    assert_string_equal(t, "untouched");
}

static void lists_are_split_and_trimmed(void **state DL_UNUSED)
{
    DL_SCOPED(dl_ini) ini = read_ok("[s]\na = 1, 2 ,\tx y\nb = one\nc = 1,,2\nd = 1,\ne =\n");
    char **items = NULL;
    size_t count = 0;
    assert_int_equal(dl_ini_split(&ini, &ini.entries[0], &items, &count, NULL), DL_OK);
    assert_int_equal(count, 3);
    assert_string_equal(items[0], "1");
    assert_string_equal(items[1], "2");
    assert_string_equal(items[2], "x y");
    dl_ini_free_list(items, count);
    assert_int_equal(dl_ini_split(&ini, &ini.entries[1], &items, &count, NULL), DL_OK);
    assert_int_equal(count, 1);
    assert_string_equal(items[0], "one");
    dl_ini_free_list(items, count);
    static const char *const messages[] = {"item 2 of the list is empty",
                                           "item 2 of the list is empty",
                                           "item 1 of the list is empty"};
    for (size_t i = 0; i < 3; i++) {
        dl_error err = {0};
        assert_int_equal(dl_ini_split(&ini, &ini.entries[2 + i], &items, &count, &err),
                         DL_ERR_PARSE);
        assert_contains(err.text, messages[i]);
    }
}

static dl_status take_digit(void *user, char *item, dl_error *err)
{
    int *sum = user;
    if (item[1] != '\0') return dl_error_set(err, DL_ERR_RANGE, "'%s' is no digit", item);
    *sum = 10 * *sum + item[0] - '0';
    return DL_OK;
}

static void items_are_taken_until_one_fails(void **state DL_UNUSED)
{
    static const char text[] = "[s]\ngood = 1, 2,3\nbad = 4, 56, 7\n";
    DL_SCOPED(dl_ini) ini = {0};
    dl_error err = {0};
    int digits = 0;
    assert_int_equal(dl_ini_read_text(&ini, "at/x.ini", text, strlen(text), &err), DL_OK);
    assert_int_equal(dl_ini_each(&ini, &ini.entries[0], take_digit, &digits, &err), DL_OK);
    assert_int_equal(digits, 123);
    assert_int_equal(dl_ini_each(&ini, &ini.entries[1], take_digit, &digits, &err), DL_ERR_RANGE);
    assert_int_equal(digits, 1234);
    assert_string_equal(err.text, "[s] bad = 4, 56, 7: '56' is no digit");
}

static void paths_are_beside_the_file(void **state DL_UNUSED)
{
    static const char *const cases[][3] = {
        {"at/x.ini", "y", "at/y"}, {"at/x.ini", "/y", "/y"}, {"x.ini", "a/y", "a/y"}};
    for (size_t i = 0; i < 3; i++) {
        DL_AUTOFREE char *path = dl_ini_beside(&(dl_ini){.path = (char *)cases[i][0]}, cases[i][1]);
        assert_string_equal(path, cases[i][2]);
    }
}

static void files_are_read_and_missing_ones_named(void **state DL_UNUSED)
{
    char path[] = "ini_XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, "[a]\nx = 1\n", 10), 10);
    close(file);
    dl_ini ini = {0};
    assert_int_equal(dl_ini_read(&ini, path, NULL), DL_OK);
    unlink(path);
    assert_string_equal(ini.path, path);
    assert_non_null(dl_ini_find(&ini, "a", "x"));
    assert_null(dl_ini_find(&ini, "a", "y"));
    dl_ini_free(&ini);
    dl_error err = {0};
    assert_int_equal(dl_ini_read(&ini, "no_such.ini", &err), DL_ERR_IO);
    assert_string_equal(err.file, "no_such.ini");
}

static void assert_set(const char *text, const char *section, const char *key, const char *expected)
{
    DL_AUTOFREE char *changed = dl_strdup(text);
    dl_ini_text_set(&changed, section, key, "9");
    assert_string_equal(changed, expected);
}

static void keys_are_set_in_place(void **state DL_UNUSED)
{
    const char *text = "; head\n[a]\nx = 1 ; one\n; x = 2\n\n[b]\r\nx=3\r\n";
    assert_set(text, "a", "x", "; head\n[a]\nx = 9\n; x = 2\n\n[b]\r\nx=3\r\n");
    assert_set(text, "b", "x", "; head\n[a]\nx = 1 ; one\n; x = 2\n\n[b]\r\nx = 9\r\n");
    assert_set(text, "a", "y", "; head\n[a]\nx = 1 ; one\n; x = 2\ny = 9\n\n[b]\r\nx=3\r\n");
    assert_set("[a]", "a", "x", "[a]\nx = 9\n");
    assert_set("[a]\nx = 1", "a", "y", "[a]\nx = 1\ny = 9\n");
    assert_set("[a]\nx = 1\n", "c", "x", "[a]\nx = 1\n\n[c]\nx = 9\n");
    assert_set("", "a", "x", "\n[a]\nx = 9\n");
}

static void keys_are_removed_from_a_text(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = dl_strdup("[a]\n; x = 0\n  x = 1 ; one\ny = 2\n[b]\nx = 3");
    dl_ini_text_remove(&text, "a", "z");
    dl_ini_text_remove(&text, "a", "x");
    assert_string_equal(text, "[a]\n; x = 0\ny = 2\n[b]\nx = 3");
    dl_ini_text_remove(&text, "b", "x");
    assert_string_equal(text, "[a]\n; x = 0\ny = 2\n[b]\n");
}

static void values_are_found_in_a_text(void **state DL_UNUSED)
{
    const char *text = "x = 0\n[ a ] ; it\n\t x =  a;b # c ; d\ny =\n";
    char *value = dl_ini_text_value(text, "a", "x");
    assert_string_equal(value, "a;b # c");
    free(value);
    value = dl_ini_text_value(text, "a", "y");
    assert_string_equal(value, "");
    free(value);
    assert_ptr_equal(dl_ini_text_line(text, "a", "x"), strstr(text, "x =  a"));
    assert_null(dl_ini_text_value(text, "a", "z"));
    assert_null(dl_ini_text_line(text, "b", "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_keep_order_and_lines),
        cmocka_unit_test(empty_text_is_an_empty_file),
        cmocka_unit_test(broken_lines_are_refused),
        cmocka_unit_test(long_lines_are_read_whole),
        cmocka_unit_test(comments_start_after_a_blank),
        cmocka_unit_test(tables_admit_patterns),
        cmocka_unit_test(tables_name_what_they_do_not_know),
        cmocka_unit_test(getters_read_and_fall_back),
        cmocka_unit_test(getters_refuse_with_file_line_key_value),
        cmocka_unit_test(lists_are_split_and_trimmed),
        cmocka_unit_test(items_are_taken_until_one_fails),
        cmocka_unit_test(paths_are_beside_the_file),
        cmocka_unit_test(files_are_read_and_missing_ones_named),
        cmocka_unit_test(keys_are_set_in_place),
        cmocka_unit_test(keys_are_removed_from_a_text),
        cmocka_unit_test(values_are_found_in_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
