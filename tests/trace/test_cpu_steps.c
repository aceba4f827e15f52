#include "trace/activity/cpu_steps.h"
#include "trace/activity/operators.h"

#include <stdlib.h>

#include "tests/check.h"

enum {
    OP,
    ANNOTATION,
    STEP,
    FORWARD,
    BACKWARD,
    GRADIENT,
    OPTIMIZER,
    LOADER,
    CALL,
    ALL_REDUCE,
    OTHER,
    COPY_BACK,
    CLEAR,
    ADD,
    ZERO,
    TEXTS
};

static char texts_kept[][64] = {"",
                                "cpu_op",
                                "user_annotation",
                                "ProfilerStep#1",
                                "aten::linear",
                                "autograd::engine::evaluate_function: AddmmBackward0",
                                "torch::autograd::AccumulateGrad",
                                "Optimizer.step#SGD.step",
                                "enumerate(DataLoader)#_Iter.__next__",
                                "c10d::allreduce_",
                                "AllReduce",
                                "aten::relu",
                                "reducer::copy_bucket_to_grad",
                                "Optimizer.zero_grad#SGD.zero_grad",
                                "aten::add_",
                                "aten::zero_"};
static char *const texts[TEXTS + 1] = {
    texts_kept[0],  texts_kept[1],  texts_kept[2],  texts_kept[3], texts_kept[4],  texts_kept[5],
    texts_kept[6],  texts_kept[7],  texts_kept[8],  texts_kept[9], texts_kept[10], texts_kept[11],
    texts_kept[12], texts_kept[13], texts_kept[14], texts_kept[15]};

#define ID(text) ((uint32_t)(text) + 1)
#define TRAINER 7

typedef struct trace {
    dl_activity activities[400];
    size_t count;
} trace;

/* Adds an operator; times in us. */
static dl_activity *add(trace *t, int text, int64_t start, int64_t duration)
{
    dl_activity *a = &t->activities[t->count++];
    const bool annotation = text == STEP || text == OPTIMIZER || text == LOADER || text == CLEAR;
    *a = (dl_activity){.kind = DL_ACTIVITY_RANGE,
                       .name = ID(text),
                       .detail = ID(annotation ? ANNOTATION : OP),
                       .thread = TRAINER,
                       .start_ns = 1000 * start,
                       .duration_ns = 1000 * duration};
    return a;
}

static void add_collective(trace *t, int64_t start, int64_t duration, uint64_t bytes)
{
    t->activities[t->count++] = (dl_activity){.kind = DL_ACTIVITY_COLLECTIVE,
                                              .name = ID(ALL_REDUCE),
                                              .thread = 8,
                                              .object = 1,
                                              .bytes = bytes,
                                              .start_ns = 1000 * start,
                                              .duration_ns = 1000 * duration};
}

/* Adds a step of 1,000 us from `at` (in brackets the time before an operator, which belongs to it):
 *
 *   input     [10] 40
 *   forward   [20] 80, [30] 120
 *   backward  [50] 100, [0] 100 of which a call of an all-reduce takes 20
 *   waits     from 550 to 700, where the all-reduce ends
 *   update    [20] 60 copied back, [20] 150, 50 after it
 *
 * The call is 50 us into the second backward operator, after 50 + 100 + 50 of 230 us. */
static void add_step(trace *t, int64_t at, bool marks)
{
    if (marks) add(t, STEP, at, 1000);
    add(t, LOADER, at + 10, 40);
    add(t, OP, at + 10, 20); /* nested */
    add(t, FORWARD, at + 70, 80);
    add(t, OTHER, at + 180, 120);
    add(t, BACKWARD, at + 350, 100);
    add(t, BACKWARD, at + 450, 100);
    add(t, GRADIENT, at + 455, 90)->bytes = 4000;
    add(t, CALL, at + 500, 20);
    add_collective(t, at + 530, 170, 4000);
    add(t, COPY_BACK, at + 720, 60);
    add(t, OPTIMIZER, at + 800, 150);
    add(t, OTHER, at + 810, 20); /* nested */
}

