#include "sim/scenario/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/units.h"
#include "sim/run.h"
#include "sim/scenario/calibrate.h"
#include "sim/scenario/known_gpus.h"
#include "sim/scenario/scenario_internal.h"
#include "sim/workloads/roofline.h"

#define VARIANTS_MAX 10000

/* --- which values are swept ------------------------------------------------------------------ */

static const dl_key *key_of(const dl_ini_entry *entry)
{
    return dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
}

/* Between the values of a list that makes variants; '\0': it makes points, or is a text. Unknown
 * keys are refused when the variant is read. */
static char separator_of(const dl_ini_entry *entry)
{
    const dl_key *key = key_of(entry);
    return key != NULL && key->sweep != '.' ? key->sweep : '\0';
}

/* "p2.8xlarge" of "../machines/p2.8xlarge.ini"; other texts as they are. */
static char *shown(const char *value)
{
    const char *slash = strrchr(value, '/');
    const char *stem = slash != NULL ? slash + 1 : value;
    const size_t bytes = strlen(stem), tail = strlen(".ini");
    if (bytes <= tail || strcmp(stem + bytes - tail, ".ini") != 0) return dl_strdup(value);
    return dl_strndup(stem, bytes - tail);
}

/* "6250000" for "50Mb/s": an amount in its base unit, which the names of keys say; else the
 * text. */
static char *cell_of(const dl_key *of, const char *text)
{
    char number[DL_DOUBLE_TEXT_BYTES];
    double amount = 0;
    const bool is_amount = of->dimension != DL_DIMENSION_PURE &&
                           dl_amount_parse(text, of->dimension, &amount, NULL) == DL_OK;
    return dl_strdup(is_amount ? dl_format_double(number, amount) : text);
}

static dl_status add_value(dl_swept_key *key, const dl_ini *ini, const dl_ini_entry *entry,
                           const char *text, size_t bytes, dl_error *err)
{
    while (bytes > 0 && text[bytes - 1] == ' ')
        bytes--;
    while (bytes > 0 && *text == ' ') {
        text++;
        bytes--;
    }
    if (bytes == 0) {
        return dl_ini_error(ini, entry, DL_ERR_PARSE, err, "item %zu of the list is empty",
                            key->count + 1);
    }
    key->values = dl_realloc(key->values, key->count + 1, sizeof *key->values, "swept values");
    key->texts = dl_realloc(key->texts, key->count + 1, sizeof *key->texts, "swept values");
    key->cells = dl_realloc(key->cells, key->count + 1, sizeof *key->cells, "swept values");
    char *value = dl_strndup(text, bytes), *as_shown = shown(value);
    for (size_t i = 0; i < key->count; i++) {
        if (strcmp(key->texts[i], as_shown) != 0) continue;
        dl_status status =
            dl_ini_error(ini, entry, DL_ERR_RANGE, err, "'%s' is given twice", as_shown);
        free(value);
        free(as_shown);
        return status;
    }
    key->values[key->count] = value;
    key->cells[key->count] = cell_of(key_of(entry), as_shown);
    key->texts[key->count++] = as_shown;
    return DL_OK;
}

static dl_status add_key(dl_study *study, const dl_ini *ini, const dl_ini_entry *entry,
                         char separator, dl_error *err)
{
    const dl_key *of = key_of(entry);
    study->keys = dl_realloc(study->keys, study->key_count + 1, sizeof *study->keys, "swept keys");
    dl_swept_key *key = &study->keys[study->key_count++];
    *key = (dl_swept_key){.section = dl_strdup(entry->section),
                          .key = dl_strdup(entry->key),
                          .column = dl_strdup(of->column != NULL ? of->column : of->name),
                          .option = dl_key_option(of)};
    dl_status status = DL_OK;
    for (const char *rest = entry->value; rest != NULL && status == DL_OK;) {
        const char *end = strchr(rest, separator);
        const size_t bytes = end != NULL ? (size_t)(end - rest) : strlen(rest);
        status = add_value(key, ini, entry, rest, bytes, err);
        rest = end != NULL ? end + 1 : NULL;
    }
    return status;
}

static dl_status find_keys(dl_study *study, const dl_ini *ini, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t i = 0; i < ini->count && status == DL_OK; i++) {
        const char separator = separator_of(&ini->entries[i]);
        if (separator == '\0' || strchr(ini->entries[i].value, separator) == NULL) continue;
        status = add_key(study, ini, &ini->entries[i], separator, err);
    }
    return status;
}

/* --- the variants ---------------------------------------------------------------------------- */

/* The variant's value of a swept key; NULL: it is not swept. */
static const char *value_of(const dl_study *study, const dl_variant *variant, const char *section,
                            const char *name)
{
    for (size_t k = 0; k < study->key_count; k++) {
        const dl_swept_key *key = &study->keys[k];
        if (strcmp(key->section, section) != 0 || strcmp(key->key, name) != 0) continue;
        return key->values[variant->at[k]];
    }
    return NULL;
}

