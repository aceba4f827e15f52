#include "sim/report/layout_advice.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/jobs.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/fits.h"
#include "sim/report/report.h"
#include "sim/scenario/command.h"
#include "sim/scenario/without.h"
#include "sim/workloads/architecture.h"

#define FINALS 20
#define AT_ONCE 16 /* runs before the best ones are looked at again */
#define STEPS 1    /* without noise, after a step of warm-up */
#define STEPS_OF_NOISE 20
#define DRAWS_LEAST 10
#define DRAWS_MOST 40
#define DRAWN_EVENTS 6e6 /* of all runs with draws */
#define VALUES_MAX 32

/* The keys that a layout sets, the first one apart. */
enum { LAYOUT, MICRO_BATCH, RECOMPUTE, SCHEDULE, CHUNKS, SHARDED, KEYS };
static const struct {
    const char *section, *key;
} keys[KEYS] = {
    [LAYOUT] = {"machine", "layout"},        [MICRO_BATCH] = {"pipeline", "micro_batch"},
    [RECOMPUTE] = {"workload", "recompute"}, [SCHEDULE] = {"pipeline", "schedule"},
    [CHUNKS] = {"pipeline", "chunks"},       [SHARDED] = {"exchange", "sharded"},
};

/* Values tried where the scenario gives none. gpipe has the bubble of 1f1b and keeps more. */
static const char *const tried[KEYS] = {
    [MICRO_BATCH] = "1, 2, 4, 8, 16, 32, 64", [RECOMPUTE] = "none, selective, full",
    [SCHEDULE] = "1f1b, interleaved",         [CHUNKS] = "2, 3, 4, 5, 6, 8",
    [SHARDED] = "none, optimizer, gradients",
};

/* Stages of neighbours, or shards of neighbours. */
static const dl_axis orders[2][DL_AXES] = {{DL_AXIS_TP, DL_AXIS_PP, DL_AXIS_FSDP},
                                           {DL_AXIS_TP, DL_AXIS_FSDP, DL_AXIS_PP}};

/* Layouts with the same costs and settings but for [pipeline]: read once. */
typedef struct family {
    dl_study study;
    dl_point *points;    /* [count] of its layouts, until the study has them */
    size_t count, first; /* the first is layout `first` */
    char *why;           /* it cannot be read; NULL: it can */
} family;

typedef struct layout {
    size_t family, at;  /* its point there */
    dl_point point;     /* its axes, workers, micro-batches */
    int order;          /* of orders */
    char *values[KEYS]; /* borrowed but for the first; NULL: the key means nothing here */
    dl_schedule schedule;
    dl_layout_fate fate;
    double least_s, step_s;
    dl_gpu_memory memory;
    int64_t events;
} layout;

typedef struct search {
    const dl_study *study;
    const dl_scenario *scenario;
    const dl_advice_config *config;
    dl_layout_advice *advice;
    char *text; /* of the scenario without what layouts set */
    char *values[KEYS][VALUES_MAX];
    size_t value_count[KEYS];
    family *families;
    size_t family_count;
    layout *layouts;
    size_t count;
    size_t *order; /* [order_count] of layouts that fit, by their least step */
    size_t order_count, next, ran;
    const size_t *jobs; /* those that are simulated now */
} search;

/* --- which layouts there are ------------------------------------------------------------------- */

/* The scenario's values of the key, else those tried. */
static dl_status list_values(search *s, const dl_ini *ini, int key, dl_error *err)
{
    dl_ini_entry entry = {.value = (char *)tried[key]};
    const dl_ini_entry *given = dl_ini_find(ini, keys[key].section, keys[key].key);
    char **items = NULL;
    size_t count = 0;
    const bool counts = given != NULL && !(key == RECOMPUTE && strcmp(given->value, "auto") == 0);
    dl_status status = dl_ini_split(ini, counts ? given : &entry, &items, &count, err);
    for (size_t i = 0; i < count && i < VALUES_MAX; i++)
        s->values[key][s->value_count[key]++] = dl_strdup(items[i]);
    dl_ini_free_list(items, count);
    return status;
}

/* tp and recomputation are those of a network that says nothing of them. */
static bool is_free(const char *model, const char *key)
{
    return model != NULL && dl_architecture_class(model) == DL_MODEL_TRANSFORMER &&
           strstr(model, key) == NULL;
}

