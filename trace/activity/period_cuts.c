/* Starts of steps in a period, and steps that end with updates. */
#include "trace/activity/steps_internal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"

/* A place in a unit: a symbol of `kind` that follows one of kind `before`, with `later` more such
 * pairs until the unit's end. If all layers launch the same kernels, only pairs are distinct. */
typedef struct unit_place {
    uint32_t before; /* kind + 1 */
    uint32_t kind;
    uint32_t later;
} unit_place;

/* Idle time of one unit before one of its places, and the distance to the unit's end. */
typedef struct place_idle {
    unit_place place;
    double idle_ns; /* including its credit */
    size_t back;
} place_idle;

/* Places with at least this many later pairs are ignored, since each of these pairs may be lost. */
#define LATER_MAX 4
#define ROTATE_UNITS 101
#define ANYTHING 0
/* Minimum share of units with the place; the other units are cut at its median distance from their
 * end. */
#define PRESENT_MIN 0.4
/* Share of the unit's time credited to a place where copies from the host start, and to a place
 * that follows an update. */
#define CREDIT 0.1

DL_ORDER(compare_places, place_idle, DL_BY(place.before), DL_BY(place.kind), DL_BY(place.later),
         DL_BY(idle_ns));

static bool same_pair(unit_place a, unit_place b)
{
    return a.kind == b.kind && a.before == b.before;
}

DL_ORDER(compare_backs, place_idle, DL_BY(place.before), DL_BY(place.kind), DL_BY(back));

/* A step may start with a symbol that is the first copy of an input, or that follows an update.
 * Returns how many of these two signs symbol i shows. */
static int signs(const dl_sequence *sequence, size_t i)
{
    uint8_t own = sequence->roles[sequence->symbols[i]];
    uint8_t before = i > 0 ? sequence->roles[sequence->symbols[i - 1]] : 0;
    return ((own & DL_ROLE_INPUT) != 0 && (before & DL_ROLE_INPUT) == 0) +
           ((own & DL_ROLE_UPDATE) == 0 && (before & DL_ROLE_UPDATE) != 0);
}

/* Returns whether a step may start at symbol i: not between two symbols of a forward pass, nor at
 * one of a backward pass or an update. */
static bool may_start(const dl_sequence *sequence, size_t i)
{
    const uint8_t own = sequence->roles[sequence->symbols[i]];
    const uint8_t before = i > 0 ? sequence->roles[sequence->symbols[i - 1]] : 0;
    return !(own & (DL_ROLE_BACKWARD | DL_ROLE_UPDATE)) && !(own & before & DL_ROLE_FORWARD);
}

/* Returns the kind before symbol i, plus 1 because 0 is ANYTHING; kind_count + 1 for i = 0. */
static uint32_t kind_before(const dl_sequence *sequence, size_t i)
{
    return i > 0 ? sequence->symbols[i - 1] + 1 : sequence->kind_count + 1;
}

/* Writes the places of symbols [first, end) to `list`, two for each symbol at which a step may
 * start: with any preceding kind, and with its actual preceding kind. Returns their number. */
static size_t collect(const dl_sequence *sequence, size_t first, size_t end, place_idle *list)
{
    size_t count = 0, next = end < sequence->count ? end : end - 1;
    double credit_ns = CREDIT * (double)(sequence->start_ns[next] - sequence->start_ns[first]);
    for (size_t i = first; i < end; i++) {
        if (!may_start(sequence, i)) continue;
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

/* Finds in the sorted list[count] the place with the largest median idle time times the share of
 * units that have it; returns false if no place occurs in PRESENT_MIN of the units. */
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

/* Returns the index of `place` in symbols first .. end, or `end` if it does not occur. */
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

/* Moves every cut to the place in its unit; the part before the first cut counts as the end of a
 * unit. */
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
                /* The sequence starts with a step, whose first symbol has no predecessor. */
                at = end > back ? end - back : 0;
                found = true;
            }
        } else if (last) {
            /* A truncated unit has the place only if it is long enough. */
            size_t fore = period->length > back ? period->length - back : 0;
            found = found && 10 * (at - first) >= 8 * fore;
        } else if (!found || end - at > back + period->length / 2) {
            /* The place's symbol was lost, or the one found belongs to other work before the
             * step. */
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
    DL_AUTOFREE place_idle *list = dl_calloc(2 * most, sizeof *list, "places of units");
    for (size_t i = 0; i < unit_count; i++)
        count += collect(sequence, period->cuts[chosen[i]], dl_unit_end(&units, chosen[i]),
                         list + count);
    qsort(list, count, sizeof *list, compare_places);
    unit_place place = {0};
    if (best_place(list, count, unit_count, &place))
        move_cuts(period, sequence, place, usual_back(list, count, place));
}

