#include "sim/scenario/study.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/scenario/scenario_internal.h"

#define VARIANTS_MAX 10000

/* --- swept values ----------------------------------------------------------------------------- */

static const dl_key *key_of(const dl_ini_entry *entry)
{
    return dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
}

/* Returns the separator of the values in a list that makes variants; '\0' if the key's list makes
 * points or its value is text. Unknown keys are rejected later, when the variant is read. */
static char separator_of(const dl_ini_entry *entry)
{
    const dl_key *key = key_of(entry);
    return key != NULL && key->sweep != '.' ? key->sweep : '\0';
}

/* Returns "p2.8xlarge" for "../machines/p2.8xlarge.ini", other texts unchanged; the caller frees
 * it. */
static char *shown(const char *value)
{
    const char *stem = dl_base_name(value);
    const size_t bytes = strlen(stem), tail = strlen(".ini");
    if (bytes <= tail || !dl_ends_with(stem, ".ini")) return dl_strdup(value);
    return dl_strndup(stem, bytes - tail);
}

/* Returns "6250000" for "50Mb/s": an amount in its base unit, which the key's name includes; other
 * texts unchanged. The caller frees it. */
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

/* --- parts of the list of modes --------------------------------------------------------------- */

/* Returns the mode that another program's word means; other texts unchanged. */
static const char *mode_of(const char *text)
{
    const dl_mode_shorthand *both = dl_mode_shorthand_find(text);
    const dl_word *word = dl_mode_word(text);
    if (both != NULL) return both->mode;
    return word != NULL && word->here != NULL ? word->here : text;
}

static dl_status add_word(dl_study *study, const dl_ini *ini, const dl_ini_entry *modes,
                          const dl_mode_shorthand *word, dl_error *err)
{
    const dl_ini_entry *given = dl_ini_find(ini, word->section, word->key);
    if (given != NULL)
        return dl_ini_error(ini, given, DL_ERR_DATA, err,
                            "%s in the list of modes is %s with %s = %s: give only one", word->word,
                            word->mode, word->key, word->value);
    if (dl_names_find(word->word, (const char *const *)study->parts, study->part_count) >= 0)
        return dl_ini_error(ini, modes, DL_ERR_RANGE, err, "'%s' is given twice", word->word);
    DL_APPEND(study->parts, study->part_count, "modes") = dl_strdup(word->word);
    return DL_OK;
}

/* Divides the list of modes into parts if it has words for a mode with a key, as these make
 * variants. */
static dl_status find_parts(dl_study *study, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *modes = dl_ini_find(ini, "sync", "mode");
    char **names = NULL, *others = NULL;
    size_t count = 0, words = 0;
    if (modes == NULL || strchr(modes->value, ',') == NULL) return DL_OK;
    dl_status status = dl_ini_split(ini, modes, &names, &count, err);
    for (size_t n = 0; n < count; n++) {
        const bool is_word = dl_mode_shorthand_find(names[n]) != NULL;
        if (!is_word) dl_join(&others, ", ", names[n]);
        words += is_word;
    }
    if (words > 0 && others != NULL)
        DL_APPEND(study->parts, study->part_count, "modes") = dl_strdup(others);
    free(others);
    for (size_t n = 0; n < count && status == DL_OK; n++) {
        const dl_mode_shorthand *word = dl_mode_shorthand_find(names[n]);
        if (word != NULL) status = add_word(study, ini, modes, word, err);
    }
    dl_ini_free_list(names, count);
    return status;
}

static bool list_takes(const char *list, int option)
{
    bool takes = false;
    for (char *name; !takes && (name = dl_next_word(&list)) != NULL; free(name)) {
        const int found = dl_names_find(mode_of(name), dl_mode_names, DL_MODES);
        takes = found >= 0 && dl_mode_takes(dl_modes[found], option);
    }
    return takes;
}

