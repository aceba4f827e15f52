/* A scenario's [generators] section: reinforcement learning with answers that are generated
 * concurrently with training. Model: sim/generate/rollout.h, docs/rl.md. */
#ifndef DL_SIM_GENERATORS_H
#define DL_SIM_GENERATORS_H

#include "common/status.h"
#include "sim/generate/rollout.h"

/* Requests in flight per replica, unless a key or memory sets a lower limit: vLLM's
 * max_num_seqs. */
#define DL_REQUESTS_MAX 256

typedef enum dl_log_probs {
    DL_LOG_PROBS_NEVER,
    DL_LOG_PROBS_ON_POLICY,
    DL_LOG_PROBS_ALWAYS
} dl_log_probs;

extern const char *const dl_rule_names[], *const dl_log_probs_names[], *const dl_taking_names[];

/* Numbers that are neither given nor have a default are NaN (age_max, length_cap: INFINITY),
 * integers 0. */
typedef struct dl_generators {
    int gpus, generator_gpus; /* GPUs in total; GPUs of the generators */
    int replica_gpus;
    bool colocated;
    int prompts, answers, copy_every;
    int rule; /* a dl_rule */
    double bound;
    int64_t in_flight, in_flight_of_replica, buffer; /* numbers of groups */
    double age_max;
    bool requeue;
    int taking; /* a dl_taking */
    double length_mean, length_cv, length_cap, prompt_tokens, group_share;
    char *lengths_path;
    double *lengths; /* [length_count] lengths of answers, in tokens, from lengths_path */
    size_t length_count;
    double token_s, request_token_s; /* a and b of dl_decode */
    double *requests, *request_s;    /* [rate_count] table of rates that replaces a and b */
    int rate_count;
    int requests_max;  /* 0: not given */
    double decode_log; /* log_scale of dl_decode; not a key */
    double train_fixed_s,
        train_token_gpu_s; /* NaN: from the cost file, the measured update, or the scenario's
                            * simulated step */
    /* A measured on-policy update: its duration in s, the fraction spent on generation, its number
     * of GPUs, and the mean length of the answers in tokens. */
    double on_policy_s, on_policy_generation_frac, on_policy_length;
    int on_policy_gpus;
    double train_fixed_frac; /* fraction of the update's time outside generation that does not scale
                              * with GPUs */
    int log_probs;           /* a dl_log_probs */
    double log_prob_frac;
    double copy_s, pause_s;
    bool in_turn, drains;
    double prefill_token_s, switch_s, tool_s, tool_cv, validation_s;
    int64_t validation_every;
    int validation_stops;
    int micro_batch;
    double sample_tokens; /* tokens per sample of the trainer's step; set by the reader */
    double usd_per_gpu_hour;
} dl_generators;

void dl_generators_free(dl_generators *generators);

/* Whether the cost file or an estimate must give a replica's curve; false for NULL. */
bool dl_generators_need_rates(const dl_generators *generators);

/* Whether the cost file or an assumption must give the fraction of a measured update that does not
 * scale; false for NULL. */
bool dl_generators_need_split(const dl_generators *generators);

/* Number of the trainer's GPUs; all GPUs if both sides alternate on them. */
int dl_generators_trainer_gpus(const dl_generators *generators);

/* Configuration of a run in which the trainer's updates take fixed_s + token_s per token.
 * `on_policy`: both sides alternate on all GPUs, whatever the keys; the times must then be those of
 * all GPUs. Sets everything except updates, warmup, seed and replicate; borrows from
 * *generators. */
dl_rollout_config dl_generators_rollout(const dl_generators *generators, bool on_policy,
                                        double fixed_s, double token_s);

/* Sets *keys to the settings of a framework: constant lines "KEY = VALUE" of the section.
 * DL_ERR_USAGE, with the nearest name, for an unknown framework. */
dl_status dl_generators_preset(const char *name, const char **keys, dl_error *err) DL_MUST_CHECK;

/* Writes the frameworks that complete `typed` (dl_complete_word). */
void dl_generators_complete(FILE *out, const char *typed);

#endif
