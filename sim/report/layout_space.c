#include "sim/report/layout_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/names.h"
#include "sim/fits.h"
#include "sim/scenario/command.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/without.h"

const dl_layout_key dl_layout_keys[DL_LAYOUT_KEYS] = {
    [DL_KEY_LAYOUT] = {"machine", "layout"},
    [DL_KEY_MICRO_BATCH] = {"pipeline", "micro_batch"},
    [DL_KEY_RECOMPUTE] = {"workload", "recompute"},
    [DL_KEY_SCHEDULE] = {"pipeline", "schedule"},
    [DL_KEY_CHUNKS] = {"pipeline", "chunks"},
    [DL_KEY_SHARDED] = {"exchange", "sharded"},
};

/* Values tried if the scenario gives none. gpipe is omitted: it has the same bubble as 1f1b and
 * stores more. */
static const char *const tried[DL_LAYOUT_KEYS] = {
    [DL_KEY_MICRO_BATCH] = "1, 2, 4, 8, 16, 32, 64",
    [DL_KEY_RECOMPUTE] = "none, selective, products, full",
    [DL_KEY_SCHEDULE] = "1f1b, interleaved",
    [DL_KEY_CHUNKS] = "2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16",
    [DL_KEY_SHARDED] = "none, optimizer, gradients",
};

/* Axis orders, indexed by dl_layout.order: from the axis of neighbouring GPUs outwards. */
static const dl_axis orders[2][DL_AXES] = {
    {DL_AXIS_TP, DL_AXIS_CP, DL_AXIS_EP, DL_AXIS_PP, DL_AXIS_FSDP},
    {DL_AXIS_TP, DL_AXIS_CP, DL_AXIS_EP, DL_AXIS_FSDP, DL_AXIS_PP}};

/* --- the layouts ------------------------------------------------------------------------------ */

/* Whether this recomputation is worth trying: none, or a kind that stores fewer activations. */
static bool is_worth(const dl_layout_space *s, const char *recompute)
{
    const int way = dl_names_find(recompute, dl_recompute_names, DL_RECOMPUTE_PRODUCTS + 1);
    return way == DL_RECOMPUTE_NONE || dl_recompute_saves(s->scenario, way);
}

/* Lists the scenario's values of the key, or the default values. */
static dl_status list_values(dl_layout_space *s, const dl_ini *ini, int key, dl_error *err)
{
    dl_ini_entry entry = {.value = (char *)tried[key]};
    const dl_ini_entry *given =
        dl_ini_find(ini, dl_layout_keys[key].section, dl_layout_keys[key].key);
    char **items = NULL;
    size_t count = 0;
    const bool counts =
        given != NULL && !(key == DL_KEY_RECOMPUTE && strcmp(given->value, "auto") == 0);
    s->is_given[key] = counts;
    dl_status status = dl_ini_split(ini, counts ? given : &entry, &items, &count, err);
    for (size_t i = 0; i < count && i < DL_LAYOUT_VALUES_MAX; i++)
        if (counts || key != DL_KEY_RECOMPUTE || is_worth(s, items[i]))
            s->values[key][s->value_count[key]++] = dl_strdup(items[i]);
    dl_ini_free_list(items, count);
    return status;
}

/* Whether layouts may set this key of the network ("tp="): it is a transformer whose description
 * does not set the key. */
static bool is_free(const char *model, const char *key)
{
    return model != NULL && dl_architecture_class(model) == DL_MODEL_TRANSFORMER &&
           strstr(model, key) == NULL;
}

