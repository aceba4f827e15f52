/* The cost file's reader. */
#include "sim/costs/costs_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/collective/collective.h"

/* --- values and numbered keys --------------------------------------------------------------- */

static dl_status read_value(const dl_ini *ini, const dl_ini_entry *entry, dl_value *value,
                            dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    dl_error inner = {0};
    dl_value parsed;
    dl_status status = dl_value_parse(entry->value, key->dimension, &parsed, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    status = dl_key_check(key, parsed.value, entry->value, ini, entry, err);
    if (status == DL_OK) *value = parsed;
    return status;
}

/* --- [machine PART] -------------------------------------------------------------------------- */

/* Reads a number of the machine file that the costs replace; whether the machine has such a part is
 * checked later. */
static dl_status read_machine(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                              dl_error *err)
{
    const char *section = entry->section + strlen("machine ");
    const dl_key *key = dl_machine_find_key(section, entry->key);
    if (key == NULL || key->type != DL_KEY_QUANTITY) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                            "a machine file has no rate or latency %s in [%s]", entry->key,
                            section);
    }
    dl_value value = {0};
    dl_error inner = {0};
    dl_status status = dl_value_parse(entry->value, key->dimension, &value, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    status = dl_key_check(key, value.value, entry->value, ini, entry, err);
    if (status != DL_OK) return status;
    DL_APPEND(costs->machine_values, costs->machine_value_count, "numbers of the machine") =
        (dl_machine_value){.section = dl_strdup(section), .key = key, .value = value};
    return DL_OK;
}

static dl_status numbered_key(const dl_ini *ini, const dl_ini_entry *entry, const char *prefix,
                              int64_t low, int64_t high, int64_t *number, dl_error *err)
{
    size_t length = strlen(prefix);
    dl_error inner = {0};
    if (strncmp(entry->key, prefix, length) == 0 &&
        dl_parse_int(entry->key + length, low, high, number, &inner) == DL_OK) {
        return DL_OK;
    }
    return dl_ini_error(ini, entry, DL_ERR_NAME, err, "expected the key %s%lld to %s%lld", prefix,
                        (long long)low, prefix, (long long)high);
}

static dl_status read_sharing(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                              dl_error *err)
{
    int64_t copies = 0;
    dl_status status = numbered_key(ini, entry, "copies_", 1, DL_SHARING_MAX, &copies, err);
    if (status != DL_OK) return status;
    return read_value(ini, entry, &costs->sharing[copies], err);
}

/* Reads an entry of the linearity table. Batch sizes must be ascending, as the table is
 * interpolated. */
static dl_status read_linearity(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                dl_error *err)
{
    int64_t batch = 0;
    dl_linearity *table = costs->linearity;
    size_t count = costs->linearity_count;
    int64_t above = count > 0 ? table[count - 1].batch : 0;
    dl_status status = numbered_key(ini, entry, "batch_", above + 1, INT32_MAX, &batch, err);
    if (status != DL_OK) return status;
    if (count == DL_LINEARITY_MAX) {
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err, "more than %d batch sizes",
                            DL_LINEARITY_MAX);
    }
    table[count].batch = batch;
    status = read_value(ini, entry, &table[count].factor, err);
    if (status == DL_OK) costs->linearity_count++;
    return status;
}

/* --- [layer NAME] --------------------------------------------------------------------------- */

/* Largest relative difference between the layers' sum and [costs] parameter_bytes; both may be
 * rounded. */
#define SUM_TOLERANCE 1e-3

static const char *const phases[] = {".forward", ".backward", ".update"};

/* Whether an operation is the forward, backward or update of the layer. */
static bool is_of_layer(const dl_op_cost *op, const char *layer)
{
    const size_t length = strlen(layer);
    if (strncmp(op->name, layer, length) != 0) return false;
    for (size_t p = 0; p < DL_LENGTH(phases); p++) {
        if (strcmp(op->name + length, phases[p]) == 0) return true;
    }
    return false;
}

