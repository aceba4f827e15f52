/* Period detection: where the repeated units of a sequence of symbols start.
 *
 * The usual method, the match of a sequence with itself at some lag, is only a figure of merit
 * here: if one symbol in a hundred is lost, or blocks lie between the units, the units shift
 * against each other and no lag matches well. The distances between symbols of a rare kind remain.
 *
 * 1. Anchors. A kind that occurs about once per unit, at regular distances, cuts the sequence; if
 *    no kind does, a pair or triple of successive kinds. The search tries numbers of units in steps
 *    of 12 %: for each it takes the most regular kind, and accepts the cutting if the units hold
 *    the same symbols in the same order.
 * 2. Several cuttings may remain (layers, mini-batches, cycles of mini-batches and an averaging).
 *    The search keeps those whose units hold the most phases of training that kernels show (forward
 *    pass, backward pass, update). If some of these hold a copy of a batch from the host, which a
 *    step reads, it keeps only them; else those that explain at least 0.8 of the symbols that the
 *    best one explains. Of the rest, the shortest units win.
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
    int64_t *idle_ns;  /* [count] time from the latest end of earlier work to symbol i's start */
    int64_t *start_ns; /* [count] start of the symbol's first work */
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
 * change it. Only units of usual length count, which leaves out forward-only validation batches:
 * from half to twice the length of the unit that holds the middle symbol when units are sorted by
 * length.
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

/* Writes the indices of at most `most` units of usual length, evenly spread, to chosen[most];
 * returns their number. Leaves out the last unit, which may be incomplete, if there are others. */
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

/* Median, over at most 100 pairs of successive units, of the share of the shorter unit's symbols
 * that both units have in the same order. The comparison skips up to 16 symbols of either unit at a
 * time to where two symbols in a row are equal again. 1 for exact repetition, about 1 - 2d if a
 * share d of the symbols was lost; 0 without pairs. */
double dl_units_order_match(const dl_units *units);

/* The order match beyond chance: (match - chance) / (1 - chance), where chance is the order match
 * after one unit of each pair is shifted by half a unit. 1 for exact repetition, about 0 for
 * symbols in random order, however few kinds there are. */
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

/* As dl_period_find for units that hold less than half of the work, because other work precedes
 * them, such as the kernel benchmarks of a compiler's autotuning. Searches the last half, quarter
 * ... 64th of the sequence for at least 5 units, then goes back to their start; `explained` is the
 * share of the symbols from that start on. */
void dl_period_find_late(dl_period *period, const dl_sequence *sequence, size_t given);

/* Makes a period of these cuts[cut_count] (ascending), which it copies; sets content and explained
 * only. */
void dl_period_of_cuts(dl_period *period, const dl_sequence *sequence, const size_t *cuts,
                       size_t cut_count);

/* Moves the cuts of `period` by rule 4 above. */
void dl_period_rotate(dl_period *period, const dl_sequence *sequence);

/* Sets content, length, order_match and explained for the present cuts. */
void dl_period_measure(dl_period *period, const dl_sequence *sequence);

/* Whether the usual unit holds each phase of training (DL_ROLE_PHASES) that the sequence shows by
 * two symbols or more; a forward or backward pass also needs 1 % of the symbols. */
bool dl_period_is_whole(const dl_period *period, const dl_sequence *sequence);

/* An update: symbols first to before end. */
typedef struct dl_update {
    size_t first, end;
} dl_update;

/* Finds the updates, only those after a backward pass if the sequence shows backward passes: each
 * from its first symbol to its last one before other work of a step. Owned by the caller, *count of
 * them. */
dl_update *dl_updates_find(const dl_sequence *sequence, size_t *count);

/* Cuts the sequence after each update of dl_updates_find; `period` must be zeroed. If some kernel
 * occurs only in every k-th update, k >= 2, a step has k updates (optimizers in turn, gradients
 * accumulated in between). Symbols before a unit that are not usual content go to the unit before.
 * False, with period->reason, if fewer than two whole units result or the units differ. */
bool dl_period_find_updates(dl_period *period, const dl_sequence *sequence);

/* For too few units for dl_period_find: cuts the sequence from its first symbol on at the distance,
 * within a quarter of `given`, at which the most symbols are equal. False if too few are equal, if
 * a fraction of the distance also matches, or if fewer than two units would result. */
bool dl_period_find_given(dl_period *period, const dl_sequence *sequence, size_t given);
void dl_period_free(dl_period *period);

/* A candidate for a step: symbols from `first` to before the next part's. */
typedef struct dl_step_part {
    size_t first;
    dl_step_label label;
    double alike; /* symbols common to part and usual content / symbols of the longer of the two */
} dl_step_part;

/* Cuts the sequence by `period` (at least one cut) into parts labelled REGULAR or OTHER by content,
 * and WARM-UP before the first regular part whose `alike` is at least 0.9 of the median. Owned by
 * the caller; *count of them, without gaps. */
dl_step_part *dl_step_parts(const dl_period *period, const dl_sequence *sequence, size_t *count);

/* Sets `alike` of each part; `end` ends the last one. */
void dl_step_parts_compare(dl_step_part *parts, size_t count, size_t end,
                           const dl_sequence *sequence, const uint32_t *content, size_t length);

/* Relabels parts from marks, with `alike` set: regular parts whose `alike` is below
 * DL_STEP_SIMILARITY times the median become OTHER (validation, a step cut off at the end), or
 * WARM-UP before the first part that stays regular. Changes nothing if the median itself is below
 * DL_STEP_SIMILARITY, as for steps whose work varies. */
void dl_step_parts_set_apart(dl_step_part *parts, size_t count);

/* Number of regular parts in a cycle that a kind outside the usual content marks, such as an
 * averaging in every tenth step: the distance, at least 2 regular parts, that four fifths of its
 * occurrences (4 or more) have from the previous one. The most frequent such kind decides. 0 = no
 * cycle. */
size_t dl_step_parts_cycle(const dl_step_part *parts, size_t count, size_t end,
                           const dl_sequence *sequence, const uint32_t *content);

/* Hints (step_hints.c). DL_ERR_USAGE where two contradict each other; DL_ERR_DATA where marks or
 * updates of steps that were found without one_step show several. */
dl_status dl_step_hints_check(const dl_step_hints *hints, dl_error *err) DL_MUST_CHECK;
dl_status dl_step_hints_check_one(const dl_activity_steps *steps, dl_error *err) DL_MUST_CHECK;

/* DL_ERR_DATA: nothing repeats at the given period; without it these steps are found. */
dl_status dl_step_hints_refuse_period(int64_t given, const dl_activity_steps *steps, dl_error *err);

#endif
