#include "tests/gpu_fixture.h"

#include <stdlib.h>

#include "sim/report/notes.h"
#include "sim/scenario/known_gpus.h"
#include "sim/sweep.h"

#define NODE "scaling_node.ini"   /* GPU g: 1 Tflop/s, 100 GB/s */
#define SOURCE "scaling_from.ini" /* GPU k80: 0.25 Tflop/s, 50 GB/s */
#define COSTS "scaling_costs.ini"

static const char *const from_text =
    "[machine]\nschema = 1\nname = from\npeer = none\n[gpu_model k80]\nmemory_bytes = 1MB\n"
    "memory_bytes_per_s = 50GB/s\nfp32_flop_per_s = 0.25Tflop/s\nfp16_flop_per_s = 1Tflop/s\n"
    "[link x16]\nbytes_per_s = 1GB/s\nlatency_ns = 0\n[host]\nmemory_bytes_per_s = 1GB/s\n"
    "[gpus 0]\nmodel = k80\nparent = socket0\nlink = x16\n";

/* Reads a study with costs of `device`, with `more` lines and dispatch of 1 ms. */
static dl_status read_study(dl_study *study, const char *device, const char *more,
                            const char *workload, dl_error *err)
{
    char text[2048];
    snprintf(text, sizeof text,
             "[costs]\nschema = 1\ndevice = %s\n[op a.forward]\nfixed_ns = 1e6 +- 1e4, fitted\n"
             "per_sample_ns = 2e6, fitted\n%s[op a.update]\nfixed_ns = 1e6, measured\n"
             "per_sample_ns = 0\n[op dispatch]\nfixed_ns = 1e6\nper_sample_ns = 0\n"
             "[op input]\nfixed_ns = 10\nper_sample_ns = 0\n[input]\nbytes_per_sample = 0\n"
             "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n",
             device, more);
    fixture_write(COSTS, text);
    fixture_write(NODE, FIXTURE_GPUS);
    fixture_write(SOURCE, from_text);
    snprintf(text, sizeof text,
             "[scenario]\nsteps = 20\n[machine]\nfile = " NODE "\nworkers = 1\n[workload]\n"
             "costs = " COSTS "\nbatch = 4\n%s",
             workload);
    dl_status status = dl_study_read_text(study, "s.ini", text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(study, err);
    remove(COSTS);
    remove(NODE);
    remove(SOURCE);
    if (status != DL_OK) dl_study_free(study);
    return status;
}

static dl_study study_of(const char *device, const char *more, const char *workload)
{
    dl_study study = {0};
    dl_error err = {0};
    if (read_study(&study, device, more, workload, &err) != DL_OK) fail_msg("%s", err.text);
    return study;
}

static void devices_are_known_by_their_words(void **state DL_UNUSED)
{
    assert_true(dl_device_is_gpu("K80, one GK210 die", "k80"));
    assert_true(dl_device_is_gpu("Tesla V100-SXM2-16GB", "v100"));
    assert_true(dl_device_is_gpu("NVIDIA H100 80GB HBM3", "h100"));
    assert_true(dl_device_is_gpu("GTX 1080 Ti", "gtx1080ti"));
    assert_true(dl_device_is_gpu("NVIDIA GeForce GTX 1080 Ti", "gtx1080ti"));
    assert_true(dl_device_is_gpu("NVIDIA A100-SXM4-80GB", "a100_80gb"));
    assert_true(dl_device_is_gpu("NVIDIA H100 PCIe", "h100_pcie"));
    assert_false(dl_device_is_gpu("NVIDIA A100-SXM4-40GB", "a100_80gb"));
    assert_false(dl_device_is_gpu("NVIDIA H100 80GB HBM3", "h100_pcie"));
    assert_false(dl_device_is_gpu("GTX 1080 Ti", "gtx1080"));
    assert_false(dl_device_is_gpu("GTX 1080", "gtx1080ti"));
    assert_false(dl_device_is_gpu("P40", "p4"));
    assert_false(dl_device_is_gpu("AMD EPYC, as slow as a k80", "k80"));
    assert_false(dl_device_is_gpu("", "k80"));
}

/* Arithmetic is 4 times and memory twice as fast: 4^(3/4) 2^(1/4) = 2^(7/4); updates 2, dispatch
 * 1. */
static void times_scale_by_rates(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) s = study_of("K80, one die", "", "scale_compute = " SOURCE "\n");
    const dl_costs *costs = &s.variants[0].costs;
    const double factor = pow(2, -1.75);
    assert_true(s.variants[0].scaling.scaled);
    assert_near(costs->ops[0].fixed_ns.value, 1e6 * factor, 1e-12);
    assert_near(costs->ops[0].fixed_ns.error, 1e4 * factor, 1e-12);
    assert_near(costs->ops[0].per_sample_ns.value, 2e6 * factor, 1e-12);
    assert_int_equal(costs->ops[0].per_sample_ns.origin, DL_ORIGIN_ASSUMED);
    assert_near(costs->ops[1].fixed_ns.value, 5e5, 1e-12);
    assert_near(costs->ops[2].fixed_ns.value, 1e6, 1e-12);
}

