/* On machines that come with the program, without noise and overlap: neither more bytes, nor
 * slower links, nor one more GPU at an equal batch per GPU shortens a step. Exceptions for one
 * more GPU: collectives on NVLink, as the new GPU may bring links that the previous ring could
 * not use; hierarchical ones, which need equal numbers of GPUs on all nodes; and shards on two
 * nodes, whose traffic goes in both directions: the closer their numbers of GPUs, the fewer
 * copies share a link. */
#include "common/random.h"
#include "tests/sim_fixture.h"

static const char *const machines[] = {"z10pe_2x1080ti", "p2.8xlarge",      "gce_k80_8",
                                       "dgx1_v100",      "t4_4x4_ethernet", "dgx_a100"};
static const char *const exchanges[] = {
    "mode = ps\n",
    "mode = ps\nwhere = gpu:0\n",
    "mode = average\nwhere = cpu\ninterval = 2\nserver_threads = 2\n",
    "mode = allreduce\n[exchange]\nalgorithm = ring\n",
    "mode = allreduce\n[exchange]\nbucket_bytes = 3000000\n",
    "mode = ps\n[exchange]\nshards = 2\ncompress = fp16\n",
    "mode = ps\n[exchange]\nbucket_bytes = 3000000\nsum = on_arrival\nfetch = after\n",
    "mode = ps\n[exchange]\nbucket_bytes = 3000000\nfetch = layers\norder = forward\n",
    "mode = ps\n[exchange]\nbucket_bytes = 3000000\nfetch = next_step\norder = together\n",
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Each worker has `samples` of 0.1 ms. */
static double step_of_s(const char *machine, const char *exchange, int workers, double parameters,
                        double slower, int samples)
{
    char costs_text[1024];
    snprintf(costs_text, sizeof costs_text,
             "[costs]\nschema = 1\nparameter_bytes = %.0f\n"
             "[op a.forward]\nfixed_ns = 1000000\nper_sample_ns = 100000\n"
             "[average]\nlatency_ns = 900\nread_bytes_per_s = 1e10\nwrite_bytes_per_s = 8e9\n"
             "[update]\nlatency_ns = 900\nread_bytes_per_s = 1e10\nwrite_bytes_per_s = 8e9\n"
             "[sync]\nbarrier_ns = 1000\n"
             "[dispatch]\nserial_ns = 100000\nper_worker_ns = 50000\n",
             parameters);
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = 8\n[machine]\nfile = " DL_MACHINES "/%s.ini\n"
                         "workers = %d\ndispatch = single\n"
                         "[workload]\ncosts = c.ini\nbatch_per_worker = %d\n[sync]\n%s",
                         machine, workers, samples, exchange);
    for (int l = 0; l < scenario.gpu->links.per_node; l++)
        scenario.gpu->links.kinds[0].capacity[l] /= slower;
    DL_SCOPED(dl_run_result) result = fixture_run(&costs, &scenario);
    double mean_s = result.step_mean_s;
    dl_scenario_free(&scenario);
    return mean_s;
}

static double step_s(const char *machine, const char *exchange, int workers, double parameters,
                     double slower)
{
    return step_of_s(machine, exchange, workers, parameters, slower, 4);
}

static int gpus_of(const char *machine)
{
    dl_scenario s = fixture_scenario("[machine]\nfile = " DL_MACHINES "/%s.ini\nworkers = 1\n"
                                     "[workload]\ncosts = c.ini\nbatch = 1\n",
                                     machine);
    int count = dl_gpu_options_count(s.gpu);
    dl_scenario_free(&s);
    return count < 8 ? count : 8;
}

/* Rates are doubles and times whole ns: a step of 8 has several rounding errors. */
static void assert_no_shorter(double later_s, double before_s, const char *machine,
                              const char *exchange, const char *what)
{
    if (later_s < before_s * (1 - 1e-5)) {
        fail_msg("%s, %s %s: %g s, but %g s before", machine, exchange, what, later_s, before_s);
    }
}

static void more_never_shortens_a_step(void **state DL_UNUSED)
{
    for (size_t m = 0; m < COUNT(machines); m++) {
        const int gpus = gpus_of(machines[m]);
        for (size_t e = 0; e < COUNT(exchanges); e++) {
            double before_s = 0;
            for (int n = 1; n <= gpus; n++) {
                double now_s = step_s(machines[m], exchanges[e], n, 8e6, 1);
                char what[32];
                snprintf(what, sizeof what, "%d GPUs", n);
                bool is_reduced = strstr(exchanges[e], "allreduce") != NULL;
                bool is_ring = strstr(exchanges[e], "ring") != NULL;
                bool has_nvlink = strncmp(machines[m], "dgx", 3) == 0;
                bool is_unequal = strstr(exchanges[e], "shards") != NULL &&
                                  strcmp(machines[m], "t4_4x4_ethernet") == 0;
                if (!is_unequal && (!is_reduced || (is_ring && !has_nvlink))) {
                    assert_no_shorter(now_s, before_s, machines[m], exchanges[e], what);
                }
                before_s = now_s;
            }
            assert_no_shorter(step_s(machines[m], exchanges[e], gpus, 9e6, 1), before_s,
                              machines[m], exchanges[e], "more bytes");
            assert_no_shorter(step_s(machines[m], exchanges[e], gpus, 8e6, 1.5), before_s,
                              machines[m], exchanges[e], "slower links");
        }
    }
}

/* The same for random parameters, batches, numbers of GPUs and rates. */
static void more_never_shortens_a_random_step(void **state DL_UNUSED)
{
    dl_random random;
    dl_random_init(&random, 5, 0, 0, 0);
    for (int i = 0; i < 300; i++) {
        const char *machine = machines[(size_t)(COUNT(machines) * dl_random_uniform(&random))];
        const char *exchange = exchanges[(size_t)(COUNT(exchanges) * dl_random_uniform(&random))];
        const int workers = 1 + (int)(gpus_of(machine) * dl_random_uniform(&random));
        const double bytes = floor(1e4 * pow(1e5, dl_random_uniform(&random)));
        const double factor = 1.001 * pow(20, dl_random_uniform(&random));
        const double slower = 0.1 * pow(100, dl_random_uniform(&random));
        const int samples = 1 + (int)(50 * dl_random_uniform(&random));
        const double before_s = step_of_s(machine, exchange, workers, bytes, slower, samples);
        char what[96];
        snprintf(what, sizeof what, "%d GPUs, %g bytes, links 1/%g, x %g", workers, bytes, slower,
                 factor);
        assert_no_shorter(
            step_of_s(machine, exchange, workers, ceil(bytes * factor), slower, samples), before_s,
            machine, exchange, what);
        assert_no_shorter(step_of_s(machine, exchange, workers, bytes, slower * factor, samples),
                          before_s, machine, exchange, what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(more_never_shortens_a_step),
                                       cmocka_unit_test(more_never_shortens_a_random_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
