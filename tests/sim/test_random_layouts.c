/* Random layouts on machines of the catalogue. The lower bound of a step (dl_run_least_ns) never
 * exceeds the simulated step, as the search of --advise layout would then drop the best layouts,
 * and is close enough to be useful. A run in which shards and workers represent others gives the
 * same result as one in which each is simulated. RANDOM_LAYOUTS=COUNT in the environment tries more
 * layouts. */
#include "tests/sim_fixture.h"

#include <stdlib.h>

#include "common/random.h"
#include "common/sort.h"
#include "common/units.h"

enum { LAYOUTS = 400, TEXT_BYTES = 1024 };

typedef struct made {
    dl_random random;
    char text[TEXT_BYTES];
} made;

DL_ORDER(by_size, double, DL_COMPARE(*a, *b));

static int below(made *m, int end)
{
    return (int)dl_random_below(&m->random, (uint64_t)end);
}

#define ONE_OF(m, list) (list)[below((m), (int)DL_LENGTH(list))]

/* A random divisor of `of`. */
static int divisor(made *m, int of)
{
    int size = 1 + below(m, of);
    while (of % size != 0)
        size = 1 + below(m, of);
    return size;
}

static void make(made *m, uint64_t seed)
{
    static const char *const models[] = {
        "gpt2:layers=8",
        "llama3_8b:layers=6,sequence=2048,fused=yes",
        "bert_large:layers=10,fused=yes",
        "gpt2:layers=12,width=2048,heads=16,fused=yes,sums=within",
        "qwen2.5_7b:layers=5,sequence=4096",
        "qwen3_30b_a3b:layers=5,sequence=2048,fused=yes",
        "qwen3_30b_a3b:layers=4,sequence=1024,fused=yes,sums=within"};
    static const struct {
        const char *name;
        int gpus, node;
    } machines[] = {{"8xh100", 8, 8},          {"dgx_a100", 8, 8},
                    {"4xdgx_h100", 32, 8},     {"2x8xa100_80gb@4x100ib", 16, 8},
                    {"4x4xv100@25gbe", 16, 4}, {"16xh100@10gbe", 16, 1},
                    {"4x8xh100@400gbe", 32, 8}};
    static const char *const modes[] = {"allreduce", "allreduce", "allreduce", "average", "none"};
    static const char *const recomputed[] = {"none", "selective", "full", "products"};
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "2bw", "pipedream"};
    static const char *const sharded[] = {"none", "optimizer", "gradients"};
    static const char *const yes_no[] = {"yes", "no"};
    static const int orders[][5] = {{0, 3, 4, 1, 2}, {0, 2, 1, 4, 3}, {1, 0, 3, 2, 4},
                                    {3, 2, 4, 1, 0}, {4, 1, 2, 3, 0}, {0, 4, 2, 1, 3}};
    static const char *const axes[] = {"tp", "pp", "fsdp", "cp", "ep"};
    dl_random_init(&m->random, seed, 0, 0, 0);
    const int at = below(m, (int)DL_LENGTH(machines)), gpus = machines[at].gpus;
    const char *model = ONE_OF(m, models);
    int sizes[5];
    sizes[0] = divisor(m, machines[at].node);
    sizes[1] = divisor(m, gpus / sizes[0] < 4 ? gpus / sizes[0] : 4);
    while (gpus / sizes[0] % sizes[1] != 0)
        sizes[1]--;
    sizes[2] = below(m, 2) ? divisor(m, gpus / sizes[0] / sizes[1]) : 1;
    const int rest = gpus / sizes[0] / sizes[1] / sizes[2];
    sizes[3] = below(m, 3) ? 1 : divisor(m, rest < 4 ? rest : 4);
    while (rest % sizes[3] != 0)
        sizes[3]--;
    const int last = rest / sizes[3];
    sizes[4] = strncmp(model, "qwen3", 5) == 0 ? divisor(m, last) : 1;
    const int workers = last / sizes[4];
    const char *mode = workers > 1 ? ONE_OF(m, modes) : "none";
    const int micro_batches = (1 + below(m, 4)) * sizes[1], samples = 1 << below(m, 4);
    const char *schedule = ONE_OF(m, schedules);
    const int chunks = strcmp(schedule, "interleaved") == 0 && sizes[1] > 1 ? 2 : 1;
    if (chunks > 1 && sizes[1] > 2) sizes[1] = 2; /* GPUs that are not used are idle */
    char layout[64] = "";
    const int *order = ONE_OF(m, orders);
    for (int a = 0; a < 5; a++)
        snprintf(layout + strlen(layout), sizeof layout - strlen(layout), "%s=%d,", axes[order[a]],
                 sizes[order[a]]);
    const bool flushes = strcmp(schedule, "2bw") != 0 && strcmp(schedule, "pipedream") != 0;
    const char *divided = ONE_OF(m, sharded), *overlap = ONE_OF(m, yes_no);
    const bool sums = strcmp(mode, "allreduce") == 0;
    snprintf(m->text, sizeof m->text,
             "[scenario]\nsteps = 3\nwarmup = 1\n[machine]\nfile = %s\nlayout = %sdp=%d\n"
             "[workload]\nmodel = %s\nbatch = %d\nrecompute = %s\n[sync]\nmode = %s\n%s[noise]\n"
             "kind = none\n[exchange]\noverlap = %s\nsharded = %s\n[pipeline]\nschedule = %s\n"
             "chunks = %d\n%s = %d\n",
             machines[at].name, layout, workers, model,
             samples * micro_batches * workers * sizes[2] * sizes[4], ONE_OF(m, recomputed), mode,
             strcmp(mode, "average") == 0 ? "interval = 2\n" : "", sums ? overlap : "no",
             sums && sizes[2] == 1 ? divided : "none", schedule, chunks,
             flushes ? "micro_batch" : "micro_batches", flushes ? samples : micro_batches);
}

