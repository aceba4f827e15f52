/* Random scenarios for GPU machines and cores, in which every key of the tables of scenarios,
 * machines and costs may occur; checks properties that hold for all of them. Each scenario begins
 * as a small one that can run, to which random keys are added as long as they are not refused. The
 * seed of a scenario that violates a property is printed with its text.
 *
 * RANDOM_KEYS="FIRST COUNT" in the environment tries seeds other than the default, and prints those
 * that take long. RANDOM_KEYS=write writes the default scenarios into the working directory without
 * running them (scripts/freeze.sh). */
#include "tests/sim_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/machine.h"
#include "common/random.h"
#include "common/units.h"
#include "sim/scenario/keys.h"
#include "sim/sweep.h"

enum { ON_GPUS = 1500, ON_CORES = 500, ENTRIES = 160, TEXT_BYTES = 16384, VALUE_BYTES = 96 };

/* Limit on the events of a run; the longest default run has a hundredth of it. */
#define EVENTS_MAX INT64_C(100000000)

typedef struct entry {
    char section[40], key[40], value[VALUE_BYTES];
} entry;

/* An INI file under construction. */
typedef struct text {
    entry entries[ENTRIES];
    int count;
} text;

typedef struct made {
    int seed;
    bool on_cores;
    bool may_lack_costs; /* also accepts scenarios that lack costs, or whose costs do not match */
    dl_random random;
    int nodes, gpus, workers; /* gpus: per node; on cores, the number for which keys are drawn */
    text machine, costs, scenario;
    char machine_path[64], costs_path[64], scenario_path[64];
    char printed[3 * TEXT_BYTES];
} made;

static int below(made *m, int end)
{
    return (int)dl_random_below(&m->random, (uint64_t)end);
}

/* A log-uniform number between low and high. */
static double spread(made *m, double low, double high)
{
    return low * pow(high / low, dl_random_uniform(&m->random));
}

static const char *one_of(made *m, const char *const *values)
{
    int count = 0;
    while (values[count] != NULL)
        count++;
    return values[below(m, count)];
}

/* --- texts ---------------------------------------------------------------------------------- */

static void put(text *t, const char *section, const char *key, const char *format, ...)
    DL_PRINTF(4, 5);
static void put(text *t, const char *section, const char *key, const char *format, ...)
{
    int at = 0;
    while (at < t->count &&
           (strcmp(t->entries[at].section, section) != 0 || strcmp(t->entries[at].key, key) != 0))
        at++;
    if (at == ENTRIES) return;
    entry *e = &t->entries[at];
    if (at == t->count) t->count++;
    snprintf(e->section, sizeof e->section, "%s", section);
    snprintf(e->key, sizeof e->key, "%s", key);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(e->value, sizeof e->value, format, arguments);
    va_end(arguments);
}

/* Prints sections in the order of their first keys. */
static void print(const text *t, char *into, size_t bytes)
{
    size_t used = 0;
    into[0] = '\0';
    for (int i = 0; i < t->count; i++) {
        bool is_first = true;
        for (int j = 0; j < i; j++)
            is_first &= strcmp(t->entries[j].section, t->entries[i].section) != 0;
        if (!is_first) continue;
        used += (size_t)snprintf(into + used, bytes - used, "[%s]\n", t->entries[i].section);
        for (int j = i; j < t->count; j++) {
            if (strcmp(t->entries[j].section, t->entries[i].section) != 0) continue;
            used += (size_t)snprintf(into + used, bytes - used, "%s = %s\n", t->entries[j].key,
                                     t->entries[j].value);
        }
    }
}

static void save(const text *t, const char *path)
{
    char all[TEXT_BYTES];
    print(t, all, sizeof all);
    FILE *out = fopen(path, "w");
    if (out == NULL || fputs(all, out) < 0 || fclose(out) != 0) fail_msg("cannot write %s", path);
}

/* --- keys of the tables ---------------------------------------------------------------------- */

/* Draws numbers that give runs of some 10,000 events; the tables' ranges only exclude typing
 * errors. */
