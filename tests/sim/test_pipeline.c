/* Runs of split models, compared with the closed forms of tests/oracles/pipeline.c. */
#include "tests/pipeline_fixture.h"

#include <stdlib.h>

#include "common/file.h"
#include "sim/report/timeline.h"
#include "sim/scenario/without.h"

#define REDUCED "[sync]\nmode = allreduce\n"

static double step_of(const char *costs, const char *machine, const char *pipeline,
                      const char *rest)
{
    DL_SCOPED(dl_run_result) r = pipeline_run(costs, machine, pipeline, rest);
    return r.step_mean_s;
}

/* A single stage is not a pipeline: all figures equal those of workers with one GPU each. */
static void one_stage_is_data_parallel(void **state DL_UNUSED)
{
    const char *rest = REDUCED "[noise]\nkind = gamma\nsigma = 0.2\n";
    dl_run_result split =
        pipeline_run(FIXTURE_PIPELINE_COSTS, "workers = 4\n", "stages = 1\n", rest);
    pipeline_case c = pipeline_open(FIXTURE_PIPELINE_COSTS, "workers = 4\n", "stages = 1\n", rest);
    free(c.scenario.pipeline);
    c.scenario.pipeline = NULL;
    c.scenario.points[0].axes = NULL; /* that of the pipeline */
    c.scenario.points[0].stages = c.scenario.points[0].micro_batches = 0;
    DL_SCOPED(dl_run_result) whole = fixture_run(&c.costs, &c.scenario);
    assert_null(split.split);
    assert_memory_equal(split.worker_step_s, whole.worker_step_s, 4 * sizeof(double));
    assert_memory_equal(split.part_frac, whole.part_frac, sizeof split.part_frac);
    assert_true(split.step_p99_s == whole.step_p99_s && split.events == whole.events);
    assert_true(split.usage.traffic_bytes == whole.usage.traffic_bytes);
    dl_run_result_free(&split);
    pipeline_close(&c);
}

/* The micro-batches of one stage are accumulated: 2 of 4 samples, 4 layers forward and backward. */
static void one_stage_accumulates(void **state DL_UNUSED)
{
    const double step_s =
        step_of(FIXTURE_PIPELINE_COSTS, "workers = 1\n", "stages = 1\nmicro_batches = 2\n", "");
    assert_near(step_s, 2 * 4 * 3 * 0.14e-3, 1e-12);
}

/* The parts of the step add up to 1, also with noise, replicas, a slow worker, host and input. */
static void the_step_is_split_into_parts(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = pipeline_run(
        FIXTURE_PIPELINE_HEAD FIXTURE_LAYERS
        "[op input]\nfixed_ns = 0\nper_sample_ns = 1e5\n[input]\nbytes_per_sample = 1000\n"
        "[dispatch]\nserial_ns = 2e4\nper_worker_ns = 1e5\n",
        "workers = 2\ndispatch = single\nahead = 0\n",
        "stages = 4\nmicro_batches = 4\nschedule = 1f1b\n",
        REDUCED "[noise]\nkind = lognormal\nsigma = 0.3\nslow = 1:1.5\n");
    double sum = 0;
    for (int p = 0; p < DL_PART_COUNT; p++)
        sum += r.part_frac[p];
    assert_near(sum, 1, 1e-12);
    assert_true(r.part_frac[DL_PART_INPUT] > 0 && r.part_frac[DL_PART_DISPATCH] > 0);
    assert_true(r.part_frac[DL_PART_COMMUNICATION] > 0);
    assert_true(r.part_frac[DL_PART_WAITING] >= r.split->bubble_frac && r.split->bubble_frac > 0);
}

/* Two stages, two micro-batches: 8 samples; a forward pass of two layers takes 2 x (0.1 + 0.04) ms.
 * The host launches a pass in 1 ms, in the order of the passes, and each pass begins with its
 * launch. */
