/* All keys of a scenario in one table (common/keys.h), from which sim/scenario reads, sweeps and
 * checks, and which dlsim --keys prints. A key of [exchange] is both a row and a field
 * (sim/platform/exchange_keys.h). */
#ifndef DL_SIM_SCENARIO_KEYS_H
#define DL_SIM_SCENARIO_KEYS_H

#include <stdbool.h>
#include <stdio.h>

#include "common/keys.h"
#include "sim/scenario/scenario.h"

/* The struct that holds a key's value. */
enum {
    DL_OF_SCENARIO,   /* dl_scenario */
    DL_OF_GPU,        /* dl_gpu_options */
    DL_OF_PIPELINE,   /* dl_scenario_pipeline */
    DL_OF_GENERATORS, /* dl_generators */
    DL_OF_NOBODY      /* read by separate code */
};

/* Bits of a key's `group`: the kind of workers it applies to, the condition on its use, its option
 * of [sync]. */
#define DL_TAKE_CORES 1u /* workers on cores only */
#define DL_TAKE_GPUS 2u  /* workers on GPUs only */
#define DL_TAKE_USE(use) ((unsigned)(use) << 2)
#define DL_TAKE_OPTION(option) (((unsigned)(option) + 1) << 8)

/* Condition that a point must meet to use a key of [exchange]. A file that sets the key without
 * such a point is rejected; points.c has the conditions and the reasons. */
typedef enum dl_key_use {
    DL_USE_ANY,
    DL_USE_BY_TENSOR,
    DL_USE_NODE_SUM,
    DL_USE_OVERLAP,
    DL_USE_SLOWS,
    DL_USE_STAGED,
    DL_USE_HOSTS,
    DL_USE_COLLECTIVES,
    DL_USE_BUCKETS,
    DL_USE_REDUCED,
    DL_USE_SERVER,
    DL_USE_SUMS,
    DL_USE_HOST_SERVER,
    DL_USES,
    DL_USE_ON_CORES_TOO /* any use; the key applies to workers on cores too */
} dl_key_use;

static inline dl_key_use dl_use_of(const dl_key *key)
{
    return (dl_key_use)(key->group >> 2 & 63);
}

/* Ways in which a default may limit results; a note names those that did (sim/report). */
enum {
    DL_LIMITS_NOTHING,
    DL_LIMITS_MODE,           /* no exchange: ideal speedup */
    DL_LIMITS_NOISE,          /* equal steps: waiting for all workers takes no time */
    DL_LIMITS_INPUT_CORES,    /* GPUs wait for batches */
    DL_LIMITS_LOADERS,        /* workers on cores wait for batches */
    DL_LIMITS_PREFETCH,       /* workers wait for batches while the cores that make them are not
                               * always busy */
    DL_LIMITS_STORAGE,        /* workers wait for batches, and storage is always busy */
    DL_LIMITS_SHARED_STORAGE, /* GPUs wait for batches, and storage shared by all nodes is always
                               * busy */
    DL_LIMITS_OVERLAP,        /* the exchange could run during the backward pass */
    DL_LIMITS_BUCKETS,        /* overlap without buckets */
    DL_LIMITS_SERVER,         /* limited by the threads with which the server averages and
                               * updates */
    DL_LIMITS_PLACE           /* place where averages are computed: all-reduce or a server */
};

extern const dl_keys dl_scenario_keys;

/* Words of other programs for keys of a scenario, and for choices. */
extern const dl_word dl_scenario_words[], dl_arithmetic_words[], dl_optimizer_words[],
    dl_sharded_words[], dl_compress_words[];

/* dl_option_key: the key of an option of [sync] (dl_sync_option). dl_key_option: the option of a
 * key; -1: none. */
const dl_key *dl_option_key(int option);
int dl_key_option(const dl_key *key);

/* A dl_key_takes_fn: writes the workers or modes to which the key applies, in words, to
 * text[bytes]. */
void dl_scenario_key_takes(const dl_key *key, char *text, size_t bytes);

/* Prints the reference of the keys of scenarios, machines and costs: of all if `section` is NULL,
 * else of one section ("sync") or one sort of them ("gpu_model"). `markdown`: in the format of
 * docs/keys.md. DL_ERR_USAGE for an unknown section, with the nearest name or, if none is near,
 * those of a scenario. */
dl_status dl_keys_reference(FILE *out, const char *section, bool markdown,
                            dl_error *err) DL_MUST_CHECK;

/* Values of [workload] recompute: "auto" (from the model's text), "none", "selective", "full",
 * "products". */
typedef enum dl_recompute {
    DL_RECOMPUTE_AUTO,
    DL_RECOMPUTE_NONE,
    DL_RECOMPUTE_SELECTIVE,
    DL_RECOMPUTE_FULL,
    DL_RECOMPUTE_PRODUCTS
} dl_recompute;
extern const char *const dl_recompute_names[];

#endif
