#include "sim/scenario/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/ini.h"
#include "common/names.h"
#include "common/output.h"
#include "common/units.h"
#include "sim/costs/costs.h"
#include "sim/generate/generators.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/machine_catalogue.h"
#include "sim/scenario/scenario_internal.h"

static const char group_model[] = "Model and costs", group_machine[] = "Machine and workers",
                  group_exchange[] = "Exchange", group_runs[] = "Runs", group_results[] = "Results";

/* Options that set keys, in the order of a new scenario. */
static const struct {
    const char *option, *section, *key, *argument, *group, *help;
} rows[DL_SCENARIO_OPTIONS] = {
    {"steps", "scenario", "steps", "LIST", group_runs, "Number of steps of each worker."},
    {"replicates", "scenario", "replicates", "LIST", group_runs,
     "Number of runs of each point, for the intervals of the results."},
    {"machine", "machine", "file", "FILES", group_machine,
     "Machine files or names (dlsim --machines lists them), whose GPUs are the workers; without "
     "it, workers share cores."},
    {"gpus", "machine", "gpus", "LIST", group_machine,
     "Numbers of the GPUs of workers 0, 1, ...; further workers share these GPUs in turn."},
    {"cores", "machine", "cores", "LIST", group_machine,
     "Number of cores that the workers share; workers: one core each; measured: the number in "
     "the cost file."},
    {"workers", "machine", "workers", "LIST", group_machine,
     "Number of workers; all: as many as use every GPU of the machine."},
    {"layout", "machine", "layout", "LAYOUT", group_machine,
     "Division of the model among GPUs: tp=COUNT GPUs divide each layer, cp=COUNT each sequence, "
     "ep=COUNT the experts, pp=COUNT are stages of layers, fsdp=COUNT shard parameters, dp=COUNT "
     "are workers, last; the first groups neighbouring GPUs; bars (|) separate layouts."},
    {"workload", "workload", "model", "NAME", group_model,
     "Network whose times are estimated (dlsim --workloads lists them)."},
    {"samples-per-s", "workload", "samples_per_s", "LIST", group_model,
     "Samples per second of one worker, in place of --workload; other costs are assumed."},
    {"costs", "workload", "costs", "FILES", group_model,
     "Cost files, as dlcal writes them, in place of --workload; or with it, cost files of "
     "exchange (dlcal links) and input only."},
    {"calibrate", "workload", "calibrate", "STEP", group_model,
     "Measured step time (212ms; 212ms@8: of 8 workers; 212ms@8x32: with 32 samples each) or "
     "rate (600samples/s, 60000tokens/s), to which computing is scaled; all else is predicted "
     "relative to it."},
    {"batch", "workload", "batch", "LIST", group_model,
     "Number of samples per step, of all workers together."},
    {"batch-per-worker", "workload", "batch_per_worker", "LIST", group_model,
     "Number of samples per step of each worker."},
    {"arithmetic", "workload", "arithmetic", "LIST", group_model,
     "Arithmetic of --workload: fp32, tf32, bf16, fp16, fp8, nvfp4, or the usual one of the GPU."},
    {"recompute", "workload", "recompute", "LIST", group_model,
     "Activations of --workload that are recomputed: none, selective, full, products."},
    {"lora", "workload", "lora", "RANKS", group_model,
     "Rank of the LoRA adapters that are trained in place of the weights of --workload."},
    {"lora-targets", "workload", "lora_targets", "NAMES", group_model,
     "Matrices with adapters, by PEFT's names, or all-linear; default: q_proj,v_proj."},
    {"parameter-bytes", "workload", "parameter_bytes", "LIST", group_model,
     "Size of the model's parameters in bytes, in place of the cost file's."},
    {"samples-per-epoch", "workload", "samples_per_epoch", "LIST", group_model,
     "Number of samples per epoch, for its time and price."},
    {"micro-batches", "pipeline", "micro_batches", "LIST", group_model,
     "Number of micro-batches per worker's batch, computed one after another or through the "
     "stages."},
    {"micro-batch", "pipeline", "micro_batch", "LIST", group_model,
     "Number of samples per micro-batch, in place of --micro-batches."},
    {"mode", "sync", "mode", "LIST", group_exchange,
     "Mode of exchange between workers: none, allreduce, ps, average, async, ... (dlsim --keys "
     "sync lists all)."},
    {"interval", "sync", "interval", "LIST", group_exchange,
     "Number of local steps between two averages."},
    {"noise", "noise", "kind", "LIST", group_runs,
     "Variation of step times: none, trace, work, exponential, ... (dlsim --keys noise lists "
     "all)."},
    {"measured", "measured", "file", "FILE", group_results,
     "CSV file of measured runs to compare with."},
};