/* 1 Mflop and 1 kB are limited by arithmetic on both GPUs (1/4); 1 kflop and 1 MB by memory (1/2);
 * 1 Mflop and 150 kB by arithmetic on the first (4 us against 3), by memory on the second (1
 * against 1.5). */
static void known_work_follows_its_bound(void **state DL_UNUSED)
{
    static const struct {
        const char *work;
        double factor;
    } cases[] = {{"flop_per_sample = 1e6\nbytes_per_sample = 1e3\n", 0.25},
                 {"flop_per_sample = 1e3\nbytes_per_sample = 1e6\n", 0.5},
                 {"flop_per_sample = 1e6\nbytes_per_sample = 150e3\n", 1.5 / 4}};
    for (size_t i = 0; i < 3; i++) {
        DL_SCOPED(dl_study) s = study_of("K80", cases[i].work, "scale_compute = " SOURCE "\n");
        assert_near(s.variants[0].costs.ops[0].fixed_ns.value, 1e6 * cases[i].factor, 1e-12);
    }
}

static double step_s(const char *device, const char *workload, dl_row *row)
{
    DL_SCOPED(dl_study) s = study_of(device, "", workload);
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 2};
    if (dl_sweep_run(&sweep, &s, &config, &err) != DL_OK) fail_msg("%s", err.text);
    const double step = sweep.rows[0].mean.step_mean_s;
    *row = sweep.rows[0];
    return step;
}

/* Forward 9 ms x 2^(-7/4), update 0.5 ms, which hide the host's 1 ms. The interval covers 2.77
 * times as long and as short, except for the host. */
static void results_have_the_interval_of_scaling(void **state DL_UNUSED)
{
    dl_row row;
    const double work_s = 9e-3 * pow(2, -1.75) + 0.5e-3;
    assert_near(step_s("K80", "scale_compute = " SOURCE "\n", &row), work_s, 0.02);
    assert_int_equal(row.origin, DL_ORIGIN_ASSUMED);
    assert_near(row.low_per_s, 4 / (work_s * exp(DL_SCALING_SPREAD)), 0.02);
    assert_near(row.high_per_s, 4 / fmax(1e-3, work_s * exp(-DL_SCALING_SPREAD)), 0.05);
    assert_near(step_s("g", "scale_compute = " SOURCE "\n", &row), 10e-3, 0.02);
    assert_true(isnan(row.low_per_s));
}

/* The costs of the machine's own GPU are not scaled, whatever other GPUs the file has. */
static void costs_of_the_own_gpu_stay(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) s = {0};
    dl_error err = {0};
    assert_int_equal(read_study(&s, "Q9", "", "scale_compute = " SOURCE "\n", &err), DL_ERR_DATA);
    assert_contains(err.text, "Q9");
    s = study_of("g", "", "");
    assert_false(s.variants[0].scaling.differs);
}

static void assert_note(const dl_study *s, const char *text, bool there)
{
    DL_SCOPED(dl_notes) notes = {0};
    bool found = false;
    dl_study_notes(&notes, s, DL_NOTES_ALL);
    for (size_t i = 0; i < notes.count; i++)
        found |= strstr(notes.lines[i], text) != NULL;
    if (found != there) fail_msg("note '%s': %s", text, found ? "is there" : "is not there");
}

/* Without a file the GPU is searched in all machines: a k80 has 4.365 Tflop/s and 240 GB/s, the
 * machine's GPU 1 and 100. If there is no such GPU, or the scenario forbids scaling, times are
 * unchanged. */