static dl_status read_space(dl_layout_space *s, double samples, dl_error *err)
{
    static const char *const refused[][2] = {
        {"machine", "gpus"}, {"machine", "placement"}, {"pipeline", "split"}, {"pipeline", "gpus"}};
    static const char *const removed[][2] = {{"machine", "workers"},
                                             {"pipeline", "stages"},
                                             {"pipeline", "micro_batches"},
                                             {"sync", "accumulate"},
                                             {"measured", "file"}};
    DL_SCOPED(dl_ini) ini = {0};
    s->text = dl_strdup(s->study->text);
    dl_status status = dl_scenario_plain_mode(&s->text, err);
    if (status == DL_OK)
        status = dl_ini_read_text(&ini, s->study->path, s->text, strlen(s->text), err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < DL_LENGTH(refused) && status == DL_OK; i++) {
        const dl_ini_entry *entry = dl_ini_find(&ini, refused[i][0], refused[i][1]);
        if (entry == NULL) continue;
        status = dl_ini_error(&ini, entry, DL_ERR_USAGE, err,
                              "--advise layout chooses a layout of all GPUs by itself");
    }
    for (int k = DL_KEY_MICRO_BATCH; k < DL_LAYOUT_KEYS && status == DL_OK; k++)
        status = list_values(s, &ini, k, err);
    const dl_ini_entry *layout = dl_ini_find(&ini, "machine", "layout");
    if (layout != NULL && strcmp(layout->value, DL_LAYOUT_ALONE) != 0)
        s->given = dl_strdup(layout->value);
    for (size_t i = 0; i < DL_LENGTH(removed); i++)
        dl_ini_text_remove(&s->text, removed[i][0], removed[i][1]);
    for (int k = 0; k < DL_LAYOUT_KEYS; k++)
        dl_ini_text_remove(&s->text, dl_layout_keys[k].section, dl_layout_keys[k].key);
    if (!isnan(samples)) {
        DL_AUTOFREE char *text = dl_format("%.0f", samples);
        dl_ini_text_set(&s->text, "target", "samples", text);
    }
    return status;
}

static dl_status check_study(const dl_layout_space *s, dl_error *err)
{
    const char *why = NULL;
    char list[200];
    if (s->scenario->gpu == NULL) why = "a machine with GPUs (--machine)";
    if (s->scenario->batch_per_worker)
        why = "give --batch, of all workers: --batch-per-worker would mean a different one for "
              "each layout";
    for (size_t k = 0; k < s->study->key_count; k++) {
        const dl_swept_key *key = &s->study->keys[k];
        bool searched = false;
        for (int i = 0; i < DL_LAYOUT_KEYS; i++)
            searched |= strcmp(key->section, dl_layout_keys[i].section) == 0 &&
                        strcmp(key->key, dl_layout_keys[i].key) == 0;
        if (searched) continue;
        snprintf(list, sizeof list, "one value of %s.%s, which has a list: run it once for each",
                 key->section, key->key);
        why = list;
    }
    for (size_t p = 1; p < s->scenario->point_count; p++) {
        const dl_point *point = &s->scenario->points[p];
        if (point->batch != s->scenario->points[0].batch ||
            point->mode != s->scenario->points[0].mode)
            why = "one batch and one mode";
    }
    return why == NULL ? DL_OK : dl_error_set(err, DL_ERR_USAGE, "--advise layout needs %s", why);
}

/* Returns the axes larger than 1, "tp=2,pp=4,fsdp=8,dp=2", or "dp=1" if there are none; the caller
 * frees it. */
static char *layout_text(const dl_point *point, int order)
{
    char *text = dl_axes_text(point->size, orders[order]);
    DL_AUTOFREE char *workers = dl_format("dp=%d", point->workers);
    if (point->workers > 1 || text == NULL) dl_join(&text, ",", workers);
    return text;
}

char *dl_layout_text(const dl_layout_space *s, const dl_layout *l)
{
    char *text = dl_strdup(s->text);
    for (int k = 0; k < DL_LAYOUT_KEYS; k++)
        if (l->values[k] != NULL)
            dl_ini_text_set(&text, dl_layout_keys[k].section, dl_layout_keys[k].key, l->values[k]);
    return text;
}

static bool same_family(const dl_layout *a, const dl_layout *b)
{
    const dl_point *p = &a->point, *q = &b->point;
    return p->tensor == q->tensor && p->context == q->context && p->experts == q->experts &&
           (p->shards > 1) == (q->shards > 1) && dl_point_is_split(p) == dl_point_is_split(q) &&
           a->values[DL_KEY_RECOMPUTE] == b->values[DL_KEY_RECOMPUTE] &&
           a->values[DL_KEY_SHARDED] == b->values[DL_KEY_SHARDED];
}

