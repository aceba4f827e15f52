/* Models split over GPUs. s stages of equal layers, which take f = 1 ms forward and b = 2 ms
 * backward per micro-batch; nothing else takes time unless a row says so; m micro-batches, 20
 * steps.
 *
 *   step                 (m + s - 1)(f + b), in either schedule
 *   bubble               (s - 1) / (m + s - 1)
 *   crossings            2 (s - 1) x samples x bytes per sample, in both directions
 *   all-reduce (ring)    2 (n - 1) P for each stage's P, so also for the whole model's */
#include "tests/gpu_fixture.h"
#include "tests/oracles/oracles.h"

enum { STEPS = 20, LAYERS = 4, PARAMETERS = 80000 };
#define F 1e-3
#define B 2e-3

/* Writes costs of layers a, b, c, d with `fixed` and `sample` ns forward, and twice that
 * backward. */
static char *costs_of(char text[4096], double fixed, double sample, const char *bytes)
{
    size_t used = (size_t)snprintf(
        text, 4096, "[costs]\nschema = 1\nparameter_bytes = %d\nstate_bytes = 0\n", PARAMETERS);
    for (int l = 0; l < LAYERS; l++) {
        used += (size_t)snprintf(text + used, 4096 - used,
                                 "[op %c.forward]\nfixed_ns = %g\nper_sample_ns = %g\n"
                                 "[op %c.backward]\nfixed_ns = %g\nper_sample_ns = %g\n"
                                 "[layer %c]\noutput_bytes_per_sample = %s\nparameter_bytes = %d\n",
                                 'a' + l, fixed, sample, 'a' + l, 2 * fixed, 2 * sample, 'a' + l,
                                 bytes, PARAMETERS / LAYERS);
    }
    snprintf(text + used, 4096 - used, FIXTURE_FREE_DISPATCH);
    return text;
}

/* Runs `batch` samples per worker in m micro-batches; with `free`, crossings take no time. */
static dl_run_result run(bool free, const char *costs_text, int workers, int stages, int m,
                         int batch, const char *schedule, const char *rest)
{
    char path[64];
    snprintf(path, sizeof path, "pipeline_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = %d\n[machine]\nfile = %s\nworkers = %d\n[workload]\ncosts = c\n"
        "batch_per_worker = %d\n[pipeline]\nstages = %d\nmicro_batches = %d\nschedule = %s\n%s",
        STEPS, path, workers, batch, stages, m, schedule, rest);
    unlink(path);
    scenario.pipeline->options.without_activations = free;
    return fixture_run(&costs, &scenario);
}

/* Each layer is a stage, or two layers share one, so that f and b are those of a stage. */
static void check_schedules(void)
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    char text[4096];
    for (int k = 0; k < 2; k++) {
        for (int s = 2; s <= 4; s += 2) {
            for (int m = 1; m <= 16; m *= 4) {
                costs_of(text, F * 1e9 * s / LAYERS, 0, "0");
                DL_SCOPED(dl_run_result) r = run(true, text, 1, s, m, m, schedules[k], "");
                const double step_s = (m + s - 1) * (F + B);
                oracle_near(step_s, r.step_mean_s, 1e-12 * step_s,
                            "%s, %d stages, %d micro-batches: step", schedules[k], s, m);
                oracle_near((s - 1.0) / (m + s - 1), r.part_frac[DL_PART_WAITING], 1e-12,
                            "%s, %d stages, %d micro-batches: bubble", schedules[k], s, m);
            }
        }
    }
}

/* Without overlap a step is the sum of the stages. The fixed part is counted m times. */
static void check_sums(void)
{
    char text[4096];
    costs_of(text, 1e5, 1e4, "0");
    for (int m = 1; m <= 8; m *= 2) {
        dl_run_result r = run(true, text, 1, 2, m, 8, "gpipe", "");
        const double pass_s = 2 * (1e-4 + 8.0 / m * 1e-5);
        oracle_near((m + 1) * 3 * pass_s, r.step_mean_s, 1e-15,
                    "2 stages, 8 samples in %d micro-batches: step", m);
        dl_run_result_free(&r);
    }
    dl_run_result r = run(true, text, 1, 4, 1, 8, "gpipe", "");
    oracle_near(4 * 3 * (1e-4 + 8e-5), r.step_mean_s, 1e-15, "naive split into 4: step");
    oracle_near(0.75, r.part_frac[DL_PART_WAITING], 1e-12, "naive split into 4: bubble");
    dl_run_result_free(&r);
}

/* Crossings of 10 MB over links of 10 GB/s and two edges of 100 ns, passes of 0.2 and 0.4 us: the
 * backward crossings start when all forward ones have arrived, and the period is the crossing's
 * time. */
static void check_slow_links(void)
{
    char text[4096];
    costs_of(text, 1e2, 0, "1e7");
    const int m = 8;
    DL_SCOPED(dl_run_result) one = run(false, text, 1, 2, m, m, "gpipe", "");
    const double crossing_s = 1e-3 + 2e-7;
    oracle_near(2 * m * crossing_s, one.step_mean_s, 5e-6, "slow links: step of 2 m crossings");
    oracle_near(0.5, one.usage.link_frac, 1e-3, "slow links: utilisation of each direction");
}

/* Replicas and stages: bytes are exact in all of them. */
static void check_bytes(void)
{
    static const struct {
        int workers, stages, m;
    } cases[] = {{1, 2, 4}, {2, 2, 4}, {4, 2, 1}, {2, 4, 2}, {1, 4, 8}};
    char text[4096];
    costs_of(text, 1e4, 1e3, "500");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int n = cases[i].workers, s = cases[i].stages, batch = 8;
        DL_SCOPED(dl_run_result) r =
            run(false, text, n, s, cases[i].m, batch, "1f1b",
                "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n");
        const double crossing = 2.0 * (s - 1) * 500 * batch * n;
        const double exchange = 2.0 * (n - 1) * PARAMETERS;
        oracle_near(crossing, r.split->crossed_bytes, 1e-9 * crossing,
                    "%d x %d stages, %d micro-batches: bytes crossing", n, s, cases[i].m);
        oracle_near(exchange, r.split->reduced_bytes, 1e-9 * exchange,
                    "%d x %d stages, %d micro-batches: bytes exchanged", n, s, cases[i].m);
        oracle_near(STEPS, (double)r.updates, 0, "%d x %d stages, %d micro-batches: updates", n, s,
                    cases[i].m);
    }
}

void oracles_pipeline(void)
{
    check_schedules();
    check_sums();
    check_slow_links();
    check_bytes();
}
