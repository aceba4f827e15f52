/* Reasons for an efficiency above 1, which are shown beside the speedup. */
#include "tests/pipeline_fixture.h"

#include "sim/sweep.h"
#include "tests/machine_fixture.h"

/* 1.1 ms of passes for one sample and 1.5 ms of update. */
#define COSTS                                                      \
    "[costs]\nschema = 1\nparameter_bytes = 80000\n"               \
    "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"       \
    "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 100000\n" \
    "[op a.update]\nfixed_ns = 1500000\nper_sample_ns = 0\n"       \
    "[dispatch]\nserial_ns = 0\nper_worker_ns = 1\n"
/* In a batch of eight, each sample takes twice as long. */
#define CACHES                                                \
    "[costs]\nschema = 1\ncores = 2\nparameter_bytes = 8\n"   \
    "[op a.forward]\nfixed_ns = 0\nper_sample_ns = 1000000\n" \
    "[linearity]\nbatch_1 = 1\nbatch_4 = 1\nbatch_8 = 2\n"    \
    "[sharing]\ncopies_1 = 1\ncopies_2 = 1\n"

static void each_above_one_has_its_reason(void **state DL_UNUSED)
{
    static const struct {
        const char *costs, *rest, *reason; /* NULL: the efficiency is not above 1 */
        double least, most;                /* bounds of the efficiency */
    } cases[] = {
        /* The step takes 2.6 ms; without its update 1.1 ms plus the exchange. */
        {COSTS,
         "[machine]\nfile = above_node.ini\nworkers = 2\n[workload]\ncosts = above.ini\n"
         "batch_per_worker = 1\n[sync]\nmode = ps\n",
         "the server updates", 1.5, 2.4},
        /* With half of the update: 1.85 ms plus the exchange. */
        {COSTS,
         "[machine]\nfile = above_node.ini\nworkers = 2\n[workload]\ncosts = above.ini\n"
         "batch_per_worker = 1\n[sync]\nmode = allreduce\n[exchange]\nsharded = optimizer\n",
         "sharded", 1.2, 1.41},
        /* 4 ms for 4 samples per worker, 16 ms for 8. */
        {CACHES,
         "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = above.ini\nbatch = 8\n"
         "[sync]\nmode = none\n",
         "smaller batches", 1.9, 2.01},
        {CACHES,
         "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = above.ini\n"
         "batch_per_worker = 4\n[sync]\nmode = none\n",
         NULL, 0.9, 1.001},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600];
        DL_SCOPED(dl_study) study = {0};
        DL_SCOPED(dl_sweep) sweep = {0};
        dl_error err = {0};
        const dl_sweep_config config = {.threads = 1, .no_influences = true};
        fixture_write("above.ini", cases[i].costs);
        fixture_write("above_node.ini", FIXTURE_GPUS);
        snprintf(text, sizeof text, "[scenario]\nsteps = 40\n%s", cases[i].rest);
        if (dl_study_read_text(&study, "s.ini", text, strlen(text), &err) != DL_OK ||
            dl_study_read_costs(&study, &err) != DL_OK ||
            dl_sweep_run(&sweep, &study, &config, &err) != DL_OK) {
            fail_msg("%zu: %s", i, err.text);
        }
        const dl_row *row = &sweep.rows[0];
        if (!(row->efficiency > cases[i].least && row->efficiency < cases[i].most))
            fail_msg("%zu: efficiency %g", i, row->efficiency);
        if (cases[i].reason == NULL) {
            assert_null(row->above);
        } else {
            assert_non_null(row->above);
            assert_contains(row->above, cases[i].reason);
        }
    }
    remove("above.ini");
    remove("above_node.ini");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_above_one_has_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