static const char *const parameter_types[] = {"fp32", "fp16", "bf16", NULL};
/* Indexed by dl_scenario_command.parameter_type. */
static const double parameter_type_bytes[] = {4, 4, 2, 2};

/* Writes "Number of steps of each worker ([scenario] steps; default 200)." Omits the default of
 * --mode, as a new scenario has another one. */
static void write_help(char *text, size_t i)
{
    const dl_key *key = dl_keys_find(&dl_scenario_keys, rows[i].section, rows[i].key);
    const bool has_default = key->fallback != NULL && strcmp(rows[i].option, "mode") != 0;
    const int bytes =
        snprintf(text, DL_SCENARIO_HELP_BYTES, "%.*s ([%s] %s%s%s).", (int)strlen(rows[i].help) - 1,
                 rows[i].help, rows[i].section, rows[i].key, has_default ? "; default " : "",
                 has_default ? key->fallback : "");
    DL_ASSERT(bytes < DL_SCENARIO_HELP_BYTES, "%d bytes of help", bytes);
}

void dl_scenario_options(dl_option *options, dl_scenario_command *command)
{
    static const char *const groups[] = {group_model, group_machine, group_exchange, group_runs,
                                         group_results};
    for (size_t g = 0; g < DL_LENGTH(groups); g++) {
        for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++) {
            if (rows[i].group != groups[g]) continue;
            write_help(command->helps[i], i);
            *options++ =
                (dl_option)DL_OPT_TEXT(rows[i].option, 0, &command->values[i], rows[i].argument,
                                       command->helps[i], .group = groups[g]);
        }
    }
    const dl_option others[] = {
        DL_OPT_LIST("set", 0, &command->set, "KEY=VALUE",
                    "Value of a key of the scenario, as in exchange.overlap=yes (dlsim --keys "
                    "lists them).",
                    .group = "Other keys"),
        DL_OPT_TEXT("parameters", 0, &command->parameters, "COUNT",
                    "Number of the model's parameters, in place of --parameter-bytes (25.6e6, "
                    "25.6M).",
                    .group = group_model),
        {.name = "parameter-type",
         .type = DL_OPTION_KIND,
         .target = &command->parameter_type,
         .choices = parameter_types,
         .argument = "TYPE",
         .help = "Number type in which --parameters are exchanged, of 4 bytes or 2.",
         .group = group_model},
        DL_OPT_FLAG("no-scale", 0, &command->no_scale,
                    "Do not scale compute times, even if the cost file's device is not the "
                    "machine's.",
                    .group = group_model),
        DL_OPT_TEXT(
            "rules", 0, &command->rules, "FRAMEWORK",
            "Framework whose rules set keys of [generators] that the scenario does not set: "
            "verl, trl, areal or nemo-rl; without a scenario, only print these keys.",
            .group = group_exchange),
    };
    memcpy(options, others, sizeof others);
}

static bool gives_keys(const dl_scenario_command *command)
{
    bool given = command->set.count > 0 || command->parameters != NULL ||
                 command->parameter_type > 0 || command->no_scale;
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++)
        given |= command->values[i] != NULL;
    return given;
}

bool dl_scenario_command_given(const dl_scenario_command *command)
{
    return gives_keys(command) || command->rules != NULL;
}

bool dl_scenario_command_rules_alone(const dl_scenario_command *command)
{
    return command->rules != NULL && !gives_keys(command);
}

const char *dl_scenario_command_machine_alone(const dl_scenario_command *command)
{
    dl_scenario_command others = *command;
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++)
        if (strcmp(rows[i].option, "machine") == 0) others.values[i] = NULL;
    return dl_scenario_command_given(&others) ? NULL
                                              : dl_scenario_command_value(command, "machine");
}

static bool names_file(const char *section, const char *key)
{
    const dl_key *row = dl_keys_find(&dl_scenario_keys, section, key);
    return row != NULL && row->form != NULL && strcmp(row->form, "file") == 0;
}

const char *dl_scenario_option_of(const char *section, const char *key)
{
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++)
        if (strcmp(rows[i].section, section) == 0 && strcmp(rows[i].key, key) == 0)
            return rows[i].option;
    return NULL;
}

dl_status dl_scenario_option_word(const char *given, const char **option, dl_error *err)
{
    const size_t shortest = 3; /* of key names: --k may stand for --keys */
    const dl_word *word = dl_word_find(dl_scenario_words, given);
    const dl_key *key = NULL;
    DL_AUTOFREE char *name = dl_strdup(given);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    const bool is_key =
        strlen(given) >= shortest && dl_keys_named(&dl_scenario_keys, name, &key, NULL) == DL_OK;
    if (!is_key && word == NULL) return DL_OK;
    if (!is_key && word->here == NULL)
        return dl_error_set(err, DL_ERR_USAGE, "--%s: %s", given, word->says);
    const dl_status status =
        is_key ? DL_OK : dl_keys_named(&dl_scenario_keys, word->here, &key, err);
    DL_ASSERT(status == DL_OK, "no key %s", word->here);
    *option = dl_scenario_option_of(key->section, key->name);
    if (*option != NULL) return DL_OK;
    return dl_error_set(err, DL_ERR_USAGE, "--%s: write --set %s.%s=VALUE: %s", given, key->section,
                        key->name, key->help);
}