/* False where a swept key makes this one mean nothing in the variant. */
static bool has_meaning(const dl_study *study, const dl_variant *variant, const char *section,
                        const char *key)
{
    const dl_key *row = dl_keys_find(&dl_scenario_keys, section, key);
    char on[64];
    if (row == NULL || !dl_key_depends(row, on, sizeof on)) return true;
    const char *value = value_of(study, variant, section, on);
    return value == NULL || dl_key_holds(row, value);
}

/* The file as it would be without lists. Entries are borrowed, but for the array. */
static dl_ini plain_file(const dl_study *study, const dl_variant *variant, const dl_ini *ini)
{
    dl_ini plain = *ini;
    plain.entries = dl_calloc(ini->count, sizeof *plain.entries, "INI entries");
    plain.count = 0;
    for (size_t i = 0; i < ini->count; i++) {
        dl_ini_entry entry = ini->entries[i];
        if (!has_meaning(study, variant, entry.section, entry.key)) continue;
        for (size_t k = 0; k < study->key_count; k++) {
            const dl_swept_key *key = &study->keys[k];
            if (strcmp(key->section, entry.section) == 0 && strcmp(key->key, entry.key) == 0) {
                entry.value = key->values[variant->at[k]];
            }
        }
        plain.entries[plain.count++] = entry;
    }
    return plain;
}

/* The last key changes fastest. False for a variant that is another one's again, because a key
 * whose first value it has not means nothing in it. */
static bool set_values(const dl_study *study, dl_variant *variant, size_t number)
{
    for (size_t k = study->key_count; k-- > 0; number /= study->keys[k].count)
        variant->at[k] = number % study->keys[k].count;
    for (size_t k = 0; k < study->key_count; k++) {
        const dl_swept_key *key = &study->keys[k];
        if (variant->at[k] > 0 && !has_meaning(study, variant, key->section, key->key)) {
            return false;
        }
    }
    return true;
}

/* Points whose mode does not take an option are simulated for its first value only. */
static void drop_repeated(const dl_study *study, dl_variant *variant)
{
    dl_scenario *s = &variant->scenario;
    size_t kept = 0;
    for (size_t p = 0; p < s->point_count; p++) {
        bool repeats = false;
        for (size_t k = 0; k < study->key_count; k++) {
            const int option = study->keys[k].option;
            repeats |=
                option >= 0 && variant->at[k] > 0 && !(s->points[p].mode->options & 1u << option);
        }
        if (!repeats) s->points[kept++] = s->points[p];
    }
    s->point_count = kept;
}

static void free_variant(dl_variant *variant)
{
    dl_assumptions_free(&variant->assumed);
    dl_costs_free(&variant->costs);
    dl_scenario_free(&variant->scenario);
    free(variant->scalings);
    free(variant->at);
}

static dl_status add_variant(dl_study *study, const dl_ini *ini, size_t number, dl_error *err)
{
    dl_variant variant = {.at = dl_calloc(study->key_count, sizeof(size_t), "variant")};
    if (!set_values(study, &variant, number)) {
        free_variant(&variant);
        return DL_OK;
    }
    dl_ini plain = plain_file(study, &variant, ini);
    dl_status status = dl_scenario_read_ini(&variant.scenario, &plain, err);
    free(plain.entries);
    if (status == DL_OK) drop_repeated(study, &variant);
    if (status != DL_OK || variant.scenario.point_count == 0) {
        free_variant(&variant);
        return status;
    }
    for (size_t k = 0; k < study->key_count; k++) {
        const dl_swept_key *key = &study->keys[k];
        if (!has_meaning(study, &variant, key->section, key->key)) variant.at[k] = key->count;
    }
    study->variants =
        dl_realloc(study->variants, study->variant_count + 1, sizeof *study->variants, "variants");
    study->variants[study->variant_count++] = variant;
    study->point_count += variant.scenario.point_count;
    return DL_OK;
}

/* --- the size -------------------------------------------------------------------------------- */

/* Between the values of any list; '\0': the key has none. */
static char any_separator_of(const dl_ini_entry *entry)
{
    const dl_key *key = key_of(entry);
    if (key == NULL || key->sweep == '\0') return '\0';
    return key->sweep == '.' ? ',' : key->sweep;
}

static size_t list_count(const dl_ini_entry *entry)
{
    const char separator = any_separator_of(entry);
    size_t count = 1;
    for (const char *c = entry->value; separator != '\0' && *c != '\0'; c++)
        count += *c == separator;
    return count;
}

/* The options of [sync] that a mode takes, in combinations. */
static double option_combinations(const dl_ini *ini, const dl_mode *mode)
{
    double combinations = 1;
    for (size_t i = 0; i < ini->count; i++) {
        const dl_key *key = key_of(&ini->entries[i]);
        const int option = key != NULL ? dl_key_option(key) : -1;
        if (option < 0 || !(mode->options & 1u << option)) continue;
        combinations *= (double)list_count(&ini->entries[i]);
    }
    return combinations;
}

