/* Runs of workers of several GPUs on the machine of tests/gpu_fixture.h. */
#ifndef DL_TESTS_ISLAND_FIXTURE_H
#define DL_TESTS_ISLAND_FIXTURE_H

#include "tests/pipeline_fixture.h"

static const char sharing[] = FIXTURE_PIPELINE_COSTS
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 2e9\nwrite_bytes_per_s = 1e9\n"
    "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9, measured\nwrite_bytes_per_s = 1e9\n"
    "[sync]\nbarrier_ns = 0\nlock_ns = 0\n[overlap]\nslowdown = 1.25\n"
    "[gradients]\nready_1 = 0.3, 20000\nready_2 = 0.7, 60000\nready_3 = 0.9, 80000\n";

/* `batch` samples of all workers together. */
static inline dl_run_result run_so(bool is_whole, const char *costs_text, const char *machine,
                                   int batch, const char *rest)
{
    char path[64];
    snprintf(path, sizeof path, "island_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = 12\n[machine]\nfile = %s\n%s[workload]\ncosts = c\nbatch = %d\n%s",
        path, machine, batch, rest);
    unlink(path);
    dl_run_result result = {0};
    dl_error err = {0};
    const dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = &scenario.points[0], .is_whole = is_whole};
    if (dl_run(&config, &result, &err) != DL_OK) fail_msg("%s: %s", rest, err.text);
    return result;
}

static inline dl_run_result run(const char *costs_text, const char *machine, int batch,
                                const char *rest)
{
    return run_so(false, costs_text, machine, batch, rest);
}

static inline void assert_same(const dl_run_result *a, const dl_run_result *b)
{
    assert_near(a->step_mean_s, b->step_mean_s, 1e-9);
    assert_near(a->throughput_per_s, b->throughput_per_s, 1e-9);
    assert_near(a->usage.traffic_bytes, b->usage.traffic_bytes, 1e-12);
    for (int p = 0; p < DL_PART_COUNT; p++)
        assert_near(a->part_frac[p], b->part_frac[p], 1e-6);
}

/* Bytes of memory that a GPU needs in the layout, with `batch` samples of all workers together. */
static inline double needs_bytes(const char *costs_text, const char *layout, int batch,
                                 const char *sharded)
{
    char path[64];
    snprintf(path, sizeof path, "island_memory_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    dl_scenario s = fixture_scenario("[machine]\nfile = %s\nlayout = %s\n[workload]\ncosts = c\n"
                                     "batch = %d\n[sync]\nmode = allreduce\n[exchange]\n"
                                     "bucket_bytes = 0\nsharded = %s\n",
                                     path, layout, batch, sharded);
    unlink(path);
    const dl_gpu_memory memory = dl_run_memory(&s, &costs, &s.points[0]);
    dl_scenario_free(&s);
    return memory.needs_bytes;
}

/* Time of a collective of the first `gpus` GPUs on idle links, s. */
static inline double idle_s(dl_collective_kind kind, int gpus, double bytes)
{
    char path[64];
    snprintf(path, sizeof path, "island_idle_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    dl_scenario s = fixture_scenario("[machine]\nfile = %s\nworkers = 1\n[workload]\ncosts = c\n"
                                     "batch = 1\n",
                                     path);
    unlink(path);
    dl_place places[8];
    dl_error err = {0};
    double ns = 0;
    for (int g = 0; g < gpus; g++)
        places[g] = dl_gpu_options_place(s.gpu, g);
    const dl_collective_config config = {.kind = kind,
                                         .algorithm = "auto",
                                         .ranks = places,
                                         .rank_count = gpus,
                                         .bytes = bytes,
                                         .chunk_bytes = DL_CHUNK_BYTES};
    assert_int_equal(dl_collective_idle_ns(&s.gpu->links, &config, &ns, &err), DL_OK);
    dl_scenario_free(&s);
    return ns * 1e-9;
}

/* Asserts that the costs are refused for these keys of [machine], in a message with `says`. */
static inline void assert_layout_refused(const char *costs_text, const char *machine,
                                         const char *says)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "island_refused_%d.ini", (int)getpid());
    fixture_write(path, costs_text);
    snprintf(text, sizeof text,
             "[machine]\nfile = dgx_h100\n%s[workload]\ncosts = %s\nbatch = 64\n", machine, path);
    DL_SCOPED(dl_study) study = {0};
    dl_error err = {0};
    dl_status status = dl_study_read_text(&study, "s.ini", text, strlen(text), &err);
    if (status == DL_OK) status = dl_study_read_costs(&study, &err);
    unlink(path);
    assert_contains(err.text, says);
    assert_int_equal(status, DL_ERR_DATA);
}

/* Asserts that the layouts of one worker, which are orders of the same axes, take equally long on a
 * node whose links are all alike; and that `with_one`, which has an axis of size one before
 * fsdp=4,dp=2, takes as long as without that axis. */
static inline void assert_any_order(const char *costs_text, const char *const *layouts,
                                    size_t count, const char *with_one)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    double first_s = 0;
    for (size_t l = 0; l < count; l++) {
        DL_SCOPED(dl_scenario) s = fixture_scenario(
            "[scenario]\nsteps = 8\n[machine]\nfile = dgx_h100\nlayout = %s,dp=1\n[workload]\n"
            "costs = c\nbatch = 16\n[pipeline]\nmicro_batches = 4\nschedule = 1f1b\n[sync]\n"
            "mode = none\n",
            layouts[l]);
        DL_SCOPED(dl_run_result) r = fixture_run(&costs, &s);
        if (l == 0) first_s = r.step_mean_s;
        assert_near(r.step_mean_s, first_s, 1e-9);
    }
    DL_SCOPED(dl_run_result) with = run(sharing, with_one, 16, "[sync]\nmode = average\n");
    dl_run_result without = run(sharing, "layout = fsdp=4,dp=2\n", 16, "[sync]\nmode = average\n");
    assert_same(&with, &without);
    dl_run_result_free(&without);
}

#endif
