#include "calibrate/replay/step_costs.h"

#include "tests/calibrate/rank_trace.h"

#define WORKS 5

static dl_step_phases find(const rank_trace *t, size_t *work, size_t count, dl_step_label label)
{
    static dl_activity_step step;
    static dl_step_line line;
    step = (dl_activity_step){.label = label, .first = 0, .count = count};
    line = (dl_step_line){
        .work = work, .work_count = count, .steps = &step, .count = 1, .regular_count = 1};
    dl_step_phases phases = {0};
    dl_step_phases_find(&phases, &t->trace, &line);
    return phases;
}

/* Two kernels before the backward pass, one within it without a range, and the optimizer's. */
static void ranges_tell_the_phases(void **state DL_UNUSED)
{
    rank_trace t;
    size_t work[WORKS];
    rank_trace_init(&t, 0);
    work[0] = rank_trace_work(&t, RT_COMPUTE, 1000);
    int64_t begin_ns = t.host_ns;
    work[1] = rank_trace_work(&t, RT_COMPUTE, 1000);
    rank_trace_range(&t, RT_BACKWARD, begin_ns);
    work[2] = rank_trace_work(&t, RT_COMPUTE, 1000);
    begin_ns = t.host_ns;
    work[3] = rank_trace_work(&t, RT_COMPUTE, 1000);
    rank_trace_range(&t, RT_BACKWARD, begin_ns);
    begin_ns = t.host_ns;
    work[4] = rank_trace_work(&t, RT_COMPUTE, 1000);
    rank_trace_range(&t, RT_OPTIMIZER, begin_ns);
    dl_step_phases phases = find(&t, work, WORKS, DL_STEP_REGULAR);
    static const dl_phase expected[WORKS] = {DL_PHASE_FORWARD, DL_PHASE_BACKWARD, DL_PHASE_BACKWARD,
                                             DL_PHASE_BACKWARD, DL_PHASE_UPDATE};
    assert_int_equal(phases.known_steps, 1);
    for (size_t i = 0; i < WORKS; i++)
        assert_int_equal(phases.phases[i], expected[i]);
    dl_step_phases_free(&phases);
    phases = find(&t, work, WORKS, DL_STEP_WARMUP);
    assert_int_equal(phases.known_steps, 0);
    assert_int_equal(phases.phases[1], DL_PHASE_NONE);
    dl_step_phases_free(&phases);
}

/* Two micro-batches: the second forward pass has the same kernels as the first; work with other
 * kernels belongs to the backward pass. A second model after an update starts anew. */
static void forward_passes_repeat(void **state DL_UNUSED)
{
    enum { N = 28 };
    static const char texts[] = "FFFFBBFFFFBBGGGGBBUUGGGGGBBU";
    static const char phases_of[] = "FFFFBBFFFFBBBBBBBBUUFFFFFBBU";
    rank_trace t;
    size_t work[N];
    rank_trace_init(&t, 0);
    for (size_t i = 0; i < N; i++) {
        const int64_t begin_ns = t.host_ns;
        work[i] = rank_trace_work(&t, texts[i] == 'G' ? RT_GATHER : RT_COMPUTE, 1000);
        if (texts[i] == 'B') rank_trace_range(&t, RT_BACKWARD, begin_ns);
        if (texts[i] == 'U') rank_trace_range(&t, RT_OPTIMIZER, begin_ns);
    }
    DL_SCOPED(dl_step_phases) phases = find(&t, work, N, DL_STEP_REGULAR);
    for (size_t i = 0; i < N; i++) {
        const dl_phase expected = phases_of[i] == 'F'   ? DL_PHASE_FORWARD
                                  : phases_of[i] == 'B' ? DL_PHASE_BACKWARD
                                                        : DL_PHASE_UPDATE;
        if (phases.phases[i] != expected) fail_msg("work %zu: phase %d", i, phases.phases[i]);
    }
}

/* After the update an evaluation has the kernels of the forward pass; a few of them, or others, are
 * part of the update. */