/* Of all modes in the list; names that are none are refused when it is read. */
static double mode_combinations(const dl_ini *ini, const dl_ini_entry *modes)
{
    char **names = NULL;
    size_t count = 0;
    double combinations = 0;
    dl_error ignored = {0};
    if (modes == NULL || dl_ini_split(ini, modes, &names, &count, &ignored) != DL_OK) return 1;
    for (size_t n = 0; n < count; n++) {
        for (int m = 0; m < DL_MODES; m++) {
            if (strcmp(dl_modes[m]->name, names[n]) != 0) continue;
            combinations += option_combinations(ini, dl_modes[m]);
        }
    }
    dl_ini_free_list(names, count);
    return fmax(combinations, 1);
}

/* How many points the lists make, but for those that are others again. */
static double count_points(const dl_ini *ini)
{
    const dl_ini_entry *modes = dl_ini_find(ini, "sync", "mode");
    double points = mode_combinations(ini, modes);
    for (size_t i = 0; i < ini->count; i++) {
        const dl_key *key = key_of(&ini->entries[i]);
        if (key == NULL || &ini->entries[i] == modes || dl_key_option(key) >= 0) continue;
        points *= (double)list_count(&ini->entries[i]);
    }
    return points;
}

/* The middle item of a list, of its own. */
static char *middle_of(const dl_ini_entry *entry)
{
    const char separator = any_separator_of(entry), *at = entry->value;
    for (size_t skipped = list_count(entry) / 2; skipped > 0; skipped--)
        at = strchr(at, separator) + 1;
    const char *end = separator != '\0' ? strchrnul(at, separator) : at + strlen(at);
    return dl_strndup_trimmed(at, (size_t)(end - at));
}

static bool is_taken(const dl_key *key, const char *mode)
{
    const int option = key != NULL ? dl_key_option(key) : -1;
    for (int m = 0; m < DL_MODES && option >= 0; m++) {
        if (strcmp(dl_modes[m]->name, mode) == 0) return dl_modes[m]->options & 1u << option;
    }
    return true;
}

/* The study of one point, with the middle one of each list. */
static dl_status read_one(dl_study *study, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *modes = dl_ini_find(ini, "sync", "mode");
    char *mode = modes != NULL ? middle_of(modes) : dl_strdup("");
    dl_ini plain = *ini;
    plain.entries = dl_calloc(ini->count, sizeof *plain.entries, "INI entries");
    plain.count = 0;
    for (size_t i = 0; i < ini->count; i++) {
        if (!is_taken(key_of(&ini->entries[i]), mode)) continue;
        dl_ini_entry *entry = &plain.entries[plain.count++];
        *entry = ini->entries[i];
        entry->value = middle_of(&ini->entries[i]);
    }
    const dl_status status = add_variant(study, &plain, 0, err);
    for (size_t i = 0; i < plain.count; i++)
        free(plain.entries[i].value);
    free(plain.entries);
    free(mode);
    return status;
}

static dl_status from_ini(dl_study *study, const dl_ini *ini, dl_error *err)
{
    dl_study read = {.path = dl_strdup(ini->path), .points_limit = study->points_limit};
    const double listed = count_points(ini);
    const double limit = read.points_limit > 0 ? read.points_limit : DL_STUDY_POINTS;
    const bool too_many = listed > limit;
    dl_status status = DL_OK;
    size_t count = 1;
    if (too_many) {
        count = 0;
        read.listed = listed;
        status = read.points_limit > 0 ? read_one(&read, ini, err) : DL_ERR_RANGE;
        /* Values that do not go together hide no size; a faulty file does. */
        const bool faulty = status == DL_ERR_NAME || status == DL_ERR_PARSE;
        if (!faulty && (status != DL_OK || read.variant_count == 0)) {
            status = dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0,
                                     "the lists make %.4g points, more than %.0f", listed, limit);
        }
    } else {
        status = find_keys(&read, ini, err);
    }
    for (size_t k = 0; k < read.key_count && status == DL_OK && count <= VARIANTS_MAX; k++)
        count *= read.keys[k].count;
    if (status == DL_OK && count > VARIANTS_MAX) {
        status = dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0, "more than %d combinations",
                                 VARIANTS_MAX);
    }
    for (size_t v = 0; v < count && status == DL_OK; v++)
        status = add_variant(&read, ini, v, err);
    if (status == DL_OK) {
        *study = read;
    } else {
        dl_study_free(&read);
    }
    return status;
}

dl_status dl_study_read(dl_study *study, const char *path, dl_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    status = dl_study_read_text(study, path, text, bytes, err);
    free(text);
    return status;
}

dl_status dl_study_read_text(dl_study *study, const char *name, const char *text, size_t bytes,
                             dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    status = from_ini(study, &ini, err);
    if (status == DL_OK) study->text = dl_strndup(text, bytes);
    dl_ini_free(&ini);
    return status;
}