static dl_status read_space(search *s, dl_error *err)
{
    static const char *const refused[][2] = {
        {"machine", "gpus"}, {"machine", "placement"}, {"pipeline", "split"}, {"pipeline", "gpus"}};
    static const char *const removed[][2] = {{"machine", "workers"},
                                             {"pipeline", "stages"},
                                             {"pipeline", "micro_batches"},
                                             {"sync", "accumulate"},
                                             {"measured", "file"}};
    dl_ini ini = {0};
    dl_status status =
        dl_ini_read_text(&ini, s->study->path, s->study->text, strlen(s->study->text), err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < DL_LENGTH(refused) && status == DL_OK; i++) {
        const dl_ini_entry *entry = dl_ini_find(&ini, refused[i][0], refused[i][1]);
        if (entry == NULL) continue;
        status = dl_ini_error(&ini, entry, DL_ERR_USAGE, err,
                              "--advise layout lays the model out on all GPUs itself");
    }
    for (int k = MICRO_BATCH; k < KEYS && status == DL_OK; k++)
        status = list_values(s, &ini, k, err);
    s->text = dl_strdup(s->study->text);
    for (size_t i = 0; i < DL_LENGTH(removed); i++)
        dl_ini_text_remove(&s->text, removed[i][0], removed[i][1]);
    for (int k = 0; k < KEYS; k++)
        dl_ini_text_remove(&s->text, keys[k].section, keys[k].key);
    if (!isnan(s->config->samples)) {
        char *samples = dl_format("%.0f", s->config->samples);
        dl_ini_text_set(&s->text, "target", "samples", samples);
        free(samples);
    }
    dl_ini_free(&ini);
    return status;
}

static dl_status check_study(const search *s, dl_error *err)
{
    const char *why = NULL;
    if (s->scenario->gpu == NULL) why = "a machine with GPUs (--machine)";
    if (s->scenario->batch_per_worker)
        why = "--batch, of all workers: --batch-per-worker would be another one for each layout";
    for (size_t k = 0; k < s->study->key_count; k++) {
        const dl_swept_key *key = &s->study->keys[k];
        bool searched = false;
        for (int i = 0; i < KEYS; i++)
            searched |=
                strcmp(key->section, keys[i].section) == 0 && strcmp(key->key, keys[i].key) == 0;
        if (!searched) why = "one value of each key but those that layouts set";
    }
    for (size_t p = 1; p < s->scenario->point_count; p++) {
        const dl_point *point = &s->scenario->points[p];
        if (point->batch != s->scenario->points[0].batch ||
            point->mode != s->scenario->points[0].mode)
            why = "one batch and one mode";
    }
    return why == NULL ? DL_OK : dl_error_set(err, DL_ERR_USAGE, "--advise layout needs %s", why);
}

/* "tp=2,pp=4,fsdp=8,dp=2" of those that are not 1. */
static char *layout_text(const dl_point *point, int order)
{
    static const char *const names[] = {
        [DL_AXIS_TP] = "tp", [DL_AXIS_PP] = "pp", [DL_AXIS_FSDP] = "fsdp"};
    const int sizes[] = {
        [DL_AXIS_TP] = point->tensor, [DL_AXIS_PP] = point->stages, [DL_AXIS_FSDP] = point->shards};
    char *text = NULL;
    for (int a = 0; a <= DL_AXES; a++) {
        const dl_axis axis = a < DL_AXES ? orders[order][a] : DL_AXES;
        const int size = a < DL_AXES ? sizes[axis] : point->workers;
        if (size == 1 && (a < DL_AXES || text != NULL)) continue;
        char *item = dl_format("%s=%d", a < DL_AXES ? names[axis] : "dp", size);
        dl_join(&text, ",", item);
        free(item);
    }
    return text;
}

/* The scenario of the layout alone. */
static char *text_of(const search *s, const layout *l)
{
    char *text = dl_strdup(s->text);
    for (int k = 0; k < KEYS; k++)
        if (l->values[k] != NULL)
            dl_ini_text_set(&text, keys[k].section, keys[k].key, l->values[k]);
    return text;
}

static bool same_family(const layout *a, const layout *b)
{
    const dl_point *p = &a->point, *q = &b->point;
    return p->tensor == q->tensor && (p->shards > 1) == (q->shards > 1) &&
           dl_point_is_split(p) == dl_point_is_split(q) &&
           a->values[RECOMPUTE] == b->values[RECOMPUTE] && a->values[SHARDED] == b->values[SHARDED];
}

static void add_layout(search *s, const layout *made)
{
    layout l = *made;
    size_t f = s->family_count; /* the last ones are the likeliest */
    while (f > 0 && !same_family(&s->layouts[s->families[f - 1].first], &l))
        f--;
    if (f == 0) {
        DL_APPEND(s->families, s->family_count, "families") = (family){.first = s->count};
        f = s->family_count;
    }
    family *of = &s->families[f - 1];
    l.family = f - 1;
    l.at = of->count;
    l.values[LAYOUT] = layout_text(&l.point, l.order);
    DL_APPEND(of->points, of->count, "points") = l.point;
    DL_APPEND(s->layouts, s->count, "layouts") = l;
}

