/* Whole runs of dlsim: a scenario and, after a line "---", its cost file. Accepted input is
 * simulated with few steps, and the results must be plausible. */
#include <math.h>
#include <string.h>

#include "sim/report/report.h"
#include "sim/sweep.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/fuzz/fuzz_file.h"

#define MARK "\n---\n"
#define SCENARIO "fuzz_dlsim.ini"

/* Limits on the time for one input. */
enum { STEPS_MAX = 20, POINTS_MAX = 8, WORKERS_MAX = 16 };

#define COSTS                                                                                     \
    "[costs]\nschema = 1\nparameter_bytes = 1000000\nstate_bytes = 1000\nbatch_min = 1\n"         \
    "[op a.forward]\nfixed_ns = 40000\nper_sample_ns = 5000 +- 40, n = 100, fitted\n"             \
    "[op a.backward]\nfixed_ns = 60000\nper_sample_ns = 10000\n[op a.update]\nfixed_ns = 25000\n" \
    "per_sample_ns = 0\n[copy]\nlatency_ns = 300\nbandwidth_bytes_per_s = 7e9\n[average]\n"       \
    "latency_ns = 400\nread_bytes_per_s = 1.2e10\nwrite_bytes_per_s = 9e9\n[update]\n"            \
    "latency_ns = 900\nread_bytes_per_s = 1e10\nwrite_bytes_per_s = 3e9\n[memory]\n"              \
    "total_bytes_per_s = 2e10\n[sync]\nbarrier_ns = 400\nwakeup_ns = 40000\nlock_ns = 250\n"      \
    "slice_ns = 3000000\n[sharing]\ncopies_1 = 1\ncopies_2 = 1.08\ncopies_4 = 1.12\n"

static const char modes[] =
    "[scenario]\nname = x\nsteps = 10\nreplicates = 2\n[machine]\ncores = 2\nworkers = 1, 2\n"
    "[workload]\ncosts = fuzz_dlsim.costs.ini\nbatch = 8\n[sync]\nmode = average, async\n"
    "interval = 5\n[noise]\nkind = gamma\nsigma = 0.1\n" MARK COSTS;
static const char server[] =
    "[scenario]\nsteps = 8\n[machine]\ncores = 4\nworkers = 4\n[workload]\n"
    "costs = fuzz_dlsim.costs.ini\nbatch_per_worker = 4\n[sync]\nmode = softsync, kasync, ssp, "
    "easgd\n"
    "n = 2\nk = 2\nbound = 1\ninterval = 2\n[noise]\nkind = none\nslow = 1:2\n" MARK COSTS;
static const char crlf[] =
    "[scenario]\r\nname =\r\nsteps = 4\r\n[machine]\r\ncores = 1\r\nworkers = 1, "
    "3\r\n[workload]\r\n"
    "costs = fuzz_dlsim.costs.ini\r\nbatch = 6\r\n[sync]\r\nmode = none, ps, allreduce\r\n" MARK
        COSTS;

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {
        {modes, sizeof modes - 1}, {server, sizeof server - 1}, {crlf, sizeof crlf - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

static bool is_short(dl_study *study)
{
    if (study->point_count > POINTS_MAX) return false;
    for (size_t v = 0; v < study->variant_count; v++) {
        dl_scenario *scenario = &study->variants[v].scenario;
        if (scenario->steps > STEPS_MAX || scenario->replicates > 2) return false;
        for (size_t p = 0; p < scenario->point_count; p++) {
            const dl_point *point = &scenario->points[p];
            if (point->workers > WORKERS_MAX || dl_run_steps(scenario, point) > 2 * STEPS_MAX)
                return false;
        }
    }
    return true;
}

static void check_row(const dl_row *row)
{
    if (row->error != NULL) return;
    const dl_run_result *mean = &row->mean;
    DL_ASSERT(mean->throughput_per_s > 0 && isfinite(mean->throughput_per_s), "%g samples/s",
              mean->throughput_per_s);
    DL_ASSERT(isnan(row->staleness_mean) || row->staleness_mean >= 0, "staleness %g",
              row->staleness_mean);
}

static void run(dl_study *study)
{
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 1};
    if (dl_sweep_run(&sweep, study, &config, &err) == DL_OK) {
        for (size_t r = 0; r < sweep.row_count; r++)
            check_row(&sweep.rows[r]);
    } else {
        DL_ASSERT(err.text[0] != '\0', "status %d without a text", (int)err.code);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *mark = bytes > 0 ? memmem(data, bytes, MARK, sizeof MARK - 1) : NULL;
    const size_t scenario_bytes = mark != NULL ? (size_t)(mark - data) + 1 : bytes;
    fuzz_file(SCENARIO, data, scenario_bytes);
    if (mark != NULL) {
        const uint8_t *costs = mark + sizeof MARK - 1;
        fuzz_file("fuzz_dlsim.costs.ini", costs, (size_t)(data + bytes - costs));
    } else {
        fuzz_file("fuzz_dlsim.costs.ini", COSTS, sizeof COSTS - 1);
    }
    dl_study study = {0};
    dl_error err = {0};
    if (dl_study_read(&study, SCENARIO, &err) == DL_OK) {
        if (dl_study_read_costs(&study, &err) == DL_OK && is_short(&study)) run(&study);
        dl_study_free(&study);
    } else {
        DL_ASSERT(err.text[0] != '\0', "status %d without a text", (int)err.code);
    }
    return 0;
}
