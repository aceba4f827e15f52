/* The searches of dlsim: --advise and --solve. */
#include <math.h>
#include <stdio.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/output.h"
#include "common/progress.h"
#include "sim/main.h"
#include "sim/report/advise.h"
#include "sim/report/generator_advice.h"
#include "sim/report/layout_advice.h"
#include "sim/report/solve.h"
#include "sim/scenario/without.h"
#include "sim/workloads/architecture.h"

static dl_status write_advice(const dl_settings *set, const dl_advice *advice, dl_error *err)
{
    const char *output = dl_settings_output(set);
    const bool prints_json = dl_settings_json_to_stdout(set);
    dl_status status = output != NULL ? dl_advice_write(output, advice, err) : DL_OK;
    if (status == DL_OK && set->json != NULL && !prints_json)
        status = dl_advice_json(set->json, advice, err);
    if (status == DL_OK && set->save != NULL && advice->best_count > 0) {
        status =
            dl_scenario_save(set->save, advice->points[advice->best[0]].text, advice->path, err);
    }
    status = dl_outputs_end(status, err);
    if (status != DL_OK) return status;
    if (prints_json) {
        dl_advice_json_write(stdout, advice);
    } else if (!set->quiet) {
        const bool saved = set->save != NULL && advice->best_count > 0;
        dl_advice_print(stdout, advice);
        printf("%zu points in %s%s%s%s\n", advice->point_count, output != NULL ? output : set->json,
               dl_settings_replaced(set), saved ? ", the advised scenario in " : "",
               saved ? set->save : "");
    }
    if (advice->best_count > 0) return DL_OK;
    return dl_error_set(err, DL_ERR_DATA, "--advise: none of %zu points is within the limits",
                        advice->point_count);
}

/* Tokens per sample if all workloads have the same number; otherwise 0. */
static int64_t sequence_of(const dl_study *study)
{
    int64_t each = 0;
    for (size_t v = 0; v < study->variant_count; v++) {
        const char *model = study->variants[v].scenario.model;
        DL_SCOPED(dl_architecture) network = {0};
        int64_t own = 0;
        if (model != NULL && dl_architecture_make(&network, model, NULL) == DL_OK)
            own = network.sequence;
        if (v > 0 && own != each) return 0;
        each = own;
    }
    return each;
}

static dl_status samples_of_tokens(const dl_study *study, const dl_settings *set, double *samples,
                                   dl_error *err)
{
    const int64_t each = sequence_of(study);
    if (set->epochs > 0 || set->samples > 0 || each == 0) {
        return dl_error_set(err, DL_ERR_USAGE,
                            each == 0 ? "--tokens needs a --workload whose samples are sequences, "
                                        "all of one length (--samples is for others)"
                                      : "--tokens, --samples and --epochs: give only one of them");
    }
    *samples = set->tokens / (double)each;
    return DL_OK;
}

dl_status dl_settings_samples(const dl_settings *set, const dl_study *study, double *samples,
                              dl_error *err)
{
    const int64_t per_epoch = study->variants[0].scenario.samples_per_epoch;
    const int64_t given =
        set->samples > 0 ? set->samples : study->variants[0].scenario.target.samples;
    *samples = given > 0 ? (double)given : (double)NAN;
    if (set->tokens > 0) return samples_of_tokens(study, set, samples, err);
    if (set->epochs == 0) return DL_OK;
    if (set->samples > 0) {
        return dl_error_set(err, DL_ERR_USAGE, "--epochs and --samples: give only one of them");
    }
    if (per_epoch == 0) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--epochs needs --samples-per-epoch ([workload] samples_per_epoch)");
    }
    *samples = set->epochs * (double)per_epoch;
    return DL_OK;
}

static dl_status advise_generators(const dl_inputs *in, const dl_settings *set,
                                   const dl_advice_config *config, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    dl_progress_start(config->user, "dlsim", "of %lld runs");
    dl_status status = dl_generators_advise(&in->study, config, dl_settings_output(set),
                                            set->quiet ? NULL : stdout, &text, err);
    if (status == DL_OK && set->save != NULL)
        status = dl_scenario_save(set->save, text, in->study.path, err);
    return dl_outputs_end(status, err);
}

