/* All-to-all: in round k each rank sends to the one k places after it. */
#include "sim/collective/collective.h"

static bool supports(const dl_collective_config *config)
{
    return config->kind == DL_ALLTOALL;
}

/* All pairs at once, with the latencies of the rounds in front. */
static void plan_phase(dl_plan *plan, const dl_collective_config *config)
{
    int n = config->rank_count;
    for (int k = 1; k < n; k++) {
        for (int i = 0; i < n; i++) {
            (void)dl_plan_add(plan, config->ranks[i], config->ranks[(i + k) % n], config->bytes / n,
                              n - 1, 0);
        }
    }
}

static void plan_rounds(dl_plan *plan, const dl_collective_config *config)
{
    int n = config->rank_count;
    for (int k = 1; k < n; k++) {
        for (int i = 0; i < n; i++) {
            int t = dl_plan_add(plan, config->ranks[i], config->ranks[(i + k) % n],
                                config->bytes / n, 1, 0);
            if (k > 1) dl_plan_order(plan, t - n, t);
        }
    }
}

static void plan_pairwise(dl_plan *plan, const dl_collective_config *config)
{
    if (config->fidelity == DL_FIDELITY_PHASE) {
        plan_phase(plan, config);
    } else {
        plan_rounds(plan, config);
    }
}

const dl_collective_algorithm dl_collective_pairwise = {"pairwise", supports, plan_pairwise, NULL};
