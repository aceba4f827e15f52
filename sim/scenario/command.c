#include "sim/scenario/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/install.h"
#include "common/names.h"
#include "common/output.h"
#include "common/units.h"
#include "sim/costs/costs.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/machine_catalogue.h"

/* Options in place of keys, in the order in which a new scenario has them. */
static const struct {
    const char *option, *section, *key, *argument, *help;
} rows[DL_SCENARIO_OPTIONS] = {
    {"steps", "scenario", "steps", "LIST", "Steps of a worker."},
    {"replicates", "scenario", "replicates", "LIST",
     "Runs of each point, for the intervals of the results."},
    {"machine", "machine", "file", "LIST",
     "Machine files, or names of machines (--machines lists them), whose GPUs are the workers; "
     "without it workers share cores."},
    {"cores", "machine", "cores", "LIST",
     "Cores that the workers share; workers: one each; measured: as many as the cost file says."},
    {"workers", "machine", "workers", "LIST", "Numbers of workers."},
    {"costs", "workload", "costs", "LIST", "Cost files."},
    {"workload", "workload", "model", "NAME",
     "In place of --costs: a network (--workloads lists them), whose times are estimated."},
    {"samples-per-s", "workload", "samples_per_s", "LIST",
     "Throughput of one worker, in place of --costs: the rest is assumed."},
    {"batch", "workload", "batch", "LIST", "Samples of a step, of all workers together."},
    {"batch-per-worker", "workload", "batch_per_worker", "LIST", "Samples of a step, per worker."},
    {"parameter-bytes", "workload", "parameter_bytes", "LIST",
     "Bytes of the model's parameters, in place of the cost file's."},
    {"samples-per-epoch", "workload", "samples_per_epoch", "LIST",
     "For the time of an epoch, and its price."},
    {"mode", "sync", "mode", "LIST",
     "How the workers exchange: allreduce, ps, average, async, ..."},
    {"interval", "sync", "interval", "LIST", "Local steps between two averages."},
    {"noise", "noise", "kind", "LIST", "How steps vary: none, trace, exponential."},
    {"measured", "measured", "file", "FILE", "Measured runs to compare with (CSV)."},
};

static const char *const parameter_types[] = {"fp32", "fp16", "bf16", NULL};
static const double parameter_type_bytes[] = {4, 2, 2};

void dl_scenario_options(dl_option *options, dl_scenario_command *command)
{
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++) {
        options[i] = (dl_option){.name = rows[i].option,
                                 .type = DL_OPTION_TEXT,
                                 .target = &command->values[i],
                                 .argument = rows[i].argument,
                                 .help = rows[i].help};
    }
    options[DL_SCENARIO_OPTIONS] = (dl_option){
        .name = "set",
        .type = DL_OPTION_LIST,
        .target = &command->set,
        .argument = "KEY=VALUE",
        .help = "Any other key of the scenario, as in exchange.overlap=yes (--keys lists them)."};
    options[DL_SCENARIO_OPTIONS + 1] = (dl_option){
        .name = "parameters",
        .type = DL_OPTION_TEXT,
        .target = &command->parameters,
        .argument = "COUNT",
        .help = "Number of the model's parameters (25.6e6), in place of --parameter-bytes."};
    options[DL_SCENARIO_OPTIONS + 2] =
        (dl_option){.name = "parameter-type",
                    .type = DL_OPTION_CHOICE,
                    .target = &command->parameter_type,
                    .choices = parameter_types,
                    .argument = "TYPE",
                    .help = "What --parameters are exchanged as: 4 bytes each, or 2."};
}

bool dl_scenario_command_given(const dl_scenario_command *command)
{
    bool given = command->set.count > 0 || command->parameters != NULL;
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++)
        given |= command->values[i] != NULL;
    return given;
}

static bool names_file(const char *section, const char *key)
{
    const dl_key *row = dl_keys_find(&dl_scenario_keys, section, key);
    return row != NULL && row->form != NULL && strcmp(row->form, "file") == 0;
}

