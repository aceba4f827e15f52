/* Shared by the sources of --advise layout: the set of layouts (layout_space.c), and the search
 * (layout_advice.c). */
#ifndef DL_SIM_LAYOUT_INTERNAL_H
#define DL_SIM_LAYOUT_INTERNAL_H

#include "sim/report/layout_advice.h"
#include "sim/workloads/architecture.h"

#define DL_LAYOUT_VALUES_MAX 32

/* The keys that a layout sets. */
enum {
    DL_KEY_LAYOUT,
    DL_KEY_MICRO_BATCH,
    DL_KEY_RECOMPUTE,
    DL_KEY_SCHEDULE,
    DL_KEY_CHUNKS,
    DL_KEY_SHARDED,
    DL_LAYOUT_KEYS
};
typedef struct dl_layout_key {
    const char *section, *key;
} dl_layout_key;
extern const dl_layout_key dl_layout_keys[DL_LAYOUT_KEYS];

/* Layouts with the same costs, which are read once: they differ only in pp, fsdp, dp, the order of
 * the axes, micro-batch, schedule and chunks. */
typedef struct dl_layout_family {
    dl_study study;
    dl_point *points;    /* [count] points of its layouts, until moved to the study */
    size_t count, first; /* layouts [first, first + count) belong to the family */
    char *why;           /* reason why it cannot be read; NULL: it can */
} dl_layout_family;

typedef struct dl_layout {
    size_t family, at;            /* index of its family, and of its point in the family */
    dl_point point;               /* axes, workers and micro-batches */
    int order;                    /* which ranks are neighbours; 0: the stages of a shard; 1: the
                                   * shards of a stage */
    char *values[DL_LAYOUT_KEYS]; /* values[DL_KEY_LAYOUT] is owned, the other values are borrowed;
                                   * NULL: the key does not apply */
    dl_schedule schedule;
    dl_layout_fate fate;
    double least_s, step_s;
    bool is_refined; /* least_s includes the collectives of GPUs that share layers */
    dl_gpu_memory memory;
    int64_t events;
} dl_layout;

/* All layouts of a scenario. */
typedef struct dl_layout_space {
    const dl_study *study;
    const dl_scenario *scenario;
    char *text;  /* the scenario without the keys that layouts set */
    char *given; /* the scenario's layout; NULL: none */
    char *values[DL_LAYOUT_KEYS][DL_LAYOUT_VALUES_MAX];
    size_t value_count[DL_LAYOUT_KEYS];
    bool is_given[DL_LAYOUT_KEYS]; /* the scenario gives the key's values */
    dl_architecture network;       /* all 0: the costs are of a file */
    int layers;
    dl_layout_family *families;
    size_t family_count;
    dl_layout *layouts;
    size_t count;
} dl_layout_space;

/* Lists the layouts: every division of the GPUs into tp, pp, fsdp, dp, for long sequences cp and for
 * experts ep, with each value of the other keys (the scenario's values, else the default list).
 * Omitted are divisions that Megatron-LM refuses (validate_args, TransformerConfig; torchtitan has
 * the same rules for tp): tp that does not divide the heads of keys and values or, with sequence
 * parallelism, the tokens of a GPU; and, unless the scenario gives `chunks`, interleaved stages into
 * whose number neither the blocks divide, nor these with the embedding, the loss or both counted as
 * a block (account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split).
 * `samples` is the size of the whole training; NaN: unknown. DL_ERR_USAGE for an unsuitable
 * scenario. Release with dl_layout_space_free, also after an error. */
dl_status dl_layout_space_init(dl_layout_space *space, const dl_study *study, double samples,
                               dl_error *err) DL_MUST_CHECK;
void dl_layout_space_free(dl_layout_space *space);

/* Whether the scenario's layout allows this one. */
bool dl_layout_is_given(const dl_layout_space *space, const dl_layout *layout);

/* Reads the costs of a family's layouts. If they cannot be read, sets the family's `why`. */
void dl_layout_read_family(dl_layout_space *space, dl_layout_family *family);

/* The scenario of one layout. It borrows everything but [pipeline] from its family, and must not be
 * moved. */
typedef struct dl_layout_scenario {
    dl_scenario scenario;
    dl_scenario_pipeline pipeline;
    dl_point point;
} dl_layout_scenario;
const dl_costs *dl_layout_set_up(const dl_layout_space *space, const dl_layout *layout,
                                 dl_layout_scenario *own);

/* Return the layout's scenario as text, and the command-line options that turn the study's scenario
 * into it. The caller frees both. */
char *dl_layout_text(const dl_layout_space *space, const dl_layout *layout);
char *dl_layout_options(const dl_layout *layout);

#endif
