/* The workers of a scenario: cores, or the GPUs of a machine file. */
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/platform/placement.h"
#include "sim/scenario/machine_catalogue.h"
#include "sim/scenario/scenario_internal.h"

static dl_status read_cores(const char *text, const dl_key *key, double *value, dl_error *err)
{
    int64_t number = 0;
    if (strcmp(text, "workers") == 0) {
        *value = DL_CORES_AS_WORKERS;
    } else if (strcmp(text, "measured") == 0) {
        *value = DL_CORES_MEASURED;
    } else if (dl_parse_int(text, 1, DL_WORKERS_MAX, &number, err) == DL_OK) {
        *value = (double)number;
    } else {
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected 'workers', 'measured' or a whole number from 1 to %d, "
                            "not '%s'",
                            DL_WORKERS_MAX, text);
    }
    (void)key;
    return DL_OK;
}

static dl_status read_workers(const char *text, const dl_key *key, double *value, dl_error *err)
{
    if (strcmp(text, "all") != 0) return dl_sweep_number(text, key, value, err);
    *value = DL_WORKERS_ALL;
    return DL_OK;
}

/* Replaces "all" by the number of GPUs. */
static dl_status resolve_workers(const dl_gpu_options *gpu, const dl_ini *ini,
                                 dl_sweep_list *workers, dl_error *err)
{
    const int gpus = gpu != NULL ? dl_gpu_options_count(gpu) : 0;
    for (size_t i = 0; i < workers->count; i++) {
        if (workers->values[i] != DL_WORKERS_ALL) continue;
        if (gpu == NULL) {
            return dl_ini_error(ini, workers->entry, DL_ERR_DATA, err,
                                "all means the GPUs of [machine] file, which is not given");
        }
        if (gpus > DL_WORKERS_MAX) {
            return dl_ini_error(ini, workers->entry, DL_ERR_RANGE, err,
                                "all are %d GPUs: more than %d workers are not simulated", gpus,
                                DL_WORKERS_MAX);
        }
        for (size_t j = 0; j < workers->count; j++) {
            if (workers->values[j] != gpus) continue;
            return dl_ini_error(ini, workers->entry, DL_ERR_RANGE, err,
                                "all are %d GPUs, which are given too", gpus);
        }
        workers->values[i] = gpus;
    }
    return DL_OK;
}

/* Replaces the machine file's number of nodes. */
static dl_status read_nodes(dl_machine *machine, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "nodes");
    const int64_t own = machine->nodes;
    int64_t nodes = own;
    dl_status status =
        dl_ini_get_int(ini, "machine", "nodes", 1, DL_WORKERS_MAX, &own, &nodes, err);
    if (status != DL_OK) return status;
    machine->nodes = (int)nodes;
    dl_error why = {0};
    status = dl_machine_check_gpus(machine, &why);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", why.text);
    if (nodes > 1 && dl_machine_fewest_nics(machine) == 0) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "the nodes of %s are not connected: it has no [nics ..]",
                            machine->path);
    }
    return DL_OK;
}

/* Parses a GPU of [machine] gpus and appends it. */
static dl_status take_gpu(void *user, char *item, dl_error *err)
{
    dl_gpu_options *gpu = user;
    int64_t number = 0;
    const dl_status status =
        dl_parse_int(item, 0, dl_machine_gpus(&gpu->machine) - 1, &number, err);
    if (status != DL_OK) return status;
    if (gpu->gpu_count > 0 && number <= gpu->gpus[gpu->gpu_count - 1])
        return dl_error_set(err, DL_ERR_RANGE, "the numbers must ascend");
    DL_APPEND(gpu->gpus, gpu->gpu_count, "GPUs of workers") = (int)number;
    return DL_OK;
}

static dl_status read_gpus(dl_gpu_options *gpu, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "gpus");
    return entry != NULL ? dl_ini_each(ini, entry, take_gpu, gpu, err) : DL_OK;
}

/* Reads the placement of workers on nodes, which also determines their number. */
static dl_status read_placement(dl_gpu_options *gpu, const dl_ini *ini, dl_sweep_list *workers,
                                dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "placement");
    if (entry == NULL) return DL_OK;
    if (gpu->gpus != NULL || workers->entry != NULL) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "gpus or workers are given too: a placement gives both");
    }
    dl_error inner = {0};
    dl_status status =
        dl_placement_gpus(entry->value, &gpu->machine, &gpu->gpus, &gpu->gpu_count, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    workers->values[0] = gpu->gpu_count;
    return DL_OK;
}