/* Whether the model can be split as the variant's points want it. */
static dl_status check_split(const dl_variant *variant, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t p = 0; p < variant->scenario.point_count && status == DL_OK; p++) {
        const dl_point *point = &variant->scenario.points[p];
        if (!dl_point_is_split(point)) continue;
        int first[DL_STAGES_MAX + 1];
        const dl_split split = dl_point_split(point);
        status = dl_pipeline_cut(&variant->scenario.pipeline->options, &variant->costs, &split,
                                 first, err);
    }
    return status;
}

dl_arithmetic dl_scenario_arithmetic(const dl_scenario *scenario)
{
    if (scenario->arithmetic > 0) return (dl_arithmetic)(scenario->arithmetic - 1);
    return dl_arithmetic_usual(&scenario->gpu->machine, dl_architecture_class(scenario->model));
}

/* The costs of the scenario's model on a GPU of its machine. */
static dl_status estimate_costs(const dl_scenario *scenario, const dl_gpu_model *gpu,
                                dl_costs *costs, dl_error *err)
{
    const dl_machine *m = &scenario->gpu->machine;
    dl_architecture architecture = {0};
    dl_status status = dl_architecture_make(&architecture, scenario->model, err);
    if (status != DL_OK) return status;
    const dl_optimizer_kind usual =
        architecture.class == DL_MODEL_TRANSFORMER ? DL_ADAM : DL_MOMENTUM;
    const dl_arithmetic arithmetic = dl_scenario_arithmetic(scenario);
    dl_error inner = {0};
    status = dl_roofline_costs(
        costs, &architecture, gpu, arithmetic,
        scenario->optimizer > 0 ? (dl_optimizer_kind)(scenario->optimizer - 1) : usual,
        scenario->gpu->sharded == DL_SHARDED_PARAMETERS, &inner);
    dl_architecture_free(&architecture);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(err, status, m->path, 0, "[workload] arithmetic = %s: %s",
                           dl_arithmetic_names[arithmetic], inner.text);
}

static bool exchanges_gradients(const dl_scenario *scenario, const dl_point *point)
{
    (void)scenario;
    return point->workers > 1 && (point->mode == &dl_mode_allreduce || point->mode == &dl_mode_ps);
}

static void without_overlap(dl_scenario *scenario, dl_gpu_options *gpu)
{
    (void)scenario;
    gpu->overlap = false;
}

static void gather_in_fp32(dl_scenario *scenario, dl_gpu_options *gpu)
{
    (void)scenario;
    gpu->param_dtype = DL_DTYPE_FP32;
}

static void sum_in_fp32(dl_scenario *scenario, dl_gpu_options *gpu)
{
    (void)scenario;
    gpu->reduce_dtype = DL_DTYPE_FP32;
}

static void sum_in_bf16(dl_scenario *scenario, dl_gpu_options *gpu)
{
    (void)scenario;
    gpu->reduce_dtype = DL_DTYPE_BF16;
}

/* What numbers are sent as where vectors are sharded. */
static void take_dtypes(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    dl_gpu_options *gpu = scenario->gpu;
    if (gpu == NULL || gpu->sharded == DL_SHARDED_NONE) return;
    const bool in_half = scenario->model != NULL && dl_scenario_arithmetic(scenario) >= DL_FP16;
    const bool gathers = gpu->param_dtype == DL_DTYPE_AUTO,
               sums = gpu->reduce_dtype == DL_DTYPE_AUTO;
    if (gathers) gpu->param_dtype = in_half ? DL_DTYPE_BF16 : DL_DTYPE_FP32;
    const bool as_gathers = gpu->sharded == DL_SHARDED_PARAMETERS;
    if (sums) gpu->reduce_dtype = as_gathers ? gpu->param_dtype : DL_DTYPE_FP32;
    if (gathers && in_half) {
        dl_assumption *a = dl_setting_assume(
            dl_keys_find(&dl_scenario_keys, "exchange", "param_dtype"), "bf16",
            "FSDP's MixedPrecision and DeepSpeed gather parameters as their passes use them",
            "what type FSDP or DeepSpeed gathers", &variant->assumed);
        strcpy(a->other, "fp32");
        a->matters = exchanges_gradients;
        a->change = gather_in_fp32;
    }
    if (sums && in_half) {
        const bool halved = gpu->reduce_dtype == DL_DTYPE_BF16;
        dl_assumption *a = dl_setting_assume(
            dl_keys_find(&dl_scenario_keys, "exchange", "reduce_dtype"), halved ? "bf16" : "fp32",
            halved ? "FSDP's MixedPrecision reduces in param_dtype where reduce_dtype is not given"
                   : "Megatron and nanotron reduce gradients in fp32",
            "what type gradients are reduced in", &variant->assumed);
        strcpy(a->other, halved ? "fp32" : "bf16");
        a->matters = exchanges_gradients;
        a->change = halved ? sum_in_fp32 : sum_in_bf16;
    }
}