static dl_layer_cost *layer_of(dl_costs *costs, const dl_ini_entry *entry)
{
    const char *name = entry->section + strlen("layer ");
    size_t i = 0;
    while (i < costs->layer_count && strcmp(costs->layers[i].name, name) != 0)
        i++;
    if (i == costs->layer_count) {
        DL_APPEND(costs->layers, costs->layer_count, "layers") =
            (dl_layer_cost){.name = dl_strdup(name)};
    }
    return &costs->layers[i];
}

static dl_status check_operations(const dl_costs *costs, const dl_layer_cost *layer, dl_error *err)
{
    for (size_t o = 0; o < costs->op_count; o++) {
        if (is_of_layer(&costs->ops[o], layer->name)) return DL_OK;
    }
    DL_AUTOFREE const char **names =
        dl_calloc(costs->op_count, sizeof *names, "names of operations");
    for (size_t o = 0; o < costs->op_count; o++)
        names[o] = costs->ops[o].name;
    char hint[160];
    dl_names_hint(hint, sizeof hint, layer->name, names, (int)costs->op_count);
    return dl_error_set_at(err, DL_ERR_NAME, costs->path, 0,
                           "[layer %s]: no operation %s.forward, .backward or .update%s",
                           layer->name, layer->name, hint);
}

/* Checks, if all forward and backward operations belong to layers with parameter_bytes, that the
 * sum of these equals the model's. */
static dl_status check_sum(const dl_costs *costs, dl_error *err)
{
    double sum = 0;
    for (size_t l = 0; l < costs->layer_count; l++)
        sum += costs->layers[l].parameter_bytes.value;
    for (size_t o = 0; o < costs->op_count; o++) {
        bool given =
            strcmp(costs->ops[o].name, "input") == 0 || strcmp(costs->ops[o].name, "dispatch") == 0;
        for (size_t l = 0; l < costs->layer_count && !given; l++) {
            given = is_of_layer(&costs->ops[o], costs->layers[l].name) &&
                    costs->layers[l].parameter_bytes.known;
        }
        if (!given && !dl_costs_is_phase(costs->ops[o].name, "update") &&
            !dl_costs_is_phase(costs->ops[o].name, "bucket"))
            return DL_OK;
    }
    const double all = (double)costs->parameter_bytes;
    if (all < 0 || fabs(sum - all) <= SUM_TOLERANCE * all) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                           "the layers have %.0f bytes of parameters, but [costs] "
                           "parameter_bytes is %.0f",
                           sum, all);
}

/* Checks the copies and experts of a layer whose tokens are sent once: whole numbers, as many
 * experts on each GPU, and no fewer experts than copies. */
static dl_status check_copies(const dl_costs *costs, const dl_layer_cost *layer, dl_error *err)
{
    const double copies = layer->expert_copies.value, experts = layer->expert_count.value;
    const double ranks = costs->expert_ranks > 1 ? (double)costs->expert_ranks : 1;
    if (!(copies > 0)) return DL_OK;
    if (experts >= copies && fmod(copies, 1) == 0 && fmod(experts, ranks) == 0) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                           "[layer %s]: expert_copies = %g needs a whole number, and expert_count, "
                           "a multiple of expert_ranks = %.0f, of at least as many: it is %g",
                           layer->name, copies, ranks, experts);
}

/* Checks that a layer's experts are a part of its parameters. */
static dl_status check_experts(const dl_costs *costs, const dl_layer_cost *layer, dl_error *err)
{
    const double experts = layer->expert_parameter_bytes.value, all = layer->parameter_bytes.value;
    if (experts <= all * (1 + SUM_TOLERANCE)) return check_copies(costs, layer, err);
    return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                           "[layer %s]: expert_parameter_bytes is %.0f, of parameter_bytes = %.0f",
                           layer->name, experts, all);
}

static dl_status finish_layers(const dl_costs *costs, dl_error *err)
{
    if (costs->layer_count == 0) return DL_OK;
    for (size_t l = 0; l < costs->layer_count; l++) {
        dl_status status = check_operations(costs, &costs->layers[l], err);
        if (status == DL_OK) status = check_experts(costs, &costs->layers[l], err);
        if (status != DL_OK) return status;
    }
    return check_sum(costs, err);
}

/* --- [gradients] ---------------------------------------------------------------------------- */

