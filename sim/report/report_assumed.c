#include "sim/report/report_assumed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* A throughput that moves by less is not worth a measurement. */
#define MOVES_FRAC 0.005

/* --- lists ----------------------------------------------------------------------------------- */

/* The assumptions of all variants that still hold; each key and value once. */
typedef struct assumed_list {
    const dl_assumption **items; /* [count] */
    size_t count;
} assumed_list;

static bool is_listed(const assumed_list *list, const dl_assumption *a)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i]->key == a->key && list->items[i]->value == a->value) return true;
    }
    return false;
}

static assumed_list list_of(const dl_study *study)
{
    assumed_list list = {0};
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        for (size_t i = 0; i < variant->assumed.count; i++) {
            const dl_assumption *a = &variant->assumed.items[i];
            if (is_listed(&list, a) || !dl_assumption_holds(a, &variant->costs)) continue;
            DL_APPEND(list.items, list.count, "assumptions") = a;
        }
    }
    return list;
}

/* That of the same key and value, in whichever variant it was tried. */
static const dl_influence *influence_of(const dl_sweep *sweep, const dl_assumption *a)
{
    for (size_t i = 0; sweep != NULL && i < sweep->influence_count; i++) {
        const dl_assumption *tried = sweep->influences[i].assumption;
        if (sweep->influences[i].kind == DL_INFLUENCE_VALUE && tried->key == a->key &&
            tried->value == a->value) {
            return &sweep->influences[i];
        }
    }
    return NULL;
}

/* --- what is not determined ------------------------------------------------------------------ */

/* Values that a fit gives bounds of only, of all variants; each section, key and value once. */
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

static void put_bounded(FILE *out, const dl_study *study)
{
    bounded_list list = bounded_of(study);
    for (size_t i = 0; i < list.count; i++) {
        const bounded *b = &list.items[i];
        char low[48], high[48], value[48];
        fprintf(out, "not determined: [%s] %s, between %s and %s; %s is used, and intervals %s\n",
                b->section, b->key, dl_amount_text(low, sizeof low, b->value.low, b->dimension),
                dl_amount_text(high, sizeof high, b->value.high, b->dimension),
                dl_amount_text(value, sizeof value, b->value.value, b->dimension),
                study->variants[0].scenario.replicates > 1
                    ? "cover that range"
                    : "would cover that range with [scenario] replicates above 1");
    }
    free_bounded(&list);
}

/* --- for people ------------------------------------------------------------------------------ */

#define AMOUNT(value, a) dl_amount_text((char[48]){0}, 48, value, (a)->key->dimension)

static void put_effect(FILE *out, const dl_sweep *sweep, const dl_influence *influence)
{
    char point[DL_POINT_TEXT_BYTES];
    const dl_point *at = &sweep->rows[influence->row].point;
    fprintf(out, "samples/s %+.1f to %+.1f %% (%s)", 100 * influence->at_low,
            100 * influence->at_high, dl_point_text(point, sizeof point, at));
}

static void put_one(FILE *out, const dl_sweep *sweep, const dl_assumption *a)
{
    const dl_influence *influence = influence_of(sweep, a);
    fprintf(out, "assumed [%s] %s = %s", a->key->section, dl_assumption_name(a),
            AMOUNT(a->value, a));
    if (a->low < a->high) fprintf(out, " (%s to %s)", AMOUNT(a->low, a), AMOUNT(a->high, a));
    if (influence != NULL && dl_influence_size(influence) >= MOVES_FRAC) {
        fprintf(out, ", ");
        put_effect(out, sweep, influence);
    }
    fprintf(out, ": %s\n", a->source);
}

/* Whether each variant that has the assumption has a row that ran, and so was tried. */
static bool was_tried(const dl_study *study, const dl_sweep *sweep, const dl_assumption *a)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        bool has = false, ran = false;
        for (size_t i = 0; i < study->variants[v].assumed.count; i++) {
            const dl_assumption *own = &study->variants[v].assumed.items[i];
            has |= own->key == a->key && own->value == a->value;
        }
        for (size_t r = 0; r < sweep->row_count && has; r++)
            ran |= sweep->rows[r].variant == v && sweep->rows[r].error == NULL;
        if (has && !ran) return false;
    }
    return sweep->influence_rows_skipped == 0;
}

