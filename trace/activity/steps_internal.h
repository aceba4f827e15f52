/* Period detection: finds the starts of the repeated units of a sequence of symbols.
 *
 * The common method, the match of a sequence with itself at some lag, serves only as a figure of
 * merit here: if one symbol in a hundred is lost, or blocks lie between the units, the units shift
 * against each other and no lag matches well. The distances between symbols of a rare kind remain.
 *
 * 1. Anchors. A kind that occurs about once per unit, at regular distances, cuts the sequence; if
 *    no kind does, a pair or triple of successive kinds. The search tries numbers of units in steps
 *    of 12 %: for each it takes the most regular kind, and accepts the cutting if the units hold
 *    the same symbols in the same order.
 * 2. Several cuttings may remain (layers, mini-batches, cycles of mini-batches and an averaging).
 *    The search keeps those whose units contain the most phases of training found in kernels
 *    (forward pass, backward pass, update). If some of these contain a copy of a batch from the
 *    host, which a step reads, it keeps only them; else those that explain at least 0.8 of the
 *    symbols that the best one explains. Of the rest, the cutting with the shortest units is
 *    chosen.
 * 3. Units around a lost anchor are cut where the symbols are most similar to those around other
 *    cuts.
 * 4. The cuts move to the place of the unit with the largest median idle time before it. A place
 *    where copies from the host start, and one after an optimizer's kernel, are each credited 10 %
 *    of the unit's time, because a busy device waits nowhere and a starved one everywhere.
 *
 * The period is found from at most DL_PERIOD_SYMBOLS symbols; then all symbols are cut in one
 * pass. */
#ifndef DL_TRACE_ACTIVITY_STEPS_INTERNAL_H
#define DL_TRACE_ACTIVITY_STEPS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/activity/operators.h"
#include "trace/activity/phases.h"
#include "trace/activity/steps.h"

/* Sequence of symbols for one device's work in the order in which the host launched it, used for
 * the search for repetitions.
 *
 * A symbol is a kind of work: a kernel's name and launch shape; a copy's direction and the binary
 * logarithm of its bytes; that of a memset's bytes; one launch of a CUDA graph, whatever nodes it
 * has. Kernels that only communicate (NCCL's and RCCL's) are not symbols, because ranks interleave
 * them differently; each belongs to the preceding symbol. Calls of the host are not symbols.
 *
 * Launch order is the order of correlations (serial numbers, which may wrap around at 2^32). Start
 * times decide if correlations are equal (nodes of one graph) or, for more than half of a device's
 * work, unknown. Work of unknown correlation takes that of the previously started work. */

/* Level of detail of symbols. */
typedef enum dl_symbol_detail {
    DL_SYMBOL_SHAPES, /* with launch shapes and sizes */
    DL_SYMBOL_NAMES   /* without launch shapes and sizes, for steps whose shapes vary */
} dl_symbol_detail;

/* Smaller copies from the host are scalars, such as a learning rate. */
#define DL_INPUT_BYTES 64

typedef struct dl_symbol_line {
    uint32_t device;
    size_t work_count;
    size_t *work;      /* [work_count] indices of the device's activities in launch order */
    size_t count;      /* number of symbols */
    uint32_t *symbols; /* [count] kinds, numbered from 0 without gaps */
    size_t *first;     /* [count + 1] symbol i is work[first[i] .. first[i + 1] - 1] */
    int64_t *idle_ns;  /* [count] time from the latest end of earlier work to symbol i's start */
    int64_t *start_ns; /* [count] start of the symbol's first work */
    uint32_t kind_count;
    uint8_t *kind_roles; /* [kind_count] dl_work_role, or-ed */
} dl_symbol_line;

/* Owns its arrays; release with dl_symbols_free. */
typedef struct dl_symbols {
    dl_symbol_line *lines; /* [count] by device; only devices with work */
    size_t count;
} dl_symbols;

