/* Period detection: where the repeated units of a sequence of symbols start.
 *
 * The match of a sequence with itself some lag later, by which others detect periods, is only a
 * figure of merit here: as soon as one symbol in a hundred is lost, or blocks lie between the
 * units, the units shift against each other and no lag matches well. Rare kinds keep their
 * distances.
 *
 * 1. Anchors. A kind that occurs about once a unit, at regular distances, cuts the sequence; if no
 *    kind does, a pair or triple of successive kinds. Every number of units is tried, in steps of
 *    12 %: for each the most regular kind is taken, and the pieces that it cuts must hold the same
 *    symbols in the same order.
 * 2. Of several such cuttings (layers, mini-batches, cycles of mini-batches and an averaging) those
 *    remain that hold most of the phases of training that kernels show (forward pass, backward pass,
 *    update); of these the shortest units are taken, of those that hold a copy of a batch from the
 *    host if any do, for a step reads its batch; else of those that explain at least 0.8 of the
 *    symbols that the best ones explain.
 * 3. Units around a lost anchor are cut where the symbols look most like those around other cuts.
 * 4. The cuts move to the place of the unit with the largest median idle time before it. A place
 *    where copies from the host start, and one after an optimizer's kernel, are each credited 10 %
 *    of the unit's time, because a busy device waits nowhere and a starved one everywhere.
 *
 * The period is found from at most DL_PERIOD_SYMBOLS symbols; then all of them are cut in one pass.
 */
#ifndef DL_TRACE_ACTIVITY_STEPS_INTERNAL_H
#define DL_TRACE_ACTIVITY_STEPS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/activity/phases.h"
#include "trace/activity/steps.h"

/* One device's work as a sequence of symbols in the order in which the host launched it: the form
 * in which repetitions are searched.
 *
 * A symbol is a kind of work: a kernel's name and launch shape; a copy's direction and the binary
 * logarithm of its bytes; a memset's; one launch of a CUDA graph, whatever nodes it has. Kernels
 * that only communicate (NCCL's and RCCL's) are no symbols, because ranks interleave them
 * differently; each belongs to the symbol before it. Calls of the host are no symbols.
 *
 * Launch order is the order of correlations (serial numbers: they may wrap around at 2^32), and of
 * start times where these are equal (nodes of one graph) or, for more than half of a device's work,
 * unknown. Work of unknown correlation takes that of the work that started before it.
 */

/* How much a symbol distinguishes. */
typedef enum dl_symbol_detail {
    DL_SYMBOL_SHAPES, /* as above */
    DL_SYMBOL_NAMES   /* without launch shapes and sizes: for steps whose shapes vary */
} dl_symbol_detail;

/* Smaller copies from the host are scalars, as a learning rate is. */
#define DL_INPUT_BYTES 64

typedef struct dl_symbol_line {
    uint32_t device;
    size_t work_count;
    size_t *work;      /* [work_count] indices of the device's activities in launch order */
    size_t count;      /* symbols */
    uint32_t *symbols; /* [count] kinds, numbered from 0 without gaps */
    size_t *first;     /* [count + 1] symbol i is work[first[i]] to before work[first[i + 1]] */
    int64_t *idle_ns;  /* [count] the device's idle time before symbol i, given all earlier work */
    int64_t *start_ns; /* [count] of the symbol's first work */
    uint32_t kind_count;
    uint64_t *kind_hash; /* [kind_count] the same for the same kind in every process */
    uint8_t *kind_roles; /* [kind_count] of dl_work_role, or-ed */
} dl_symbol_line;

/* Owns its arrays; release with dl_symbols_free. */
typedef struct dl_symbols {
    dl_symbol_line *lines; /* [count] in order of device; only devices that have work */
    size_t count;
} dl_symbols;

/* Finds the symbols of the device work among activities[count]; `symbols` must be zeroed. `strings`
 * [string_count] are the trace's; names outside count as empty. O(n log n). */
void dl_symbols_init(dl_symbols *symbols, const dl_activity *activities, size_t count,
                     char *const *strings, size_t string_count, const dl_phase_hints *phases,
                     dl_symbol_detail detail);
void dl_symbols_free(dl_symbols *symbols);