/* Returns the value of the last --set of a key, as given; NULL: there is none. */
static const char *set_value(const dl_scenario_command *command, const char *section,
                             const char *key)
{
    DL_AUTOFREE char *name = dl_format("%s.%s=", section, key);
    const char *value = NULL;
    for (size_t i = 0; i < command->set.count; i++)
        if (strncmp(command->set.items[i], name, strlen(name)) == 0)
            value = command->set.items[i] + strlen(name);
    return value;
}

const char *dl_scenario_command_value(const dl_scenario_command *command, const char *option)
{
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++)
        if (strcmp(rows[i].option, option) == 0)
            return set_value(command, rows[i].section, rows[i].key) != NULL
                       ? set_value(command, rows[i].section, rows[i].key)
                       : command->values[i];
    return NULL;
}

/* --- machines that come with the program ------------------------------------------------------ */

/* Returns the file of a machine in *path: `text` if it is a path, else the program's file of that
 * name, or the name itself for a generated machine (sim/scenario/machine_catalogue.h). */
static dl_status find_machine(const char *text, char **path, dl_error *err)
{
    const bool is_path = strchr(text, '/') != NULL || access(text, F_OK) == 0;
    *path = is_path ? NULL : dl_machine_file(text);
    if (*path != NULL) return DL_OK;
    *path = dl_strdup(text);
    if (is_path || dl_machine_is_known(text)) return DL_OK;
    free(*path);
    *path = NULL;
    char *made = NULL;
    dl_error inner = {0};
    dl_status status = dl_machine_make_text(text, &made, &inner);
    DL_ASSERT(status != DL_OK, "%s is made, and is not", text);
    if (status == DL_ERR_NAME || status == DL_ERR_RANGE) {
        return dl_error_set(err, DL_ERR_USAGE, "--machine: %s", inner.text);
    }
    if (err != NULL) *err = inner;
    return status;
}

/* --- values in the scenario's notation -------------------------------------------------------- */

static dl_status make_absolute(char **path, const char *folder, dl_error *err)
{
    DL_AUTOFREE char *joined =
        (*path)[0] == '/' ? dl_strdup(*path) : dl_format("%s/%s", folder, *path);
    if (dl_machine_is_known(joined)) { /* known by name, independently of the folder */
        return DL_OK;
    }
    char *real = realpath(joined, NULL);
    dl_status status = DL_OK;
    if (real == NULL) status = dl_error_set(err, DL_ERR_IO, "%s: %s", *path, strerror(errno));
    if (status != DL_OK) return status;
    free(*path);
    *path = real;
    return DL_OK;
}

/* Rule to convert a list of files on the command line. */
typedef struct file_rule {
    bool machines;      /* names of machines are allowed too */
    const char *folder; /* folder of the files, to make paths absolute; NULL: paths stay
                         * unchanged */
} file_rule;

static dl_status list_files(const file_rule *rule, const char *text, char **list, dl_error *err)
{
    dl_status status = DL_OK;
    *list = NULL;
    while (status == DL_OK && text != NULL) {
        const size_t bytes = strcspn(text, ",");
        DL_AUTOFREE char *path = NULL, *item = dl_strndup_trimmed(text, bytes);
        if (rule->machines) {
            status = find_machine(item, &path, err);
        } else {
            path = dl_strdup(item);
        }
        if (status == DL_OK && rule->folder != NULL) {
            status = make_absolute(&path, rule->folder, err);
        }
        if (status == DL_OK) dl_join(list, ", ", path);
        text = text[bytes] != '\0' ? text + bytes + 1 : NULL;
    }
    if (status != DL_OK) {
        free(*list);
        *list = NULL;
    }
    return status;
}

/* --- the complete text ------------------------------------------------------------------------ */

static dl_status check_value(const char *option, const char *value, dl_error *err)
{
    for (const char *c = value; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || (*c == ';' && c > value && c[-1] == ' ')) {
            return dl_error_set(err, DL_ERR_USAGE,
                                "--%s: a value cannot contain control characters or ' ;'", option);
        }
    }
    return DL_OK;
}

/* Sets a key to the value of an option. `folder`: base of relative file names in the text; NULL:
 * the current folder. */
