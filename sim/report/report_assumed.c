#include "sim/report/report_assumed.h"
#include "sim/report/row_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* Relative change of throughput below which an assumption is not worth measuring. */
#define MOVES_FRAC 0.005

void dl_effects_add(dl_effects *effects, double size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_APPEND(effects->items, effects->count, "notes") =
        (struct dl_effect){size, dl_vformat(format, args)};
    va_end(args);
}

void dl_effects_end(dl_notes *notes, dl_effects *effects)
{
    for (size_t i = 1; i < effects->count; i++) {
        const struct dl_effect item = effects->items[i];
        size_t at = i;
        for (; at > 0 && effects->items[at - 1].size < item.size; at--)
            effects->items[at] = effects->items[at - 1];
        effects->items[at] = item;
    }
    for (size_t i = 0; i < effects->count; i++) {
        dl_notes_add(notes, "%s", effects->items[i].text);
        free(effects->items[i].text);
    }
    free(effects->items);
    *effects = (dl_effects){0};
}

/* --- lists ----------------------------------------------------------------------------------- */

typedef struct assumed_item {
    const dl_assumption *a;
    const dl_variant *variant; /* first variant with this assumption */
} assumed_item;

/* The assumptions of all variants that are in force, each once. */
typedef struct assumed_list {
    assumed_item *items; /* [count] */
    size_t count;
} assumed_list;

static bool is_listed(const assumed_list *list, const dl_assumption *a)
{
    for (size_t i = 0; i < list->count; i++)
        if (dl_assumption_same(list->items[i].a, a)) return true;
    return false;
}

static bool has(const dl_variant *variant, const dl_assumption *a)
{
    for (size_t i = 0; i < variant->assumed.count; i++)
        if (dl_assumption_same(&variant->assumed.items[i], a)) return true;
    return false;
}

/* Returns the influence of the assumption, or of all assumptions with its cause together, in any
 * variant; NULL if it was not tried. */
static const dl_influence *influence_of(const dl_study *study, const dl_sweep *sweep,
                                        const dl_assumption *a)
{
    for (size_t i = 0; sweep != NULL && i < sweep->influence_count; i++) {
        const dl_influence *influence = &sweep->influences[i];
        if (influence->kind != DL_INFLUENCE_ASSUMPTION) continue;
        const dl_assumption *tried = influence->assumption;
        if (dl_assumption_same(tried, a)) return influence;
        if (tried->cause == 0 || tried->cause != a->cause) continue;
        if (has(&study->variants[sweep->rows[influence->row].variant], a)) return influence;
    }
    return NULL;
}

/* Whether the assumption was tried: each variant with it has a row that ran, and no row was
 * skipped. */
static bool was_tried(const dl_study *study, const dl_sweep *sweep, const dl_assumption *a)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        bool ran = false;
        if (!has(&study->variants[v], a)) continue;
        for (size_t r = 0; r < sweep->row_count; r++)
            ran |= sweep->rows[r].variant == v && sweep->rows[r].error == NULL;
        if (!ran) return false;
    }
    return sweep->influence_rows_skipped == 0;
}

/* Whether any point depends on the assumption. */
static bool matters(const dl_variant *variant, const dl_assumption *a)
{
    const dl_scenario *scenario = &variant->scenario;
    bool any = a->matters == NULL;
    for (size_t p = 0; p < scenario->point_count; p++)
        any = any || a->matters(scenario, &scenario->points[p]);
    return any;
}

static assumed_list list_of(const dl_study *study)
{
    assumed_list list = {0};
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        for (size_t i = 0; i < variant->assumed.count; i++) {
            const dl_assumption *a = &variant->assumed.items[i];
            if (is_listed(&list, a) || !dl_assumption_holds(a, &variant->costs) ||
                !matters(variant, a))
                continue;
            DL_APPEND(list.items, list.count, "assumptions") = (assumed_item){a, variant};
        }
    }
    return list;
}

/* Whether an earlier item has the same cause and therefore covers this one. */
static bool is_told(const assumed_list *list, size_t number)
{
    const assumed_item *item = &list->items[number];
    for (size_t i = 0; i < number && item->a->cause != 0; i++) {
        if (list->items[i].a->cause == item->a->cause && list->items[i].variant == item->variant)
            return true;
    }
    return false;
}

/* --- undetermined values --------------------------------------------------------------------- */

/* Values of all variants for which a fit gives only bounds; each section, key and value once. */
typedef struct bounded {
    char *section, *key;
    dl_dimension dimension;
    dl_value value;
} bounded;

