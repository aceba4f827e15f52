/* Scenarios whose workers are the GPUs of a machine file (tests/gpu_fixture.h: 2 nodes of 4). */
#include "tests/gpu_fixture.h"

static const char machine_path[] = "scenario_gpus.ini";

static dl_status read_text(dl_scenario *scenario, const char *text, dl_error *err)
{
    fixture_write(machine_path, FIXTURE_GPUS);
    dl_status status = dl_scenario_read_text(scenario, "s.ini", text, strlen(text), err);
    unlink(machine_path);
    return status;
}

static dl_scenario must_read(const char *text)
{
    dl_scenario scenario = {0};
    dl_error err = {0};
    if (read_text(&scenario, text, &err) != DL_OK) fail_msg("line %d: %s", err.line, err.text);
    return scenario;
}

#define HEAD "[machine]\nfile = scenario_gpus.ini\n"
#define WORK "[workload]\ncosts = c.ini\nbatch_per_worker = 4\n"

static void defaults(void **state DL_UNUSED)
{
    DL_SCOPED(dl_scenario) s = must_read(HEAD "workers = 1, 8\n" WORK);
    const dl_gpu_options *gpu = s.gpu;
    assert_int_equal(s.point_count, 2);
    assert_int_equal(s.points[1].cores, DL_CORES_GPU);
    assert_int_equal(gpu->dispatch, DL_DISPATCH_PER_GPU);
    assert_int_equal(gpu->ahead, 1);
    assert_int_equal(gpu->where, DL_WHERE_AUTO);
    assert_int_equal(gpu->shards, 1);
    assert_string_equal(gpu->algorithm, "auto");
    assert_int_equal(gpu->fidelity, DL_FIDELITY_PHASE);
    assert_true(!gpu->pageable && !gpu->overlap && gpu->bucket_bytes == 0);
    assert_int_equal(s.compression.kind, DL_COMPRESS_NONE);
    assert_true(gpu->input_cores == 1 && gpu->prefetch == 1);
    assert_int_equal(dl_gpu_options_count(gpu), 8);
    dl_place last = dl_gpu_options_place(gpu, 7);
    assert_true(last.node == 1 && last.index == 3);
    char text[DL_POINT_TEXT_BYTES];
    assert_string_equal(dl_point_text(text, sizeof text, &s.points[1]),
                        "workers 8, batch 32, none");
}

static void everything_given(void **state DL_UNUSED)
{
    dl_scenario s = must_read(HEAD "workers = 2\ngpus = 1, 6\ndispatch = single\nahead = 0\n"
                                   "pageable = yes\n" WORK "samples_per_epoch = 100\n"
                                   "[sync]\nmode = ps, allreduce\nwhere = gpu:5\n"
                                   "[exchange]\nshards = 3\nalgorithm = tree\nfidelity = chunk\n"
                                   "bucket_bytes = 7\noverlap = yes\ncompress = topk\n"
                                   "topk_frac = 0.5\n[input]\ncores = 3\nprefetch = 0\n");
    const dl_gpu_options *gpu = s.gpu;
    dl_place second = dl_gpu_options_place(gpu, 1), shard = dl_gpu_options_server(gpu, 2);
    assert_true(second.node == 1 && second.index == 2);
    assert_true(shard.kind == DL_PLACE_GPU && shard.node == 1 && shard.index == 3);
    assert_int_equal(gpu->dispatch, DL_DISPATCH_SINGLE);
    assert_true(gpu->ahead == 0 && gpu->pageable && gpu->overlap && gpu->bucket_bytes == 7);
    assert_true(gpu->where == DL_WHERE_GPU && gpu->where_gpu == 5 && gpu->shards == 3);
    assert_string_equal(gpu->algorithm, "tree");
    assert_int_equal(gpu->fidelity, DL_FIDELITY_CHUNK);
    assert_true(s.compression.kind == DL_COMPRESS_TOPK && s.compression.kept_frac == 0.5);
    assert_true(gpu->input_cores == 3 && gpu->prefetch == 0);
    assert_int_equal(s.samples_per_epoch, 100);
    dl_scenario_free(&s);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    dl_scenario s = {0};
    const dl_status status = read_text(&s, text, err);
    if (status != DL_OK) assert_null(s.points);
    return status;
}

