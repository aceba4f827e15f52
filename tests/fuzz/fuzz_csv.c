#include "common/csv.h"
#include "tests/fuzz/fuzz_driver.h"

#include <stdlib.h>
#include <string.h>

static const char results[] = "# schema 1\n"
                              "workers,sync,throughput_per_s,note\n"
                              "1,average,1234.5,\n"
                              "2,\"a, \"\"b\"\"\",2.3e3,\"two\nlines\"\n";
static const char measured[] = "\xef\xbb\xbf"
                               "step_s\r\n0.25\r\n\r\ninf\r\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{results, sizeof results - 1},
                                       {measured, sizeof measured - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

/* Writes the table to a new text; free() it. */
static char *write_table(const dl_csv *csv, size_t *bytes)
{
    char *text = NULL;
    dl_csv_writer writer = {.out = open_memstream(&text, bytes)};
    for (size_t column = 0; column < csv->columns; column++) {
        dl_csv_text(&writer, csv->names[column]);
    }
    dl_csv_end_row(&writer);
    for (size_t row = 0; row < csv->rows; row++) {
        for (size_t column = 0; column < csv->columns; column++) {
            dl_csv_text(&writer, dl_csv_cell(csv, row, column));
        }
        dl_csv_end_row(&writer);
    }
    fclose(writer.out);
    return text;
}

/* A table that was read, written and read again must have the same cells. */
static void check_round_trip(const dl_csv *csv)
{
    size_t bytes = 0;
    DL_AUTOFREE char *text = write_table(csv, &bytes);
    DL_SCOPED(dl_csv) again = {0};
    dl_error err = {0};
    dl_status status = dl_csv_read_text(&again, "again", text, bytes, &err);
    DL_ASSERT(status == DL_OK, "line %d: %s", err.line, err.text);
    DL_ASSERT(again.rows == csv->rows && again.columns == csv->columns, "%zu x %zu of %zu x %zu",
              again.rows, again.columns, csv->rows, csv->columns);
    for (size_t i = 0; i < csv->rows * csv->columns; i++) {
        DL_ASSERT(strcmp(again.cells[i], csv->cells[i]) == 0, "cell %zu", i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_error err = {0};
    dl_csv csv = {0};
    if (dl_csv_read_text(&csv, "fuzz", (const char *)data, bytes, &err) != DL_OK) {
        DL_ASSERT(err.code == DL_ERR_PARSE, "code %d: %s", (int)err.code, err.text);
        return 0;
    }
    for (size_t row = 0; row < csv.rows; row++) {
        double number;
        dl_status status = dl_csv_number(&csv, row, csv.columns - 1, &number, &err);
        DL_ASSERT(status == DL_OK || err.line == csv.lines[row], "line %d", err.line);
    }
    check_round_trip(&csv);
    dl_csv_free(&csv);
    return 0;
}
