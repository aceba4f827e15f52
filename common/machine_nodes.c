/* Nodes of a machine file: the kind of each node, and the sections of the kinds. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/machine.h"
#include "common/machine_internal.h"
#include "common/names.h"
#include "common/sort.h"

/* --- nodes ------------------------------------------------------------------------------------ */

/* Returns the run of a node: the last run that starts at or before it. */
static const dl_node_run *run_of(const dl_machine *m, int node)
{
    size_t after = 0;
    DL_BISECT(after, (size_t)m->run_count, m->runs[after].first <= node);
    return &m->runs[after - 1];
}

int dl_machine_kind(const dl_machine *machine, int node)
{
    return machine->run_count == 1 ? machine->runs[0].kind : run_of(machine, node)->kind;
}

const dl_node_kind *dl_machine_node(const dl_machine *machine, int node)
{
    return &machine->kinds[dl_machine_kind(machine, node)];
}

int dl_machine_gpus_before(const dl_machine *machine, int nodes)
{
    const dl_node_run *run = run_of(machine, nodes);
    return run->first_gpu + (nodes - run->first) * machine->kinds[run->kind].gpu_count;
}

int dl_machine_gpus(const dl_machine *machine)
{
    return dl_machine_gpus_before(machine, machine->nodes);
}

int64_t dl_machine_nodes_for(const dl_machine *machine, int64_t gpus)
{
    if (gpus <= dl_machine_gpus(machine)) return machine->nodes;
    const dl_node_run *last = &machine->runs[machine->run_count - 1];
    int index;
    if (gpus < last->first_gpu) return dl_machine_find_gpu(machine, (int)gpus - 1, &index) + 1;
    const int per_node = machine->kinds[last->kind].gpu_count;
    return last->first + (gpus - last->first_gpu + per_node - 1) / per_node;
}

int dl_machine_most_gpus(const dl_machine *machine)
{
    int most = 0;
    for (int r = 0; r < machine->run_count && machine->runs[r].first < machine->nodes; r++) {
        const int gpus = machine->kinds[machine->runs[r].kind].gpu_count;
        if (gpus > most) most = gpus;
    }
    return most;
}

int dl_machine_fewest_nics(const dl_machine *machine)
{
    int fewest = INT32_MAX;
    for (int r = 0; r < machine->run_count && machine->runs[r].first < machine->nodes; r++) {
        const int nics = machine->kinds[machine->runs[r].kind].nic_count;
        if (nics < fewest) fewest = nics;
    }
    return fewest;
}

int dl_machine_find_gpu(const dl_machine *machine, int number, int *index)
{
    size_t after = 0;
    DL_BISECT(after, (size_t)machine->run_count, machine->runs[after].first_gpu <= number);
    const dl_node_run *run = &machine->runs[after - 1];
    const int per_node = machine->kinds[run->kind].gpu_count, left = number - run->first_gpu;
    *index = left % per_node;
    return run->first + left / per_node;
}

int dl_machine_model_number(const dl_machine *machine, int node, int index)
{
    return dl_machine_node(machine, node)->gpus[index].model;
}

const dl_gpu_model *dl_machine_model(const dl_machine *machine, int node, int index)
{
    return &machine->models[dl_machine_model_number(machine, node, index)];
}

static int links_of(const dl_machine *m, int kind)
{
    return m->kinds[kind].name != NULL ? kind : 0;
}

int dl_machine_links_kind(const dl_machine *machine, int node)
{
    return links_of(machine, dl_machine_kind(machine, node));
}

bool dl_machine_has_unlike_nodes(const dl_machine *machine)
{
    const int first = links_of(machine, machine->runs[0].kind);
    for (int r = 1; r < machine->run_count && machine->runs[r].first < machine->nodes; r++)
        if (links_of(machine, machine->runs[r].kind) != first) return true;
    return false;
}

static bool has_port(const dl_node_kind *node, int class)
{
    for (int i = 0; i < node->nic_count; i++)
        if (node->nics[i].port == class) return true;
    return false;
}