/* Whether the row with most workers hardly moves within the interval, or does not depend on it. */
static bool is_of_no_matter(const dl_study *study, const dl_sweep *sweep, const dl_assumption *a)
{
    const dl_influence *influence = influence_of(sweep, a);
    if (sweep == NULL || !was_tried(study, sweep, a)) return false;
    return influence == NULL || dl_influence_size(influence) < MOVES_FRAC;
}

/* Those in one line; where they come from is in the results' head. */
static void put_others(FILE *out, const assumed_list *list, const dl_study *study,
                       const dl_sweep *sweep)
{
    const char *between = "";
    for (size_t i = 0; i < list->count; i++) {
        const dl_assumption *a = list->items[i];
        if (!is_of_no_matter(study, sweep, a)) continue;
        if (between[0] == '\0') {
            fprintf(out, "also assumed, each under %.1f %% of samples/s (sources in the results): ",
                    100 * MOVES_FRAC);
        }
        fprintf(out, "%s[%s] %s = %s", between, a->key->section, dl_assumption_name(a),
                AMOUNT(a->value, a));
        between = ", ";
    }
    if (between[0] != '\0') fputc('\n', out);
}

/* What was scaled: for the first GPU, else for the first of the other models; NULL: nothing. */
static const dl_scaling *scaled(const dl_variant *variant)
{
    if (variant->scaling.scaled) return &variant->scaling;
    for (int m = 0; m < variant->costs.model_count; m++)
        if (variant->scalings[m].scaled) return &variant->scalings[m];
    return NULL;
}

/* Whether some variant assumes that exchange overlaps the backward pass, and what that does: NULL:
 * not tried. */
static bool assumes_overlap(const dl_study *study, const dl_sweep *sweep,
                            const dl_influence **influence)
{
    bool any = false;
    *influence = NULL;
    for (size_t v = 0; v < study->variant_count; v++)
        any |= dl_variant_assumes_overlap(&study->variants[v]);
    for (size_t i = 0; sweep != NULL && i < sweep->influence_count; i++)
        if (sweep->influences[i].kind == DL_INFLUENCE_OVERLAP) *influence = &sweep->influences[i];
    return any;
}

#define OVERLAP_SOURCE \
    "PyTorch's DistributedDataParallel sends gradients during the backward pass, in buckets"

static size_t put_overlap(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    const dl_influence *influence;
    if (!assumes_overlap(study, sweep, &influence)) return 0;
    fprintf(out, "assumed [exchange] overlap = yes");
    if (influence != NULL) {
        char point[DL_POINT_TEXT_BYTES];
        fprintf(out, " (no: samples/s %+.1f %%; %s)", 100 * influence->at_low,
                dl_point_text(point, sizeof point, &sweep->rows[influence->row].point));
    }
    fprintf(out, ": " OVERLAP_SOURCE "\n");
    return 1;
}

/* Which assumption to measure first. */
static void put_most(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    if (sweep->influence_rows_skipped > 0) {
        fprintf(out, "of %zu rows, what the assumptions do was not simulated: it takes too long\n",
                sweep->influence_rows_skipped);
    }
    if (sweep->influence_count == 0) return;
    const dl_influence *most = &sweep->influences[0];
    if (dl_influence_size(most) < MOVES_FRAC) return;
    const dl_variant *variant = &study->variants[sweep->rows[most->row].variant];
    if (most->kind == DL_INFLUENCE_OVERLAP) {
        fprintf(out, "find out first whether the program exchanges during its backward pass\n");
        return;
    }
    if (most->kind == DL_INFLUENCE_VALUE) { /* what it does is in its own note */
        fprintf(out, "measure first: [%s] %s, by %s\n", most->assumption->key->section,
                dl_assumption_name(most->assumption), most->assumption->measure);
        return;
    }
    put_effect(out, sweep, most);
    if (scaled(variant) != NULL) {
        fprintf(out, " since compute is scaled from %s to %s", scaled(variant)->from,
                scaled(variant)->to);
    } else {
        fprintf(out, " since compute is estimated for %s", variant->costs.workload);
    }
    fprintf(out, "; measure it first, by dlcal costs TRACE --batch N, of a trace of one of these "
                 "GPUs\n");
}

