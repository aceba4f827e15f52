/* Where in a period the steps start: dl_period_rotate. */
#include "trace/activity/steps_internal.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/sort.h"

/* A place of a unit: the symbol of this kind after one of kind `before` that is followed by
 * `later` such pairs in the unit. The pair is needed where all layers launch the same kernels. */
typedef struct unit_place {
    uint32_t before; /* kind + 1 */
    uint32_t kind;
    uint32_t later;
} unit_place;

/* One unit's idle time before one of its places, and the distance to the unit's end. */
typedef struct place_idle {
    unit_place place;
    double idle_ns; /* with its credit */
    size_t back;
} place_idle;

/* That many later ones at most: each may be lost. */
#define LATER_MAX 4
#define ROTATE_UNITS 101
#define ANYTHING 0
/* Share of the units that must have the place; the others get their cut at the same distance. */
#define PRESENT_MIN 0.4
/* Share of the unit's time that copies from the host and what follows an update are credited. */
#define CREDIT 0.1

DL_ORDER(compare_places, place_idle, DL_BY(place.before), DL_BY(place.kind), DL_BY(place.later),
         DL_BY(idle_ns));

static bool same_pair(unit_place a, unit_place b)
{
    return a.kind == b.kind && a.before == b.before;
}

DL_ORDER(compare_backs, place_idle, DL_BY(place.before), DL_BY(place.kind), DL_BY(back));

/* How many of the two signs of a step's start symbol i shows. */
static int signs(const dl_sequence *sequence, size_t i)
{
    uint8_t own = sequence->roles[sequence->symbols[i]];
    uint8_t before = i > 0 ? sequence->roles[sequence->symbols[i - 1]] : 0;
    return ((own & DL_ROLE_INPUT) != 0 && (before & DL_ROLE_INPUT) == 0) +
           ((own & DL_ROLE_UPDATE) == 0 && (before & DL_ROLE_UPDATE) != 0);
}

/* The kind before symbol i, + 1 to give it from ANYTHING; no kind's number before the first one. */
static uint32_t kind_before(const dl_sequence *sequence, size_t i)
{
    return i > 0 ? sequence->symbols[i - 1] + 1 : sequence->kind_count + 1;
}

/* The places of symbols first .. end, two each, into list; returns how many. */
static size_t collect(const dl_sequence *sequence, size_t first, size_t end, place_idle *list)
{
    size_t count = 0, next = end < sequence->count ? end : end - 1;
    double credit_ns = CREDIT * (double)(sequence->start_ns[next] - sequence->start_ns[first]);
    for (size_t i = first; i < end; i++) {
        place_idle entry = {.place = {.before = ANYTHING, .kind = sequence->symbols[i]},
                            .idle_ns =
                                (double)sequence->idle_ns[i] + signs(sequence, i) * credit_ns,
                            .back = end - i};
        list[count++] = entry;
        entry.place.before = kind_before(sequence, i);
        list[count++] = entry;
    }
    qsort(list, count, sizeof *list, compare_backs);
    for (size_t i = 1; i < count; i++) {
        if (same_pair(list[i].place, list[i - 1].place))
            list[i].place.later = list[i - 1].place.later + 1;
    }
    return count;
}

/* The best place of the chosen units' places, sorted list[count]; false if none is in most units.
 */
static bool best_place(const place_idle *list, size_t count, size_t unit_count, unit_place *best)
{
    double best_ns = -1;
    DL_GROUPS (first, end, count,
               same_pair(list[end].place, list[first].place) &&
                   list[end].place.later == list[first].place.later) {
        unit_place place = list[first].place;
        if (place.later >= LATER_MAX) continue;
        double present = (double)(end - first) / (double)unit_count;
        if (present < PRESENT_MIN) continue;
        double idle_ns = present * list[(first + end) / 2].idle_ns;
        if (idle_ns <= best_ns) continue;
        best_ns = idle_ns;
        *best = place;
    }
    return best_ns >= 0;
}

/* Median distance of the place from the end of its unit. */
static size_t usual_back(const place_idle *list, size_t count, unit_place place)
{
    size_t *backs = dl_calloc(count, sizeof *backs, "places of units"), found = 0;
    for (size_t i = 0; i < count; i++) {
        if (same_pair(list[i].place, place) && list[i].place.later == place.later)
            backs[found++] = list[i].back;
    }
    qsort(backs, found, sizeof *backs, dl_compare_sizes);
    size_t back = backs[found / 2];
    free(backs);
    return back;
}

/* Where `place` lies in symbols first .. end, or `end` if nowhere. */
static size_t find_place(const dl_sequence *sequence, size_t first, size_t end, unit_place place)
{
    uint32_t later = 0;
    for (size_t i = end; i-- > first;) {
        if (sequence->symbols[i] != place.kind) continue;
        if (place.before != ANYTHING && kind_before(sequence, i) != place.before) continue;
        if (later++ == place.later) return i;
    }
    return end;
}