static void an_evaluation_is_no_update(void **state DL_UNUSED)
{
    static const struct {
        const char *texts, *phases;
    } cases[] = {{"FFFFBBUUFFFFFFFF", "FFFFBBUUFFFFFFFF"},
                 {"FFFFBBUUFFF", "FFFFBBUUUUU"},
                 {"FFFFBBUUGGGGG", "FFFFBBUUUUUUU"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const size_t n = strlen(cases[c].texts);
        rank_trace t;
        size_t work[16];
        rank_trace_init(&t, 0);
        for (size_t i = 0; i < n; i++) {
            const char kind = cases[c].texts[i];
            const int64_t begin_ns = t.host_ns;
            work[i] = rank_trace_work(&t, kind == 'G' ? RT_GATHER : RT_COMPUTE, 1000);
            if (kind == 'B') rank_trace_range(&t, RT_BACKWARD, begin_ns);
            if (kind == 'U') rank_trace_range(&t, RT_OPTIMIZER, begin_ns);
        }
        DL_SCOPED(dl_step_phases) phases = find(&t, work, n, DL_STEP_REGULAR);
        for (size_t i = 0; i < n; i++) {
            const char expected = cases[c].phases[i];
            assert_int_equal(phases.phases[i], expected == 'F'   ? DL_PHASE_FORWARD
                                               : expected == 'B' ? DL_PHASE_BACKWARD
                                                                 : DL_PHASE_UPDATE);
        }
        assert_int_equal(phases.passes, 1);
    }
}

/* Without ranges the kernels' names give the phases; these names give none. */
/* With names only: three kernels of a forward pass between backward ones form a micro-batch; a
 * single one is recomputation in the backward pass. */
static void named_forward_passes_repeat(void **state DL_UNUSED)
{
    enum { N = 18 };
    static const char texts[] = "FFFBBBFFFBBBFBFFFB";
    static const char phases_of[] = "FFFBBBFFFBBBBBFFFB";
    rank_trace t;
    size_t work[N];
    rank_trace_init(&t, 0);
    static char forward[] = "gemm_forward", backward[] = "gemm_backward";
    t.strings[RT_COMPUTE] = forward;
    t.strings[RT_GATHER] = backward;
    for (int i = 0; i < N; i++)
        work[i] = rank_trace_work(&t, texts[i] == 'F' ? RT_COMPUTE : RT_GATHER, 1000);
    DL_SCOPED(dl_step_phases) phases = find(&t, work, N, DL_STEP_REGULAR);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(phases.phases[i],
                         phases_of[i] == 'F' ? DL_PHASE_FORWARD : DL_PHASE_BACKWARD);
    assert_int_equal(phases.passes, 3);
}

/* Products G of both passes have the same names: the loss L ends the forward pass, in each of two
 * micro-batches; a softmax S of a layer that is followed by a forward kernel F does not. */
static void loss_ends_the_forward_pass(void **state DL_UNUSED)
{
    enum { N = 24 };
    static const char texts[] = "GSGFGLGGBGGBGSGFGLGGBGGB";
    static const char phases_of[] = "FFFFFFBBBBBBFFFFFFBBBBBB";
    static const char kernels[] = "GSFLB";
    static char names[][32] = {"ampere_sgemm", "softmax_warp_forward", "layer_norm_forward",
                               "nll_loss_forward", "layer_norm_backward"};
    static const uint32_t ids[] = {RT_COMPUTE, RT_REDUCE_KERNEL, RT_GATHER, RT_REDUCE,
                                   RT_GATHER_KERNEL};
    rank_trace t;
    size_t work[N];
    rank_trace_init(&t, 0);
    for (int i = 0; i < 5; i++)
        t.strings[ids[i]] = names[i];
    for (int i = 0; i < N; i++)
        work[i] = rank_trace_work(&t, ids[strchr(kernels, texts[i]) - kernels], 1000);
    DL_SCOPED(dl_step_phases) phases = find(&t, work, N, DL_STEP_REGULAR);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(phases.phases[i],
                         phases_of[i] == 'F' ? DL_PHASE_FORWARD : DL_PHASE_BACKWARD);
    assert_int_equal(phases.passes, 2);
}

static void without_a_backward_pass_nothing_is_known(void **state DL_UNUSED)
{
    rank_trace t;
    size_t work[WORKS];
    rank_trace_init(&t, 0);
    for (size_t i = 0; i < WORKS; i++)
        work[i] = rank_trace_work(&t, RT_COMPUTE, 1000);
    dl_step_phases phases = find(&t, work, WORKS, DL_STEP_REGULAR);
    assert_int_equal(phases.known_steps, 0);
    dl_step_phases_free(&phases);
    static char names[2][60] = {"cudnn::bn_bw_1C11_kernel_new<float>",
                                "multi_tensor_apply_kernel<Adam>"};
    t.strings[RT_GATHER] = names[0];
    t.strings[RT_REDUCE] = names[1];
    t.activities[work[2]].name = RT_GATHER;
    t.activities[work[4]].name = RT_REDUCE;
    phases = find(&t, work, WORKS, DL_STEP_REGULAR);
    assert_int_equal(phases.known_steps, 1);
    assert_int_equal(phases.phases[1], DL_PHASE_FORWARD);
    assert_int_equal(phases.phases[2], DL_PHASE_BACKWARD);
    assert_int_equal(phases.phases[4], DL_PHASE_UPDATE);
    dl_step_phases_free(&phases);
    /* Ranges hold launches; if none is recorded, names still tell. */
    rank_trace_range(&t, RT_BACKWARD, 0);
    phases = find(&t, work, WORKS, DL_STEP_REGULAR);
    assert_int_equal(phases.phases[1], DL_PHASE_BACKWARD);
    dl_step_phases_free(&phases);
    for (size_t i = 0; i < t.trace.activity_count; i++)
        if (t.activities[i].kind == DL_ACTIVITY_CALL) t.activities[i].correlation = 0;
    phases = find(&t, work, WORKS, DL_STEP_REGULAR);
    assert_int_equal(phases.known_steps, 1);
    assert_int_equal(phases.phases[1], DL_PHASE_FORWARD);
    assert_int_equal(phases.phases[2], DL_PHASE_BACKWARD);
    dl_step_phases_free(&phases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_tell_the_phases),
        cmocka_unit_test(forward_passes_repeat),
        cmocka_unit_test(an_evaluation_is_no_update),
        cmocka_unit_test(named_forward_passes_repeat),
        cmocka_unit_test(loss_ends_the_forward_pass),
        cmocka_unit_test(without_a_backward_pass_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