static dl_status parse_ready(const dl_ini *ini, const dl_ini_entry *entry,
                             dl_gradients_ready *ready, dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    dl_error inner = {0};
    if (count != 2) {
        status = dl_ini_error(ini, entry, DL_ERR_PARSE, err,
                              "expected a share of the backward pass and the bytes so far");
    } else if ((status = dl_parse_double(items[0], 0, 1, &ready->share, &inner)) ||
               (status = dl_parse_double(items[1], 1, 1e18, &ready->bytes, &inner))) {
        dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, count);
    return status;
}

static dl_status read_gradients(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                dl_error *err)
{
    const size_t count = costs->gradient_count;
    const int64_t next = (int64_t)count + 1;
    int64_t number = 0;
    dl_gradients_ready ready = {0};
    dl_status status = numbered_key(ini, entry, "ready_", next, next, &number, err);
    if (status == DL_OK) status = parse_ready(ini, entry, &ready, err);
    if (status != DL_OK) return status;
    if (count > 0 && (ready.share < costs->gradients[count - 1].share ||
                      ready.bytes <= costs->gradients[count - 1].bytes)) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "less than in the line before: both numbers are sums");
    }
    DL_APPEND(costs->gradients, costs->gradient_count, "gradients") = ready;
    return DL_OK;
}

/* --- [collective KIND RANKS], [roundtrip CALLERS], [pushpull RANKS], ... --------------------- */

#define RANKS_MAX 1000000
#define BYTES_MAX 1e18

/* Exchanges of processes that have sections of their own. */
typedef struct process_exchange {
    const char *name;
    int kind;
    int ranks_min;
} process_exchange;

static const process_exchange process_exchanges[] = {
    {"roundtrip", DL_ROUNDTRIP, 1},
    {"allreduce_pair", DL_ALLREDUCE_PAIR, 2},
    {"allreduce_beside", DL_ALLREDUCE_BESIDE, 2},
    {"allreduce_late", DL_ALLREDUCE_LATE, 2},
    {"pushpull", DL_PUSHPULL, 1},
};
#define PROCESS_EXCHANGES DL_LENGTH(process_exchanges)

/* Returns the exchange of this section; NULL: none. */
static const process_exchange *process_exchange_of(const dl_ini_entry *entry)
{
    const size_t length = strcspn(entry->section, " ");
    for (size_t i = 0; i < PROCESS_EXCHANGES && entry->section[length] == ' '; i++) {
        const process_exchange *e = &process_exchanges[i];
        if (strlen(e->name) == length && strncmp(entry->section, e->name, length) == 0) return e;
    }
    return NULL;
}

const char *dl_costs_section_text(char *text, size_t bytes, const dl_collective_cost *cost)
{
    for (size_t i = 0; i < PROCESS_EXCHANGES; i++) {
        const process_exchange *e = &process_exchanges[i];
        if (e->kind == cost->kind) snprintf(text, bytes, "[%s %d]", e->name, cost->ranks);
    }
    if (cost->kind >= 0) {
        snprintf(text, bytes, "[collective %s %d]", dl_collective_kind_names[cost->kind],
                 cost->ranks);
    }
    return text;
}

/* Parses kind and ranks in the section's name. */
static dl_status parse_section(const dl_ini *ini, const dl_ini_entry *entry,
                               dl_collective_cost *cost, dl_error *err)
{
    char kind[32] = "", hint[200];
    int64_t ranks = 0;
    const process_exchange *exchange = process_exchange_of(entry);
    if (exchange != NULL) {
        dl_error cause = {0};
        if (dl_parse_int(entry->section + strlen(exchange->name) + 1, exchange->ranks_min,
                         RANKS_MAX, &ranks, &cause)) {
            return dl_ini_error(
                ini, entry, DL_ERR_NAME, err, "expected [%s %s] with %d or more", exchange->name,
                exchange->kind == DL_ROUNDTRIP ? "CALLERS" : "RANKS", exchange->ranks_min);
        }
        *cost = (dl_collective_cost){.kind = exchange->kind, .ranks = (int)ranks};
        return DL_OK;
    }
    const char *name = entry->section + strlen("collective ");
    const size_t length = strcspn(name, " ");
    snprintf(kind, sizeof kind, "%.*s", (int)length, name);
    cost->kind = dl_names_find(kind, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
    if (cost->kind < 0) {
        dl_names_hint(hint, sizeof hint, kind, dl_collective_kind_names, DL_COLLECTIVE_KINDS);
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "unknown collective '%s'%s", kind, hint);
    }
    dl_error inner = {0};
    if (name[length] == '\0' ||
        dl_parse_int(name + length + 1, 2, RANKS_MAX, &ranks, &inner) != DL_OK) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                            "expected [collective KIND RANKS] with 2 ranks or more");
    }
    cost->ranks = (int)ranks;
    return DL_OK;
}