/* The content that the units of a cut sequence of symbols have in common.
 *
 * The usual content of a unit is, for each kind, the number of symbols that three quarters of the
 * units reach (the lower quartile): lost symbols and blocks that only some units have do not
 * change it. Only units of a usual length count, so that forward-only validation batches do not:
 * from half to twice the length of the unit in which the middle symbol lies, when units are sorted
 * by length.
 */

/* Symbols with the places at which units start; all borrowed. Unit i is symbols[cuts[i]] to before
 * symbols[cuts[i + 1]], the last one ends at `end`. Symbols before cuts[0] are in no unit. */
typedef struct dl_units {
    const uint32_t *symbols;
    const size_t *cuts; /* [count] ascending */
    size_t count, end;
    uint32_t kind_count;
} dl_units;

size_t dl_unit_end(const dl_units *units, size_t i);

/* Indices of at most `most` units of usual length, evenly spread over them, into chosen[most];
 * returns how many. The last unit, which may be cut off, is left out if others are there. */
size_t dl_units_choose(const dl_units *units, size_t *chosen, size_t most);

/* Number of symbols in first .. end that are content: of each kind at most content[kind]. left
 * [kind_count] is scratch that must equal `content` before and does so afterwards. */
size_t dl_units_common(const uint32_t *symbols, size_t first, size_t end, const uint32_t *content,
                       uint32_t *left);

/* Writes the usual content to content[kind_count]; returns its sum. */
size_t dl_units_content(const dl_units *units, uint32_t *content);

/* Share of the symbols up to units->end that are content of their unit (those before the first cut
 * counting as a unit); 0 without symbols. */
double dl_units_explained(const dl_units *units, const uint32_t *content);

/* How well units repeat the order of the unit before: the median, over at most 100 pairs of
 * neighbours, of the share of the shorter unit's symbols that follow each other in both, when both
 * are read side by side and up to 16 symbols may be skipped at a time to find two equal ones again.
 * 1 for exact repetition, about 1 - 2d if a share d of the symbols was lost; 0 without pairs. */
double dl_units_order_match(const dl_units *units);

/* The order match beyond chance: (match - chance) / (1 - chance), where chance is the order match
 * of units with ones that are moved by half a unit. 1 for exact repetition, about 0 for symbols
 * without order, however few kinds there are. */
double dl_units_order_gain(const dl_units *units);

#define DL_PERIOD_SYMBOLS 50000

/* A sequence, borrowed. */
typedef struct dl_sequence {
    const uint32_t *symbols; /* [count], each below kind_count */
    const int64_t *idle_ns;  /* [count] before each symbol */
    const int64_t *start_ns; /* [count] */
    const uint8_t *roles;    /* [kind_count] of dl_work_role */
    size_t count;
    uint32_t kind_count;
} dl_sequence;

/* The sequence of the line's symbols, which it borrows. */
dl_sequence dl_symbols_sequence(const dl_symbol_line *line);

/* The part of a sequence from place `first` on, borrowed too. */
dl_sequence dl_sequence_from(const dl_sequence *sequence, size_t first);

/* Owns its arrays; release with dl_period_free. */
typedef struct dl_period {
    size_t *cuts; /* [cut_count] ascending places at which a unit starts */
    size_t cut_count;
    uint32_t *content;  /* [kind_count] how often the usual unit holds each kind */
    size_t length;      /* sum of content: symbols of the usual unit */
    double lag_match;   /* 0..1: share of the symbols of rare kinds that equal the one a unit later,
                           at the best of the lags within 10 % of the mean unit */
    double order_match; /* 0..1: as dl_units_order_match */
    double explained;   /* 0..1: as dl_units_explained */
    const char *reason; /* why cut_count is 0, else NULL; static text */
} dl_period;

/* Finds the units of `sequence`; `period` must be zeroed. given > 0 is the number of symbols of a
 * unit, which is then not searched. Fewer than 3 units, or no period, gives cut_count 0 and the
 * reason. */
void dl_period_find(dl_period *period, const dl_sequence *sequence, size_t given);

/* The same for units that hold less than half of the work, after much other: a compiler that tries
 * its kernels out. They are looked for in the last half, quarter ... 64th of the sequence, 5 at
 * least, and then back to where they begin; `explained` is then the share of the symbols from there
 * on. */
