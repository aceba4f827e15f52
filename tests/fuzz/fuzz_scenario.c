#include <stdlib.h>

#include "common/status.h"
#include "sim/run.h"
#include "tests/fuzz/fuzz_driver.h"

static const char whole[] =
    "[scenario]\nname = x\nsteps = 20\nseed = 3\nreplicates = 2\n[machine]\ncores = 2, workers, "
    "measured\n"
    "workers = 2, 4\n[workload]\ncosts = c.ini\nbatch = 8, 16\n"
    "[sync]\nmode = none, ps, average, async, softsync, kbatchsync\ninterval = 1, 5\n"
    "n = 1, 2\nbound = 3\nk = 7\naccumulate = 1, 2\nlag = 0, 1\naverage_state = yes\n"
    "server_threads = 2\nwhere = cpu\n[noise]\nkind = gamma\nsigma = 0.1\nslow = 1:2, 3:1.5\n"
    "[measured]\nfile = m.csv\n";
static const char small[] = "[machine]\ncores = 1\nworkers = 1\n[workload]\ncosts = c\n"
                            "batch_per_worker = 4\n[noise]\nkind = trace\n";

static const char gpus[] =
    "[machine]\nfile = " DL_MACHINES "/t4_4x4_ethernet.ini\nworkers = 1, 4\ngpus = 0, 2, 5, 9\n"
    "dispatch = single\nahead = 2\npageable = yes\n"
    "[exchange]\nshards = 2\nalgorithm = ring\nfidelity = chunk\nbucket_bytes = 1000\n"
    "overlap = yes\ncompress = topk\ntopk_frac = 0.1\n[input]\ncores = 2\nprefetch = 3\n"
    "[workload]\ncosts = c\nbatch_per_worker = 4\nsamples_per_epoch = 100\n"
    "[sync]\nmode = average, bmuf\nwhere = allreduce\ninterval = 2\n";
static const char crlf[] =
    "[machine]\r\ncores = 1\r\nworkers = 1, \r\n[workload]\r\ncosts = c\r\nbatch =\r\n[sync]\r\n"
    "mode = , ps\r\n[noise]\r\nslow = 1:\r\n[measured]\r\nfile = \r\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{whole, sizeof whole - 1},
                                       {small, sizeof small - 1},
                                       {gpus, sizeof gpus - 1},
                                       {crlf, sizeof crlf - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

/* Every point of an accepted scenario can be run. */
static void check_point(const dl_scenario *scenario, const dl_point *point)
{
    DL_ASSERT(
        point->workers >= 1 && point->workers <= DL_WORKERS_MAX &&
            (point->cores >= 1 || point->cores == DL_CORES_MEASURED ||
             (scenario->gpu != NULL && point->cores == DL_CORES_GPU &&
              (point->gpu_count > 0 || point->workers <= dl_gpu_options_count(scenario->gpu)))),
        "%d workers, %d cores", point->workers, point->cores);
    DL_ASSERT(point->batch >= 1 && point->batch % point->workers == 0, "batch %lld of %d workers",
              (long long)point->batch, point->workers);
    int64_t interval = (int64_t)point->option[DL_SYNC_INTERVAL];
    DL_ASSERT(interval >= 1 && dl_run_steps(scenario, point) % interval == 0, "interval %lld",
              (long long)interval);
    DL_AUTOFREE double *slow = dl_calloc((size_t)point->workers, sizeof *slow, "slow workers");
    dl_scenario_slow(scenario, point->workers, slow);
    for (int w = 0; w < point->workers; w++)
        DL_ASSERT(slow[w] > 0, "factor %g", slow[w]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_scenario scenario = {0};
    dl_error err = {0};
    if (dl_scenario_read_text(&scenario, "a/fuzz", (const char *)data, bytes, &err) != DL_OK) {
        DL_ASSERT(err.text[0] != '\0', "status %d without a text", (int)err.code);
        return 0;
    }
    DL_ASSERT(scenario.point_count >= 1 && scenario.steps >= 1 && scenario.replicates >= 1,
              "%zu points", scenario.point_count);
    for (size_t i = 0; i < scenario.point_count; i++)
        check_point(&scenario, &scenario.points[i]);
    dl_scenario_free(&scenario);
    return 0;
}