/* Finds the symbols of the trace's device work; `symbols` must be zeroed. Names outside its strings
 * count as empty. O(n log n). */
void dl_symbols_init(dl_symbols *symbols, const dl_trace *trace, const dl_phase_hints *phases,
                     dl_symbol_detail detail);
void dl_symbols_free(dl_symbols *symbols);

/* Common content of the units of a cut sequence of symbols.
 *
 * The usual content of a unit is, for each kind, the number of symbols that three quarters of the
 * units reach (the lower quartile), which is insensitive to lost symbols and to blocks that only
 * some units have. Only units of usual length are used, which excludes forward-only validation
 * batches: from half to twice the length of the unit that holds the middle symbol when units are
 * sorted by length. That may not be the longest of four units or more if it is over twice as long
 * as any other, as a step with a long evaluation is. */

/* Symbols with the starts of units; all borrowed. Unit i is symbols[cuts[i] .. cuts[i + 1] - 1],
 * the last one ends at `end`. Symbols before cuts[0] are in no unit. */
typedef struct dl_units {
    const uint32_t *symbols;
    const size_t *cuts; /* [count] ascending */
    size_t count, end;
    uint32_t kind_count;
} dl_units;

size_t dl_unit_end(const dl_units *units, size_t i);

/* Writes the indices of at most `most` units of usual length, evenly spread, to chosen[most];
 * returns their number. Excludes the last unit, which may be incomplete, if there are others. */
size_t dl_units_choose(const dl_units *units, size_t *chosen, size_t most);

/* Returns the number of symbols in first .. end that are content: of each kind at most
 * content[kind]. left[kind_count] is scratch that must equal `content` before the call and does so
 * afterwards. */
size_t dl_units_common(const uint32_t *symbols, size_t first, size_t end, const uint32_t *content,
                       uint32_t *left);

/* Writes the usual content to content[kind_count]; returns its sum. */
size_t dl_units_content(const dl_units *units, uint32_t *content);

/* Returns the share of the symbols up to units->end that are content of their unit (those before
 * the first cut counting as a unit); 0 without symbols. */
double dl_units_explained(const dl_units *units, const uint32_t *content);

/* Returns the median, over at most 100 pairs of successive units, of the share of the shorter
 * unit's symbols that both units have in the same order. On a mismatch, the comparison skips up to
 * 16 symbols of either unit to the next two consecutive equal symbols. 1 for exact repetition,
 * about 1 - 2d if a share d of the symbols was lost; 0 without pairs. */
double dl_units_order_match(const dl_units *units);

/* Returns the order match beyond chance: (match - chance) / (1 - chance), where chance is the order
 * match after one unit of each pair is shifted by half a unit. 1 for exact repetition, about 0 for
 * symbols in random order, however few kinds there are. */
double dl_units_order_gain(const dl_units *units);

#define DL_PERIOD_SYMBOLS 50000

/* A sequence, borrowed. */
typedef struct dl_sequence {
    const uint32_t *symbols; /* [count], each below kind_count */
    const int64_t *idle_ns;  /* [count] idle time before each symbol */
    const int64_t *start_ns; /* [count] */
    const uint8_t *roles;    /* [kind_count] dl_work_role, or-ed */
    size_t count;
    uint32_t kind_count;
} dl_sequence;

/* Returns the sequence of the line's symbols, which it borrows. */
dl_sequence dl_symbols_sequence(const dl_symbol_line *line);

/* Returns the part of a sequence from index `first`, borrowed too. */
dl_sequence dl_sequence_from(const dl_sequence *sequence, size_t first);

