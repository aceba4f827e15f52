/* Bytes moved and updates on GPUs: exact in each mode, on one PCIe box and on two nodes. n = 4
 * workers, 48 steps each, no noise; B bytes of parameters. What moves are pushes and pulls of B
 * each (fp16: pushes of B / 2), and 2 (n - 1) B of a ring. */
#include "tests/gpu_fixture.h"
#include "tests/oracles/oracles.h"

#define TWO_NODES "gpus = 0, 2, 4, 6\n"

enum { N = 4, STEPS = 48, BYTES = 80000 };

typedef struct amounts {
    const char *what, *sections;
    double updates, units; /* in all; units of B in all */
} amounts;

static const amounts cases[] = {
    {"none", "[sync]\nmode = none\n", 0, 0},
    {"allreduce", "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n", STEPS,
     STEPS * 2 * (N - 1)},
    {"allreduce in buckets",
     "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\nbucket_bytes = 30000\n", STEPS,
     STEPS * 2 * (N - 1)},
    {"ps", "[sync]\nmode = ps\n", STEPS, STEPS * 2 * N},
    {"ps, 2 shards", "[sync]\nmode = ps\n[exchange]\nshards = 2\n", STEPS, STEPS * 2 * N},
    {"ps, fp16", "[sync]\nmode = ps\n[exchange]\ncompress = fp16\n", STEPS, STEPS * 1.5 * N},
    {"ps, lag 1", "[sync]\nmode = ps\nlag = 1\n", STEPS, STEPS * 2 * N},
    {"average", "[sync]\nmode = average\ninterval = 4\n", STEPS / 4, STEPS / 4 * 2 * N},
    {"average by all-reduce",
     "[sync]\nmode = average\nwhere = allreduce\ninterval = 4\n[exchange]\nalgorithm = ring\n",
     STEPS / 4, STEPS / 4 * 2 * (N - 1)},
    {"ksync", "[sync]\nmode = ksync\nk = 4\n", STEPS, STEPS * 2 * N},
    {"bmuf", "[sync]\nmode = bmuf\ninterval = 4\n", STEPS / 4, STEPS / 4 * 2 * N},
};

static void check(const amounts *c, const char *where, const char *machine)
{
    dl_run_result r =
        fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, machine, N, STEPS, c->sections);
    oracle_near(c->updates, (double)r.updates, 0, "%s on %s: updates", c->what, where);
    oracle_near(c->units * BYTES, r.usage.traffic_bytes, 1e-9 * c->units * BYTES,
                "%s on %s: bytes moved", c->what, where);
    dl_run_result_free(&r);
}

/* Workers that do not wait for each other end when the first one has done its steps. A gradient is
 * pushed and pulled for; those since the last update count for none, fewer than its c. */
typedef struct free_mode {
    const char *what, *sections;
    int gradients; /* of an update: c */
} free_mode;

static const free_mode free_modes[] = {
    {"async", "[sync]\nmode = async\n", 1},
    {"ssp", "[sync]\nmode = ssp\nbound = 1\n", 1},
    {"softsync", "[sync]\nmode = softsync\nn = 2\n", 2},
    {"kasync", "[sync]\nmode = kasync\nk = 2\n", 2},
    {"kbatchasync", "[sync]\nmode = kbatchasync\nk = 6\n", 6},
};

static void check_free(const free_mode *m, const char *where, const char *machine)
{
    dl_run_result r =
        fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, machine, N, STEPS, m->sections);
    const double applied = oracle_staleness_of(&r, -1).count;
    oracle_near(applied / m->gradients, (double)r.updates, 0, "%s on %s: updates", m->what, where);
    oracle_near(applied * 2 * BYTES, r.usage.traffic_bytes, (m->gradients - 1) * 2.0 * BYTES,
                "%s on %s: bytes moved", m->what, where);
    dl_run_result_free(&r);
}

static void check_easgd(const char *where, const char *machine)
{
    dl_run_result r = fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, machine, N, STEPS,
                                       "[sync]\nmode = easgd\ninterval = 4\n");
    oracle_near((double)r.updates * 2 * BYTES, r.usage.traffic_bytes, 0, "easgd on %s: bytes moved",
                where);
    dl_run_result_free(&r);
}

void oracles_gpus(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(&cases[i], "a PCIe box", "");
        check(&cases[i], "two nodes", TWO_NODES);
    }
    for (size_t i = 0; i < sizeof free_modes / sizeof *free_modes; i++) {
        check_free(&free_modes[i], "a PCIe box", "");
        check_free(&free_modes[i], "two nodes", TWO_NODES);
    }
    check_easgd("a PCIe box", "");
    check_easgd("two nodes", TWO_NODES);
}