static dl_status put_option(char **text, const char *option, const char *section, const char *key,
                            const char *value, const char *folder, dl_error *err)
{
    if (strcmp(option, "mode") == 0) {
        dl_scenario_leave_modes(text, value);
    }
    dl_status status = check_value(option, value, err);
    if (status != DL_OK) return status;
    if (!names_file(section, key)) {
        dl_ini_text_set(text, section, key, value);
        return DL_OK;
    }
    const file_rule rule = {.machines = strcmp(section, "machine") == 0,
                            .folder = folder != NULL ? "." : NULL};
    DL_AUTOFREE char *files = NULL;
    status = list_files(&rule, value, &files, err);
    if (status == DL_OK) dl_ini_text_set(text, section, key, files);
    return status;
}

static dl_status put_set(char **text, const char *set, const char *folder, dl_error *err)
{
    const char *equals = strchr(set, '=');
    if (equals == NULL || equals == set || set[0] == '.' || equals[-1] == '.') {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--set %s: expected SECTION.KEY=VALUE, as in exchange.overlap=yes",
                            set);
    }
    char *section = dl_strndup(set, (size_t)(equals - set)), *dot = strchr(section, '.');
    const char *of = section, *key = dot != NULL ? dot + 1 : NULL;
    const dl_key *row = NULL;
    dl_error why = {0};
    dl_status status = DL_OK;
    if (dot != NULL) {
        *dot = '\0';
    } else if (dl_keys_named(&dl_scenario_keys, section, &row, &why) == DL_OK) {
        of = row->section;
        key = row->name;
    } else {
        status = dl_error_set(err, DL_ERR_USAGE, "--set %s: %s", set, why.text);
    }
    if (status == DL_OK) status = put_option(text, "set", of, key, equals + 1, folder, err);
    free(section);
    return status;
}

/* Sizes of the machines of a list, and the nodes that they need for a number of workers. */
typedef struct machine_room {
    int64_t most;  /* GPUs of the machine with the most */
    int64_t gpus;  /* GPUs of the machine with the fewest; INT64_MAX before the first machine */
    int64_t nodes; /* largest number of nodes that any machine needs for the workers */
    bool grows; /* nodes can be added: all machines' nodes have network cards, and no name contains
                 * their number */
} machine_room;

static dl_status find_room(const char *machines, int64_t workers, machine_room *room, dl_error *err)
{
    *room = (machine_room){0, INT64_MAX, 1, true};
    char *files = NULL, *rest = NULL;
    dl_status status = list_files(&(file_rule){.machines = true}, machines, &files, err);
    if (status != DL_OK) return status;
    for (char *file = strtok_r(files, ",", &rest); file != NULL && status == DL_OK;
         file = strtok_r(NULL, ",", &rest)) {
        DL_SCOPED(dl_machine) machine = {0};
        status = dl_machine_open(&machine, file + strspn(file, " "), err);
        if (status != DL_OK) break;
        const int64_t gpus = dl_machine_gpus(&machine);
        const int64_t nodes = dl_machine_nodes_for(&machine, workers);
        if (gpus < room->gpus) room->gpus = gpus;
        if (gpus > room->most) room->most = gpus;
        if (nodes > room->nodes) room->nodes = nodes;
        room->grows = room->grows && dl_machine_fewest_nics(&machine) > 0 &&
                      !dl_machine_counts_nodes(file + strspn(file, " "));
    }
    free(files);
    return status;
}

/* Returns the number of entries of --gpus, "0, 3", or of the shortest of several lists with `|`
 * between them. */
static int64_t listed_gpus(const char *lists)
{
    int64_t least = INT64_MAX;
    while (*lists != '\0') {
        const char *end = lists + strcspn(lists, "|");
        int64_t count = 1;
        for (; lists < end; lists++)
            count += *lists == ',';
        if (count < least) least = count;
        lists += *end == '|';
    }
    return least;
}

#define DEFAULT_WORKERS_MAX 64

/* Sets *list, freed by the caller, to the default worker counts 1, 2, 4, ... up to the number of
 * GPUs of the smallest machine, or of the list `gpus` (NULL: none), at most DEFAULT_WORKERS_MAX.
 * For machines of different sizes, none above that maximum, the last count is `all`. */
static dl_status default_workers(const char *machines, const char *gpus, char **list, dl_error *err)
{
    machine_room room;
    dl_status status = find_room(machines, 1, &room, err);
    if (status != DL_OK) return status;
    const bool differ = gpus == NULL && room.most > room.gpus && room.most <= DEFAULT_WORKERS_MAX;
    const int64_t of = gpus != NULL ? listed_gpus(gpus) : room.gpus,
                  most = of < DEFAULT_WORKERS_MAX ? of : DEFAULT_WORKERS_MAX;
    *list = dl_strdup(differ && most == 1 ? "all" : "1");
    for (int64_t n = 1; n < most;) {
        n = 2 * n < most ? 2 * n : most;
        DL_AUTOFREE char *more =
            differ && n == most ? dl_strdup("all") : dl_format("%lld", (long long)n);
        dl_join(list, ", ", more);
    }
    return DL_OK;
}