size_t dl_report_assumed(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    assumed_list list = list_of(study);
    const size_t count = list.count + put_overlap(out, study, sweep);
    for (size_t i = 0; i < list.count; i++)
        if (!is_of_no_matter(study, sweep, list.items[i])) put_one(out, sweep, list.items[i]);
    put_others(out, &list, study, sweep);
    if (sweep != NULL) put_most(out, study, sweep);
    put_bounded(out, study);
    free(list.items);
    return count;
}

/* --- for programs ---------------------------------------------------------------------------- */

void dl_report_assumed_head(dl_csv_writer *writer, const dl_study *study, const dl_sweep *sweep)
{
    assumed_list list = list_of(study);
    for (size_t i = 0; i < list.count; i++) {
        const dl_assumption *a = list.items[i];
        const dl_influence *influence = influence_of(sweep, a);
        char effect[96] = "";
        if (influence != NULL) {
            snprintf(effect, sizeof effect, " at_low_frac=%.4g at_high_frac=%.4g",
                     influence->at_low, influence->at_high);
        }
        dl_csv_comment(writer, "assumed: [%s] %s=%.6g low=%.6g high=%.6g%s; %s", a->key->section,
                       dl_assumption_name(a), a->value, a->low, a->high, effect, a->source);
    }
    free(list.items);
    const dl_influence *influence;
    if (assumes_overlap(study, sweep, &influence)) {
        char effect[48] = "";
        if (influence != NULL)
            snprintf(effect, sizeof effect, " at_low_frac=%.4g", influence->at_low);
        dl_csv_comment(writer, "assumed: [exchange] overlap=1 low=0 high=1%s; " OVERLAP_SOURCE,
                       effect);
    }
    bounded_list rest = bounded_of(study);
    for (size_t i = 0; i < rest.count; i++) {
        const bounded *b = &rest.items[i];
        dl_csv_comment(writer, "not determined: [%s] %s=%.6g low=%.6g high=%.6g", b->section,
                       b->key, b->value.value, b->value.low, b->value.high);
    }
    free_bounded(&rest);
}

void dl_report_assumed_json(dl_json *to, const dl_study *study, const dl_sweep *sweep)
{
    assumed_list list = list_of(study);
    dl_json_begin(to, "assumed", '[');
    for (size_t i = 0; i < list.count; i++) {
        const dl_assumption *a = list.items[i];
        const dl_influence *influence = influence_of(sweep, a);
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "section", a->key->section);
        dl_json_text_item(to, "key", dl_assumption_name(a));
        dl_json_number_item(to, "value", a->value);
        dl_json_number_item(to, "low", a->low);
        dl_json_number_item(to, "high", a->high);
        if (influence != NULL) {
            dl_json_number_item(to, "at_low_frac", influence->at_low);
            dl_json_number_item(to, "at_high_frac", influence->at_high);
        }
        dl_json_text_item(to, "source", a->source);
        dl_json_text_item(to, "measure", a->measure);
        dl_json_end(to, '}');
    }
    const dl_influence *influence;
    if (assumes_overlap(study, sweep, &influence)) {
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "section", "exchange");
        dl_json_text_item(to, "key", "overlap");
        dl_json_number_item(to, "value", 1);
        dl_json_number_item(to, "low", 0);
        dl_json_number_item(to, "high", 1);
        if (influence != NULL) dl_json_number_item(to, "at_low_frac", influence->at_low);
        dl_json_text_item(to, "source", OVERLAP_SOURCE);
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
