#include "tests/refused.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "common/csv.h"

static dl_csv read_ok(const char *text, size_t bytes)
{
    dl_csv csv = {0};
    dl_error err = {0};
    if (dl_csv_read_text(&csv, "t.csv", text, bytes, &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    return csv;
}

static void quoting_comments_and_line_ends(void **state DL_UNUSED)
{
    const char text[] = "\xef\xbb\xbf# made by hand, \"x\n"
                        "\r\n"
                        "a,\"b \"\"c\"\"\",d\r\n"
                        "1,\"two\nlines, one cell\",\n"
                        "\n"
                        "#4, 5 ,\"\"";
    dl_csv csv = read_ok(text, sizeof text - 1);
    assert_int_equal(csv.columns, 3);
    assert_int_equal(csv.rows, 2);
    assert_int_equal(dl_csv_column(&csv, "b \"c\""), 1);
    assert_int_equal(dl_csv_column(&csv, "b"), -1);
    assert_string_equal(dl_csv_cell(&csv, 0, 1), "two\nlines, one cell");
    assert_string_equal(dl_csv_cell(&csv, 0, 2), "");
    assert_string_equal(dl_csv_cell(&csv, 1, 0), "#4");
    assert_string_equal(dl_csv_cell(&csv, 1, 1), " 5 ");
    assert_string_equal(dl_csv_cell(&csv, 1, 2), "");
    assert_int_equal(csv.lines[0], 4);
    assert_int_equal(csv.lines[1], 7);
    dl_csv_free(&csv);
    dl_csv_free(&csv);
}

/* An empty line is a row only in a table of one column: a single empty cell. */
static void empty_lines_of_one_column_are_cells(void **state DL_UNUSED)
{
    dl_csv csv = read_ok("\na\n1\n\n2\n", 8);
    assert_int_equal(csv.rows, 3);
    assert_string_equal(dl_csv_cell(&csv, 1, 0), "");
    dl_csv_free(&csv);
    csv = read_ok("a,b\n", 4);
    assert_int_equal(csv.rows, 0);
    dl_csv_free(&csv);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    dl_csv csv = {0};
    const dl_status status = dl_csv_read_text(&csv, "t.csv", text, strlen(text), err);
    if (status != DL_OK) assert_null(csv.path);
    return status;
}

static void broken_tables_are_refused(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"", DL_ERR_PARSE, 0, "no column names"},
        {"# only a comment\n\n", DL_ERR_PARSE, 0, "no column names"},
        {"a,,b\n", DL_ERR_PARSE, 1, "a column name is empty"},
        {"#\na,b,a\n", DL_ERR_PARSE, 2, "column 'a' comes twice"},
        {"a,b\n1,2\n1\n", DL_ERR_PARSE, 3, "1 cells, but 2 columns have names"},
        {"a,b\n1,\"2\n\"\n1,2,3\n", DL_ERR_PARSE, 4, "3 cells, but 2 columns have names"},
        {"a,b\n\n1,\"2\n\n", DL_ERR_PARSE, 3, "a quote is not closed"},
        {"a,b\n1,2\"3\"\n", DL_ERR_PARSE, 2, "a quote inside an unquoted cell"},
        {"a,b\n1,\"2\"3\n", DL_ERR_PARSE, 2, "text after a closing quote"},
        {"a,b\n1,\"2\"\r3\n", DL_ERR_PARSE, 2, "text after a closing quote"},
    };
    assert_all_refused(cases, "t.csv", read_wrong);
    dl_csv csv = {0};
    dl_error err = {0};
    assert_int_equal(dl_csv_read_text(&csv, "t.csv", "a\n1\0\n", 5, &err), DL_ERR_PARSE);
    assert_contains(err.text, "NUL");
    assert_int_equal(err.line, 2);
    assert_int_equal(dl_csv_read(&csv, "no_such.csv", &err), DL_ERR_IO);
}

static void numbers_are_strict(void **state DL_UNUSED)
{
    const char text[] = "step_s,b\n0.25,\n1e999, 3\n";
    DL_SCOPED(dl_csv) csv = read_ok(text, sizeof text - 1);
    double value = 0.0;
    dl_error err = {0};
    assert_int_equal(dl_csv_number(&csv, 0, 0, &value, NULL), DL_OK);
    assert_true(value == 0.25);
    assert_int_equal(dl_csv_number(&csv, 0, 1, &value, NULL), DL_OK);
    assert_true(isnan(value));
    value = 7.0;
    assert_int_equal(dl_csv_number(&csv, 1, 1, &value, &err), DL_ERR_PARSE);
    assert_string_equal(err.text, "column b: ' 3' is not a number");
    assert_string_equal(err.file, "t.csv");
    assert_int_equal(err.line, 3);
    assert_int_equal(dl_csv_number(&csv, 1, 0, &value, &err), DL_ERR_RANGE);
    assert_true(value == 7.0);
}

/* Written tables read back equal: texts that need quotes, numbers to the last bit. */
static void written_tables_read_back(void **state DL_UNUSED)
{
    static const char *const texts[] = {"plain", "a,b", "say \"hi\"", "two\nlines",
                                        "#no",   "",    "\r"};
    static const double numbers[] = {0.1,      0.1 + 0.2, -DBL_MAX, DBL_MIN / 3.0,
                                     INFINITY, -INFINITY, 1e23};
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_csv_writer writer = {.out = open_memstream(&text, &bytes)};
    dl_csv_comment(&writer, "schema %d\nsecond line", 1);
    dl_csv_text(&writer, "#text");
    dl_csv_text(&writer, "number");
    dl_csv_text(&writer, "none");
    dl_csv_text(&writer, "count");
    dl_csv_end_row(&writer);
    for (int i = 0; i < 7; i++) {
        dl_csv_text(&writer, texts[i]);
        dl_csv_double(&writer, numbers[i]);
        dl_csv_double(&writer, NAN);
        dl_csv_int(&writer, INT64_MIN + i);
        dl_csv_end_row(&writer);
    }
    fclose(writer.out);
    assert_contains(text,
                    "# schema 1\n# second line\n\"#text\",number,none,count\nplain,0.1,,-9223");
    DL_SCOPED(dl_csv) csv = read_ok(text, bytes);
    assert_int_equal(csv.rows, 7);
    for (size_t i = 0; i < 7; i++) {
        double value = 0.0;
        assert_string_equal(dl_csv_cell(&csv, i, 0), texts[i]);
        assert_int_equal(dl_csv_number(&csv, i, 1, &value, NULL), DL_OK);
        assert_memory_equal(&value, &numbers[i], sizeof value);
        assert_string_equal(dl_csv_cell(&csv, i, 2), "");
    }
    assert_string_equal(dl_csv_cell(&csv, 0, 3), "-9223372036854775808");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quoting_comments_and_line_ends),
        cmocka_unit_test(empty_lines_of_one_column_are_cells),
        cmocka_unit_test(broken_tables_are_refused),
        cmocka_unit_test(numbers_are_strict),
        cmocka_unit_test(written_tables_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