static const char *given(const dl_scenario_command *command, const char *option)
{
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS; i++)
        if (strcmp(rows[i].option, option) == 0) return command->values[i];
    return NULL;
}

/* --- machines that come with the program ------------------------------------------------------ */

/* The file of a machine: `text` itself, or that of the machine of this name; of one that is made
 * (sim/scenario/machine_catalogue.h) its name. */
static dl_status find_machine(const char *text, char **path, dl_error *err)
{
    *path = dl_strdup(text);
    if (strchr(text, '/') != NULL || access(text, F_OK) == 0) return DL_OK;
    char *folder = dl_share_path("scenarios/machines");
    char *file = dl_format("%s/%s.ini", folder, text);
    free(folder);
    if (access(file, F_OK) == 0) {
        free(*path);
        *path = file;
        return DL_OK;
    }
    free(file);
    if (dl_machine_is_made(text)) return DL_OK;
    free(*path);
    *path = NULL;
    char *made = NULL;
    dl_error inner = {0};
    dl_status status = dl_machine_make_text(text, &made, &inner);
    DL_ASSERT(status != DL_OK, "%s is made, and is not", text);
    return dl_error_set(err, DL_ERR_USAGE, "--machine: %s", inner.text);
}

/* --- values as the scenario has them ---------------------------------------------------------- */

static dl_status make_absolute(char **path, const char *folder, dl_error *err)
{
    if (strchr(*path, '/') == NULL && dl_machine_is_made(*path)) return DL_OK;
    char *joined = (*path)[0] == '/' ? dl_strdup(*path) : dl_format("%s/%s", folder, *path);
    char *real = realpath(joined, NULL);
    dl_status status = DL_OK;
    if (real == NULL) status = dl_error_set(err, DL_ERR_IO, "%s: %s", *path, strerror(errno));
    free(joined);
    if (status != DL_OK) return status;
    free(*path);
    *path = real;
    return DL_OK;
}

/* The files that `text` lists, each as file_of gives it, into *list, of its own. */
typedef struct file_rule {
    bool machines;      /* their names are taken too */
    const char *folder; /* what they are relative to, and become absolute; NULL: they stay */
} file_rule;

static dl_status list_files(const file_rule *rule, const char *text, char **list, dl_error *err)
{
    dl_status status = DL_OK;
    *list = dl_strdup("");
    while (status == DL_OK && text != NULL) {
        const char *comma = strchr(text, ',');
        size_t length = comma != NULL ? (size_t)(comma - text) : strlen(text);
        while (length > 0 && (text[0] == ' ' || text[0] == '\t'))
            text++, length--;
        while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
            length--;
        char *path = NULL, *item = dl_format("%.*s", (int)length, text);
        if (rule->machines) {
            status = find_machine(item, &path, err);
        } else {
            path = dl_strdup(item);
        }
        if (status == DL_OK && rule->folder != NULL) {
            status = make_absolute(&path, rule->folder, err);
        }
        if (status == DL_OK) {
            char *longer = dl_format("%s%s%s", *list, (*list)[0] != '\0' ? ", " : "", path);
            free(*list);
            *list = longer;
        }
        free(path);
        free(item);
        text = comma != NULL ? comma + 1 : NULL;
    }
    if (status != DL_OK) {
        free(*list);
        *list = NULL;
    }
    return status;
}

/* --- a key of a text -------------------------------------------------------------------------- */

typedef struct span {
    const char *at;
    size_t bytes;
} span;

static span trimmed(span s)
{
    while (s.bytes > 0 && strchr(" \t\r\n", s.at[0]) != NULL)
        s.at++, s.bytes--;
    while (s.bytes > 0 && strchr(" \t\r\n", s.at[s.bytes - 1]) != NULL)
        s.bytes--;
    return s;
}

static bool is_text(span s, const char *text)
{
    return s.bytes == strlen(text) && strncmp(s.at, text, s.bytes) == 0;
}