/* Owns its arrays; release with dl_period_free. */
typedef struct dl_period {
    size_t *cuts; /* [cut_count] ascending places at which a unit starts */
    size_t cut_count;
    uint32_t *content;  /* [kind_count] number of symbols of each kind in the usual unit */
    size_t length;      /* sum of content: number of symbols of the usual unit */
    double lag_match;   /* 0..1: share of the symbols of rare kinds that equal those one unit later,
                         * at the best lag within 10 % of the mean unit */
    double order_match; /* 0..1: see dl_units_order_match */
    double explained;   /* 0..1: see dl_units_explained */
    const char *reason; /* reason if cut_count is 0, else NULL; static text */
} dl_period;

/* Finds the units of `sequence`; `period` must be zeroed. given > 0 is the number of symbols of a
 * unit, which is then not searched. With fewer than 3 units, or no period, sets cut_count 0 and the
 * reason. */
void dl_period_find(dl_period *period, const dl_sequence *sequence, size_t given);

/* Like dl_period_find for units that make up less than half of the work, because other work
 * precedes them, such as the kernel benchmarks of a compiler's autotuning. Searches the last half,
 * quarter ... 64th of the sequence for at least 5 units, then goes back to their start; `explained`
 * is the share of the symbols from that start. */
void dl_period_find_late(dl_period *period, const dl_sequence *sequence, size_t given);

/* Sets the cuts of `period` to a copy of the ascending cuts[cut_count], and measures it. */
void dl_period_of_cuts(dl_period *period, const dl_sequence *sequence, const size_t *cuts,
                       size_t cut_count);

/* Moves the cuts of `period` by rule 4 above. */
void dl_period_rotate(dl_period *period, const dl_sequence *sequence);

/* Returns the units of the sequence that the period's cuts make; they borrow from both. */
dl_units dl_period_units(const dl_period *period, const dl_sequence *sequence);

/* Sets content, length, order_match and explained for the current cuts. */
void dl_period_measure(dl_period *period, const dl_sequence *sequence);

/* Returns whether the usual unit contains each phase of training (DL_ROLE_PHASES) for which the
 * sequence has two symbols or more; a forward or backward pass also needs 1 % of the symbols. */
bool dl_period_is_whole(const dl_period *period, const dl_sequence *sequence);

/* An update: symbols first .. end - 1. */
typedef struct dl_update {
    size_t first, end;
} dl_update;

/* Returns the updates, *count of them; only those after a backward pass if the sequence has
 * backward passes. Each extends from its first symbol to its last one before other work of a step.
 * The caller frees the array. */
dl_update *dl_updates_find(const dl_sequence *sequence, size_t *count);

/* Returns whether most of the parts with updates have several, each after the same backward work:
 * they are not steps but epochs, or several updates by the samples of one rollout. Optimizers of
 * different models, as a GAN's, follow different backward passes. parts[count]: where each begins,
 * up to the next one. ends[end_count]: ends of the updates; NULL: those of dl_updates_find. Both
 * ascend. gradients[sequence->count + 1]: bytes of gradients added before each symbol, which then
 * must be equal too; NULL: unknown. O(n). */
bool dl_parts_hold_steps(const dl_sequence *sequence, const size_t *parts, size_t count,
                         const size_t *ends, size_t end_count, const double *gradients);

/* Returns the number of updates, at most 8, after which the backward work and the gradients of
 * updates recur: those of a step, of several models in turn. 1 if there is no such number.
 * Arguments as in dl_parts_hold_steps, without NULL for `ends`. O(n). */
size_t dl_updates_cycle(const dl_sequence *sequence, const size_t *ends, size_t count,
                        const double *gradients);

/* Cuts the sequence after each update of dl_updates_find; `period` must be zeroed. If some kernel
 * occurs only in every k-th update, k >= 2, a step has k updates (alternating optimizers,
 * accumulated gradients). Symbols before a unit that are not usual content belong to the previous
 * unit. Returns false, with period->reason, if fewer than two whole units result or the units
 * differ. */
bool dl_period_find_updates(dl_period *period, const dl_sequence *sequence);