/* Settings that the scenario leaves open. */
static void assume_settings(dl_variant *variant)
{
    take_dtypes(variant);
    if (dl_variant_assumes_overlap(variant)) {
        dl_assumption *overlap = dl_setting_assume(
            dl_keys_find(&dl_scenario_keys, "exchange", "overlap"), "yes",
            "PyTorch's DistributedDataParallel sends gradients during the backward pass, in "
            "buckets",
            "whether the program exchanges during its backward pass", &variant->assumed);
        strcpy(overlap->other, "no");
        overlap->matters = exchanges_gradients;
        overlap->change = without_overlap;
    }
}

void dl_scenario_assume_costs(const dl_scenario *scenario, dl_costs *costs, const dl_point *point,
                              dl_assumptions *made)
{
    const dl_point *points = point != NULL ? point : scenario->points;
    const size_t count = point != NULL ? 1 : scenario->point_count;
    unsigned needs = 0;
    int cores = 0;
    for (size_t p = 0; p < count; p++) {
        needs |= dl_run_needs(scenario, costs, &points[p]);
        if (points[p].cores > cores) cores = points[p].cores;
    }
    if (scenario->missing == DL_MISSING_REFUSE) needs = 0;
    dl_costs_assume(costs, needs, scenario->gpu != NULL ? &scenario->gpu->machine : NULL, cores,
                    made);
}

static const dl_gpu_model *first_gpu(const dl_scenario *scenario)
{
    const dl_place place = dl_gpu_options_place(scenario->gpu, 0);
    return dl_machine_model(&scenario->gpu->machine, place.node, place.index);
}

/* What programs take that do not say what the usual arithmetic needs: PyTorch without autocast
 * multiplies in fp32; with it, convolutions are in fp16. */
static dl_arithmetic other_arithmetic(dl_arithmetic usual)
{
    return usual == DL_BF16 ? DL_FP32 : DL_FP16;
}

/* Those of the variant in another arithmetic; NULL: the GPU has none. */
static dl_costs *costs_in(const dl_variant *variant, dl_arithmetic arithmetic)
{
    const dl_scenario *scenario = &variant->scenario;
    dl_scenario other = *scenario;
    dl_costs *costs = dl_calloc(1, sizeof *costs, "costs in another arithmetic");
    dl_assumptions same = {0};
    dl_error ignored = {0};
    other.arithmetic = 1 + (int)arithmetic;
    if (estimate_costs(&other, first_gpu(scenario), costs, &ignored) != DL_OK) {
        free(costs);
        return NULL;
    }
    if (scenario->parameter_bytes > 0) costs->parameter_bytes = scenario->parameter_bytes;
    dl_scenario_assume_costs(scenario, costs, NULL, &same);
    dl_assumptions_free(&same);
    return costs;
}

static void assume_arithmetic(dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    if (scenario->model == NULL || scenario->arithmetic > 0) return;
    const dl_arithmetic usual = dl_scenario_arithmetic(scenario), other = other_arithmetic(usual);
    dl_assumption *a = dl_setting_assume(
        dl_keys_find(&dl_scenario_keys, "workload", "arithmetic"), dl_arithmetic_names[usual],
        usual == DL_BF16   ? "transformers are usually trained in it on GPUs that have it"
        : usual == DL_TF32 ? "PyTorch lets cuDNN take it for convolutions"
                           : "not all GPUs have bf16 (transformers) or tf32 (convolutions)",
        "the arithmetic of the program's products (autocast, allow_tf32)", &variant->assumed);
    /* Of GPUs of several models each has costs of its own; a measured step is that of any. */
    if (variant->costs.model_count == 0 && variant->calibrated.factor == 0)
        a->costs = costs_in(variant, other);
    if (a->costs != NULL) snprintf(a->other, sizeof a->other, "%s", dl_arithmetic_names[other]);
}

/* Settings that the scenario leaves open; defaults for what the points need and the costs lack; the
 * machine's bounds. */
static void assume(dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    assume_settings(variant);
    assume_arithmetic(variant);
    dl_scenario_assume_costs(scenario, &variant->costs, NULL, &variant->assumed);
    if (scenario->gpu != NULL)
        dl_machine_assume(&variant->costs, &scenario->gpu->machine, &variant->assumed);
}

static bool gives(const dl_scenario *scenario, const char *section, const char *name)
{
    const dl_key *key = dl_keys_find(&dl_scenario_keys, section, name);
    return scenario->given[key - dl_scenario_keys.rows];
}

static bool gives_overlap(const dl_scenario *scenario)
{
    return gives(scenario, "exchange", "overlap");
}

/* Averages where the costs are of: with costs of averaging in host memory there, as dlprof train has it, and
 * with a server's threads or shards. */
static void take_place(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    const dl_costs *costs = &variant->costs;
    if (scenario->gpu == NULL || scenario->gpu->where != DL_WHERE_AUTO) return;
    if (costs->average.read_bytes_per_s.known || gives(scenario, "sync", "server_threads") ||
        gives(scenario, "exchange", "shards"))
        scenario->gpu->where = DL_WHERE_CPU;
}