/* Returns the whole trace with other names of its texts; borrowed. */
static dl_trace whole_with(trace *t, char **names, size_t count)
{
    return (dl_trace){.activities = t->activities,
                      .activity_count = t->count,
                      .strings = names,
                      .string_count = count};
}

static dl_trace whole_of(trace *t)
{
    return whole_with(t, (char **)texts, TEXTS + 1);
}

static dl_activity_steps find(trace *t)
{
    const dl_trace whole = whole_of(t);
    dl_activity_steps steps = {0};
    dl_error err = {0};
    if (dl_activity_steps_init(&steps, &whole, &(dl_step_hints){0}, &err) != DL_OK)
        fail_msg("%s", err.text);
    return steps;
}

/* Finds the steps and splits them; release() both. */
static dl_cpu_training split(trace *t, dl_activity_steps *steps)
{
    dl_cpu_training cpu = {0};
    const dl_trace whole = whole_of(t);
    *steps = find(t);
    dl_cpu_training_find(&cpu, &whole, &steps->lines[0]);
    return cpu;
}

static void release(dl_cpu_training *cpu, dl_activity_steps *steps)
{
    dl_cpu_training_free(cpu);
    dl_activity_steps_free(steps);
}

static void check_step(const dl_cpu_step *step)
{
    assert_int_equal(step->part_ns[DL_CPU_PART_INPUT], 50000);
    assert_int_equal(step->part_ns[DL_CPU_PART_FORWARD], 250000);
    assert_int_equal(step->part_ns[DL_CPU_PART_BACKWARD], 230000);
    assert_int_equal(step->part_ns[DL_CPU_PART_WAIT], 170000);
    assert_int_equal(step->part_ns[DL_CPU_PART_UPDATE], 300000);
    static const size_t operators[DL_CPU_PARTS] = {2, 2, 4, 3, 0};
    for (int p = 0; p < DL_CPU_PARTS; p++)
        assert_int_equal(step->part_operators[p], operators[p]);
}

static void marked_steps_are_split(void **state DL_UNUSED)
{
    trace t = {0};
    t.activities[t.count++] = (dl_activity){
        .kind = DL_ACTIVITY_COMM, .name = 0, .object = 1, .peer = 0, .count = 2, .start_ns = 1};
    for (int s = 0; s < 4; s++)
        add_step(&t, 10000 + 1000 * s, true);
    dl_activity_steps steps;
    dl_cpu_training cpu = split(&t, &steps);
    assert_int_equal(steps.count, 1);
    assert_int_equal(steps.lines[0].device, DL_NO_DEVICE);
    assert_int_equal(steps.lines[0].method, DL_STEPS_MARKS);
    assert_int_equal(cpu.thread, TRAINER);
    assert_int_equal(cpu.step_count, 4);
    assert_int_equal(steps.lines[0].regular_count, 4);
    for (size_t s = 0; s < 4; s++)
        check_step(&cpu.steps[s]);
    assert_float_equal(cpu.added.bytes, 4000, 0);
    assert_int_equal(cpu.collective_count, 4);
    assert_int_equal(cpu.collectives[2].called_ns, 12500000);
    assert_float_equal(cpu.collectives[2].ready_frac, 200.0 / 230, 1e-9);
    const dl_collective_summary *group = cpu.groups.collectives;
    assert_int_equal(cpu.groups.count, 1);
    assert_string_equal(group->name, "AllReduce");
    assert_int_equal(group->ranks, 2);
    assert_int_equal(group->duration_ns.count, 4);
    assert_float_equal(group->duration_ns.p50, 170000, 0);
    assert_float_equal(group->ready_frac, 200.0 / 230, 1e-9);
    release(&cpu, &steps);
}

