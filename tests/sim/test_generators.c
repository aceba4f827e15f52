/* [generators] of a scenario: rejected settings, and rows that equal those of the rollout. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "sim/fits.h"
#include "sim/generate/generate.h"
#include "sim/sweep.h"
#include "tests/near.h"
#include "tests/refused.h"

#define EXACT 1e-9

#define USUAL                                                                 \
    "[scenario]\nsteps = 20\nwarmup = 5\n"                                    \
    "[generators]\ngpus = 8\ngenerator_gpus = 2\nprompts = 16\nanswers = 4\n" \
    "length_mean = 300\nlength_cap = 1000\ntoken_s = 0.01\nrequest_token_s = 0.0002\n"

/* A trainer whose update takes 1 s plus 6e-4 s per token on one GPU. */
#define KEYS USUAL "train_fixed_s = 1\ntrain_token_gpu_s = 0.0006\ncopy_s = 0.5\n"

static dl_status read_study(const char *text, dl_error *err)
{
    DL_SCOPED(dl_study) study = {0};
    dl_status status = dl_study_read_text(&study, "s.ini", text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(&study, err);
    return status;
}

static void settings_that_cannot_run_are_refused(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {USUAL "train_token_gpu_s = 1e-6\nboud = 3\n", DL_ERR_NAME, 14, "bound"},
        {"[scenario]\n[generators]\nprompts = 4\ngpus = 1\nlength_mean = 9\ntoken_s = 1\n"
         "train_token_gpu_s = 1\n",
         DL_ERR_RANGE, 4, "too few for both"},
        {KEYS "generator_gpus = 8\n", DL_ERR_PARSE, 16, "generator_gpus"},
        {KEYS "replica_gpus = 3\n", DL_ERR_RANGE, 16, "replicas cannot divide"},
        {KEYS "rule = installed\ncopy_every = 3\n", DL_ERR_RANGE, 4, "copy_every - 1 at least"},
        {KEYS "rule = ahead\ncopy_every = 3\nage_max = 1\n", DL_ERR_RANGE, 18,
         "copy_every - 1 at least"},
        {KEYS "rule = workers\n", DL_ERR_DATA, 4, "in_flight is missing"},
        {KEYS "rule = workers\nin_flight = 9\nbuffer = 3\n", DL_ERR_RANGE, 18, "fewer complete"},
        {KEYS "pause_s = 0.6\n", DL_ERR_RANGE, 16, "longer than the copy"},
        {KEYS "requeue = yes\n", DL_ERR_RANGE, 16, "nothing is discarded"},
        {KEYS "rates = 1:9, 1:10\n", DL_ERR_DATA, 16, "token_s is given too"},
        {KEYS "[workload]\nbatch = 4\n", DL_ERR_DATA, 17, "prompts times answers"},
        {USUAL, DL_ERR_DATA, 0, "costs"},
        {KEYS "on_policy_s = 9\n", DL_ERR_RANGE, 16, "train_token_gpu_s is given too"},
        {KEYS "on_policy_length = 9\n", DL_ERR_DATA, 4, "on_policy_s is missing"},
        {USUAL "on_policy_s = 9\nswitch_s = 9\n", DL_ERR_RANGE, 13, "not above switch_s"},
        {USUAL "on_policy_s = 9\non_policy_generation_frac = 1\n", DL_ERR_RANGE, 14, "0.999"},
    };
    assert_all_refused(cases, "s.ini", read_study);
}

static void run_rows(const char *text, dl_study *study, dl_sweep *sweep)
{
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 2};
    *study = (dl_study){0};
    if (dl_study_read_text(study, "s.ini", text, strlen(text), &err) != DL_OK ||
        dl_study_read_costs(study, &err) != DL_OK ||
        dl_sweep_run(sweep, study, &config, &err) != DL_OK)
        fail_msg("%s", err.text);
}

/* Lengths are equal, so on 8 GPUs generation takes 300 (0.01 + 8 x 0.0002) = 3.48 s of the 10, or
 * 6.96 if that is given; a quarter of the rest does not scale from 8 GPUs to 6. */
static void a_measured_update_is_split(void **state DL_UNUSED)
{
    static const char *const given[] = {"", "on_policy_generation_frac = 0.696\n"};
    static const double rest_s[] = {6.52, 3.04};
    for (int i = 0; i < 2; i++) {
        char text[1000];
        snprintf(text, sizeof text, "%s%s%s", USUAL "on_policy_s = 10\nlength_cv = 0\n", given[i],
                 "train_fixed_frac = 0.25\nplace = colocated, apart\n");
        DL_SCOPED(dl_study) study;
        DL_SCOPED(dl_sweep) sweep;
        run_rows(text, &study, &sweep);
        const dl_rollout_result *turns = sweep.rows[0].mean.rollout,
                                *apart = sweep.rows[1].mean.rollout;
        const double trains_s = apart->trainer_frac[DL_ROLLOUT_WORKING] * apart->update_s;
        assert_true(near_scaled(turns->update_s, 10, 10, EXACT));
        assert_true(near_scaled(trains_s, rest_s[i] * (0.25 + 0.75 * 8 / 6), 10, EXACT));
        assert_true(near_scaled(sweep.rows[1].speedup * apart->update_s, 10, 10, EXACT));
    }
}

