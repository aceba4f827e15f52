/* Every key of a scenario as one table (common/keys.h): what sim/scenario reads, sweeps and checks,
 * and what dlsim --keys prints. A new key is a row here, a field, and what uses it. */
#ifndef DL_SIM_SCENARIO_KEYS_H
#define DL_SIM_SCENARIO_KEYS_H

#include <stdbool.h>
#include <stdio.h>

#include "common/keys.h"
#include "sim/scenario/scenario.h"

/* What keeps a key's value. */
enum {
    DL_OF_SCENARIO,   /* dl_scenario */
    DL_OF_GPU,        /* dl_gpu_options */
    DL_OF_PIPELINE,   /* dl_scenario_pipeline */
    DL_OF_GENERATORS, /* dl_generators */
    DL_OF_NOBODY      /* read by separate code */
};

/* Who takes a key, in its group; and the option of [sync] that it is. */
#define DL_TAKE_CORES 1u /* workers on cores only */
#define DL_TAKE_GPUS 2u  /* workers on GPUs only */
#define DL_TAKE_OPTION(option) (((unsigned)(option) + 1) << 8)

/* What a default may limit in the results: a note names those that did (sim/report). */
enum {
    DL_LIMITS_NOTHING,
    DL_LIMITS_MODE,        /* nobody exchanges: an ideal speedup */
    DL_LIMITS_NOISE,       /* no step is longer than another: who waits for all waits for nobody */
    DL_LIMITS_INPUT_CORES, /* GPUs wait for batches */
    DL_LIMITS_LOADERS,     /* workers on cores wait for batches */
    DL_LIMITS_PREFETCH,    /* the same, while the cores that make them have time left */
    DL_LIMITS_STORAGE,     /* GPUs wait for batches, and storage is read all the time */
    DL_LIMITS_SHARED_STORAGE, /* the same of the storage that all nodes share */
    DL_LIMITS_OVERLAP,        /* exchange that could run during the backward pass */
    DL_LIMITS_BUCKETS,        /* overlap without buckets */
    DL_LIMITS_SERVER,         /* its threads average and update */
    DL_LIMITS_PLACE           /* averages go through a server */
};

extern const dl_keys dl_scenario_keys;

/* Words of other programs for keys of a scenario, and for choices. */
extern const dl_word dl_scenario_words[], dl_arithmetic_words[], dl_sharded_words[];

/* The row of an option of [sync] (dl_sync_option), and the option of a row, -1: none. */
const dl_key *dl_option_key(int option);
int dl_key_option(const dl_key *key);

/* Who takes it, in words, into text[bytes]: dl_key_takes_fn. */
void dl_scenario_key_takes(const dl_key *key, char *text, size_t bytes);

/* Prints the reference of the keys of all files, of scenarios, machines and costs, or of those in
 * one section; NULL: of all. `markdown`: as docs/keys.md. DL_ERR_USAGE, with the nearest one, for a
 * section that no file has. */
dl_status dl_keys_reference(FILE *out, const char *section, bool markdown,
                            dl_error *err) DL_MUST_CHECK;

/* [workload] recompute: "auto", as the model's own text says, "none", "selective", "full". */
extern const char *const dl_recompute_names[];

#endif