static void gpus_are_looked_up(void **state DL_UNUSED)
{
    static const struct {
        const char *device, *workload, *why_not;
    } cases[] = {{"Q9", "", "no known machine has such a GPU"},
                 {"K80", "scale = no\n", "scale = no"},
                 {"K80", "scale_compute = " SOURCE "\nscale = no\n", "scale = no"}};
    dl_study s = study_of("K80, one die", "", "");
    const double factor = pow(4.365, 0.75) * pow(2.4, 0.25);
    assert_true(s.variants[0].scaling.scaled);
    assert_near(s.variants[0].costs.ops[0].fixed_ns.value, 1e6 * factor, 1e-12);
    assert_near(s.variants[0].costs.ops[1].fixed_ns.value, 2.4e6, 1e-12);
    dl_study_free(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s = study_of(cases[i].device, "", cases[i].workload);
        assert_true(s.variants[0].scaling.differs);
        assert_contains(s.variants[0].scaling.why_not, cases[i].why_not);
        assert_near(s.variants[0].costs.ops[0].fixed_ns.value, 1e6, 1e-12);
        dl_study_free(&s);
    }
    /* In no machine file, but in the table: 13.45 Tflop/s, 616 GB/s. */
    s = study_of("NVIDIA GeForce RTX 2080 Ti", "", "");
    assert_string_equal(s.variants[0].scaling.from, "rtx2080ti");
    assert_near(s.variants[0].scaling.update_factor, 6.16, 1e-12);
    dl_study_free(&s);
}

/* If several names match the device, the longest is used: one is a prefix of the other. */
static void the_longest_name_counts(void **state DL_UNUSED)
{
    dl_gpu_model model;
    assert_true(dl_known_gpu("Tesla P100-PCIE-16GB", &model));
    assert_string_equal(model.name, "p100_pcie");
    free(model.name);
    assert_true(dl_known_gpu("Tesla P100-SXM2-16GB", &model));
    assert_string_equal(model.name, "p100");
    free(model.name);
    assert_true(dl_known_gpu("NVIDIA A100 80GB PCIe", &model));
    assert_string_equal(model.name, "a100_80gb_pcie");
    free(model.name);
    assert_false(dl_known_gpu("not stated", &model));
}

static dl_study costs_on(const char *device, const char *machine)
{
    char text[512];
    snprintf(text, sizeof text,
             "[costs]\nschema = 1\ndevice = %s\nparameter_bytes = 4e6\n[op a.forward]\n"
             "fixed_ns = 1 ms\nper_sample_ns = 0\n[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n",
             device);
    fixture_write(COSTS, text);
    snprintf(text, sizeof text,
             "[scenario]\nsteps = 2\n[machine]\nfile = %s\nworkers = 1\n[workload]\ncosts = %s\n"
             "batch = 4\n[sync]\nmode = none\n",
             machine, COSTS);
    dl_study study = {0};
    dl_error err = {0};
    if (dl_study_read_text(&study, "s.ini", text, strlen(text), &err) != DL_OK ||
        dl_study_read_costs(&study, &err) != DL_OK) {
        fail_msg("%s: %s", err.file, err.text);
    }
    remove(COSTS);
    return study;
}

/* GPUs with equal rates are not scaled, whatever their memory. For the same chip the interval
 * extends from the limit of arithmetic to that of memory, here of two a100: 1 and 1555 / 2039 of
 * the time. */
static void variants_of_a_chip_scale_narrowly(void **state DL_UNUSED)
{
    dl_study s = costs_on("NVIDIA A100-SXM4-80GB", "8xa100_80gb");
    assert_false(s.variants[0].scaling.scaled || s.variants[0].scaling.differs);
    dl_study_free(&s);
    s = costs_on("Tesla V100-SXM2-32GB", "8xv100");
    assert_false(s.variants[0].scaling.scaled || s.variants[0].scaling.differs);
    dl_study_free(&s);
    s = costs_on("NVIDIA A100-SXM4-40GB", "8xa100_80gb");
    const double memory = 1555.0 / 2039, factor = pow(memory, 0.25);
    assert_true(s.variants[0].scaling.scaled);
    assert_near(s.variants[0].scaling.compute_factor, factor, 1e-9);
    assert_near(dl_variant_compute_log(&s.variants[0]), log(factor / memory), 1e-9);
    dl_study_free(&s);
    s = costs_on("NVIDIA H100 PCIe", "8xh100");
    assert_string_equal(s.variants[0].scaling.from, "h100_pcie");
    assert_true(dl_variant_compute_log(&s.variants[0]) < DL_SCALING_SPREAD);
    dl_study_free(&s);
}

