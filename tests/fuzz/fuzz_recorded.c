/* Recorded steps: any text gives a step that ends, or an error of an expected kind. */
#include "sim/step/recorded.h"
#include "tests/fuzz/fuzz_driver.h"

static const char plain[] =
    "# a step\nstep_1,lane,work_ns,spacing_ns,issue_ns,from,to,lag_ns,value\n"
    "batch,,,,,,,,32\nupdate,,,,,,,,30\nlane,,,,,,,,0\nlane,,,,,,,,1\n"
    "task,0,15,0,0,,,,\ntask,1,40,2,0,,,,\ntask,1,20,1,100,,,,\nedge,,,,,0,1,10,1\n"
    "edge,,,,,1,2,0,0\nready,,,,,1,,,300\nready,,,,,2,,,100\nend,,,,,,,,11\n";
static const char circle[] = "step_1,value,lane,work_ns,spacing_ns,issue_ns,from,to,lag_ns\n"
                             "lane,1\nbatch,9\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{plain, sizeof plain - 1}, {circle, sizeof circle - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_error err = {0};
    dl_recorded r = {0};
    if (dl_recorded_read_text(&r, "fuzz", (const char *)data, bytes, &err) != DL_OK) {
        DL_ASSERT(err.code == DL_ERR_PARSE || err.code == DL_ERR_RANGE || err.code == DL_ERR_NAME ||
                      err.code == DL_ERR_DATA,
                  "code %d: %s", (int)err.code, err.text);
        DL_ASSERT(r.program.tasks == NULL && r.ready == NULL, "something is left of %s", err.text);
        return 0;
    }
    DL_ASSERT(r.batch >= 1 && r.busy_ns >= 0 && r.busy_ns <= r.done_ns, "%g of %g", r.busy_ns,
              r.done_ns);
    const uint32_t at = dl_recorded_ready_at(&r, 1);
    DL_ASSERT((at == DL_TASK_NONE) == (r.ready_count == 0), "%u", at);
    dl_recorded_free(&r);
    return 0;
}