/* Reads the layout; false: it is refused. */
static bool open_layout(const made *m, dl_study *study)
{
    dl_error err = {0};
    dl_status status = dl_study_read_text(study, "s.ini", m->text, strlen(m->text), &err);
    if (status == DL_OK) status = dl_study_read_costs(study, &err);
    if (status != DL_OK && getenv("RANDOM_LAYOUTS") != NULL) printf("%s\n", err.text);
    return status == DL_OK;
}

static bool run_so(const dl_variant *variant, bool is_whole, dl_run_result *result)
{
    const dl_run_config config = {.scenario = &variant->scenario,
                                  .costs = &variant->costs,
                                  .point = &variant->scenario.points[0],
                                  .is_whole = is_whole,
                                  .by_spread = true};
    return dl_run(&config, result, NULL) == DL_OK;
}

/* The bound divided by the step; without tensors the bound must be lower. NaN: the layout is
 * refused. */
static double part_of_step(const made *m)
{
    DL_SCOPED(dl_study) study = {0};
    DL_SCOPED(dl_run_result) result = {0};
    double part = NAN;
    if (open_layout(m, &study) && run_so(&study.variants[0], false, &result)) {
        const dl_scenario *scenario = &study.variants[0].scenario;
        const dl_costs *costs = &study.variants[0].costs;
        const dl_point *point = &scenario->points[0];
        const double step_ns = 1e9 * (double)point->batch / result.throughput_per_s;
        const double least_ns = dl_run_least_ns(scenario, costs, point, true);
        assert_true(dl_run_least_ns(scenario, costs, point, false) <= least_ns);
        part = least_ns / step_ns;
    }
    return part;
}

static int layout_count(void)
{
    const char *more = getenv("RANDOM_LAYOUTS");
    return more != NULL ? atoi(more) : LAYOUTS;
}

static void no_step_is_below_its_bound(void **state DL_UNUSED)
{
    const int count = layout_count();
    DL_AUTOFREE double *parts = calloc((size_t)count, sizeof *parts);
    int ran = 0, broken = 0;
    for (int i = 0; i < count; i++) {
        made m;
        make(&m, (uint64_t)i + 1);
        const double part = part_of_step(&m);
        if (isnan(part)) continue;
        parts[ran++] = part;
        if (part <= 1 + 1e-9) continue;
        print_error("%d: the bound is %.6f of the step:\n%s\n", i + 1, part, m.text);
        broken++;
    }
    qsort(parts, (size_t)ran, sizeof *parts, by_size);
    printf("bound over step of %d of %d layouts: median %.3f, least %.3f, most %.6f\n", ran, count,
           parts[ran / 2], parts[0], parts[ran - 1]);
    assert_int_equal(broken, 0);
    assert_true(ran >= count / 2);
    assert_true(parts[ran / 2] > 0.95);
}

