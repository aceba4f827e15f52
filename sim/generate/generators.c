#include "sim/generate/generators.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/manual.h"
#include "common/names.h"
#include "sim/scenario/keys.h"

const char *const dl_rule_names[] = {"ahead", "window", "installed", "workers", NULL};
const char *const dl_taking_names[] = {"completion", "oldest", "in_order", NULL};
const char *const dl_log_probs_names[] = {"never", "on_policy", "always", NULL};

/* --- presets --------------------------------------------------------------------------------- */

/* Rules of the frameworks and their defaults, as keys. Sources: verl-project/verl@0b67c10b
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

/* --- reading --------------------------------------------------------------------------------- */

static const dl_ini_entry *entry_of(const dl_ini *ini, const char *key)
{
    return dl_ini_find(ini, "generators", key);
}

/* "1:150, 8:900": requests in flight and tokens a second of all of them. */
static dl_status read_rates(dl_generators *g, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = entry_of(ini, "rates");
    char **items = NULL;
    size_t count = 0;
    if (entry == NULL) return DL_OK;
    if (!isnan(g->token_s))
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "token_s is given too: only one of both");
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    g->requests = dl_calloc(count, sizeof *g->requests, "rates");
    g->request_s = dl_calloc(count, sizeof *g->request_s, "rates");
    g->rate_count = (int)count;
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        char *end = NULL, *last = NULL;
        const double requests = strtod(items[i], &end);
        const double rate = *end == ':' ? strtod(end + 1, &last) : 0;
        if (last == NULL || *last != '\0' || !(rate > 0) || !(rate < 1e12) || !(requests >= 1) ||
            !(requests < 1e7)) {
            status = dl_ini_error(ini, entry, DL_ERR_PARSE, err,
                                  "expected REQUESTS:TOKENS_A_SECOND, not '%s'", items[i]);
        } else if (i > 0 && requests <= g->requests[i - 1]) {
            status = dl_ini_error(ini, entry, DL_ERR_RANGE, err, "the requests must ascend");
        }
        g->requests[i] = requests;
        g->request_s[i] = requests / rate;
        if (status == DL_OK && i > 0 && g->request_s[i] < g->request_s[i - 1])
            status = dl_ini_error(ini, entry, DL_ERR_RANGE, err,
                                  "a token of one request takes less time with %.6g in flight than "
                                  "with %.6g: tokens a second grow faster than the requests",
                                  requests, g->requests[i - 1]);
    }
    dl_ini_free_list(items, count);
    return status;
}

static dl_status read_lengths(dl_generators *g, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = entry_of(ini, "lengths");
    if (entry == NULL) return DL_OK;
    g->lengths_path = dl_ini_beside(ini, entry->value);
    dl_csv csv = {0};
    dl_status status = dl_csv_read(&csv, g->lengths_path, err);
    if (status != DL_OK) return status;
    const int column = dl_csv_column(&csv, "tokens");
    if (column < 0 || csv.rows == 0) {
        status = dl_error_set_at(err, DL_ERR_DATA, g->lengths_path, 0,
                                 "expected a column 'tokens' and a length in each row");
    }
    g->lengths = dl_calloc(csv.rows + 1, sizeof *g->lengths, "lengths of answers");
    double sum = 0;
    for (size_t row = 0; row < csv.rows && status == DL_OK; row++) {
        double *tokens = &g->lengths[g->length_count++];
        status = dl_csv_number(&csv, row, (size_t)column, tokens, err);
        if (status == DL_OK && !(*tokens >= 1 && *tokens <= 1e9))
            status = dl_error_set_at(err, DL_ERR_RANGE, g->lengths_path, csv.lines[row],
                                     "a length is 1 to 1e9 tokens, not '%s'",
                                     dl_csv_cell(&csv, row, (size_t)column));
        sum += *tokens;
    }
    g->length_mean = sum / (double)g->length_count;
    dl_csv_free(&csv);
    return status;
}

static dl_status need(const dl_ini *ini, const char *key, bool given, const char *why,
                      dl_error *err)
{
    if (given) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, ini->path, dl_ini_section_line(ini, "generators"),
                           "[generators] %s is missing%s", key, why);
}

static dl_status wrong(const dl_ini *ini, const char *key, const char *why, dl_error *err)
{
    const dl_ini_entry *entry = entry_of(ini, key);
    if (entry != NULL) return dl_ini_error(ini, entry, DL_ERR_RANGE, err, "%s", why);
    return dl_error_set_at(err, DL_ERR_RANGE, ini->path, dl_ini_section_line(ini, "generators"),
                           "[generators] %s: %s", key, why);
}

static dl_status check_gpus(dl_generators *g, const dl_ini *ini, int machine, dl_error *err)
{
    if (g->gpus == 0) g->gpus = machine;
    dl_status status = need(ini, "gpus", g->gpus > 0, ": of both sides together", err);
    if (status != DL_OK) return status;
    if (machine > 0 && g->gpus > machine)
        return wrong(ini, "gpus", "the machine has fewer: [machine] nodes adds nodes", err);
    if (g->gpus % g->replica_gpus != 0)
        return wrong(ini, "replica_gpus", "replicas cannot divide gpus evenly", err);
    if (g->colocated) {
        g->generator_gpus = g->gpus;
        return DL_OK;
    }
    if (g->generator_gpus == 0) g->generator_gpus = g->gpus / 2 / g->replica_gpus * g->replica_gpus;
    if (g->generator_gpus == 0) return wrong(ini, "gpus", "too few for both sides", err);
    if (g->generator_gpus >= g->gpus)
        return wrong(ini, "generator_gpus", "none of gpus is left to the trainer", err);
    if (g->generator_gpus % g->replica_gpus != 0)
        return wrong(ini, "generator_gpus", "not a multiple of replica_gpus", err);
    return DL_OK;
}