/* Whether the option can be used in the part; false if only modes of other parts take it. */
static bool is_for_part(const dl_study *study, size_t part, int option)
{
    if (study->part_count == 0 || option < 0 || list_takes(study->parts[part], option)) return true;
    for (size_t p = 0; p < study->part_count; p++)
        if (list_takes(study->parts[p], option)) return false;
    return true;
}

/* Returns the value of a key set by a word in the list of modes: that of the variant's own word,
 * else the key's default if another word of the list sets the key; NULL if no word does. */
static const char *given_by_mode(const dl_study *study, const dl_variant *variant,
                                 const dl_key *row, const char *name)
{
    const char *value = NULL;
    for (size_t p = 0; p < study->part_count; p++) {
        const dl_mode_shorthand *word = dl_mode_shorthand_find(study->parts[p]);
        if (word == NULL || strcmp(word->section, row->section) != 0 ||
            strcmp(word->key, name) != 0 || !dl_key_holds(row, word->value))
            continue;
        if (p == variant->part) return word->value;
        value = dl_keys_find(&dl_scenario_keys, row->section, name)->fallback;
    }
    return value;
}

/* --- the variants ---------------------------------------------------------------------------- */

/* Returns the variant's value of a swept key; NULL: the key is not swept. */
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

/* Whether the key applies in the variant, given its values of swept keys. */
static bool has_meaning(const dl_study *study, const dl_variant *variant, const char *section,
                        const char *key)
{
    const dl_key *row = dl_keys_find(&dl_scenario_keys, section, key);
    char on[64];
    if (row != NULL && !is_for_part(study, variant->part, dl_key_option(row))) return false;
    if (row == NULL || !dl_key_depends(row, on, sizeof on)) return true;
    const char *value = value_of(study, variant, section, on);
    if (value == NULL) value = given_by_mode(study, variant, row, on);
    return value == NULL || dl_key_holds(row, value);
}

/* Returns the file without lists, with the variant's values. Only the array is owned; the entries
 * are borrowed. */
