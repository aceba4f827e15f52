/* The trainer beside [generators]. */
#include <math.h>
#include <stdlib.h>

#include "common/names.h"
#include "sim/scenario/scenario_internal.h"
#include "sim/workloads/architecture.h"

/* Tokens of a sample of the trainer's step: a packed sequence of the model's length, or, if samples
 * have no length, an answer with its prompt. */
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
        /* The machine gives only the number of GPUs and their price. */
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
    const int shards = split != NULL && split->shards > 1 ? split->shards : 1;
    const int ranks = split != NULL ? dl_layout_ranks(split) : 1;
    const int gpus = dl_generators_trainer_gpus(g);
    if (gpus % ranks != 0 || g->gpus % ranks != 0) {
        return dl_error_set_at(
            err, DL_ERR_RANGE, ini->path, dl_ini_section_line(ini, "generators"),
            "[generators]: %d trainer GPUs of %d are no multiple of a worker's %d", gpus, g->gpus,
            ranks);
    }
    g->sample_tokens = sample_tokens(scenario);
    const double samples =
        (double)g->prompts * g->answers * (g->length_mean + g->prompt_tokens) / g->sample_tokens;
    const double of_worker = samples * ranks / gpus;
    const double micro_batches = fmax(1, ceil(of_worker / (shards * g->micro_batch)));
    if (all->mode.entry == NULL)
        all->mode.values[0] = dl_names_find("allreduce", dl_mode_names, DL_MODES);
    all->workers.values[0] = (double)gpus / ranks;
    all->batch.values[0] = micro_batches * gpus / ranks * shards * g->micro_batch;
    if (split != NULL && split->stages > 1) {
        split->micro_batches = (int)micro_batches;
    } else {
        all->option[DL_SYNC_ACCUMULATE].values[0] = micro_batches;
    }
    return DL_OK;
}

/* Default updates of a run with [generators]. */
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
