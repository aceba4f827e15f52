/* n-softsync of 30 learners (Zhang, Gupta, Lian & Liu 2016): the mean staleness is about n, a
 * staleness above 2 n occurs in less than 0.01 % of the gradients, and with 1-softsync it is only
 * 0, 1 or 2. The server is serial: it sums, updates, and serves one pull at a time. Here it is busy
 * for 0.72 ms per ms of computing (update 16 us, pull 8 us), and computing times vary by 10 %
 * (gamma). In that study workers read before their own update counts, which gives n; here it is
 * (workers - 1) / gradients per update (tests/oracles/staleness.c). */
#include "tests/oracles/oracles.h"

enum { LEARNERS = 30, STEPS = 5000 };

void oracles_softsync(void)
{
    static const int splits[] = {1, 2, 5, 15, 30};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        const int n = splits[i], gradients = LEARNERS / n;
        char sync[40];
        snprintf(sync, sizeof sync, "n = %d\n", n);
        dl_run_result r = fixture_run_mode(FIXTURE_COSTS, "softsync", LEARNERS, LEARNERS, STEPS,
                                           sync, "[noise]\nkind = gamma\nsigma = 0.1\n");
        oracle_staleness s = oracle_staleness_of(&r, -1);
        double expected = (LEARNERS - 1) / (double)gradients;
        oracle_near(expected, s.mean, LEARNERS * (LEARNERS + gradients) / s.count,
                    "%d-softsync, 30 learners: mean staleness", n);
        oracle_near(n, s.mean, 0.1 * n, "%d-softsync, 30 learners: about n", n);
        oracle_at_most(1e-4, oracle_staleness_from(&r, 2 * n + 1),
                       "%d-softsync, 30 learners: fraction above 2 n", n);
        if (n == 1) oracle_at_most(2, s.max, "1-softsync, 30 learners: largest");
        dl_run_result_free(&r);
    }
}