static dl_ini plain_file(const dl_study *study, const dl_variant *variant, const dl_ini *ini)
{
    dl_ini plain = *ini;
    plain.entries = dl_calloc(ini->count, sizeof *plain.entries, "INI entries");
    plain.count = 0;
    for (size_t i = 0; i < ini->count; i++) {
        dl_ini_entry entry = ini->entries[i];
        if (!has_meaning(study, variant, entry.section, entry.key)) continue;
        if (study->part_count > 0 && strcmp(entry.section, "sync") == 0 &&
            strcmp(entry.key, "mode") == 0)
            entry.value = study->parts[variant->part];
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

/* Sets the variant's values; the last key changes fastest. Returns false if a key that does not
 * apply in the variant does not have its first value, as the variant then repeats another one. */
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

/* Removes repeated points: a point whose mode does not take an option is kept only for the option's
 * first value. */
static void drop_repeated(const dl_study *study, dl_variant *variant)
{
    dl_scenario *s = &variant->scenario;
    size_t kept = 0;
    for (size_t p = 0; p < s->point_count; p++) {
        bool repeats = false;
        for (size_t k = 0; k < study->key_count; k++) {
            const int option = study->keys[k].option;
            repeats |=
                option >= 0 && variant->at[k] > 0 && !dl_mode_takes(s->points[p].mode, option);
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

static dl_status add_variant(dl_study *study, const dl_ini *ini, size_t number, size_t part,
                             dl_error *err)
{
    dl_variant variant = {.part = part,
                          .at = dl_calloc(study->key_count, sizeof(size_t), "variant")};
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
    DL_APPEND(study->variants, study->variant_count, "variants") = variant;
    study->point_count += variant.scenario.point_count;
    return DL_OK;
}

/* --- number of points ------------------------------------------------------------------------- */

/* Returns the separator of the values of any list; '\0': the key cannot have a list. */
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

/* Number of combinations of the [sync] options that the mode takes. */
static double option_combinations(const dl_ini *ini, const dl_mode *mode)
{
    double combinations = 1;
    for (size_t i = 0; i < ini->count; i++) {
        const dl_key *key = key_of(&ini->entries[i]);
        const int option = key != NULL ? dl_key_option(key) : -1;
        if (option < 0 || !dl_mode_takes(mode, option)) continue;
        combinations *= (double)list_count(&ini->entries[i]);
    }
    return combinations;
}

/* Sum of option_combinations over all modes in the list; unknown names are rejected when the list
 * is read. */
static double mode_combinations(const dl_ini *ini, const dl_ini_entry *modes)
{
    char **names = NULL;
    size_t count = 0;
    double combinations = 0;
    dl_error ignored = {0};
    if (modes == NULL || dl_ini_split(ini, modes, &names, &count, &ignored) != DL_OK) return 1;
    for (size_t n = 0; n < count; n++) {
        const char *name = mode_of(names[n]);
        for (int m = 0; m < DL_MODES; m++) {
            if (strcmp(dl_modes[m]->name, name) != 0) continue;
            combinations += option_combinations(ini, dl_modes[m]);
        }
    }
    dl_ini_free_list(names, count);
    return fmax(combinations, 1);
}

/* Number of points that the lists make; an upper bound if a key applies only to some values of
 * another. */
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

/* Returns the middle item of a list, freed by the caller. */
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
        if (strcmp(dl_modes[m]->name, mode) == 0) return dl_mode_takes(dl_modes[m], option);
    }
    return true;
}

/* Reads a study with one point, which has the middle value of each list. */
static dl_status read_one(dl_study *study, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *modes = dl_ini_find(ini, "sync", "mode");
    DL_AUTOFREE char *mode = modes != NULL ? middle_of(modes) : dl_strdup("");
    dl_ini plain = *ini;
    plain.entries = dl_calloc(ini->count, sizeof *plain.entries, "INI entries");
    plain.count = 0;
    for (size_t i = 0; i < ini->count; i++) {
        if (!is_taken(key_of(&ini->entries[i]), mode_of(mode))) continue;
        dl_ini_entry *entry = &plain.entries[plain.count++];
        *entry = ini->entries[i];
        entry->value = middle_of(&ini->entries[i]);
    }
    const dl_status status = add_variant(study, &plain, 0, 0, err);
    for (size_t i = 0; i < plain.count; i++)
        free(plain.entries[i].value);
    free(plain.entries);
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
        /* For incompatible values, reports the number of points; for a faulty file, its error. */
        const bool faulty = status == DL_ERR_NAME || status == DL_ERR_PARSE;
        if (!faulty && (status != DL_OK || read.variant_count == 0)) {
            status = dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0,
                                     "the lists make %.4g points, more than %.0f", listed, limit);
        }
    } else {
        status = find_keys(&read, ini, err);
        if (status == DL_OK) status = find_parts(&read, ini, err);
    }
    for (size_t k = 0; k < read.key_count && status == DL_OK && count <= VARIANTS_MAX; k++)
        count *= read.keys[k].count;
    if (status == DL_OK && count > VARIANTS_MAX) {
        status = dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0, "more than %d combinations",
                                 VARIANTS_MAX);
    }
    const size_t parts = read.part_count > 0 ? read.part_count : 1;
    for (size_t v = 0; v < count * parts && status == DL_OK; v++)
        status = add_variant(&read, ini, v / parts, v % parts, err);
    if (status == DL_OK) {
        *study = read;
    } else {
        dl_study_free(&read);
    }
    return status;
}

dl_status dl_study_read(dl_study *study, const char *path, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    return dl_study_read_text(study, path, text, bytes, err);
}

dl_status dl_study_read_text(dl_study *study, const char *name, const char *text, size_t bytes,
                             dl_error *err)
{
    DL_SCOPED(dl_ini) ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    status = from_ini(study, &ini, err);
    if (status == DL_OK) study->text = dl_strndup(text, bytes);
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
    for (size_t p = 0; p < study->part_count; p++)
        free(study->parts[p]);
    free(study->parts);
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
           (swept->option < 0 || dl_mode_takes(point->mode, swept->option));
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