/* Where a key is in a text, or where it would have to be. */
typedef struct key_place {
    bool has_section, has_key;
    span line;  /* has_key: without its end; else empty, where a line can be put in */
    span value; /* has_key */
} key_place;

static key_place find_key(const char *text, const char *section, const char *key)
{
    key_place found = {.line = {text + strlen(text), 0}};
    bool inside = false;
    for (const char *at = text; *at != '\0' && !found.has_key;) {
        const size_t bytes = strcspn(at, "\n");
        const char *next = at + bytes + (at[bytes] == '\n');
        const span line = trimmed((span){at, bytes});
        const char *equals = memchr(line.at, '=', line.bytes);
        if (line.bytes > 0 && line.at[0] == '[') {
            const char *end = memchr(line.at, ']', line.bytes);
            inside = end != NULL &&
                     is_text(trimmed((span){line.at + 1, (size_t)(end - line.at - 1)}), section);
            found.has_section |= inside;
        } else if (inside && equals != NULL && strchr(";#", line.at[0]) == NULL &&
                   is_text(trimmed((span){line.at, (size_t)(equals - line.at)}), key)) {
            found.has_key = true;
            found.line = line;
            span value = {equals + 1, (size_t)(line.at + line.bytes - equals - 1)};
            for (size_t i = 1; i < value.bytes; i++) {
                if (value.at[i] == ';' && strchr(" \t", value.at[i - 1])) value.bytes = i;
            }
            found.value = trimmed(value);
            return found;
        }
        if (inside && line.bytes > 0) found.line = (span){next, 0};
        at = next;
    }
    return found;
}

static void put_key(char **text, const char *section, const char *key, const char *value)
{
    const key_place place = find_key(*text, section, key);
    const int before = (int)(place.line.at - *text);
    const bool starts_line = before == 0 || place.line.at[-1] == '\n';
    char *header = place.has_section ? dl_strdup("") : dl_format("\n[%s]\n", section);
    char *changed =
        dl_format("%.*s%s%s%s = %s%s%s", before, *text, place.has_key || starts_line ? "" : "\n",
                  header, key, value, place.has_key ? "" : "\n", place.line.at + place.line.bytes);
    free(header);
    free(*text);
    *text = changed;
}

/* --- the whole -------------------------------------------------------------------------------- */

static dl_status check_value(const char *option, const char *value, dl_error *err)
{
    for (const char *c = value; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || (*c == ';' && c > value && c[-1] == ' ')) {
            return dl_error_set(err, DL_ERR_USAGE,
                                "--%s: a value has neither control characters nor ' ;'", option);
        }
    }
    return DL_OK;
}

/* `folder`: that files in the text are relative to, if it is not the current one. */
static dl_status put_option(char **text, const char *option, const char *section, const char *key,
                            const char *value, const char *folder, dl_error *err)
{
    dl_status status = check_value(option, value, err);
    if (status != DL_OK) return status;
    if (!names_file(section, key)) {
        put_key(text, section, key, value);
        return DL_OK;
    }
    const file_rule rule = {.machines = strcmp(section, "machine") == 0,
                            .folder = folder != NULL ? "." : NULL};
    char *files = NULL;
    status = list_files(&rule, value, &files, err);
    if (status == DL_OK) put_key(text, section, key, files);
    free(files);
    return status;
}

static dl_status put_set(char **text, const char *set, const char *folder, dl_error *err)
{
    const char *dot = strchr(set, '.'), *equals = strchr(set, '=');
    if (dot == NULL || equals == NULL || dot > equals || dot == set || equals == dot + 1) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--set %s: not SECTION.KEY=VALUE, as in exchange.overlap=yes", set);
    }
    char *section = dl_format("%.*s", (int)(dot - set), set);
    char *key = dl_format("%.*s", (int)(equals - dot - 1), dot + 1);
    dl_status status = put_option(text, "set", section, key, equals + 1, folder, err);
    free(section);
    free(key);
    return status;
}