static const refused_text wrong[] = {
    {HEAD "workers = 2, 9\n" WORK, DL_ERR_RANGE, 3, "9 workers, but scenario_gpus.ini has 8 GPUs"},
    {HEAD "workers = 3\ngpus = 0, 2\n" WORK "[sync]\nmode = allreduce\n", DL_ERR_DATA, 3,
     "3 workers share 2 GPUs: collectives have one rank on each"},
    {HEAD "workers = 1\ngpus = 2, 0\n" WORK, DL_ERR_RANGE, 4, "ascend"},
    {HEAD "workers = 1\ngpus = 8\n" WORK, DL_ERR_RANGE, 4, "8"},
    {HEAD "workers = 1\ncores = 2\n" WORK, DL_ERR_DATA, 4, "workers are GPUs"},
    {HEAD "workers = 1\nsite_bytes_per_s = 1Gb/s\n" WORK, DL_ERR_DATA, 4,
     "has no sites: this needs [network] sites"},
    {HEAD "workers = 1\n" WORK "[network]\nsite_latency_ns = 1ms\n", DL_ERR_DATA, 8,
     "has no sites: this needs [network] sites"},
    {HEAD "workers = 1\n" WORK "[network]\nsites = 3\n", DL_ERR_RANGE, 8, "has 2 nodes"},
    {HEAD "workers = 1\n" WORK "[network]\nlatency = 3ms\n", DL_ERR_NAME, 8,
     "[network] site_latency_ns"},
    {HEAD "workers = 1\ndispatch = two\n" WORK, DL_ERR_NAME, 4, "per_gpu"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = ps\nwhere = gpu:8\n", DL_ERR_RANGE, 9, "8"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = ps\nwhere = gpu\n", DL_ERR_NAME, 9, "unknown place"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = average, ps\nwhere = allreduce\n", DL_ERR_DATA, 9,
     "mode ps needs a server"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = ps\nwhere = gpu:1\nserver_threads = 2\n",
     DL_ERR_DATA, 10, "threads are of a server in host memory, not with where = gpu:1"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = average\nserver_threads = 2\nwhere = allreduce\n",
     DL_ERR_DATA, 9, "threads are of a server in host memory, not with where = allreduce"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = easgd\nwhere = allreduce\n", DL_ERR_DATA, 9,
     "mode easgd needs a server"},
    {HEAD "workers = 1\n" WORK "[exchange]\nalgorithm = rings\n", DL_ERR_NAME, 8, "ring"},
    {HEAD "workers = 1\n" WORK "[exchange]\nfetch = layer\n", DL_ERR_NAME, 8, "layers"},
    {HEAD "workers = 1\n" WORK "[exchange]\nlarge_bytes = 1MB\n", DL_ERR_DATA, 8, "large_split"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = ps\nlag = 1\n[exchange]\nfetch = layers\n",
     DL_ERR_DATA, 9, "not with [exchange] fetch = layers"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = ssp\nbound = 1\n[exchange]\nfetch = layers\n",
     DL_ERR_DATA, 11, "ssp fetches once its bound permits: only fetch = after or next_step"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = softsync\n[exchange]\norder = forward\n",
     DL_ERR_DATA, 10,
     "mode softsync has no use for it: only ps, async and ssp send tensor by tensor"},
    {HEAD "workers = 1\n" WORK
          "[sync]\nmode = average\nserver_threads = 2\n[exchange]\nalgorithm = ring\n",
     DL_ERR_DATA, 11, "mode average has no use for it: exchange through a server has none"},
    {HEAD "workers = 2\n" WORK "[sync]\nmode = ps\n[exchange]\ncollectives = hosts\n", DL_ERR_DATA,
     10, "mode ps has no use for it: its workers exchange through a server"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = average\n[exchange]\noverlap = yes\n", DL_ERR_DATA,
     10, "mode average has no use for it"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = allreduce\n[exchange]\nserver_bytes_per_s = 1GB/s\n",
     DL_ERR_DATA, 10, "mode allreduce has no use for it: it limits servers in host memory"},
    {HEAD "workers = 1\n" WORK
          "[sync]\nmode = ps\nwhere = gpu:0\n[exchange]\nserver_bytes_per_s = 1GB/s\n",
     DL_ERR_DATA, 11, "mode ps has no use for it"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = allreduce\n[exchange]\nshards = 2\n", DL_ERR_DATA,
     10, "mode allreduce has no use for it: collectives have no server"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = ssp\nbound = 1\n[exchange]\nsum = on_arrival\n",
     DL_ERR_DATA, 11, "mode ssp has no use for it: only servers of ps, softsync"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = async\n[exchange]\nbuckets = views\n", DL_ERR_DATA,
     10, "only gradients that a collective sums"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = softsync\n[exchange]\nbucket_bytes = 1MB\n",
     DL_ERR_DATA, 10, "whole vectors are sent to its server"},
    {HEAD "layout = tp=2\n" WORK "[sync]\nmode = softsync\n[exchange]\nbucket_bytes = 1MB\n",
     DL_ERR_DATA, 10, "whole vectors are sent to its server"},
    {HEAD "layout = tp=2\n" WORK "[sync]\nmode = average\n[exchange]\nbuckets = views\n",
     DL_ERR_DATA, 10, "only gradients that a collective sums"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = ps\n[exchange]\nslows = exchange\n", DL_ERR_DATA, 10,
     "no collective is simulated that slows"},
    {HEAD "layout = pp=2\n" WORK "[sync]\nmode = allreduce\n[exchange]\nslows = exchange\n",
     DL_ERR_DATA, 10, "no collective is simulated that slows"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = ps\n[exchange]\nstaged = alone\n", DL_ERR_DATA, 10,
     "only ps, async and ssp with a server"},
    {HEAD "workers = 1\n" WORK "[sync]\nmode = async\n[exchange]\ncollectives = hosts\n",
     DL_ERR_DATA, 10, "its workers exchange through a server"},
    {HEAD "workers = 1\n" WORK "[exchange]\ncompress = topk\n", DL_ERR_DATA, 8,
     "this needs [exchange] topk_frac"},
    {HEAD "workers = 1\n" WORK "[exchange]\ntopk_frac = 0.1\n", DL_ERR_DATA, 8, "topk"},
    {"[machine]\nfile = nowhere.ini\nworkers = 1\n" WORK, DL_ERR_IO, 0, "cannot open"},
    {"[machine]\ncores = 1\nworkers = 1\nahead = 1\n" WORK, DL_ERR_DATA, 4, "[machine] file"},
    {"[machine]\ncores = 1\nworkers = 1\n" WORK "[input]\ncores = 1\n", DL_ERR_DATA, 8,
     "[machine] file"},
};

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    assert_all_refused(wrong, NULL, read_wrong);
}

