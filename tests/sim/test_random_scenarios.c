/* Random scenarios; checks properties that hold for all of them. The seed of a scenario that
 * violates a property is printed with its text. */
#include "tests/sim_fixture.h"

#include <stdlib.h>

#include "common/random.h"
#include "sim/sweep.h"

enum { SCENARIOS = 300, TEXT_BYTES = 2048 };

/* A random scenario. */
typedef struct made {
    int seed;
    dl_random random;
    int cores, workers, gradients; /* per update */
    const char *mode;
    double bandwidth;
    bool noisy;
    char costs[TEXT_BYTES], scenario[TEXT_BYTES];
} made;

/* A log-uniform number between low and high. */
static double spread(made *m, double low, double high)
{
    return low * pow(high / low, dl_random_uniform(&m->random));
}

static int below(made *m, int end)
{
    return (int)dl_random_below(&m->random, (uint64_t)end);
}

static void make_costs(made *m)
{
    dl_random_init(&m->random, (uint64_t)m->seed, 0, 0, 1);
    snprintf(m->costs, sizeof m->costs,
             "[costs]\nschema = 1\nparameter_bytes = %.0f\nstate_bytes = 0\n"
             "[op a.forward]\nfixed_ns = %.0f\nper_sample_ns = %.0f\n"
             "[op a.backward]\nfixed_ns = %.0f\nper_sample_ns = %.0f\n"
             "[op a.update]\nfixed_ns = %.0f\nper_sample_ns = 0\n"
             "[copy]\nlatency_ns = %.0f\nbandwidth_bytes_per_s = %.17g\n"
             "[average]\nlatency_ns = %.0f\nread_bytes_per_s = %.0f\nwrite_bytes_per_s = %.0f\n"
             "[update]\nlatency_ns = %.0f\nread_bytes_per_s = %.0f\nwrite_bytes_per_s = %.0f\n"
             "[memory]\ntotal_bytes_per_s = 1e12\n"
             "[sync]\nbarrier_ns = %.0f\nlock_ns = %.0f\nwakeup_ns = %.0f\nslice_ns = %.0f\n"
             "[sharing]\ncopies_2 = %.3f\n",
             spread(m, 1e3, 1e7), spread(m, 1e3, 1e6), spread(m, 1e2, 1e5), spread(m, 1e3, 1e6),
             spread(m, 1e2, 1e5), spread(m, 1e2, 1e6), spread(m, 10, 1e4), m->bandwidth,
             spread(m, 10, 1e4), spread(m, 1e8, 1e10), spread(m, 1e8, 1e10), spread(m, 10, 1e4),
             spread(m, 1e8, 1e10), spread(m, 1e8, 1e10), spread(m, 10, 1e4), spread(m, 10, 1e3),
             spread(m, 10, 1e5), spread(m, 1e5, 1e7), 1 + 0.5 * dl_random_uniform(&m->random));
}

static void make_scenario(made *m, int cores, int workers, const char *mode)
{
    char option[32] = "";
    if (strcmp(mode, "average") == 0) snprintf(option, sizeof option, "interval = 4\n");
    if (strcmp(mode, "softsync") == 0) {
        snprintf(option, sizeof option, "n = %d\n", workers / m->gradients);
    }
    snprintf(m->scenario, sizeof m->scenario,
             "[scenario]\nsteps = 24\nseed = %d\nreplicates = 2\n[machine]\ncores = %d\n"
             "workers = %d\n[workload]\ncosts = c\nbatch_per_worker = 8\n[sync]\nmode = %s\n%s"
             "[noise]\n%s\n",
             m->seed, cores, workers, mode, option,
             m->noisy ? "kind = gamma\nsigma = 0.3" : "kind = none");
}

static void make(made *m, int seed)
{
    static const char *const modes[] = {"none", "allreduce", "ps", "average", "async", "softsync"};
    *m = (made){.seed = seed};
    dl_random_init(&m->random, (uint64_t)seed, 0, 0, 0);
    m->mode = modes[below(m, 6)];
    m->cores = 1 + below(m, 4);
    m->gradients = 1 + below(m, 3);
    m->workers = m->gradients * (1 + below(m, 3));
    m->bandwidth = spread(m, 1e8, 1e10);
    m->noisy = below(m, 2) == 1;
    make_costs(m);
    make_scenario(m, m->cores, m->workers, m->mode);
}

#define holds(m, expr)                                                                           \
    do {                                                                                         \
        if (!(expr)) fail_msg("seed %d: %s\n%s%s", (m)->seed, #expr, (m)->costs, (m)->scenario); \
    } while (0)

static dl_run_result run(const made *m)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(m->costs);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario("%s", m->scenario);
    dl_run_result result = {0};
    dl_error err = {0};
    const dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = &scenario.points[0]};
    if (dl_run(&config, &result, &err) != DL_OK) fail_msg("seed %d: %s", m->seed, err.text);
    return result;
}