static void number_of(made *m, const dl_key *key, char *value)
{
    double low = key->low, high = key->high;
    switch (key->dimension) {
    case DL_DIMENSION_BYTES_PER_S: low = 1e7, high = 1e12; break;
    case DL_DIMENSION_BYTES: low = fmax(low, 2e4), high = fmin(high, 1e7); break;
    case DL_DIMENSION_FLOP_PER_S: low = 1e12, high = 1e15; break;
    case DL_DIMENSION_NS: low = fmax(low, 1), high = fmin(high, 1e6); break;
    default:
        high = fmin(high, 64);
        if (strstr(key->name, "_s") != NULL && key->low < 1e-2) low = 1e-6, high = 1e-2;
        if (key->low > 0 && high < key->low) high = 10 * key->low;
    }
    const bool is_whole = key->type == DL_KEY_INT || key->type == DL_KEY_INT64;
    const bool may_be_none = key->low <= 0 && below(m, 4) == 0;
    if (low <= 0) low = is_whole ? 1 : 1e-3;
    const double number = may_be_none ? 0 : high > low ? spread(m, low, high) : low;
    snprintf(value, VALUE_BYTES, is_whole ? "%.0f" : "%.6g", number);
}

/* Draws a list of `each`, a text with %d for a worker or GPU. */
static void list_of(made *m, char *value, const char *separator, int most,
                    void (*each)(made *m, char *into, int number))
{
    size_t used = 0;
    value[0] = '\0';
    for (int i = 0, first = 1; i < most; i++) {
        char one[40];
        if (below(m, 2) == 0) continue;
        each(m, one, i);
        if (used + strlen(one) + 3 > VALUE_BYTES) return;
        used +=
            (size_t)snprintf(value + used, VALUE_BYTES - used, "%s%s", first ? "" : separator, one);
        first = 0;
    }
}

static void put_number(made *m DL_UNUSED, char *into, int number)
{
    snprintf(into, 40, "%d", number);
}

static void put_slow(made *m, char *into, int number)
{
    snprintf(into, 40, "%d:%.3g", number, spread(m, 0.3, 4));
}

static void put_away(made *m, char *into, int number)
{
    const double from_s = below(m, 3) == 0 ? 0 : spread(m, 1e-5, 1e-2);
    if (below(m, 4) == 0 && from_s > 0) {
        snprintf(into, 40, "%d:%.3g-", number, from_s);
    } else {
        snprintf(into, 40, "%d:%.3g-%.3g", number, from_s, from_s + spread(m, 1e-5, 1e-2));
    }
}

static void put_time(made *m, char *into, int number)
{
    snprintf(into, 40, "%.3g", 1e-3 * (number + dl_random_uniform(&m->random)));
}

/* Draws values of keys with special grammars; false: the key is left out. */
static bool own_value(made *m, const dl_key *key, char *value)
{
    static const char *const counts[] = {"1", "2", "3", "workers", "nodes", NULL};
    const char *name = key->name;
    if (key->choices != NULL) {
        snprintf(value, VALUE_BYTES, "%s", one_of(m, key->choices));
    } else if (strcmp(name, "shards") == 0) {
        snprintf(value, VALUE_BYTES, "%s", one_of(m, counts));
    } else if (strcmp(name, "gpus") == 0 && strcmp(key->section, "machine") == 0) {
        list_of(m, value, ", ", m->nodes * m->gpus, put_number);
    } else if (strcmp(name, "placement") == 0) {
        for (int n = 0; n < m->nodes; n++)
            value[n] = (char)('0' + below(m, m->gpus + 1));
        value[m->nodes] = '\0';
    } else if (strcmp(name, "where") == 0) {
        static const char *const places[] = {"auto", "cpu", "allreduce", "gpu:%d", NULL};
        snprintf(value, VALUE_BYTES, "%s", one_of(m, places));
        if (value[0] == 'g') snprintf(value, VALUE_BYTES, "gpu:%d", below(m, m->nodes * m->gpus));
    } else if (strcmp(name, "away") == 0) {
        list_of(m, value, ", ", m->workers, put_away);
    } else if (strcmp(name, "slow") == 0) {
        list_of(m, value, ", ", m->workers, put_slow);
    } else if (strcmp(name, "at_s") == 0) {
        list_of(m, value, ", ", 3, put_time);
    } else {
        return false;
    }
    return value[0] != '\0';
}