bool dl_machine_has_unlike_ports(const dl_machine *machine)
{
    const dl_node_kind *first = &machine->kinds[machine->runs[0].kind];
    for (int r = 1; r < machine->run_count && machine->runs[r].first < machine->nodes; r++) {
        const dl_node_kind *node = &machine->kinds[machine->runs[r].kind];
        for (int i = 0; i < node->nic_count; i++)
            if (!has_port(first, node->nics[i].port)) return true;
    }
    return false;
}

bool dl_machine_has_model(const dl_machine *machine, int model)
{
    bool found = false;
    for (int r = 0; r < machine->run_count && machine->runs[r].first < machine->nodes; r++) {
        const dl_node_kind *node = &machine->kinds[machine->runs[r].kind];
        for (int g = 0; g < node->gpu_count; g++)
            found |= node->gpus[g].model == model;
    }
    return found;
}

int dl_machine_parent(const dl_node_kind *node, int place)
{
    return place < node->sockets ? -1 : node->switches[place - node->sockets].parent;
}

int dl_machine_socket(const dl_node_kind *node, int place)
{
    while (place >= node->sockets)
        place = dl_machine_parent(node, place);
    return place;
}

int dl_machine_nvlink(const dl_node_kind *node, int a, int b)
{
    for (int i = 0; i < node->nvlink_count; i++) {
        const dl_nvlink *l = &node->nvlinks[i];
        if ((l->a == a && l->b == b) || (l->a == b && l->b == a)) return i;
    }
    return -1;
}

static void free_kind(dl_node_kind *kind)
{
    for (int i = 0; i < kind->switch_count; i++)
        free(kind->switches[i].name);
    free(kind->switches);
    free(kind->gpus);
    free(kind->nics);
    free(kind->nvlinks);
    free(kind->name);
}

void dl_machine_free_kinds(dl_machine *machine)
{
    for (int i = 0; i < machine->kind_count; i++)
        free_kind(&machine->kinds[i]);
    free(machine->kinds);
    free(machine->runs);
}

/* --- view of the file for one kind ------------------------------------------------------------ */

/* Types of sections about the inside of a node. All kinds share [machine] and [host], except for
 * keys that a kind's section overrides. For each other type, a kind has either only its own
 * sections or only the common ones; a kind with its own GPUs uses no common [switch], [nvlinks],
 * [nvswitch], [shm] or [overlap]. */
static const char *const sorts[] = {"machine", "host",     "switch", "gpus",    "nics",
                                    "nvlinks", "nvswitch", "shm",    "overlap", NULL};
enum {
    SORT_MACHINE,
    SORT_HOST,
    SORT_SWITCH,
    SORT_GPUS,
    SORT_NICS,
    SORT_NVLINKS,
    SORT_NVSWITCH,
    SORT_SHM,
    SORT_OVERLAP,
    SORTS
};

static int sort_of(const char *section)
{
    const size_t bytes = strcspn(section, " ");
    int sort = 0;
    while (sorts[sort] != NULL &&
           (strlen(sorts[sort]) != bytes || strncmp(sorts[sort], section, bytes) != 0))
        sort++;
    return sort;
}

/* Returns the kind in "gpus 0-3 of t4", NULL if there is none; *bytes is the length of the text
 * before it. */
static const char *kind_of(const char *section, size_t *bytes)
{
    const char *found = NULL;
    *bytes = strlen(section);
    if (sort_of(section) == SORTS) return NULL;
    for (const char *at = section; (at = strstr(at, " of ")) != NULL; at++)
        found = at;
    if (found == NULL) return NULL;
    *bytes = (size_t)(found - section);
    return found + strlen(" of ");
}

const dl_key *dl_machine_find_key(const char *section, const char *name)
{
    size_t bytes;
    (void)kind_of(section, &bytes);
    DL_AUTOFREE char *plain = dl_strndup(section, bytes);
    return dl_keys_find(&dl_machine_keys, plain, name);
}