static dl_status read_shards(dl_gpu_options *gpu, const dl_ini *ini, dl_error *err)
{
    static const int64_t one = 1;
    const dl_ini_entry *entry = dl_ini_find(ini, "exchange", "shards");
    int64_t shards = 0;
    if (entry != NULL && strcmp(entry->value, "workers") == 0) {
        gpu->shards = 0;
        return DL_OK;
    }
    if (entry != NULL && strcmp(entry->value, "nodes") == 0) {
        gpu->shards = DL_SHARDS_NODES;
        return DL_OK;
    }
    dl_status status =
        dl_ini_get_int(ini, "exchange", "shards", 1, DL_SHARDS_MAX, &one, &shards, err);
    gpu->shards = (int)shards;
    return status;
}

static dl_status read_algorithm(dl_gpu_options *gpu, const dl_ini *ini, dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "exchange", "algorithm");
    const dl_ini_entry *entry = dl_ini_find(ini, key->section, key->name);
    dl_error inner = {0};
    int algorithm = 0;
    dl_status status =
        dl_key_choice(key, entry != NULL ? entry->value : key->fallback, &algorithm, &inner);
    gpu->algorithm = key->choices[algorithm >= 0 ? algorithm : 0];
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", inner.text);
}

/* Checks the number of workers. Several workers share a GPU only if [machine] gpus lists the GPUs,
 * never by accident. */
static dl_status check_workers(const dl_gpu_options *gpu, const dl_ini *ini,
                               const dl_sweep_list *workers, dl_error *err)
{
    const int count = dl_gpu_options_count(gpu);
    const bool is_connected = dl_machine_fewest_nics(&gpu->machine) > 0;
    for (size_t i = 0; i < workers->count; i++) {
        const double wanted = workers->values[i];
        if (wanted <= count || gpu->gpus != NULL) continue;
        const long long nodes = dl_machine_nodes_for(&gpu->machine, (int64_t)wanted);
        DL_AUTOFREE char *more =
            is_connected ? dl_format("[machine] nodes = %lld adds nodes; ", nodes) : dl_strdup("");
        return dl_ini_error(ini, workers->entry, DL_ERR_RANGE, err,
                            "%.0f workers, but %s has %d GPUs: %sgpus lists those that "
                            "workers share%s",
                            wanted, dl_base_name(gpu->machine.path), count, more,
                            is_connected ? ""
                                         : "; for more nodes give the box a network, as in "
                                           "2xrtx3090@10gbe");
    }
    return DL_OK;
}

/* Checks the machine file's fabric with the scenario's changes; the topology must use each of
 * them. */
static dl_status check_fabric(const dl_machine *machine, const dl_ini *ini, dl_error *err)
{
    dl_error why = {0};
    const char *topology = dl_fabric_kind_names[machine->fabric.kind];
    for (size_t i = 0; i < ini->count; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        if (strcmp(entry->section, "fabric") != 0) continue;
        const dl_key *key = dl_keys_find(&dl_scenario_keys, "fabric", entry->key);
        if (dl_key_holds(key, topology)) continue;
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "this needs [fabric] %s; here it is %s",
                            key->only, topology);
    }
    const dl_status status = dl_machine_check_fabric(machine, &why);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(err, status, ini->path, dl_ini_section_line(ini, "fabric"), "%s",
                           why.text);
}

/* Whether some link between sites has a rate, which [machine] site_bytes_per_s then replaces. */
static bool limits_sites(const dl_machine *machine)
{
    bool limits = false;
    for (int i = 0; i < machine->site_count; i++)
        limits |= machine->sites[i].bytes_per_s.known;
    for (int i = 0; i < machine->site_pair_count; i++)
        limits |= machine->site_pairs[i].bytes_per_s.known;
    return limits;
}

/* Takes the scenario's sites, and [tcp]. The keys of [network] and [tcp] that a machine file has
 * too are in the machine already. */