/* The part that does not scale is assumed, with an interval, and limits the update: 3.48 s of 10
 * are generation, so the rest takes 6.52 to 6.52 x 4 / 3 s on 6 GPUs. */
static void what_does_not_scale_is_assumed(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study;
    DL_SCOPED(dl_sweep) sweep;
    run_rows(USUAL "on_policy_s = 10\nlength_cv = 0\n", &study, &sweep);
    assert_int_equal(study.variants[0].assumed.count, 1);
    const dl_row *row = &sweep.rows[0];
    assert_true(row->low_per_s < row->mean.throughput_per_s * 0.99);
    assert_true(row->high_per_s > row->mean.throughput_per_s * 1.01);
}

/* The trainer has 6 GPUs; on policy it has all 8, and no replica generates concurrently. */
static void rows_are_those_of_the_rollout(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study;
    DL_SCOPED(dl_sweep) sweep;
    run_rows(KEYS "bound = 0, 2\n", &study, &sweep);
    assert_int_equal(sweep.row_count, 2);
    for (int i = 0; i < 2; i++) {
        const dl_row *row = &sweep.rows[i];
        const dl_generators *g = study.variants[i].scenario.generators;
        dl_rollout_config c = dl_generators_rollout(g, false, 1, 0.0006 / 6);
        assert_int_equal(c.replicas, 2);
        assert_true(c.bound == (i == 0 ? 0 : 2) && c.pause_s == 0.5);
        c.updates = 20;
        c.warmup = 5;
        c.seed = 1;
        dl_rollout_result r;
        dl_rollout_ages ages;
        assert_true(dl_rollout_run(&c, NULL, &r, &ages));
        assert_true(row->mean.step_mean_s == r.update_s);
        assert_true(row->staleness_mean == r.age_mean);
        free(ages.counts);
        free(ages.update_s);
        dl_rollout_config on_policy = dl_generators_rollout(g, true, 1, 0.0006 / 8);
        on_policy.updates = 20;
        on_policy.warmup = 5;
        on_policy.seed = 1;
        assert_int_equal(on_policy.replicas, 8);
        assert_true(dl_rollout_run(&on_policy, NULL, &r, &ages));
        free(ages.counts);
        free(ages.update_s);
        assert_true(near_scaled(row->speedup, r.update_s / row->mean.step_mean_s, 1, EXACT));
    }
}

/* If the trainer runs the scenario's own step, the step takes as long as in a run without
 * generators: 6 GPUs with 64 x 4 x 400 / 1024 packed samples, in micro-batches of 8; and the time
 * per token is that of additional samples. */
static void the_trainer_is_the_scenarios_own_step(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) study;
    DL_SCOPED(dl_sweep) sweep;
    run_rows("[scenario]\nsteps = 4\nwarmup = 2\n[machine]\nfile = 8xh100\n"
             "[workload]\nmodel = gpt2\n"
             "[generators]\ngenerator_gpus = 2\nprompts = 64\nanswers = 4\nlength_mean = 300\n"
             "micro_batch = 8\ntoken_s = 0.002\nbound = 4\n",
             &study, &sweep);
    const dl_variant *variant = &study.variants[0];
    const dl_point *point = &variant->scenario.points[0];
    assert_int_equal(point->workers, 6);
    assert_string_equal(point->mode->name, "allreduce");
    assert_int_equal((int)point->option[DL_SYNC_ACCUMULATE], 3); /* 100 samples: 16.7 per GPU */
    assert_int_equal(point->batch, 6 * 3 * 8);
    dl_scenario scenario = variant->scenario;
    scenario.generators = NULL;
    dl_run_config config = {.scenario = &scenario, .costs = &variant->costs, .point = point};
    DL_SCOPED(dl_run_result) result = {0};
    assert_int_equal(dl_run(&config, &result, NULL), DL_OK);
    double fixed_s, token_s;
    config.scenario = &variant->scenario;
    assert_int_equal(dl_generate_trainer(&config, &variant->costs, 6, &fixed_s, &token_s, NULL),
                     DL_OK);
    assert_true(near_scaled(fixed_s + token_s * 144 * 1024, result.step_mean_s, 1e-9, 1e-6));
    assert_true(fixed_s > 0 && token_s > 0);
}

/* Ranks that divide the experts, like those that shard, have micro-batches of their own: of 16 x 4
 * packed samples of two workers of 4 ranks each rank has 8, in micro-batches of 2. */
