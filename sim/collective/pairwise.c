/* All-to-all: in round k each rank sends to the rank k positions after it. */
#include "sim/collective/collective.h"

static bool supports(const dl_collective_config *config)
{
    return config->kind == DL_ALLTOALL;
}

/* A rank starts a round when its previous one has ended. With fidelity `phase` all pairs send
 * concurrently, after the latencies of all rounds. */
static void plan_pairwise(dl_plan *plan, const dl_collective_config *config)
{
    const int n = config->rank_count;
    const bool in_rounds = config->fidelity == DL_FIDELITY_CHUNK;
    for (int k = 1; k < n; k++) {
        for (int i = 0; i < n; i++) {
            int t = dl_plan_add(plan, config->ranks[i], config->ranks[(i + k) % n],
                                config->bytes / n, in_rounds ? 1 : n - 1, 0);
            if (in_rounds && k > 1) dl_plan_order(plan, t - n, t);
        }
    }
}

const dl_collective_algorithm dl_collective_pairwise = {"pairwise", supports, plan_pairwise,
                                                        NULL,       NULL,     false};
