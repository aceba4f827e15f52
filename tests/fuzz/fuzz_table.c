/* Rows of a measured table (dlcal table), with their scenario. */
#include <math.h>
#include <string.h>

#include "calibrate/table/table.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/fuzz/fuzz_file.h"

static const char scenario_text[] =
    "[scenario]\nsteps = 5\n[machine]\ncores = 4\nworkers = 1, 4\n[workload]\ncosts = c.ini\n"
    "batch = 16, 64\n[sync]\nmode = none, average\ninterval = 1, 5\n";
static const char plain[] =
    "workers,batch,sync,interval,throughput_per_s,source\n"
    "4,16,average,5,41000,\"a README\"\n3,64,none,1,error,\"a \"\"b\"\"\"\n";
static const char crlf[] = "# from a paper\r\nworkers,batch,sync,interval,step_s,source\r\n"
                           "4,16,average,5,0.25,\r\n1,64,none,,0.5,x\r\n";
static const char empty[] = "workers,batch,sync,interval,step_s,throughput_per_s,source\n"
                            "4,16,average,5,,,\n,,,,0.5,,\n\n1,64,none,1,,7,\n";
/* As published; the second is of a German spreadsheet. */
static const char markdown[] =
    "Ours:\n\n| GPUs | samples / sec/GPU | Speedup |\n|--:|:-:|---|\n"
    "| 1 | **41,000** | 1x |\n| 4 | 40 500.5 | `3.9` |\n\nMore | text |\n";
static const char spreadsheet[] = "\xEF\xBB\xBFNumber of GPUs;Global batch size;Step time (ms)\r\n"
                                  "1;16;0,39\r\n4;64;\"1.250,5\"\r\n";
static const char tabs[] = "#Workers\tit/s\tBatch per GPU\n4\t2'560.5\t16\n1\t0,5\t16\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{plain, sizeof plain - 1},
                                       {crlf, sizeof crlf - 1},
                                       {empty, sizeof empty - 1},
                                       {markdown, sizeof markdown - 1},
                                       {spreadsheet, sizeof spreadsheet - 1},
                                       {tabs, sizeof tabs - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

/* Every row that is used has a point of the scenario and a positive throughput. */
static void check(const dl_table_rows *rows, const dl_scenario *scenario)
{
    size_t used = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const dl_table_row *row = &rows->rows[i];
        DL_ASSERT(row->line > 1, "line %d", row->line);
        if (row->failed) continue;
        used++;
        DL_ASSERT(row->at < scenario->point_count, "point %zu of %zu", row->at,
                  scenario->point_count);
        DL_ASSERT(row->throughput_per_s > 0 && isfinite(row->throughput_per_s), "%g",
                  row->throughput_per_s);
        DL_ASSERT(row->batch >= row->point.workers, "batch %lld of %d workers",
                  (long long)row->batch, row->point.workers);
    }
    DL_ASSERT(used > 0 && used == rows->used, "%zu of %zu used", used, rows->used);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char path[] = "fuzz_table.csv", scenario_path[] = "fuzz_table.ini";
    DL_SCOPED(dl_scenario) scenario = {0};
    DL_SCOPED(dl_table_rows) rows = {0};
    dl_error err = {0};
    fuzz_file(scenario_path, scenario_text, sizeof scenario_text - 1);
    fuzz_file(path, data, bytes);
    const dl_status status = dl_table_scenario_read(&scenario, NULL, scenario_path, NULL, &err);
    DL_ASSERT(status == DL_OK, "%s", err.text);
    if (dl_table_rows_read(&rows, path, NULL, &scenario, &err) == DL_OK) {
        check(&rows, &scenario);
    } else {
        DL_ASSERT(err.text[0] != '\0' && scenario.point_count > 0, "status %d", (int)err.code);
    }
    return 0;
}