/* With each way to divide among workers what the layout does not. */
static void add_sharded(search *s, layout *l)
{
    const bool can = l->point.workers > 1 && l->point.shards == 1 &&
                     dl_mode_reduces_gradients(s->scenario->points[0].mode);
    for (size_t i = 0; i < (can ? s->value_count[SHARDED] : 1); i++) {
        l->values[SHARDED] = can ? s->values[SHARDED][i] : NULL;
        add_layout(s, l);
    }
}

static void add_schedules(search *s, layout *l, int layers)
{
    const int stages = l->point.stages;
    l->point.chunks = 1;
    l->values[SCHEDULE] = l->values[CHUNKS] = NULL;
    if (stages == 1) {
        add_sharded(s, l);
        return;
    }
    for (size_t i = 0; i < s->value_count[SCHEDULE]; i++) {
        l->values[SCHEDULE] = s->values[SCHEDULE][i];
        l->schedule =
            (dl_schedule)dl_names_find(l->values[SCHEDULE], dl_schedule_names, DL_SCHEDULES);
        const bool interleaved = l->schedule == DL_SCHEDULE_INTERLEAVED;
        if (interleaved && l->point.micro_batches % stages != 0) continue;
        for (size_t c = 0; c < (interleaved ? s->value_count[CHUNKS] : 1); c++) {
            l->values[CHUNKS] = interleaved ? s->values[CHUNKS][c] : NULL;
            l->point.chunks = interleaved ? atoi(l->values[CHUNKS]) : 1;
            if (interleaved && l->point.chunks < 2) continue;
            if (stages * l->point.chunks <= layers) add_sharded(s, l);
        }
    }
}

static void add_micro_batches(search *s, layout *l, int layers)
{
    const int64_t ranks = (int64_t)l->point.workers * l->point.shards;
    const int64_t samples = l->point.batch / ranks;
    if (l->point.batch % ranks != 0) return;
    for (size_t m = 0; m < s->value_count[MICRO_BATCH]; m++) {
        const int64_t each = atoll(s->values[MICRO_BATCH][m]);
        if (each < 1 || samples % each != 0 || samples / each > DL_MICRO_BATCHES_MAX) continue;
        l->values[MICRO_BATCH] = s->values[MICRO_BATCH][m];
        l->point.micro_batches = (int)(samples / each);
        add_schedules(s, l, layers);
    }
}

/* All divisors of the GPUs along all axes, with all settings. */
static void list_layouts(search *s)
{
    const dl_scenario *scenario = s->scenario;
    const int gpus = dl_gpu_options_count(scenario->gpu);
    const int node = dl_machine_gpus_before(&scenario->gpu->machine, 1);
    const bool divides = is_free(scenario->model, "tp="),
               recomputes = is_free(scenario->model, "recompute=");
    dl_model_layers model;
    dl_model_layers_init(&model, &s->study->variants[0].costs);
    const int layers = model.count;
    dl_model_layers_free(&model);
    for (int tp = 1; tp <= (divides ? node : 1); tp++) {
        if (gpus % tp != 0 || node % tp != 0) continue;
        for (size_t r = 0; r < (recomputes ? s->value_count[RECOMPUTE] : 1); r++) {
            for (int pp = 1; pp <= layers && pp <= DL_STAGES_MAX; pp++) {
                for (int fsdp = 1; gpus / tp % pp == 0 && fsdp <= gpus / tp / pp; fsdp++) {
                    if (gpus / tp / pp % fsdp != 0) continue;
                    layout l = {.point = {.tensor = tp,
                                          .stages = pp,
                                          .shards = fsdp,
                                          .workers = gpus / tp / pp / fsdp,
                                          .batch = scenario->points[0].batch}};
                    l.values[RECOMPUTE] = recomputes ? s->values[RECOMPUTE][r] : NULL;
                    for (l.order = 0; l.order < (pp > 1 && fsdp > 1 ? 2 : 1); l.order++)
                        add_micro_batches(s, &l, layers);
                }
            }
        }
    }
}

/* --- the first look ---------------------------------------------------------------------------- */

/* Reads the costs of the family's layouts once, with a point for each. */
static dl_status read_family(search *s, family *f, dl_error *err)
{
    char *text = text_of(s, &s->layouts[f->first]);
    dl_status status = dl_study_read_text(&f->study, s->study->path, text, strlen(text), err);
    free(text);
    if (status != DL_OK) return status;
    dl_scenario *scenario = &f->study.variants[0].scenario;
    for (size_t i = 0; i < f->count; i++) {
        dl_point point = scenario->points[0];
        const dl_point *own = &f->points[i];
        point.workers = own->workers;
        point.stages = own->stages;
        point.shards = own->shards;
        point.tensor = own->tensor;
        point.chunks = own->chunks;
        point.micro_batches = own->micro_batches;
        point.option[DL_SYNC_ACCUMULATE] = own->stages > 1 ? 1 : own->micro_batches;
        f->points[i] = point;
    }
    free(scenario->points);
    scenario->points = f->points;
    scenario->point_count = f->count;
    f->points = NULL;
    status = dl_study_read_costs(&f->study, err);
    if (status != DL_OK) return status;
    dl_variant *variant = &f->study.variants[0];
    dl_without_apply(s->scenario->without, &variant->scenario, &variant->costs);
    scenario->noise = DL_NOISE_NONE;
    scenario->steps = STEPS;
    scenario->warmup = 1;
    return DL_OK;
}