/* Steps extend from the end of an update, 950 us into a step, to the next one. */
static void unmarked_steps_end_with_updates(void **state DL_UNUSED)
{
    trace t = {0};
    for (int s = 0; s < 5; s++)
        add_step(&t, 10000 + 1000 * s, false);
    DL_SCOPED(dl_activity_steps) steps = find(&t);
    assert_int_equal(steps.lines[0].method, DL_STEPS_OPTIMIZER);
    assert_int_equal(steps.lines[0].count, 4);
    assert_int_equal(steps.lines[0].steps[0].start_ns, 10950000);
    assert_int_equal(steps.lines[0].steps[3].duration_ns, 1000000);
}

/* PyTorch's ranges of a data loader contain the word "Iter" and, if they collate, most operators,
 * but do not mark steps. */
static void loaders_do_not_mark_steps(void **state DL_UNUSED)
{
    trace t = {0};
    for (int s = 0; s < 5; s++) {
        const int64_t at = 10000 + 1000 * s;
        for (int i = 0; i < 20; i++)
            add(&t, OP, at + 11 + i, 1); /* within the loader's range */
        add_step(&t, at, false);
    }
    DL_SCOPED(dl_activity_steps) steps = find(&t);
    assert_int_equal(steps.lines[0].method, DL_STEPS_OPTIMIZER);
    assert_int_equal(steps.lines[0].count, 4);
}

/* Step 3 starts with a validation of two batches: two ranges of the loader and four operators in
 * addition to the two forward ones and the copy back, for two backward ones: 7 / 2 against 3 / 2.
 * If step 5 does as well, validations recur, and both remain steps. */
static void validation_is_set_apart(void **state DL_UNUSED)
{
    for (int second = 0; second < 2; second++) {
        trace t = {0};
        for (int s = 0; s < 6; s++) {
            const int64_t at = 10000 + 2000 * s;
            for (int64_t v = 0; v < 2 && (s == 3 || (second && s == 5)); v++) {
                add(&t, LOADER, at - 900 + 300 * v, 50);
                add(&t, FORWARD, at - 800 + 300 * v, 80);
                add(&t, OTHER, at - 700 + 300 * v, 80);
            }
            add_step(&t, at, false);
        }
        dl_activity_steps steps;
        dl_cpu_training cpu = split(&t, &steps);
        assert_int_equal(steps.lines[0].count, 5); /* the first update ends a partial step */
        for (size_t s = 0; s < 5; s++)
            assert_int_equal(steps.lines[0].steps[s].label,
                             s == 2 && !second ? DL_STEP_OTHER : DL_STEP_REGULAR);
        assert_int_equal(steps.lines[0].regular_count, second ? 5 : 4);
        assert_int_equal(cpu.phases.passes, 1);
        release(&cpu, &steps);
    }
}

/* A worker whose update is made by a server: gradients are cleared ([10] 30), forward ([10] 50),
 * backward ([0] 60), and 40 of the host after it: 100 forward, 100 backward, no update. A worker
 * with an update: forward ([50] 50), backward ([0] 60), update ([0] 50), then gradients are cleared
 * ([10] 30, and 50 of the host), which counts as forward: 100 + 90. */
static void clearing_gradients_is_no_update(void **state DL_UNUSED)
{
    for (int updates = 0; updates < 2; updates++) {
        trace t = {0};
        for (int s = 0; s < 4; s++) {
            const int64_t at = 10000 + 300 * s;
            add(&t, STEP, at, updates ? 300 : 200);
            if (!updates) add(&t, CLEAR, at + 10, 30);
            add(&t, FORWARD, at + 50, 50);
            add(&t, BACKWARD, at + 100, 60);
            if (!updates) continue;
            add(&t, OPTIMIZER, at + 160, 50);
            add(&t, CLEAR, at + 220, 30);
        }
        dl_activity_steps steps;
        dl_cpu_training cpu = split(&t, &steps);
        const dl_cpu_step *step = &cpu.steps[1];
        assert_int_equal(step->part_ns[DL_CPU_PART_FORWARD], updates ? 190000 : 100000);
        assert_int_equal(step->part_ns[DL_CPU_PART_BACKWARD], updates ? 60000 : 100000);
        assert_int_equal(step->part_ns[DL_CPU_PART_UPDATE], updates ? 50000 : 0);
        release(&cpu, &steps);
    }
}

