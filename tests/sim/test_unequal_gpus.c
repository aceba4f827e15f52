/* GPUs of several models, compared with closed forms. GPU `a` takes 1 ms per sample, `b` half of
 * it; a third of that is forward. Exchange between them takes almost no time (parameters of 8
 * bytes). */
#include "tests/gpu_fixture.h"

#include <stdlib.h>

#include "sim/report/advise.h"
#include "sim/report/notes.h"
#include "sim/schedule.h"
#include "sim/shares.h"
#include "sim/sweep.h"

#define MACHINE "unequal_machine.ini"
#define COSTS_A "unequal_a.ini"
#define COSTS_B "unequal_b.ini"

#define MODELS                                                                             \
    "[gpu_model a]\nmemory_bytes = 1MB\nmemory_bytes_per_s = 100GB/s\n"                    \
    "fp32_flop_per_s = 1Tflop/s\n[gpu_model b]\nmemory_bytes = 2MB\n"                      \
    "memory_bytes_per_s = 200GB/s\nfp32_flop_per_s = 4Tflop/s\n"                           \
    "[link x16]\nbytes_per_s = 10GB/s\nlatency_ns = 0\n[link wire]\nbytes_per_s = 1GB/s\n" \
    "latency_ns = 0\n[host]\nmemory_bytes_per_s = 40GB/s\n"
#define MIXED                                                  \
    "[machine]\nschema = 1\nname = mixed\npeer = all\n" MODELS \
    "[gpus 0]\nmodel = a\nparent = socket0\nlink = x16\n"      \
    "[gpus 1]\nmodel = b\nparent = socket0\nlink = x16\n"
#define SWAPPED                                                \
    "[machine]\nschema = 1\nname = mixed\npeer = all\n" MODELS \
    "[gpus 0]\nmodel = b\nparent = socket0\nlink = x16\n"      \
    "[gpus 1]\nmodel = a\nparent = socket0\nlink = x16\n"
#define NODES                                                             \
    "[machine]\nschema = 1\nname = nodes\nnodes = 3\npeer = all\n" MODELS \
    "[gpus 0-1]\nmodel = a\nparent = socket0\nlink = x16\n"               \
    "[nics 0]\nparent = socket0\nlink = x16\nport = wire\n[nodes 1-2]\nmodel = b\n"