/* 7,158,279 nodes of 300 GPUs exceed the range of int by 53. */
static void numbers_of_gpus_are_ints(void **state DL_UNUSED)
{
    static const char text[] = HEAD "workers = 1\nnodes = 7158279\n" WORK;
    fixture_write(machine_path, FIXTURE_NODES("2") "[gpus 1-299]\nmodel = g\nparent = socket0\n"
                                                   "link = x16\n");
    dl_scenario s = {0};
    dl_error err = {0};
    const dl_status status = dl_scenario_read_text(&s, "s.ini", text, sizeof text - 1, &err);
    unlink(machine_path);
    assert_int_equal(status, DL_ERR_RANGE);
    assert_int_equal(err.line, 4);
    assert_contains(err.text, "7158279 nodes of up to 300 GPUs: more than 2147483647 GPUs");
}

static void needs_follow_mode_and_place(void **state DL_UNUSED)
{
    enum {
        ALWAYS = DL_NEED_OPS | DL_NEED_DISPATCH | DL_NEED_INPUT,
        EXCHANGE = ALWAYS | DL_NEED_PARAMETERS
    };
    static const struct {
        const char *text;
        unsigned needs;
    } cases[] = {
        {"workers = 2\n" WORK, ALWAYS},
        {"workers = 2\n" WORK "[sync]\nmode = ps\n", EXCHANGE | DL_NEED_UPDATE | DL_NEED_BARRIER},
        {"workers = 1\n" WORK "[sync]\nmode = ps\n", EXCHANGE | DL_NEED_UPDATE},
        {"workers = 2\n" WORK "[sync]\nmode = async\n", EXCHANGE | DL_NEED_UPDATE | DL_NEED_LOCK},
        {"workers = 2\n" WORK "[sync]\nmode = async\nwhere = gpu:0\n", EXCHANGE},
        {"workers = 2\npageable = yes\n" WORK
         "[sync]\nmode = average\nwhere = cpu\naverage_state = yes\n",
         EXCHANGE | DL_NEED_AVERAGE | DL_NEED_STATE | DL_NEED_BARRIER | DL_NEED_PAGEABLE},
        {"workers = 2\n" WORK "[sync]\nmode = average\nwhere = allreduce\n", EXCHANGE},
        {"workers = 2\n" WORK "[sync]\nmode = average\n", EXCHANGE},
        {"workers = 4\ngpus = 0, 1\n" WORK "[sync]\nmode = average\n",
         EXCHANGE | DL_NEED_AVERAGE | DL_NEED_BARRIER | DL_NEED_SHARING},
        {"workers = 2\n" WORK "[sync]\nmode = allreduce\n", EXCHANGE},
        {"workers = 2\n" WORK "[sync]\nmode = allreduce\n[exchange]\noverlap = yes\n",
         EXCHANGE | DL_NEED_OVERLAP},
        {"workers = 2\n" WORK "[sync]\nmode = average, allreduce\n[exchange]\noverlap = yes\n",
         EXCHANGE},
    };
    const dl_costs costs = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, HEAD "%s", cases[i].text);
        DL_SCOPED(dl_scenario) s = must_read(text);
        if (dl_run_needs(&s, &costs, &s.points[0]) != cases[i].needs) {
            fail_msg("case %zu: %x, not %x", i, dl_run_needs(&s, &costs, &s.points[0]),
                     cases[i].needs);
        }
    }
}