/* Two micro-batches per step: the second forward pass is as long as the first, so it is one. Four
 * operators of 10 us each, two backward ones of 20 us, in the second pass 30 us, without host time
 * in between. */
static void gradients_are_accumulated(void **state DL_UNUSED)
{
    trace t = {0};
    for (int s = 0; s < 4; s++) {
        int64_t at = 10000 + 1000 * s;
        add(&t, STEP, at, 220);
        for (int m = 0; m < 2; m++) {
            for (int i = 0; i < 4; i++, at += 10)
                add(&t, i % 2 ? OTHER : FORWARD, at, 10);
            const int64_t each = m == 0 ? 20 : 30;
            for (int i = 0; i < 2; i++, at += each)
                add(&t, BACKWARD, at, each);
            add(&t, GRADIENT, at - each - 15, 10)->bytes = 4000; /* once per pass, nested */
        }
        add(&t, OPTIMIZER, at, 40);
    }
    dl_activity_steps steps;
    dl_cpu_training cpu = split(&t, &steps);
    assert_int_equal(cpu.steps[1].part_ns[DL_CPU_PART_FORWARD], 80000);
    assert_int_equal(cpu.steps[1].part_ns[DL_CPU_PART_BACKWARD], 100000);
    assert_int_equal(cpu.steps[1].part_ns[DL_CPU_PART_UPDATE], 40000);
    assert_int_equal(cpu.phases.passes, 2);
    assert_float_equal(cpu.added.bytes, 4000, 0); /* number of parameters */
    assert_float_equal(cpu.added.step_bytes, 4000, 0);
    assert_true(cpu.added.apart);
    /* Gradient of the second pass, in the first of its two operators; both passes count alike. */
    assert_int_equal(cpu.added.count, 1);
    assert_float_equal(cpu.added.items[0].bytes, 4000, 0);
    assert_float_equal(cpu.added.items[0].ready_frac, 0.75, 1e-12);
    release(&cpu, &steps);
}

/* Ten gradients, which the program sums in buffers of its own: it clears these before the first of
 * two passes, and adds to them after each. */
static void sums_by_hand_are_no_part_of_a_pass(void **state DL_UNUSED)
{
    trace t = {0};
    for (int s = 0; s < 5; s++) {
        const int64_t at = 10000 + 1000 * s;
        add(&t, STEP, at, 1000);
        for (int i = 0; i < 10; i++)
            add(&t, ZERO, at + 5 * i, 5);
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < 4; i++)
                add(&t, i % 2 ? OTHER : FORWARD, at + 50 + 400 * pass + 50 * i, 50);
            add(&t, BACKWARD, at + 250 + 400 * pass, 150);
            for (int i = 0; i < 10; i++)
                add(&t, ADD, at + 400 + 400 * pass + 5 * i, 5);
        }
        add(&t, OPTIMIZER, at + 850, 150);
    }
    dl_activity_steps steps;
    dl_cpu_training cpu = split(&t, &steps);
    assert_int_equal(cpu.phases.passes, 2);
    release(&cpu, &steps);
}

/* Two parameters, ready when the operators around them end, after 100 and 200 of 250 us; the last
 * step accumulates only one, which does not affect the usual step. */
