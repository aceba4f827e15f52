#include "trace/activity/steps_internal.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "trace/activity/kernel_class.h"

/* Sort key of one operation of a device. */
typedef struct work_key {
    int64_t launch; /* unwrapped correlation */
    int64_t start_ns;
    size_t index;
    uint32_t device;
} work_key;

/* Number of values of log2_of, below. */
#define LOG2_END 65

/* Kinds by hash: open addressing, at most half full. */
typedef struct kind_table {
    uint64_t *hashes;
    uint32_t *kinds; /* kind + 1; 0: free */
    size_t capacity; /* a power of two */
} kind_table;

/* Finalizer of splitmix64 (Steele, Lea & Flood 2014): every input bit affects every output bit. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

DL_ORDER(compare_start, work_key, DL_BY(device), DL_BY(start_ns), DL_BY(index));

DL_ORDER(compare_launch, work_key, DL_BY(launch), compare_start(a, b));

/* Sorts one device's keys, given in order of start, by launch order, unless most have no
 * correlation. */
static void order_by_launch(work_key *keys, size_t count, const dl_activity *activities)
{
    size_t unknown = 0;
    for (size_t i = 0; i < count; i++)
        unknown += activities[keys[i].index].correlation == 0;
    if (unknown > count / 2) return;
    int64_t launch = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t correlation = activities[keys[i].index].correlation;
        /* The value nearest to the previous launch among those equal to the correlation modulo
         * 2^32. */
        if (correlation != 0) launch += (int32_t)(correlation - (uint32_t)launch);
        keys[i].launch = launch;
    }
    dl_sort(keys, count, sizeof *keys, compare_launch);
}

static uint32_t find_kind(kind_table *table, dl_symbol_line *line, uint64_t hash)
{
    size_t i = hash & (table->capacity - 1);
    while (table->kinds[i] != 0 && table->hashes[i] != hash)
        i = (i + 1) & (table->capacity - 1);
    if (table->kinds[i] == 0) {
        table->hashes[i] = hash;
        table->kinds[i] = ++line->kind_count;
    }
    return table->kinds[i] - 1;
}

static void grow(kind_table *table)
{
    kind_table old = *table;
    table->capacity = old.capacity == 0 ? 1024 : 2 * old.capacity;
    table->hashes = dl_calloc(table->capacity, sizeof *table->hashes, "kinds of work");
    table->kinds = dl_calloc(table->capacity, sizeof *table->kinds, "kinds of work");
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.kinds[i] == 0) continue;
        size_t place = old.hashes[i] & (table->capacity - 1);
        while (table->kinds[place] != 0)
            place = (place + 1) & (table->capacity - 1);
        table->hashes[place] = old.hashes[i];
        table->kinds[place] = old.kinds[i];
    }
    free(old.hashes);
    free(old.kinds);
}

static unsigned log2_of(uint64_t bytes)
{
    return bytes == 0 ? 0 : 64 - (unsigned)__builtin_clzll(bytes);
}

static bool in_graph(const dl_activity *activity)
{
    return activity->object >> 32 != 0;
}

/* Hashes the kind of an activity; `texts` holds the hashes of the trace's strings. */
static uint64_t hash_of(const dl_activity *activity, const uint64_t *texts, size_t text_count,
                        dl_symbol_detail detail)
{
    if (in_graph(activity)) return mix(DL_ACTIVITY_GRAPH + (activity->object >> 32 << 8));
    uint64_t hash = mix(activity->kind + 1);
    if (activity->name < text_count) hash = mix(hash ^ texts[activity->name]);
    hash = mix(hash + activity->copy);
    if (detail == DL_SYMBOL_NAMES) return hash;
    if (activity->detail < text_count) hash = mix(hash ^ texts[activity->detail]);
    return mix(hash + log2_of(activity->bytes));
}

/* Returns whether `activity` belongs to the same graph launch as `before`. */
static bool same_launch(const dl_activity *before, const dl_activity *activity)
{
    return in_graph(activity) && before->object >> 32 == activity->object >> 32 &&
           before->correlation == activity->correlation;
}

/* Properties of the trace's strings, by index. */
typedef struct text_facts {
    uint64_t *hashes;
    uint8_t *classes; /* as returned by dl_kernel_classes */
    size_t count;
} text_facts;

static bool is_of_class(const dl_activity *activity, const text_facts *texts, dl_kernel_class class)
{
    return activity->kind == DL_ACTIVITY_KERNEL && activity->name < texts->count &&
           texts->classes[activity->name] == class;
}