/* The machine's origins count if there is an exchange: some of the fixture's figures are
 * assumed. */
static void the_machine_has_an_origin_too(void **state DL_UNUSED)
{
    static const char costs_text[] =
        "[costs]\nschema = 1\nparameter_bytes = 8\n"
        "[op a.forward]\nfixed_ns = 1, measured\nper_sample_ns = 1, measured\n"
        "[dispatch]\nserial_ns = 1, measured\nper_worker_ns = 1, measured\n";
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    dl_scenario s = must_read(HEAD "workers = 2\n" WORK "[sync]\nmode = none, allreduce\n");
    assert_int_equal(dl_run_origin(&s, &costs, &s.points[0]), DL_ORIGIN_MEASURED);
    assert_int_equal(dl_run_origin(&s, &costs, &s.points[1]), DL_ORIGIN_ASSUMED);
    dl_scenario_free(&s);
}

/* Without copies, computing and the sum of two vectors remain. */
static void copies_can_be_free(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH);
    DL_SCOPED(dl_scenario) s = must_read(HEAD "workers = 2\n" WORK "[sync]\nmode = ps\n");
    dl_gpu_options_scale_copies(s.gpu, 0);
    DL_SCOPED(dl_run_result) r = fixture_run(&costs, &s);
    assert_near(r.step_mean_s, 1e-3 + 3 * 80e-6, 1e-5);
}

/* All-reduces inside sites do not allow several ranks on a GPU. */
static void shared_gpus_reduce_nothing_inside(void **state DL_UNUSED)
{
    dl_scenario s = {0};
    dl_error err = {0};
    const dl_status status =
        read_text(&s,
                  HEAD "workers = 3\ngpus = 0\n" WORK "[sync]\nmode = average\n"
                       "inside = allreduce\n",
                  &err);
    assert_int_equal(status, DL_ERR_DATA);
    assert_contains(err.text, "3 workers share 1 GPU");
}

/* Micro-batches of a pipeline with one stage are accumulated batches, although no key requests
 * these. If layers wait for their parameters, each is a pass of its own. */
static void micro_batches_of_one_stage_are_passes(void **state DL_UNUSED)
{
    static const char *const fetches[] = {"layers", "after"};
    for (int f = 0; f < 2; f++) {
        DL_SCOPED(dl_scenario) s = {0};
        dl_error err = {0};
        const DL_AUTOFREE char *text =
            dl_format(HEAD "workers = 2\n" WORK "[pipeline]\nstages = 1\nmicro_batches = 2\n"
                           "[sync]\nmode = ps\n[exchange]\nfetch = %s\n",
                      fetches[f]);
        assert_int_equal(read_text(&s, text, &err), DL_OK);
        assert_int_equal(dl_scenario_exchange(&s, &s.points[0]).passes, f == 0 ? 2 : 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(everything_given),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(numbers_of_gpus_are_ints),
        cmocka_unit_test(shared_gpus_reduce_nothing_inside),
        cmocka_unit_test(micro_batches_of_one_stage_are_passes),
        cmocka_unit_test(needs_follow_mode_and_place),
        cmocka_unit_test(the_machine_has_an_origin_too),
        cmocka_unit_test(copies_can_be_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
