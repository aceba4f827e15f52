/* dlsim: simulates the points of a scenario and writes the predictions. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/options.h"
#include "common/output.h"
#include "common/progress.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/fits.h"
#include "sim/main.h"
#include "sim/network/machine_graph.h"
#include "sim/report/columns.h"
#include "sim/report/index.h"
#include "sim/report/live.h"
#include "sim/report/notes.h"
#include "sim/report/report.h"
#include "sim/report/report_assumed.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/machine_catalogue.h"
#include "sim/scenario/without.h"
#include "sim/workloads/architecture.h"

#define PROBE_STEPS 10
/* Limit with --long: 10,000 points in each of 10,000 variants, the most that can be read. */
#define LIMIT_POINTS_MAX 1e8

static void free_inputs(dl_inputs *in)
{
    dl_measured_free(in->measured, in->study.point_count);
    dl_study_free(&in->study);
}

/* Reads the text again, with the training length of --samples, --tokens or --epochs as its
 * target. */
static dl_status read_with_length(dl_study *study, char **text, const char *name,
                                  const dl_settings *set, dl_error *err)
{
    const double limit = study->points_limit;
    double samples;
    const dl_status status = dl_settings_samples(set, study, &samples, err);
    if (status != DL_OK) return status;
    DL_AUTOFREE char *number = dl_format("%.0f", fmax(1, samples));
    dl_ini_text_set(text, "target", "samples", number);
    dl_study_free(study);
    study->points_limit = limit;
    return dl_study_read_text(study, name, *text, strlen(*text), err);
}

/* Reads the scenario `path` (NULL: none) together with the keys of the command line. With --save,
 * also writes it, unless --advise writes its choice. */
static dl_status read_study(dl_study *study, const char *path, const dl_settings *set,
                            dl_error *err)
{
    const bool save = set->save != NULL && !set->advise;
    const bool lasts = !set->advise && (set->samples > 0 || set->tokens > 0 || set->epochs > 0);
    if (path != NULL && !save && !lasts && !dl_scenario_command_given(&set->command)) {
        return dl_study_read(study, path, err);
    }
    DL_AUTOFREE char *text = NULL, *name = NULL;
    bool by_costs = false;
    dl_status status = dl_scenario_text(&set->command, path, &text, &name, &by_costs, err);
    if (status == DL_OK && lasts) /* for the keys that need it; read_with_length sets its value */
        dl_ini_text_set(&text, "target", "samples", "1");
    if (status == DL_OK) status = dl_study_read_text(study, name, text, strlen(text), err);
    if (status == DL_OK && lasts) status = read_with_length(study, &text, name, set, err);
    study->batch_by_costs = by_costs;
    study->is_changed = path != NULL && dl_scenario_command_given(&set->command) &&
                        dl_scenario_command_value(&set->command, "measured") == NULL;
    if (status == DL_OK && save) {
        status = dl_scenario_save(set->save, text, name, err);
    }
    return status;
}

/* Refuses keys for pipeline stages if no layout has stages. --advise layout is exempt: it makes
 * such layouts. */
static dl_status check_stages(const dl_study *study, const dl_settings *set, dl_error *err)
{
    static const char *const keys[] = {"chunks", "schedule", "split"};
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_scenario_pipeline *of = study->variants[v].scenario.pipeline;
        if (of != NULL && of->stages > 1) return DL_OK;
    }
    for (size_t i = 0; i < DL_LENGTH(keys); i++) {
        DL_AUTOFREE char *value = dl_ini_text_value(study->text, "pipeline", keys[i]);
        if (value == NULL || study->listed > 0 || set->advise == ADVISE_LAYOUT) continue;
        return dl_error_set(
            err, DL_ERR_DATA,
            "[pipeline] %s = %s: this needs stages, as --layout pp=2: no layout has "
            "any",
            keys[i], value);
    }
    return DL_OK;
}