typedef struct bounded_list {
    bounded *items; /* [count] */
    size_t count;
} bounded_list;

static void add_bounded(void *user, const char *section, const char *key, dl_dimension dimension,
                        const dl_value *value)
{
    bounded_list *list = user;
    for (size_t i = 0; i < list->count; i++) {
        const bounded *b = &list->items[i];
        if (strcmp(b->section, section) == 0 && strcmp(b->key, key) == 0 &&
            b->value.low == value->low && b->value.high == value->high) {
            return;
        }
    }
    DL_APPEND(list->items, list->count, "bounded values") =
        (bounded){dl_strdup(section), dl_strdup(key), dimension, *value};
}

static bounded_list bounded_of(const dl_study *study)
{
    bounded_list list = {0};
    for (size_t v = 0; v < study->variant_count; v++)
        dl_costs_each_bounded(&study->variants[v].costs, add_bounded, &list);
    return list;
}

static void free_bounded(bounded_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].section);
        free(list->items[i].key);
    }
    free(list->items);
}

static void add_all_bounded(dl_effects *effects, const dl_study *study)
{
    bounded_list list = bounded_of(study);
    for (size_t i = 0; i < list.count; i++) {
        const bounded *b = &list.items[i];
        char low[48], high[48], value[48];
        dl_effects_add(
            effects, 0, "not determined: [%s] %s, between %s and %s; %s is used, and intervals %s",
            b->section, b->key, dl_amount_text(low, sizeof low, b->value.low, b->dimension),
            dl_amount_text(high, sizeof high, b->value.high, b->dimension),
            dl_amount_text(value, sizeof value, b->value.value, b->dimension),
            study->variants[0].scenario.replicates > 1
                ? "cover that range"
                : "would cover that range with [scenario] replicates above 1");
    }
    free_bounded(&list);
}

/* --- readable output -------------------------------------------------------------------------- */

#define AMOUNT(value, a) dl_amount_text((char[48]){0}, 48, value, (a)->key->dimension)

/* Writes the values that identify the row to text[bytes]; returns the name of its throughput. */
static const char *name_row(char *text, size_t bytes, const dl_study *study, const dl_row *row)
{
    const bool generates = study->variants[row->variant].scenario.generators != NULL;
    if (generates)
        dl_report_options(text, bytes, study, row);
    else
        dl_point_text(text, bytes, &row->point);
    return generates ? "answers/s" : "samples/s";
}

static void put_effect(char **text, const dl_study *study, const dl_sweep *sweep,
                       const dl_influence *influence)
{
    char of[DL_REPORT_OPTIONS_BYTES];
    const char *rate = name_row(of, sizeof of, study, &sweep->rows[influence->row]);
    dl_extend(text, "%s %+.1f to %+.1f %%", rate, 100 * influence->at_low,
              100 * influence->at_high);
    if (of[0] != '\0') dl_extend(text, " (%s)", of);
}

/* Writes "assumed [exchange] overlap = yes (no: samples/s -2.2 %; workers 16)". */
static void put_setting(char **text, const dl_study *study, const dl_sweep *sweep,
                        const dl_assumption *a, const dl_influence *influence)
{
    char of[DL_REPORT_OPTIONS_BYTES];
    dl_extend(text, "assumed [%s] %s = %s", a->key->section, a->key->name, a->chosen);
    if (influence == NULL) return;
    const char *rate = name_row(of, sizeof of, study, &sweep->rows[influence->row]);
    dl_extend(text, " (%s: %s %+.1f %%%s%s)", a->other, rate, 100 * influence->at_low,
              of[0] != '\0' ? "; " : "", of);
}

/* Prints the items of the list with the same cause as item `first`. */
static void put_others_of_cause(char **text, const assumed_list *list, size_t first)
{
    const assumed_item *item = &list->items[first];
    const char *section = dl_assumption_section(item->a);
    for (size_t i = first + 1; i < list->count && item->a->cause != 0; i++) {
        const dl_assumption *a = list->items[i].a;
        if (a->cause != item->a->cause || list->items[i].variant != item->variant) continue;
        dl_extend(text, ", with ");
        if (strcmp(section, dl_assumption_section(a)) != 0)
            dl_extend(text, "[%s] ", dl_assumption_section(a));
        section = dl_assumption_section(a);
        dl_extend(text, "%s", dl_assumption_name(a));
        if (a->value != item->a->value) dl_extend(text, " = %s", AMOUNT(a->value, a));
    }
}