/* A section of a file and its consecutive entries. */
typedef struct section_part {
    const dl_ini_section *section;
    size_t first, end; /* indices of its entries; end is exclusive */
} section_part;

/* Returns the part of section `number`, given that the entries of earlier sections end at
 * `from`. */
static section_part part_of(const dl_ini *ini, size_t number, size_t from)
{
    section_part part = {&ini->sections[number], from, from};
    while (part.end < ini->count && ini->entries[part.end].section == part.section->name)
        part.end++;
    return part;
}

/* Copies a section into the view: the first `bytes` bytes of its name, and its entries except those
 * with keys in `without`, a NULL-terminated list, or NULL. */
static void take_part(dl_ini *view, const dl_ini *ini, const section_part *part, size_t bytes,
                      const char *const *without)
{
    char *name = dl_strndup(part->section->name, bytes);
    DL_APPEND(view->sections, view->section_count, "sections") =
        (dl_ini_section){name, part->section->line};
    for (size_t i = part->first; i < part->end; i++) {
        dl_ini_entry entry = ini->entries[i];
        bool left_out = false;
        for (size_t k = 0; without != NULL && without[k] != NULL; k++)
            left_out |= strcmp(without[k], entry.key) == 0;
        if (left_out) continue;
        entry.section = name;
        DL_APPEND(view->entries, view->count, "entries") = entry;
    }
}

static const char *const prices[] = {"price_usd_per_hour", "gpu_price_usd_per_hour", NULL};

dl_ini dl_machine_view(const dl_ini *ini, const char *kind)
{
    dl_ini view = {.path = ini->path};
    bool has[SORTS] = {false};
    size_t bytes, head = 0;
    while (head < ini->count && ini->entries[head].section[0] == '\0')
        head++;
    for (size_t i = 0, from = head; i < ini->section_count && kind != NULL; i++) {
        const section_part part = part_of(ini, i, from);
        from = part.end;
        const char *own = kind_of(part.section->name, &bytes);
        if (own == NULL || strcmp(own, kind) != 0) continue;
        take_part(&view, ini, &part, bytes, NULL);
        has[sort_of(part.section->name)] = true;
    }
    has[SORT_SWITCH] |= has[SORT_GPUS];
    has[SORT_NVLINKS] |= has[SORT_GPUS];
    has[SORT_NVSWITCH] |= has[SORT_GPUS];
    has[SORT_SHM] |= has[SORT_GPUS];
    has[SORT_OVERLAP] |= has[SORT_GPUS];
    const bool has_price = dl_ini_find(&view, "machine", prices[0]) != NULL ||
                           dl_ini_find(&view, "machine", prices[1]) != NULL;
    for (size_t i = 0, from = head; i < ini->section_count; i++) {
        const section_part part = part_of(ini, i, from);
        from = part.end;
        const int sort = sort_of(part.section->name);
        if (kind_of(part.section->name, &bytes) != NULL) continue;
        if (kind != NULL && (sort == SORTS || (sort >= SORT_SWITCH && has[sort]))) continue;
        take_part(&view, ini, &part, bytes, sort == SORT_MACHINE && has_price ? prices : NULL);
    }
    for (size_t i = 0; i < head && kind == NULL; i++)
        DL_APPEND(view.entries, view.count, "entries") = ini->entries[i];
    return view;
}

void dl_machine_free_view(dl_ini *view)
{
    for (size_t i = 0; i < view->section_count; i++)
        free(view->sections[i].name);
    free(view->sections);
    free(view->entries);
    *view = (dl_ini){0};
}

/* --- numbers of kinds ------------------------------------------------------------------------- */

/* Returns the bits of the numbers that the kind's sections give, or omit by replacing all sections
 * of their type. */
