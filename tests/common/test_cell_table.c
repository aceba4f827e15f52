#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cell_table.h"
#include "common/csv.h"

/* Makes the same calls for a file and for a table. */
static void write_all(dl_csv_writer *writer)
{
    const double list[] = {1, 2.5};
    dl_csv_comment(writer, "note: %d of them", 2);
    dl_csv_text(writer, "name");
    dl_csv_text(writer, "value");
    dl_csv_text(writer, "by_worker");
    dl_csv_end_row(writer);
    dl_csv_text(writer, "a, \"b\"");
    dl_csv_double(writer, 0.25);
    dl_csv_doubles(writer, list, 2);
    dl_csv_end_row(writer);
    dl_csv_text(writer, "7");
    dl_csv_double(writer, (double)NAN);
    dl_csv_doubles(writer, NULL, 2);
    dl_csv_end_row(writer);
    dl_csv_text(writer, "");
    dl_csv_int(writer, -3);
    dl_csv_doubles(writer, list, 1);
    dl_csv_end_row(writer);
    dl_csv_text(writer, "infinite");
    dl_csv_double(writer, INFINITY);
    dl_csv_doubles(writer, list, 0);
    dl_csv_end_row(writer);
}

static void cells_know_what_they_are(void **state DL_UNUSED)
{
    dl_cell_table table = {0};
    dl_csv_writer writer = {.table = &table};
    write_all(&writer);
    assert_int_equal(table.comment_count, 1);
    assert_string_equal(table.comments[0], "note: 2 of them");
    assert_int_equal(table.columns, 3);
    assert_string_equal(table.names[2], "by_worker");
    assert_int_equal(dl_cell_table_rows(&table), 4);
    const dl_cell *cell = dl_cell_table_cell(&table, 0, 1);
    assert_int_equal(cell->kind, DL_CELL_NUMBER);
    assert_true(cell->number == 0.25);
    assert_int_equal(dl_cell_table_cell(&table, 0, 2)->kind, DL_CELL_LIST);
    assert_string_equal(dl_cell_table_cell(&table, 0, 2)->text, "1;2.5");
    assert_int_equal(dl_cell_table_cell(&table, 1, 0)->kind,
                     DL_CELL_TEXT); /* though it looks like a number */
    assert_true(isnan(dl_cell_table_cell(&table, 1, 0)->number));
    assert_int_equal(dl_cell_table_cell(&table, 1, 1)->kind, DL_CELL_EMPTY);
    assert_int_equal(dl_cell_table_cell(&table, 2, 0)->kind, DL_CELL_EMPTY);
    assert_true(dl_cell_table_cell(&table, 2, 1)->number == -3);
    dl_cell_table_free(&table);
    assert_int_equal(dl_cell_table_rows(&table), 0);
}

static void json_has_the_cells_by_name(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    DL_SCOPED(dl_cell_table) table = {0};
    dl_csv_writer writer = {.table = &table};
    write_all(&writer);
    dl_json to = {.out = open_memstream(&text, &bytes)};
    assert_non_null(to.out);
    dl_json_begin(&to, NULL, '{');
    dl_cell_table_write_json(&to, &table);
    dl_json_end(&to, '}');
    fclose(to.out);
    assert_string_equal(text, "{\"columns\":[\"name\",\"value\",\"by_worker\"],\"rows\":["
                              "\n{\"name\":\"a, \\\"b\\\"\",\"value\":0.25,\"by_worker\":[1,2.5]}"
                              "\n,{\"name\":\"7\",\"value\":null,\"by_worker\":null}"
                              "\n,{\"name\":null,\"value\":-3,\"by_worker\":[1]}"
                              "\n,{\"name\":\"infinite\",\"value\":null,\"by_worker\":null}]}");
}

static void a_file_has_the_same_cells(void **state DL_UNUSED)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_csv_writer writer = {.out = open_memstream(&text, &bytes)};
    assert_non_null(writer.out);
    write_all(&writer);
    fclose(writer.out);
    assert_string_equal(text, "# note: 2 of them\nname,value,by_worker\n"
                              "\"a, \"\"b\"\"\",0.25,1;2.5\n7,,\n,-3,1\ninfinite,inf,\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_know_what_they_are),
        cmocka_unit_test(json_has_the_cells_by_name),
        cmocka_unit_test(a_file_has_the_same_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
