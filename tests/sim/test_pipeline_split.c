/* Layers of a stage, their costs and memory, and the keys of a scenario for them. */
#include "tests/pipeline_fixture.h"

#include <stdlib.h>

#include "common/random.h"

/* --- cuts ------------------------------------------------------------------------------------ */

/* Reference: the shortest possible longest stage over all ways to cut layers [from, count) into
 * `stages`. */
static double least_longest(const double *ns, int from, int count, int stages)
{
    double sum = 0, best = (double)INFINITY;
    if (stages == 1) {
        for (int l = from; l < count; l++)
            sum += ns[l];
        return sum;
    }
    for (int cut = from + 1; cut <= count - stages + 1; cut++) {
        sum += ns[cut - 1];
        const double rest = least_longest(ns, cut, count, stages - 1);
        best = fmin(best, fmax(sum, rest));
    }
    return best;
}

static void balanced_is_as_even_as_can_be(void **state DL_UNUSED)
{
    dl_random stream;
    dl_random_init(&stream, 1, 0, 0, 0);
    for (int round = 0; round < 60; round++) {
        const int layers = 2 + round % 8, stages = 1 + round % layers;
        char text[4096];
        double ns[16];
        size_t used = (size_t)snprintf(text, sizeof text, "[costs]\nschema = 1\n");
        for (int l = 0; l < layers; l++) {
            ns[l] = floor(exp(2 * dl_random_normal(&stream)) * 1000);
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "[op l%d.forward]\nfixed_ns = %.0f\nper_sample_ns = 0\n", l,
                                     ns[l]);
        }
        DL_SCOPED(dl_costs) costs = fixture_costs(text);
        const dl_pipeline_options options = {0};
        const dl_split split = {.stages = stages, .shards = 1, .micro_batches = 1, .samples = 1};
        int first[DL_STAGES_MAX + 1];
        dl_stage stage[DL_STAGES_MAX];
        dl_error err = {0};
        assert_int_equal(dl_pipeline_cut(&options, &costs, &split, first, &err), DL_OK);
        dl_pipeline_stages(&options, &costs, &split, first, stage);
        double longest = 0;
        for (int s = 0; s < stages; s++) {
            assert_true(stage[s].count > 0);
            longest = fmax(longest, stage[s].forward_ns);
        }
        assert_near(longest, least_longest(ns, 0, layers, stages), 1e-12);
    }
}

/* --- costs of a stage ------------------------------------------------------------------------ */

static void a_stage_has_its_layers_costs(void **state DL_UNUSED)
{
    pipeline_case c = pipeline_open(
        FIXTURE_PIPELINE_COSTS "[op all.update]\nfixed_ns = 8000\nper_sample_ns = 0\n",
        "workers = 1\n", "stages = 2\nmicro_batches = 4\nsplit = d\n", "");
    const dl_split split = {.stages = 2, .shards = 1, .micro_batches = 4, .samples = 2};
    int first[3];
    dl_stage stage[2];
    dl_error err = {0};
    const dl_pipeline_options *options = &c.scenario.pipeline->options;
    assert_int_equal(dl_pipeline_cut(options, &c.costs, &split, first, &err), DL_OK);
    dl_pipeline_stages(options, &c.costs, &split, first, stage);
    assert_near(stage[0].forward_ns, 3 * 120e3, 1e-12);
    assert_near(stage[1].backward_ns, 240e3, 1e-12);
    assert_near(stage[0].update_ns, 6000, 1e-12); /* share of 60 kB in 80 kB */
    assert_near(stage[0].parameter_bytes, 60e3, 1e-12);
    assert_near(stage[0].state_bytes, 30e3, 1e-12);
    assert_near(stage[0].crossing_bytes, 1000, 1e-12);
    assert_true(stage[1].crossing_bytes == 0);
    assert_near(stage[0].launch_forward + stage[0].launch_backward, 0.75, 1e-12);
    pipeline_close(&c);
}

/* 8 samples in 4 micro-batches over 4 stages: 2 x 20 + 10 kB, 1 kB of workspace, and 1750 bytes per
 * sample and layer: gpipe keeps 8 samples; 1f1b, the default, keeps 2 x (4 - stage). */