/* Returns the section's cost, which its first entry creates. */
static dl_collective_cost *find_or_add(dl_costs *costs, const dl_collective_cost *key)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        dl_collective_cost *c = &costs->collectives[i];
        if (c->kind == key->kind && c->ranks == key->ranks) return c;
    }
    dl_collective_cost *added =
        &DL_APPEND(costs->collectives, costs->collective_count, "exchanges");
    *added = *key;
    return added;
}

static dl_status add_time(dl_collective_cost *cost, const dl_ini *ini, const dl_ini_entry *entry,
                          dl_error *err)
{
    dl_error inner = {0};
    dl_collective_time time = {0};
    dl_status status =
        dl_parse_double(entry->key + strlen("bytes_"), 0, BYTES_MAX, &time.bytes, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    status = read_value(ini, entry, &time.time_ns, err);
    if (status != DL_OK) return status;
    if (cost->count > 0 && time.bytes <= cost->times[cost->count - 1].bytes) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "sizes must ascend");
    }
    DL_APPEND(cost->times, cost->count, "times by size") = time;
    return DL_OK;
}

static dl_status take_noise_factor(void *user, char *item, dl_error *err)
{
    dl_noise_series *series = user;
    double factor = 0;
    const dl_status status = dl_parse_double(item, 1e-6, 1e6, &factor, err);
    DL_APPEND(series->factors, series->count, "noise") = (float)factor;
    return status;
}

static dl_status read_starts(dl_collective_cost *cost, const dl_ini *ini, const dl_ini_entry *entry,
                             dl_error *err)
{
    dl_noise_series factors = {0};
    const dl_status status = dl_ini_each(ini, entry, take_noise_factor, &factors, err);
    cost->starts = factors.factors;
    cost->start_count = factors.count;
    return status;
}

static dl_status read_collective(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                 dl_error *err)
{
    dl_collective_cost key = {0};
    dl_error inner = {0};
    int64_t nodes = 0;
    dl_status status = parse_section(ini, entry, &key, err);
    if (status != DL_OK) return status;
    dl_collective_cost *cost = find_or_add(costs, &key);
    if (strncmp(entry->key, "bytes_", strlen("bytes_")) == 0) {
        return add_time(cost, ini, entry, err);
    }
    if (strcmp(entry->key, "starts") == 0) return read_starts(cost, ini, entry, err);
    status = dl_parse_int(entry->value, 1, cost->ranks, &nodes, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    cost->nodes = (int)nodes;
    return DL_OK;
}

static dl_status check_collectives(const dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        char section[64];
        const dl_collective_cost *c = &costs->collectives[i];
        if (c->count >= 2) continue;
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0,
                               "%s: at least two sizes are required",
                               dl_costs_section_text(section, sizeof section, c));
    }
    return DL_OK;
}

/* --- [noise ...] and [exchange_runs] -------------------------------------------------------- */

/* Position in a noise section: the last series and its last line; line 0: before the first line. */
typedef struct noise_reading {
    size_t series;
    int64_t line;
} noise_reading;

static dl_status section_number(const dl_ini *ini, const dl_ini_entry *entry, const char *text,
                                int64_t high, int64_t *number, dl_error *err)
{
    dl_error inner = {0};
    dl_status status = dl_parse_int(text, 1, high, number, &inner);
    if (status == DL_OK) return DL_OK;
    return dl_ini_error(ini, entry, status, err,
                        "a section of noise is called [noise], [noise BATCH] or [noise BATCH "
                        "copies COUNT]: %s",
                        inner.text);
}