static dl_status read_families_job(void *user, int64_t job, dl_error *err)
{
    (void)err;
    search *s = user;
    family *f = &s->families[job];
    dl_error why = {0};
    if (read_family(s, f, &why) != DL_OK) f->why = dl_strdup(why.text);
    return DL_OK;
}

/* The scenario of one layout borrows all but [pipeline] from its family. */
typedef struct own_scenario {
    dl_scenario scenario;
    dl_scenario_pipeline pipeline;
    dl_point point;
} own_scenario;

static const dl_costs *set_up(const search *s, const layout *l, own_scenario *own)
{
    const dl_variant *variant = &s->families[l->family].study.variants[0];
    own->scenario = variant->scenario;
    own->pipeline = *variant->scenario.pipeline;
    own->point = variant->scenario.points[l->at];
    own->pipeline.schedule = l->schedule;
    own->pipeline.stages = own->point.stages;
    own->pipeline.shards = own->point.shards;
    own->pipeline.tensor = own->point.tensor;
    own->pipeline.chunks = own->point.chunks;
    own->pipeline.micro_batches = own->point.micro_batches;
    own->pipeline.micro_batch = atoi(l->values[MICRO_BATCH]);
    memcpy(own->pipeline.axes, orders[l->order], sizeof own->pipeline.axes);
    own->point.axes = orders[l->order];
    own->scenario.pipeline = &own->pipeline;
    return &variant->costs;
}

static dl_status look_job(void *user, int64_t job, dl_error *err)
{
    (void)err;
    search *s = user;
    layout *l = &s->layouts[job];
    own_scenario own;
    if (s->families[l->family].why != NULL) {
        l->fate = DL_LAYOUT_REFUSED;
        return DL_OK;
    }
    const dl_costs *costs = set_up(s, l, &own);
    l->memory = dl_run_memory(&own.scenario, costs, &own.point);
    if (l->memory.needs_bytes * (1 + DL_CACHE_FRAC) > l->memory.has_bytes) {
        l->fate = DL_LAYOUT_UNFIT;
    } else {
        l->least_s = dl_ns_to_s(dl_run_least_ns(&own.scenario, costs, &own.point));
    }
    return DL_OK;
}

static dl_status run_job(void *user, int64_t job, dl_error *err)
{
    (void)err;
    const search *s = user;
    layout *l = &s->layouts[s->jobs[job]];
    own_scenario own;
    const dl_costs *costs = set_up(s, l, &own);
    const dl_run_config config = {
        .scenario = &own.scenario, .costs = costs, .point = &own.point, .by_spread = true};
    dl_run_result result = {0};
    if (dl_run(&config, &result, NULL) != DL_OK) {
        l->fate = DL_LAYOUT_REFUSED;
        return DL_OK;
    }
    l->fate = DL_LAYOUT_RAN;
    l->step_s = (double)own.point.batch / result.throughput_per_s;
    l->events = result.events;
    dl_run_result_free(&result);
    return DL_OK;
}

static dl_status do_jobs(search *s, int64_t count, dl_status (*run)(void *, int64_t, dl_error *),
                         dl_error *err)
{
    return dl_jobs_run(
        &(dl_jobs){.count = count, .threads = s->config->threads, .user = s, .run = run}, err);
}

typedef struct ordered {
    double value;
    size_t layout;
} ordered;

DL_ORDER(by_value, ordered, DL_COMPARE(a->value, b->value), DL_BY(layout));

/* Layouts of this fate in the order of their least or simulated steps; [*count], the caller's to free. */
static size_t *in_order(const search *s, dl_layout_fate fate, size_t *count)
{
    ordered *all = dl_calloc(s->count, sizeof *all, "layouts");
    *count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const layout *l = &s->layouts[i];
        if (l->fate == fate)
            all[(*count)++] = (ordered){fate == DL_LAYOUT_RAN ? l->step_s : l->least_s, i};
    }
    qsort(all, *count, sizeof *all, by_value);
    size_t *order = dl_calloc(*count, sizeof *order, "layouts");
    for (size_t i = 0; i < *count; i++)
        order[i] = all[i].layout;
    free(all);
    return order;
}