static uint64_t own_numbers(const dl_ini *ini, const char *kind)
{
    uint64_t own = 0, bit = 1;
    bool has[SORTS] = {false};
    size_t bytes;
    for (size_t i = 0; i < ini->section_count; i++) {
        const char *of = kind_of(ini->sections[i].name, &bytes);
        if (of != NULL && strcmp(of, kind) == 0) has[sort_of(ini->sections[i].name)] = true;
    }
    for (size_t k = 0; k < dl_machine_keys.count; k++) {
        const dl_key *key = &dl_machine_keys.rows[k];
        if (key->owner != OF_KIND) continue;
        DL_AUTOFREE char *section = dl_format("%s of %s", key->section, kind);
        const int sort = sort_of(key->section);
        const bool replaced = sort >= SORT_NVSWITCH && (has[SORT_GPUS] || has[sort]);
        if (replaced || dl_ini_find(ini, section, key->name) != NULL) own |= bit;
        bit <<= 1;
    }
    return own;
}

void dl_machine_visit_kind(dl_node_kind *kind, dl_machine_visit_fn visit, void *user)
{
    uint64_t bit = 1;
    for (size_t k = 0; k < dl_machine_keys.count; k++) {
        const dl_key *key = &dl_machine_keys.rows[k];
        if (key->owner != OF_KIND) continue;
        if (key->bounds) {
            DL_AUTOFREE char *section = (kind->own & bit) != 0
                                            ? dl_format("%s of %s", key->section, kind->name)
                                            : dl_strdup(key->section);
            visit(user, section, key, (dl_quantity *)(void *)((char *)kind + key->offset));
        }
        bit <<= 1;
    }
}

/* --- [nodes ..] ------------------------------------------------------------------------------- */

/* Nodes that a section assigns to a kind. */
typedef struct node_range {
    int first, last, kind;
} node_range;

struct dl_node_ranges {
    node_range *all;
    int count;
};

static void *copy_of(const void *parts, int count, size_t size)
{
    void *copy = dl_calloc((size_t)count, size, "parts of a node");
    if (count > 0) memcpy(copy, parts, (size_t)count * size);
    return copy;
}

/* Returns the index of the kind that differs from kind 0 in having GPUs of the model; adds it if
 * needed. */
static int add_kind_of_model(dl_machine *m, int model)
{
    for (int k = 1; k < m->kind_count; k++)
        if (m->kinds[k].name == NULL && m->kinds[k].gpus[0].model == model) return k;
    dl_node_kind kind = m->kinds[0];
    kind.switches = copy_of(kind.switches, kind.switch_count, sizeof *kind.switches);
    for (int i = 0; i < kind.switch_count; i++)
        kind.switches[i].name = dl_strdup(kind.switches[i].name);
    kind.gpus = copy_of(kind.gpus, kind.gpu_count, sizeof *kind.gpus);
    for (int g = 0; g < kind.gpu_count; g++)
        kind.gpus[g].model = model;
    kind.nics = copy_of(kind.nics, kind.nic_count, sizeof *kind.nics);
    kind.nvlinks = copy_of(kind.nvlinks, kind.nvlink_count, sizeof *kind.nvlinks);
    DL_APPEND(m->kinds, m->kind_count, "kinds of nodes") = kind;
    return m->kind_count - 1;
}

/* Checks that the [machine of NAME] of a kind has only keys that a kind may have. */
static dl_status check_own_keys(const dl_machine_reader *r, const char *kind)
{
    DL_AUTOFREE char *section = dl_format("machine of %s", kind);
    dl_status status = DL_OK;
    for (size_t i = 0; i < r->whole->count && status == DL_OK; i++) {
        const dl_ini_entry *entry = &r->whole->entries[i];
        if (strcmp(entry->section, section) != 0) continue;
        const dl_key *key = dl_keys_find(&dl_machine_keys, "machine", entry->key);
        if (key == NULL || key->owner == OF_KIND) continue;
        status = dl_ini_error(r->whole, entry, DL_ERR_NAME, r->err,
                              "this is of the whole machine: in [machine]");
    }
    return status;
}