/* Notes mention another GPU's costs and unknown figures, which make all results assumed. */
static void notes_tell_what_is_taken_for_granted(void **state DL_UNUSED)
{
    dl_row row;
    dl_study s = study_of("K80", "", "scale = no\n");
    assert_true(s.variants[0].scaling.differs);
    assert_note(&s, "is of K80, not of g", true);
    assert_note(&s, "[gpu_memory] workspace_bytes", true);
    assert_note(&s, "[input] bytes_per_sample", false);
    dl_study_free(&s);
    step_s("K80", "scale = no\n", &row);
    assert_int_equal(row.origin, DL_ORIGIN_ASSUMED);
    s = study_of("K80", "", "scale_compute = " SOURCE "\n");
    assert_note(&s, "scaled from k80 to g: x 0.297 (update x 0.5", true);
    assert_note(&s, "is of K80, not", false);
    dl_study_free(&s);
}

/* Notes mention batches with unknown size and time to make them, which are not free. */
static void unknown_input_is_told(void **state DL_UNUSED)
{
    fixture_write(COSTS, FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH
                  "[gpu_memory]\nactivation_bytes_per_sample = 0\nworkspace_bytes = 0\n");
    fixture_write(NODE, FIXTURE_GPUS);
    static const char text[] =
        "[machine]\nfile = " NODE "\nworkers = 1\n[workload]\ncosts = " COSTS "\nbatch = 4\n";
    DL_SCOPED(dl_study) s = {0};
    assert_int_equal(dl_study_read_text(&s, "s.ini", text, sizeof text - 1, NULL), DL_OK);
    assert_int_equal(dl_study_read_costs(&s, NULL), DL_OK);
    assert_note(&s, "[op input], [input] bytes_per_sample", true);
    assert_note(&s, "[gpu_memory]", false);
    remove(COSTS);
    remove(NODE);
}

/* On a GPU that computes for 1 ms per micro-batch and updates for 0.1 ms: batches are made on
 * separate cores and do not shorten a host's launches, and each micro-batch is launched. */
static void a_host_that_bounds_is_told(void **state DL_UNUSED)
{
    static const struct {
        const char *launch, *input, *accumulate, *note;
    } cases[] = {
        {"2e6", "0", "1", "takes it 2.00 ms ([dispatch] per_worker_ns in " COSTS},
        {"2e6", "20e6", "1", "the GPU computes for 1.10 ms (batch 4)"},
        {"1.05e6", "20e6", "1", NULL},
        {"2e6", "20e6", "4", "takes it 8.00 ms (4 times [dispatch] per_worker_ns in " COSTS},
        {"1.05e6", "0", "4", "the GPU computes for 4.10 ms (batch 4)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 0\nper_worker_ns = %s, measured\n"
                                   "[op input]\nfixed_ns = %s\nper_sample_ns = 0\n"
                                   "[op dispatch]\nfixed_ns = 1e6\nper_sample_ns = 0\n",
                 cases[i].launch, cases[i].input);
        fixture_write(COSTS, text);
        fixture_write(NODE, FIXTURE_GPUS);
        snprintf(text, sizeof text,
                 "[machine]\nfile = " NODE "\nworkers = 1\n[workload]\ncosts = " COSTS
                 "\nbatch = 4\n[sync]\naccumulate = %s\n[input]\ncores = 4\n",
                 cases[i].accumulate);
        DL_SCOPED(dl_study) s = {0};
        dl_error err = {0};
        if (dl_study_read_text(&s, "s.ini", text, strlen(text), &err) != DL_OK ||
            dl_study_read_costs(&s, &err) != DL_OK)
            fail_msg("%s", err.text);
        const bool bounds = cases[i].note != NULL;
        assert_note(&s, bounds ? cases[i].note : "the host bounds steps", bounds);
        remove(COSTS);
        remove(NODE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_known_by_their_words),
        cmocka_unit_test(times_scale_by_rates),
        cmocka_unit_test(known_work_follows_its_bound),
        cmocka_unit_test(results_have_the_interval_of_scaling),
        cmocka_unit_test(costs_of_the_own_gpu_stay),
        cmocka_unit_test(gpus_are_looked_up),
        cmocka_unit_test(the_longest_name_counts),
        cmocka_unit_test(variants_of_a_chip_scale_narrowly),
        cmocka_unit_test(notes_tell_what_is_taken_for_granted),
        cmocka_unit_test(unknown_input_is_told),
        cmocka_unit_test(a_host_that_bounds_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