static dl_status simulate(search *s, const size_t *layouts, size_t count, dl_error *err)
{
    const dl_advice_config *config = s->config;
    s->jobs = layouts;
    s->ran += count;
    const dl_status status = do_jobs(s, (int64_t)count, run_job, err);
    if (config->progress != NULL)
        config->progress(config->user, (int64_t)s->ran, config->max_points);
    return status;
}

/* The step of the last of the best ones so far; INFINITY: they are too few. */
static double worst_of_best(const search *s)
{
    size_t count = 0;
    size_t *ran = in_order(s, DL_LAYOUT_RAN, &count);
    const double step_s = count >= FINALS ? s->layouts[ran[FINALS - 1]].step_s : INFINITY;
    free(ran);
    return step_s;
}

/* --- usual layouts ----------------------------------------------------------------------------- */

static bool divides_optimizer(const layout *l)
{
    return l->values[SHARDED] == NULL || strcmp(l->values[SHARDED], "optimizer") == 0;
}

/* GPUs that divide layers and stages of Megatron's layout: as few as fit, stages only between nodes. */
static void find_megatron(const search *s, int *tensor, int *stages)
{
    const int node = dl_machine_gpus_before(&s->scenario->gpu->machine, 1);
    *tensor = *stages = INT_MAX;
    for (size_t i = 0; i < s->count; i++) {
        const layout *l = &s->layouts[i];
        const dl_point *p = &l->point;
        const bool fits = l->fate == DL_LAYOUT_WAITS || l->fate == DL_LAYOUT_RAN;
        if (!fits || p->shards > 1 || !divides_optimizer(l)) continue;
        if (p->stages > 1 && p->tensor < node) continue;
        if (p->stages > *stages || (p->stages == *stages && p->tensor >= *tensor)) continue;
        *tensor = p->tensor;
        *stages = p->stages;
    }
}

static bool is_usual(const search *s, const layout *l, dl_layout_usual usual, int tensor,
                     int stages)
{
    const dl_point *p = &l->point;
    if (usual == DL_LAYOUT_FSDP)
        return p->tensor == 1 && p->stages == 1 && p->workers == 1 &&
               p->shards == dl_gpu_options_count(s->scenario->gpu);
    return p->shards == 1 && p->tensor == tensor && p->stages == stages && divides_optimizer(l);
}

/* The best of those that ran; count: none. */
static size_t best_usual(const search *s, dl_layout_usual usual)
{
    int tensor, stages;
    size_t best = s->count;
    find_megatron(s, &tensor, &stages);
    for (size_t i = 0; i < s->count; i++) {
        const layout *l = &s->layouts[i];
        if (l->fate != DL_LAYOUT_RAN || !is_usual(s, l, usual, tensor, stages)) continue;
        if (best == s->count || l->step_s < s->layouts[best].step_s) best = i;
    }
    return best;
}

/* The usual ones, then the others, as long as one may be among the best. */
static dl_status search_layouts(search *s, dl_error *err)
{
    int tensor, stages;
    size_t *usual = NULL, usual_count = 0;
    find_megatron(s, &tensor, &stages);
    for (size_t i = 0; i < s->order_count; i++)
        for (int u = 0; u < DL_LAYOUT_USUALS; u++)
            if (is_usual(s, &s->layouts[s->order[i]], (dl_layout_usual)u, tensor, stages)) {
                DL_APPEND(usual, usual_count, "layouts") = s->order[i];
                break;
            }
    if (s->config->progress != NULL) s->config->progress(s->config->user, 0, s->config->max_points);
    dl_status status = simulate(s, usual, usual_count, err);
    free(usual);
    while (status == DL_OK && s->next < s->order_count) {
        size_t some[AT_ONCE], count = 0;
        const double worst_s = worst_of_best(s);
        for (; s->next < s->order_count && count < AT_ONCE; s->next++) {
            const layout *l = &s->layouts[s->order[s->next]];
            if (l->least_s >= worst_s) break;
            if (l->fate == DL_LAYOUT_WAITS) some[count++] = s->order[s->next];
        }
        if (count == 0) break;
        s->advice->stopped = s->ran + count > (size_t)s->config->max_points;
        if (s->advice->stopped) break;
        status = simulate(s, some, count, err);
    }
    return status;
}

/* --- with draws -------------------------------------------------------------------------------- */

/* Options that make the layout of the scenario. */
static char *options_of(const layout *l)
{
    char *text = NULL;
    for (int k = 0; k < KEYS; k++) {
        const char *option = dl_scenario_option_of(keys[k].section, keys[k].key);
        if (l->values[k] == NULL) continue;
        char *item = option != NULL
                         ? dl_format("--%s %s", option, l->values[k])
                         : dl_format("--set %s.%s=%s", keys[k].section, keys[k].key, l->values[k]);
        dl_join(&text, " ", item);
        free(item);
    }
    return text;
}