static bool is_near(double a, double b, double part)
{
    return fabs(a - b) <= part * fabs(b);
}

/* Compares all results of two runs; parts of a step are sums of hundreds of times in whole ns. */
static bool are_same(const dl_run_result *a, const dl_run_result *b)
{
    bool same = is_near(a->throughput_per_s, b->throughput_per_s, 1e-5) &&
                is_near(a->step_mean_s, b->step_mean_s, 1e-5) &&
                is_near(a->usage.traffic_bytes, b->usage.traffic_bytes, 1e-9) &&
                is_near(a->usage.sent_bytes, b->usage.sent_bytes, 1e-9) &&
                is_near(a->usage.link_frac, b->usage.link_frac, 1e-4) &&
                (a->split == NULL) == (b->split == NULL);
    for (int p = 0; p < DL_PART_COUNT; p++)
        same = same && fabs(a->part_frac[p] - b->part_frac[p]) < 1e-4;
    if (!same || a->split == NULL) return same;
    for (int s = 0; s < a->split->stages; s++)
        same = same && fabs(a->split->busy_frac[s] - b->split->busy_frac[s]) < 1e-4;
    return same && fabs(a->split->bubble_frac - b->split->bubble_frac) < 1e-4;
}

static void those_that_stand_for_others_do_the_same(void **state DL_UNUSED)
{
    const int count = layout_count();
    int ran = 0, fewer = 0, broken = 0;
    for (int i = 0; i < count; i++) {
        made m;
        DL_SCOPED(dl_study) study = {0};
        dl_run_result results[2] = {{0}};
        make(&m, (uint64_t)i + 1);
        if (open_layout(&m, &study) && run_so(&study.variants[0], false, &results[0]) &&
            run_so(&study.variants[0], true, &results[1])) {
            ran++;
            fewer += results[0].events < results[1].events;
            if (!are_same(&results[0], &results[1])) {
                print_error("%d: %.12g, whole %.12g samples/s:\n%s\n", i + 1,
                            results[0].throughput_per_s, results[1].throughput_per_s, m.text);
                broken++;
            }
        }
        dl_run_result_free(&results[0]);
        dl_run_result_free(&results[1]);
    }
    printf("%d of %d layouts with fewer events than whole ones\n", fewer, ran);
    assert_int_equal(broken, 0);
    assert_true(fewer >= ran / 3);
}

/* On nodes with one port, whose GPUs have different routes to it, the shards of one node stand for
 * those of the others, whichever axis is inside a node. */
static void shards_of_a_node_stand_for_others(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"ep=8,fsdp=8", "fsdp=8,ep=8", "tp=2,ep=4,fsdp=8",
                                          "ep=16,fsdp=4", "ep=4,pp=4,fsdp=4"};
    for (size_t i = 0; i < DL_LENGTH(layouts); i++) {
        made m;
        DL_SCOPED(dl_study) study = {0};
        dl_run_result results[2] = {{0}};
        snprintf(m.text, sizeof m.text,
                 "[scenario]\nsteps = 2\nwarmup = 1\n[machine]\nfile = 8x8xh100@400gbe\n"
                 "layout = %s\n[workload]\nmodel = qwen3_30b_a3b:layers=4,sequence=1024,fused=yes\n"
                 "batch = 256\n[sync]\nmode = none\n[noise]\nkind = none\n[exchange]\n"
                 "overlap = yes\n[pipeline]\nmicro_batch = 1\n",
                 layouts[i]);
        assert_true(open_layout(&m, &study));
        assert_true(run_so(&study.variants[0], false, &results[0]));
        assert_true(run_so(&study.variants[0], true, &results[1]));
        assert_true(are_same(&results[0], &results[1]));
        assert_true(is_near(results[0].step_mean_s, results[1].step_mean_s, 1e-9));
        assert_true(3 * results[0].events < 2 * results[1].events);
        dl_run_result_free(&results[0]);
        dl_run_result_free(&results[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_step_is_below_its_bound),
                                       cmocka_unit_test(those_that_stand_for_others_do_the_same),
                                       cmocka_unit_test(shards_of_a_node_stand_for_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
