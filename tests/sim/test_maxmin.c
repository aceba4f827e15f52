#include "tests/check.h"

#include <math.h>

#include "common/random.h"
#include "tests/sim/maxmin.h"

enum { A, B, C };

static void assert_rate(const dl_maxmin *system, int flow, double expected)
{
    if (fabs(system->rate[flow] - expected) > 1e-9 * expected) {
        fail_msg("flow %d: %.12g, not %.12g", flow, system->rate[flow], expected);
    }
}

/* Two flows on a link of 10: 5 each; with weights 3 and 1: 7.5 and 2.5; with a cap of 2 on the
 * first: 2 and 8. */
static void two_flows_share_a_link(void **state DL_UNUSED)
{
    static const struct {
        double weight, cap, first, second;
    } cases[] = {{1, INFINITY, 5, 5}, {3, INFINITY, 7.5, 2.5}, {1, 2, 2, 8}, {3, 2, 2, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_maxmin system;
        dl_maxmin_init(&system, 1, 2, 2);
        int link = dl_maxmin_add_link(&system, 10);
        dl_maxmin_add_flow(&system, cases[i].weight, cases[i].cap, &link, 1);
        dl_maxmin_add_flow(&system, 1, INFINITY, &link, 1);
        dl_maxmin_solve(&system);
        assert_rate(&system, 0, cases[i].first);
        assert_rate(&system, 1, cases[i].second);
        dl_maxmin_free(&system);
        dl_maxmin_free(&system);
    }
}

/* The header's example: A 10, B 4; flows A, AB, B: 8, 2, 2. With a cap of 3 on the first: 3, 2, 2.
 */
static void worked_example(void **state DL_UNUSED)
{
    static const int over_a[] = {A}, over_both[] = {A, B}, over_b[] = {B};
    DL_SCOPED(dl_maxmin) system;
    dl_maxmin_init(&system, 2, 3, 4);
    dl_maxmin_add_link(&system, 10);
    dl_maxmin_add_link(&system, 4);
    for (int capped = 0; capped < 2; capped++) {
        dl_maxmin_clear_flows(&system);
        dl_maxmin_add_flow(&system, 1, capped ? 3 : INFINITY, over_a, 1);
        dl_maxmin_add_flow(&system, 1, INFINITY, over_both, 2);
        dl_maxmin_add_flow(&system, 1, INFINITY, over_b, 1);
        dl_maxmin_solve(&system);
        assert_rate(&system, 0, capped ? 3 : 8);
        assert_rate(&system, 1, 2);
        assert_rate(&system, 2, 2);
    }
}

static void a_flow_without_links_has_its_cap(void **state DL_UNUSED)
{
    DL_SCOPED(dl_maxmin) system;
    dl_maxmin_init(&system, 0, 2, 0);
    dl_maxmin_add_flow(&system, 1, 7, NULL, 0);
    dl_maxmin_add_flow(&system, 2, 3, NULL, 0);
    dl_maxmin_solve(&system);
    assert_rate(&system, 0, 7);
    assert_rate(&system, 1, 3);
}

/* Checks that an allocation is max-min fair: no link exceeds its capacity, and each flow is at its
 * cap or crosses a full link on which no other flow has more per weight (Bertsekas & Gallager). */
static void assert_fair(const dl_maxmin *system)
{
    for (int l = 0; l < system->links; l++) {
        double sum = 0;
        for (int f = 0; f < system->flows; f++) {
            for (int u = system->first_use[f]; u < system->first_use[f + 1]; u++) {
                if (system->use_link[u] == l) sum += system->rate[f];
            }
        }
        assert_true(sum <= system->capacity[l] * (1 + 1e-9));
    }
    for (int f = 0; f < system->flows; f++) {
        bool bound = system->rate[f] >= system->cap[f] * (1 - 1e-9);
        for (int u = system->first_use[f]; u < system->first_use[f + 1]; u++) {
            int l = system->use_link[u];
            double sum = 0, most = 0;
            for (int g = 0; g < system->flows; g++) {
                for (int v = system->first_use[g]; v < system->first_use[g + 1]; v++) {
                    if (system->use_link[v] != l) continue;
                    sum += system->rate[g];
                    most = fmax(most, system->rate[g] / system->weight[g]);
                }
            }
            bool full = sum >= system->capacity[l] * (1 - 1e-9);
            bound |= full && system->rate[f] / system->weight[f] >= most * (1 - 1e-9);
        }
        if (!bound) fail_msg("flow %d could have more than %g", f, system->rate[f]);
    }
}

static void random_systems_are_fair(void **state DL_UNUSED)
{
    dl_random stream;
    dl_random_init(&stream, 9, 0, 0, 0);
    for (int round = 0; round < 500; round++) {
        DL_SCOPED(dl_maxmin) system;
        dl_maxmin_init(&system, 3, 8, 24);
        for (int l = 0; l < 3; l++) {
            dl_maxmin_add_link(&system, 0.1 + 10 * dl_random_uniform(&stream));
        }
        for (int f = 0; f < 8; f++) {
            static const int routes[][3] = {{A}, {B}, {C}, {A, B}, {B, C}, {A, C}, {A, B, C}};
            static const int lengths[] = {1, 1, 1, 2, 2, 2, 3};
            uint64_t route = dl_random_below(&stream, 7);
            double cap = dl_random_below(&stream, 2) ? INFINITY : dl_random_uniform(&stream) + 0.01;
            dl_maxmin_add_flow(&system, 0.5 + dl_random_uniform(&stream), cap, routes[route],
                               lengths[route]);
        }
        dl_maxmin_solve(&system);
        assert_fair(&system);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_flows_share_a_link),
        cmocka_unit_test(worked_example),
        cmocka_unit_test(a_flow_without_links_has_its_cap),
        cmocka_unit_test(random_systems_are_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