/* Settings with which no update can be made. */
static dl_status check_rule(const dl_generators *g, const dl_ini *ini, dl_error *err)
{
    if (g->rule == DL_RULE_INSTALLED && !g->colocated && g->bound < g->copy_every - 1)
        return wrong(ini, "bound",
                     "with rule = installed fewer groups may begin than the updates until the next "
                     "copy need: copy_every - 1 at least",
                     err);
    if (g->age_max < g->copy_every - 1)
        return wrong(ini, "age_max",
                     "before the next copy all that is generated is older: copy_every - 1 at least",
                     err);
    if (g->rule == DL_RULE_WORKERS && g->in_flight == 0 && g->in_flight_of_replica == 0)
        return need(ini, "in_flight", false, ", which rule = workers needs", err);
    if (g->rule == DL_RULE_WORKERS && g->buffer > 0 && g->buffer < g->prompts)
        return wrong(ini, "buffer", "fewer complete groups than an update takes", err);
    if (g->requeue && !(g->age_max < INFINITY))
        return wrong(ini, "requeue", "nothing is discarded: this needs age_max", err);
    return DL_OK;
}

static dl_status check_copy(dl_generators *g, const dl_ini *ini, dl_error *err)
{
    if (isnan(g->pause_s)) g->pause_s = g->in_turn ? 0 : g->copy_s;
    if (g->pause_s > g->copy_s)
        return wrong(ini, "pause_s", "generation stands still for longer than the copy takes", err);
    return DL_OK;
}

/* A measured update on policy, from which both sides' times are derived. */
static dl_status check_on_policy(dl_generators *g, const dl_ini *ini, dl_error *err)
{
    if (isnan(g->on_policy_s)) {
        return !isnan(g->on_policy_generation_frac) || g->on_policy_gpus > 0 ||
                       !isnan(g->on_policy_length)
                   ? need(ini, "on_policy_s", false, ": it is of the same update", err)
                   : DL_OK;
    }
    if (!isnan(g->train_token_gpu_s))
        return wrong(ini, "on_policy_s", "train_token_gpu_s is given too: only one of both", err);
    if (g->on_policy_s <= g->switch_s / g->copy_every)
        return wrong(ini, "on_policy_s", "not above switch_s of an update", err);
    if (g->lengths != NULL && !isnan(g->on_policy_length))
        return wrong(ini, "on_policy_length", "not with lengths, which has all of them", err);
    if (isnan(g->on_policy_length)) g->on_policy_length = g->length_mean;
    if (g->lengths == NULL && g->length_cap <= g->on_policy_length)
        return wrong(ini, "length_cap", "not above on_policy_length", err);
    if (g->on_policy_gpus == 0) g->on_policy_gpus = g->gpus;
    if (g->on_policy_gpus % g->replica_gpus != 0)
        return wrong(ini, "on_policy_gpus", "not a multiple of replica_gpus", err);
    return DL_OK;
}

static dl_status check(dl_generators *g, const dl_ini *ini, int machine, dl_error *err)
{
    dl_status status;
    if ((status = check_gpus(g, ini, machine, err)) ||
        (status = need(ini, "length_mean", !isnan(g->length_mean), ", or lengths", err)))
        return status;
    if (g->lengths == NULL && g->length_cap <= g->length_mean)
        return wrong(ini, "length_cap", "not above length_mean", err);
    if ((status = check_rule(g, ini, err)) || (status = check_on_policy(g, ini, err)))
        return status;
    return check_copy(g, ini, err);
}

dl_status dl_generators_read(dl_generators **generators, const dl_ini *ini, int gpus, dl_error *err)
{
    const double nan = (double)NAN, inf = (double)INFINITY;
    *generators = NULL;
    if (dl_ini_section_line(ini, "generators") == 0) return DL_OK;
    dl_generators *g = dl_calloc(1, sizeof *g, "generators");
    *g = (dl_generators){
        .age_max = inf,
        .length_mean = nan,
        .length_cap = inf,
        .token_s = nan,
        .train_token_gpu_s = nan,
        .on_policy_s = nan,
        .on_policy_generation_frac = nan,
        .on_policy_length = nan,
        .train_fixed_frac = nan,
        .pause_s = nan,
        .usd_per_gpu_hour = nan,
    };
    dl_status status;
    if ((status = dl_keys_read(&dl_scenario_keys, DL_OF_GENERATORS, ini, NULL, g, err)) ||
        (status = read_rates(g, ini, err)) || (status = read_lengths(g, ini, err)) ||
        (status = check(g, ini, gpus, err))) {
        dl_generators_free(g);
        return status;
    }
    *generators = g;
    return DL_OK;
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
        .growth_frac = g->growth,
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
    /* All groups for the updates until the next change of sides are complete before the first
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