static void add_layout(dl_layout_space *s, const dl_layout *made)
{
    dl_layout l = *made;
    size_t f = s->family_count; /* the last families are the most likely to match */
    while (f > 0 && !same_family(&s->layouts[s->families[f - 1].first], &l))
        f--;
    if (f == 0) {
        DL_APPEND(s->families, s->family_count, "families") = (dl_layout_family){.first = s->count};
        f = s->family_count;
    }
    dl_layout_family *of = &s->families[f - 1];
    l.family = f - 1;
    l.at = of->count;
    l.values[DL_KEY_LAYOUT] = layout_text(&l.point, l.order);
    DL_APPEND(of->points, of->count, "points") = l.point;
    DL_APPEND(s->layouts, s->count, "layouts") = l;
}

/* Adds the layout once for each value of `sharded`, the state that workers, or GPUs with different
 * experts, shard, but without sharded gradients where each of several micro-batches would have to
 * be exchanged; adds it once without a value if they cannot shard anything. */
static void add_sharded(dl_layout_space *s, dl_layout *l)
{
    const bool can = l->point.workers * l->point.experts > 1 && l->point.shards == 1 &&
                     dl_mode_reduces_gradients(s->scenario->points[0].mode);
    const bool sums = dl_point_is_split(&l->point) && l->point.micro_batches > 1;
    for (size_t i = 0; i < (can ? s->value_count[DL_KEY_SHARDED] : 1); i++) {
        if (can && sums && strcmp(s->values[DL_KEY_SHARDED][i], "gradients") == 0) continue;
        l->values[DL_KEY_SHARDED] = can ? s->values[DL_KEY_SHARDED][i] : NULL;
        add_layout(s, l);
    }
}

/* Whether Megatron-LM can divide the network's blocks into so many equal pieces: 0 to 2 of them
 * stand for the embedding and the loss. Other networks are divided by hand. */
static bool can_interleave(const dl_layout_space *s, int pieces)
{
    const int blocks = s->network.blocks;
    return s->is_given[DL_KEY_CHUNKS] || blocks == 0 || (blocks + 2) % pieces <= 2;
}

static void add_schedules(dl_layout_space *s, dl_layout *l)
{
    const int stages = l->point.stages;
    l->point.chunks = 1;
    l->values[DL_KEY_SCHEDULE] = l->values[DL_KEY_CHUNKS] = NULL;
    if (stages == 1) {
        add_sharded(s, l);
        return;
    }
    for (size_t i = 0; i < s->value_count[DL_KEY_SCHEDULE]; i++) {
        l->values[DL_KEY_SCHEDULE] = s->values[DL_KEY_SCHEDULE][i];
        l->schedule =
            (dl_schedule)dl_names_find(l->values[DL_KEY_SCHEDULE], dl_schedule_names, DL_SCHEDULES);
        const bool interleaved = l->schedule == DL_SCHEDULE_INTERLEAVED;
        if (interleaved && l->point.micro_batches % stages != 0) continue;
        for (size_t c = 0; c < (interleaved ? s->value_count[DL_KEY_CHUNKS] : 1); c++) {
            l->values[DL_KEY_CHUNKS] = interleaved ? s->values[DL_KEY_CHUNKS][c] : NULL;
            l->point.chunks = interleaved ? atoi(l->values[DL_KEY_CHUNKS]) : 1;
            const int pieces = stages * l->point.chunks;
            if (interleaved && (l->point.chunks < 2 || !can_interleave(s, pieces))) continue;
            if (pieces <= s->layers) add_sharded(s, l);
        }
    }
}

static void add_micro_batches(dl_layout_space *s, dl_layout *l)
{
    const int64_t ranks = (int64_t)l->point.workers * dl_point_batches(&l->point);
    const int64_t samples = l->point.batch / ranks;
    if (l->point.batch % ranks != 0) return;
    for (size_t m = 0; m < s->value_count[DL_KEY_MICRO_BATCH]; m++) {
        const int64_t each = atoll(s->values[DL_KEY_MICRO_BATCH][m]);
        if (each < 1 || samples % each != 0 || samples / each > DL_MICRO_BATCHES_MAX) continue;
        l->values[DL_KEY_MICRO_BATCH] = s->values[DL_KEY_MICRO_BATCH][m];
        l->point.micro_batches = (int)(samples / each);
        add_schedules(s, l);
    }
}