/* Returns the largest number of a list; 0 if it has other words ("all"). */
static int64_t largest_of(const char *list)
{
    int64_t largest = 0;
    for (const char *item = list; item != NULL && *item != '\0';) {
        const size_t bytes = strcspn(item, ",");
        DL_AUTOFREE char *text = dl_strndup_trimmed(item, bytes);
        int64_t number = 0;
        const dl_status status = dl_parse_int(text, 1, INT32_MAX, &number, NULL);
        if (status != DL_OK) return 0;
        if (number > largest) largest = number;
        item = item[bytes] != '\0' ? item + bytes + 1 : NULL;
    }
    return largest;
}

/* Sets the number of nodes that the workers need if a machine has fewer and nodes can be added. */
static dl_status put_nodes(char **text, const char *machines, const char *workers,
                           const char *layout, dl_error *err)
{
    machine_room room;
    int64_t all = 0;
    const int64_t each = layout != NULL ? dl_scenario_layout_gpus(layout, &all) : 1;
    if (each > DL_WORKERS_MAX) return DL_OK; /* reported when the scenario is read */
    const int64_t wanted = workers != NULL ? largest_of(workers) * each : all;
    dl_status status = wanted > 0 ? find_room(machines, wanted, &room, err) : DL_OK;
    if (status != DL_OK || wanted == 0 || wanted <= room.gpus || !room.grows) return status;
    DL_AUTOFREE char *nodes = dl_format("%lld", (long long)room.nodes);
    dl_ini_text_set(text, "machine", "nodes", nodes);
    return DL_OK;
}

/* Sets the batch per worker to the largest measured batch of a GPU's step in the first cost file,
 * times the GPUs of a worker that have different samples. *has: whether the file has a measured
 * batch. DL_ERR_USAGE if that number of GPUs differs between the layouts. */
static dl_status put_measured_batch(char **text, const char *files, const char *layouts, bool *has,
                                    dl_error *err)
{
    const int64_t gpus = layouts != NULL ? dl_scenario_layout_batches(layouts) : 1;
    DL_SCOPED(dl_costs) costs = {0};
    DL_AUTOFREE char *path = dl_strndup_trimmed(files, strcspn(files, ","));
    dl_status status = dl_costs_read(&costs, path, err);
    if (status != DL_OK) return status;
    *has = costs.batch_max > 0;
    const long long each = dl_costs_step_batch(&costs);
    if (*has && gpus == 0) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--batch (samples of all workers together) or --batch-per-worker is "
                            "missing: %s has %lld samples per GPU, and the workers of %s differ in "
                            "the product of fsdp and ep",
                            path, each, layouts);
    }
    DL_AUTOFREE char *batch = dl_format("%lld", each * gpus);
    if (*has) dl_ini_text_set(text, "workload", "batch_per_worker", batch);
    return DL_OK;
}

/* Whether --solve searches the batch per worker. */
static bool searches_batch(const dl_scenario_command *command)
{
    const dl_key *key = NULL;
    return command->searched != NULL &&
           dl_keys_named(&dl_scenario_keys, command->searched, &key, NULL) == DL_OK &&
           strcmp(key->section, "workload") == 0 && strcmp(key->name, "batch_per_worker") == 0;
}

/* Sets a batch per worker if the command line has no batch; *by_costs: whether it is that of the
 * costs. */
static dl_status put_batch(char **text, const dl_scenario_command *command, bool *by_costs,
                           dl_error *err)
{
    if (dl_scenario_command_value(command, "batch") != NULL ||
        dl_scenario_command_value(command, "batch-per-worker") != NULL)
        return DL_OK;
    const char *costs = dl_scenario_command_value(command, "costs");
    dl_status status =
        costs != NULL
            ? put_measured_batch(text, costs, dl_scenario_command_value(command, "layout"),
                                 by_costs, err)
            : DL_OK;
    if (status != DL_OK || *by_costs) return status;
    const char *step = dl_scenario_command_value(command, "calibrate");
    const char *at = step != NULL ? strchr(step, '@') : NULL;
    if (command->needs_no_batch && step != NULL && (at == NULL || strchr(at, 'x') == NULL)) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--calibrate %s: give the batch of this step too, as "
                            "--batch-per-worker 32, or %.*s@1x32",
                            step, (int)strcspn(step, "@"), step);
    }
    if (searches_batch(command) ||
        (command->needs_no_batch && dl_scenario_command_value(command, "samples-per-s") == NULL)) {
        dl_ini_text_set(text, "workload", "batch_per_worker", "1");
        return DL_OK;
    }
    if (costs != NULL && dl_scenario_command_value(command, "workload") == NULL &&
        dl_scenario_command_value(command, "samples-per-s") == NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--batch (samples of all workers together) or --batch-per-worker is "
                            "missing: %s does not say which batch was measured",
                            costs);
    }
    return dl_error_set(err, DL_ERR_USAGE,
                        "--batch-per-worker (samples of a step, as --batch-per-worker 8) or "
                        "--batch (of all workers together) is missing");
}

