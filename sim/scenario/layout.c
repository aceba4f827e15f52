/* Workers with several GPUs: [machine] layout and [pipeline]. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/manual.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/scenario/scenario_internal.h"

/* --- [machine] layout ------------------------------------------------------------------------- */

enum { AXIS_DP = DL_AXES, AXES }; /* dp: the workers */

void dl_scenario_layout_complete(FILE *out, const char *typed, size_t kept)
{
    const char *last = strrchr(typed + kept, ',');
    if (last != NULL) kept = (size_t)(last + 1 - typed);
    for (int a = 0; a < AXES; a++) {
        DL_AUTOFREE char *word = dl_format("%s=", dl_axis_names[a]);
        dl_complete_word(out, typed, kept, word);
    }
}

typedef struct layout {
    int size[AXES]; /* 0: not given */
    int order[AXES], count;
} layout;

/* Parses an item "AXIS=SIZE". */
static dl_status take_axis(void *user, char *item, dl_error *err)
{
    layout *to = user;
    char *size = strchr(item, '=');
    int64_t number = 0;
    int found = 0;
    if (size == NULL) return dl_error_set(err, DL_ERR_PARSE, "'%s' is not AXIS=SIZE", item);
    *size++ = '\0';
    while (found < AXES && strcmp(dl_axis_names[found], item) != 0)
        found++;
    const char *why = found == AXES ? dl_scenario_word_says(item) : NULL;
    if (why != NULL) return dl_error_set(err, DL_ERR_UNSUPPORTED, "%s: %s", item, why);
    if (found == AXES) {
        char hint[160];
        dl_names_hint(hint, sizeof hint, item, dl_axis_names, AXES);
        return dl_error_set(err, DL_ERR_NAME, "unknown axis '%s'%s", item, hint);
    }
    if (to->size[found] > 0)
        return dl_error_set(err, DL_ERR_DATA, "axis '%s' is given twice", item);
    const int most = found == DL_AXIS_PP ? DL_STAGES_MAX : DL_WORKERS_MAX;
    dl_status status = dl_parse_int(size, 1, most, &number, err);
    if (status == DL_ERR_RANGE && found == DL_AXIS_PP)
        return dl_error_set(err, status,
                            "pp = %s: a pipeline has 1 to %d stages here, and no more than the "
                            "model has layers",
                            size, DL_STAGES_MAX);
    if (status != DL_OK) return status;
    to->size[found] = (int)number;
    to->order[to->count++] = found;
    return DL_OK;
}

static dl_status read_axes(layout *to, const dl_ini *ini, const dl_ini_entry *entry, dl_error *err)
{
    const dl_status status = dl_ini_each(ini, entry, take_axis, to, err);
    if (status == DL_OK && to->size[AXIS_DP] > 0 && to->order[to->count - 1] != AXIS_DP) {
        return dl_ini_error(ini, entry, DL_ERR_UNSUPPORTED, err,
                            "dp, the workers, comes last: the GPUs of a worker are neighbours");
    }
    return status;
}

/* Sets the numbers of workers that the scenario leaves open: to the layout's dp or, without it, to
 * what the machine's GPUs allow. */
static dl_status take_workers(const dl_scenario *scenario, const layout *of, const dl_ini *ini,
                              const dl_ini_entry *entry, dl_sweep_list *workers, dl_error *err)
{
    const int ranks = dl_axes_gpus(scenario->pipeline->size),
              gpus = dl_gpu_options_count(scenario->gpu);
    if (of->size[AXIS_DP] > 0 && workers->entry != NULL) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "dp = %d gives the workers, and [machine] workers is given too",
                            of->size[AXIS_DP]);
    }
    if (dl_ini_find(ini, "pipeline", "gpus") != NULL) return DL_OK;
    for (size_t i = 0; i < workers->count; i++) {
        const bool is_all = workers->entry == NULL || workers->values[i] == DL_WORKERS_ALL;
        if (is_all) workers->values[i] = gpus / ranks > 1 ? gpus / ranks : 1;
        if (of->size[AXIS_DP] > 0) workers->values[i] = of->size[AXIS_DP];
    }
    return DL_OK;
}

/* Sorts the axes: first those given, in their order, then the others, which have size 1. */
static void order_axes(dl_scenario_pipeline *p, const layout *of)
{
    int count = 0;
    for (int i = 0; i < of->count; i++)
        if (of->order[i] != AXIS_DP) p->axes[count++] = (dl_axis)of->order[i];
    for (int a = 0; a < DL_AXES; a++)
        if (of->size[a] == 0) p->axes[count++] = (dl_axis)a;
}