static void gradients_are_ready_one_by_one(void **state DL_UNUSED)
{
    trace t = {0};
    for (int s = 0; s < 5; s++) {
        const int64_t at = 10000 + 1000 * s;
        add(&t, STEP, at, 1000);
        add(&t, FORWARD, at, 100);
        add(&t, BACKWARD, at + 100, 100);
        add(&t, BACKWARD, at + 200, 100);
        add(&t, BACKWARD, at + 300, 50);
        if (s < 4) add(&t, GRADIENT, at + 210, 80)->bytes = 400;
        add(&t, GRADIENT, at + 110, 80)->bytes = 1200;
        add(&t, OPTIMIZER, at + 350, 650);
    }
    dl_activity_steps steps;
    dl_cpu_training cpu = split(&t, &steps);
    assert_int_equal(cpu.added.count, 2);
    assert_float_equal(cpu.added.bytes, 1600, 0);
    assert_float_equal(cpu.added.step_bytes, (4 * 1600 + 1200) / 5.0, 1e-9);
    assert_float_equal(cpu.added.items[0].bytes, 1200, 0);
    assert_float_equal(cpu.added.items[0].ready_frac, 0.4, 1e-12);
    assert_float_equal(cpu.added.items[1].bytes, 400, 0);
    assert_float_equal(cpu.added.items[1].ready_frac, 0.8, 1e-12);
    release(&cpu, &steps);
}

/* Two losses, each with a backward pass after one forward pass: the second pass adds to the
 * gradients, 1200 and 400 bytes, that the first one has made. */
static void gradients_of_two_losses_count_once(void **state DL_UNUSED)
{
    trace t = {0};
    for (int s = 0; s < 4; s++) {
        const int64_t at = 10000 + 1000 * s;
        add(&t, STEP, at, 1000);
        add(&t, FORWARD, at, 100);
        for (int loss = 0; loss < 2; loss++) {
            add(&t, OTHER, at + 100 + 200 * loss, 40);
            for (int g = 0; g < 2; g++) {
                const int64_t from = at + 140 + 200 * loss + 80 * g;
                add(&t, BACKWARD, from, 80);
                add(&t, GRADIENT, from + 10, 60)->bytes = g == 0 ? 1200 : 400;
                if (loss == 1) add(&t, ADD, from + 20, 40);
            }
        }
        add(&t, OPTIMIZER, at + 500, 500);
    }
    dl_activity_steps steps;
    dl_cpu_training cpu = split(&t, &steps);
    assert_int_equal(cpu.phases.passes, 1);
    assert_float_equal(cpu.added.bytes, 1600, 0);
    assert_int_equal(cpu.added.count, 2);
    assert_float_equal(cpu.added.items[0].bytes, 1200, 0);
    assert_float_equal(cpu.added.items[1].bytes, 400, 0);
    assert_true(cpu.added.items[0].ready_frac > 0.5); /* in the second pass */
    release(&cpu, &steps);
}

/* Two equal passes, between which the gradients are only cleared: the first one's are of no update. */
static void cleared_gradients_are_no_parameters(void **state DL_UNUSED)
{
    trace t = {0};
    for (int s = 0; s < 4; s++) {
        const int64_t at = 10000 + 1000 * s;
        add(&t, STEP, at, 1000);
        for (int pass = 0; pass < 2; pass++) {
            add(&t, FORWARD, at + 400 * pass, 100);
            add(&t, BACKWARD, at + 400 * pass + 100, 200);
            add(&t, GRADIENT, at + 400 * pass + 110, 60)->bytes = 1200;
            add(&t, pass == 0 ? CLEAR : OPTIMIZER, at + 400 * pass + 300, 100);
        }
    }
    dl_activity_steps steps;
    dl_cpu_training cpu = split(&t, &steps);
    assert_true(cpu.phases.alternates);
    assert_float_equal(cpu.added.bytes, 1200, 0);
    release(&cpu, &steps);
}

/* Adds four steps of two models in turn, each with an update and the gradients of these bytes; 0:
 * none. */