/* Reads the inside of a kind's nodes; name = NULL: of nodes without a kind. */
static dl_status read_kind(const dl_machine_reader *r, const char *name)
{
    dl_node_kind kind = {.name = name != NULL ? dl_strdup(name) : NULL};
    dl_ini view = dl_machine_view(r->whole, name);
    const dl_machine_reader own = {
        .machine = r->machine, .node = &kind, .ini = &view, .err = r->err};
    dl_status status = name != NULL ? check_own_keys(r, name) : DL_OK;
    if (status == DL_OK && name != NULL) status = dl_keys_check(&dl_machine_keys, &view, r->err);
    if (status == DL_OK) status = dl_machine_read_node(&own);
    if (status != DL_OK && name != NULL && r->err != NULL) {
        const size_t used = strlen(r->err->text);
        snprintf(r->err->text + used, sizeof r->err->text - used, " (nodes of kind %s)", name);
    }
    if (name != NULL) kind.own = own_numbers(r->whole, name);
    dl_machine_free_view(&view);
    DL_APPEND(r->machine->kinds, r->machine->kind_count, "kinds of nodes") = kind;
    return status;
}

static bool has_sections(const dl_ini *ini, const char *kind)
{
    size_t bytes;
    for (size_t i = 0; i < ini->section_count; i++) {
        const char *of = kind_of(ini->sections[i].name, &bytes);
        if (of != NULL && strcmp(of, kind) == 0) return true;
    }
    return false;
}

/* Finds the index of a kind by name; reads the kind on first use. */
static dl_status find_kind(const dl_machine_reader *r, const dl_ini_entry *entry, int *number)
{
    const dl_machine *m = r->machine;
    for (int k = 1; k < m->kind_count; k++) {
        *number = k;
        if (m->kinds[k].name != NULL && strcmp(m->kinds[k].name, entry->value) == 0) return DL_OK;
    }
    if (!has_sections(r->whole, entry->value)) {
        return dl_ini_error(r->whole, entry, DL_ERR_NAME, r->err,
                            "no section describes nodes of kind %s, such as [nics 0 of %s]",
                            entry->value, entry->value);
    }
    *number = m->kind_count;
    return read_kind(r, entry->value);
}

/* Adds a section's nodes, "0, 2-3"; each node may be in one section only. */
static dl_status add_ranges(const dl_machine_reader *r, const dl_ini_section *section,
                            const char *name, int kind)
{
    char *copy = dl_strdup(name), *rest = NULL;
    dl_status status = DL_OK;
    for (char *item = strtok_r(copy, ",", &rest); item != NULL && status == DL_OK;
         item = strtok_r(NULL, ",", &rest)) {
        DL_AUTOFREE char *text = dl_strndup_trimmed(item, strlen(item));
        node_range range = {.kind = kind};
        if (!dl_machine_parse_range(text, DL_MACHINE_MAX_NODES, &range.first, &range.last)) {
            status = dl_machine_fail(r, section,
                                     "expected numbers of nodes or ranges, such as 2-3 or 0, 4-5");
        } else if (range.last >= r->machine->nodes) {
            status = dl_machine_fail(r, section, "there are fewer nodes");
        }
        for (int i = 0; i < r->ranges->count && status == DL_OK; i++) {
            const node_range *other = &r->ranges->all[i];
            if (range.last < other->first || range.first > other->last) continue;
            status = dl_machine_fail(r, section, "another section names some of these nodes too");
        }
        if (status == DL_OK) DL_APPEND(r->ranges->all, r->ranges->count, "nodes") = range;
    }
    free(copy);
    return status;
}

static dl_status read_nodes(const dl_machine_reader *r, const dl_ini_section *section,
                            const char *name)
{
    const dl_machine *m = r->machine;
    const dl_ini_entry *kind = dl_ini_find(r->ini, section->name, "kind");
    const dl_ini_entry *model = dl_ini_find(r->ini, section->name, "model");
    int number = 0;
    dl_status status;
    if ((kind == NULL) == (model == NULL)) {
        return dl_machine_fail(r, section, "expected kind or model, one of both");
    }
    if (kind != NULL) {
        status = find_kind(r, kind, &number);
    } else {
        status = dl_machine_read_name(r, section->name, "model", m->models, m->model_count,
                                      sizeof *m->models, &number);
        if (status == DL_OK) number = add_kind_of_model(r->machine, number);
    }
    return status != DL_OK ? status : add_ranges(r, section, name, number);
}