static bool value_of(made *m, const dl_key *key, char *value)
{
    static const char *const flags[] = {"no", "yes", NULL};
    switch (key->type) {
    case DL_KEY_CHOICE: snprintf(value, VALUE_BYTES, "%s", one_of(m, key->choices)); return true;
    case DL_KEY_FLAG:
        snprintf(value, VALUE_BYTES, "%s", one_of(m, key->choices != NULL ? key->choices : flags));
        return true;
    case DL_KEY_INT:
    case DL_KEY_INT64:
    case DL_KEY_REAL:
    case DL_KEY_QUANTITY: number_of(m, key, value); return true;
    case DL_KEY_OWN:
        if (key->choices == NULL && key->high > key->low && key->form == NULL) {
            number_of(m, key, value);
            return true;
        }
        return own_value(m, key, value);
    case DL_KEY_TEXT: break;
    }
    return false;
}

/* Whether the key is set explicitly: files, and keys that determine the length of a run. */
static bool is_fixed(const dl_key *key)
{
    static const char *const names[][2] = {
        {"scenario", "steps"},       {"scenario", "seed"},      {"scenario", "replicates"},
        {"machine", "file"},         {"machine", "workers"},    {"workload", "costs"},
        {"workload", "batch"},       {"workload", "model"},     {"workload", "samples_per_s"},
        {"costs", "schema"},         {"workload", "gpu_costs"}, {"workload", "scale_compute"},
        {"costs", "batch_min"},      {"costs", "batch_max"},    {"machine", "nodes"},
        {"network", "first_use_ns"}, {"traffic *", "every_ns"}, {"fabric", "topology"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(key->section, names[i][0]) == 0 && strcmp(key->name, names[i][1]) == 0)
            return true;
    return strstr(key->name, "*") != NULL;
}

/* Finds an existing section that matches the pattern; false: there is none. */
static bool section_of(made *m, const text *t, const char *pattern, char *section)
{
    const size_t bytes = strcspn(pattern, "*");
    const char *found[ENTRIES];
    int count = 0;
    snprintf(section, 40, "%s", pattern);
    if (pattern[bytes] == '\0') return true;
    for (int i = 0; i < t->count; i++)
        if (strncmp(t->entries[i].section, pattern, bytes) == 0)
            found[count++] = t->entries[i].section;
    if (count == 0) return false;
    snprintf(section, 40, "%s", found[below(m, count)]);
    return true;
}

/* Adds up to `most` keys of the table that `is_taken` accepts. */
static void put_keys(made *m, text *t, const dl_keys *keys, int most, bool (*is_taken)(made *m))
{
    for (int i = 0; i < most; i++) {
        const dl_key *key = &keys->rows[below(m, (int)keys->count)];
        char value[VALUE_BYTES] = "", section[40];
        if (is_fixed(key) || !section_of(m, t, key->section, section) || !value_of(m, key, value))
            continue;
        const text before = *t;
        put(t, section, key->name, "%s", value);
        if (!is_taken(m)) *t = before;
    }
}

/* --- a scenario ------------------------------------------------------------------------------ */

static bool machine_is_taken(made *m)
{
    char all[TEXT_BYTES];
    dl_machine machine = {0};
    print(&m->machine, all, sizeof all);
    const bool taken = dl_machine_read_text(&machine, "m.ini", all, strlen(all), NULL) == DL_OK;
    if (taken) dl_machine_free(&machine);
    return taken;
}

static dl_status read_study(made *m, dl_study *study, dl_error *err)
{
    char all[TEXT_BYTES];
    print(&m->scenario, all, sizeof all);
    *study = (dl_study){0};
    return dl_study_read_text(study, "s.ini", all, strlen(all), err);
}

static bool scenario_is_taken(made *m)
{
    dl_study study;
    dl_error err = {0};
    if (read_study(m, &study, &err) != DL_OK) return false;
    const char *path = NULL;
    char *missing = NULL;
    const bool taken = m->may_lack_costs || (dl_study_read_costs(&study, &err) == DL_OK &&
                                             (missing = dl_study_missing(&study, &path)) == NULL);
    free(missing);
    dl_study_free(&study);
    return taken;
}

static bool costs_are_taken(made *m)
{
    char all[TEXT_BYTES];
    dl_costs costs = {0};
    print(&m->costs, all, sizeof all);
    if (dl_costs_read_text(&costs, "c.ini", all, strlen(all), NULL) != DL_OK) return false;
    dl_costs_free(&costs);
    save(&m->costs, m->costs_path);
    return scenario_is_taken(m);
}

/* Adds switches between the nodes, without which the other keys of [fabric] are refused. */
static void put_topology(made *m, text *t)
{
    static const char *const topologies[] = {"fat_tree", "rail", "dragonfly", "torus", NULL};
    const char *topology = one_of(m, topologies);
    const bool is_torus = strcmp(topology, "torus") == 0;
    put(t, "fabric", "topology", "%s", topology);
    put(t, "fabric", is_torus ? "size_x" : "group_nodes", "%d",
        is_torus ? m->nodes : 1 + below(m, m->nodes));
}

static void make_machine(made *m)
{
    static const char *const peers[] = {"none", "switch", "socket", "all", NULL};
    text *t = &m->machine;
    const int sockets = 1 + below(m, 2), switches = below(m, 3);
    const bool differs = m->nodes > 1 && below(m, 4) == 0;
    put(t, "machine", "schema", "1");
    put(t, "machine", "name", "m");
    put(t, "machine", "nodes", "%d", m->nodes);
    put(t, "machine", "peer", "%s", one_of(m, peers));
    for (int g = 0; g < 2; g++) {
        const char *model = g == 0 ? "gpu_model g" : "gpu_model h";
        put(t, model, "memory_bytes", "40GB");
        put(t, model, "memory_bytes_per_s", "%.4g", spread(m, 1e10, 1e12));
        put(t, model, "fp32_flop_per_s", "%.4g", spread(m, 1e12, 1e14));
    }
    static const char *const links[] = {"link slot", "link wire", "link nv"};
    for (int l = 0; l < 3; l++) {
        put(t, links[l], "bytes_per_s", "%.4g", spread(m, 1e8, 1e11));
        put(t, links[l], "latency_ns", "%.0f", below(m, 3) == 0 ? 0 : spread(m, 100, 1e5));
    }
    put(t, "host", "memory_bytes_per_s", "%.4g", spread(m, 1e9, 1e12));
    put(t, "host", "sockets", "%d", sockets);
    if (sockets > 1) put(t, "host", "socket_link", "slot");
    for (int s = 0; s < switches; s++) {
        char name[40];
        snprintf(name, sizeof name, "switch sw%d", s);
        put(t, name, "parent", s > 0 && below(m, 2) == 0 ? "sw0" : "socket%d", below(m, sockets));
        put(t, name, "link", "slot");
    }
    for (int g = 0; g < m->gpus; g++) {
        char name[40];
        snprintf(name, sizeof name, "gpus %d", g);
        put(t, name, "model", below(m, 5) == 0 ? "h" : "g");
        put(t, name, "parent", switches > 0 && below(m, 2) == 0 ? "sw%d" : "socket%d",
            switches > 0 ? below(m, sockets < switches ? sockets : switches) : below(m, sockets));
        put(t, name, "link", "slot");
    }
    put(t, "nics 0", "parent", "socket0");
    put(t, "nics 0", "link", "slot");
    put(t, "nics 0", "port", "wire");
    if (m->gpus > 1 && below(m, 3) == 0) {
        put(t, "nvlinks a", "link", "nv");
        put(t, "nvlinks a", "pairs", m->gpus > 2 && below(m, 2) == 0 ? "0-1, 1-2" : "0-1");
    }
    if (below(m, 4) == 0) put(t, "nvswitch", "link", "nv");
    if (differs) put(t, "nodes 1", "model", "h");
    if (m->nodes > 1 && below(m, 4) == 0) {
        put(t, "site a", "bytes_per_s", "%.4g", spread(m, 1e7, 1e10));
        put(t, "site b", "latency_ns", "%.0f", spread(m, 1e3, 1e6));
    }
    if (m->nodes > 1 && below(m, 6) == 0) {
        put(t, "traffic a", "from", "0");
        put(t, "traffic a", "to", "1");
        put(t, "traffic a", "bytes", "%.0f", spread(m, 1e4, 1e6));
        put(t, "traffic a", "every_ns", "%.0f", spread(m, 1e5, 1e7));
    }
    if (m->nodes > 1 && below(m, 6) == 0) put_topology(m, t);
    if (!machine_is_taken(m)) *t = (text){0}; /* an invalid tree is drawn again */
}

static void make_costs(made *m)
{
    text *t = &m->costs;
    put(t, "costs", "schema", "1");
    put(t, "costs", "parameter_bytes", "%.0f", spread(m, 10, 1e6));
    put(t, "costs", "state_bytes", "%.0f", below(m, 2) == 0 ? 0 : spread(m, 10, 1e6));
    static const char *const ops[] = {"op a.forward", "op a.backward", "op b.backward",
                                      "op a.update",  "op input",      "op c.bucket"};
    for (int o = 0; o < 6; o++) {
        if (o > 0 && below(m, 3) == 0) continue;
        put(t, ops[o], "fixed_ns", "%.0f", spread(m, 1e3, 1e5));
        put(t, ops[o], "per_sample_ns", "%.0f", below(m, 2) == 0 ? 0 : spread(m, 1, 1e4));
    }
    if (below(m, 3) == 0) {
        put(t, "gradients", "ready_1", "%.3f, %.0f", 0.4, 1e4);
        put(t, "gradients", "ready_2", "%.3f, %.0f", 1.0, 2e4);
    }
}

static void make_scenario(made *m)
{
    text *t = &m->scenario;
    put(t, "scenario", "steps", "%d", 4 + below(m, 20));
    put(t, "scenario", "seed", "%d", m->seed);
    put(t, "scenario", "replicates", "%d", 1 + below(m, 2));
    put(t, "machine", "workers", "%d", m->workers);
    if (m->on_cores) {
        put(t, "machine", "cores", "%d", 1 + below(m, m->nodes * m->gpus));
    } else {
        put(t, "machine", "file", "%s", m->machine_path);
    }
    if (!m->on_cores && m->workers > m->nodes * m->gpus) {
        size_t used = 0;
        char all[VALUE_BYTES];
        for (int g = 0; g < m->nodes * m->gpus; g++)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%d", g > 0 ? ", " : "", g);
        put(t, "machine", "gpus", "%s", all);
    }
    put(t, "workload", "costs", "%s", m->costs_path);
    put(t, "workload", "batch_per_worker", "%d", 1 + below(m, 8));
    if (below(m, 4) > 0) put(t, "sync", "mode", "%s", one_of(m, dl_mode_names));
    if (!m->on_cores && m->nodes > 1 && below(m, 3) == 0) put_topology(m, t);
}

static void make(made *m, int seed, bool on_cores)
{
    const char *platform = on_cores ? "cores" : "gpus";
    *m = (made){.seed = seed, .on_cores = on_cores};
    dl_random_init(&m->random, (uint64_t)seed, on_cores, 0, 0);
    snprintf(m->machine_path, sizeof m->machine_path, "%s_%d.m.ini", platform, seed);
    snprintf(m->costs_path, sizeof m->costs_path, "%s_%d.c.ini", platform, seed);
    snprintf(m->scenario_path, sizeof m->scenario_path, "%s_%d.ini", platform, seed);
    do {
        m->nodes = 1 + below(m, on_cores ? 1 : 5);
        m->gpus = 1 + below(m, on_cores ? 8 : 4);
        if (!on_cores) make_machine(m);
    } while (!on_cores && m->machine.count == 0);
    if (!on_cores) {
        put_keys(m, &m->machine, &dl_machine_keys, below(m, 12), machine_is_taken);
        save(&m->machine, m->machine_path);
    }
    m->may_lack_costs = below(m, 16) == 0;
    do {
        make_costs(m);
        save(&m->costs, m->costs_path);
        m->scenario = (text){0};
        m->workers = 1 + below(m, below(m, 8) == 0 ? 2 * m->nodes * m->gpus : m->nodes * m->gpus);
        make_scenario(m);
    } while (!scenario_is_taken(m));
    put_keys(m, &m->costs, &dl_cost_keys, below(m, 12), costs_are_taken);
    save(&m->costs, m->costs_path);
    put_keys(m, &m->scenario, &dl_scenario_keys, 4 + below(m, 60), scenario_is_taken);
    size_t used = 0;
    const text *const texts[] = {&m->machine, &m->costs, &m->scenario};
    static const char *const names[] = {"m.ini", "c.ini", "s.ini"};
    for (int i = on_cores ? 1 : 0; i < 3; i++) {
        used += (size_t)snprintf(m->printed + used, sizeof m->printed - used, "--- %s\n", names[i]);
        print(texts[i], m->printed + used, sizeof m->printed - used);
        used += strlen(m->printed + used);
    }
}

/* --- what holds for all ---------------------------------------------------------------------- */

static void fail_with(const made *m, const char *what)
{
    fprintf(stderr, "%s", m->printed);
    fail_msg("seed %d: %s", m->seed, what);
}

#define holds(m, expr)                    \
    do {                                  \
        if (!(expr)) fail_with(m, #expr); \
    } while (0)

typedef struct bound {
    int64_t asked;
} bound;

static bool goes_on(void *user, double done_frac DL_UNUSED, double step_frac DL_UNUSED)
{
    bound *b = user;
    return ++b->asked * DL_ENGINE_WATCH_EVENTS < EVENTS_MAX;
}

/* Whether the run fails for an expected reason: all workers leave, or they wait for one another as
 * the scenario requires. */
static bool is_refused(const made *m, dl_status status, const dl_error *err)
{
    static const char *const expected[] = {
        "dispatch = per_gpu avoids that",
        "all workers leave before",
        "a step takes no time",
        "are not simulated beside split",
        "cannot do",
    };
    if (status == DL_OK) return false;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (strstr(err->text, expected[i]) != NULL) return true;
    fail_with(m, err->text);
    return true;
}

static bool run(const made *m, const dl_variant *variant, const dl_point *point,
                dl_run_result *result)
{
    bound b = {0};
    const dl_run_watch watch = {goes_on, &b};
    const dl_run_config config = {
        .scenario = &variant->scenario, .costs = &variant->costs, .point = point, .watch = &watch};
    dl_error err = {0};
    *result = (dl_run_result){0};
    return !is_refused(m, dl_run(&config, result, &err), &err);
}

static void check_parts(const made *m, const dl_run_result *r)
{
    double sum = 0;
    for (int part = 0; part < DL_PART_COUNT; part++) {
        holds(m, r->part_frac[part] >= -1e-9);
        sum += r->part_frac[part];
    }
    holds(m, fabs(sum - 1) < 1e-6);
    holds(m, r->usage.busiest_frac >= 0 && r->usage.busiest_frac <= 1 + 1e-6);
    holds(m, r->usage.link_frac >= 0 && r->usage.link_frac <= 1 + 1e-6);
}

/* Every sample belongs to a step that was done; every upload has one outcome. */
static void check_counts(const made *m, const dl_variant *variant, const dl_point *point,
                         const dl_run_result *r)
{
    const double interval = fmax(1, point->option[DL_SYNC_INTERVAL]);
    const double steps = (double)(variant->scenario.steps + variant->scenario.warmup) + interval;
    const bool may_lose = point->mode->options & (1u << DL_SYNC_SYNCER | 1u << DL_SYNC_AWAY);
    holds(m, r->throughput_per_s >= 0 && isfinite(r->throughput_per_s));
    holds(m, r->throughput_per_s > 0 || may_lose);
    holds(m, r->samples >= 0 && r->samples <= steps * (double)point->batch * (1 + 1e-9));
    holds(m, r->span_s > 0 && r->step_p50_s >= 0 && r->step_p99_s >= r->step_p50_s * (1 - 1e-9));
    holds(m, fabs(r->throughput_per_s * r->span_s - r->samples) <= 1e-6 * (1 + r->samples));
    if (r->syncer == NULL || r->syncer->uploaded > 0)
        holds(m, r->applied_frac >= -1e-12 && r->applied_frac <= 1 + 1e-12);
    holds(m, r->tail_frac >= 0 && r->tail_frac <= 1);
    if (!isnan(r->goodput_frac)) holds(m, r->goodput_frac >= 0 && r->goodput_frac <= 1 + 1e-9);
    if (!isnan(r->away_frac)) holds(m, r->away_frac >= 0 && r->away_frac <= 1 + 1e-9);
    if (r->averaging != NULL && !isnan(r->averaging->utilisation_frac))
        holds(m, r->averaging->utilisation_frac >= 0 && r->averaging->utilisation_frac <= 1 + 1e-9);
    if (r->syncer == NULL) return;
    const dl_syncer_result *s = r->syncer;
    holds(m, s->uploaded == s->applied + s->too_stale + s->superseded + s->unmerged);
    holds(m, s->goodput_frac >= 0 && s->goodput_frac <= 1 + 1e-9);
}

/* As in test_random_scenarios. */
static void check_staleness(const made *m, const dl_variant *variant, const dl_point *point,
                            const dl_run_result *r)
{
    double sum = 0, count = 0;
    for (int i = 0; i < r->staleness_rows * r->staleness_bins; i++) {
        holds(m, r->staleness[i] >= 0);
        count += (double)r->staleness[i];
        sum += (double)r->staleness[i] * (i % r->staleness_bins);
    }
    if (point->mode == &dl_mode_async && count > 0 && variant->scenario.warmup == 0)
        holds(m, sum / count <= point->workers - 1 + 1e-9);
}

static void check_threads(const made *m, const dl_study *study)
{
    dl_sweep sweeps[2] = {{0}};
    dl_status status = DL_OK;
    dl_error err = {0};
    for (int i = 0; i < 2 && status == DL_OK; i++) {
        const dl_sweep_config config = {.threads = 1 + i, .no_influences = true};
        status = dl_sweep_run(&sweeps[i], study, &config, &err);
    }
    if (!is_refused(m, status, &err)) {
        const dl_row *one = &sweeps[0].rows[0], *two = &sweeps[1].rows[0];
        const double ones[] = {one->mean.throughput_per_s, one->mean.step_mean_s, one->speedup,
                               one->low_per_s, one->mean.part_frac[DL_PART_COMMUNICATION]};
        const double twos[] = {two->mean.throughput_per_s, two->mean.step_mean_s, two->speedup,
                               two->low_per_s, two->mean.part_frac[DL_PART_COMMUNICATION]};
        for (size_t f = 0; f < sizeof ones / sizeof *ones; f++)
            holds(m, memcmp(&ones[f], &twos[f], sizeof ones[f]) == 0 ||
                         (isnan(ones[f]) && isnan(twos[f])));
    }
    for (int i = 0; i < 2; i++)
        dl_sweep_free(&sweeps[i]);
}

/* Runs all checks; false: the scenario is refused. */
static bool check_study(made *m, dl_study *study)
{
    const dl_variant *variant = &study->variants[0];
    const dl_point *point = &variant->scenario.points[0];
    const char *path = NULL;
    DL_AUTOFREE char *missing = dl_study_missing(study, &path);
    dl_run_result r;
    const bool ran = missing == NULL && run(m, variant, point, &r);
    if (ran) {
        check_parts(m, &r);
        check_counts(m, variant, point, &r);
        check_staleness(m, variant, point, &r);
        dl_run_result_free(&r);
        if (m->seed % 3 == 0) check_threads(m, study);
    }
    return ran;
}

static void keep_the_rules(int count, bool on_cores)
{
    int first = 0, ran = 0;
    const char *wanted = getenv("RANDOM_KEYS");
    const bool is_to_write = wanted != NULL && strcmp(wanted, "write") == 0;
    if (wanted != NULL && !is_to_write) sscanf(wanted, "%d %d", &first, &count);
    DL_AUTOFREE made *m = calloc(1, sizeof *m);
    assert_non_null(m);
    for (int seed = first; seed < first + count; seed++) {
        dl_study study;
        dl_error err = {0};
        make(m, seed, on_cores);
        if (is_to_write) {
            save(&m->scenario, m->scenario_path);
            continue;
        }
        if (wanted != NULL) fprintf(stderr, "at %d\n", seed);
        if (wanted != NULL && count == 1) fprintf(stderr, "%s", m->printed);
        const int64_t start_ns = dl_clock_ns();
        if (read_study(m, &study, &err) != DL_OK) fail_with(m, err.text);
        if (dl_study_read_costs(&study, &err) == DL_OK) ran += check_study(m, &study);
        dl_study_free(&study);
        const int64_t ns = dl_clock_ns() - start_ns;
        if (wanted != NULL && ns > 2 * DL_NS_PER_S)
            fprintf(stderr, "seed %d: %.1f s\n", seed, dl_ns_to_s((double)ns));
        unlink(m->machine_path);
        unlink(m->costs_path);
    }
    assert_true(wanted != NULL || 100 * ran > 95 * count);
}

static void random_machines_keep_the_rules(void **state DL_UNUSED)
{
    keep_the_rules(ON_GPUS, false);
}

static void random_cores_keep_the_rules(void **state DL_UNUSED)
{
    keep_the_rules(ON_CORES, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_machines_keep_the_rules),
        cmocka_unit_test(random_cores_keep_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