/* --- phases of training ----------------------------------------------------------------------- */

/* A sequence has a phase if at least UPDATES_MIN symbols have its role; a forward or backward pass
 * must also make up PASS_SHARE_MIN of all symbols. */
#define PASS_SHARE_MIN 0.01
#define UPDATES_MIN 2

/* Returns the phases found in the sequence. */
static uint8_t shown_phases(const dl_sequence *sequence)
{
    static const uint8_t phases[] = {DL_ROLE_FORWARD, DL_ROLE_BACKWARD, DL_ROLE_UPDATE};
    uint8_t shown = 0;
    for (size_t p = 0; p < sizeof phases; p++) {
        size_t count = 0;
        for (size_t i = 0; i < sequence->count; i++)
            count += (sequence->roles[sequence->symbols[i]] & phases[p]) != 0;
        const double least =
            phases[p] == DL_ROLE_UPDATE ? 0 : PASS_SHARE_MIN * (double)sequence->count;
        if (count >= UPDATES_MIN && (double)count >= least) shown |= phases[p];
    }
    return shown;
}

bool dl_period_is_whole(const dl_period *period, const dl_sequence *sequence)
{
    uint8_t missing = shown_phases(sequence);
    for (uint32_t kind = 0; kind < sequence->kind_count; kind++)
        if (period->content[kind] > 0) missing &= (uint8_t)~sequence->roles[kind];
    return missing == 0;
}

/* Number of symbols of other work that end an update if no kernel shows the forward pass. */
#define UPDATE_GAP 8

dl_update *dl_updates_find(const dl_sequence *sequence, size_t *count)
{
    const uint8_t shown = shown_phases(sequence);
    const bool forward_shown = (shown & DL_ROLE_FORWARD) != 0;
    const uint8_t others = DL_ROLE_FORWARD | DL_ROLE_BACKWARD | DL_ROLE_INPUT;
    dl_update *updates = NULL;
    bool backward = (shown & DL_ROLE_BACKWARD) == 0, inside = false;
    *count = 0;
    for (size_t i = 0; i < sequence->count; i++) {
        const uint8_t role = sequence->roles[sequence->symbols[i]];
        if (role & others) inside = false;
        if (role & DL_ROLE_BACKWARD) backward = true;
        if (!(role & DL_ROLE_UPDATE)) continue;
        if (inside && (forward_shown || i - updates[*count - 1].end < UPDATE_GAP)) {
            updates[*count - 1].end = i + 1;
        } else if (backward) {
            DL_APPEND(updates, *count, "updates") = (dl_update){i, i + 1};
            inside = true;
            backward = (shown & DL_ROLE_BACKWARD) == 0;
        }
    }
    return updates;
}

/* Adds `by` to the counts of the kinds with the role BACKWARD in symbols [first, end); returns the
 * number of such symbols. */
static size_t count_backward(const dl_sequence *sequence, size_t first, size_t end, int by,
                             int32_t *counts)
{
    size_t count = 0;
    for (size_t i = first; i < end; i++) {
        if (!(sequence->roles[sequence->symbols[i]] & DL_ROLE_BACKWARD)) continue;
        counts[sequence->symbols[i]] += by;
        count++;
    }
    return count;
}

/* Returns whether symbols [a, a_end) and [b, b_end) have the same backward work, as often; with
 * `gradients`, also gradients of as many bytes. */
static bool equal_backward(const dl_sequence *sequence, const double *gradients, size_t a,
                           size_t a_end, size_t b, size_t b_end, int32_t *counts)
{
    bool equal = count_backward(sequence, a, a_end, 1, counts) > 0;
    count_backward(sequence, b, b_end, -1, counts);
    for (size_t i = a; i < a_end; i++)
        equal = equal && counts[sequence->symbols[i]] == 0;
    for (size_t i = b; i < b_end; i++)
        equal = equal && counts[sequence->symbols[i]] == 0;
    for (size_t i = a; i < a_end; i++)
        counts[sequence->symbols[i]] = 0;
    for (size_t i = b; i < b_end; i++)
        counts[sequence->symbols[i]] = 0;
    return equal && (gradients == NULL ||
                     gradients[a_end] - gradients[a] == gradients[b_end] - gradients[b]);
}