/* A step's parts in turn as in the program that the costs are of, where the scenario leaves it
 * open. */
static void take_turns(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    bool goes = variant->costs.waits && scenario->gpu != NULL && scenario->pipeline == NULL &&
                !gives(scenario, "machine", "ahead") && !gives(scenario, "input", "prefetch") &&
                !gives(scenario, "input", "cores") && !gives(scenario, "input", "made");
    for (size_t p = 0; p < scenario->point_count; p++)
        goes = goes && scenario->points[p].option[DL_SYNC_LAG] == 0;
    if (!goes) return;
    scenario->gpu->in_turn = true;
    scenario->gpu->ahead = scenario->gpu->prefetch = 0;
}

bool dl_variant_waits_by_costs(const dl_variant *variant)
{
    return variant->scenario.gpu != NULL && variant->scenario.gpu->in_turn;
}

/* States divided as in the program that the costs are of, where the scenario leaves it open and all
 * points can. */
static void take_sharded(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    const dl_sharded sharded = variant->costs.sharded;
    if (scenario->gpu == NULL || sharded == DL_SHARDED_NONE ||
        gives(scenario, "exchange", "sharded"))
        return;
    for (size_t p = 0; p < scenario->point_count; p++)
        if (dl_scenario_not_sharded(scenario, sharded, &scenario->points[p]) != NULL) return;
    scenario->gpu->sharded = sharded;
    scenario->gpu->keeps_parameters = variant->costs.keeps_parameters;
}

/* Overlap as in the program that the costs are of, where the scenario leaves it open. Split models
 * and exchange that lags do not go with it. */
static void take_overlap(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    if (scenario->gpu != NULL && scenario->gpu->sharded == DL_SHARDED_PARAMETERS)
        scenario->gpu->overlap = true;
    bool goes = variant->costs.overlap && scenario->gpu != NULL && !gives_overlap(scenario);
    for (size_t p = 0; p < scenario->point_count; p++) {
        goes = goes && !dl_point_is_split(&scenario->points[p]) &&
               scenario->points[p].option[DL_SYNC_LAG] == 0;
    }
    if (goes) scenario->gpu->overlap = true;
}

/* As many micro-batches as the program that the costs are of takes, where the scenario leaves it
 * open. Those of stages are the pipeline's; gathered parameters do not go with several. */
static dl_status take_accumulation(dl_variant *variant, dl_error *err)
{
    dl_scenario *scenario = &variant->scenario;
    const int64_t micro_batches = variant->costs.accumulate;
    if (!dl_variant_accumulates_by_costs(variant)) return DL_OK;
    for (size_t p = 0; p < scenario->point_count; p++) {
        dl_point *point = &scenario->points[p];
        if (dl_point_is_split(point)) continue;
        const int64_t all =
            micro_batches * (scenario->shares == DL_SHARES_SPEED ? 1 : point->workers);
        if (point->batch % all != 0 || point->batch < point->workers * micro_batches) {
            char text[DL_POINT_TEXT_BYTES];
            return dl_error_set_at(
                err, DL_ERR_RANGE, scenario->path, 0,
                "%lld micro-batches of each worker, [costs] accumulate of %s, cannot share the "
                "batch evenly: [sync] accumulate (--set sync.accumulate=1) gives others (point: "
                "%s)",
                (long long)micro_batches, variant->costs.path,
                dl_point_text(text, sizeof text, point));
        }
        point->option[DL_SYNC_ACCUMULATE] = (double)micro_batches;
    }
    return DL_OK;
}

const dl_swept_key *dl_study_swept(const dl_study *study, const char *section, const char *key)
{
    for (size_t k = 0; k < study->key_count; k++)
        if (strcmp(study->keys[k].section, section) == 0 && strcmp(study->keys[k].key, key) == 0)
            return &study->keys[k];
    return NULL;
}

bool dl_variant_accumulates_by_costs(const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_gpu_options *gpu = scenario->gpu;
    return variant->costs.accumulate > 1 && !gives(scenario, "sync", "accumulate") &&
           !gives(scenario, "pipeline", "micro_batches") &&
           (gpu == NULL || gpu->sharded != DL_SHARDED_PARAMETERS);
}

bool dl_variant_overlaps_by_costs(const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    return scenario->gpu != NULL && scenario->gpu->overlap && variant->costs.overlap &&
           !gives_overlap(scenario);
}

bool dl_variant_assumes_overlap(const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    return dl_variant_overlaps_by_costs(variant) && scenario->costs_path == NULL &&
           scenario->gpu->sharded != DL_SHARDED_PARAMETERS;
}

double dl_variant_compute_log(const dl_variant *variant)
{
    const dl_costs *costs = &variant->costs;
    double most = 0;
    if (variant->calibrated.factor > 0 && variant->is_calibrated_gpu) return 0;
    for (int m = 0; m < costs->model_count; m++)
        most = fmax(most, costs->models[m].spread_log);
    if (costs->model_count > 0) return most;
    return fmax(variant->scaling.scaled ? variant->scaling.spread_log : 0,
                2 * costs->compute_spread_frac.value);
}