/* Parses batch (0: any) and copies in the section's name. */
static dl_status section_kind(const dl_ini *ini, const dl_ini_entry *entry, dl_noise_set *kind,
                              dl_error *err)
{
    static const char word[] = " copies ";
    int64_t copies = 1;
    dl_status status = DL_OK;
    *kind = (dl_noise_set){.copies = 1};
    if (strcmp(entry->section, "noise") == 0) return DL_OK;
    DL_AUTOFREE char *name = dl_strdup(entry->section + strlen("noise "));
    char *after = strstr(name, word);
    if (after != NULL) {
        status = section_number(ini, entry, after + strlen(word), DL_SHARING_MAX, &copies, err);
        *after = '\0';
    }
    if (status == DL_OK) status = section_number(ini, entry, name, INT32_MAX, &kind->batch, err);
    kind->copies = (size_t)copies;
    return status;
}

typedef struct key_text {
    char text[80];
} key_text;

static key_text make_key(const dl_noise_set *set, size_t series, int64_t line)
{
    key_text key;
    snprintf(key.text, sizeof key.text, "factors_%zu_%zu_%lld", series / set->copies + 1,
             series % set->copies + 1, (long long)line);
    return key;
}

static dl_noise_set *find_set(const dl_costs *costs, const dl_noise_set *kind)
{
    for (size_t i = 0; i < costs->noise_count; i++) {
        dl_noise_set *set = &costs->noise[i];
        if (set->batch == kind->batch && set->copies == kind->copies) return set;
    }
    return NULL;
}

static size_t series_count(const dl_noise_set *set)
{
    return set->run_count * set->copies;
}

/* Reads the factors of one key. Keys must be in the order of their numbers: the next line of the
 * last series, or the first line of the next series. All series of a run are created together, the
 * later ones empty. */
static dl_status take_line(dl_noise_set *set, const dl_ini *ini, const dl_ini_entry *entry,
                           noise_reading *at, dl_error *err)
{
    key_text next = make_key(set, at->series, at->line + 1);
    if (at->line > 0 && strcmp(entry->key, next.text) == 0) {
        at->line++;
        return dl_ini_each(ini, entry, take_noise_factor, &set->series[at->series], err);
    }
    const size_t first = at->line > 0 ? at->series + 1 : at->series;
    key_text other = make_key(set, first, 1);
    if (strcmp(entry->key, other.text) != 0) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "expected the key %s%s%s",
                            at->line > 0 ? next.text : "", at->line > 0 ? " or " : "", other.text);
    }
    if (first == series_count(set)) {
        set->series = dl_realloc(set->series, series_count(set) + set->copies, sizeof *set->series,
                                 "noise series");
        for (size_t c = 0; c < set->copies; c++)
            set->series[series_count(set) + c] = (dl_noise_series){0};
        set->run_count++;
    }
    *at = (noise_reading){first, 1};
    return dl_ini_each(ini, entry, take_noise_factor, &set->series[first], err);
}

static dl_status read_noise(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            noise_reading *at, dl_error *err)
{
    dl_noise_set kind;
    dl_status status = section_kind(ini, entry, &kind, err);
    if (status != DL_OK) return status;
    dl_noise_set *set = find_set(costs, &kind);
    if (set == NULL) {
        set = &DL_APPEND(costs->noise, costs->noise_count, "noise sets");
        *set = kind;
        *at = (noise_reading){0};
    } else if (set != &costs->noise[costs->noise_count - 1]) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "the section comes twice");
    }
    return take_line(set, ini, entry, at, err);
}

static dl_status read_exchange_run(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                   dl_error *err)
{
    int64_t number;
    const int64_t next = (int64_t)costs->exchange_run_count + 1;
    dl_status status = numbered_key(ini, entry, "run_", next, next, &number, err);
    dl_noise_series factors = {0};
    if (status == DL_OK) status = dl_ini_each(ini, entry, take_noise_factor, &factors, err);
    if (status == DL_OK && factors.count != 3 && factors.count != 4) {
        status = dl_ini_error(ini, entry, DL_ERR_DATA, err,
                              "expected three factors, of copies, averages, updates, or a fourth, "
                              "of [shared]");
    }
    if (status == DL_OK) {
        DL_APPEND(costs->exchange_runs, costs->exchange_run_count, "exchange runs") =
            (dl_exchange_run){factors.factors[0], factors.factors[1], factors.factors[2],
                              factors.count > 3 ? factors.factors[3] : 1};
    }
    free(factors.factors);
    return status;
}