/* Numbers of a device's copies by the binary logarithm of their bytes. */
typedef struct copy_counts {
    size_t from_host[LOG2_END], to_host[LOG2_END];
} copy_counts;

static copy_counts count_copies(const work_key *keys, size_t count, const dl_activity *activities)
{
    copy_counts copies = {0};
    for (size_t i = 0; i < count; i++) {
        const dl_activity *activity = &activities[keys[i].index];
        copies.from_host[log2_of(activity->bytes)] += activity->copy == DL_COPY_H2D;
        copies.to_host[log2_of(activity->bytes)] += activity->copy == DL_COPY_D2H;
    }
    return copies;
}

/* Returns whether a copy brings a batch from the host: one of at least DL_INPUT_BYTES or of unknown
 * size. If at least half as many copies of its size go to the host, they exchange parameters
 * instead. */
static bool brings_batch(const dl_activity *activity, const copy_counts *copies)
{
    if (activity->kind != DL_ACTIVITY_MEMCPY || activity->copy != DL_COPY_H2D) return false;
    if (activity->bytes == 0) return true;
    unsigned size = log2_of(activity->bytes);
    return activity->bytes >= DL_INPUT_BYTES && 2 * copies->to_host[size] < copies->from_host[size];
}

static uint8_t roles_of(const dl_activity *activity, const text_facts *texts,
                        const copy_counts *copies)
{
    if (in_graph(activity)) return DL_ROLE_GRAPH;
    if (is_of_class(activity, texts, DL_KERNEL_OPTIMIZER)) return DL_ROLE_UPDATE;
    return brings_batch(activity, copies) ? DL_ROLE_INPUT : 0;
}

/* Adds a symbol with the kind of `hash`; a new kind gets these roles. */
static void add_symbol(dl_symbol_line *line, kind_table *table, uint64_t hash, uint8_t roles)
{
    const uint32_t kinds_before = line->kind_count;
    if (2 * (size_t)kinds_before >= table->capacity) grow(table);
    line->symbols[line->count] = find_kind(table, line, hash);
    if (line->kind_count == kinds_before) return;
    line->kind_roles =
        dl_grow(line->kind_roles, kinds_before, sizeof *line->kind_roles, "kinds of work");
    line->kind_roles[kinds_before] = roles;
}

/* Minimum share of a kind's work in one phase for the kind to have that phase. */
#define PHASE_SHARE 0.95

/* Number of occurrences of each kind in each phase. */
typedef struct phase_counts {
    uint32_t (*of)[DL_PHASE_UPDATE + 1]; /* [kind_count] */
    size_t kind_count;
} phase_counts;

static void count_phase(phase_counts *counts, uint32_t kind, const dl_activity *activity,
                        const dl_phase_hints *phases)
{
    dl_phase phase = dl_phase_hint(phases, activity);
    /* Ranges name the backward pass, so other work is forward. */
    if (phase == DL_PHASE_NONE && phases->backward.count > 0) phase = DL_PHASE_FORWARD;
    while (counts->kind_count <= kind) {
        counts->of = dl_grow(counts->of, counts->kind_count, sizeof *counts->of, "phases of kinds");
        memset(counts->of[counts->kind_count++], 0, sizeof *counts->of);
    }
    const bool has_one = activity->kind == DL_ACTIVITY_KERNEL && !in_graph(activity);
    counts->of[kind][has_one ? phase : DL_PHASE_NONE]++;
}

static void take_phases(dl_symbol_line *line, const phase_counts *counts)
{
    static const uint8_t roles[] = {[DL_PHASE_FORWARD] = DL_ROLE_FORWARD,
                                    [DL_PHASE_BACKWARD] = DL_ROLE_BACKWARD,
                                    [DL_PHASE_UPDATE] = DL_ROLE_UPDATE};
    for (size_t kind = 0; kind < counts->kind_count; kind++) {
        double all = 0;
        for (int p = 0; p <= DL_PHASE_UPDATE; p++)
            all += counts->of[kind][p];
        for (int p = DL_PHASE_FORWARD; p <= DL_PHASE_UPDATE; p++) {
            const bool mostly = counts->of[kind][p] >= PHASE_SHARE * all;
            if (mostly && !(line->kind_roles[kind] & DL_ROLE_UPDATE))
                line->kind_roles[kind] |= roles[p];
        }
    }
}