/* 1, 2, 4, ... up to the GPUs of the smallest of the machines, at most 64. */
static dl_status default_workers(const char *machines, char **list, dl_error *err)
{
    int64_t most = 64;
    char *files = NULL, *rest = NULL;
    dl_status status = list_files(&(file_rule){.machines = true}, machines, &files, err);
    if (status != DL_OK) return status;
    for (char *file = strtok_r(files, ",", &rest); file != NULL && status == DL_OK;
         file = strtok_r(NULL, ",", &rest)) {
        dl_machine machine = {0};
        status = dl_machine_open(&machine, file + strspn(file, " "), err);
        if (status != DL_OK) break;
        const int64_t gpus = (int64_t)machine.nodes * machine.gpu_count;
        if (gpus < most) most = gpus;
        dl_machine_free(&machine);
    }
    free(files);
    if (status != DL_OK) return status;
    *list = dl_strdup("1");
    for (int64_t n = 2; n <= most; n *= 2) {
        char *longer = dl_format("%s, %lld", *list, (long long)n);
        free(*list);
        *list = longer;
    }
    return DL_OK;
}

/* The largest batch of a worker that the first cost file was measured at, for each worker; *has
 * says whether it names one. */
static dl_status put_measured_batch(char **text, const char *files, bool *has, dl_error *err)
{
    dl_costs costs = {0};
    const span first = trimmed((span){files, strcspn(files, ",")});
    char *path = dl_format("%.*s", (int)first.bytes, first.at);
    dl_status status = dl_costs_read(&costs, path, err);
    free(path);
    if (status != DL_OK) return status;
    *has = costs.batch_max > 0;
    char *batch = dl_format("%lld", (long long)costs.batch_max);
    if (*has) put_key(text, "workload", "batch_per_worker", batch);
    free(batch);
    dl_costs_free(&costs);
    return DL_OK;
}

static dl_status put_batch(char **text, const dl_scenario_command *command, dl_error *err)
{
    bool has = false;
    if (given(command, "batch") != NULL || given(command, "batch-per-worker") != NULL) return DL_OK;
    const char *costs = given(command, "costs");
    dl_status status = costs != NULL ? put_measured_batch(text, costs, &has, err) : DL_OK;
    if (status != DL_OK || has) return status;
    return dl_error_set(err, DL_ERR_USAGE,
                        "without a SCENARIO --batch (samples of all workers together) or "
                        "--batch-per-worker is needed: %s does not say which batch was measured",
                        costs != NULL                        ? costs
                        : given(command, "workload") != NULL ? "--workload"
                                                             : "--samples-per-s");
}

/* A new scenario's keys that the command line may leave out. */
static dl_status put_defaults(char **text, const dl_scenario_command *command, dl_error *err)
{
    const char *machines = given(command, "machine");
    char *workers = NULL;
    dl_status status = DL_OK;
    if (given(command, "costs") == NULL && given(command, "workload") == NULL &&
        given(command, "samples-per-s") == NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "without a SCENARIO --costs, --workload or --samples-per-s is needed");
    }
    if (given(command, "workload") != NULL && machines == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--workload needs --machine");
    }
    if ((status = put_batch(text, command, err)) != DL_OK) return status;
    if (machines == NULL && given(command, "cores") == NULL) {
        put_key(text, "machine", "cores", "measured");
    }
    if (machines != NULL && given(command, "workers") == NULL) {
        status = default_workers(machines, &workers, err);
    }
    if (status == DL_OK) {
        put_key(text, "machine", "workers", workers != NULL ? workers : "1, 2, 4, 8");
        put_key(text, "sync", "mode", "allreduce");
    }
    free(workers);
    return status;
}