static void memory_is_what_the_schedule_keeps(void **state DL_UNUSED)
{
    static const char *const schedules[] = {"schedule = gpipe\n", "schedule = 1f1b\n", ""};
    for (size_t i = 0; i < DL_LENGTH(schedules); i++) {
        char text[96];
        snprintf(text, sizeof text, "stages = 4\nmicro_batches = 4\n%s", schedules[i]);
        pipeline_case c = pipeline_open(FIXTURE_PIPELINE_COSTS, "workers = 2\n", text, "");
        const dl_point *point = &c.scenario.points[0];
        for (int s = 0; s < 4; s++) {
            const double samples = i == 0 ? 8 : 2 * (4 - s);
            dl_gpu_memory memory = dl_run_stage_memory(&c.scenario, &c.costs, point, s);
            assert_near(memory.needs_bytes, 51e3 + 1750 * samples, 1e-12);
            assert_near(memory.has_bytes, 1e6, 1e-12);
        }
        assert_near(dl_run_memory(&c.scenario, &c.costs, point).needs_bytes, 51e3 + 1750 * 8,
                    1e-12);
        pipeline_close(&c);
    }
}

/* --- what is not known ----------------------------------------------------------------------- */

static char *missing_of(const char *costs, const char *pipeline, const char *machine)
{
    pipeline_case c = pipeline_open(costs, machine, pipeline, "[sync]\nmode = allreduce\n");
    char *missing = dl_run_split_missing(&c.scenario, &c.costs, &c.scenario.points[0]);
    pipeline_close(&c);
    return missing;
}

static void unknown_bytes_are_listed(void **state DL_UNUSED)
{
    static const char no_bytes[] =
        FIXTURE_PIPELINE_HEAD "[op a.forward]\nfixed_ns = 1\nper_sample_ns = 1\n"
                              "[op b.forward]\nfixed_ns = 1\nper_sample_ns = 1\n";
    const char *two = "stages = 2\nmicro_batches = 2\n";
    char *missing = missing_of(no_bytes, two, "workers = 1\n");
    assert_string_equal(missing, "[layer a] output_bytes_per_sample");
    free(missing);
    missing = missing_of(no_bytes, two, "workers = 2\n");
    assert_contains(missing, "[layer a] parameter_bytes, [layer b] parameter_bytes");
    free(missing);
    assert_null(missing_of(FIXTURE_PIPELINE_COSTS, two, "workers = 2\n"));
}

/* --- what cannot be -------------------------------------------------------------------------- */

static void refuse_scenario(const char *machine, const char *sections, const char *part)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "pipeline_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    snprintf(text, sizeof text,
             "[machine]\nfile = %s\n%s[workload]\ncosts = c\nbatch_per_worker = 8\n%s", path,
             machine, sections);
    dl_scenario scenario = {0};
    dl_error err = {0};
    assert_int_not_equal(dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err),
                         DL_OK);
    unlink(path);
    assert_contains(err.text, part);
}

