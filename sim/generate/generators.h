/* A scenario's [generators]: reinforcement learning with answers generated beside the trainer; its
 * keys. The model: sim/generate/rollout.h, docs/rl.md. */
#ifndef DL_SIM_GENERATORS_H
#define DL_SIM_GENERATORS_H

#include "common/status.h"
#include "sim/generate/rollout.h"

/* Requests in flight on a replica, unless a key or memory limits them further: vLLM's
 * max_num_seqs. */
#define DL_REQUESTS_MAX 256

typedef enum dl_log_probs {
    DL_LOG_PROBS_NEVER,
    DL_LOG_PROBS_ON_POLICY,
    DL_LOG_PROBS_ALWAYS
} dl_log_probs;

extern const char *const dl_rule_names[], *const dl_log_probs_names[], *const dl_taking_names[];

/* Numbers that are not given are NaN, whole ones 0. */
typedef struct dl_generators {
    int gpus, generator_gpus; /* of both sides; of the generators */
    int replica_gpus;
    bool colocated;
    int prompts, answers, copy_every;
    int rule; /* dl_rule */
    double bound;
    int64_t in_flight, in_flight_of_replica, buffer; /* groups */
    double age_max;
    bool requeue;
    int taking; /* dl_taking */
    double length_mean, length_cv, length_cap, prompt_tokens, group_share, growth;
    char *lengths_path;
    double *lengths; /* [length_count] of the file */
    size_t length_count;
    double token_s, request_token_s; /* a and b of dl_decode */
    double *requests, *request_s;    /* [rate_count] instead of these: a table of rates */
    int rate_count;
    int requests_max;  /* 0: not given */
    double decode_log; /* log_scale of dl_decode; no key */
    double train_fixed_s,
        train_token_gpu_s; /* token time NaN: from the measured update, or the scenario's step */
    /* A measured on-policy update: its seconds, the fraction of them spent on generating, its GPUs,
     * and the mean length of the answers. */
    double on_policy_s, on_policy_generation_frac, on_policy_length;
    int on_policy_gpus;
    double train_fixed_frac; /* share of the rest of it that does not scale */
    int log_probs;           /* dl_log_probs */
    double log_prob_frac;
    double copy_s, pause_s;
    bool in_turn, drains;
    double prefill_token_s, switch_s, tool_s, tool_cv, validation_s;
    int64_t validation_every;
    int validation_stops;
    int micro_batch;
    double sample_tokens; /* per sample of the trainer's step; set by the scenario's reader */
    double usd_per_gpu_hour;
} dl_generators;

void dl_generators_free(dl_generators *generators);

/* Whether a replica's curve must come from the cost file or an estimate; false for NULL. */
bool dl_generators_need_rates(const dl_generators *generators);

/* Whether the part of a measured update that does not scale must come from the cost file or an
 * assumption; false for NULL. */
bool dl_generators_need_split(const dl_generators *generators);

/* The trainer's GPUs: all if both sides take turns on them. */
int dl_generators_trainer_gpus(const dl_generators *generators);

/* Configuration of a run with fixed_s + token_s per token for the trainer's updates. `on_policy`:
 * both sides in turn on all GPUs, whatever the keys; the times must then be those of all GPUs. Sets
 * all but updates, warmup, seed and replicate; borrows from *generators. */
dl_rollout_config dl_generators_rollout(const dl_generators *generators, bool on_policy,
                                        double fixed_s, double token_s);

/* Sets *keys to a framework's settings, constant lines "KEY = VALUE" of the section; DL_ERR_USAGE,
 * with the nearest name, for an unknown framework. */
dl_status dl_generators_preset(const char *name, const char **keys, dl_error *err) DL_MUST_CHECK;

/* The frameworks that `typed` may become (dl_complete_word). */
void dl_generators_complete(FILE *out, const char *typed);

#endif
