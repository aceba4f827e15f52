/* Calibration of compute with a measured step. A step of the fixture takes 1 + 0.1 ms of
 * compute; an all-reduce of 80 kB between two GPUs of a switch takes 2 (0.2 us + 40 kB / 10
 * GB/s) = 8.4 us. */
#include "sim/scenario/calibrate.h"

#include "tests/gpu_fixture.h"

#define COSTS "calibrate_costs.ini"
#define MACHINE "calibrate_machine.ini"

static dl_status try_study(dl_study *study, const char *machine, const char *workload,
                           const char *rest, dl_error *err)
{
    char text[1024];
    fixture_write(MACHINE, FIXTURE_GPUS);
    fixture_write(COSTS, FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH);
    snprintf(text, sizeof text,
             "[scenario]\nsteps = 20\n[machine]\nfile = " MACHINE "\n%s[workload]\ncosts = " COSTS
             "\nbatch_per_worker = 1\n%s[sync]\nmode = allreduce\n%s",
             machine, workload, rest);
    *study = (dl_study){0};
    dl_status status = dl_study_read_text(study, "s.ini", text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(study, err);
    unlink(MACHINE);
    unlink(COSTS);
    return status;
}

static dl_study read_study(const char *machine, const char *workload, const char *rest)
{
    dl_study study;
    dl_error err = {0};
    if (try_study(&study, machine, workload, rest, &err) != DL_OK) fail_msg("%s", err.text);
    return study;
}

/* Returns the step of the variant's point p, in ms. */
static double step_ms(const dl_study *study, size_t variant, size_t p)
{
    const dl_variant *v = &study->variants[variant];
    const dl_run_config config = {
        .scenario = &v->scenario, .costs = &v->costs, .point = &v->scenario.points[p]};
    DL_SCOPED(dl_run_result) result = {0};
    assert_int_equal(dl_run(&config, &result, NULL), DL_OK);
    return 1e3 * result.step_mean_s;
}

/* One worker: factor 2.2 / 1.1 = 2; two workers then take 2.2 + 0.0084 ms. The exchange is not
 * scaled. */
static void the_fewest_workers_were_measured(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) s = read_study("workers = 2, 1\n", "calibrate = 2.2 ms\n", "");
    const dl_calibrate *c = &s.variants[0].calibrated;
    assert_near(c->factor, 2, 1e-5);
    assert_true(c->workers == 1 && c->samples == 1);
    assert_near(step_ms(&s, 0, 1), 2.2, 1e-5);
    assert_near(step_ms(&s, 0, 0), 2.2084, 1e-4);
}

/* Measured with two workers, which the scenario has or lacks: factor (2.2084 - 0.0084) / 1.1 =
 * 2. */
static void other_workers_were_measured(void **state DL_UNUSED)
{
    static const char *const machines[] = {"workers = 1, 2\n", "workers = 1, 4\n"};
    for (int m = 0; m < 2; m++) {
        DL_SCOPED(dl_study) s = read_study(machines[m], "calibrate = 2.2084ms@2\n", "");
        assert_near(s.variants[0].calibrated.factor, 2, 1e-4);
    }
}

/* With a list of another key, the first value was measured, 2.2084 ms without overlap; its factor
 * also applies to the second. */
static void variants_share_the_factor_of_the_first(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) s = read_study("workers = 2\n", "calibrate = 2.2084 ms\n",
                                       "[exchange]\noverlap = no, yes\nbucket_bytes = 40000\n");
    assert_int_equal(s.variant_count, 2);
    assert_near(s.variants[0].calibrated.factor, 2, 1e-2);
    assert_true(s.variants[1].calibrated.factor == s.variants[0].calibrated.factor);
    assert_near(step_ms(&s, 0, 0), 2.2084, 1e-4);
    assert_true(step_ms(&s, 1, 0) < 2.2084);
}

static void a_factor_is_applied(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) s = read_study("workers = 1\n", "calibrate = 2\n", "");
    assert_near(step_ms(&s, 0, 0), 2.2, 1e-5);
}

/* Studies derived from this one, as by the advice, take the factor instead of determining it
 * again. */