/* Adds the layouts that divide `ranks` GPUs between ep and dp, with each ep that divides both
 * `ranks` and the network's number of experts, if their kernels are fused. */
static void add_experts(dl_layout_space *s, dl_layout *l, int ranks)
{
    const bool divides = is_free(s->scenario->model, "ep=") && !s->network.unfused;
    const int experts = divides && s->network.experts > 0 ? s->network.experts : 1;
    for (int ep = 1; ep <= ranks && ep <= experts; ep++) {
        if (ranks % ep != 0 || experts % ep != 0) continue;
        l->point.experts = ep;
        l->point.workers = ranks / ep;
        for (l->order = 0; l->order < (l->point.stages > 1 && l->point.shards > 1 ? 2 : 1);
             l->order++)
            add_micro_batches(s, l);
    }
}

/* Whether `cp` GPUs may divide each sequence: the network allows it, and each has at least 8192
 * tokens, as many as are usually trained on without cp. */
static bool may_divide(const char *model, int cp)
{
    DL_SCOPED(dl_architecture) network = {0};
    if (cp == 1) return true;
    if (!is_free(model, "cp=")) return false;
    DL_AUTOFREE char *divided = dl_format("%s%ccp=%d", model, strchr(model, ':') ? ',' : ':', cp);
    return dl_architecture_make(&network, divided, NULL) == DL_OK && network.sequence / cp >= 8192;
}

/* Whether `tp` GPUs can divide each layer: their heads of keys and values and, with sequence
 * parallelism, the tokens that `cp` GPUs leave them. */
static bool can_divide(const dl_layout_space *s, int tp, int cp)
{
    const dl_architecture *network = &s->network;
    return tp == 1 || (is_free(s->scenario->model, "tp=") && network->kv_heads % tp == 0 &&
                       (!network->by_tokens || network->sequence / cp % tp == 0));
}

/* Adds the layouts of `gpus` GPUs, the others being divided by the axes already set: each
 * factorization into pp (at most the number of layers), fsdp, ep and dp. */
static void add_stages(dl_layout_space *s, dl_layout *l, int gpus)
{
    for (int pp = 1; pp <= s->layers && pp <= DL_STAGES_MAX; pp++) {
        for (int fsdp = 1; gpus % pp == 0 && fsdp <= gpus / pp; fsdp++) {
            if (gpus / pp % fsdp != 0) continue;
            l->point.stages = pp;
            l->point.shards = fsdp;
            add_experts(s, l, gpus / pp / fsdp);
        }
    }
}

/* Lists the factorizations of the number of GPUs into tp (within a node), cp, pp, ep, fsdp and dp,
 * each with all settings. */
static void list_layouts(dl_layout_space *s)
{
    const dl_scenario *scenario = s->scenario;
    const int gpus = dl_gpu_options_count(scenario->gpu);
    const int node = dl_machine_gpus_before(&scenario->gpu->machine, 1);
    const bool recomputes = is_free(scenario->model, "recompute=");
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, &s->study->variants[0].costs);
    s->layers = model.count;
    for (int cp = 1; cp <= gpus; cp++) {
        if (gpus % cp != 0 || !may_divide(scenario->model, cp)) continue;
        for (int tp = 1; tp <= node; tp++) {
            if (gpus / cp % tp != 0 || node % tp != 0 || !can_divide(s, tp, cp)) continue;
            for (size_t r = 0; r < (recomputes ? s->value_count[DL_KEY_RECOMPUTE] : 1); r++) {
                dl_layout l = {
                    .point = {.tensor = tp, .context = cp, .batch = scenario->points[0].batch}};
                l.values[DL_KEY_RECOMPUTE] = recomputes ? s->values[DL_KEY_RECOMPUTE][r] : NULL;
                add_stages(s, &l, gpus / cp / tp);
            }
        }
    }
}