static dl_status advise_layout(const dl_inputs *in, const dl_settings *set,
                               const dl_advice_config *config, dl_error *err)
{
    DL_SCOPED(dl_layout_advice) advice = {0};
    dl_progress_start(config->user, "dlsim", "of at most %lld runs");
    dl_status status = dl_layouts_advise(&advice, &in->study, config, err);
    dl_progress_end(config->user);
    if (status == DL_OK && set->save != NULL)
        status = dl_scenario_save(set->save, advice.study.text, in->study.path, err);
    if (status == DL_OK) {
        dl_settings shown = *set;
        dl_inputs best = {.study = advice.study};
        shown.output = set->output == dl_default_output ? dl_settings_output(set) : set->output;
        status = dl_measured_read(&best.measured, &best.study, err);
        if (status == DL_OK) status = dl_inputs_write(&best, &advice.sweep, &shown, err);
        dl_measured_free(best.measured, best.study.point_count);
    }
    if (status == DL_OK && !set->quiet && !dl_settings_json_to_stdout(set))
        dl_layout_advice_print(stdout, &advice);
    return status;
}

dl_status dl_inputs_advise(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    dl_progress progress;
    DL_SCOPED(dl_advice) advice = {0};
    dl_advice_config config = {
        .goal = (dl_goal)set->goal,
        .max_staleness = set->max_staleness >= 0 ? set->max_staleness : (double)NAN,
        .max_batch = set->max_batch,
        .max_interval = set->max_interval,
        .min_efficiency = set->min_efficiency,
        .deadline_h = set->deadline_h > 0 ? set->deadline_h : (double)NAN,
        .budget_usd = set->budget_usd > 0 ? set->budget_usd : (double)NAN,
        .max_points = set->max_points,
        .threads = dl_settings_threads(set),
        .pace = set->pace,
        .progress = set->quiet ? NULL : dl_progress_show,
        .user = &progress,
    };
    dl_status status = dl_settings_samples(set, &in->study, &config.samples, err);
    if (status == DL_OK && in->study.variants[0].scenario.generators != NULL) {
        if (set->json != NULL)
            return dl_error_set(err, DL_ERR_USAGE,
                                "--json cannot be combined with --advise of [generators]");
        status = advise_generators(in, set, &config, err);
        dl_progress_end(&progress);
        return status;
    }
    if (status == DL_OK && set->advise == ADVISE_LAYOUT)
        return advise_layout(in, set, &config, err);
    dl_progress_start(&progress, "dlsim", "of at most %lld points");
    if (status == DL_OK) status = dl_advise(&advice, &in->study, &config, err);
    dl_progress_end(&progress);
    if (status == DL_OK) status = write_advice(set, &advice, err);
    return status;
}

