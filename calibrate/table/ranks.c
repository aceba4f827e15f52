/* Fits on several ranks (common/cluster.h). Rank 0 searches; for each simulation it sends the
 * current costs to the others, and all share the points. The search thus equals that of one process
 * bit for bit, and every simulation, including those for left-out rows, uses all ranks. */
#include <string.h>

#include "calibrate/table/table_internal.h"
#include "common/alloc.h"
#include "common/bytes.h"
#include "common/file.h"
#include "sim/scenario/study.h"

/* Request of rank 0, followed by the `wanted` flag of each point. */
typedef struct request {
    int64_t ends; /* 1: no more simulations */
    int64_t part, steps;
    uint64_t key;
    int64_t extra; /* index in costs->machine_values of the cost added to the fit's; -1: none */
    /* Values of the part's costs. */
    dl_value value[DL_TABLE_COSTS_MAX + 1], rest[DL_TABLE_COSTS_MAX + 1];
} request;

static bool has_ranks(const dl_cluster *cluster)
{
    return cluster != NULL && cluster->size > 1 && !cluster->failed;
}

/* Size of every request, which has room for the points of the largest part. */
static size_t message_bytes(size_t points)
{
    return sizeof(request) + points * sizeof(bool);
}

dl_status dl_table_ranks_ask(const dl_table_simulation *simulation, dl_error *err)
{
    if (!has_ranks(simulation->cluster) || simulation->cluster->rank > 0) return DL_OK;
    const dl_table_costs *sought = simulation->sought;
    const size_t part = simulation->part, bytes = message_bytes(simulation->points_most);
    DL_AUTOFREE unsigned char *message = dl_calloc(bytes, 1, "message");
    request asked = {
        .part = (int64_t)part, .steps = simulation->steps, .key = simulation->key, .extra = -1};
    for (size_t j = 0; j < sought->count; j++) {
        const dl_table_cost *item = &sought->items[j];
        if (item->value[part] == NULL) continue;
        asked.value[j] = *item->value[part];
        if (item->rest[part] != NULL) asked.rest[j] = *item->rest[part];
        for (size_t m = 0; m < simulation->costs->machine_value_count; m++) {
            const bool is_extra = j >= simulation->fitted &&
                                  item->value[part] == &simulation->costs->machine_values[m].value;
            if (is_extra) asked.extra = (int64_t)m;
        }
    }
    memcpy(message, &asked, sizeof asked);
    memcpy(message + sizeof asked, simulation->wanted,
           simulation->scenario->point_count * sizeof *simulation->wanted);
    return simulation->cluster->calls->broadcast(message, bytes, err);
}

void dl_table_ranks_end(const dl_table_fit *fit, dl_cluster *cluster)
{
    if (!has_ranks(cluster)) return;
    const size_t bytes = message_bytes(dl_table_points_most(fit->parts, fit->part_count));
    DL_AUTOFREE unsigned char *message = dl_calloc(bytes, 1, "message");
    const request asked = {.ends = 1};
    memcpy(message, &asked, sizeof asked);
    if (cluster->calls->broadcast(message, bytes, NULL) != DL_OK) cluster->failed = true;
}

/* Simulates the points at rank 0's costs. Ignores failures, since they occur on rank 0 too. */
static void simulate(dl_table_fit *fit, const request *asked, dl_table_simulation *simulation,
                     double *per_s)
{
    const size_t part = (size_t)asked->part;
    dl_costs *costs = &fit->parts[part].costs;
    dl_machine_value *extra = asked->extra >= 0 ? &costs->machine_values[asked->extra] : NULL;
    const dl_value before = extra != NULL ? extra->value : (dl_value){0};
    for (size_t j = 0; j < fit->unknown.count; j++) {
        const dl_table_cost *item = &fit->unknown.items[j];
        if (item->value[part] != NULL) *item->value[part] = asked->value[j];
        if (item->rest[part] != NULL) *item->rest[part] = asked->rest[j];
    }
    if (extra != NULL) extra->value = asked->value[fit->unknown.count];
    dl_error ignored = {0};
    simulation->scenario = &fit->parts[part].scenario;
    simulation->costs = costs;
    simulation->steps = asked->steps;
    simulation->key = asked->key;
    const dl_status status = dl_table_simulate(simulation, per_s, &ignored);
    (void)status;
    if (extra != NULL) extra->value = before;
}

dl_status dl_table_ranks_serve(dl_table_fit *fit, const dl_table_fit_config *config, dl_error *err)
{
    dl_cluster *cluster = config->cluster;
    const size_t points = dl_table_points_most(fit->parts, fit->part_count);
    const size_t bytes = message_bytes(points);
    DL_AUTOFREE unsigned char *message = dl_calloc(bytes, 1, "message");
    DL_AUTOFREE bool *wanted = dl_calloc(points, sizeof *wanted, "points to simulate");
    DL_AUTOFREE double *per_s = dl_calloc(points, sizeof *per_s, "throughputs");
    dl_table_simulation simulation = {
        .wanted = wanted, .threads = config->threads, .cluster = cluster};
    request asked = {.ends = 0};
    dl_status status = DL_OK;
    while (!cluster->failed) {
        status = cluster->calls->broadcast(message, bytes, err);
        if (status != DL_OK) {
            cluster->failed = true;
            break;
        }
        memcpy(&asked, message, sizeof asked);
        memcpy(wanted, message + sizeof asked, bytes - sizeof asked);
        if (asked.ends) break;
        simulate(fit, &asked, &simulation, per_s);
    }
    return status;
}

/* Hashes everything that simulated throughputs depend on, except the sought costs. */
static dl_status fit_key(const dl_table_fit *fit, const dl_table_fit_config *config, uint64_t *key,
                         dl_error *err)
{
    const char *const options[] = {config->share, config->use, config->near ? "near" : NULL};
    uint64_t hash = DL_HASH_START;
    dl_status status = DL_OK;
    for (size_t p = 0; p < config->part_count && status == DL_OK; p++) {
        const dl_table_part_config *part = &config->parts[p];
        const char *text = part->scenario_text;
        if (text != NULL) hash = dl_hash_bytes(hash, text, strlen(text));
        if (text == NULL) status = dl_file_hash(&hash, part->scenario_path, err);
        if (status == DL_OK) status = dl_file_hash(&hash, part->table_path, err);
        if (status == DL_OK) status = dl_scenario_add_files(&hash, &fit->parts[p].scenario, err);
        hash = dl_hash_add_text(hash, part->names);
    }
    for (size_t i = 0; i < DL_LENGTH(options); i++)
        hash = dl_hash_add_text(hash, options[i]);
    *key = hash;
    return status;
}

dl_status dl_table_ranks_compare(const dl_table_fit *fit, const dl_table_fit_config *config,
                                 dl_status status, uint64_t *key, dl_error *err)
{
    *key = DL_HASH_START;
    if (status == DL_OK && (has_ranks(config->cluster) || config->journal != NULL)) {
        status = fit_key(fit, config, key, err);
    }
    if (!has_ranks(config->cluster)) return status;
    status = dl_cluster_agree(config->cluster, status, err);
    if (status != DL_OK) return status;
    return dl_cluster_same(config->cluster, *key,
                           "the scenario, the table, or a file that they name,", err);
}