bool dl_parts_hold_steps(const dl_sequence *sequence, const size_t *parts, size_t count,
                         const size_t *ends, size_t end_count, const double *gradients)
{
    DL_AUTOFREE int32_t *counts = dl_calloc(sequence->kind_count, sizeof *counts, "updates");
    size_t several = 0, updated = 0, e = 0;
    DL_AUTOFREE size_t *own = NULL;
    if (ends == NULL) {
        DL_AUTOFREE dl_update *updates = dl_updates_find(sequence, &end_count);
        ends = own = dl_calloc(end_count, sizeof *own, "updates");
        for (size_t i = 0; i < end_count; i++)
            own[i] = updates[i].end;
    }
    for (size_t p = 0; p < count; p++) {
        const size_t part_end = p + 1 < count ? parts[p + 1] : sequence->count;
        size_t first = 0, middle = parts[p], updates = 0; /* last update's work: [first, middle) */
        bool equal = true;
        while (e < end_count && ends[e] <= parts[p])
            e++;
        for (; e < end_count && ends[e] <= part_end; first = middle, middle = ends[e++])
            equal = (updates++ == 0 ||
                     equal_backward(sequence, gradients, first, middle, middle, ends[e], counts)) &&
                    equal;
        updated += updates > 0;
        several += updates > 1 && equal;
    }
    return 2 * several > updated;
}

/* Maximum number of updates of a step, and minimum share of updates that equal those of the next
 * step. */
#define CYCLE_MAX 8
#define CYCLE_EQUAL 0.8

size_t dl_updates_cycle(const dl_sequence *sequence, const size_t *ends, size_t count,
                        const double *gradients)
{
    DL_AUTOFREE int32_t *counts = dl_calloc(sequence->kind_count, sizeof *counts, "updates");
    for (size_t cycle = 1; cycle <= CYCLE_MAX && 3 * cycle <= count; cycle++) {
        size_t equal = 0;
        for (size_t u = 1; u + cycle < count; u++) /* the first one may be cut off */
            equal += equal_backward(sequence, gradients, ends[u - 1], ends[u], ends[u + cycle - 1],
                                    ends[u + cycle], counts);
        if ((double)equal >= CYCLE_EQUAL * (double)(count - 1 - cycle)) return cycle;
    }
    return 1;
}

/* A kernel of an update, and the index of the update. */
typedef struct update_kind {
    uint32_t kind;
    size_t update;
} update_kind;

DL_ORDER(by_kind, update_kind, DL_BY(kind), DL_BY(update));

/* Minimum share of equal distances, and minimum share of all updates spanned by the distances. */
#define EQUAL_MIN 0.8
#define SPANNED_MIN 0.6

/* Returns the median distance between successive places[count] if enough of the distances equal it
 * and the places span enough of the `all` updates; else 1. */
static size_t usual_distance(const update_kind *places, size_t count, size_t all)
{
    if (count < 2) return 1;
    size_t *distances = dl_calloc(count, sizeof *distances, "updates"), number = 0, equal = 0;
    for (size_t i = 1; i < count; i++)
        if (places[i].update != places[i - 1].update)
            distances[number++] = places[i].update - places[i - 1].update;
    if (number > 0) qsort(distances, number, sizeof *distances, dl_compare_sizes);
    const size_t usual = number > 0 ? distances[number / 2] : 1;
    for (size_t i = 0; i < number; i++)
        equal += distances[i] == usual;
    free(distances);
    const bool spans = (double)((number + 1) * usual) >= SPANNED_MIN * (double)all;
    return (double)equal >= EQUAL_MIN * (double)number && spans ? usual : 1;
}

/* Returns the number of updates per step; *first becomes the first update that ends a step. Both
 * follow from the kernel with the largest usual distance between its updates; of several such
 * kernels, from the one that occurs last in the cycle. */
static size_t updates_of_step(const dl_sequence *sequence, const dl_update *updates, size_t count,
                              size_t *first)
{
    DL_AUTOFREE update_kind *list = NULL;
    size_t listed = 0, most = 1;
    *first = 0;
    for (size_t u = 0; u < count; u++) {
        for (size_t i = updates[u].first; i < updates[u].end; i++) {
            if (sequence->roles[sequence->symbols[i]] & DL_ROLE_UPDATE)
                DL_APPEND(list, listed, "updates") = (update_kind){sequence->symbols[i], u};
        }
    }
    if (listed > 0) qsort(list, listed, sizeof *list, by_kind);
    DL_GROUPS (begin, end, listed, list[end].kind == list[begin].kind) {
        const size_t distance = usual_distance(list + begin, end - begin, count);
        if (distance < most || (distance == most && list[begin].update % most <= *first)) continue;
        most = distance;
        *first = list[begin].update % most;
    }
    return most;
}