/* Fills the line of one device, whose keys are in launch order. */
static void fill_line(dl_symbol_line *line, const work_key *keys, size_t count,
                      const dl_activity *activities, const text_facts *texts,
                      const dl_phase_hints *phases, dl_symbol_detail detail)
{
    *line = (dl_symbol_line){.device = keys[0].device, .work_count = count};
    line->work = dl_calloc(count, sizeof *line->work, "launch order");
    line->symbols = dl_calloc(count, sizeof *line->symbols, "symbols");
    line->first = dl_calloc(count + 1, sizeof *line->first, "symbols");
    line->idle_ns = dl_calloc(count, sizeof *line->idle_ns, "symbols");
    line->start_ns = dl_calloc(count, sizeof *line->start_ns, "symbols");
    kind_table table = {0};
    phase_counts counts = {0};
    copy_counts copies = count_copies(keys, count, activities);
    int64_t busy_until_ns = keys[0].start_ns;
    const dl_activity *before = NULL;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *activity = &activities[keys[i].index];
        line->work[i] = keys[i].index;
        if (!is_of_class(activity, texts, DL_KERNEL_COLLECTIVE) &&
            !(before != NULL && same_launch(before, activity))) {
            add_symbol(line, &table, hash_of(activity, texts->hashes, texts->count, detail),
                       roles_of(activity, texts, &copies));
            count_phase(&counts, line->symbols[line->count], activity, phases);
            line->start_ns[line->count] = activity->start_ns;
            line->first[line->count] = line->count == 0 ? 0 : i;
            int64_t idle_ns = activity->start_ns - busy_until_ns;
            line->idle_ns[line->count++] = idle_ns > 0 ? idle_ns : 0;
        }
        int64_t end_ns = activity->start_ns + activity->duration_ns;
        if (end_ns > busy_until_ns) busy_until_ns = end_ns;
        before = activity;
    }
    line->first[line->count] = count;
    take_phases(line, &counts);
    free(counts.of);
    free(table.hashes);
    free(table.kinds);
}

static text_facts text_facts_of(const dl_trace *trace)
{
    text_facts texts = {.count = trace->string_count, .classes = dl_kernel_classes(trace)};
    texts.hashes = dl_calloc(trace->string_count, sizeof *texts.hashes, "hashes of names");
    for (size_t i = 0; i < trace->string_count; i++)
        texts.hashes[i] = dl_hash_text(trace->strings[i]);
    return texts;
}

static work_key *keys_of(const dl_activity *activities, size_t count, size_t *key_count)
{
    work_key *keys = NULL;
    *key_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!dl_activity_is_device_work(&activities[i])) continue;
        DL_APPEND(keys, *key_count, "launch order") = (work_key){
            .start_ns = activities[i].start_ns, .index = i, .device = activities[i].device};
    }
    return keys;
}

void dl_symbols_init(dl_symbols *symbols, const dl_trace *trace, const dl_phase_hints *phases,
                     dl_symbol_detail detail)
{
    *symbols = (dl_symbols){0};
    size_t key_count = 0;
    DL_AUTOFREE work_key *keys = keys_of(trace->activities, trace->activity_count, &key_count);
    dl_sort(keys, key_count, sizeof *keys, compare_start);
    text_facts texts = text_facts_of(trace);
    DL_GROUPS (first, end, key_count, keys[end].device == keys[first].device) {
        order_by_launch(keys + first, end - first, trace->activities);
        dl_symbol_line *line = &DL_APPEND(symbols->lines, symbols->count, "devices of the trace");
        fill_line(line, keys + first, end - first, trace->activities, &texts, phases, detail);
    }
    free(texts.hashes);
    free(texts.classes);
}

dl_sequence dl_symbols_sequence(const dl_symbol_line *line)
{
    return (dl_sequence){.symbols = line->symbols,
                         .idle_ns = line->idle_ns,
                         .start_ns = line->start_ns,
                         .roles = line->kind_roles,
                         .count = line->count,
                         .kind_count = line->kind_count};
}

void dl_symbols_free(dl_symbols *symbols)
{
    for (size_t i = 0; i < symbols->count; i++) {
        dl_symbol_line *line = &symbols->lines[i];
        free(line->work);
        free(line->symbols);
        free(line->first);
        free(line->idle_ns);
        free(line->start_ns);
        free(line->kind_roles);
    }
    free(symbols->lines);
    *symbols = (dl_symbols){0};
}