static void ranks_with_experts_train_on_own_samples(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"ep=4", "fsdp=4", "ep=2,fsdp=2"};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        DL_SCOPED(dl_study) study = {0};
        dl_error err = {0};
        DL_AUTOFREE char *text = dl_format(
            "[scenario]\nsteps = 4\nwarmup = 2\n[machine]\nfile = 2xdgx_h100\nlayout = %s\n"
            "[workload]\nmodel = mixtral:fused=yes\n"
            "[generators]\ngenerator_gpus = 8\nprompts = 16\nanswers = 4\nlength_mean = 3996\n"
            "length_cap = 8192\nmicro_batch = 2\ntoken_s = 0.002\nbound = 4\n",
            layouts[i]);
        if (dl_study_read_text(&study, "s.ini", text, strlen(text), &err) != DL_OK)
            fail_msg("%s: %s", layouts[i], err.text);
        const dl_point *point = &study.variants[0].scenario.points[0];
        assert_int_equal(point->workers, 2);
        assert_int_equal((int)point->option[DL_SYNC_ACCUMULATE], 4);
        assert_int_equal(point->batch, 64);
        assert_true(dl_point_split(point).samples == 2);
    }
}

/* Llama 3 70B has 70.55e9 parameters, 141.1 GB in 16 bits, and keys and values of 2 x 80 layers x 8
 * heads x 128 x 2 bytes = 327,680 bytes per token: a request of 16384 tokens has 5.4 GB, one of
 * 65536 21.5 GB, one of a million 328 GB. An H100 has 85.6 GB, of which 90 % are 77 GB: two have
 * 154 GB, four 308. */
static void replicas_hold_weights_and_a_request(void **state DL_UNUSED)
{
    static const struct {
        const char *keys, *remedy;
    } cases[] = {
        {"replica_gpus = 1\nlength_cap = 16384\n", "generators.replica_gpus=2"},
        {"replica_gpus = 1\nlength_cap = 65536\n", "generators.replica_gpus=4"},
        {"replica_gpus = 2\nlength_cap = 65536\n", "generators.replica_gpus=4"},
        {"replica_gpus = 1\nlength_cap = 1e6\n", "no generators.replica_gpus"},
        {"replica_gpus = 2\nlength_cap = 16384\n", NULL},
        {"replica_gpus = 1\nlength_cap = 16384\ntoken_s = 0.01\n", NULL}, /* measured */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        DL_SCOPED(dl_study) study;
        DL_SCOPED(dl_sweep) sweep;
        snprintf(text, sizeof text, "%s%s",
                 "[scenario]\nsteps = 2\nwarmup = 1\n[machine]\nfile = 8xh100\n"
                 "[workload]\nmodel = llama3_70b\n[generators]\ngenerator_gpus = 4\nprompts = 4\n"
                 "length_mean = 4000\ntrain_token_gpu_s = 1e-4\n",
                 cases[i].keys);
        run_rows(text, &study, &sweep);
        const dl_row *row = &sweep.rows[0];
        const dl_scenario *scenario = &study.variants[0].scenario;
        dl_error err = {0};
        DL_AUTOFREE char *remedy = dl_generate_remedy(scenario);
        if (cases[i].remedy == NULL) {
            assert_null(row->error);
            assert_null(remedy);
        } else {
            assert_non_null(strstr(row->error, "a GPU of a generator needs"));
            assert_non_null(strstr(remedy, cases[i].remedy));
            assert_int_equal(dl_fits_check(&study, &sweep, &err), DL_ERR_UNFIT);
            assert_non_null(strstr(err.text, cases[i].remedy));
        }
    }
}

/* The note's other arithmetic equals a run in that arithmetic: the trainer's step, its exchange in
 * other types, and its generators, which limit it. */
static void another_arithmetic_is_its_own_run(void **state DL_UNUSED)
{
    static const char text[] =
        "[scenario]\nsteps = 10\nwarmup = 2\n[machine]\nfile = 8xh100\nlayout = fsdp=2\n"
        "[workload]\nmodel = gpt2\n%s"
        "[generators]\ngenerator_gpus = 2\nprompts = 64\nanswers = 4\nlength_mean = 2000\n"
        "length_cap = 4000\nbound = 2\n";
    double per_s[2], note = (double)NAN;
    for (int fp32 = 0; fp32 < 2; fp32++) {
        char own[1000];
        DL_SCOPED(dl_study) study;
        DL_SCOPED(dl_sweep) sweep;
        snprintf(own, sizeof own, text, fp32 ? "arithmetic = fp32\n" : "");
        run_rows(own, &study, &sweep);
        per_s[fp32] = sweep.rows[0].mean.throughput_per_s;
        for (size_t i = 0; i < sweep.influence_count && !fp32; i++) {
            const dl_influence *influence = &sweep.influences[i];
            if (influence->kind == DL_INFLUENCE_ASSUMPTION &&
                strcmp(influence->assumption->other, "fp32") == 0 &&
                strcmp(influence->assumption->key->name, "arithmetic") == 0)
                note = influence->at_low;
        }
    }
    assert_true(near_scaled(1 + note, per_s[1] / per_s[0], 1, EXACT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_that_cannot_run_are_refused),
        cmocka_unit_test(rows_are_those_of_the_rollout),
        cmocka_unit_test(a_measured_update_is_split),
        cmocka_unit_test(what_does_not_scale_is_assumed),
        cmocka_unit_test(the_trainer_is_the_scenarios_own_step),
        cmocka_unit_test(ranks_with_experts_train_on_own_samples),
        cmocka_unit_test(replicas_hold_weights_and_a_request),
        cmocka_unit_test(another_arithmetic_is_its_own_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