/* --parameters as bytes. */
static dl_status put_parameters(char **text, const dl_scenario_command *command, dl_error *err)
{
    double count = 0;
    dl_error inner = {0};
    if (command->parameters == NULL) return DL_OK;
    if (given(command, "parameter-bytes") != NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--parameters and --parameter-bytes: only one of both");
    }
    if (dl_parse_double(command->parameters, 1, 1e14, &count, &inner) != DL_OK) {
        return dl_error_set(err, DL_ERR_USAGE, "--parameters: %s", inner.text);
    }
    char *bytes = dl_format("%.0f", count * parameter_type_bytes[command->parameter_type]);
    put_key(text, "workload", "parameter_bytes", bytes);
    free(bytes);
    return DL_OK;
}

static dl_status put_all(char **text, const dl_scenario_command *command, const char *folder,
                         dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t i = 0; i < DL_SCENARIO_OPTIONS && status == DL_OK; i++) {
        if (command->values[i] == NULL) continue;
        status = put_option(text, rows[i].option, rows[i].section, rows[i].key, command->values[i],
                            folder, err);
    }
    if (status == DL_OK) status = put_parameters(text, command, err);
    for (size_t i = 0; i < command->set.count && status == DL_OK; i++) {
        status = put_set(text, command->set.items[i], folder, err);
    }
    return status;
}

/* A line above each key that says what it is. */
static void comment_keys(char **text)
{
    for (size_t i = 0; i < dl_scenario_keys.count; i++) {
        const dl_key *key = &dl_scenario_keys.rows[i];
        const key_place place = find_key(*text, key->section, key->name);
        if (!place.has_key) continue;
        char *changed = dl_format("%.*s; %s: %s\n%s", (int)(place.line.at - *text), *text,
                                  key->name, key->help, place.line.at);
        free(*text);
        *text = changed;
    }
}

/* Folder of a file, of its own. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? dl_strdup(".") : dl_format("%.*s/", (int)(slash - path), path);
}

dl_status dl_scenario_text(const dl_scenario_command *command, const char *path, char **text,
                           char **name, dl_error *err)
{
    size_t bytes = 0;
    dl_status status = DL_OK;
    *name = NULL;
    if (path != NULL) {
        status = dl_file_read(path, text, &bytes, err);
        if (status != DL_OK) return status;
        if (memchr(*text, '\0', bytes) != NULL) {
            status = dl_error_set_at(err, DL_ERR_DATA, path, 0, "holds a NUL byte: no INI file");
        }
    } else {
        *text = dl_strdup("[scenario]\nname = from the command line\n\n[machine]\n\n[workload]\n\n"
                          "[sync]\n");
        status = put_defaults(text, command, err);
    }
    char *folder = path != NULL && strchr(path, '/') != NULL ? folder_of(path) : NULL;
    if (status == DL_OK) status = put_all(text, command, folder, err);
    free(folder);
    if (status == DL_OK && path == NULL) comment_keys(text);
    if (status == DL_OK) {
        *name = dl_strdup(path != NULL ? path : "(command line)");
        return DL_OK;
    }
    free(*text);
    *text = NULL;
    return status;
}

static dl_status same_folder(const char *a, const char *b, bool *same, dl_error *err)
{
    char *folder[2] = {folder_of(a), folder_of(b)};
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
    char *folder = folder_of(name), *saved = dl_strdup(text);
    for (size_t i = 0; i < dl_scenario_keys.count && status == DL_OK && !same; i++) {
        const dl_key *key = &dl_scenario_keys.rows[i];
        const key_place place = find_key(saved, key->section, key->name);
        if (!names_file(key->section, key->name) || !place.has_key) continue;
        char *value = dl_format("%.*s", (int)place.value.bytes, place.value.at), *files = NULL;
        status = list_files(&(file_rule){.folder = folder}, value, &files, err);
        if (status == DL_OK) put_key(&saved, key->section, key->name, files);
        free(files);
        free(value);
    }
    dl_output output = {0};
    if (status == DL_OK) status = dl_output_open(&output, file, err);
    if (status == DL_OK) {
        fputs(saved, output.out);
        status = dl_output_end(&output, DL_OK, err);
    }
    free(saved);
    free(folder);
    return status;
}