/* Samples of a step of one worker, if all points agree; else 0. */
static int64_t baseline_batch(const dl_scenario *scenario)
{
    int64_t batch = 0;
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        const int64_t one =
            scenario->batch_per_worker ? point->batch / point->workers : point->batch;
        if (p > 0 && one != batch) return 0;
        batch = one;
    }
    return batch;
}

/* Of a network, on the GPUs of the machine's other models: in place of what was scaled. */
static dl_status estimate_models(dl_variant *variant, dl_error *err)
{
    const dl_scenario *scenario = &variant->scenario;
    dl_status status = DL_OK;
    for (int m = 0; m < variant->costs.model_count && status == DL_OK; m++) {
        dl_model_costs *model = &variant->costs.models[m];
        if (model->factors == NULL) continue;
        dl_costs *own = dl_calloc(1, sizeof *own, "costs of a model");
        status = estimate_costs(scenario, &scenario->gpu->machine.models[m], own, err);
        if (status == DL_OK) {
            free(model->factors);
            *model = (dl_model_costs){.own = own, .spread_log = 2 * own->compute_spread_frac.value};
            variant->scalings[m] = (dl_scaling){0};
        } else {
            free(own);
        }
    }
    return status;
}

static dl_status take_costs(const dl_scenario *scenario, dl_costs *costs, dl_error *err)
{
    if (scenario->model != NULL) return estimate_costs(scenario, first_gpu(scenario), costs, err);
    if (scenario->costs_path != NULL) return dl_costs_read(costs, scenario->costs_path, err);
    const char *device = scenario->device;
    if (device != NULL && device[0] == '\0') device = NULL;
    dl_costs_of_throughput(costs, scenario->samples_per_s, device, baseline_batch(scenario));
    return DL_OK;
}

/* Cost files of processes hold the time of their all-reduces, or round trips, or are of a program
 * that would exchange like that. */
static void choose_processes(dl_scenario *scenario, const dl_costs *costs)
{
    if (scenario->processes != DL_PROCESSES_AUTO) return;
    const bool are = scenario->gpu == NULL &&
                     (dl_costs_have_exchanges(costs) || dl_costs_exchange_by_messages(costs));
    scenario->processes = are ? DL_PROCESSES_YES : DL_PROCESSES_NO;
}

/* Costs of a GPU on the cores of this machine, which only a scenario that names no machine asks
 * for. */
static dl_status refuse_cores_of_gpu(const dl_scenario *scenario, const dl_costs *costs,
                                     dl_error *err)
{
    bool measured = false;
    for (size_t p = 0; p < scenario->point_count; p++)
        measured = measured || scenario->points[p].cores == DL_CORES_MEASURED;
    if (!measured || costs->cores > 0 || costs->device == NULL) return DL_OK;
    dl_gpu_model known = {0};
    dl_known_gpu(costs->device, &known);
    const dl_status status = dl_error_set_at(
        err, DL_ERR_DATA, scenario->path, 0,
        "%s is of a GPU (%s): --machine, or [machine] file, says on which machine it is to train, "
        "as --machine 4x%s; dlsim --machines lists them",
        costs->path, costs->device, known.name != NULL ? known.name : "v100");
    free(known.name);
    return status;
}

/* What is simulated for threads only. */
static dl_status check_processes(const dl_scenario *scenario, dl_error *err)
{
    const bool messages = scenario->compression.kind != DL_COMPRESS_NONE;
    bool elastic = false;
    if (scenario->processes != DL_PROCESSES_YES) return DL_OK;
    for (size_t p = 0; p < scenario->point_count; p++) {
        elastic |=
            scenario->points[p].mode == &dl_mode_average && dl_absences_given(&scenario->absences);
    }
    if (!messages && !elastic) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                           "workers on cores are processes here: %s is simulated of threads only "
                           "([machine] processes = no)",
                           messages ? "[exchange] compress" : "mode average with absences");
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Of one workload: a factor on the times of another one says nothing. */
static bool same_workload(const dl_scenario *a, const dl_scenario *b)
{
    return same_text(a->costs_path, b->costs_path) && same_text(a->model, b->model) &&
           a->samples_per_s == b->samples_per_s;
}

/* The first variant of the study that has the key as this one has it. */
static const dl_variant *first_calibrated(const dl_study *study, const dl_variant *variant)
{
    const dl_calibrate *own = &variant->scenario.calibrate, *of = NULL;
    size_t v = 0;
    for (;; v++) {
        of = &study->variants[v].scenario.calibrate;
        if (of->step_ns == own->step_ns && of->workers == own->workers &&
            of->samples == own->samples && of->factor == own->factor)
            return &study->variants[v];
    }
}

