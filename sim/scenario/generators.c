/* Reads [generators], and the trainer beside the generators. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/names.h"
#include "sim/scenario/scenario_internal.h"
#include "sim/workloads/architecture.h"

/* --- the section ----------------------------------------------------------------------------- */

static const dl_ini_entry *entry_of(const dl_ini *ini, const char *key)
{
    return dl_ini_find(ini, "generators", key);
}

/* Reads "1:150, 8:900": pairs of requests in flight and their total rate in tokens per second. */
static dl_status read_rates(dl_generators *g, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = entry_of(ini, "rates");
    char **items = NULL;
    size_t count = 0;
    if (entry == NULL) return DL_OK;
    if (!isnan(g->token_s))
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "token_s is given too: give only one");
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
    DL_SCOPED(dl_csv) csv = {0};
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

/* Rejects settings with which no update can be made, rule = workers without in_flight or
 * in_flight_of_replica, and requeue without age_max. */
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

/* Checks a measured on-policy update, from which the times of both sides are derived, and sets its
 * length and GPUs if they are not given. */
static dl_status check_on_policy(dl_generators *g, const dl_ini *ini, dl_error *err)
{
    if (isnan(g->on_policy_s)) {
        return !isnan(g->on_policy_generation_frac) || g->on_policy_gpus > 0 ||
                       !isnan(g->on_policy_length)
                   ? need(ini, "on_policy_s", false, ": it is of the same update", err)
                   : DL_OK;
    }
    if (!isnan(g->train_token_gpu_s))
        return wrong(ini, "on_policy_s", "train_token_gpu_s is given too: give only one", err);
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

dl_status dl_scenario_read_generators(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const double nan = (double)NAN, inf = (double)INFINITY;
    const int gpus = scenario->gpu != NULL ? dl_gpu_options_count(scenario->gpu) : 0;
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
    scenario->generators = g;
    return DL_OK;
}

/* --- the trainer ----------------------------------------------------------------------------- */

/* Tokens of a sample of the trainer's step: a packed sequence of the model's length or, for models
 * without one, a prompt with its answer. */
static double sample_tokens(const dl_scenario *scenario)
{
    const dl_generators *g = scenario->generators;
    dl_architecture network = {0};
    double tokens = g->length_mean + g->prompt_tokens;
    if (scenario->model == NULL || dl_architecture_make(&network, scenario->model, NULL) != DL_OK)
        return tokens;
    if (network.sequence > 0) tokens = (double)network.sequence;
    dl_architecture_free(&network);
    return tokens;
}

dl_status dl_scenario_take_trainer(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *all,
                                   dl_error *err)
{
    dl_generators *g = scenario->generators;
    if (g == NULL) return DL_OK;
    if (dl_scenario_trains_by_keys(scenario)) {
        if (scenario->gpu == NULL || scenario->model != NULL) return DL_OK;
        /* The machine only sets the number of GPUs and their price. */
        if (isnan(g->usd_per_gpu_hour))
            g->usd_per_gpu_hour = dl_gpu_options_usd_per_hour(scenario->gpu, g->gpus) / g->gpus;
        dl_gpu_options_free(scenario->gpu);
        free(scenario->gpu);
        scenario->gpu = NULL;
        all->cores.values[0] = 1;
        return DL_OK;
    }
    if (all->workers.entry != NULL) {
        return dl_ini_error(ini, all->workers.entry, DL_ERR_DATA, err,
                            "[generators] says which GPUs train");
    }
    dl_scenario_pipeline *split = scenario->pipeline;
    const int64_t sharers = split != NULL ? dl_axes_batches(split->size) : 1;
    const int ranks = split != NULL ? dl_axes_gpus(split->size) : 1;
    const int gpus = dl_generators_trainer_gpus(g);
    if (gpus % ranks != 0 || g->gpus % ranks != 0) {
        return dl_error_set_at(
            err, DL_ERR_RANGE, ini->path, dl_ini_section_line(ini, "generators"),
            "[generators]: %d trainer GPUs of %d are not a multiple of a worker's %d", gpus,
            g->gpus, ranks);
    }
    g->sample_tokens = sample_tokens(scenario);
    const double samples =
        (double)g->prompts * g->answers * (g->length_mean + g->prompt_tokens) / g->sample_tokens;
    const double of_worker = samples * ranks / gpus;
    const double micro_batches = fmax(1, ceil(of_worker / ((double)sharers * g->micro_batch)));
    if (all->mode.entry == NULL)
        all->mode.values[0] = dl_names_find("allreduce", dl_mode_names, DL_MODES);
    all->workers.values[0] = (double)gpus / ranks;
    all->batch.values[0] = micro_batches * gpus / ranks * (double)sharers * g->micro_batch;
    if (split != NULL && split->stages > 1) {
        split->micro_batches = (int)micro_batches;
    } else {
        all->option[DL_SYNC_ACCUMULATE].values[0] = micro_batches;
    }
    return DL_OK;
}

/* Default numbers of updates of a run with [generators]: counted updates, and warm-up updates
 * before them. */
#define UPDATES 60
#define UPDATES_BEFORE 10

void dl_scenario_set_updates(dl_scenario *scenario, const dl_ini *ini)
{
    if (scenario->generators == NULL) return;
    if (dl_ini_find(ini, "scenario", "steps") == NULL) scenario->steps = UPDATES;
    if (dl_ini_find(ini, "scenario", "warmup") == NULL) scenario->warmup = UPDATES_BEFORE;
}

bool dl_scenario_trains_by_keys(const dl_scenario *scenario)
{
    const dl_generators *g = scenario->generators;
    return g != NULL && !(isnan(g->train_token_gpu_s) && isnan(g->on_policy_s));
}