DL_ORDER(compare_ranges, node_range, DL_BY(first));

/* Adds a run that starts at node `first`, unless the kind stays the same; a run that starts there
 * already gets the kind. */
static void add_run(dl_machine *m, int first, int kind)
{
    dl_node_run *last = m->run_count > 0 ? &m->runs[m->run_count - 1] : NULL;
    if (last != NULL && last->first == first) {
        last->kind = kind;
        return;
    }
    if (last != NULL && last->kind == kind) return;
    dl_node_run run = {.first = first, .kind = kind};
    if (last != NULL) {
        run.first_gpu = last->first_gpu + (first - last->first) * m->kinds[last->kind].gpu_count;
    }
    DL_APPEND(m->runs, m->run_count, "runs of nodes") = run;
}

/* Checks that every kind with sections has nodes. */
static dl_status check_used(const dl_machine_reader *r)
{
    const dl_machine *m = r->machine;
    size_t bytes;
    for (size_t i = 0; i < r->whole->section_count; i++) {
        const dl_ini_section *section = &r->whole->sections[i];
        const char *of = kind_of(section->name, &bytes);
        bool found = of == NULL;
        DL_AUTOFREE const char **names =
            dl_calloc((size_t)m->kind_count, sizeof *names, "names of kinds");
        size_t count = 0;
        for (int k = 1; k < m->kind_count && !found; k++) {
            if (m->kinds[k].name == NULL) continue;
            found = strcmp(m->kinds[k].name, of) == 0;
            names[count++] = m->kinds[k].name;
        }
        char hint[200];
        if (!found) dl_names_hint(hint, sizeof hint, of, names, count);
        if (found) continue;
        return dl_error_set_at(r->err, DL_ERR_NAME, r->whole->path, section->line,
                               "[%s]: no [nodes ..] has kind = %s%s", section->name, of,
                               count > 0 ? hint : "");
    }
    return DL_OK;
}

dl_status dl_machine_check_gpus(const dl_machine *machine, dl_error *err)
{
    int most = 0;
    for (int k = 0; k < machine->kind_count; k++)
        if (machine->kinds[k].gpu_count > most) most = machine->kinds[k].gpu_count;
    if ((int64_t)most * machine->nodes <= INT32_MAX) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "%d nodes of up to %d GPUs: more than %d GPUs",
                        machine->nodes, most, INT32_MAX);
}

static dl_status check_gpus(const dl_machine_reader *r)
{
    dl_error why = {0};
    const dl_status status = dl_machine_check_gpus(r->machine, &why);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(r->err, status, r->ini->path, dl_ini_section_line(r->ini, "machine"),
                           "%s", why.text);
}

dl_status dl_machine_read_kinds(const dl_machine_reader *reader)
{
    dl_machine *m = reader->machine;
    struct dl_node_ranges ranges = {0};
    dl_machine_reader r = *reader;
    r.ranges = &ranges;
    dl_status status;
    if ((status = read_kind(&r, NULL)) == DL_OK &&
        (status = dl_machine_each_section(&r, "nodes", read_nodes)) == DL_OK &&
        (status = check_used(&r)) == DL_OK && (status = check_gpus(&r)) == DL_OK) {
        if (ranges.count > 0) {
            qsort(ranges.all, (size_t)ranges.count, sizeof *ranges.all, compare_ranges);
        }
        add_run(m, 0, 0);
        for (int i = 0; i < ranges.count; i++) {
            add_run(m, ranges.all[i].first, ranges.all[i].kind);
            add_run(m, ranges.all[i].last + 1, 0);
        }
    }
    free(ranges.all);
    return status;
}