static dl_status read_layout(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                             dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "layout");
    const dl_ini_entry *stages = dl_ini_find(ini, "pipeline", "stages");
    dl_scenario_pipeline *p = scenario->pipeline;
    layout of = {.count = 0};
    p->shards = p->tensor = p->context = p->experts = 1;
    for (int a = 0; a < DL_AXES; a++)
        p->axes[a] = (dl_axis)a;
    if (entry == NULL) return DL_OK;
    if (stages != NULL) {
        return dl_ini_error(ini, stages, DL_ERR_DATA, err,
                            "[machine] layout is given too: give only one");
    }
    dl_status status = read_axes(&of, ini, entry, err);
    if (status != DL_OK) return status;
    for (int a = 0; a < DL_AXES; a++)
        p->size[a] = dl_axis_size(of.size, (dl_axis)a);
    if (dl_axes_gpus(of.size) > DL_WORKERS_MAX) {
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err,
                            "a worker would have more than %d GPUs, the product of all axes "
                            "except dp",
                            DL_WORKERS_MAX);
    }
    order_axes(p, &of);
    return take_workers(scenario, &of, ini, entry, &lists->workers, err);
}

const char *dl_scenario_layout_says(const dl_ini *ini, const char *key)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "layout");
    if (entry == NULL) return NULL;
    if (strcmp(key, "sharded") == 0 && strstr(entry->value, "fsdp") != NULL) return "parameters";
    return strcmp(key, "stages") == 0 ? "2" : NULL; /* some layouts of a list may have stages */
}

/* Parses the axes of text[bytes], as far as they are valid. */
static layout axes_of(const char *text, size_t bytes)
{
    layout of = {.count = 0};
    for (const char *at = text; at < text + bytes;) {
        const size_t left = (size_t)(text + bytes - at), comma = strcspn(at, ",");
        DL_AUTOFREE char *item = dl_strndup_trimmed(at, comma < left ? comma : left);
        (void)(take_axis(&of, item, NULL) == DL_OK);
        at += (comma < left ? comma : left) + 1;
    }
    return of;
}

int64_t dl_scenario_layout_gpus(const char *layouts, int64_t *all)
{
    int64_t largest = 1;
    *all = 1;
    for (const char *at = layouts; *at != '\0';) {
        const size_t bytes = strcspn(at, "|");
        const layout of = axes_of(at, bytes);
        const int64_t each = dl_axes_gpus(of.size);
        const int64_t whole = each * (of.size[AXIS_DP] > 0 ? of.size[AXIS_DP] : 1);
        if (each > largest) largest = each;
        if (whole > *all) *all = whole;
        at += bytes + (at[bytes] != '\0');
    }
    return largest;
}

int64_t dl_scenario_layout_batches(const char *layouts)
{
    int64_t first = 0;
    for (const char *at = layouts; *at != '\0';) {
        const size_t bytes = strcspn(at, "|");
        const layout of = axes_of(at, bytes);
        const int64_t own = dl_axes_batches(of.size);
        if (first > 0 && own != first) return 0;
        first = own;
        at += bytes + (at[bytes] != '\0');
    }
    return first > 0 ? first : 1;
}

/* Whether the given axes have the point's sizes, and those with several GPUs its order. */
static bool allows(const layout *of, const dl_point *point, const dl_axis *order)
{
    int at = 0;
    for (int i = 0; i < of->count; i++) {
        const int axis = of->order[i];
        if (of->size[axis] != (axis == AXIS_DP ? point->workers : point->size[axis])) return false;
        if (of->size[axis] == 1 || axis == AXIS_DP) continue;
        while (at < DL_AXES && (int)order[at] != axis)
            at++;
        if (at == DL_AXES) return false;
    }
    return true;
}

bool dl_scenario_layout_allows(const char *layouts, const dl_point *point, const dl_axis *order)
{
    for (const char *at = layouts; *at != '\0';) {
        const size_t bytes = strcspn(at, "|");
        const layout of = axes_of(at, bytes);
        if (allows(&of, point, order)) return true;
        at += bytes + (at[bytes] != '\0');
    }
    return false;
}

/* --- [pipeline] ------------------------------------------------------------------------------- */