static void a_slow_host_sets_the_pace(void **state DL_UNUSED)
{
    const char *costs =
        FIXTURE_PIPELINE_HEAD FIXTURE_LAYERS "[dispatch]\nserial_ns = 0\nper_worker_ns = 4e6\n";
    const char *pipeline = "stages = 2\nmicro_batches = 2\n";
    const double per_gpu = step_of(costs, "workers = 1\nahead = 100\n", pipeline, "");
    const double single =
        step_of(costs, "workers = 1\nahead = 100\ndispatch = single\n", pipeline, "");
    assert_near(per_gpu, 4e-3, 0.05); /* 4 passes of 1 ms on each thread */
    assert_near(single, 8e-3, 0.05);
}

/* Forward passes take 0.56 ms and backward passes 1.12 ms for 2 micro-batches of 4 samples. A host
 * that waits for the GPU before each micro-batch launches each pass in L / 2: with L = 1.4 ms, the
 * backward pass starts after 0.7 ms instead of 0.56; with L = 4 ms, it ends with its launch. */
static void a_host_that_reads_batches_takes_turns(void **state DL_UNUSED)
{
    static const struct {
        double launch_ns, ahead_ms, reading_ms;
    } cases[] = {{1e5, 3.36, 3.36}, {1.4e6, 3.36, 2 * (0.7 + 1.12)}, {4e6, 8, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char costs[2048];
        snprintf(costs, sizeof costs,
                 FIXTURE_PIPELINE_HEAD FIXTURE_LAYERS
                 "[dispatch]\nserial_ns = 0\nper_worker_ns = %g\n",
                 cases[i].launch_ns);
        static const char *const alone[] = {"workers = 1\n", "workers = 1\nreads = batch\n"};
        static const char *const shards[] = {"layout = fsdp=2\n",
                                             "layout = fsdp=2\nreads = batch\n"};
        const char *one = "stages = 1\nmicro_batches = 2\n";
        assert_near(step_of(costs, alone[0], one, ""), 1e-3 * cases[i].ahead_ms, 1e-9);
        assert_near(step_of(costs, alone[1], one, ""), 1e-3 * cases[i].reading_ms, 1e-9);
        /* Two GPUs have 4 samples each, and collectives that take an additional 1 %. */
        const double reading_s = step_of(costs, shards[1], "micro_batches = 1\n", "");
        assert_near(reading_s, 0.5e-3 * cases[i].reading_ms, 0.04);
        assert_true(reading_s >= step_of(costs, shards[0], "micro_batches = 1\n", ""));
    }
}

/* A pass of two stages takes 0.36 ms forward and 0.72 backward, and its launch 0.5: without waits
 * both hosts have launched the forward passes while stage 0 computes; with waits stage 1 launches
 * its pass after that, which takes 0.14 ms longer than the pass. */
static void a_host_of_a_stage_reads_its_input(void **state DL_UNUSED)
{
    const char *costs =
        FIXTURE_PIPELINE_HEAD FIXTURE_LAYERS "[dispatch]\nserial_ns = 0\nper_worker_ns = 2e6\n";
    dl_run_result ahead = pipeline_run(costs, "workers = 1\nahead = 0\n", "stages = 2\n", "");
    dl_run_result reading = pipeline_run(costs, "workers = 1\nreads = batch\n", "stages = 2\n", "");
    assert_near(reading.step_mean_s - ahead.step_mean_s, 0.14e-3, 1e-9);
    assert_near(reading.part_frac[DL_PART_DISPATCH] * reading.step_mean_s, 0.14e-3, 1e-9);
    assert_near(ahead.part_frac[DL_PART_DISPATCH] * ahead.step_mean_s, 0.07e-3, 1e-9);
    dl_run_result_free(&ahead);
    dl_run_result_free(&reading);
}

/* Replicas without exchange, one of them three times as slow: when the other has done its 20 steps,
 * it has begun its seventh. 27 steps of 8 samples in the time of 21. */
static void throughput_is_of_the_whole_span(void **state DL_UNUSED)
{
    dl_run_result r = pipeline_run(FIXTURE_PIPELINE_COSTS, "workers = 2\n", "stages = 2\n",
                                   "[noise]\nslow = 1:3\n");
    assert_near(r.samples, 27 * 8, 1e-12);
    assert_near(r.span_s, 7 * r.worker_step_s[1], 1e-12);
    assert_near(r.throughput_per_s, 27 * 8 / r.span_s, 1e-12);
    assert_near(r.tail_frac, 1.0 / 21, 0.02);
    dl_run_result_free(&r);
}

/* Input of 16 samples takes longer than the stages, and determines the step. */
static void a_slow_input_sets_the_pace(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_PIPELINE_COSTS
        "[op input]\nfixed_ns = 0\nper_sample_ns = 1e6\n[input]\nbytes_per_sample = 0\n";
    dl_run_result r = pipeline_run(costs, "workers = 1\n", "stages = 2\nmicro_batches = 2\n", "");
    assert_near(r.step_mean_s, 8e-3, 0.05);
    assert_true(r.part_frac[DL_PART_INPUT] > 0.3);
    dl_run_result_free(&r);
}

/* More bytes or a slower replica never shorten a step; more micro-batches of the same cost have a
 * smaller bubble. */
static void it_is_monotone(void **state DL_UNUSED)
{
    double before = 0;
    static const char *const costs[] = {
        FIXTURE_PIPELINE_COSTS_OF("0"), FIXTURE_PIPELINE_COSTS_OF("1e4"),
        FIXTURE_PIPELINE_COSTS_OF("1e5"), FIXTURE_PIPELINE_COSTS_OF("1e6")};
    for (int schedule = 0; schedule < 2; schedule++) {
        before = 0;
        for (int i = 0; i < 4; i++) {
            char text[160];
            snprintf(text, sizeof text, "stages = 4\nmicro_batches = 4\nschedule = %s\n",
                     dl_schedule_names[schedule]);
            const double step_s = step_of(costs[i], "workers = 2\n", text, REDUCED);
            assert_true(step_s >= before);
            before = step_s;
        }
    }
    const char *pipeline = "stages = 2\nmicro_batches = 4\n";
    const double even = step_of(FIXTURE_PIPELINE_COSTS, "workers = 2\n", pipeline, REDUCED);
    const double slow =
        step_of(FIXTURE_PIPELINE_COSTS, "workers = 2\n", pipeline, REDUCED "[noise]\nslow = 0:2\n");
    assert_true(slow > 1.5 * even);
}

static double without(const char *list, const char *costs, const char *pipeline)
{
    pipeline_case c = pipeline_open(costs, "workers = 1\n", pipeline, "");
    unsigned set = 0;
    dl_error err = {0};
    assert_int_equal(dl_without_parse(list, &set, &err), DL_OK);
    dl_without_apply(set, &c.scenario, &c.costs);
    DL_SCOPED(dl_run_result) r = fixture_run(&c.costs, &c.scenario);
    const double step_s = r.step_mean_s;
    pipeline_close(&c);
    return step_s;
}

/* a; b, c, d: f = 0.12 and 0.36 ms for 2 samples, b twice that; 4 micro-batches. */
static void what_is_switched_off_takes_no_time(void **state DL_UNUSED)
{
    const char *uneven = "stages = 2\nmicro_batches = 4\nsplit = b\n";
    const double f0 = 1.2e-4, f1 = 3.6e-4;
    const double all = without("activations", FIXTURE_PIPELINE_COSTS, uneven);
    assert_near(all, f0 + 4 * 3 * f1 + 2 * f0, 1e-9);
    assert_near(without("activations, imbalance", FIXTURE_PIPELINE_COSTS, uneven),
                5 * 3 * (f0 + f1) / 2, 1e-9);
    /* Only the longest stage counts; the first one begins 19 steps earlier. */
    assert_near(without("activations, bubble", FIXTURE_PIPELINE_COSTS, uneven), 4 * 3 * f1, 1e-9);
    /* Fixed costs count once: 8 samples in 4 parts take (0.1 + 0.08) / 4 ms per layer forward. */
    assert_near(without("activations, micro_batches", FIXTURE_PIPELINE_COSTS, uneven),
                3 * 0.045e-3 + 4 * 3 * 3 * 0.045e-3, 1e-9);
    const char *crossing = FIXTURE_PIPELINE_COSTS_OF("1e6"),
               *two = "stages = 2\nmicro_batches = 4\n";
    assert_true(without("micro_batches", crossing, two) >
                without("micro_batches, activations", crossing, two));
}

typedef struct seen {
    int forwards[2], backwards[2];
    int64_t end_ns[2];
    bool overlaps;
} seen;

static void on_pass(void *user, int gpu, bool forward, int micro_batch, int64_t start_ns,
                    int64_t end_ns)
{
    seen *s = user;
    int *count = forward ? &s->forwards[gpu] : &s->backwards[gpu];
    s->overlaps |= micro_batch != *count % 2 || start_ns < s->end_ns[gpu];
    (*count)++;
    s->end_ns[gpu] = end_ns;
}

/* Each GPU does each pass once, in order, one at a time. */
static void passes_are_shown(void **state DL_UNUSED)
{
    pipeline_case c = pipeline_open(FIXTURE_PIPELINE_COSTS, "workers = 1\n",
                                    "stages = 2\nmicro_batches = 2\nschedule = 1f1b\n", "");
    seen s = {{0}, {0}, {0}, false};
    const dl_team_observer observer = {.user = &s, .pass = on_pass};
    DL_SCOPED(dl_run_result) r = {0};
    dl_error err = {0};
    const dl_run_config config = {.scenario = &c.scenario,
                                  .costs = &c.costs,
                                  .point = &c.scenario.points[0],
                                  .observer = &observer};
    assert_int_equal(dl_run(&config, &r, &err), DL_OK);
    for (int g = 0; g < 2; g++) {
        assert_int_equal(s.forwards[g], 40);
        assert_int_equal(s.backwards[g], 40);
    }
    assert_false(s.overlaps);
    pipeline_close(&c);
}

/* In each of the 20 steps both micro-batches cross forward and backward. */
static void crossings_are_arrows(void **state DL_UNUSED)
{
    pipeline_case c = pipeline_open(FIXTURE_PIPELINE_COSTS, "workers = 1\n",
                                    "stages = 2\nmicro_batches = 2\nschedule = 1f1b\n", "");
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    int arrows[2] = {0};
    assert_int_equal(dl_timeline_write("pipeline_timeline.json", &c.scenario, &c.costs,
                                       &c.scenario.points[0], NULL),
                     DL_OK);
    assert_int_equal(dl_file_read("pipeline_timeline.json", &text, &bytes, NULL), DL_OK);
    remove("pipeline_timeline.json");
    for (const char *at = text; (at = strstr(at, "{\"ph\":\"f\",\"name\":\"")) != NULL; at++)
        arrows[strncmp(at + 18, "gradients", 9) == 0]++;
    assert_int_equal(arrows[0], 40);
    assert_int_equal(arrows[1], 40);
    pipeline_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_is_data_parallel),
        cmocka_unit_test(one_stage_accumulates),
        cmocka_unit_test(the_step_is_split_into_parts),
        cmocka_unit_test(a_slow_host_sets_the_pace),
        cmocka_unit_test(a_host_that_reads_batches_takes_turns),
        cmocka_unit_test(a_host_of_a_stage_reads_its_input),
        cmocka_unit_test(throughput_is_of_the_whole_span),
        cmocka_unit_test(a_slow_input_sets_the_pace),
        cmocka_unit_test(it_is_monotone),
        cmocka_unit_test(what_is_switched_off_takes_no_time),
        cmocka_unit_test(passes_are_shown),
        cmocka_unit_test(crossings_are_arrows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