static size_t value_number(dl_swept_key *key, const char *value)
{
    for (size_t i = 0; i < key->count; i++)
        if (strcmp(key->values[i], value) == 0) return i;
    key->texts = dl_realloc(key->texts, key->count + 1, sizeof *key->texts, "values");
    key->cells = dl_realloc(key->cells, key->count + 1, sizeof *key->cells, "values");
    key->texts[key->count] = dl_strdup(value);
    key->cells[key->count] = dl_strdup(value);
    DL_APPEND(key->values, key->count, "values") = dl_strdup(value);
    return key->count - 1;
}

/* The layout as a variant of the study of all of them. */
static dl_status add_variant(search *s, const layout *l, dl_error *err)
{
    dl_study *all = &s->advice->study, one = {0};
    char *text = text_of(s, l);
    dl_status status = dl_study_read_text(&one, s->study->path, text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(&one, err);
    if (status == DL_OK) {
        dl_variant *variant = &one.variants[0];
        dl_without_apply(s->scenario->without, &variant->scenario, &variant->costs);
        variant->scenario.seed = s->scenario->seed;
        free(variant->at);
        variant->at = dl_calloc(KEYS, sizeof *variant->at, "values");
        for (int k = 0; k < KEYS; k++)
            variant->at[k] =
                l->values[k] != NULL ? value_number(&all->keys[k], l->values[k]) : SIZE_MAX;
        DL_APPEND(all->variants, all->variant_count, "layouts") = *variant;
        all->point_count++;
        one.variant_count = 0;
    }
    if (all->text == NULL) {
        all->text = text;
        text = NULL;
    }
    free(text);
    dl_study_free(&one);
    return status;
}

/* Steps and draws of each: as many as their runs so far make affordable. */
static void plan(search *s, double events)
{
    dl_study *all = &s->advice->study;
    for (size_t v = 0; v < all->variant_count; v++) {
        dl_variant *variant = &all->variants[v];
        dl_scenario *scenario = &variant->scenario;
        const bool noise = dl_run_varies(scenario, &variant->costs);
        const int64_t most = noise ? STEPS_OF_NOISE : STEPS;
        s->advice->varies |=
            noise || dl_costs_have_errors(&variant->costs) || dl_variant_compute_log(variant) > 0;
        if (scenario->steps > most) scenario->steps = most;
        if (scenario->warmup < 1) scenario->warmup = 1;
    }
    const double draws = fmax(DRAWS_LEAST, fmin(DRAWS_MOST, DRAWN_EVENTS / events));
    for (size_t v = 0; v < all->variant_count; v++)
        all->variants[v].scenario.replicates = s->advice->varies ? (int64_t)draws : 1;
}

/* Rows in the order of their throughput, each of the variant of its number. */
static void sort_rows(dl_layout_advice *advice)
{
    dl_study *study = &advice->study;
    for (size_t i = 1; i < advice->sweep.row_count; i++)
        for (size_t j = i; j > 0; j--) {
            dl_row *rows = &advice->sweep.rows[j - 1];
            if (!(rows[1].mean.throughput_per_s > rows[0].mean.throughput_per_s)) break;
            const dl_row row = rows[0];
            rows[0] = rows[1];
            rows[1] = row;
            rows[0].variant = j - 1;
            rows[1].variant = j;
            const dl_variant variant = study->variants[j - 1];
            study->variants[j - 1] = study->variants[j];
            study->variants[j] = variant;
            char *options = advice->options[j - 1];
            advice->options[j - 1] = advice->options[j];
            advice->options[j] = options;
        }
}

static dl_status draw(search *s, dl_error *err)
{
    dl_layout_advice *advice = s->advice;
    size_t ran_count = 0, chosen[FINALS + DL_LAYOUT_USUALS], count = 0;
    size_t *ran = in_order(s, DL_LAYOUT_RAN, &ran_count);
    double events = 0;
    for (; count < ran_count && count < FINALS; count++)
        chosen[count] = ran[count];
    free(ran);
    for (int u = 0; u < DL_LAYOUT_USUALS; u++) {
        const size_t best = best_usual(s, (dl_layout_usual)u);
        bool known = best == s->count;
        for (size_t i = 0; i < count; i++)
            known |= chosen[i] == best;
        if (!known) chosen[count++] = best;
    }
    advice->study.path = dl_strdup(s->study->path);
    advice->study.keys = dl_calloc(KEYS, sizeof *advice->study.keys, "keys");
    advice->study.key_count = KEYS;
    for (int k = 0; k < KEYS; k++)
        advice->study.keys[k] = (dl_swept_key){.section = dl_strdup(keys[k].section),
                                               .key = dl_strdup(keys[k].key),
                                               .column = dl_strdup(keys[k].key),
                                               .option = -1};
    advice->options = dl_calloc(count, sizeof *advice->options, "options");
    dl_status status = DL_OK;
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        const layout *l = &s->layouts[chosen[i]];
        events += (double)l->events;
        status = add_variant(s, l, err);
        advice->options[i] = options_of(l);
    }
    if (status != DL_OK) return status;
    plan(s, events);
    const dl_sweep_config config = {.threads = s->config->threads,
                                    .pace = s->config->pace,
                                    .progress = s->config->progress,
                                    .user = s->config->user,
                                    .no_influences = true,
                                    .no_baselines = true};
    status = dl_sweep_run(&advice->sweep, &advice->study, &config, err);
    if (status != DL_OK) return status;
    sort_rows(advice);
    for (int u = 0; u < DL_LAYOUT_USUALS; u++) {
        const size_t best = best_usual(s, (dl_layout_usual)u);
        char *options = best < s->count ? options_of(&s->layouts[best]) : NULL;
        size_t row = 0;
        while (row < count && (options == NULL || strcmp(advice->options[row], options) != 0))
            row++;
        advice->usual[u] = row;
        free(options);
    }
    return DL_OK;
}