static void add_models(trace *t, const uint64_t bytes[2][2])
{
    for (int s = 0; s < 4; s++) {
        int64_t at = 10000 + 1000 * s;
        add(t, STEP, at, 300);
        for (int m = 0; m < 2; m++, at += 40) {
            for (int i = 0; i < 4; i++, at += 10)
                add(t, i % 2 ? OTHER : FORWARD, at, 10);
            add(t, BACKWARD, at, 20);
            for (int g = 0; g < 2; g++)
                if (bytes[m][g] > 0) add(t, GRADIENT, at + 5 * g, 5)->bytes = bytes[m][g];
            at += 20;
            add(t, OPTIMIZER, at, 40);
        }
    }
}

/* Two models, each with an update. The second one's pass may begin with all of the first one's
 * gradients, as a generator's does with a discriminator's, which are then counted once: 400 and
 * 400 + 300 bytes are 700. Passes of different gradients are of different parameters. */
static void gradients_of_passes_that_continue_count_once(void **state DL_UNUSED)
{
    static const struct {
        uint64_t bytes[2][2]; /* of the gradients of either pass */
        double sum;
    } cases[] = {{{{400, 0}, {400, 300}}, 700},
                 {{{300, 0}, {400, 300}}, 1000},
                 {{{400, 300}, {400, 0}}, 700}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        trace t = {0};
        add_models(&t, cases[c].bytes);
        dl_activity_steps steps;
        dl_cpu_training cpu = split(&t, &steps);
        assert_true(cpu.phases.alternates);
        assert_float_equal(cpu.added.bytes, cases[c].sum, 0);
        assert_float_equal(cpu.added.step_bytes, cases[c].sum, 0);
        release(&cpu, &steps);
    }
}

/* Two alternating models, each with an update: no accumulation. */
static void models_in_turn_accumulate_nothing(void **state DL_UNUSED)
{
    trace t = {0};
    add_models(&t, (const uint64_t[2][2]){{400, 0}, {300, 0}});
    dl_activity_steps steps;
    dl_cpu_training cpu = split(&t, &steps);
    assert_int_equal(cpu.steps[1].part_ns[DL_CPU_PART_FORWARD], 80000);
    assert_int_equal(cpu.phases.passes, 1);
    release(&cpu, &steps);
}

/* Without marks, two models in turn are one step; a single model's updates end one each. */
static void models_in_turn_are_one_step_without_marks(void **state DL_UNUSED)
{
    static const struct {
        uint64_t bytes[2][2];
        size_t steps; /* of four with two updates each; the first one may be partial */
        double sum;
    } cases[] = {{{{400, 0}, {400, 300}}, 3, 700}, {{{400, 300}, {400, 300}}, 7, 700}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        trace t = {0};
        size_t kept = 0;
        add_models(&t, cases[c].bytes);
        for (size_t i = 0; i < t.count; i++)
            if (t.activities[i].name != ID(STEP)) t.activities[kept++] = t.activities[i];
        t.count = kept;
        dl_activity_steps steps;
        dl_cpu_training cpu = split(&t, &steps);
        assert_int_equal(steps.lines[0].method, DL_STEPS_OPTIMIZER);
        assert_int_equal(steps.lines[0].regular_count, cases[c].steps);
        assert_float_equal(cpu.added.bytes, cases[c].sum, 0);
        release(&cpu, &steps);
    }
}

/* Updates by batches of two tasks in turn, each with a mark, are steps as marked. */
static void marked_tasks_in_turn_are_steps(void **state DL_UNUSED)
{
    trace t = {0};
    for (int s = 0; s < 8; s++) {
        const int64_t at = 10000 + 200 * s;
        add(&t, STEP, at, 200);
        add(&t, FORWARD, at, 40);
        add(&t, BACKWARD, at + 50, 40);
        add(&t, GRADIENT, at + 60, 10)->bytes = s % 2 == 0 ? 400 : 1200;
        add(&t, OPTIMIZER, at + 100, 90);
    }
    DL_SCOPED(dl_activity_steps) steps = find(&t);
    assert_int_equal(steps.lines[0].method, DL_STEPS_MARKS);
    assert_int_equal(steps.lines[0].regular_count, 8);
}