/* Refuses a sweep with too many points. The message estimates the duration of the sweep from a few
 * steps of its first point. */
static dl_status refuse_size(const dl_study *study, const dl_settings *set, dl_error *err)
{
    const dl_variant *variant = &study->variants[0];
    dl_scenario few = variant->scenario;
    if (few.steps > PROBE_STEPS) few.steps = PROBE_STEPS;
    const dl_run_config config = {
        .scenario = &few, .costs = &variant->costs, .point = &few.points[0]};
    const double replicates = (double)variant->scenario.replicates;
    const double runs = (dl_run_varies(&few, &variant->costs) ? replicates : 1) +
                        (replicates > 1 && dl_costs_have_errors(&variant->costs) ? replicates : 0);
    const int threads = dl_settings_threads(set) * set->cluster->size;
    DL_SCOPED(dl_run_result) result = {0};
    dl_error ignored = {0};
    char time[40] = "an unknown time";
    const int64_t start_ns = dl_clock_ns();
    if (dl_run(&config, &result, &ignored) == DL_OK) {
        const double run_s = dl_ns_to_s((double)(dl_clock_ns() - start_ns)) *
                             (double)variant->scenario.steps / (double)few.steps;
        dl_duration_text(time, sizeof time, run_s * runs * study->listed / threads);
    }
    return dl_error_set_at(err, DL_ERR_RANGE, study->path, 0,
                           "the lists make %.4g points, %.4g runs, about %s on %d threads: shorten "
                           "them%s",
                           study->listed, study->listed * runs, time, threads,
                           study->listed <= LIMIT_POINTS_MAX ? ", or run them all with --long"
                                                             : "");
}

static dl_status read_inputs(dl_inputs *in, const char *path, const dl_settings *set, dl_error *err)
{
    unsigned without = 0;
    dl_status status = DL_OK;
    if (set->without != NULL) status = dl_without_parse(set->without, &without, err);
    in->study.points_limit = set->lasts ? LIMIT_POINTS_MAX : DL_STUDY_POINTS;
    if (status != DL_OK) return status;
    status = read_study(&in->study, path, set, err);
    if (status == DL_OK) status = check_stages(&in->study, set, err);
    if (status == DL_OK) status = dl_study_read_costs(&in->study, err);
    if (status != DL_OK) return dl_scenario_command_error(&set->command, path, err);
    if (status == DL_OK && in->study.listed > 0) status = refuse_size(&in->study, set, err);
    if (status == DL_OK) status = dl_measured_read(&in->measured, &in->study, err);
    if (status == DL_OK && set->left_out != NULL) {
        status = dl_measured_read_left_out(in->measured, in->study.point_count, set->left_out, err);
    }
    if (status == DL_OK && set->point > (int64_t)in->study.point_count) {
        status = dl_error_set(err, DL_ERR_USAGE, "--point %lld: the scenario has %zu points",
                              (long long)set->point, in->study.point_count);
    }
    for (size_t v = 0; v < in->study.variant_count && status == DL_OK; v++) {
        dl_variant *variant = &in->study.variants[v];
        dl_without_apply(without, &variant->scenario, &variant->costs);
        if (set->seed >= 0) variant->scenario.seed = set->seed;
    }
    return status;
}