static void the_text_gets_the_factor(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) s = read_study("workers = 1\n", "calibrate = 2.2 ms\n", "");
    DL_SCOPED(dl_study) again = {0};
    fixture_write(MACHINE, FIXTURE_GPUS);
    fixture_write(COSTS, FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH);
    assert_int_equal(dl_study_read_text(&again, "s.ini", s.text, strlen(s.text), NULL), DL_OK);
    assert_int_equal(dl_study_read_costs(&again, NULL), DL_OK);
    unlink(MACHINE);
    unlink(COSTS);
    assert_near(again.variants[0].scenario.calibrate.factor, 2, 1e-5);
    assert_true(again.variants[0].calibrated.step_ns == 2.2e6);
    assert_true(again.variants[0].calibrated.workers == 1 &&
                again.variants[0].calibrated.samples == 1);
    assert_near(again.variants[0].calibrated.factor, 2, 1e-5);
    assert_near(step_ms(&again, 0, 0), 2.2, 1e-5);
}

/* The measured step replaces the spread of estimated costs. */
static void the_spread_of_the_estimate_is_gone(void **state DL_UNUSED)
{
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        char text[512];
        DL_SCOPED(dl_study) s = {0};
        snprintf(text, sizeof text,
                 "[machine]\nfile = 2xa100\nworkers = 1\n[workload]\nmodel = resnet50\n"
                 "arithmetic = fp32\nbatch_per_worker = 32\n%s[sync]\nmode = none\n",
                 calibrated ? "calibrate = 100 ms\n" : "");
        assert_int_equal(dl_study_read_text(&s, "s.ini", text, strlen(text), NULL), DL_OK);
        assert_int_equal(dl_study_read_costs(&s, NULL), DL_OK);
        assert_true((dl_variant_compute_log(&s.variants[0]) > 0) == !calibrated);
    }
}

/* Messages of sharded vectors have assumed types; the measured step includes them. */
static void a_step_of_a_layout_is_met(void **state DL_UNUSED)
{
    static const char text[] =
        "[scenario]\nsteps = 20\n[machine]\nfile = 8xa100\nworkers = 1\nlayout = "
        "fsdp=8\n[workload]\n"
        "model = gpt2_xl:fused=yes\nbatch_per_worker = 16\ncalibrate = 600 ms\n"
        "[sync]\nmode = none\n";
    DL_SCOPED(dl_study) s = {0};
    dl_error err = {0};
    if (dl_study_read_text(&s, "s.ini", text, strlen(text), &err) != DL_OK ||
        dl_study_read_costs(&s, &err) != DL_OK)
        fail_msg("%s", err.text);
    assert_near(step_ms(&s, 0, 0), 600, 1e-3);
}

static void what_cannot_be_is_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *value, *text;
        dl_status code;
    } cases[] = {
        {"5.6 ms", "with compute 5 times the estimate, the most", DL_ERR_RANGE},
        {"0.2 ms", "with compute 0.2 times the estimate, the least", DL_ERR_RANGE},
        {"8 us@2", "without any computing the step takes 8.4", DL_ERR_RANGE},
        {"1 ms@16", "has 8 GPUs", DL_ERR_RANGE},
        {"6", "a factor, from 0.2 to 5", DL_ERR_RANGE},
        {"2.2 ms@1x1=6", "a factor, from 0.2 to 5", DL_ERR_RANGE},
        {"80@8", "expected a measured step", DL_ERR_PARSE},
        {"soon", "expected a measured step", DL_ERR_PARSE},
        {"0 ms", "more than 0 s", DL_ERR_RANGE},
        {"1 ms@0", "0 is not in", DL_ERR_RANGE},
        {"1 ms@2x", "number", DL_ERR_PARSE},
        {"1 MB", "unit", DL_ERR_NAME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_study s;
        dl_error err = {0};
        char line[80];
        snprintf(line, sizeof line, "calibrate = %s\n", cases[i].value);
        const dl_status status = try_study(&s, "workers = 1\n", line, "", &err);
        dl_study_free(&s);
        if (status != cases[i].code || strstr(err.text, cases[i].text) == NULL)
            fail_msg("%s: %d, %s", cases[i].value, (int)status, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fewest_workers_were_measured),
        cmocka_unit_test(other_workers_were_measured),
        cmocka_unit_test(variants_share_the_factor_of_the_first),
        cmocka_unit_test(a_factor_is_applied),
        cmocka_unit_test(the_text_gets_the_factor),
        cmocka_unit_test(the_spread_of_the_estimate_is_gone),
        cmocka_unit_test(a_step_of_a_layout_is_met),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