/* Marks of an epoch, or of a logging interval, hold several updates of the same parameters: with
 * shapes or without, a step ends with each update. */
static void marks_may_hold_several_steps(void **state DL_UNUSED)
{
    static const uint64_t equal[2][2][2] = {{{400, 300}, {400, 300}}, {{0}}};
    for (size_t shapes = 0; shapes < 2; shapes++) {
        trace t = {0};
        add_models(&t, equal[shapes]);
        dl_activity_steps steps;
        dl_cpu_training cpu = split(&t, &steps);
        assert_true(steps.lines[0].marks_hold_steps);
        assert_int_equal(steps.lines[0].method, DL_STEPS_OPTIMIZER);
        assert_int_equal(steps.lines[0].regular_count, 7); /* of 8: the first may be partial */
        assert_false(cpu.phases.alternates);
        assert_int_equal(cpu.steps[0].part_ns[DL_CPU_PART_FORWARD], 40000);
        assert_float_equal(cpu.added.bytes, shapes == 0 ? 700 : 0, 0);
        release(&cpu, &steps);
    }
}

static void find_operators(dl_cpu_operators *operators, trace *t)
{
    const dl_trace whole = whole_of(t);
    dl_cpu_operators_find(operators, &whole);
}

/* With device work, or without operators, nothing is found. */
static void others_are_left_alone(void **state DL_UNUSED)
{
    trace t = {0};
    dl_cpu_operators operators = {0};
    add(&t, STEP, 10, 10);
    find_operators(&operators, &t);
    assert_int_equal(operators.count, 0);
    add(&t, FORWARD, 10, 10);
    find_operators(&operators, &t);
    assert_int_equal(operators.count, 1);
    dl_cpu_operators_free(&operators);
    t.activities[t.count++] = (dl_activity){.kind = DL_ACTIVITY_KERNEL, .start_ns = 5};
    find_operators(&operators, &t);
    assert_int_equal(operators.count, 0);
}

/* Returns whether operators count as a program on cores beside a call, or range, of that name. */
static bool is_on_cores(const char *name, dl_activity_kind kind, char **lost)
{
    char *names[TEXTS + 2], own[64];
    memcpy(names, texts, sizeof texts);
    names[TEXTS + 1] = strcpy(own, name);
    trace t = {0};
    add(&t, FORWARD, 10, 10);
    t.activities[t.count++] = (dl_activity){.kind = kind,
                                            .name = TEXTS + 1,
                                            .detail = ID(OP),
                                            .thread = TRAINER,
                                            .correlation = 1,
                                            .start_ns = 12000,
                                            .duration_ns = 1000};
    DL_SCOPED(dl_cpu_operators) operators = {0};
    dl_trace whole = whole_with(&t, names, TEXTS + 2);
    dl_cpu_operators_find(&operators, &whole);
    const bool found = operators.count > 0;
    whole.complete = true;
    *lost = dl_cpu_lost_device(&whole);
    return found;
}