/* Checks the names of output files before anything is simulated or written. */
static dl_status check_outputs(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    const dl_file_role outputs[] = {
        {"--save-costs", set->save_costs},
        {"--save-machine", set->save_machine},
        {"--draw-machine", set->draw},
        {"--save", set->save},
        {"--output", set->check ? NULL : dl_settings_output(set)},
        {"--html", set->check ? NULL : set->html},
        {"--json", set->check || dl_settings_json_to_stdout(set) ? NULL : set->json},
        {"--histogram", set->check ? NULL : set->histogram},
        {"--timeline", set->check ? NULL : set->timeline},
        {"--schedule", set->check ? NULL : set->schedule},
    };
    dl_status status = DL_OK;
    for (size_t v = 0; v < in->study.variant_count && status == DL_OK; v++) {
        const dl_scenario *scenario = &in->study.variants[v].scenario;
        const dl_file_role read[] = {
            {"the scenario", scenario->path},
            {"the cost file", scenario->costs_path},
            {"the machine file", scenario->gpu != NULL ? scenario->gpu->machine.path : NULL},
            {"the machine file of scale_compute", scenario->scale_path},
            {"the recorded step", scenario->trace_path},
            {"the measured file", scenario->measured_path},
            {"the table of --left-out", set->left_out},
        };
        status = dl_outputs_check(outputs, DL_LENGTH(outputs), read, DL_LENGTH(read), err);
        for (size_t f = 0; f < scenario->gpu_costs_count && status == DL_OK; f++) {
            const dl_file_role file = {"a file of gpu_costs", scenario->gpu_costs[f].path};
            status = dl_outputs_check(outputs, DL_LENGTH(outputs), &file, 1, err);
        }
    }
    return status;
}

/* Lists missing costs on stderr, one per line, as the list may be longer than an error text. */
static dl_status check(const dl_inputs *in, dl_error *err)
{
    const char *path = NULL;
    DL_AUTOFREE char *missing = dl_study_missing(&in->study, &path);
    if (missing == NULL) return DL_OK;
    fprintf(stderr, "%s lacks:\n", path);
    int count = 0;
    for (char *rest = missing; rest != NULL; count++) {
        char *end = strstr(rest, ", ");
        if (end != NULL) *end = '\0';
        fprintf(stderr, "  %s%s\n", rest,
                strcmp(rest, "[costs] parameter_bytes") == 0
                    ? " (--parameter-bytes BYTES or --parameters COUNT gives them)"
                : strcmp(rest, "[op NAME]") == 0
                    ? " (--workload NAME or --samples-per-s RATE gives them beside this file)"
                    : "");
        rest = end != NULL ? end + 2 : NULL;
    }
    return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                           count == 1 ? "%d cost that the scenario needs is missing"
                                      : "%d costs that the scenario needs are missing",
                           count);
}

static void print_checked(const dl_inputs *in)
{
    const dl_scenario *first = &in->study.variants[0].scenario;
    size_t assumed = 0;
    for (size_t v = 0; v < in->study.variant_count; v++)
        assumed += in->study.variants[v].assumed.count;
    printf("%s: %zu points, %lld replicates of %lld steps; %s\n", in->study.path,
           in->study.point_count, (long long)first->replicates, (long long)first->steps,
           assumed == 0 ? "no costs are missing" : "costs that are missing are assumed");
    DL_SCOPED(dl_notes) notes = {0};
    dl_effects effects = {0};
    dl_study_notes(&notes, &in->study, DL_NOTES_ALL);
    dl_report_assumed(&effects, &in->study, NULL);
    dl_effects_end(&notes, &effects);
    for (size_t i = 0; i < notes.count; i++)
        dl_report_note_print(stdout, notes.lines[i]);
}

static dl_status save_costs(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    const dl_variant *variant = &in->study.variants[0];
    if (in->study.variant_count > 1) {
        return dl_error_set(err, DL_ERR_USAGE, "--save-costs: the scenario has %zu cost files",
                            in->study.variant_count);
    }
    DL_AUTOFREE char *comment = NULL;
    if (variant->scenario.model != NULL) {
        comment =
            dl_format("Estimated by dlsim %s from the network's operations and the data sheet "
                      "of %s.\nSpread: of predicted over published training rates.",
                      DL_VERSION, variant->costs.device);
    }
    return dl_costs_write(&variant->costs, set->save_costs, comment, err);
}

static dl_status refuse_cores(const dl_scenario *scenario, const char *option, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                           "%s needs a machine file: [machine] file is not given", option);
}