/* Whether --set gives keys of [generators], so that the defaults do not apply. */
static bool has_generators(const dl_scenario_command *command)
{
    for (size_t i = 0; i < command->set.count; i++)
        if (strncmp(command->set.items[i], "generators.", strlen("generators.")) == 0) return true;
    return false;
}

/* Whether one of the layouts has the axis dp. */
static bool names_workers(const char *layouts)
{
    const char *at = strstr(layouts, "dp");
    while (at != NULL && at > layouts && at[-1] == 's')
        at = strstr(at + 1, "dp");
    return at != NULL;
}

/* Sets the keys of a new scenario that the command line omits. */
static dl_status put_defaults(char **text, const dl_scenario_command *command, bool *by_costs,
                              dl_error *err)
{
    const char *machines = dl_scenario_command_value(command, "machine");
    DL_AUTOFREE char *workers = NULL;
    dl_status status = DL_OK;
    if (has_generators(command)) return DL_OK;
    if (dl_scenario_command_value(command, "costs") == NULL &&
        dl_scenario_command_value(command, "workload") == NULL &&
        dl_scenario_command_value(command, "samples-per-s") == NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "without a SCENARIO --costs, --workload or --samples-per-s is needed");
    }
    if (dl_scenario_command_value(command, "workload") != NULL && machines == NULL) {
        const char *gpus = dl_scenario_command_value(command, "gpus");
        const bool named = gpus != NULL && gpus[strspn(gpus, "0123456789,-")] != '\0';
        return dl_error_set(
            err, DL_ERR_USAGE, "--workload needs --machine NAME (dlsim --machines lists them)%s%s",
            named ? "; --gpus has numbers of its GPUs, as 0,1, not " : "", named ? gpus : "");
    }
    if (dl_scenario_command_value(command, "samples-per-s") != NULL && machines == NULL &&
        dl_scenario_command_value(command, "cores") == NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--samples-per-s needs --machine NAME (dlsim --machines lists them), "
                            "or --cores COUNT for workers on a processor");
    }
    if ((status = put_batch(text, command, by_costs, err)) != DL_OK) return status;
    if (machines == NULL && dl_scenario_command_value(command, "cores") == NULL) {
        dl_ini_text_set(text, "machine", "cores", "measured");
    }
    const char *layout = dl_scenario_command_value(command, "layout");
    const bool alone = command->for_layouts && (layout == NULL || !names_workers(layout));
    if (alone && layout == NULL) {
        /* With this layout, keys of schedules are allowed; --advise layout replaces it. */
        dl_ini_text_set(text, "machine", "layout", DL_LAYOUT_ALONE);
    } else if (machines != NULL && dl_scenario_command_value(command, "workers") == NULL &&
               layout == NULL) {
        status =
            default_workers(machines, dl_scenario_command_value(command, "gpus"), &workers, err);
    } else if (machines != NULL && dl_scenario_command_value(command, "gpus") == NULL) {
        status =
            put_nodes(text, machines, dl_scenario_command_value(command, "workers"), layout, err);
    }
    if (status == DL_OK) {
        const bool placed = set_value(command, "machine", "placement") != NULL;
        if (alone || (layout == NULL && !placed))
            dl_ini_text_set(text, "machine", "workers",
                            alone             ? "1"
                            : workers != NULL ? workers
                                              : "1, 2, 4, 8");
        dl_ini_text_set(text, "sync", "mode", "allreduce");
    }
    return status;
}

/* Sets the size of the parameters, in bytes, from --parameters. */
static dl_status put_parameters(char **text, const dl_scenario_command *command, dl_error *err)
{
    double count = 0;
    dl_error inner = {0};
    if (command->parameters == NULL && command->parameter_type > 0) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--parameter-type %s needs --parameters COUNT; the type of a network "
                            "is set by --arithmetic, with sharded parameters by --set "
                            "exchange.param_dtype",
                            parameter_types[command->parameter_type - 1]);
    }
    if (command->parameters == NULL) return DL_OK;
    if (dl_scenario_command_value(command, "parameter-bytes") != NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--parameters and --parameter-bytes: give only one of them");
    }
    if (dl_parse_count(command->parameters, &count, &inner) != DL_OK) {
        return dl_error_set(err, DL_ERR_USAGE, "--parameters: %s", inner.text);
    }
    DL_AUTOFREE char *bytes =
        dl_format("%.0f", count * parameter_type_bytes[command->parameter_type]);
    dl_ini_text_set(text, "workload", "parameter_bytes", bytes);
    return DL_OK;
}