/* Calls and operators of a device whose kernels were not recorded: not a program on cores. */
static void lost_kernels_are_no_training_on_cores(void **state DL_UNUSED)
{
    static const struct {
        const char *name;
        dl_activity_kind kind;
        bool on_cores;
    } cases[] = {
        {"cudaLaunchKernel", DL_ACTIVITY_CALL, false},
        {"cuLaunchKernelEx", DL_ACTIVITY_CALL, false},
        {"hipMemcpyWithStream", DL_ACTIVITY_CALL, false},
        {"cudaStreamSynchronize", DL_ACTIVITY_CALL, false},
        {"aten::cudnn_batch_norm", DL_ACTIVITY_RANGE, false},
        {"nccl:all_reduce", DL_ACTIVITY_RANGE, false},
        {"cudaDeviceSynchronize", DL_ACTIVITY_CALL, true},
        {"cudaGetDeviceCount", DL_ACTIVITY_CALL, true},
        {"customLaunch", DL_ACTIVITY_CALL, true},
        {"aten::cudnn_is_acceptable", DL_ACTIVITY_RANGE, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_AUTOFREE char *lost = NULL;
        if (is_on_cores(cases[i].name, cases[i].kind, &lost) != cases[i].on_cores)
            fail_msg("%s", cases[i].name);
        assert_true((lost == NULL) == cases[i].on_cores);
        if (lost != NULL) assert_contains(lost, "recorded no kernels");
    }
}

/* Copies alone, beside launches of kernels, are not all of the device's work. */
static void copies_alone_are_not_all(void **state DL_UNUSED)
{
    for (int launched = 0; launched <= 1; launched++) {
        dl_activity activities[] = {
            {.kind = DL_ACTIVITY_CALL, .name = launched ? 1 : 2, .correlation = 1},
            {.kind = DL_ACTIVITY_MEMCPY, .copy = DL_COPY_H2D, .correlation = 1, .bytes = 8}};
        static char empty[] = "", launch[] = "hipModuleLaunchKernel", copy[] = "hipMemcpyAsync";
        char *names[] = {empty, launch, copy};
        const dl_trace whole = {.activities = activities,
                                .activity_count = 2,
                                .strings = names,
                                .string_count = 3,
                                .complete = true};
        DL_AUTOFREE char *lost = dl_cpu_lost_device(&whole);
        assert_true((lost != NULL) == launched);
    }
}

/* --one-step: one step from the first operator's start, at 10 us, to the last one's end, at 40 + 30
 * us. Operators without duration are no step. */
static void operators_are_taken_as_one_step(void **state DL_UNUSED)
{
    for (int64_t us = 0; us <= 30; us += 30) {
        trace t = {0};
        DL_SCOPED(dl_activity_steps) steps = {0};
        dl_error err = {0};
        add(&t, FORWARD, us > 0 ? 10 : 40, us);
        add(&t, BACKWARD, 40, us);
        const dl_trace whole = whole_of(&t);
        assert_int_equal(
            dl_activity_steps_init(&steps, &whole, &(dl_step_hints){.one_step = true}, &err),
            DL_OK);
        const dl_step_line *line = &steps.lines[0];
        assert_int_equal(line->device, DL_NO_DEVICE);
        assert_int_equal(line->regular_count, us > 0);
        assert_int_equal(line->reason == NULL, us > 0);
        if (us > 0) {
            assert_int_equal(line->method, DL_STEPS_GIVEN_ONE);
            assert_int_equal(line->steps[0].count, 2);
            assert_int_equal(line->steps[0].start_ns, 10000);
            assert_int_equal(line->steps[0].duration_ns, 60000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marked_steps_are_split),
        cmocka_unit_test(unmarked_steps_end_with_updates),
        cmocka_unit_test(loaders_do_not_mark_steps),
        cmocka_unit_test(validation_is_set_apart),
        cmocka_unit_test(clearing_gradients_is_no_update),
        cmocka_unit_test(gradients_are_accumulated),
        cmocka_unit_test(sums_by_hand_are_no_part_of_a_pass),
        cmocka_unit_test(gradients_are_ready_one_by_one),
        cmocka_unit_test(gradients_of_passes_that_continue_count_once),
        cmocka_unit_test(models_in_turn_accumulate_nothing),
        cmocka_unit_test(models_in_turn_are_one_step_without_marks),
        cmocka_unit_test(marked_tasks_in_turn_are_steps),
        cmocka_unit_test(marks_may_hold_several_steps),
        cmocka_unit_test(cleared_gradients_are_no_parameters),
        cmocka_unit_test(gradients_of_two_losses_count_once),
        cmocka_unit_test(others_are_left_alone),
        cmocka_unit_test(lost_kernels_are_no_training_on_cores),
        cmocka_unit_test(copies_alone_are_not_all),
        cmocka_unit_test(operators_are_taken_as_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