/* For too few units for dl_period_find: cuts the sequence from its first symbol at the distance,
 * within a quarter of `given`, at which the most symbols are equal. Returns false if too few are
 * equal, if a fraction of the distance also matches, or if fewer than two units would result. */
bool dl_period_find_given(dl_period *period, const dl_sequence *sequence, size_t given);
void dl_period_free(dl_period *period);

/* A candidate for a step: symbols from `first` to the start of the next part. */
typedef struct dl_step_part {
    size_t first;
    dl_step_label label;
    double alike; /* symbols common to part and usual content / symbols of the longer of the two */
} dl_step_part;

/* Cuts the sequence by `period` (at least one cut) into contiguous parts labelled REGULAR or OTHER
 * by content, and WARM-UP before the first regular part whose `alike` is at least 0.9 of the
 * median. Returns *count parts; the caller frees them. */
dl_step_part *dl_step_parts(const dl_period *period, const dl_sequence *sequence, size_t *count);

/* Sets `alike` of each part; the last part ends at `end`. */
void dl_step_parts_compare(dl_step_part *parts, size_t count, size_t end,
                           const dl_sequence *sequence, const uint32_t *content, size_t length);

/* Relabels parts from marks whose `alike` is set: regular parts with `alike` below
 * DL_STEP_SIMILARITY times the median become OTHER (validation, a step truncated at the end), or
 * WARM-UP before the first part that stays regular. Changes nothing if the median itself is below
 * DL_STEP_SIMILARITY, as for steps whose work varies. */
void dl_step_parts_set_apart(dl_step_part *parts, size_t count);

/* Returns the outermost operators, some of activities[], as the line of DL_NO_DEVICE, with a symbol
 * each and a kind per name. The roles INPUT and FORWARD, which end an update, are
 * dropped: input and the clearing of gradients occur at either end of a step. */
dl_symbols dl_cpu_operators_symbols(const dl_cpu_operators *operators,
                                    const dl_activity *activities);

/* Returns the bytes of gradients added before each operator and, last, in all; the caller frees
 * the array. `sequence`: of the operators. */
double *dl_cpu_operators_gradients(const dl_cpu_operators *operators, const dl_trace *trace,
                                   const dl_sequence *sequence);

/* Returns the times that divide the operators, whose symbols are `sequence`, into steps, *count of
 * them, ascending: the end of each update after a backward pass, or of the last one of several
 * models' (dl_updates_cycle); if there are fewer than three updates, the start of each repeating
 * unit (dl_period_find). The first one may end a partial step. The caller frees the array. Sets
 * *updates to the number of updates of a step; 0: by units. gradients: as
 * dl_cpu_operators_gradients returns them. */
int64_t *dl_cpu_operators_cuts(const dl_cpu_operators *operators, const dl_sequence *sequence,
                               const double *gradients, size_t *count, size_t *updates);

/* Returns whether marks, which start at marks_ns[mark_count], each hold several steps
 * (dl_parts_hold_steps). cuts_ns[count]: those of dl_cpu_operators_cuts, by updates. */
bool dl_cpu_operators_hold_steps(const dl_sequence *sequence, const double *gradients,
                                 const int64_t *marks_ns, size_t mark_count, const int64_t *cuts_ns,
                                 size_t count);

/* Labels a step of steps[count] as OTHER if its ratio of forward to backward operators exceeds
 * DL_CPU_EVALUATION times the median ratio: it contains a validation, which has only forward passes
 * (sequences of unequal length change both numbers, but not the ratio). If several regular steps
 * exceed the limit, the validation recurs, and those with a backward pass and an update stay
 * REGULAR, so that the mean step includes it. Also labels the last step as OTHER if it lacks a
 * backward pass or an update that all regular steps before it have, as in a truncated trace. */
#define DL_CPU_EVALUATION 1.5
void dl_cpu_operators_set_apart(const dl_cpu_operators *operators, dl_activity_step *steps,
                                size_t count);

#endif
