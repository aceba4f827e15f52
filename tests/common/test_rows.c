/* Rows described by the code that writes them: one description for text, JSON and CSV. */
#include "common/rows.h"

#include <math.h>
#include <stdlib.h>

#include "tests/check.h"

/* Writes three rows with all kinds of values; the last has none. */
static void put(dl_rows *rows, size_t most)
{
    const char *volatile none = NULL;
    dl_rows_begin(rows, "rows", "what it is of");
    dl_rows_add(rows,
                "name|link=%-s bytes|size=%gB per_s|=%g |rate=%gB/s time_ns|time=%gns n=%zu "
                "off_frac|off %%=%+.1f%% |x=%.3g |way=%s odd|=%hhd |=%-s",
                "x16", 1500.0, 1e9, 1e9, 12300.0, (size_t)7, -0.125, 0.123456, "there", true, "*");
    dl_rows_add(rows,
                "name|link=%-s bytes|size=%gB per_s|=%g |rate=%gB/s time_ns|time=%gns n=%lld "
                "off_frac|off %%=%+.1f%% |x=%.3g |way=%s odd|=%hhd |=%-s",
                "nvlink, two", 2e6, 0.5, 0.5, 1.0, -3LL, 0.5, 1234.5, "and back", false, "");
    dl_rows_add(rows,
                "name|link=%-s bytes|size=%gB per_s|=%g |rate=%gB/s time_ns|time=%gns n=%u "
                "off_frac|off %%=%+.1f%% |x=%.3g |way=%s odd|=%hhd |=%-s",
                none, (double)NAN, (double)NAN, (double)NAN, (double)NAN, 0U, (double)NAN,
                (double)NAN, none, false, none);
    dl_rows_end(rows, most);
}

static void test_people(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_rows rows = {.out = dl_text_stream(&text, &bytes), .indent = 1};
    put(&rows, 0);
    put(&rows, 1); /* again, with the same object */
    fclose(rows.out);
    assert_string_equal(text,
                        "\nwhat it is of\n"
                        " link           size      rate    time  n off %        x      way\n"
                        " x16         1.50 kB 1.00 GB/s 12.3 us  7 -12.5    0.123    there *\n"
                        " nvlink, two 2.00 MB     0 B/s 1.00 ns -3 +50.0 1.23e+03 and back\n"
                        "                   -         -       -  0     -        -        -\n"
                        "\nwhat it is of\n"
                        " link    size      rate    time n off %     x   way\n"
                        " x16  1.50 kB 1.00 GB/s 12.3 us 7 -12.5 0.123 there *\n"
                        "and 2 more\n");
}

static void test_files(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&text, &bytes);
    dl_json json = {.out = out};
    dl_csv_writer csv = {.out = out};
    dl_json_begin(&json, NULL, '{');
    put(&(dl_rows){.json = &json}, 0);
    dl_json_end(&json, '}');
    fputc('\n', out);
    put(&(dl_rows){.csv = &csv}, 0);
    fclose(out);
    assert_string_equal(
        text, "{\"rows\":[{\"name\":\"x16\",\"bytes\":1500,\"per_s\":1000000000,\"time_ns\":12300,"
              "\"n\":7,\"off_frac\":-0.125,\"odd\":true},"
              "{\"name\":\"nvlink, two\",\"bytes\":2000000,\"per_s\":0.5,\"time_ns\":1,\"n\":-3,"
              "\"off_frac\":0.5,\"odd\":false},"
              "{\"name\":null,\"bytes\":null,\"per_s\":null,\"time_ns\":null,\"n\":0,"
              "\"off_frac\":null,\"odd\":false}]}\n"
              "name,bytes,per_s,time_ns,n,off_frac,odd\n"
              "x16,1500,1000000000,12300,7,-0.125,1\n"
              "\"nvlink, two\",2000000,0.5,1,-3,0.5,0\n"
              ",,,,0,,0\n");
}

/* A table without rows: an empty list, and no text. */
static void test_no_rows(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&text, &bytes);
    dl_json json = {.out = out};
    dl_rows rows = {.out = out}, list = {.json = &json};
    dl_rows_begin(&rows, "rows", "nothing");
    dl_rows_end(&rows, 0);
    dl_rows_begin(&list, NULL, NULL);
    dl_rows_end(&list, 0);
    fclose(out);
    assert_string_equal(text, "[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_people),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