dl_status dl_settings_check_search(const dl_settings *set, dl_error *err)
{
    enum { NO_ADVISE = 1, LAYOUT = 2, ADVISE = 4, SOLVE = 8, FITS = 16 };
    const bool layout = set->advise == ADVISE_LAYOUT;
    const struct {
        bool holds;
        unsigned bit;
        const char *why;
    } rules[] = {{!set->advise, NO_ADVISE, "needs --advise"},
                 {layout, LAYOUT,
                  "cannot be combined with --advise layout, which searches for the highest "
                  "throughput"},
                 {set->advise, ADVISE,
                  "cannot be combined with --advise: save the advised scenario (--save) and run "
                  "it"},
                 {set->solve != NULL, SOLVE,
                  "cannot be combined with --solve: run the scenario with the value that it "
                  "finds"},
                 {set->fits, FITS,
                  "cannot be combined with --fits, which simulates nothing and prints a table"}};
    /* All layouts use all GPUs, so the cheapest is the fastest. */
    const unsigned goal = set->goal == DL_GOAL_COST ? NO_ADVISE : NO_ADVISE | LAYOUT;
    const unsigned limit = NO_ADVISE | LAYOUT;
    const struct {
        const char *name;
        bool given;
        unsigned against; /* the rules that refuse it */
    } options[] = {{"for", set->goal != DL_GOAL_THROUGHPUT, goal},
                   {"max-staleness", set->max_staleness >= 0, limit},
                   {"max-batch", set->max_batch > 0, limit},
                   {"max-interval", set->max_interval > 0, limit},
                   {"min-efficiency", set->min_efficiency > 0, limit},
                   {"deadline", set->deadline_h > 0, limit},
                   {"budget", set->budget_usd > 0, limit},
                   {"advise", set->advise, SOLVE | FITS},
                   {"solve", set->solve != NULL, FITS},
                   {"json", set->json != NULL, FITS},
                   {"html", set->html != NULL, (layout ? 0 : ADVISE) | SOLVE | FITS},
                   {"output", set->output != NULL && set->output != dl_default_output, FITS},
                   {"timeline", set->timeline != NULL, ADVISE | SOLVE | FITS},
                   {"schedule", set->schedule != NULL, ADVISE | SOLVE | FITS},
                   {"histogram", set->histogram != NULL, ADVISE | SOLVE | FITS},
                   {"left-out", set->left_out != NULL, ADVISE | SOLVE},
                   {"explain", set->explain, ADVISE | SOLVE | FITS},
                   {"draw-machine", set->draw != NULL, ADVISE}};
    for (size_t r = 0; r < DL_LENGTH(rules); r++)
        for (size_t i = 0; i < DL_LENGTH(options); i++)
            if (rules[r].holds && options[i].given && (options[i].against & rules[r].bit))
                return dl_error_set(err, DL_ERR_USAGE, "--%s %s", options[i].name, rules[r].why);
    if ((set->solve == NULL) == (set->target == NULL)) return DL_OK;
    return dl_error_set(err, DL_ERR_USAGE, "--%s needs --%s",
                        set->solve != NULL ? "solve" : "target",
                        set->solve != NULL ? "target" : "solve");
}

static dl_status write_solution(const dl_settings *set, const dl_solution *solution,
                                const dl_study *study, dl_error *err)
{
    const char *output = dl_settings_output(set);
    dl_status status = DL_OK;
    if (output != NULL) status = dl_solution_write(output, solution, study, err);
    if (status == DL_OK && set->json != NULL && !dl_settings_json_to_stdout(set)) {
        status = dl_solution_json(set->json, solution, study, err);
    }
    status = dl_outputs_end(status, err);
    if (status != DL_OK) return status;
    if (dl_settings_json_to_stdout(set)) {
        dl_solution_json_write(stdout, solution, study);
    } else if (!set->quiet) {
        dl_solution_print(stdout, solution, study);
        printf("%zu row%s in %s%s\n", solution->count, solution->count == 1 ? "" : "s",
               output != NULL ? output : set->json, dl_settings_replaced(set));
    }
    return DL_OK;
}

dl_status dl_inputs_solve(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    DL_SCOPED(dl_solution) solution = {0};
    dl_progress progress;
    dl_solve_config config = {
        .key = set->solve,
        .targets = set->target,
        .seed = set->seed,
        .threads = set->threads > 0 ? (int)set->threads : dl_cpu_count(),
        .pace = set->pace,
        .progress = set->quiet ? NULL : dl_progress_show,
        .user = &progress,
    };
    dl_status status = DL_OK;
    if (set->without != NULL) status = dl_without_parse(set->without, &config.without, err);
    dl_progress_start(&progress, "dlsim", "of about %lld values");
    if (status == DL_OK) status = dl_solve(&solution, &in->study, &config, err);
    dl_progress_end(&progress);
    if (status == DL_OK) status = write_solution(set, &solution, &in->study, err);
    if (status == DL_OK) status = dl_solution_check(&solution, &in->study, err);
    return status;
}