char *dl_layout_options(const dl_layout *l)
{
    char *text = NULL;
    for (int k = 0; k < DL_LAYOUT_KEYS; k++) {
        const char *option =
            dl_scenario_option_of(dl_layout_keys[k].section, dl_layout_keys[k].key);
        if (l->values[k] == NULL) continue;
        DL_AUTOFREE char *item = option != NULL
                                     ? dl_format("--%s %s", option, l->values[k])
                                     : dl_format("--set %s.%s=%s", dl_layout_keys[k].section,
                                                 dl_layout_keys[k].key, l->values[k]);
        dl_join(&text, " ", item);
    }
    return text;
}

bool dl_layout_is_given(const dl_layout_space *s, const dl_layout *l)
{
    return s->given != NULL && dl_scenario_layout_allows(s->given, &l->point, orders[l->order]);
}

/* --- scenarios of layouts --------------------------------------------------------------------- */

/* Reads the costs of the family's layouts once, with a point for each. */
static dl_status read_family(dl_layout_space *s, dl_layout_family *f, dl_error *err)
{
    DL_AUTOFREE char *text = dl_layout_text(s, &s->layouts[f->first]);
    dl_status status = dl_study_read_text(&f->study, s->study->path, text, strlen(text), err);
    if (status != DL_OK) return status;
    dl_scenario *scenario = &f->study.variants[0].scenario;
    for (size_t i = 0; i < f->count; i++) {
        dl_point point = scenario->points[0];
        const dl_point *own = &f->points[i];
        point.workers = own->workers;
        memcpy(point.size, own->size, sizeof point.size);
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
    scenario->steps = 1;
    scenario->warmup = 1;
    return DL_OK;
}

void dl_layout_read_family(dl_layout_space *space, dl_layout_family *family)
{
    dl_error why = {0};
    if (read_family(space, family, &why) != DL_OK) family->why = dl_strdup(why.text);
}

const dl_costs *dl_layout_set_up(const dl_layout_space *s, const dl_layout *l,
                                 dl_layout_scenario *own)
{
    const dl_variant *variant = &s->families[l->family].study.variants[0];
    own->scenario = variant->scenario;
    own->pipeline = *variant->scenario.pipeline;
    own->point = variant->scenario.points[l->at];
    own->pipeline.schedule = l->schedule;
    memcpy(own->pipeline.size, own->point.size, sizeof own->pipeline.size);
    own->pipeline.chunks = own->point.chunks;
    own->pipeline.micro_batches = own->point.micro_batches;
    own->pipeline.micro_batch = atoi(l->values[DL_KEY_MICRO_BATCH]);
    memcpy(own->pipeline.axes, orders[l->order], sizeof own->pipeline.axes);
    own->point.axes = orders[l->order];
    own->scenario.pipeline = &own->pipeline;
    return &variant->costs;
}

/* --- the complete space ---------------------------------------------------------------------- */

dl_status dl_layout_space_init(dl_layout_space *space, const dl_study *study, double samples,
                               dl_error *err)
{
    *space = (dl_layout_space){.study = study, .scenario = &study->variants[0].scenario};
    dl_status status = check_study(space, err);
    if (status == DL_OK) status = read_space(space, samples, err);
    if (status == DL_OK && space->scenario->model != NULL)
        status = dl_architecture_make(&space->network, space->scenario->model, err);
    if (status == DL_OK) list_layouts(space);
    return status;
}

void dl_layout_space_free(dl_layout_space *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->layouts[i].values[DL_KEY_LAYOUT]);
    for (size_t f = 0; f < s->family_count; f++) {
        dl_study_free(&s->families[f].study);
        free(s->families[f].points);
        free(s->families[f].why);
    }
    for (int k = 0; k < DL_LAYOUT_KEYS; k++)
        for (size_t i = 0; i < s->value_count[k]; i++)
            free(s->values[k][i]);
    dl_architecture_free(&s->network);
    free(s->families);
    free(s->layouts);
    free(s->given);
    free(s->text);
}