/* Reads the first layers of the stages. */
static dl_status read_cuts(dl_scenario_pipeline *pipeline, const dl_ini *ini, dl_error *err)
{
    dl_pipeline_options *options = &pipeline->options;
    const dl_ini_entry *split = dl_ini_find(ini, "pipeline", "split");
    const size_t cuts = (size_t)(pipeline->stages * pipeline->chunks) - 1;
    if (split == NULL || strcmp(split->value, "balanced") == 0) return DL_OK;
    const dl_status status = dl_ini_split(ini, split, &options->cuts, &options->cut_count, err);
    if (status != DL_OK || options->cut_count == cuts) return status;
    return dl_ini_error(ini, split, DL_ERR_RANGE, err,
                        "expected 'balanced' or the first layers of stages 1 to %zu", cuts);
}

/* Sets the workers from [pipeline] gpus instead of [machine] workers: gpus over the GPUs per
 * worker. Numbers of GPUs that are not a multiple of a worker's are dropped. */
static dl_status read_pipeline_gpus(const dl_scenario *scenario, const dl_ini *ini,
                                    dl_sweep_lists *lists, dl_error *err)
{
    const dl_ini_entry *workers = dl_ini_find(ini, "machine", "workers");
    if (dl_ini_find(ini, "pipeline", "gpus") == NULL) return DL_OK;
    if (workers != NULL || dl_ini_find(ini, "machine", "placement") != NULL) {
        return dl_ini_error(ini, dl_ini_find(ini, "pipeline", "gpus"), DL_ERR_DATA, err,
                            "[machine] %s is given too: give only one",
                            workers != NULL ? "workers" : "placement");
    }
    dl_sweep_list gpus = {0};
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "pipeline", "gpus");
    dl_status status = dl_sweep_list_read(&gpus, ini, key, dl_sweep_number, NULL, err);
    if (status != DL_OK) {
        free(gpus.values);
        return status;
    }
    const int ranks = dl_axes_gpus(scenario->pipeline->size);
    size_t kept = 0;
    for (size_t i = 0; i < gpus.count; i++) {
        const int count = (int)gpus.values[i];
        if (count % ranks == 0) gpus.values[kept++] = count / ranks;
    }
    free(lists->workers.values);
    lists->workers = gpus;
    lists->workers.count = kept;
    if (kept > 0) return DL_OK;
    return dl_ini_error(ini, gpus.entry, DL_ERR_RANGE, err,
                        "none of them is a multiple of a worker's %d GPUs", ranks);
}

static dl_status check_gpus(const dl_scenario *scenario, const dl_ini *ini,
                            const dl_sweep_lists *lists, dl_error *err)
{
    const int gpus = dl_gpu_options_count(scenario->gpu),
              ranks = dl_axes_gpus(scenario->pipeline->size);
    for (size_t i = 0; i < lists->workers.count; i++) {
        const int workers = (int)lists->workers.values[i];
        if ((int64_t)workers * ranks <= gpus) continue;
        const dl_ini_entry *entry = lists->workers.entry;
        return dl_ini_error(ini, entry != NULL ? entry : dl_ini_find(ini, "machine", "layout"),
                            DL_ERR_RANGE, err,
                            "the workers, of %d GPUs each, need %lld GPUs, there are %d", ranks,
                            (long long)workers * ranks, gpus);
    }
    return DL_OK;
}

#define ONLY(in, name, values, why)                      \
    {                                                    \
        in, name, .only = name " = " values, .help = why \
    }

/* Keys of which only some values are simulated if a worker has several GPUs, and the reason. */
static const struct {
    dl_key key;
    int stages, chunks, shards; /* applies only with at least these numbers */
} refused_keys[] = {
    {ONLY("exchange", "bucket_bytes", "0", "whose chunks send all gradients at once"), 2, 2, 1},
    {ONLY("sync", "accumulate", "1", "whose stages have [pipeline] micro_batches"), 2, 1, 1},
    {ONLY("exchange", "buckets", "copies", "whose layers have no [op NAME.bucket]"), 2, 1, 1},
    {ONLY("exchange", "buckets", "copies", "whose shards copy no gradients back"), 1, 1, 2},
    {ONLY("machine", "reads", "nothing, batch", "whose losses nobody reads"), 1, 1, 1},
    {ONLY("input", "made", "ahead", "whose batches are made ahead"), 1, 1, 1},
};

