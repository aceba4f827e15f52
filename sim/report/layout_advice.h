/* Advice on a layout (docs/layouts.md): the axes, micro-batch, recomputation, schedule and sharding
 * that train a model fastest on all GPUs of a machine, at one batch. */
#ifndef DL_SIM_LAYOUT_ADVICE_H
#define DL_SIM_LAYOUT_ADVICE_H

#include <stdio.h>

#include "sim/report/advise.h"

/* Outcome of each layout in the search. */
typedef enum dl_layout_fate {
    /* not simulated: the lower bound of its step time (dl_run_least_ns) exceeds the step times in
     * the result, or max_points ended the search */
    DL_LAYOUT_WAITS,
    DL_LAYOUT_UNFIT, /* does not fit into memory (dl_memory_fit) */
    DL_LAYOUT_UNCACHED,
    DL_LAYOUT_REFUSED, /* rejected by the model or the simulator */
    DL_LAYOUT_RAN,
    DL_LAYOUT_FATES
} dl_layout_fate;

/* Kinds of reference layouts, the best of which the advised layout is compared with: those allowed
 * by the scenario's layout (dl_scenario_layout_allows); FSDP, with all parameters sharded over all
 * GPUs; and those usual with Megatron, which shard the optimizer's state (ZeRO 1): any tensor
 * parallelism within a node, with the fewest stages that fit without full recomputation or, if no
 * layout fits without it, the fewest that fit with full recomputation. */
typedef enum dl_layout_usual {
    DL_LAYOUT_GIVEN,
    DL_LAYOUT_FSDP,
    DL_LAYOUT_MEGATRON,
    DL_LAYOUT_USUALS
} dl_layout_usual;

typedef struct dl_layout_advice {
    dl_study study; /* one variant per layout simulated with draws, the fastest first */
    dl_sweep sweep; /* rows of the study's points */
    size_t counts[DL_LAYOUT_FATES], count;
    size_t usual[DL_LAYOUT_USUALS]; /* row of each reference, or of a layout equal to it; row_count:
                                     * none fits */
    char *given;                    /* the scenario's layout; NULL: none */
    size_t given_count;             /* number of layouts that `given` allows */
    char **options;                 /* [row_count] command-line options that produce the row */
    char *refused;                  /* reason why a layout was rejected; NULL: none was */
    bool varies;                    /* some noise or cost is drawn at random */
    bool stopped;                   /* max_points ended the search */
    bool is_uncached;               /* no layout fits with the allocator's cache; the rows fit
                                     * without it */
    /* The fastest layout that fits only without the cache, if it is faster than all that fit with
     * it; options NULL: there is none. */
    struct {
        char *options;
        double throughput_per_s; /* without noise */
        double ratio;            /* to the throughput of the fastest that fits with the cache */
        double lacks_bytes;      /* missing memory with the allocator's reserve */
    } uncached;
} dl_layout_advice;

/* Simulates the layouts of all GPUs that fit with the allocator's reserve (--fits: yes), each
 * without noise for one step after a warm-up: first the reference layouts, then the others in
 * ascending order of the lower bounds of their steps, until no remaining layout can be among the 20
 * best or max_points are simulated. Then simulates these 20 and the best reference layouts with
 * noise and drawn costs, the same draws for all. Layouts whose steps differ by at most 0.5 % and
 * which differ only in the order of axes, schedule, chunks or sharding among workers count as one:
 * the fastest, whose row gives the number of layouts equal to it. The scenario's lists of
 * micro_batch, recompute, schedule, chunks and sharded replace the values tried. Of the layouts that
 * fit only without the cache those are simulated once that may be faster than all others. tp must divide the
 * GPUs of a node. `advice` must be zeroed; release it with dl_layout_advice_free, also after an
 * error. DL_ERR_USAGE for a scenario that cannot be searched, DL_ERR_UNFIT with a remedy if nothing
 * fits, DL_ERR_DATA if no layout is possible; the errors of dl_sweep_run. */
dl_status dl_layouts_advise(dl_layout_advice *advice, const dl_study *study,
                            const dl_advice_config *config, dl_error *err) DL_MUST_CHECK;
void dl_layout_advice_free(dl_layout_advice *advice);

/* Prints the text below the table of its rows: the advised layout, the layouts within noise of it,
 * and the comparison with the reference layouts. */
void dl_layout_advice_print(FILE *out, const dl_layout_advice *advice);

#endif