/* The head of a unit is separated if it has at least HEAD_SHARE of the usual unit's symbols and at
 * least HEAD_MIN symbols, and at least HEAD_STRANGE of them are not usual content. */
#define HEAD_SHARE 0.02
#define HEAD_MIN 3
#define HEAD_STRANGE 0.8

/* Returns the start of the usual content of the unit [first, end): after a separated head, else
 * `first`. `left` as in dl_units_common. */
static size_t find_head(const dl_period *period, const dl_sequence *sequence, size_t first,
                        size_t end, uint32_t *left)
{
    size_t head = end, strange = 0, strange_behind = 0;
    int64_t score = 0, best = INT64_MIN;
    for (size_t i = end; i-- > first;) {
        const bool common = left[sequence->symbols[i]] > 0;
        left[sequence->symbols[i]] -= common;
        strange += !common;
        score += common ? 1 : -1;
        if (score < best) continue;
        best = score;
        head = i;
        strange_behind = strange;
    }
    for (size_t i = first; i < end; i++)
        left[sequence->symbols[i]] = period->content[sequence->symbols[i]];
    const size_t length = head - first;
    const bool little = length < HEAD_MIN || (double)length < HEAD_SHARE * (double)period->length;
    const bool other = (double)(strange - strange_behind) >= HEAD_STRANGE * (double)length;
    return !little && other ? head : first;
}

static void cut_heads(dl_period *period, const dl_sequence *sequence)
{
    DL_AUTOFREE uint32_t *left = dl_calloc(sequence->kind_count, sizeof *left, "content of units");
    memcpy(left, period->content, sequence->kind_count * sizeof *left);
    for (size_t u = 0; u < period->cut_count; u++) {
        const size_t end = u + 1 < period->cut_count ? period->cuts[u + 1] : sequence->count;
        period->cuts[u] = find_head(period, sequence, period->cuts[u], end, left);
    }
}

/* A first unit shorter than this share of the second one lacks its beginning. */
#define FIRST_SHARE_MIN 0.95
#define ORDER_MIN 0.8
#define EXPLAINED_MIN 0.6

/* If other work precedes the first unit, which starts at cuts[0] = 0, moves its start so that the
 * unit has the median length of the others. */
static void cut_first(size_t *cuts, size_t ends)
{
    if (ends < 2) return;
    DL_AUTOFREE size_t *lengths = dl_calloc(ends - 1, sizeof *lengths, "units");
    for (size_t u = 1; u < ends; u++)
        lengths[u - 1] = cuts[u + 1] - cuts[u];
    qsort(lengths, ends - 1, sizeof *lengths, dl_compare_sizes);
    const size_t usual = lengths[(ends - 1) / 2];
    if ((double)cuts[1] > (2 - FIRST_SHARE_MIN) * (double)usual) cuts[0] = cuts[1] - usual;
}

bool dl_period_find_updates(dl_period *period, const dl_sequence *sequence)
{
    size_t count = 0, first = 0, kept = 0;
    *period = (dl_period){.reason = "fewer than two updates of an optimizer end a step"};
    DL_AUTOFREE dl_update *updates = dl_updates_find(sequence, &count);
    const size_t each = updates_of_step(sequence, updates, count, &first);
    DL_AUTOFREE size_t *cuts = dl_calloc(count + 1, sizeof *cuts, "units");
    cuts[kept++] = 0;
    for (size_t u = first; u < count; u += each)
        cuts[kept++] = updates[u].end;
    const bool begun = kept > 2 && (double)cuts[1] < FIRST_SHARE_MIN * (double)(cuts[2] - cuts[1]);
    const size_t ends = kept - 1;
    cut_first(cuts, ends);
    if (cuts[kept - 1] == sequence->count) kept--;
    if (ends >= 2u + begun) {
        dl_period_of_cuts(period, sequence, cuts + begun, kept - begun);
        cut_heads(period, sequence);
        dl_period_measure(period, sequence);
        if (period->order_match < ORDER_MIN || period->explained < EXPLAINED_MIN) {
            dl_period_free(period);
            period->reason = "the work between updates of the optimizer differs";
        }
    }
    return period->cut_count > 0;
}