/* --- the whole --------------------------------------------------------------------------------- */

/* The layout that is nearest to fitting, and what would make it fit. */
static dl_status refuse_unfit(const search *s, dl_error *err)
{
    const layout *nearest = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const layout *l = &s->layouts[i];
        if (l->fate != DL_LAYOUT_UNFIT) continue;
        if (nearest == NULL || l->memory.needs_bytes < nearest->memory.needs_bytes) nearest = l;
    }
    if (nearest == NULL)
        return dl_error_set(err, DL_ERR_DATA, "--advise layout: no layout of %d GPUs: %s",
                            dl_gpu_options_count(s->scenario->gpu),
                            s->advice->refused != NULL ? s->advice->refused
                                                       : "they cannot share the batch evenly");
    own_scenario own;
    const dl_costs *costs = set_up(s, nearest, &own);
    char *options = options_of(nearest), *fits = NULL;
    if (dl_memory_fits(&nearest->memory)) {
        fits =
            dl_strdup("too little is left for the allocator's cache: larger GPUs, or more of them");
    } else {
        fits = dl_fits_text(&own.scenario, costs, &own.point, &nearest->memory);
    }
    const dl_status status = dl_error_set(
        err, DL_ERR_UNFIT,
        "--advise layout: none of %zu fits; the nearest (%s) needs %s of %s and %.0f %% more: %s",
        s->count, options, DL_BYTES_TEXT(nearest->memory.needs_bytes),
        DL_BYTES_TEXT(nearest->memory.has_bytes), 100 * DL_CACHE_FRAC, fits);
    free(options);
    free(fits);
    return status;
}

static void free_search(search *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->layouts[i].values[LAYOUT]);
    for (size_t f = 0; f < s->family_count; f++) {
        dl_study_free(&s->families[f].study);
        free(s->families[f].points);
        free(s->families[f].why);
    }
    for (int k = 0; k < KEYS; k++)
        for (size_t i = 0; i < s->value_count[k]; i++)
            free(s->values[k][i]);
    free(s->families);
    free(s->layouts);
    free(s->order);
    free(s->text);
}

dl_status dl_layouts_advise(dl_layout_advice *advice, const dl_study *study,
                            const dl_advice_config *config, dl_error *err)
{
    search s = {.study = study,
                .scenario = &study->variants[0].scenario,
                .config = config,
                .advice = advice};
    dl_status status = check_study(&s, err);
    if (status == DL_OK) status = read_space(&s, err);
    if (status == DL_OK) {
        list_layouts(&s);
        status = do_jobs(&s, (int64_t)s.family_count, read_families_job, err);
    }
    for (size_t f = 0; f < s.family_count && advice->refused == NULL; f++)
        if (s.families[f].why != NULL) advice->refused = dl_strdup(s.families[f].why);
    if (status == DL_OK) status = do_jobs(&s, (int64_t)s.count, look_job, err);
    if (status == DL_OK) {
        s.order = in_order(&s, DL_LAYOUT_WAITS, &s.order_count);
        status = s.order_count > 0 ? search_layouts(&s, err) : refuse_unfit(&s, err);
    }
    if (status == DL_OK) status = draw(&s, err);
    advice->count = s.count;
    for (size_t i = 0; i < s.count; i++)
        advice->counts[s.layouts[i].fate]++;
    free_search(&s);
    return status;
}

void dl_layout_advice_free(dl_layout_advice *advice)
{
    for (size_t i = 0; i < advice->study.variant_count; i++)
        free(advice->options[i]);
    free(advice->options);
    dl_sweep_free(&advice->sweep);
    dl_study_free(&advice->study);
    free(advice->refused);
    *advice = (dl_layout_advice){0};
}