/* Whether all listed cost files contain only costs of exchange and input.
 * Returns false without a list or if a file cannot be read. */
static bool are_exchange(const char *files, const char *folder)
{
    char *list = NULL, *rest = NULL;
    bool are =
        files != NULL && list_files(&(file_rule){.folder = folder}, files, &list, NULL) == DL_OK;
    for (char *file = are ? strtok_r(list, ",", &rest) : NULL; file != NULL && are;
         file = strtok_r(NULL, ",", &rest))
        are = dl_costs_file_is_exchange(file + strspn(file, " "));
    free(list);
    return are;
}

/* Whether the step's times come from a network or a rate. Only then is the command line's cost
 * file, which may be a pipe, opened beforehand. */
static bool has_estimate(const char *text)
{
    return dl_ini_text_line(text, "workload", "model") != NULL ||
           dl_ini_text_line(text, "workload", "samples_per_s") != NULL;
}

/* Removes the file's sources of times if the command line gives one. Cost files with only exchange
 * are not such a source: they are kept, or added to the file's sources. */
static void remove_other_sources(char **text, const dl_scenario_command *command,
                                 const char *folder)
{
    static const char *const sources[] = {"costs", "workload", "samples-per-s"};
    const char *costs = dl_scenario_command_value(command, "costs");
    const bool others = dl_scenario_command_value(command, "workload") != NULL ||
                        dl_scenario_command_value(command, "samples-per-s") != NULL;
    DL_AUTOFREE char *own = dl_ini_text_value(*text, "workload", "costs");
    const bool kept = others && are_exchange(own, folder);
    if (!others && (costs == NULL || !has_estimate(*text) || are_exchange(costs, NULL))) return;
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++)
        if (dl_names_find(rows[i].option, sources, DL_LENGTH(sources)) >= 0 &&
            !(kept && strcmp(rows[i].option, "costs") == 0))
            dl_ini_text_remove(text, rows[i].section, rows[i].key);
}

static dl_status put_all(char **text, const dl_scenario_command *command, const char *folder,
                         dl_error *err)
{
    dl_status status = DL_OK;
    remove_other_sources(text, command, folder);
    if (dl_scenario_command_value(command, "batch") != NULL)
        dl_ini_text_remove(text, "workload", "batch_per_worker");
    if (dl_scenario_command_value(command, "batch-per-worker") != NULL)
        dl_ini_text_remove(text, "workload", "batch");
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS && status == DL_OK; i++) {
        if (command->values[i] == NULL) continue;
        status = put_option(text, rows[i].option, rows[i].section, rows[i].key, command->values[i],
                            folder, err);
    }
    if (status == DL_OK) status = put_parameters(text, command, err);
    if (command->no_scale) dl_ini_text_set(text, "workload", "scale", "no");
    for (size_t i = 0; i < command->set.count && status == DL_OK; i++) {
        status = put_set(text, command->set.items[i], folder, err);
    }
    return status;
}

/* Adds the keys of --rules that the text lacks. */
static dl_status put_rules(char **text, const char *rules, dl_error *err)
{
    const char *keys = NULL;
    dl_status status = rules != NULL ? dl_generators_preset(rules, &keys, err) : DL_OK;
    for (const char *line = keys; status == DL_OK && line != NULL && *line != '\0';
         line = strchr(line, '\n') + 1) {
        const char *equals = strchr(line, '='), *end = strchr(line, '\n');
        DL_AUTOFREE char *key = dl_strndup_trimmed(line, (size_t)(equals - line));
        DL_AUTOFREE char *value = dl_strndup_trimmed(equals + 1, (size_t)(end - equals - 1));
        if (dl_ini_text_line(*text, "generators", key) == NULL)
            dl_ini_text_set(text, "generators", key, value);
    }
    return status;
}

/* Adds a comment above each key. */
static void comment_keys(char **text)
{
    for (size_t i = 0; i < dl_scenario_keys.count; i++) {
        const dl_key *key = &dl_scenario_keys.rows[i];
        const char *line = dl_ini_text_line(*text, key->section, key->name);
        if (line == NULL) continue;
        char *changed =
            dl_format("%.*s; %s: %s\n%s", (int)(line - *text), *text, key->name, key->help, line);
        free(*text);
        *text = changed;
    }
}

