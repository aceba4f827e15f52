/* Bytes moved and updates: exact in each mode. n = 6 workers, 48 steps each, no noise; B bytes of
 * parameters. A copy reads and writes (2 B), an average or update of v vectors moves (v + 1) B. */
#include "tests/oracles/oracles.h"

enum { N = 6, STEPS = 48, BYTES = 8000 };

void oracles_amounts(void)
{
    static const struct {
        const char *mode, *sync;
        double updates, units; /* in total; in total, in units of B */
    } cases[] = {
        {"none", "", 0, 0},
        {"allreduce", "", STEPS, STEPS * (N + 1 + 2 * N)},
        {"ps", "server_threads = 3\n", STEPS, STEPS * (2 * N + N + 1 + 2 * N)},
        {"average", "interval = 4\n", STEPS / 4, STEPS / 4 * (2 * N + N + 1 + 2 * N)},
        {"async", "", N * STEPS, N * STEPS * (2 + 2 + 2)},
        {"ssp", "bound = 1\n", N * STEPS, N * STEPS * (2 + 2 + 2)},
        {"softsync", "n = 2\n", N * STEPS / 3, N * STEPS * (2 + 2) + N * STEPS / 3 * (3 + 1)},
        {"kasync", "k = 2\n", N * STEPS / 2, N * STEPS * (2 + 2) + N * STEPS / 2 * (2 + 1)},
        {"kbatchasync", "k = 9\n", N * STEPS / 9, N * STEPS * (2 + 2) + N * STEPS / 9 * (9 + 1)},
        {"ksync", "k = 6\n", STEPS, STEPS * (2 * N + N + 1 + 2 * N)},
        {"easgd", "interval = 4\n", N * STEPS / 4, N * STEPS / 4 * (2 + 2 + 3 + 3)},
        {"bmuf", "interval = 4\n", STEPS / 4, STEPS / 4 * (2 * N + N + 1 + 4 + 3 + 2 * N)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result r =
            fixture_run_mode(FIXTURE_COSTS, cases[i].mode, N, N, STEPS, cases[i].sync, "");
        oracle_near(cases[i].updates, (double)r.updates, 0, "%s: updates", cases[i].mode);
        oracle_near(cases[i].units * BYTES, r.usage.traffic_bytes, 1e-12 * cases[i].units * BYTES,
                    "%s: bytes read and written", cases[i].mode);
        dl_run_result_free(&r);
    }
}