/* Scales compute so that the measured step is predicted, where the scenario has one. */
static dl_status calibrate(const dl_study *study, dl_variant *variant, dl_error *err)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_variant *first = first_calibrated(study, variant);
    dl_status status = DL_OK;
    variant->calibrated = scenario->calibrate;
    if (scenario->calibrate.step_ns == 0 && scenario->calibrate.factor == 0) return DL_OK;
    if (!same_workload(scenario, &first->scenario)) {
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "[workload] calibrate: a measured step is of one workload, but the "
                               "scenario lists several");
    }
    if (first != variant) {
        variant->calibrated = first->calibrated;
    } else if (scenario->calibrate.factor == 0) {
        status = dl_calibrate_find(scenario, &variant->costs, &variant->calibrated, err);
    }
    variant->is_calibrated_gpu =
        scenario->gpu == NULL ||
        strcmp(first_gpu(scenario)->name, first_gpu(&first->scenario)->name) == 0;
    if (status == DL_OK) dl_calibrate_apply(&variant->costs, variant->calibrated.factor);
    return status;
}

/* What is made of the study's text has the factor: it is found once. */
static void keep_factor(dl_study *study)
{
    char number[DL_DOUBLE_TEXT_BYTES];
    const dl_calibrate *calibrated = &study->variants[0].calibrated;
    if (calibrated->step_ns == 0 || dl_study_swept(study, "workload", "calibrate") != NULL) return;
    dl_ini_text_set(&study->text, "workload", "calibrate",
                    dl_format_double(number, calibrated->factor));
}

static dl_status read_costs(const dl_study *study, dl_variant *variant, dl_error *err)
{
    dl_scenario *scenario = &variant->scenario;
    dl_costs *costs = &variant->costs;
    dl_status status;
    if ((status = take_costs(scenario, costs, err)) ||
        (status = dl_costs_check_machine(
             costs, scenario->gpu != NULL ? &scenario->gpu->machine : NULL, err)) ||
        (status = refuse_cores_of_gpu(scenario, costs, err)) ||
        (status = dl_scenario_set_measured_cores(scenario, costs->cores, err)) ||
        (status = dl_scaling_apply(scenario, costs, &variant->scaling, &variant->scalings, err)) ||
        (scenario->model != NULL && (status = estimate_models(variant, err)))) {
        return status;
    }
    if (scenario->parameter_bytes > 0) costs->parameter_bytes = scenario->parameter_bytes;
    if (scenario->samples_per_s > 0 && scenario->gpu != NULL && costs->parameter_bytes > 0)
        dl_costs_assume_buckets(costs);
    take_place(variant);
    take_sharded(variant);
    take_overlap(variant);
    take_turns(variant);
    choose_processes(scenario, costs);
    if ((status = take_accumulation(variant, err)) || (status = check_processes(scenario, err)) ||
        (status = calibrate(study, variant, err)))
        return status;
    assume(variant);
    return check_split(variant, err);
}

dl_status dl_study_read_costs(dl_study *study, dl_error *err)
{
    dl_status status = DL_OK;
    study->point_count = 0;
    for (size_t v = 0; v < study->variant_count && status == DL_OK; v++) {
        status = read_costs(study, &study->variants[v], err);
        study->point_count += study->variants[v].scenario.point_count;
    }
    if (status == DL_OK && study->variant_count > 0) keep_factor(study);
    return status;
}

void dl_study_free(dl_study *study)
{
    for (size_t v = 0; v < study->variant_count; v++)
        free_variant(&study->variants[v]);
    for (size_t k = 0; k < study->key_count; k++) {
        dl_swept_key *key = &study->keys[k];
        for (size_t i = 0; i < key->count; i++) {
            free(key->values[i]);
            free(key->texts[i]);
            free(key->cells[i]);
        }
        free(key->values);
        free(key->texts);
        free(key->cells);
        free(key->section);
        free(key->key);
        free(key->column);
    }
    free(study->keys);
    free(study->variants);
    free(study->path);
    free(study->text);
    *study = (dl_study){0};
}

const dl_variant *dl_study_variant(const dl_study *study, size_t row, size_t *point)
{
    size_t v = 0;
    for (; v + 1 < study->variant_count && row >= study->variants[v].scenario.point_count; v++)
        row -= study->variants[v].scenario.point_count;
    DL_ASSERT(row < study->variants[v].scenario.point_count, "no row %zu", row);
    *point = row;
    return &study->variants[v];
}

static bool means_something(const dl_study *study, const dl_variant *variant, const dl_point *point,
                            size_t key)
{
    const dl_swept_key *swept = &study->keys[key];
    return variant->at[key] < swept->count &&
           (swept->option < 0 || point->mode->options & 1u << swept->option);
}

const char *dl_study_text(const dl_study *study, const dl_variant *variant, const dl_point *point,
                          size_t key)
{
    if (!means_something(study, variant, point, key)) return "";
    return study->keys[key].texts[variant->at[key]];
}

const char *dl_study_cell(const dl_study *study, const dl_variant *variant, const dl_point *point,
                          size_t key)
{
    if (!means_something(study, variant, point, key)) return "";
    return study->keys[key].cells[variant->at[key]];
}