static dl_status take_network(dl_gpu_options *gpu, const dl_ini *ini, dl_error *err)
{
    static const char *const of_sites[][2] = {{"network", "site_latency_ns"},
                                              {"machine", "site_bytes_per_s"}};
    dl_machine *machine = &gpu->machine;
    if (dl_ini_section_line(ini, "tcp") > 0) dl_machine_take_tcp(machine);
    if (gpu->sites > machine->nodes) {
        return dl_ini_error(ini, dl_ini_find(ini, "network", "sites"), DL_ERR_RANGE, err,
                            "%d sites, but %s has %d nodes: [machine] nodes adds nodes", gpu->sites,
                            machine->path, machine->nodes);
    }
    if (gpu->sites > 0) dl_machine_set_sites(machine, gpu->sites);
    for (size_t i = 0; i < DL_LENGTH(of_sites); i++) {
        const dl_ini_entry *entry = dl_ini_find(ini, of_sites[i][0], of_sites[i][1]);
        if (entry == NULL || machine->site_count > 0) continue;
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "%s has no sites: this needs [network] sites (--set network.sites=2)",
                            machine->path);
    }
    if (gpu->site_bytes_per_s.known && !limits_sites(machine))
        for (int i = 0; i < machine->site_count; i++)
            machine->sites[i].bytes_per_s = gpu->site_bytes_per_s;
    if (gpu->site_latency_ns.known)
        dl_machine_set_site_latency(machine, gpu->site_latency_ns.value);
    return DL_OK;
}

static dl_status read_gpu_machine(dl_scenario *scenario, const dl_ini *ini,
                                  const dl_ini_entry *file, dl_sweep_lists *lists, dl_error *err)
{
    DL_AUTOFREE char *path = dl_ini_beside(ini, file->value);
    dl_gpu_options *gpu = scenario->gpu = dl_calloc(1, sizeof *gpu, "machine");
    dl_status status = dl_machine_open(&gpu->machine, path, err);
    if (status == DL_OK) status = read_nodes(&gpu->machine, ini, err);
    if (status != DL_OK) return status;
    if ((status = read_gpus(gpu, ini, err)) ||
        (status = read_placement(gpu, ini, &lists->workers, err)) ||
        (status = dl_keys_read(&dl_scenario_keys, DL_OF_GPU, ini, NULL, gpu, err)) ||
        (status = take_network(gpu, ini, err)) ||
        (status = dl_machine_read_slots(&gpu->machine, ini, err)) ||
        (status = check_fabric(&gpu->machine, ini, err)) || (status = read_shards(gpu, ini, err)) ||
        (status = read_algorithm(gpu, ini, err))) {
        return status;
    }
    if (gpu->port_bytes_per_s.known && dl_machine_has_unlike_ports(&gpu->machine)) {
        return dl_ini_error(
            ini, dl_ini_find(ini, "machine", "port_bytes_per_s"), DL_ERR_UNSUPPORTED, err,
            "the ports of %s differ between nodes: change their [link]s there", gpu->machine.path);
    }
    gpu->prefetch = scenario->input.prefetch;
    gpu->storage_bytes_per_s = scenario->input.storage_bytes_per_s;
    gpu->cached_frac = scenario->input.cached_frac;
    dl_links_init(&gpu->links, &gpu->machine);
    gpu->own_overlap = dl_ini_find(ini, "exchange", "overlap") == NULL;
    gpu->own_buckets = dl_ini_find(ini, "exchange", "bucket_bytes") == NULL;
    lists->cores.values = dl_calloc(1, sizeof(double), "swept values");
    lists->cores.values[0] = DL_CORES_GPU;
    lists->cores.count = 1;
    status = resolve_workers(gpu, ini, &lists->workers, err);
    return status == DL_OK ? check_workers(gpu, ini, &lists->workers, err) : status;
}

dl_status dl_scenario_read_workers(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                   dl_error *err)
{
    const dl_ini_entry *file = dl_ini_find(ini, "machine", "file");
    static const double one = 1; /* default of a key whose value follows from other keys */
    const bool generates = dl_ini_section_line(ini, "generators") > 0;
    const bool placed =
        generates || (file != NULL && (dl_ini_find(ini, "machine", "placement") != NULL ||
                                       dl_ini_find(ini, "machine", "layout") != NULL ||
                                       dl_ini_find(ini, "pipeline", "gpus") != NULL));
    const dl_key *workers = dl_keys_find(&dl_scenario_keys, "machine", "workers");
    const dl_key *cores = dl_keys_find(&dl_scenario_keys, "machine", "cores");
    dl_status status =
        dl_sweep_list_read(&lists->workers, ini, workers, read_workers, placed ? &one : NULL, err);
    if (status != DL_OK) return status;
    if (file != NULL) return read_gpu_machine(scenario, ini, file, lists, err);
    status = resolve_workers(NULL, ini, &lists->workers, err);
    if (status != DL_OK) return status;
    return dl_sweep_list_read(&lists->cores, ini, cores, read_cores, generates ? &one : NULL, err);
}