/* Tolerance of the list's mean, as its values may be rounded. */
#define WORK_MEAN_TOLERANCE 0.01

/* Reads [work] steps, which must ascend and have a mean of about 1, and divides them by their
 * mean. */
static dl_status read_work(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                           dl_error *err)
{
    dl_noise_series steps = {0};
    const dl_status status = dl_ini_each(ini, entry, take_noise_factor, &steps, err);
    costs->work_steps = steps.factors;
    costs->work_step_count = steps.count;
    if (status != DL_OK) return status;
    double sum = 0;
    for (size_t i = 0; i < steps.count; i++) {
        sum += (double)steps.factors[i];
        if (i > 0 && steps.factors[i] < steps.factors[i - 1]) {
            return dl_ini_error(ini, entry, DL_ERR_DATA, err, "%g after %g: must ascend",
                                (double)steps.factors[i], (double)steps.factors[i - 1]);
        }
    }
    const double mean = sum / (double)steps.count;
    if (fabs(mean - 1) > WORK_MEAN_TOLERANCE) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "have the mean %g; must have 1", mean);
    }
    for (size_t i = 0; i < steps.count; i++)
        steps.factors[i] = (float)((double)steps.factors[i] / mean);
    return DL_OK;
}

static dl_status check_work(const dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "work", "steps");
    if (entry == NULL || !costs->work_frac.known) return DL_OK;
    return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                        "and [spread] work_frac: the variation of work is given twice");
}

static dl_status finish_noise(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->noise_count; i++) {
        dl_noise_set *set = &costs->noise[i];
        if (set->run_count > 0 && set->series[series_count(set) - 1].count > 0) {
            for (size_t s = 0; s < series_count(set); s++)
                dl_noise_series_finish(&set->series[s]);
            continue;
        }
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0,
                               "[noise %lld copies %zu]: the last run lacks a copy",
                               (long long)set->batch, set->copies);
    }
    return DL_OK;
}

/* Rejects traces whose number of ranks is not a multiple of the GPUs of a worker. */
static dl_status check_traces(const dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->trace_count; i++) {
        const dl_cost_trace *trace = &costs->traces[i];
        const int64_t gpus = dl_costs_traced_gpus(costs, trace);
        if (trace->ranks % gpus == 0) continue;
        DL_AUTOFREE char *section = dl_format("trace %zu", i + 1);
        return dl_ini_error(ini, dl_ini_find(ini, section, "ranks"), DL_ERR_RANGE, err,
                            "not a multiple of stages x shards x [costs] tensor_ranks = %lld",
                            (long long)gpus);
    }
    return DL_OK;
}

/* --- reading -------------------------------------------------------------------------------- */

static dl_status read_into(void *part, const dl_ini *ini, const dl_ini_entry *entry, dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    dl_value *value = (dl_value *)(void *)((char *)part + key->offset);
    return read_value(ini, entry, value, err);
}

static dl_status read_op(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                         dl_error *err)
{
    const char *name = entry->section + strlen("op ");
    size_t i = 0;
    while (i < costs->op_count && strcmp(costs->ops[i].name, name) != 0)
        i++;
    if (i == costs->op_count) {
        if (!dl_costs_is_op_name(name)) {
            return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                                "an operation is called input, dispatch, or ends in .forward, "
                                ".backward, .update or .bucket");
        }
        DL_APPEND(costs->ops, costs->op_count, "operations") =
            (dl_op_cost){.name = dl_strdup(name)};
    }
    return read_into(&costs->ops[i], ini, entry, err);
}

static void drop_empty(char **text)
{
    if (*text == NULL || **text != '\0') return;
    free(*text);
    *text = NULL;
}