/* --- in words ---------------------------------------------------------------------------------- */

static dl_advice_pair pair_of(const dl_layout_advice *advice, size_t other)
{
    const dl_row *rows = advice->sweep.rows;
    return dl_advice_pair_of(rows[0].rates, rows[other].rates, rows[0].rate_count,
                             rows[0].mean.throughput_per_s / rows[other].mean.throughput_per_s);
}

static void print_searched(FILE *out, const dl_layout_advice *advice)
{
    const size_t *counts = advice->counts;
    char *text =
        dl_format("Of %zu layouts with micro-batch, recomputation, schedule and sharding %zu need "
                  "more memory "
                  "than there is but %.0f %% for the allocator's cache, %zu were simulated, %zu "
                  "were not: %s%s%s%s",
                  advice->count, counts[DL_LAYOUT_UNFIT], 100 * DL_CACHE_FRAC,
                  counts[DL_LAYOUT_RAN], counts[DL_LAYOUT_WAITS],
                  advice->stopped
                      ? "--max-points ended the search, a better one may be left."
                      : "their passes, bubble or launches alone take longer than the steps shown.",
                  counts[DL_LAYOUT_REFUSED] > 0 ? " Not possible: " : "",
                  counts[DL_LAYOUT_REFUSED] > 0 && advice->refused != NULL ? advice->refused : "",
                  counts[DL_LAYOUT_REFUSED] > 0 ? "." : "");
    dl_wrap(out, text, 0, 2, dl_wrap_columns(out));
    free(text);
}

/* "compute 9.51 s, communication 410 ms" of a step. */
static char *parts_of(const dl_row *row)
{
    char *text = NULL;
    for (int p = 0; p < DL_PART_COUNT; p++) {
        if (row->mean.part_frac[p] < 0.005) continue;
        char *part =
            dl_format("%s %s", dl_part_names[p],
                      DL_NS_TEXT(dl_s_to_ns(row->mean.part_frac[p] * row->mean.step_mean_s)));
        dl_join(&text, ", ", part);
        free(part);
    }
    return text;
}

static void print_usual(FILE *out, const dl_layout_advice *advice, dl_layout_usual usual)
{
    static const char *const names[] = {
        [DL_LAYOUT_FSDP] = "All GPUs sharing all parameters",
        [DL_LAYOUT_MEGATRON] =
            "Megatron's rule (tp within a node as far as memory needs it, then pp)"};
    const size_t row = advice->usual[usual];
    const dl_row *rows = advice->sweep.rows;
    char *text = NULL;
    if (row >= advice->sweep.row_count) {
        text = dl_format("%s: none fits.", names[usual]);
    } else if (row == 0) {
        text = dl_format("%s: that is the one advised.", names[usual]);
    } else {
        const dl_advice_pair pair = pair_of(advice, row);
        char *own = parts_of(&rows[row]), *best = parts_of(&rows[0]);
        text =
            dl_format("%s, at best %s: the advised one is %.3g times as fast, ahead in %zu of %zu "
                      "draws%s. A step has %s; the advised one's %s.",
                      names[usual], advice->options[row], pair.ratio, pair.wins, pair.draws,
                      pair.differ ? "" : ": cannot be told apart", own, best);
        free(own);
        free(best);
    }
    dl_wrap(out, text, 0, 2, dl_wrap_columns(out));
    free(text);
}

static void print_rivals(FILE *out, const dl_layout_advice *advice)
{
    char *list = NULL;
    for (size_t i = 1; i < advice->sweep.row_count; i++) {
        const dl_advice_pair pair = pair_of(advice, i);
        if (pair.differ) continue;
        char *item = dl_format("row %zu (ahead in %zu of %zu draws)", i + 1, pair.wins, pair.draws);
        dl_join(&list, ", ", item);
        free(item);
    }
    char *text = !advice->varies ? dl_strdup("Nothing varies: small differences mean nothing.")
                 : list == NULL  ? dl_strdup("All others are slower in 97.5 % of the draws.")
                                 : dl_format("Cannot be told apart from the first: %s.", list);
    dl_wrap(out, text, 0, 2, dl_wrap_columns(out));
    free(text);
    free(list);
}

void dl_layout_advice_print(FILE *out, const dl_layout_advice *advice)
{
    char *options = dl_format("Advised: %s", advice->options[0]);
    dl_wrap(out, options, 0, 2, dl_wrap_columns(out));
    free(options);
    print_searched(out, advice);
    print_rivals(out, advice);
    for (int u = 0; u < DL_LAYOUT_USUALS; u++)
        print_usual(out, advice, (dl_layout_usual)u);
}