static void add_one(dl_effects *effects, const dl_study *study, const dl_sweep *sweep,
                    const assumed_list *list, size_t number)
{
    DL_AUTOFREE char *text = NULL;
    const dl_assumption *a = list->items[number].a;
    const dl_influence *influence = influence_of(study, sweep, a);
    if (a->of == DL_ASSUMED_SETTING) {
        put_setting(&text, study, sweep, a, influence);
    } else {
        dl_extend(&text, "assumed [%s] %s = %s", dl_assumption_section(a), dl_assumption_name(a),
                  AMOUNT(a->value, a));
        if (a->low < a->high)
            dl_extend(&text, " (%s to %s)", AMOUNT(a->low, a), AMOUNT(a->high, a));
        put_others_of_cause(&text, list, number);
        if (influence != NULL && dl_influence_size(influence) >= MOVES_FRAC) {
            dl_extend(&text, ", ");
            put_effect(&text, study, sweep, influence);
        }
    }
    dl_effects_add(effects, influence != NULL ? dl_influence_size(influence) : 0, "%s: %s", text,
                   a->source);
}

/* Whether the assumption is negligible: within its interval the row with the most workers hardly
 * changes, or the row does not depend on it. A setting is never negligible: it may be wrong, not
 * only inaccurate. */
static bool is_of_no_matter(const dl_study *study, const dl_sweep *sweep, const dl_assumption *a)
{
    const dl_influence *influence = influence_of(study, sweep, a);
    if (a->of == DL_ASSUMED_SETTING) return false;
    if (sweep == NULL || !was_tried(study, sweep, a)) return false;
    return influence == NULL || dl_influence_size(influence) < MOVES_FRAC;
}

/* Adds a note with the negligible assumptions; the head of the results has their sources. */
static void add_others(dl_effects *effects, const assumed_list *list, const dl_study *study,
                       const dl_sweep *sweep)
{
    DL_AUTOFREE char *text = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const dl_assumption *a = list->items[i].a;
        if (!is_of_no_matter(study, sweep, a)) continue;
        dl_join_format(&text, ", ", "[%s] %s = %s", dl_assumption_section(a), dl_assumption_name(a),
                       AMOUNT(a->value, a));
    }
    if (text == NULL) return;
    dl_effects_add(effects, 0,
                   "also assumed, each under %.1f %% of samples/s (sources in the results): %s",
                   100 * MOVES_FRAC, text);
}

/* Returns the scaling of the first GPU if it is scaled, else of the first other scaled model; NULL:
 * none. */
static const dl_scaling *scaled(const dl_variant *variant)
{
    if (variant->scaling.scaled) return &variant->scaling;
    for (int m = 0; m < variant->costs.model_count; m++)
        if (variant->scalings[m].scaled) return &variant->scalings[m];
    return NULL;
}

/* Returns the way to measure the assumption; the caller frees it. Its effect is in its own note. */
static char *measure_first(const dl_assumption *a)
{
    if (a->of == DL_ASSUMED_SETTING) return dl_format("find out first %s", a->measure);
    return dl_format("measure first: [%s] %s, by %s%s", dl_assumption_section(a),
                     dl_assumption_name(a), a->measure,
                     a->of == DL_ASSUMED_MACHINE
                         ? "; --save-machine FILE writes the machine file that has it"
                         : "");
}

/* Returns the effect of compute times that are not measured, and the way to measure them; the
 * caller frees it. */
static char *measure_compute(const dl_study *study, const dl_sweep *sweep, const dl_influence *most)
{
    const dl_variant *variant = &study->variants[sweep->rows[most->row].variant];
    const dl_scaling *s = scaled(variant);
    char *text = NULL;
    put_effect(&text, study, sweep, most);
    if (s != NULL) {
        dl_extend(&text, " since compute is scaled from %s to %s", s->from, s->to);
    } else {
        dl_extend(&text, " since compute is estimated for %s", variant->costs.workload);
    }
    dl_extend(
        &text,
        "; measure it first, by dlcal costs TRACE --batch N, of a trace of one of these GPUs");
    return text;
}

/* Adds a note on the assumption to measure first. */
static void add_most(dl_effects *effects, const dl_study *study, const dl_sweep *sweep)
{
    if (sweep->influence_rows_skipped > 0)
        dl_effects_add(effects, 0,
                       "the effect of the assumptions on %zu rows was not simulated: it takes too "
                       "long",
                       sweep->influence_rows_skipped);
    if (sweep->influence_count == 0) return;
    const dl_influence *most = &sweep->influences[0];
    if (dl_influence_size(most) < MOVES_FRAC) return;
    DL_AUTOFREE char *way = most->kind == DL_INFLUENCE_ASSUMPTION
                                ? measure_first(most->assumption)
                                : measure_compute(study, sweep, most);
    dl_effects_add(effects, dl_influence_size(most), "%s", way);
}