static dl_status draw_machine(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    const dl_scenario *scenario = &dl_inputs_chosen(in, set)->scenario;
    if (scenario->gpu == NULL) return refuse_cores(scenario, "--draw-machine", err);
    return dl_machine_graph_save(&scenario->gpu->machine, set->draw, err);
}

static dl_status save_machine(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    const dl_machine *most = NULL;
    for (size_t v = 0; v < in->study.variant_count; v++) {
        const dl_scenario *scenario = &in->study.variants[v].scenario;
        if (scenario->gpu == NULL) return refuse_cores(scenario, "--save-machine", err);
        const dl_machine *machine = &scenario->gpu->machine;
        if (most != NULL && strcmp(most->path, machine->path) != 0) {
            return dl_error_set(err, DL_ERR_USAGE,
                                "--save-machine: the scenario has several machines, %s and %s",
                                most->path, machine->path);
        }
        if (most == NULL || machine->nodes > most->nodes) most = machine;
    }
    return dl_machine_save(most, set->save_machine, err);
}

/* Sets *journal to a path beside the first output file, which the caller frees; NULL if no output
 * is a file or this is not rank 0. */
static dl_status find_journal(char **journal, const dl_settings *set, dl_error *err)
{
    const char *beside = set->output != NULL ? set->output
                         : set->html != NULL ? set->html
                                             : set->json;
    const bool is_file =
        set->cluster->rank == 0 && !(beside == set->json && dl_settings_json_to_stdout(set));
    return dl_journal_beside(journal, is_file ? beside : NULL, (dl_journal_mode)set->journal, err);
}

/* Simulates on all ranks and writes on rank 0. After a failure the journal is kept if repeating the
 * command may succeed. */
static dl_status simulate(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    dl_progress progress;
    DL_SCOPED(dl_sweep) sweep = {0};
    DL_AUTOFREE char *journal = NULL;
    dl_status status = find_journal(&journal, set, err);
    dl_sweep_config config = {
        .threads = dl_settings_threads(set),
        .journal = journal,
        .progress = set->quiet ? NULL : dl_progress_show,
        .user = &progress,
        .cluster = set->cluster,
        .pace = set->pace,
    };
    if (status == DL_OK) status = dl_study_key(&in->study, set->without, &config.key, err);
    status = dl_cluster_agree(set->cluster, status, err);
    if (status == DL_OK) {
        status = dl_cluster_same(set->cluster, config.key, "the scenario, or a file that it names,",
                                 err);
    }
    dl_progress_start(&progress, "dlsim", "of %lld runs");
    if (status == DL_OK) status = dl_sweep_run(&sweep, &in->study, &config, err);
    dl_progress_end(&progress);
    dl_journal_say_aside(sweep.journal, "dlsim");
    if (status == DL_OK && set->cluster->rank == 0) status = dl_inputs_write(in, &sweep, set, err);
    if (status != DL_ERR_IO && status != DL_ERR_SYSTEM) dl_sweep_end_journal(&sweep);
    if (status == DL_OK && set->cluster->rank == 0) status = dl_fits_check(&in->study, &sweep, err);
    if (status == DL_OK && set->cluster->rank == 0)
        status = dl_inputs_check_run(in, &sweep, set, err);
    return status;
}

static dl_status write_index(const dl_settings *set, dl_error *err)
{
    if (set->html == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--index needs --html FILE, the page to write");
    }
    const char *rows = set->output != dl_default_output ? set->output : NULL;
    const dl_file_role outputs[] = {{"--html", set->html}, {"--output", rows}};
    const dl_file_role read[] = {{"the list of --index", set->index}};
    dl_outputs_hold();
    dl_status status = dl_outputs_check(outputs, 2, read, 1, err);
    if (status == DL_OK) {
        status = dl_index_write(set->html, rows, set->quiet ? NULL : stdout, set->index, err);
    }
    return dl_outputs_end(status, err);
}