static double throughput(const made *m)
{
    DL_SCOPED(dl_run_result) result = run(m);
    return result.throughput_per_s;
}

static double staleness_mean(const dl_run_result *result)
{
    double sum = 0, count = 0;
    for (int i = 0; i < result->workers * result->staleness_bins; i++) {
        count += (double)result->staleness[i];
        sum += (double)result->staleness[i] * (i % result->staleness_bins);
    }
    return count > 0 ? sum / count : 0;
}

static void shares_of_the_time_are_whole(void **state DL_UNUSED)
{
    for (int seed = 0; seed < SCENARIOS; seed++) {
        made m;
        make(&m, seed);
        DL_SCOPED(dl_run_result) result = run(&m);
        double sum = 0;
        for (int part = 0; part < DL_PART_COUNT; part++) {
            holds(&m, result.part_frac[part] >= -1e-12);
            sum += result.part_frac[part];
        }
        holds(&m, fabs(sum - 1) < 1e-9);
        holds(&m, result.throughput_per_s > 0 && isfinite(result.throughput_per_s));
        holds(&m, result.applied_frac >= 0 && result.applied_frac <= 1);
        holds(&m, result.tail_frac >= 0 && result.tail_frac < 1);
    }
}

/* A worker's gradients are read in sequence, so each update is counted at most once per worker, and
 * not for the gradients in it: with c gradients per update and w workers, the mean is at most (w -
 * 1) / c. */
static void mean_staleness_has_a_bound(void **state DL_UNUSED)
{
    int seen = 0;
    for (int seed = 0; seed < SCENARIOS; seed++) {
        made m;
        make(&m, seed);
        const bool soft = strcmp(m.mode, "softsync") == 0;
        if (!soft && strcmp(m.mode, "async") != 0) continue;
        DL_SCOPED(dl_run_result) result = run(&m);
        const double bound = (m.workers - 1) / (double)(soft ? m.gradients : 1);
        holds(&m, staleness_mean(&result) <= bound + 1e-9);
        seen += staleness_mean(&result) > 0;
    }
    assert_true(seen > 10);
}

/* Without exchange and noise, the throughput of w workers on c cores is at most min(c, w) times
 * that of one. */
static void cores_do_not_multiply(void **state DL_UNUSED)
{
    for (int seed = 0; seed < SCENARIOS; seed++) {
        made m;
        make(&m, seed);
        m.noisy = false;
        m.gradients = 1;
        make_scenario(&m, m.cores, m.workers, "none");
        const double several = throughput(&m);
        make_scenario(&m, m.cores, 1, "none");
        const int most = m.cores < m.workers ? m.cores : m.workers;
        holds(&m, several <= most * throughput(&m) * (1 + 1e-9));
    }
}

/* For workers with a core each that meet at each exchange. */
static void slower_links_are_never_faster(void **state DL_UNUSED)
{
    static const char *const modes[] = {"allreduce", "ps", "average"};
    for (int seed = 0; seed < SCENARIOS; seed++) {
        made m;
        make(&m, seed);
        m.noisy = false;
        make_scenario(&m, m.workers, m.workers, modes[seed % 3]);
        const double fast = throughput(&m);
        m.bandwidth /= 2;
        make_costs(&m);
        holds(&m, throughput(&m) <= fast * (1 + 1e-9));
    }
}

static void threads_do_not_matter(void **state DL_UNUSED)
{
    for (int seed = 0; seed < SCENARIOS / 10; seed++) {
        made m;
        make(&m, seed);
        DL_SCOPED(dl_costs) costs = fixture_costs(m.costs);
        DL_SCOPED(dl_scenario) scenario = fixture_scenario("%s", m.scenario);
        dl_variant variant;
        const dl_study study = fixture_study(&variant, &scenario, &costs);
        dl_sweep sweeps[2] = {{0}};
        dl_error err = {0};
        for (int i = 0; i < 2; i++) {
            const dl_sweep_config config = {.threads = 1 + 2 * i};
            if (dl_sweep_run(&sweeps[i], &study, &config, &err) != DL_OK) fail_msg("%s", err.text);
        }
        const dl_row *one = &sweeps[0].rows[0], *three = &sweeps[1].rows[0];
        holds(&m, one->mean.throughput_per_s == three->mean.throughput_per_s);
        holds(&m, memcmp(&one->speedup, &three->speedup, sizeof one->speedup) == 0); /* NaN too */
        holds(&m,
              memcmp(one->mean.part_frac, three->mean.part_frac, sizeof one->mean.part_frac) == 0);
        for (int i = 0; i < 2; i++)
            dl_sweep_free(&sweeps[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_the_time_are_whole),
        cmocka_unit_test(mean_staleness_has_a_bound),
        cmocka_unit_test(cores_do_not_multiply),
        cmocka_unit_test(slower_links_are_never_faster),
        cmocka_unit_test(threads_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
