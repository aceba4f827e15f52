#include "sim/generate/generators.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/manual.h"
#include "common/names.h"

const char *const dl_rule_names[] = {"ahead", "window", "installed", "workers", NULL};
const char *const dl_taking_names[] = {"completion", "oldest", "in_order", NULL};
const char *const dl_log_probs_names[] = {"never", "on_policy", "always", NULL};

/* --- presets --------------------------------------------------------------------------------- */

/* Rules and defaults of the frameworks, as keys. Sources: verl-project/verl@0b67c10b
 * verl/experimental/fully_async_policy/config/fully_async_ppo_trainer.yaml (which trains on the
 * log-probabilities of its engine), huggingface/trl PR 5650 and
 * trl/experimental/async_grpo/async_grpo_config.py@019ac735, inclusionAI/AReaL@00d07c04
 * examples/math/gsm8k_grpo.yaml, NVIDIA-NeMo/RL@0f8bce64 docs/guides/async-grpo.md (answers in
 * flight end before a copy unless in_flight_weight_updates is set; a batch consists of the prompts
 * intended for its step). */
static const struct {
    const char *name, *keys;
} presets[] = {
    {"verl", "rule = window\nbound = 0.1\ncopy_every = 4\nin_flight_of_replica = 16\n"
             "partial = yes\nlog_probs = on_policy\n"},
    {"trl", "rule = ahead\nbound = 4\ncopy_every = 1\npartial = yes\n"},
    {"areal", "rule = installed\nbound = 2\ncopy_every = 1\npartial = yes\nlog_probs = always\n"},
    {"nemo-rl", "rule = ahead\nbound = 1\ncopy_every = 1\npartial = no\norder = in_order\n"
                "log_probs = always\n"},
};

dl_status dl_generators_preset(const char *name, const char **keys, dl_error *err)
{
    const char *names[DL_LENGTH(presets)];
    for (size_t i = 0; i < DL_LENGTH(presets); i++)
        names[i] = presets[i].name;
    const int found = dl_names_find(name, names, DL_LENGTH(presets));
    if (found >= 0) {
        *keys = presets[found].keys;
        return DL_OK;
    }
    char hint[200];
    dl_names_hint(hint, sizeof hint, name, names, DL_LENGTH(presets));
    return dl_error_set(err, DL_ERR_USAGE, "--rules: no framework '%s' is known%s", name, hint);
}

void dl_generators_complete(FILE *out, const char *typed)
{
    for (size_t i = 0; i < DL_LENGTH(presets); i++)
        dl_complete_word(out, typed, 0, presets[i].name);
}

void dl_generators_free(dl_generators *g)
{
    if (g == NULL) return;
    free(g->lengths_path);
    free(g->lengths);
    free(g->requests);
    free(g->request_s);
    free(g);
}

bool dl_generators_need_rates(const dl_generators *g)
{
    return g != NULL && isnan(g->token_s) && g->rate_count == 0;
}

bool dl_generators_need_split(const dl_generators *g)
{
    return g != NULL && !isnan(g->on_policy_s) && isnan(g->train_fixed_frac);
}

int dl_generators_trainer_gpus(const dl_generators *g)
{
    return g->colocated ? g->gpus : g->gpus - g->generator_gpus;
}

dl_rollout_config dl_generators_rollout(const dl_generators *g, bool on_policy, double fixed_s,
                                        double token_s)
{
    const bool colocated = on_policy || g->colocated;
    const bool log_probs = g->log_probs == DL_LOG_PROBS_ALWAYS ||
                           (colocated && g->log_probs == DL_LOG_PROBS_ON_POLICY);
    const int replicas = (colocated ? g->gpus : g->generator_gpus) / g->replica_gpus;
    const int64_t of_replicas = replicas * g->in_flight_of_replica;
    dl_rollout_config c = {
        .replicas = replicas,
        .in_flight_max = g->requests_max > 0 ? g->requests_max : DL_REQUESTS_MAX,
        .decode = {.a_s = g->token_s,
                   .b_s = g->request_token_s,
                   .requests = g->requests,
                   .token_s = g->request_s,
                   .count = g->rate_count,
                   .log_scale = g->decode_log},
        .prefill_token_s = g->prefill_token_s,
        .lengths = {.mean = g->length_mean,
                    .cv = g->length_cv,
                    .cap = g->length_cap,
                    .group_frac = g->group_share,
                    .list = g->lengths,
                    .count = g->length_count},
        .prompt_tokens = g->prompt_tokens,
        .answers = g->answers,
        .tool_s = g->tool_s,
        .tool_cv = g->tool_cv,
        .prompts = g->prompts,
        .copy_every = g->copy_every,
        .rule = (dl_rule)g->rule,
        .bound = g->bound,
        .workers = g->in_flight > 0 && of_replicas > 0
                       ? (g->in_flight < of_replicas ? g->in_flight : of_replicas)
                       : g->in_flight + of_replicas,
        .buffer = g->buffer,
        .age_max = g->age_max,
        .requeues = g->requeue,
        .taking = (dl_taking)g->taking,
        .train_fixed_s = fixed_s,
        .train_token_s = token_s * (log_probs ? 1 + g->log_prob_frac : 1),
        .copy_s = g->copy_s,
        .pause_s = g->pause_s,
        .drains = g->drains,
        .by_replica = g->in_turn,
        .validation_s = g->validation_s,
        .validation_every = g->validation_every,
        .validation_stops_generators = g->validation_stops != 0,
        .validation_stops_trainer = g->validation_stops != 1,
    };
    if (!colocated) return c;
    /* All groups for the updates until the sides alternate again are complete before the first
     * update. */
    c.rule = DL_RULE_WINDOW;
    c.bound = 0;
    c.workers = c.buffer = 0;
    c.age_max = (double)INFINITY;
    c.requeues = c.by_replica = c.drains = false;
    c.barrier = true;
    c.copy_s = c.pause_s = g->switch_s;
    c.validation_stops_generators = c.validation_stops_trainer = true;
    return c;
}