static dl_status print_rules(const dl_scenario_command *command, dl_error *err)
{
    const char *keys = NULL;
    const dl_status status = dl_generators_preset(command->rules, &keys, err);
    if (status == DL_OK) printf("[generators]\n%s", keys);
    return status;
}

/* --save-machine and --draw-machine for a machine (name or file) without a scenario. */
static dl_status write_machine(const char *path, const dl_settings *set, dl_error *err)
{
    const dl_file_role outputs[] = {{"--save-machine", set->save_machine},
                                    {"--draw-machine", set->draw}};
    const dl_file_role read = {"the machine file", path};
    DL_SCOPED(dl_machine) machine = {0};
    dl_status status = dl_outputs_check(outputs, DL_LENGTH(outputs), &read, 1, err);
    if (status == DL_OK) status = dl_machine_open(&machine, path, err);
    if (status == DL_OK && set->save_machine != NULL)
        status = dl_machine_save(&machine, set->save_machine, err);
    if (status == DL_OK && set->draw != NULL)
        status = dl_machine_graph_save(&machine, set->draw, err);
    return status;
}

/* Runs options that simulate no scenario: lists, --rules, --save-machine or --draw-machine for a
 * machine alone, --index. *done: whether there was one. */
static dl_status run_listing(const dl_settings *set, const dl_text_list *positional, bool *done,
                             dl_error *err)
{
    const char *first = positional->count > 0 ? positional->items[0] : NULL;
    const char *machine = dl_scenario_command_machine_alone(&set->command);
    *done = true;
    if (first == NULL && dl_scenario_command_rules_alone(&set->command))
        return print_rules(&set->command, err);
    if (first == NULL && machine != NULL && (set->save_machine != NULL || set->draw != NULL))
        return write_machine(machine, set, err);
    if (set->keys) return dl_keys_reference(stdout, first, set->markdown, err);
    if (set->machines) return dl_machines_print(stdout, err);
    if (set->columns) {
        dl_columns_reference(stdout);
        return DL_OK;
    }
    if (set->workloads) {
        dl_architectures_print(stdout);
        return DL_OK;
    }
    if (set->index == NULL) {
        *done = false;
        return DL_OK;
    }
    if (first == NULL) return write_index(set, err);
    return dl_error_set(err, DL_ERR_USAGE, "--index takes no SCENARIO, but '%s' is given", first);
}

/* Work of rank 0 before the simulation. */
static dl_status prepare(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    dl_status status = check_outputs(in, set, err);
    if (status == DL_OK && set->save_costs != NULL) status = save_costs(in, set, err);
    if (status == DL_OK && set->save_machine != NULL) status = save_machine(in, set, err);
    if (status == DL_OK && set->draw != NULL) status = draw_machine(in, set, err);
    if (status == DL_OK && (!set->advise || set->check)) status = check(in, err);
    return status;
}

/* Prints the progress of a long run, even with --quiet. */
static void say_progress(const char *text)
{
    fprintf(stderr, "dlsim: %s\n", text);
}

/* Prints the keys of --rules, which the scenario's own keys override. */
static void say_rules(const dl_settings *set)
{
    const char *keys = NULL;
    if (set->command.rules == NULL || set->quiet || dl_settings_json_to_stdout(set)) return;
    if (dl_generators_preset(set->command.rules, &keys, NULL) != DL_OK) return;
    DL_AUTOFREE char *list = NULL;
    for (const char *key = keys; *key != '\0'; key += strcspn(key, "\n") + 1) {
        DL_AUTOFREE char *one = dl_strndup_trimmed(key, strcspn(key, "\n"));
        dl_join(&list, ", ", one);
    }
    dl_wrap_print(stdout, 2, "Keys as in %s, except those that the scenario sets: %s.",
                  set->command.rules, list);
}