static dl_status check_keys(const dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < DL_LENGTH(refused_keys); i++) {
        const dl_key *key = &refused_keys[i].key;
        const dl_ini_entry *entry = dl_ini_find(ini, key->section, key->name);
        if (entry == NULL || dl_key_holds(key, entry->value) ||
            scenario->pipeline->stages < refused_keys[i].stages ||
            scenario->pipeline->chunks < refused_keys[i].chunks ||
            scenario->pipeline->shards * scenario->pipeline->context * scenario->pipeline->experts <
                refused_keys[i].shards)
            continue;
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "not with workers of several GPUs, %s; only %s", key->help, key->only);
    }
    return DL_OK;
}

/* With one stage, sets the accumulated micro-batches: a GPU with the whole model computes them in
 * sequence. */
static dl_status accumulate(const dl_scenario_pipeline *pipeline, const dl_ini *ini,
                            dl_sweep_lists *lists, dl_error *err)
{
    const char *key = pipeline->micro_batch > 0 ? "micro_batch" : "micro_batches";
    const dl_ini_entry *entry = dl_ini_find(ini, "pipeline", key);
    dl_sweep_list *list = &lists->option[DL_SYNC_ACCUMULATE];
    const bool is_one = list->count == 1 && list->values[0] == 1;
    if (entry != NULL && list->entry != NULL && !is_one) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "[sync] accumulate is given too: give only one");
    }
    if (entry != NULL && pipeline->micro_batch == 0) list->values[0] = pipeline->micro_batches;
    return DL_OK;
}

const char *dl_schedule_refuses(dl_schedule schedule, int64_t micro_batches, int stages)
{
    if (schedule == DL_SCHEDULE_PIPEDREAM && micro_batches > 1)
        return "with pipedream, which updates after each batch, micro_batches must be 1";
    if (schedule == DL_SCHEDULE_2BW && micro_batches < stages)
        return "with 2bw micro_batches must be at least the number of stages";
    return NULL;
}

/* Checks that the schedule, micro_batch, micro_batches and chunks agree. */
static dl_status check_schedule(const dl_scenario_pipeline *p, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *count = dl_ini_find(ini, "pipeline", "micro_batches");
    if (p->micro_batch > 0 && (count != NULL || !dl_schedule_flushes(p->schedule))) {
        return dl_ini_error(ini, dl_ini_find(ini, "pipeline", "micro_batch"), DL_ERR_DATA, err,
                            count != NULL ? "micro_batches is given too: give only one"
                                          : "not with a schedule without a flush: micro_batches");
    }
    const bool interleaved = p->schedule == DL_SCHEDULE_INTERLEAVED;
    if (p->stages > 1 && interleaved != (p->chunks > 1)) {
        const dl_ini_entry *entry =
            dl_ini_find(ini, "pipeline", interleaved ? "schedule" : "chunks");
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            interleaved ? "this needs chunks = 2 or more"
                                        : "several chunks need schedule = interleaved");
    }
    const char *why =
        p->stages > 1 ? dl_schedule_refuses(p->schedule, p->micro_batches, p->stages) : NULL;
    if (why == NULL) return DL_OK;
    return dl_ini_error(ini, dl_ini_find(ini, "pipeline", "schedule"), DL_ERR_RANGE, err, "%s",
                        why);
}

dl_status dl_scenario_read_layout(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                  dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "layout");
    for (size_t i = 0; i < ini->count && entry == NULL; i++) {
        if (strcmp(ini->entries[i].section, "pipeline") == 0) entry = &ini->entries[i];
    }
    if (entry == NULL) return DL_OK;
    if (scenario->gpu == NULL) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "this needs a machine with GPUs: [machine] file");
    }
    dl_scenario_pipeline *p = scenario->pipeline = dl_calloc(1, sizeof *p, "layout");
    dl_status status;
    if ((status = dl_keys_read(&dl_scenario_keys, DL_OF_PIPELINE, ini, NULL, p, err)) ||
        (status = read_layout(scenario, ini, lists, err)) ||
        (p->stages > 1 && (status = read_cuts(p, ini, err))) ||
        (status = read_pipeline_gpus(scenario, ini, lists, err)) ||
        (status = check_gpus(scenario, ini, lists, err))) {
        return status;
    }
    if ((status = check_schedule(p, ini, err)) != DL_OK) return status;
    if (dl_axes_gpus(p->size) > 1 && (status = check_keys(scenario, ini, err))) return status;
    return p->stages > 1 ? DL_OK : accumulate(p, ini, lists, err);
}