static void what_does_not_go_with_stages_is_refused(void **state DL_UNUSED)
{
#define TWO "[pipeline]\nstages = 2\n"
    refuse_scenario("workers = 5\n", TWO, "need 10 GPUs, there are 8");
    refuse_scenario("workers = 1\n", "[pipeline]\nstages = 1\nschedule = 1f1b\n", "stages > 1");
    refuse_scenario("workers = 1\n", TWO "micro_batches = 3\n", "evenly");
    refuse_scenario("workers = 1\n", TWO "schedule = 2f2b\n", "2f2b");
    refuse_scenario("workers = 1\n", TWO "schedule = pipedream\nmicro_batches = 2\n",
                    "micro_batches must be 1");
    refuse_scenario("workers = 1\n", TWO "schedule = 2bw\n", "at least the number of stages");
    refuse_scenario("workers = 1\n", TWO "schedule = interleaved\n", "chunks = 2 or more");
    refuse_scenario("workers = 1\n", TWO "chunks = 2\n", "schedule = interleaved");
    refuse_scenario("workers = 1\n", TWO "schedule = interleaved\nchunks = 2\n",
                    "must be a multiple of the 2 stages");
    refuse_scenario("workers = 1\n", TWO "split = b, c\n", "first layers of stages 1 to 1");
    refuse_scenario("workers = 1\n", TWO "[sync]\naccumulate = 2\n", "only accumulate = 1");
    refuse_scenario("workers = 2\n",
                    TWO "[exchange]\ncollectives = hosts\n[sync]\nmode = allreduce\n",
                    "only of one worker on each node");
    refuse_scenario("workers = 2\n", TWO "[exchange]\noverlap = yes\n[sync]\nmode = softsync\n",
                    "mode softsync has no use for it");
    refuse_scenario("workers = 2\n", TWO "[exchange]\nalgorithm = ring\n[sync]\nmode = async\n",
                    "exchange through a server has none");
    refuse_scenario("workers = 1\nlayout = pp=2\n", TWO, "give only one");
    refuse_scenario("workers = 1\nlayout = dp=2\n", "", "workers is given too");
    refuse_scenario("layout = dp=2,pp=2\n", "", "dp, the workers, comes last");
    refuse_scenario("layout = pp=2,pp=2\n", "", "'pp' is given twice");
    refuse_scenario("layout = sp=2\n", "", "--layout cp=COUNT divides the whole sequence");
    refuse_scenario("layout = fspd=2\n", "", "did you mean 'fsdp'");
    refuse_scenario("layout = pp\n", "", "'pp' is not AXIS=SIZE");
    refuse_scenario("layout = pp=0\n", "", "pp = 0: a pipeline has 1 to 64 stages here");
    refuse_scenario("layout = pp=4,dp=4\n", "", "need 16 GPUs, there are 8");
    refuse_scenario("workers = 1\n", TWO "gpus = 4\n", "give only one");
    refuse_scenario("", "[pipeline]\nstages = 4\ngpus = 2, 6\n",
                    "none of them is a multiple of a worker's 4 GPUs");
    dl_scenario scenario = {0};
    dl_error err = {0};
    const char *cores = "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\nbatch = 8\n" TWO;
    assert_int_not_equal(dl_scenario_read_text(&scenario, "s", cores, strlen(cores), &err), DL_OK);
    assert_contains(err.text, "[machine] file");
}

static void refuse_cut(const char *pipeline, const char *part)
{
    pipeline_case c = pipeline_open(FIXTURE_PIPELINE_COSTS, "workers = 1\n", pipeline, "");
    dl_error err = {0};
    int first[DL_STAGES_MAX + 1];
    const dl_split split = dl_point_split(&c.scenario.points[0]);
    assert_int_not_equal(
        dl_pipeline_cut(&c.scenario.pipeline->options, &c.costs, &split, first, &err), DL_OK);
    assert_contains(err.text, part);
    pipeline_close(&c);
}

static void a_model_has_only_its_layers(void **state DL_UNUSED)
{
    refuse_cut("stages = 5\n", "the model has 4 layers");
    refuse_cut("stages = 2\nsplit = bb\n", "unknown layer 'bb'");
    refuse_cut("stages = 3\nsplit = c, b\n", "'b' is not after");
    refuse_cut("stages = 2\nsplit = a\n", "'a' is not after");
}

static void gpus_are_shared_out(void **state DL_UNUSED)
{
    pipeline_case c =
        pipeline_open(FIXTURE_PIPELINE_COSTS, "", "stages = 2\ngpus = 1, 2, 4, 8\n", "");
    assert_int_equal(c.scenario.point_count, 3);
    for (int p = 0; p < 3; p++) {
        assert_int_equal(c.scenario.points[p].workers, 1 << p);
        assert_int_equal(dl_point_gpus(&c.scenario.points[p]), 2 << p);
    }
    pipeline_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_is_as_even_as_can_be),
        cmocka_unit_test(a_stage_has_its_layers_costs),
        cmocka_unit_test(memory_is_what_the_schedule_keeps),
        cmocka_unit_test(unknown_bytes_are_listed),
        cmocka_unit_test(what_does_not_go_with_stages_is_refused),
        cmocka_unit_test(a_model_has_only_its_layers),
        cmocka_unit_test(gpus_are_shared_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