static dl_status read_head(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    int64_t schema = 0;
    costs->parameter_bytes = costs->state_bytes = -1;
    dl_status status = dl_ini_get_int(ini, "costs", "schema", DL_COSTS_SCHEMA, DL_COSTS_SCHEMA,
                                      NULL, &schema, err);
    if (status == DL_OK) {
        status = dl_keys_read(&dl_cost_keys, DL_COST_HEAD, ini, NULL, costs, err);
    }
    drop_empty(&costs->workload);
    drop_empty(&costs->precision);
    drop_empty(&costs->device);
    drop_empty(&costs->framework);
    return status;
}

/* --- [trace NUMBER] and [notes] --- */

static dl_status parse_traced_collective(const dl_ini *ini, const dl_ini_entry *entry,
                                         dl_traced_collective *c, dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_error inner = {0};
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    if (count != 5) {
        status = dl_ini_error(ini, entry, DL_ERR_PARSE, err,
                              "expected a name, calls, bytes, ns and ranks of a step");
    } else if ((status = dl_parse_double(items[1], 0, 1e9, &c->calls, &inner)) ||
               (status = dl_parse_double(items[2], 0, 1e18, &c->bytes, &inner)) ||
               (status = dl_parse_double(items[3], 0, 3.6e12, &c->ns, &inner)) ||
               (status = dl_parse_int(items[4], 0, 1000000, &c->ranks, &inner))) {
        dl_ini_error(ini, entry, status, err, "%s", inner.text);
    } else {
        c->name = dl_strdup(items[0]);
    }
    dl_ini_free_list(items, count);
    return status;
}

static dl_status read_traced_collective(dl_cost_trace *trace, const dl_ini *ini,
                                        const dl_ini_entry *entry, dl_error *err)
{
    const int64_t next = (int64_t)trace->collective_count + 1;
    int64_t number = 0;
    dl_traced_collective collective = {0};
    dl_status status = numbered_key(ini, entry, "collective_", next, next, &number, err);
    if (status == DL_OK) status = parse_traced_collective(ini, entry, &collective, err);
    if (status != DL_OK) return status;
    DL_APPEND(trace->collectives, trace->collective_count, "traced collectives") = collective;
    return DL_OK;
}

/* Returns the last trace, or a new one if the section has the next number. */
static dl_status find_trace(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            dl_cost_trace **trace, dl_error *err)
{
    int64_t number = 0;
    dl_error inner = {0};
    const int64_t count = (int64_t)costs->trace_count;
    if (dl_parse_int(entry->section + strlen("trace "), count > 0 ? count : 1, count + 1, &number,
                     &inner) != DL_OK) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err,
                            "the sections of traces are called [trace 1], [trace 2], ... in turn");
    }
    if (number > count) {
        dl_cost_trace *made = &DL_APPEND(costs->traces, costs->trace_count, "traces");
        *made = (dl_cost_trace){.rank = -1};
        const dl_status status =
            dl_keys_read(&dl_cost_keys, DL_COST_TRACE, ini, entry->section, made, err);
        if (status != DL_OK) return status;
    }
    *trace = &costs->traces[costs->trace_count - 1];
    return DL_OK;
}

static dl_status read_trace(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            dl_error *err)
{
    dl_cost_trace *trace = NULL;
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    const dl_status status = find_trace(costs, ini, entry, &trace, err);
    if (status != DL_OK) return status;
    if (key->owner == DL_COST_SERIES) return read_traced_collective(trace, ini, entry, err);
    return key->type == DL_KEY_OWN ? read_into(trace, ini, entry, err) : DL_OK;
}

static dl_status read_note(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                           dl_error *err)
{
    const int64_t next = (int64_t)costs->note_count + 1;
    int64_t number = 0;
    const dl_status status = numbered_key(ini, entry, "note_", next, next, &number, err);
    if (status != DL_OK) return status;
    DL_APPEND(costs->notes, costs->note_count, "notes") = dl_strdup(entry->value);
    return DL_OK;
}

/* --- sections --- */