#define REST                                                                         \
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 1e12\nwrite_bytes_per_s = 1e12\n" \
    "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e12\nwrite_bytes_per_s = 1e12\n"  \
    "[sync]\nbarrier_ns = 0\nlock_ns = 0\n[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n"

static void write_costs(const char *path, const char *device, double ms, const char *more)
{
    char text[1600];
    snprintf(text, sizeof text,
             "[costs]\nschema = 1\n%s\nparameter_bytes = 8\nstate_bytes = 0\n"
             "[op n.forward]\nfixed_ns = 0, measured\nper_sample_ns = %.0f, measured\n"
             "[op n.backward]\nfixed_ns = 0, measured\nper_sample_ns = %.0f, measured\n%s" REST,
             device, ms * 1e6 / 4, ms * 1e6 * 3 / 4, more);
    fixture_write(path, text);
}

/* Time to make a batch, in ms; 0: no input. */
static int input_ms = 0;

static const char *more_costs(char *text, size_t bytes)
{
    snprintf(text, bytes,
             "[gpu_memory]\nactivation_bytes_per_sample = 15000\nworkspace_bytes = 0\n");
    const size_t used = strlen(text);
    if (input_ms == 0) return text;
    snprintf(text + used, bytes - used,
             "[op input]\nfixed_ns = %d000000\nper_sample_ns = 0\n[input]\nbytes_per_sample = 0\n",
             input_ms);
    return text;
}

/* Reads a study on `machine`; `workload` and `rest` are additional lines of [workload] and
 * sections. */
static dl_status read_study(dl_study *study, const char *machine, const char *device,
                            const char *workload, const char *rest, dl_error *err)
{
    char text[2048], more[400];
    fixture_write(MACHINE, machine);
    write_costs(COSTS_A, device, 1, more_costs(more, sizeof more));
    write_costs(COSTS_B, "device = b", 0.5, more);
    snprintf(text, sizeof text,
             "[scenario]\nsteps = 300\n[machine]\nfile = " MACHINE
             "\n%s[workload]\ncosts = " COSTS_A "\n%s%s",
             strstr(rest, "[pipeline]") != NULL ? "" : "workers = all\n", workload, rest);
    dl_status status = dl_study_read_text(study, "s.ini", text, strlen(text), err);
    if (status == DL_OK) {
        status = dl_study_read_costs(study, err);
        if (status != DL_OK) dl_study_free(study);
    }
    remove(MACHINE);
    remove(COSTS_A);
    remove(COSTS_B);
    return status;
}

static dl_study study_of(const char *machine, const char *workload, const char *rest)
{
    dl_study study = {0};
    dl_error err = {0};
    if (read_study(&study, machine, "device = a", workload, rest, &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    return study;
}

#define OWN "gpu_costs = b:" COSTS_B "\n"

static dl_run_result run_first(const dl_study *study)
{
    dl_run_result result = {0};
    dl_error err = {0};
    const dl_variant *v = &study->variants[0];
    const dl_run_config config = {
        .scenario = &v->scenario, .costs = &v->costs, .point = &v->scenario.points[0]};
    if (dl_run(&config, &result, &err) != DL_OK) fail_msg("%s", err.text);
    return result;
}

/* 32 samples each: 32 ms on a, 16 ms on b. A worker that waits for all takes 32 ms, and b waits
 * half of its time: a quarter of all workers' time. */
static void the_slower_one_delays_the_update(void **state DL_UNUSED)
{
    static const char *const syncs[] = {"mode = allreduce\n", "mode = ps\nwhere = cpu\n",
                                        "mode = average\nwhere = cpu\ninterval = 1\n",
                                        "mode = average\nwhere = allreduce\ninterval = 1\n",
                                        "mode = ksync\nk = 2\nwhere = cpu\n"};
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        char rest[160];
        snprintf(rest, sizeof rest, "[sync]\n%s", syncs[i]);
        DL_SCOPED(dl_study) study = study_of(MIXED, OWN "batch = 64\n", rest);
        DL_SCOPED(dl_run_result) r = run_first(&study);
        assert_near(r.step_p50_s, 32e-3, 1e-3);
        assert_near(r.throughput_per_s, 2000, 1e-3);
        assert_near(r.part_frac[DL_PART_COMPUTE], 0.75, 1e-3);
    }
}

static bool notes_say(const dl_study *study, const char *text)
{
    DL_SCOPED(dl_notes) notes = {0};
    bool found = false;
    dl_study_notes(&notes, study, DL_NOTES_ALL);
    for (size_t i = 0; i < notes.count; i++)
        found |= strstr(notes.lines[i], text) != NULL;
    return found;
}

/* 1 and 2 samples per ms: of 96 samples a gets 32, b 64; both compute for 32 ms. */
static void shares_by_speed_take_equal_times(void **state DL_UNUSED)
{
    dl_study study =
        study_of(MIXED, OWN "batch = 96\nshares = speed\n", "[sync]\nmode = allreduce\n");
    static const char shares[] =
        "a batch of 96 is divided: 32 samples on a (32.0 ms), 64 samples on b (32.0 ms)";
    int64_t samples[2];
    const dl_variant *v = &study.variants[0];
    dl_point_shares(&v->scenario, &v->costs, &v->scenario.points[0], samples);
    assert_int_equal(samples[0], 32);
    assert_int_equal(samples[1], 64);
    DL_SCOPED(dl_run_result) r = run_first(&study);
    assert_near(r.step_p50_s, 32e-3, 1e-3);
    assert_near(r.throughput_per_s, 3000, 1e-3);
    assert_near(r.part_frac[DL_PART_COMPUTE], 1, 1e-3);
    assert_true(notes_say(&study, shares));
    dl_study_free(&study);
    study = study_of(SWAPPED, OWN "batch = 96\nshares = speed\n", "[sync]\nmode = allreduce\n");
    assert_true(notes_say(&study, shares));
    dl_study_free(&study);
}

/* Whole samples: of 10, 3.33 and 6.67 are exact; 3 and 6 leave one, which b finishes after 3.5 ms,
 * a after 4. Of 2, each gets one, although b computes both in the time a needs for one. With two
 * micro-batches of 5 samples 1.67 and 3.33 are exact: 1 and 3, and a or b finishes the last one in
 * 2 ms; a, the first of them, gets it. */
static void whole_samples_are_shared(void **state DL_UNUSED)
{
    static const struct {
        int batch, accumulate;
        int64_t a, b;
    } cases[] = {{10, 1, 3, 7}, {2, 1, 1, 1}, {10, 2, 4, 6}, {3, 1, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char workload[120], rest[80];
        snprintf(workload, sizeof workload, OWN "batch = %d\nshares = speed\n", cases[i].batch);
        snprintf(rest, sizeof rest, "[sync]\nmode = allreduce\naccumulate = %d\n",
                 cases[i].accumulate);
        DL_SCOPED(dl_study) study = study_of(MIXED, workload, rest);
        int64_t samples[2];
        const dl_variant *v = &study.variants[0];
        dl_point_shares(&v->scenario, &v->costs, &v->scenario.points[0], samples);
        assert_int_equal(samples[0], cases[i].a);
        assert_int_equal(samples[1], cases[i].b);
    }
}

/* Where a step takes 2 ms with any number of samples, each worker gets as many. */
static void free_samples_are_shared_equally(void **state DL_UNUSED)
{
    dl_study study =
        study_of(MIXED, OWN "batch = 80\nshares = speed\n", "[sync]\nmode = allreduce\n");
    dl_variant *v = &study.variants[0];
    int64_t samples[2];
    for (int m = 0; m < v->costs.model_count; m++) {
        dl_costs *own = v->costs.models[m].own != NULL ? v->costs.models[m].own : &v->costs;
        for (size_t i = 0; i < own->op_count; i++) {
            own->ops[i].fixed_ns.value = 1e6;
            own->ops[i].per_sample_ns.value = 0;
        }
    }
    dl_point_shares(&v->scenario, &v->costs, &v->scenario.points[0], samples);
    assert_int_equal(samples[0], 40);
    assert_int_equal(samples[1], 40);
    dl_study_free(&study);
}

/* Workers 0 and 2 share a, which makes two steps 1.5 times as long: 3 ms a sample for each, beside
 * 0.5 ms of worker 1 on b. Of 80 samples they get 10, 60 and 10, all in 30 ms. */
static void workers_of_one_gpu_get_less(void **state DL_UNUSED)
{
    dl_study study =
        study_of(MIXED, OWN "batch = 80\nshares = speed\n", "[sync]\nmode = allreduce\n");
    dl_variant *v = &study.variants[0];
    dl_point point = v->scenario.points[0];
    int64_t samples[3];
    point.workers = 3;
    v->costs.sharing[1] = (dl_value){.known = true, .value = 1};
    v->costs.sharing[2] = (dl_value){.known = true, .value = 1.5};
    dl_point_shares(&v->scenario, &v->costs, &point, samples);
    assert_int_equal(samples[0], 10);
    assert_int_equal(samples[1], 60);
    assert_int_equal(samples[2], 10);
    dl_study_free(&study);
}

/* A worker of two GPUs is as fast as the slower one: GPUs 2 and 3, both b, are before 0 and 1, a and
 * b, though GPU 1 is the first of the fastest. */
static void the_slowest_gpu_of_a_worker_counts(void **state DL_UNUSED)
{
    dl_study study =
        study_of("[machine]\nschema = 1\nname = two\nnodes = 2\npeer = all\n" MODELS
                 "[gpus 0]\nmodel = a\nparent = socket0\nlink = x16\n"
                 "[gpus 1]\nmodel = b\nparent = socket0\nlink = x16\n"
                 "[nics 0]\nparent = socket0\nlink = x16\nport = wire\n[nodes 1]\nmodel = b\n",
                 OWN "batch = 64\n", "[sync]\nmode = allreduce\n");
    const dl_variant *v = &study.variants[0];
    assert_int_equal(dl_fastest_gpu(&v->scenario, &v->costs, 8, 1), 1);
    assert_int_equal(dl_fastest_gpu(&v->scenario, &v->costs, 8, 2), 2);
    dl_study_free(&study);
}

static double staleness_of(const dl_run_result *r, int worker)
{
    double sum = 0, count = 0;
    for (int s = 0; s < r->staleness_bins; s++) {
        const double n = (double)r->staleness[worker * r->staleness_bins + s];
        sum += n * s;
        count += n;
    }
    return sum / count;
}

/* Asynchronous, equal shares of 32: b steps twice as often. Between two of its updates a worker of
 * rate mu_i sees the sum of mu_j / mu_i of the others: a 2, b 1/2; weighted by the rates (2 + 2 /
 * 2) / 3 = 1 = n - 1. 1000 + 2000 samples per second. */
static void asynchronous_workers_go_at_their_own_speed(void **state DL_UNUSED)
{
    dl_study study = study_of(MIXED, OWN "batch = 64\n", "[sync]\nmode = async\nwhere = cpu\n");
    DL_SCOPED(dl_run_result) r = run_first(&study);
    assert_near(r.worker_step_s[0] / r.worker_step_s[1], 2, 1e-3);
    assert_near(r.throughput_per_s, 3000, 5e-3);
    assert_near(staleness_of(&r, 0), 2, 1e-2);
    assert_near(staleness_of(&r, 1), 0.5, 1e-2);
    dl_study_free(&study);
}

/* A server that updates after workers / n = 2 gradients of any workers: 3 updates in 64 ms. */
static void softsync_counts_gradients_of_both(void **state DL_UNUSED)
{
    dl_study study =
        study_of(MIXED, OWN "batch = 64\n", "[sync]\nmode = softsync\nn = 1\nwhere = cpu\n");
    DL_SCOPED(dl_run_result) r = run_first(&study);
    assert_near(r.throughput_per_s, 3000, 5e-3);
    assert_near(r.updates_per_s, 1.5 / 32e-3, 1e-2);
    dl_study_free(&study);
}

/* 16 ms per step on b, 32 on a: with 4 local steps of b, a has 2. Both are done after 64 ms.
 * Batches made ahead, here in 15 ms, change nothing; made on request they give 31 and 47 ms, and a
 * has 2.6, i.e. 3, local steps of 141 ms. */
static void local_steps_follow_the_model(void **state DL_UNUSED)
{
    static const struct {
        int input_ms, prefetch;
        double per_s;
    } cases[] = {{0, 1, 6 * 32 / 0.064}, {15, 1, 6 * 32 / 0.064}, {15, 0, 7 * 32 / 0.141}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rest[400];
        snprintf(rest, sizeof rest,
                 "[input]\ncores = 4\nprefetch = %d\n[sync]\nmode = average\nwhere = cpu\n"
                 "interval = 4\ninterval_by_speed = yes\n",
                 cases[i].prefetch);
        input_ms = cases[i].input_ms;
        DL_SCOPED(dl_study) study = study_of(MIXED, OWN "batch = 64\n", rest);
        input_ms = 0;
        DL_SCOPED(dl_run_result) r = run_first(&study);
        assert_near(r.throughput_per_s, cases[i].per_s, 1e-2); /* the first batch is waited for */
    }
}

/* Without a file for b its times are a's over 4^(3/4) 2^(1/4) = 2^(7/4): 32 ms become 9.51. They
 * are assumed, and the interval includes factors of up to e^1.02 for b but not for a. */
static void other_models_are_scaled(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study = study_of(MIXED, "batch = 64\n", "[sync]\nmode = none\n");
    const dl_variant *v = &study.variants[0];
    const dl_point *point = &v->scenario.points[0];
    dl_run_config config = {.scenario = &v->scenario, .costs = &v->costs, .point = point};
    dl_run_result r = {0};
    dl_error err = {0};
    assert_int_equal(dl_run(&config, &r, &err), DL_OK);
    assert_near(r.worker_step_s[0], 32e-3, 1e-3);
    assert_near(r.worker_step_s[1], 32e-3 / pow(2, 1.75), 1e-3);
    dl_run_result_free(&r);
    assert_near(dl_variant_compute_log(v), DL_SCALING_SPREAD, 1e-12);
    assert_int_equal(dl_run_origin(&v->scenario, &v->costs, point), DL_ORIGIN_ASSUMED);
    config.compute_log = DL_SCALING_SPREAD;
    config.by_spread = true;
    assert_int_equal(dl_run(&config, &r, &err), DL_OK);
    assert_near(r.worker_step_s[0], 32e-3, 1e-3);
    assert_near(r.worker_step_s[1], 32e-3 / pow(2, 1.75) * exp(DL_SCALING_SPREAD), 1e-3);
    dl_run_result_free(&r);
}

/* The baseline is the fastest GPU alone: 64 samples in 32 ms. Two GPUs with equal shares also take
 * 32 ms; by speed (21 and 43, 21.5 ms) the speedup is 1.488. They are equivalent to 1.5 b:
 * efficiency 0.99. */
static void the_baseline_is_the_fastest_gpu(void **state DL_UNUSED)
{
    dl_study study =
        study_of(MIXED, OWN "batch = 64\nshares = equal, speed\n", "[sync]\nmode = allreduce\n");
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 1};
    if (dl_sweep_run(&sweep, &study, &config, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(sweep.row_count, 2);
    assert_near(sweep.rows[0].speedup, 1, 2e-3);
    assert_near(sweep.rows[1].speedup, 32 / 21.5, 2e-3);
    assert_near(sweep.rows[0].efficiency, 1 / 1.5, 2e-3);
    assert_near(sweep.rows[1].efficiency, 32 / 21.5 / 1.5, 2e-3);
    dl_study_free(&study);
}

/* 15 kB per sample: 80 samples are 40 each, 0.6 MB of a's 1 MB and of b's 2 MB; 180 by speed are 60
 * (0.9 of a's) and 120 (0.9 of b's); 200 in equal shares do not fit into a. */
static void memory_is_that_of_each_gpu(void **state DL_UNUSED)
{
    static const struct {
        const char *workload;
        double needs, has;
    } cases[] = {{"batch = 80\n", 0.6e6, 1e6},
                 {"batch = 180\nshares = speed\n", 0.9e6, 1e6},
                 {"batch = 200\n", 1.5e6, 1e6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char workload[120];
        snprintf(workload, sizeof workload, OWN "%s", cases[i].workload);
        DL_SCOPED(dl_study) study = study_of(MIXED, workload, "[sync]\nmode = allreduce\n");
        const dl_variant *v = &study.variants[0];
        const dl_gpu_memory memory = dl_run_memory(&v->scenario, &v->costs, &v->scenario.points[0]);
        assert_near(memory.needs_bytes, cases[i].needs, 1e-3);
        assert_near(memory.has_bytes, cases[i].has, 1e-9);
    }
}

/* A GPU with unknown needs may be the fullest, so what the others need does not matter. */
static void memory_of_an_unknown_gpu_is_unknown(void **state DL_UNUSED)
{
    const dl_gpu_memory half = {.needs_bytes = 1e9, .has_bytes = 2e9},
                        full = {.needs_bytes = 4e9, .has_bytes = 4e9},
                        unknown = {.needs_bytes = (double)NAN, .has_bytes = 2e9};
    dl_gpu_memory most = {.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
    dl_gpu_memory_most(&most, &full);
    dl_gpu_memory_most(&most, &half);
    assert_near(most.needs_bytes, 4e9, 0);
    dl_gpu_memory_most(&most, &unknown);
    dl_gpu_memory_most(&most, &full);
    assert_true(isnan(most.needs_bytes));
}

/* Two GPUs of model a on node 0, of b on nodes 1 and 2: of 120 samples by speed 12 and 24 each. */
static void nodes_may_have_other_gpus(void **state DL_UNUSED)
{
    dl_study study =
        study_of(NODES, OWN "batch = 120\nshares = speed\n", "[sync]\nmode = allreduce\n");
    const dl_variant *v = &study.variants[0];
    const dl_point *point = &v->scenario.points[0];
    int64_t samples[6];
    int models[6];
    assert_int_equal(point->workers, 6);
    dl_point_shares(&v->scenario, &v->costs, point, samples);
    dl_point_models(&v->scenario, point, models);
    for (int w = 0; w < 6; w++) {
        assert_int_equal(models[w], w < 2 ? 0 : 1);
        assert_int_equal(samples[w], w < 2 ? 12 : 24);
    }
    DL_SCOPED(dl_run_result) r = run_first(&study);
    assert_near(r.step_p50_s, 12e-3, 1e-2);
    dl_study_free(&study);
}

/* Stages with half of the work each: a sample takes 1 ms in the first one, on a, 0.5 in the second,
 * on b; with one micro-batch the step of 8 samples is the sum, 8 + 4 ms. */
static void stages_are_as_fast_as_their_gpus(void **state DL_UNUSED)
{
    static const char costs[] = "[op m.forward]\nfixed_ns = 0\nper_sample_ns = 250000\n"
                                "[op m.backward]\nfixed_ns = 0\nper_sample_ns = 750000\n"
                                "[layer n]\noutput_bytes_per_sample = 1\n";
    char text[1024];
    fixture_write(MACHINE, MIXED);
    write_costs(COSTS_A, "device = a", 1, costs);
    write_costs(COSTS_B, "device = b", 0.5,
                "[op m.forward]\nfixed_ns = 0\nper_sample_ns = 125000\n"
                "[op m.backward]\nfixed_ns = 0\nper_sample_ns = 375000\n");
    snprintf(text, sizeof text,
             "[scenario]\nsteps = 20\n[machine]\nfile = " MACHINE "\nworkers = 1\n[workload]\n"
             "costs = " COSTS_A "\n" OWN "batch = 8\n[pipeline]\nstages = 2\n"
             "[sync]\nmode = none\n");
    DL_SCOPED(dl_study) study = {0};
    dl_error err = {0};
    if (dl_study_read_text(&study, "s.ini", text, strlen(text), &err) != DL_OK ||
        dl_study_read_costs(&study, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    remove(MACHINE);
    remove(COSTS_A);
    remove(COSTS_B);
    DL_SCOPED(dl_run_result) r = run_first(&study);
    assert_near(r.step_p50_s, 8e-3 + 4e-3, 1e-3);
}

/* Costs of b on a machine whose first GPU is a: b uses them unchanged, a times 2^(7/4). */
static void costs_of_the_second_model_stay_there(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study = {0};
    dl_error err = {0};
    assert_int_equal(
        read_study(&study, MIXED, "device = b", "batch = 2\n", "[sync]\nmode = none\n", &err),
        DL_OK);
    const dl_variant *v = &study.variants[0];
    assert_near(dl_costs_model_step_ns(&v->costs, 1, 1, "backward"), 0.75e6, 1e-9);
    assert_near(dl_costs_model_step_ns(&v->costs, 0, 1, "backward"), 0.75e6 * pow(2, 1.75), 1e-9);
    assert_true(v->costs.models[0].spread_log > 0);
    assert_near(v->costs.models[1].spread_log, 0, 1e-12);
}

/* With equal shares of 48 samples (48 and 24 ms) two GPUs compute 96 in 48 ms, by speed in 32,
 * which is advised. */
static void shares_are_advised(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study = study_of(MIXED, OWN "batch = 96\n", "[sync]\nmode = allreduce\n");
    DL_SCOPED(dl_advice) advice = {0};
    dl_error err = {0};
    const dl_advice_config config = {.max_staleness = (double)NAN,
                                     .samples = (double)NAN,
                                     .deadline_h = (double)NAN,
                                     .budget_usd = (double)NAN,
                                     .max_points = 100,
                                     .threads = 1};
    fixture_write(MACHINE, MIXED);
    write_costs(COSTS_A, "device = a", 1, "");
    write_costs(COSTS_B, "device = b", 0.5, "");
    if (dl_advise(&advice, &study, &config, &err) != DL_OK) fail_msg("%s", err.text);
    remove(MACHINE);
    remove(COSTS_A);
    remove(COSTS_B);
    const dl_advised *best = &advice.points[advice.best[0]];
    assert_non_null(strstr(best->options, "--set workload.shares=speed"));
    assert_near(best->row.mean.throughput_per_s, 3000, 2e-2);
}

/* Training that follows a schedule requires equal shares. */
static void unequal_shares_have_no_schedule(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study = study_of(MIXED, OWN "batch = 96\nshares = equal, speed\n",
                                         "[sync]\nmode = async\nwhere = cpu\n");
    for (int v = 0; v < 2; v++) {
        const dl_scenario *scenario = &study.variants[v].scenario;
        dl_error err = {0};
        const dl_status status = dl_schedule_write(
            "unequal_schedule.csv", scenario, &study.variants[v].costs, &scenario->points[0], &err);
        assert_int_equal(status, v == 0 ? DL_OK : DL_ERR_UNSUPPORTED);
    }
    remove("unequal_schedule.csv");
}

static void bad_input_is_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *machine, *workload, *rest, *text;
    } cases[] = {
        {MIXED, "gpu_costs = c:" COSTS_B "\nbatch = 2\n", "", "has no GPU model 'c'"},
        {MIXED, "gpu_costs = b\nbatch = 2\n", "", "expected GPU:FILE"},
        {MIXED, OWN "batch = 1\n", "[sync]\nmode = allreduce\n", "cannot share"},
        {MIXED, "gpu_costs = b:" COSTS_B ", b:" COSTS_A "\nbatch = 2\n", "", "given twice"},
        {MIXED, "gpu_costs = b:" COSTS_A "\nbatch = 2\n", "", "gpu_costs has it for b"},
        {MIXED, "gpu_costs = b:own_link.ini\nbatch = 2\n", "",
         "[machine link x16]: the file of one model's compute"},
        {MIXED, "batch_per_worker = 2\nshares = speed\n", "[pipeline]\nstages = 2\ngpus = 2\n",
         "cannot be combined with"},
        {NODES "[nodes 2]\nmodel = a\n", "batch = 6\n", "", "another section"},
        {NODES "[nodes 3]\nmodel = a\n", "batch = 6\n", "", "fewer nodes"},
        {NODES "[nodes 0]\nmodel = c\n", "batch = 6\n", "", "unknown name"},
    };
    fixture_write("own_link.ini", "[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 1\n"
                                  "per_sample_ns = 1\n[machine link x16]\nbytes_per_s = 1e9\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_study study = {0};
        dl_error err = {0};
        if (read_study(&study, cases[i].machine, "device = a", cases[i].workload, cases[i].rest,
                       &err) == DL_OK) {
            fail_msg("case %zu is accepted", i);
        }
        if (strstr(err.text, cases[i].text) == NULL) fail_msg("case %zu: %s", i, err.text);
    }
    remove("own_link.ini");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slower_one_delays_the_update),
        cmocka_unit_test(shares_by_speed_take_equal_times),
        cmocka_unit_test(whole_samples_are_shared),
        cmocka_unit_test(free_samples_are_shared_equally),
        cmocka_unit_test(workers_of_one_gpu_get_less),
        cmocka_unit_test(the_slowest_gpu_of_a_worker_counts),
        cmocka_unit_test(asynchronous_workers_go_at_their_own_speed),
        cmocka_unit_test(softsync_counts_gradients_of_both),
        cmocka_unit_test(local_steps_follow_the_model),
        cmocka_unit_test(other_models_are_scaled),
        cmocka_unit_test(the_baseline_is_the_fastest_gpu),
        cmocka_unit_test(memory_is_that_of_each_gpu),
        cmocka_unit_test(memory_of_an_unknown_gpu_is_unknown),
        cmocka_unit_test(nodes_may_have_other_gpus),
        cmocka_unit_test(stages_are_as_fast_as_their_gpus),
        cmocka_unit_test(costs_of_the_second_model_stay_there),
        cmocka_unit_test(shares_are_advised),
        cmocka_unit_test(unequal_shares_have_no_schedule),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
