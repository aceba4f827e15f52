/* [generators] of a scenario: reinforcement learning whose answers are generated beside the trainer,
 * as the keys have it. What it is: sim/generate/rollout.h, docs/rl.md. */
#ifndef DL_SIM_GENERATORS_H
#define DL_SIM_GENERATORS_H

#include "common/ini.h"
#include "common/status.h"
#include "sim/generate/rollout.h"

/* Requests in flight on a replica, where neither a key nor memory says fewer: vLLM's max_num_seqs. */
#define DL_REQUESTS_MAX 256

typedef enum dl_log_probs {
    DL_LOG_PROBS_NEVER,
    DL_LOG_PROBS_ON_POLICY,
    DL_LOG_PROBS_ALWAYS
} dl_log_probs;

extern const char *const dl_rule_names[], *const dl_log_probs_names[], *const dl_taking_names[];

/* Numbers that are not given are NaN, whole ones 0. */
typedef struct dl_generators {
    int gpus, generator_gpus; /* of both sides; that generate */
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
    double *requests, *request_s;    /* [rate_count] in place of them: the table of rates */
    int rate_count;
    int requests_max;  /* 0: not given */
    double decode_log; /* log_scale of dl_decode; no key */
    double train_fixed_s,
        train_token_gpu_s; /* the second NaN: by the next, or the scenario's step */
    /* A measured update on policy: seconds, the part that is generation; GPUs, mean length of its answers. */
    double on_policy_s, on_policy_generation_frac, on_policy_length;
    int on_policy_gpus;
    double train_fixed_frac; /* of the rest of it: does not scale */
    int log_probs;           /* dl_log_probs */
    double log_prob_frac;
    double copy_s, copy_bytes, copy_bytes_per_s, pause_s;
    bool in_turn, drains;
    double prefill_token_s, switch_s, tool_s, tool_cv, validation_s;
    int64_t validation_every;
    int validation_stops;
    int micro_batch;
    double sample_tokens; /* of a sample of the trainer's step: set by the scenario's reader */
    double usd_per_gpu_hour;
} dl_generators;

/* Reads and checks the section, and the file of lengths; *generators NULL where there is none, else
 * released with dl_generators_free. `gpus`: of the machine file, 0: there is none. Errors as
 * dl_scenario_read. */
dl_status dl_generators_read(dl_generators **generators, const dl_ini *ini, int gpus,
                             dl_error *err) DL_MUST_CHECK;
void dl_generators_free(dl_generators *generators);

/* Whether the curve of a replica is left to the cost file, or to an estimate; of NULL it is not. */
bool dl_generators_need_rates(const dl_generators *generators);

/* Whether the part of a measured update that does not scale is left to them; of NULL it is not. */
bool dl_generators_need_split(const dl_generators *generators);

/* GPUs of the trainer: all where both sides take turns on them. */
int dl_generators_trainer_gpus(const dl_generators *generators);

/* The run, with the trainer's seconds of an update on its GPUs: fixed_s + token_s for each token.
 * `on_policy`: both sides on all GPUs in turn, whatever the keys say; then they are of all GPUs. All
 * but updates, warmup, seed and replicate is set; borrows from *generators. */
dl_rollout_config dl_generators_rollout(const dl_generators *generators, bool on_policy,
                                        double fixed_s, double token_s);

/* Lines "KEY = VALUE" of the section that are as in that framework into *keys, a constant; DL_ERR_USAGE,
 * with the nearest name, for one that is not known. */
dl_status dl_generators_preset(const char *name, const char **keys, dl_error *err) DL_MUST_CHECK;

#endif
