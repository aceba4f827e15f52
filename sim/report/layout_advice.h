/* Advice on a layout (docs/layouts.md): which axes, micro-batch, recomputation, schedule and
 * sharding train a model fastest on all GPUs of a machine, at one batch. */
#ifndef DL_SIM_LAYOUT_ADVICE_H
#define DL_SIM_LAYOUT_ADVICE_H

#include <stdio.h>

#include "sim/report/advise.h"

/* Fates of layouts. */
typedef enum dl_layout_fate {
    /* not simulated: its least step (dl_run_least_ns) is above those in the result */
    DL_LAYOUT_WAITS,
    DL_LAYOUT_UNFIT, /* dl_memory_fit */
    DL_LAYOUT_UNCACHED,
    DL_LAYOUT_REFUSED, /* refused by the model or the simulator */
    DL_LAYOUT_RAN,
    DL_LAYOUT_FATES
} dl_layout_fate;

/* Layouts that the advised one is compared with: those that the scenario's layout allows
 * (dl_scenario_layout_allows); all GPUs share all parameters; or as
 * users of Megatron do, the optimizer's state divided (ZeRO 1): any tensor parallelism within a
 * node, and the fewest stages with which that fits without full recomputation; with it only where
 * none of them fits otherwise. */
typedef enum dl_layout_usual {
    DL_LAYOUT_GIVEN,
    DL_LAYOUT_FSDP,
    DL_LAYOUT_MEGATRON,
    DL_LAYOUT_USUALS
} dl_layout_usual;

typedef struct dl_layout_advice {
    dl_study study; /* a variant for each layout simulated with draws, the fastest first */
    dl_sweep sweep; /* their rows */
    size_t counts[DL_LAYOUT_FATES], count;
    size_t usual[DL_LAYOUT_USUALS]; /* rows; row_count: none fits */
    char *given;                    /* the scenario's layout; NULL: none */
    size_t given_count;             /* layouts that it allows */
    char **options;                 /* [row_count] command-line options that make the row */
    char *text;                     /* the scenario of the first */
    char *refused;                  /* the reason why a layout is refused; NULL: none is */
    bool varies;                    /* something is drawn */
    bool stopped;                   /* by max_points */
    bool is_uncached;               /* none fits with the allocator's cache; these fit without it */
} dl_layout_advice;

/* Simulates the layouts of all GPUs that fit, with what the allocator keeps (--fits: yes), each
 * once without noise for a step after a warm-up, in the order of their least steps, until none
 * left can be among the 20 best or max_points are simulated; these 20, and the best usual ones,
 * with noise and draws of the costs, the same for all. Layouts that differ in the order of the
 * axes, the schedule, its chunks or in what workers share, and in their steps by less than 0.5
 * %, are one of the 20: the fastest, whose row says how many others it stands for. Lists of
 * micro_batch, recompute, schedule, chunks and sharded in the scenario take the place of the
 * values tried. tp divides the GPUs of a node. `advice` must be zeroed; release it with
 * dl_layout_advice_free, also after an error. DL_ERR_USAGE for a scenario that this does not
 * search, DL_ERR_UNFIT where nothing fits, with what would; the errors of dl_sweep_run. */
dl_status dl_layouts_advise(dl_layout_advice *advice, const dl_study *study,
                            const dl_advice_config *config, dl_error *err) DL_MUST_CHECK;
void dl_layout_advice_free(dl_layout_advice *advice);

/* Prints the text below the table of its rows: the advised one, those that cannot be told apart
 * from it, and how the usual ones compare. */
void dl_layout_advice_print(FILE *out, const dl_layout_advice *advice);

#endif