/* Moves every cut to the place in its unit; the part before the first cut is a unit's end, too. */
static void move_cuts(dl_period *period, const dl_sequence *sequence, unit_place place, size_t back)
{
    size_t *moved = dl_calloc(period->cut_count + 1, sizeof *moved, "cuts"), count = 0;
    for (size_t u = 0; u <= period->cut_count; u++) {
        bool last = u == period->cut_count;
        size_t first = u == 0 ? 0 : period->cuts[u - 1];
        size_t end = last ? sequence->count : period->cuts[u];
        size_t at = find_place(sequence, first, end, place);
        bool found = at < end;
        if (u == 0) {
            found = found && 2 * (end - at) <= 3 * back;
            if (!found && 20 * end >= 19 * back) {
                /* The sequence starts with a step: its first symbol has none before it. */
                at = end > back ? end - back : 0;
                found = true;
            }
        } else if (last) {
            /* A cut-off unit has the place only if it got that far. */
            size_t fore = period->length > back ? period->length - back : 0;
            found = found && 10 * (at - first) >= 8 * fore;
        } else if (!found || end - at > back + period->length / 2) {
            /* Its symbol was lost, or it is one that is part of other work before the step. */
            at = end - first >= back ? end - back : first;
            found = true;
        }
        if (found && (count == 0 || at > moved[count - 1])) moved[count++] = at;
    }
    free(period->cuts);
    period->cuts = moved;
    period->cut_count = count;
}

void dl_period_rotate(dl_period *period, const dl_sequence *sequence)
{
    if (period->cut_count < 2) return;
    const dl_units units = {.symbols = sequence->symbols,
                            .cuts = period->cuts,
                            .count = period->cut_count,
                            .end = sequence->count,
                            .kind_count = sequence->kind_count};
    size_t chosen[ROTATE_UNITS], most = 0, count = 0;
    size_t unit_count = dl_units_choose(&units, chosen, ROTATE_UNITS);
    for (size_t i = 0; i < unit_count; i++)
        most += dl_unit_end(&units, chosen[i]) - period->cuts[chosen[i]];
    place_idle *list = dl_calloc(2 * most, sizeof *list, "places of units");
    for (size_t i = 0; i < unit_count; i++)
        count += collect(sequence, period->cuts[chosen[i]], dl_unit_end(&units, chosen[i]),
                         list + count);
    qsort(list, count, sizeof *list, compare_places);
    unit_place place = {0};
    if (best_place(list, count, unit_count, &place))
        move_cuts(period, sequence, place, usual_back(list, count, place));
    free(list);
}

/* Units that only accumulate gradients are parts of a step. */

/* Fewer equal distances are a coincidence. */
#define CYCLES_MIN 3
/* Share of the distances that have to be equal. */
#define EQUAL_MIN 0.8

static bool updates(const dl_sequence *sequence, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (sequence->roles[sequence->symbols[i]] & DL_ROLE_UPDATE) return true;
    }
    return false;
}

static bool content_updates(const dl_period *period, const dl_sequence *sequence)
{
    for (uint32_t kind = 0; kind < sequence->kind_count; kind++) {
        if (period->content[kind] > 0 && sequence->roles[kind] & DL_ROLE_UPDATE) return true;
    }
    return false;
}

/* The distance of units[count] that most have from the one before; 0 if they have none. */
static size_t usual_distance(const size_t *units, size_t count)
{
    if (count <= CYCLES_MIN) return 0;
    size_t *distances = dl_calloc(count, sizeof *distances, "units");
    for (size_t i = 1; i < count; i++)
        distances[i - 1] = units[i] - units[i - 1];
    qsort(distances, count - 1, sizeof *distances, dl_compare_sizes);
    const size_t usual = distances[(count - 1) / 2];
    size_t equal = 0;
    for (size_t i = 0; i + 1 < count; i++)
        equal += distances[i] == usual;
    free(distances);
    return (double)equal >= EQUAL_MIN * (double)(count - 1) ? usual : 0;
}

void dl_period_join(dl_period *period, const dl_sequence *sequence)
{
    if (period->cut_count == 0 || content_updates(period, sequence)) return;
    size_t *ends = dl_calloc(period->cut_count, sizeof *ends, "units"), count = 0;
    for (size_t u = 0; u < period->cut_count; u++) {
        const bool last = u + 1 == period->cut_count;
        if (updates(sequence, period->cuts[u], last ? sequence->count : period->cuts[u + 1]))
            ends[count++] = u;
    }
    const size_t distance = usual_distance(ends, count);
    if (distance >= 2) {
        size_t *cuts = dl_calloc(count + 1, sizeof *cuts, "units"), kept = 0;
        if (ends[0] + 1 >= distance) cuts[kept++] = period->cuts[ends[0] + 1 - distance];
        for (size_t i = 0; i < count && ends[i] + 1 < period->cut_count; i++)
            cuts[kept++] = period->cuts[ends[i] + 1];
        const double lag_match = period->lag_match;
        dl_period_free(period);
        dl_period_of_cuts(period, sequence, cuts, kept);
        period->lag_match = lag_match;
        free(cuts);
    }
    free(ends);
}
