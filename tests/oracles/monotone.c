/* Without noise, more bytes or less bandwidth never shorten a step, nor does one more worker at an
 * equal batch per worker if there are enough cores: checked over random costs. This holds for:
 *
 *   - Modes in which all wait for all: also with shared memory. (allreduce: n workers write 1/n of
 *     the average each, so one more shortens the writing; here writing is free when workers are
 *     added.)
 *   - Modes in which workers do not wait for one another: only with memory bandwidth for all. If
 *     they share it, the copies that coincide with the lock depend on the workers' phases, and a
 *     longer copy can shift these: async was seen to gain up to 0.8 %, easgd 8 %.
 *   - ksync, kasync, kbatchsync: not at all, as the first k depend on every duration. kbatchasync:
 *     not for one more worker, which helps to compute the k gradients.
 *
 * A run has STEPS steps, and its ends may shift by a step. */
#include "common/random.h"
#include "tests/oracles/oracles.h"

typedef struct costs {
    double compute_ns, bytes, copy, read, write, memory; /* bandwidths in bytes per second */
    double latency_ns, lock_ns;
} costs;

typedef struct system_config {
    const char *mode, *sync;
    int workers;
    costs costs;
} system_config;

enum { STEPS = 400, DRAWS = 40 };

static double step_s(const system_config *system)
{
    const costs *c = &system->costs;
    char text[2048];
    snprintf(text, sizeof text,
             "[costs]\nschema = 1\nparameter_bytes = %.0f\nstate_bytes = %.0f\n"
             "[op a.forward]\nfixed_ns = %.0f\nper_sample_ns = 0\n"
             "[copy]\nlatency_ns = %g\nbandwidth_bytes_per_s = %g\n"
             "[average]\nlatency_ns = %g\nread_bytes_per_s = %g\nwrite_bytes_per_s = %g\n"
             "[update]\nlatency_ns = %g\nread_bytes_per_s = %g\nwrite_bytes_per_s = %g\n"
             "[memory]\ntotal_bytes_per_s = %g\n"
             "[sync]\nbarrier_ns = %g\nlock_ns = %g\n[sharing]\ncopies_2 = 1\n",
             c->bytes, c->bytes, c->compute_ns, c->latency_ns, c->copy, c->latency_ns, c->read,
             c->write, c->latency_ns, c->read, c->write, c->memory, 2 * c->lock_ns, c->lock_ns);
    dl_run_result r = fixture_run_mode(text, system->mode, system->workers, system->workers, STEPS,
                                       system->sync, "");
    double seconds = r.step_mean_s;
    dl_run_result_free(&r);
    return seconds;
}

static double between(dl_random *random, double low, double high)
{
    return low * pow(high / low, dl_random_uniform(random));
}

static costs draw(dl_random *random)
{
    return (costs){.compute_ns = floor(between(random, 1e4, 1e7)),
                   .bytes = floor(between(random, 1e3, 1e7)),
                   .copy = between(random, 1e9, 2e10),
                   .read = between(random, 1e9, 2e10),
                   .write = between(random, 1e9, 2e10),
                   .memory = between(random, 2e9, 1e11),
                   .latency_ns = between(random, 1, 1e4),
                   .lock_ns = between(random, 1, 1e4)};
}

/* Returns the fraction by which a change that must not shorten the step shortens it. */
static double shortened(const system_config *before, const system_config *after)
{
    return fmax(0, 1 - step_s(after) / step_s(before));
}

void oracles_monotone(void)
{
    static const struct {
        const char *mode, *sync;
        bool shares_memory, needs_k;
    } modes[] = {{"allreduce", "", true, false},
                 {"ps", "server_threads = 2\n", true, false},
                 {"average", "interval = 3\n", true, false},
                 {"bmuf", "", true, false},
                 {"async", "", false, false},
                 {"ssp", "bound = 1\n", false, false},
                 {"softsync", "n = 1\n", false, false},
                 {"kbatchasync", "k = 3\n", false, true},
                 {"easgd", "interval = 3\n", false, false}};
    dl_random random;
    dl_random_init(&random, 11, 0, 0, 0);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        double worst = 0, worst_worker = 0;
        for (int i = 0; i < DRAWS; i++) {
            system_config system = {modes[m].mode, modes[m].sync,
                                    2 + (int)(5 * dl_random_uniform(&random)), draw(&random)};
            if (!modes[m].shares_memory) system.costs.memory = 1e15;
            double factor = between(&random, 1.01, 10);
            system_config changed[5] = {system, system, system, system, system};
            changed[0].costs.bytes = floor(system.costs.bytes * factor) + 1;
            changed[1].costs.copy /= factor;
            changed[2].costs.read /= factor;
            changed[3].costs.write /= factor;
            changed[4].costs.memory /= factor;
            for (int c = 0; c < 5; c++)
                worst = fmax(worst, shortened(&system, &changed[c]));
            if (strcmp(modes[m].mode, "allreduce") == 0) system.costs.write = 1e15;
            system_config more = system;
            more.workers++;
            worst_worker = fmax(worst_worker, shortened(&system, &more));
        }
        oracle_at_most(1.0 / STEPS, worst, "%s: largest gain by more bytes, less bandwidth",
                       modes[m].mode);
        if (modes[m].needs_k) continue;
        oracle_at_most(1.0 / STEPS, worst_worker, "%s: largest gain by one worker more",
                       modes[m].mode);
    }
}