static dl_status read_entry(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                            noise_reading *noise, dl_error *err)
{
    if (strncmp(entry->section, "op ", 3) == 0) return read_op(costs, ini, entry, err);
    if (strncmp(entry->section, "layer ", 6) == 0) {
        return read_into(layer_of(costs, entry), ini, entry, err);
    }
    if (strcmp(entry->section, "sharing") == 0) return read_sharing(costs, ini, entry, err);
    if (strcmp(entry->section, "linearity") == 0) return read_linearity(costs, ini, entry, err);
    if (strncmp(entry->section, "machine ", strlen("machine ")) == 0) {
        return read_machine(costs, ini, entry, err);
    }
    if (strcmp(entry->section, "exchange_runs") == 0) {
        return read_exchange_run(costs, ini, entry, err);
    }
    if (strncmp(entry->section, "collective ", strlen("collective ")) == 0 ||
        process_exchange_of(entry) != NULL) {
        return read_collective(costs, ini, entry, err);
    }
    if (strncmp(entry->section, "trace ", strlen("trace ")) == 0)
        return read_trace(costs, ini, entry, err);
    if (strcmp(entry->section, "notes") == 0) return read_note(costs, ini, entry, err);
    if (strcmp(entry->section, "gradients") == 0) {
        return read_gradients(costs, ini, entry, err);
    }
    if (strcmp(entry->section, "work") == 0) return read_work(costs, ini, entry, err);
    if (strncmp(entry->section, "noise", strlen("noise")) == 0) {
        return read_noise(costs, ini, entry, noise, err);
    }
    const dl_key *key = dl_keys_find(&dl_cost_keys, entry->section, entry->key);
    return key->owner == DL_COST_SINGLE ? read_into(costs, ini, entry, err) : DL_OK;
}

/* Rejects an operation with a negative time at the largest measured batch, or at 1e6 samples if
 * that is unknown. */
static dl_status check_ops(const dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        const dl_op_cost *op = &costs->ops[i];
        const double batch = costs->batch_max > 0 ? (double)costs->batch_max : 1e6;
        if (!op->fixed_ns.known || !op->per_sample_ns.known ||
            op->fixed_ns.value + op->per_sample_ns.value * batch >= 0) {
            continue;
        }
        DL_AUTOFREE char *section = dl_format("op %s", op->name);
        const dl_ini_entry *entry = dl_ini_find(ini, section, "fixed_ns");
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err,
                            "with per_sample_ns = %g the operation takes less than no time at "
                            "batch %.0f",
                            op->per_sample_ns.value, batch);
    }
    return DL_OK;
}

static dl_status from_ini(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    dl_costs parsed = {.path = dl_strdup(ini->path)};
    noise_reading noise = {0};
    dl_status status = dl_keys_check(&dl_cost_keys, ini, err);
    if (status == DL_OK) status = read_head(&parsed, ini, err);
    for (size_t i = 0; i < ini->count && status == DL_OK; i++) {
        status = read_entry(&parsed, ini, &ini->entries[i], &noise, err);
    }
    if (status == DL_OK) status = check_ops(&parsed, ini, err);
    if (status == DL_OK) status = finish_noise(&parsed, ini, err);
    if (status == DL_OK) status = check_work(&parsed, ini, err);
    if (status == DL_OK) status = check_traces(&parsed, ini, err);
    if (status == DL_OK) status = check_collectives(&parsed, ini, err);
    if (status == DL_OK) status = finish_layers(&parsed, err);
    if (status == DL_OK && parsed.batch_min > 0 && parsed.batch_max > 0 &&
        parsed.batch_min > parsed.batch_max) {
        status = dl_ini_error(ini, dl_ini_find(ini, "costs", "batch_min"), DL_ERR_RANGE, err,
                              "above batch_max");
    }
    if (status == DL_OK) {
        *costs = parsed;
    } else {
        dl_costs_free(&parsed);
    }
    return status;
}

dl_status dl_costs_read(dl_costs *costs, const char *path, dl_error *err)
{
    DL_SCOPED(dl_ini) ini = {0};
    dl_status status = dl_ini_read(&ini, path, err);
    if (status != DL_OK) return status;
    return from_ini(costs, &ini, err);
}

dl_status dl_costs_read_text(dl_costs *costs, const char *name, const char *text, size_t bytes,
                             dl_error *err)
{
    DL_SCOPED(dl_ini) ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    return from_ini(costs, &ini, err);
}