void dl_period_find_late(dl_period *period, const dl_sequence *sequence, size_t given);

/* Makes a period of these cuts[cut_count] (ascending), which it copies; sets content and explained
 * only. */
void dl_period_of_cuts(dl_period *period, const dl_sequence *sequence, const size_t *cuts,
                       size_t cut_count);

/* Moves the cuts of `period` by rule 4 above. */
void dl_period_rotate(dl_period *period, const dl_sequence *sequence);

/* Sets content, length, order_match and explained for the present cuts. */
void dl_period_measure(dl_period *period, const dl_sequence *sequence);

/* Whether the usual unit holds each phase of training that the sequence shows (DL_ROLE_PHASES):
 * forward and backward passes that are 1 % of the sequence's symbols or more, an update that occurs
 * twice or more. */
bool dl_period_is_whole(const dl_period *period, const dl_sequence *sequence);

/* An update: symbols first to before end. */
typedef struct dl_update {
    size_t first, end;
} dl_update;

/* Finds the updates that follow a backward pass, if backward passes are recognized: each from its
 * first symbol to its last one before other work of a step. Owned by the caller, *count of them. */
dl_update *dl_updates_find(const dl_sequence *sequence, size_t *count);

/* Cuts behind each update of dl_updates_find; `period` must be zeroed. An update's kernel that only
 * every k-th of them has, k >= 2, ends a step of k of them (optimizers in turn, gradients
 * accumulated in between). Symbols that are no content of a unit and precede it are left to the
 * unit before. False, with period->reason, if fewer than two whole units come out, or they
 * differ. */
bool dl_period_find_updates(dl_period *period, const dl_sequence *sequence);

/* Cuts every `given` symbols, within a quarter, from the first one on, at the distance at which
 * most of them are equal: for too few units for dl_period_find. False if those are too few, equal
 * at a part of the distance too, or fewer than two units would come out. */
bool dl_period_find_given(dl_period *period, const dl_sequence *sequence, size_t given);
void dl_period_free(dl_period *period);

/* A candidate for a step: symbols from `first` to before the next part's. */
typedef struct dl_step_part {
    size_t first;
    dl_step_label label;
    double alike; /* share of the longer of part and usual content that both have */
} dl_step_part;

/* Parts of the sequence cut by `period` (at least one cut), labelled REGULAR or OTHER by content,
 * and WARM-UP before the first regular one that is at least 0.9 times as alike as the median. Owned
 * by the caller; *count of them, without gaps. */
dl_step_part *dl_step_parts(const dl_period *period, const dl_sequence *sequence, size_t *count);

/* Sets `alike` of each part; `end` ends the last one. */
void dl_step_parts_compare(dl_step_part *parts, size_t count, size_t end,
                           const dl_sequence *sequence, const uint32_t *content, size_t length);

/* Takes parts labelled by marks, with `alike` set: regular ones whose `alike` is below
 * DL_STEP_SIMILARITY of the median become OTHER (validation, a step cut off at the end), or WARM-UP
 * before the first that stays. Nothing changes where the median itself is below DL_STEP_SIMILARITY:
 * steps whose work varies. */
void dl_step_parts_set_apart(dl_step_part *parts, size_t count);

/* Number of regular parts in a cycle, found by a kind outside the usual content, such as an
 * averaging in every tenth step: four fifths of its occurrences, 4 or more, have that distance from
 * the previous one, in regular parts, which is at least 2. If several kinds qualify, the most
 * frequent decides. 0 = no cycle. */
size_t dl_step_parts_cycle(const dl_step_part *parts, size_t count, size_t end,
                           const dl_sequence *sequence, const uint32_t *content);

/* Hints (step_hints.c). DL_ERR_USAGE where two contradict each other; DL_ERR_DATA where marks or
 * updates of steps that were found without one_step show several. */
dl_status dl_step_hints_check(const dl_step_hints *hints, dl_error *err) DL_MUST_CHECK;
dl_status dl_step_hints_check_one(const dl_activity_steps *steps, dl_error *err) DL_MUST_CHECK;

/* DL_ERR_DATA: nothing repeats at the given period; without it these steps are found. */
dl_status dl_step_hints_refuse_period(int64_t given, const dl_activity_steps *steps, dl_error *err);

#endif