/* Checks the scenario `path` (NULL: command line only), then simulates it or searches for its best
 * settings. Without any scenario, --html writes the page of controls. */
static dl_status run_scenario(const char *path, dl_settings *set, dl_error *err)
{
    dl_inputs in = {0};
    const bool first = set->cluster->rank == 0;
    const bool nothing = path == NULL && !dl_scenario_command_given(&set->command);
    if (nothing && set->html != NULL && !set->advise && set->solve == NULL) {
        const dl_status status = first ? dl_live_write(set->html, err) : DL_OK;
        if (status == DL_OK && first && !set->quiet) printf("page in %s\n", set->html);
        return status;
    }
    if (nothing) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "nothing to simulate: give a SCENARIO, or --costs, --workload or "
                            "--samples-per-s (--help explains them)");
    }
    if (set->json != NULL && set->html == NULL && set->output == dl_default_output)
        set->output = NULL;
    if (set->output != NULL && strcmp(set->output, "-") == 0) {
        if (dl_settings_json_to_stdout(set))
            return dl_error_set(err, DL_ERR_USAGE, "--output - and --json -: give only one");
        set->quiet |= !set->check;
    }
    set->replaces = set->output == dl_default_output && access(dl_settings_output(set), F_OK) == 0;
    if (!first) set->save = NULL;
    set->command.for_layouts = set->advise == ADVISE_LAYOUT;
    set->command.searched = set->solve;
    set->command.needs_no_batch =
        set->check && set->save == NULL && (set->save_machine != NULL || set->draw != NULL);
    dl_outputs_hold();
    dl_status status = read_inputs(&in, path, set, err);
    if (status == DL_OK) status = dl_settings_check_search(set, err);
    if (status == DL_OK && first) status = prepare(&in, set, err);
    if (status == DL_OK && first) say_rules(set);
    status = dl_cluster_agree(set->cluster, status, err);
    dl_pace pace;
    dl_pace_init(&pace, set->lasts ? (double)INFINITY : DL_PACE_LIMIT_S,
                 dl_settings_threads(set) *
                     (set->advise || set->solve != NULL ? 1 : set->cluster->size),
                 say_progress);
    if (first) set->pace = &pace;
    if (status == DL_OK && set->advise && !set->check) {
        if (first) status = dl_inputs_advise(&in, set, err);
    } else if (status == DL_OK && !set->check && set->fits) {
        if (first) status = dl_report_memory(stdout, &in.study, err);
    } else if (status == DL_OK && !set->check && set->solve != NULL) {
        if (first) status = dl_inputs_solve(&in, set, err);
    } else if (status == DL_OK && !set->check) {
        status = simulate(&in, set, err);
    }
    dl_pace_free(&pace);
    status = dl_outputs_end(status, err);
    if (status == DL_OK && set->check && !set->quiet) print_checked(&in);
    free_inputs(&in);
    return status;
}

static dl_status run(int argc, char **argv, dl_cluster *cluster, dl_error *err)
{
    DL_SCOPED(dl_text_list) positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_settings set;
    dl_status status = dl_settings_parse(&set, argc, argv, &positional, &action, err);
    set.cluster = cluster;
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        bool done = cluster->rank > 0 && set.index != NULL; /* rank 0 writes the index */
        if (!done) status = run_listing(&set, &positional, &done, err);
        if (status == DL_OK && !done) {
            status = run_scenario(positional.count > 0 ? positional.items[0] : NULL, &set, err);
        }
    }
    if (status == DL_OK) status = dl_stdout_check(err);
    dl_text_list_free(&set.command.set);
    return status;
}

int main(int argc, char **argv)
{
    dl_output_start();
    dl_error error = {0};
    dl_cluster cluster;
    dl_status status = dl_cluster_start(&cluster, &error);
    if (status == DL_OK) status = run(argc, argv, &cluster, &error);
    return dl_cluster_end(&cluster, status, &error, "dlsim");
}
