/* Columns of tables in files and in displayed text. */
#include "common/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

typedef struct item {
    const char *name, *why_not;
    double seconds, frac;
    double list[2];
} item;

static const item items[] = {
    {"ring", NULL, 0.0123, 0.25, {1, 2.5}},
    {"tree, two", NULL, 1.5, (double)NAN, {0, 1}},
    {"nvls", "not possible", (double)NAN, (double)NAN, {0, 0}},
};

static dl_datum name_of(const void *row, const dl_column *column DL_UNUSED)
{
    return dl_datum_text(((const item *)row)->name);
}

static dl_datum number_of(const void *row, const dl_column *column)
{
    return dl_datum_number(*(const double *)(const void *)((const char *)row + column->offset));
}

static dl_datum list_of(const void *row, const dl_column *column DL_UNUSED)
{
    return dl_datum_list(((const item *)row)->list, 2);
}

static const char *why_not(const void *row)
{
    return ((const item *)row)->why_not;
}

static const char *star(const void *row)
{
    return isnan(((const item *)row)->frac) ? "*" : "";
}

static const dl_column all[] = {
    {.name = "algorithm", .heading = "algorithm", .form = DL_FORM_TEXT, .get = name_of},
    {.name = "time_s",
     .heading = "time",
     .form = DL_FORM_TIME,
     .offset = offsetof(item, seconds),
     .get = number_of},
    {.heading = "share %",
     .form = DL_FORM_PERCENT,
     .digits = 1,
     .offset = offsetof(item, frac),
     .get = number_of},
    {.name = "parts", .get = list_of},
};

static dl_column_table make_table(const dl_column **columns)
{
    for (size_t c = 0; c < DL_LENGTH(all); c++)
        columns[c] = &all[c];
    return (dl_column_table){.columns = columns,
                             .column_count = DL_LENGTH(all),
                             .rows = items,
                             .row_count = DL_LENGTH(items),
                             .row_bytes = sizeof *items,
                             .failed = why_not,
                             .failed_from = 1,
                             .mark = star};
}

/* The column without a name is not in the file, the one without a heading not in the text. */
static void test_csv(void **state DL_UNUSED)
{
    const dl_column *columns[DL_LENGTH(all)];
    const dl_column_table table = make_table(columns);
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&text, &bytes);
    dl_csv_writer writer = {.out = out};
    dl_columns_csv_names(&writer, table.columns, table.column_count);
    dl_csv_end_row(&writer);
    for (size_t r = 0; r < table.row_count; r++) {
        dl_columns_csv_row(&writer, table.columns, table.column_count,
                           dl_column_table_row(&table, r));
        dl_csv_end_row(&writer);
    }
    fclose(out);
    assert_string_equal(text, "algorithm,time_s,parts\n"
                              "ring,0.0123,1;2.5\n"
                              "\"tree, two\",1.5,0;1\n"
                              "nvls,,0;0\n");
}

/* Texts left-aligned, numbers right-aligned; 9 + 1 + 7 + 1 + 7 columns and a mark; no trailing
 * blanks. A chosen row has a leading mark. */
static void test_text(void **state DL_UNUSED)
{
    const dl_column *columns[DL_LENGTH(all)];
    dl_column_table table = make_table(columns);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&text, &bytes);
    dl_columns_print(out, &table, 80);
    fclose(out);
    assert_string_equal(text, "algorithm    time share %\n"
                              "ring      12.3 ms    25.0\n"
                              "tree, two  1.50 s       - *\n"
                              "nvls      not possible\n");
    free(text);
    assert_int_equal(dl_column_width(&table, &all[0]), 9);
    assert_int_equal(dl_column_width(&table, &all[1]), 7);
    assert_int_equal(dl_columns_extra(&table), 2);
    table.chosen = &items[1];
    assert_int_equal(dl_columns_extra(&table), 4);
    out = dl_text_stream(&text, &bytes);
    dl_columns_print(out, &table, 80);
    fclose(out);
    assert_string_equal(text, "  algorithm    time share %\n"
                              "  ring      12.3 ms    25.0\n"
                              "> tree, two  1.50 s       - *\n"
                              "  nvls      not possible\n");
    free(text);
}

static void test_common_values(void **state DL_UNUSED)
{
    const dl_column *columns[DL_LENGTH(all)];
    dl_column_table table = make_table(columns);
    assert_null(dl_column_common_text(&table, &all[0]));
    assert_true(dl_column_has_values(&table, &all[2]));
    table.row_count = 1;
    DL_AUTOFREE char *common = dl_column_common_text(&table, &all[2]);
    assert_string_equal(common, "25.0");
    table.rows = &items[1];
    assert_false(dl_column_has_values(&table, &all[2]));
    assert_null(dl_column_common_text(&table, &all[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_common_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