/* Sets the name of a scenario without a file: "gpt2 on 1xrtx4090@10gbe", "lenet on 2 cores". */
static void put_name(char **text, const dl_scenario_command *command)
{
    const char *costs = dl_scenario_command_value(command, "costs"),
               *model = dl_scenario_command_value(command, "workload"),
               *rate = dl_scenario_command_value(command, "samples-per-s"),
               *machine = dl_scenario_command_value(command, "machine"),
               *cores = dl_scenario_command_value(command, "cores");
    char *what = model != NULL  ? dl_strdup(model)
                 : rate != NULL ? dl_format("%s samples/s", rate)
                                : dl_strdup("training");
    if (costs != NULL && model == NULL && rate == NULL) {
        const char *file = dl_base_name(costs);
        const size_t bytes = strlen(file);
        free(what);
        what = dl_format("%.*s", (int)(dl_ends_with(file, ".ini") ? bytes - 4 : bytes), file);
    }
    DL_AUTOFREE char *where = machine != NULL ? dl_strdup(machine)
                              : cores != NULL ? dl_format("%s cores", cores)
                                              : dl_strdup("cores");
    const char *line = dl_ini_text_line(*text, "machine", "nodes");
    const char *nodes = line != NULL ? strchr(line, '=') : NULL;
    const int64_t count = nodes != NULL ? strtoll(nodes + 1, NULL, 10) : 0;
    DL_AUTOFREE char *name = count > 0
                                 ? dl_format("%s on %s, %lld nodes", what, where, (long long)count)
                                 : dl_format("%s on %s", what, where);
    dl_ini_text_set(text, "scenario", "name", name);
    free(what);
}

dl_status dl_scenario_text(const dl_scenario_command *command, const char *path, char **text,
                           char **name, bool *batch_by_costs, dl_error *err)
{
    size_t bytes = 0;
    dl_status status = DL_OK;
    *name = NULL;
    *batch_by_costs = false;
    if (command->for_layouts && dl_scenario_command_value(command, "workers") != NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--workers: --advise layout chooses a layout of all GPUs by itself");
    }
    if (path != NULL) {
        status = dl_file_read(path, text, &bytes, err);
        if (status != DL_OK) return status;
        if (memchr(*text, '\0', bytes) != NULL) {
            status = dl_error_set_at(err, DL_ERR_DATA, path, 0, "holds a NUL byte: no INI file");
        }
    } else {
        *text = dl_strdup("[scenario]\nname = from the command line\n\n[machine]\n\n[workload]\n\n"
                          "[sync]\n");
        status = put_defaults(text, command, batch_by_costs, err);
        *batch_by_costs &= !searches_batch(command);
        put_name(text, command);
    }
    DL_AUTOFREE char *folder =
        path != NULL && strchr(path, '/') != NULL ? dl_folder_name(path) : NULL;
    const char *mode = path != NULL ? dl_scenario_command_value(command, "mode") : NULL;
    if (status == DL_OK && mode != NULL) dl_scenario_leave_exchange(text, path, mode);
    if (status == DL_OK) status = put_all(text, command, folder, err);
    if (status == DL_OK) status = put_rules(text, command->rules, err);
    if (status == DL_OK && path == NULL) comment_keys(text);
    if (status == DL_OK) {
        *name = dl_strdup(path != NULL ? path : DL_SCENARIO_FROM_COMMAND);
        return DL_OK;
    }
    free(*text);
    *text = NULL;
    return status;
}

static dl_status same_folder(const char *a, const char *b, bool *same, dl_error *err)
{
    char *folder[2] = {dl_folder_name(a), dl_folder_name(b)};
    dl_status status = make_absolute(&folder[0], ".", err);
    if (status == DL_OK) status = make_absolute(&folder[1], ".", err);
    *same = status == DL_OK && strcmp(folder[0], folder[1]) == 0;
    free(folder[0]);
    free(folder[1]);
    return status;
}

dl_status dl_scenario_save(const char *file, const char *text, const char *name, dl_error *err)
{
    bool same = false;
    dl_status status = same_folder(file, name, &same, err);
    if (status != DL_OK) return status;
    DL_AUTOFREE char *folder = dl_folder_name(name), *saved = dl_strdup(text);
    for (size_t i = 0; i < dl_scenario_keys.count && status == DL_OK && !same; i++) {
        const dl_key *key = &dl_scenario_keys.rows[i];
        DL_AUTOFREE char *value = dl_ini_text_value(saved, key->section, key->name), *files = NULL;
        if (!names_file(key->section, key->name) || value == NULL) continue;
        status = list_files(&(file_rule){.folder = folder}, value, &files, err);
        if (status == DL_OK) dl_ini_text_set(&saved, key->section, key->name, files);
    }
    return status == DL_OK ? dl_output_text(file, saved, err) : status;
}