void dl_report_assumed(dl_effects *effects, const dl_study *study, const dl_sweep *sweep)
{
    assumed_list list = list_of(study);
    for (size_t i = 0; i < list.count; i++) {
        if (!is_of_no_matter(study, sweep, list.items[i].a) && !is_told(&list, i))
            add_one(effects, study, sweep, &list, i);
    }
    add_others(effects, &list, study, sweep);
    if (sweep != NULL) add_most(effects, study, sweep);
    add_all_bounded(effects, study);
    free(list.items);
}

/* --- machine-readable output ----------------------------------------------------------------- */

void dl_report_assumed_head(dl_csv_writer *writer, const dl_study *study, const dl_sweep *sweep)
{
    assumed_list list = list_of(study);
    for (size_t i = 0; i < list.count; i++) {
        const dl_assumption *a = list.items[i].a;
        const dl_influence *influence = influence_of(study, sweep, a);
        char effect[96] = "";
        if (a->of == DL_ASSUMED_SETTING) {
            if (influence != NULL)
                snprintf(effect, sizeof effect, " at_other_frac=%.4g", influence->at_low);
            dl_csv_comment(writer, "assumed: [%s] %s=%s other=%s%s; %s", a->key->section,
                           a->key->name, a->chosen, a->other, effect, a->source);
            continue;
        }
        if (influence != NULL) {
            snprintf(effect, sizeof effect, " at_low_frac=%.4g at_high_frac=%.4g",
                     influence->at_low, influence->at_high);
        }
        dl_csv_comment(writer, "assumed: [%s] %s=%.6g low=%.6g high=%.6g%s; %s",
                       dl_assumption_section(a), dl_assumption_name(a), a->value, a->low, a->high,
                       effect, a->source);
    }
    free(list.items);
    bounded_list rest = bounded_of(study);
    for (size_t i = 0; i < rest.count; i++) {
        const bounded *b = &rest.items[i];
        dl_csv_comment(writer, "not determined: [%s] %s=%.6g low=%.6g high=%.6g", b->section,
                       b->key, b->value.value, b->value.low, b->value.high);
    }
    free_bounded(&rest);
}

/* Writes the number, its interval and its influence; for a setting the values as texts. */
static void put_json_value(dl_json *to, const dl_assumption *a, const dl_influence *influence)
{
    if (a->of == DL_ASSUMED_SETTING) {
        dl_json_text_item(to, "value", a->chosen);
        if (a->other[0] != '\0') dl_json_text_item(to, "other", a->other);
        if (influence != NULL) dl_json_number_item(to, "at_other_frac", influence->at_low);
        return;
    }
    dl_json_number_item(to, "value", a->value);
    dl_json_number_item(to, "low", a->low);
    dl_json_number_item(to, "high", a->high);
    if (influence == NULL) return;
    dl_json_number_item(to, "at_low_frac", influence->at_low);
    dl_json_number_item(to, "at_high_frac", influence->at_high);
}

void dl_report_assumed_json(dl_json *to, const dl_study *study, const dl_sweep *sweep)
{
    static const char *const files[] = {"costs", "machine", "scenario"};
    assumed_list list = list_of(study);
    dl_json_begin(to, "assumed", '[');
    for (size_t i = 0; i < list.count; i++) {
        const dl_assumption *a = list.items[i].a;
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "of", files[a->of]);
        dl_json_text_item(to, "section", dl_assumption_section(a));
        dl_json_text_item(to, "key", dl_assumption_name(a));
        put_json_value(to, a, influence_of(study, sweep, a));
        dl_json_text_item(to, "source", a->source);
        dl_json_text_item(to, "measure", a->measure);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
    free(list.items);
    bounded_list rest = bounded_of(study);
    if (rest.count > 0) dl_json_begin(to, "not_determined", '[');
    for (size_t i = 0; i < rest.count; i++) {
        const bounded *b = &rest.items[i];
        dl_json_object(to, NULL, "section=%s key=%s value=%g low=%g high=%g", b->section, b->key,
                       b->value.value, b->value.low, b->value.high);
    }
    if (rest.count > 0) dl_json_end(to, ']');
    free_bounded(&rest);
}
