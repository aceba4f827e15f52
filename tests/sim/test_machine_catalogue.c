/* Machines generated from the tables of GPUs and instances. */
#include <stdlib.h>

#include "common/csv.h"
#include "common/install.h"
#include "sim/collective/collective.h"
#include "sim/scenario/machine_catalogue.h"
#include "tests/check.h"
#include "tests/near.h"

static dl_machine machine_called(const char *name)
{
    dl_machine machine = {0};
    dl_error error = {0};
    if (dl_machine_open(&machine, name, &error)) fail_msg("%s: %s", name, error.text);
    return machine;
}

/* Checks that every row of a table is a machine, alone and, if it has ports, with a count before
 * it. */
static void check_table(const char *table, const char *const *formats)
{
    DL_SCOPED(dl_csv) csv = {0};
    DL_AUTOFREE char *folder = dl_share_path("scenarios/machines"),
                     *path = dl_format("%s/%s", folder, table);
    assert_int_equal(dl_csv_read(&csv, path, NULL), DL_OK);
    for (size_t r = 0; r < csv.rows; r++) {
        const int nics = dl_csv_column(&csv, "nics");
        const bool alone = nics >= 0 && dl_csv_cell(&csv, r, (size_t)nics)[0] == '\0';
        for (int f = 0; formats[f] != NULL && !(alone && f > 0); f++) {
            DL_AUTOFREE char *name = dl_format("%s%s", formats[f], dl_csv_cell(&csv, r, 0));
            DL_SCOPED(dl_machine) machine = machine_called(name);
            assert_true(machine.kinds[0].gpu_count > 0);
            assert_true(machine.models[0].fp32_flop_per_s.value > 1e12);
            assert_int_equal(machine.models[0].memory_bytes.origin, DL_ORIGIN_CATALOGUE);
        }
        assert_true(strlen(dl_csv_cell(&csv, r, (size_t)dl_csv_column(&csv, "source"))) > 10);
    }
}

static void every_row_makes_machines(void **state DL_UNUSED)
{
    static const char *const boxes[] = {"1x", "2x", "4x", "8x", "3x", NULL};
    static const char *const nodes[] = {"", "2x", NULL};
    check_table("gpus.csv", boxes);
    check_table("instances.csv", nodes);
}

/* Up to four GPUs are on one socket, more on two: 3 of 6 on each. The newest bus determines the
 * host. */
static void boxes_may_have_unlike_gpus(void **state DL_UNUSED)
{
    dl_machine m = machine_called("1xgtx1080ti+1xrtx2080ti");
    assert_string_equal(m.name, "1x GeForce GTX 1080 Ti + 1x GeForce RTX 2080 Ti");
    assert_int_equal(m.kinds[0].gpu_count, 2);
    assert_int_equal(m.kinds[0].peer, DL_PEER_NONE);
    assert_string_equal(dl_machine_model(&m, 0, 0)->name, "gtx1080ti");
    assert_string_equal(dl_machine_model(&m, 0, 1)->name, "rtx2080ti");
    dl_machine_free(&m);
    m = machine_called("2xv100+4xrtx3090");
    assert_int_equal(m.kinds[0].sockets, 2);
    assert_int_equal(m.kinds[0].gpus[2].parent, 0);
    assert_int_equal(m.kinds[0].gpus[3].parent, 1);
    assert_string_equal(m.classes[m.kinds[0].gpus[1].link].name, "pcie3x16");
    assert_string_equal(m.classes[m.kinds[0].gpus[5].link].name, "pcie4x16");
    assert_true(near_scaled(m.kinds[0].memory_bytes_per_s.value, 204.8e9, 0, 1e-12));
    dl_machine_free(&m);
    m = machine_called("1xrtx4060ti+1xrtx5060ti"); /* eight lanes: wire rates of 3.0 and 4.0 x16 */
    assert_string_equal(m.classes[m.kinds[0].gpus[0].link].name, "pcie4x8");
    assert_string_equal(m.classes[m.kinds[0].gpus[1].link].name, "pcie5x8");
    assert_true(near_scaled(m.kinds[0].memory_bytes_per_s.value, 307.2e9, 0, 1e-12));
    dl_machine_free(&m);
    m = machine_called("nc96ads_a100_v4"); /* an instance with bridges between 0 and 1, 2 and 3 */
    assert_int_equal(m.kinds[0].nvlink_count, 2);
    dl_machine_free(&m);
    static const char *const bad[] = {"1xv100+", "1xv100+3090", "9xv100+8xt4",
                                      "1xv100+2xp3.2xlarge"};
    for (size_t i = 0; i < DL_LENGTH(bad); i++) {
        dl_machine none = {0};
        dl_error error = {0};
        if (dl_machine_open(&none, bad[i], &error) == DL_OK) fail_msg("%s is a machine", bad[i]);
    }
}

static void one_node_needs_no_network(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = machine_called("1x2xrtx3090");
    assert_int_equal(m.nodes, 1);
    assert_int_equal(m.kinds[0].gpu_count, 2);
    assert_int_equal(m.kinds[0].nic_count, 0);
}

/* Nine tenths of 1 Gb/s are 112.5 MB/s. Without a number of nodes there is one, which still has a
 * port. */
static void boxes_may_have_a_network(void **state DL_UNUSED)
{
    dl_machine m = machine_called("4x2xrtx3090@1gbe");
    assert_string_equal(m.name, "2x GeForce RTX 3090, 1 Gb/s Ethernet");
    assert_int_equal(m.nodes, 4);
    assert_int_equal(m.kinds[0].gpu_count, 2);
    assert_int_equal(m.kinds[0].nic_count, 1);
    const dl_link_class *port = &m.classes[m.kinds[0].nics[0].port];
    assert_true(near_scaled(port->bytes_per_s.value, 112.5e6, 0, 1e-12));
    assert_true(near_scaled(port->bytes_per_s.low, 87.5e6, 0, 1e-12));
    assert_true(near_scaled(port->bytes_per_s.high, 121.25e6, 0, 1e-12));
    assert_true(near_scaled(port->latency_ns.value, 25000, 0, 1e-12));
    dl_machine_free(&m);
    m = machine_called("2x1xt4+1xv100@200ib");
    assert_int_equal(m.nodes, 2);
    assert_int_equal(m.kinds[0].gpu_count, 2);
    assert_true(near_scaled(m.classes[m.kinds[0].nics[0].port].latency_ns.value, 1300, 0, 1e-12));
    dl_machine_free(&m);
    /* The lower bound is 7 Gb/s of 25 and 15 of 100 with TCP, and 0.7 of the rate with InfiniBand.
     * TCP limits a server's process. */
    static const struct {
        const char *name;
        double low;
    } ports[] = {{"1xt4@25gbe", 7e9 / 8}, {"1xt4@100gbe", 15e9 / 8}, {"1xt4@100ib", 70e9 / 8}};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        m = machine_called(ports[i].name);
        port = &m.classes[m.kinds[0].nics[0].port];
        assert_true(near_scaled(port->bytes_per_s.low, ports[i].low, 0, 1e-12));
        assert_true(m.kinds[0].server_bytes_per_s.known == (strstr(ports[i].name, "gbe") != NULL));
        dl_machine_free(&m);
    }
    static const struct {
        const char *name, *title;
        double rate, latency_ns;
    } kinds[] = {{"1xt4@ndr", "1x Tesla T4, 400 Gb/s InfiniBand", 0.9 * 400e9 / 8, 1300},
                 {"1xt4@4xhdr", "1x Tesla T4, 4 x 200 Gb/s InfiniBand", 0.9 * 200e9 / 8, 1300},
                 {"1xt4@100roce", "1x Tesla T4, 100 Gb/s RoCE", 0.9 * 100e9 / 8, 2000},
                 {"1xt4@4x100efa", "1x Tesla T4, 4 x 100 Gb/s EFA", 0.9 * 100e9 / 8, 15000}};
    for (size_t i = 0; i < DL_LENGTH(kinds); i++) {
        m = machine_called(kinds[i].name);
        port = &m.classes[m.kinds[0].nics[0].port];
        assert_string_equal(m.name, kinds[i].title);
        assert_true(near_scaled(port->bytes_per_s.value, kinds[i].rate, 0, 1e-12));
        assert_true(near_scaled(port->latency_ns.value, kinds[i].latency_ns, 0, 1e-12));
        assert_false(m.kinds[0].server_bytes_per_s.known);
        dl_machine_free(&m);
    }
    m = machine_called("8xrtx3090@2.5gbe");
    assert_int_equal(m.nodes, 1);
    assert_int_equal(m.kinds[0].nic_count, 1);
    dl_machine_free(&m);
}

static void faulty_networks_of_boxes_are_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *name, *error;
    } bad[] = {
        {"1xt4@1gbe+1xv100", "nodes need a network, as 1xt4@1gbe+1xv100@10gbe"},
        {"1xt4@1gbe+1xrtx309@1gbe", "did you mean '1xt4@1gbe+1xrtx3090@1gbe'?"},
        {"1xt4@1gbe+", "is neither a file nor a machine"},
        {"1xt4@1gbe+@1gbe", "is neither a file nor a machine"},
        {"6000000x1xt4@1gbe+6000000x1xt4@1gbe", "expected 1 to 10000000 nodes"},
        {"1xt4@1gbe+99999999999999999999x1xt4@1gbe", "expected 1 to 10000000 nodes"},
        {"1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+"
         "1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+1xt4@1gbe+"
         "1xt4@1gbe",
         "at most 16 kinds of nodes"},
        {"4x2xrtx3090", "nodes need a network, as 4x2xrtx3090@10gbe"},
        {"2xrtx3090@1g",
         "such as 10gbe (Ethernet over TCP), 200ib (InfiniBand), 100roce, or 8x400ib"},
        {"2xrtx3090@17x100gbe", "at most 16"},
        {"2xrtx3090@0x100gbe", "expected a network"},
        {"2xrtx3090@-1gbe", "expected a network"},
        {"2xrtx3090@0gbe", "expected a network"},
        {"2xrtx3090@0x10gbe", "expected a network"},
        {"2xrtx3090@", "expected a network"},
        {"0x2xrtx3090@1gbe", "expected 1 to 10000000 nodes"},
        {"99999999x2xrtx3090@1gbe", "nodes"},
        {"2xrtx309@1gbe", "did you mean '2xrtx3090'?"},
        {"2xrtx3090@roce", "expected a network"}, /* only generations of InfiniBand have a rate */
        {"4xg5.12xlarge@1gbe", "with another write the box: 4x4xa10g@1gbe"},
        {"nc48ads_a100_v4@1gbe", "write the box: 2xa100_80gb_pcie+nvlink@1gbe"},
        {"@1gbe", "dlsim --machines lists machines"},
    };
    for (size_t i = 0; i < DL_LENGTH(bad); i++) {
        dl_machine none = {0};
        dl_error error = {0};
        if (dl_machine_open(&none, bad[i].name, &error) == DL_OK)
            fail_msg("%s is a machine", bad[i].name);
        if (strstr(error.text, bad[i].error) == NULL) fail_msg("%s: %s", bad[i].name, error.text);
    }
}

/* Another kind of node after each network: a node with one GPU, then two with two, whose port is
 * faster. Equal ports share a link class. */
static void nodes_may_be_of_several_kinds(void **state DL_UNUSED)
{
    dl_machine m = machine_called("1xrtx3090@1gbe+2x1xt4+1xv100@10gbe+1xt4@1gbe");
    assert_string_equal(m.name, "1x GeForce RTX 3090, 1 Gb/s Ethernet; 2 of 1x Tesla T4 + 1x Tesla "
                                "V100-SXM2, "
                                "10 Gb/s Ethernet; 1x Tesla T4, 1 Gb/s Ethernet");
    assert_int_equal(m.nodes, 4);
    assert_int_equal(dl_machine_gpus(&m), 6);
    assert_string_equal(dl_machine_model(&m, 0, 0)->name, "rtx3090");
    assert_string_equal(dl_machine_model(&m, 2, 1)->name, "v100");
    assert_string_equal(dl_machine_model(&m, 3, 0)->name, "t4");
    const int slow = dl_machine_node(&m, 0)->nics[0].port;
    const int fast = dl_machine_node(&m, 2)->nics[0].port;
    assert_int_equal(dl_machine_node(&m, 3)->nics[0].port, slow);
    assert_true(near_scaled(m.classes[slow].bytes_per_s.value, 112.5e6, 0, 1e-12));
    assert_true(near_scaled(m.classes[fast].bytes_per_s.value, 1125e6, 0, 1e-12));
    dl_machine_free(&m);
    /* NVLink of two generations: measured, and from rings of nccl-tests. */
    m = machine_called("8xa100_80gb@200ib+1x8xb200@400ib");
    const dl_node_kind *first = dl_machine_node(&m, 0), *second = dl_machine_node(&m, 1);
    assert_true(near_scaled(m.classes[first->nvswitch_link].bytes_per_s.value, 279e9, 0, 1e-12));
    assert_true(near_scaled(m.classes[second->nvswitch_link].bytes_per_s.value, 675e9, 0, 1e-12));
    dl_machine_free(&m);
    /* 4 GPUs on one processor; 8 without NVLink on two */
    m = machine_called("4xa100_80gb@200ib+8xt4@100ib");
    assert_int_equal(dl_machine_node(&m, 0)->sockets, 1);
    assert_int_equal(dl_machine_node(&m, 1)->gpus[7].parent, 1);
    assert_int_equal(dl_machine_node(&m, 1)->nvswitch_link, -1);
    assert_int_equal(dl_machine_node(&m, 1)->peer, DL_PEER_SOCKET);
    dl_machine_free(&m);
}

static void boxes_are_as_the_table_says(void **state DL_UNUSED)
{
    dl_machine m = machine_called("some/folder/4xrtx3090");
    assert_string_equal(m.path, "4xrtx3090");
    assert_string_equal(m.name, "4x GeForce RTX 3090");
    assert_int_equal(m.kinds[0].gpu_count, 4);
    assert_int_equal(m.kinds[0].sockets, 1);
    assert_int_equal(m.kinds[0].peer, DL_PEER_NONE);
    assert_true(near_scaled(m.models[0].memory_bytes_per_s.value, 936e9, 0, 1e-12));
    assert_true(near_scaled(m.models[0].fp16_flop_per_s.value, 71e12, 0, 1e-12));
    assert_false(m.kinds[0].price_usd_per_hour.known);
    dl_machine_free(&m);
    m = machine_called("8xh100");
    assert_int_equal(m.kinds[0].sockets, 2);
    assert_int_equal(m.kinds[0].gpus[3].parent, 0);
    assert_int_equal(m.kinds[0].gpus[4].parent, 1);
    assert_true(
        near_scaled(m.classes[m.kinds[0].nvswitch_link].bytes_per_s.value, 376.6e9, 0, 1e-12));
    assert_true(near_scaled(m.kinds[0].nvswitch_sum_frac.value, 0.819, 0, 1e-12)); /* NVLS */
    dl_machine_free(&m);
    m = machine_called("8xa100_80gb"); /* the NVSwitch of A100 cannot sum */
    assert_false(m.kinds[0].nvswitch_sum_frac.known);
    assert_int_equal(dl_machine_nccl(&m), DL_NCCL_DEFAULT_MINOR);
    dl_machine_free(&m);
    m = machine_called("4xrtx3090"); /* without an NVSwitch the fastest algorithm is used */
    assert_int_equal(dl_machine_nccl(&m), 0);
    assert_true(near_scaled(m.models[0].compute_capability.value, 8.6, 0, 1e-12));
    dl_machine_free(&m);
    /* Eight GPUs connected to one another: 28 links of 0.84 x 64 GB/s. */
    m = machine_called("8xmi300x");
    assert_int_equal(m.kinds[0].nvlink_count, 28);
    assert_true(
        near_scaled(m.classes[m.kinds[0].nvlinks[0].link].bytes_per_s.value, 53.76e9, 0, 1e-12));
    dl_machine_free(&m);
    /* 256 units with 4096 dense operations per cycle in 16 bits, 8192 in 8, at 2.4 GHz; no tf32. */
    m = machine_called("1xBM.GPU.MI355X.8");
    assert_int_equal(m.kinds[0].nvlink_count, 28);
    assert_true(near_scaled(m.models[0].bf16_flop_per_s.value, 256 * 4096 * 2.4e9, 0, 1e-4));
    assert_true(near_scaled(m.models[0].fp8_flop_per_s.value, 256 * 8192 * 2.4e9, 0, 1e-4));
    assert_false(m.models[0].tf32_flop_per_s.known);
    dl_machine_free(&m);
    m = machine_called("1xh100"); /* no other GPU to connect to */
    assert_int_equal(m.kinds[0].nvswitch_link, -1);
    dl_machine_free(&m);
    m = machine_called("dgx_a100"); /* a file name */
    assert_int_equal(m.kinds[0].gpu_count, 8);
    dl_machine_free(&m);
}

/* As nccl-tests measured on B200: NCCL uses rings for up to five GPUs, and sums in the switch for
 * six or more: channels of at most 90 GB/s x 6 x 5/6 against 675 x 6/10. */
static void b200_sum_in_the_switch_from_six_on(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = machine_called("p6-b200.48xlarge");
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    for (int n = 4; n <= 8; n++) {
        dl_place ranks[8];
        const char *algorithm = NULL, *protocol = NULL;
        for (int r = 0; r < n; r++)
            ranks[r] = dl_place_of_gpu(&m, r);
        const dl_collective_config config = {.kind = DL_ALLREDUCE,
                                             .algorithm = "auto",
                                             .ranks = ranks,
                                             .rank_count = n,
                                             .bytes = 8589934592,
                                             .chunk_bytes = DL_CHUNK_BYTES};
        assert_int_equal(dl_collective_choice(&links, &config, &algorithm, &protocol, NULL), DL_OK);
        assert_string_equal(algorithm, n < 6 ? "ring" : "nvls");
    }
}

/* A rack whose 72 GPUs share one switch, each with a port. */
static void a_rack_is_one_domain(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = machine_called("2xgb300_nvl72");
    assert_int_equal(m.nodes, 2);
    assert_int_equal(m.kinds[0].gpu_count, 72);
    assert_int_equal(m.kinds[0].nic_count, 72);
    assert_true(near_scaled(m.models[0].bf16_flop_per_s.value, 2.5e15, 0, 0));
}

/* Two GPUs share the 900 GB/s of a Grace's NVLink-C2C, which count both directions, and its memory
 * of 512 GB/s; its ports are on PCIe. */
static void gpus_of_a_grace_are_on_c2c(void **state DL_UNUSED)
{
    static const char *const names[][2] = {
        {"4xgb200@4x400ib", "pcie5x16"}, {"gb200_nvl72", "pcie5x16"}, {"gb300_nvl72", "pcie6x16"}};
    for (size_t i = 0; i < DL_LENGTH(names); i++) {
        DL_SCOPED(dl_machine) m = machine_called(names[i][0]);
        const dl_link_class *c2c = &m.classes[m.kinds[0].gpus[0].link];
        assert_string_equal(c2c->name, "c2c");
        assert_true(near_scaled(c2c->bytes_per_s.value, 900e9 / 2 / 2, 0, 1e-12));
        assert_string_equal(m.classes[m.kinds[0].nics[0].link].name, names[i][1]);
        assert_int_equal(m.kinds[0].sockets, m.kinds[0].gpu_count / 2);
        assert_true(near_scaled(m.kinds[0].memory_bytes_per_s.value, 512e9, 0, 0));
    }
}

/* Each GPU of GH200 has a Grace of its own. */
static void a_gh200_has_its_own_grace(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = machine_called("2xgh200");
    assert_int_equal(m.kinds[0].sockets, 2);
    assert_true(near_scaled(m.classes[m.kinds[0].gpus[1].link].bytes_per_s.value, 346e9, 0, 0));
}

/* PCIe 6.0 carries a port of 800 Gb/s, unlike 5.0: 128 / 63 times the 52.8 GB/s of the latter. */
static void slots_carry_ports_of_800_gbit(void **state DL_UNUSED)
{
    static const char *const names[] = {"8xb300@8x800ib", "gb300_nvl72"};
    for (size_t i = 0; i < DL_LENGTH(names); i++) {
        DL_SCOPED(dl_machine) m = machine_called(names[i]);
        const dl_nic *nic = &m.kinds[0].nics[0];
        const dl_link_class *slot = &m.classes[nic->link];
        assert_string_equal(slot->name, "pcie6x16");
        if (i == 0) assert_int_equal(nic->link, m.kinds[0].gpus[0].link);
        assert_true(near_scaled(slot->bytes_per_s.value, 52.8e9 * 128 / 63, 0, 1e-3));
        assert_true(slot->bytes_per_s.value > m.classes[nic->port].bytes_per_s.value);
        assert_true(m.classes[nic->port].bytes_per_s.value > 52.8e9);
    }
}

static void instances_have_price_and_network(void **state DL_UNUSED)
{
    dl_machine m = machine_called("2xg5.12xlarge");
    assert_int_equal(m.nodes, 2);
    assert_int_equal(m.kinds[0].gpu_count, 4);
    assert_int_equal(m.kinds[0].nic_count, 1);
    assert_true(near_scaled(m.classes[m.kinds[0].nics[0].port].bytes_per_s.value, 0.9 * 40e9 / 8, 0,
                            1e-12));
    assert_true(near_scaled(m.kinds[0].price_usd_per_hour.value, 5.672, 0, 1e-12));
    assert_int_equal(m.kinds[0].cores, 24);
    assert_int_equal(m.kinds[0].peer, DL_PEER_NONE);
    dl_machine_free(&m);
    m = machine_called("a3-highgpu-8g");
    assert_true(near_scaled(m.kinds[0].price_usd_per_hour.value, 88.49, 0, 1e-12));
    assert_int_equal(m.kinds[0].nic_count, 4);
    assert_true(m.kinds[0].gpudirect);
    assert_int_equal(m.kinds[0].nics[3].parent, 1);
    dl_machine_free(&m);
    m = machine_called("p5e.48xlarge"); /* not sold on demand */
    assert_false(m.kinds[0].price_usd_per_hour.known);
    dl_machine_free(&m);
    m = machine_called("4xBM.GPU.MI300X.8"); /* dots in a name */
    assert_true(near_scaled(m.kinds[0].price_usd_per_hour.value, 48, 0, 1e-12));
    assert_int_equal(m.kinds[0].price_usd_per_hour.origin, DL_ORIGIN_CATALOGUE);
    assert_int_equal(m.nodes, 4);
    assert_int_equal(m.kinds[0].nvlink_count, 28);
    assert_int_equal(m.kinds[0].nic_count, 8);
    assert_true(m.kinds[0].gpudirect);
    dl_machine_free(&m);
    m = machine_called("p5en.48xlarge"); /* two ports per GPU */
    assert_int_equal(m.kinds[0].nic_count, 16);
    assert_int_equal(m.kinds[0].nics[7].parent, 0);
    assert_int_equal(m.kinds[0].nics[8].parent, 1);
    dl_machine_free(&m);
}

static void errors_name_what_is_near(void **state DL_UNUSED)
{
    static const struct {
        const char *name;
        dl_status status;
        const char *says;
    } cases[] = {
        {"4xrtx309", DL_ERR_NAME,
         "'4xrtx309' is neither a file nor a machine; did you mean "
         "'4xrtx3090'?"},
        {"g5.12xlrge", DL_ERR_NAME, "did you mean 'g5.12xlarge'?"},
        {"rtx3090", DL_ERR_NAME, "did you mean '1xrtx3090'?"},
        {"3090", DL_ERR_NAME, "did you mean '1xrtx3090'?"},
        {"8h100", DL_ERR_NAME, "did you mean '8xh100'?"},
        {"h100x8", DL_ERR_NAME, "did you mean '8xh100'?"},
        {"a100:4", DL_ERR_NAME, "did you mean '4xa100'?"},
        {"rtx_4090x2", DL_ERR_NAME, "did you mean '2xrtx4090'?"},
        {"p4d", DL_ERR_NAME, "did you mean 'p4d.24xlarge'?"},
        {"2xgpu_8x_a100", DL_ERR_NAME, "is not known; give it as 2x8xa100@10gbe"},
        {"dgxx_a100", DL_ERR_NAME, "did you mean 'dgx_a100'?"},
        {"2xdgx_a10", DL_ERR_NAME, "is neither a file nor a machine; dlsim --machines lists"},
        {"2xgtx3090", DL_ERR_NAME, "did you mean '2xrtx3090'?"},
        {"2xrtx2090", DL_ERR_NAME, "another GPU goes into a machine file's [gpu_model]"},
        {"4xdgx_h200", DL_ERR_NAME, "machine; dlsim --machines lists"}, /* dgx_h100: too old */
        {"2xv200", DL_ERR_NAME, "machine; dlsim --machines lists"},     /* not v100 */
        {"2x100", DL_ERR_NAME, "machine; dlsim --machines lists"}, /* tie: p100, v100, a100, h100 */
        {"2xmi25", DL_ERR_NAME, "machine; dlsim --machines lists"}, /* not mi250 */
        {"2xgb20", DL_ERR_NAME, "machine; dlsim --machines lists"}, /* not h20 */
        {"2xrtx4090+nvlink", DL_ERR_NAME, "NVLink bridges of GeForce RTX 4090 are not known"},
        {"1xrtx3090+nvlink", DL_ERR_RANGE, "an NVLink bridge joins two GPUs"},
        {"2xrtx3090+nvlink+1xt4", DL_ERR_NAME, "'nvlink' is not COUNTxGPU"},
        {"0xdgx_h100", DL_ERR_RANGE, "expected 1 to 10000000 nodes"},
        {"2xdgx_h100@1", DL_ERR_NAME, "expected a network"},
        {"1xrtx3090+1xgtx1080t", DL_ERR_NAME, "did you mean '1xrtx3090+1xgtx1080ti'?"},
        {"1xrtx3090+3090", DL_ERR_NAME, "did you mean '1xrtx3090+1xrtx3090'?"},
        {"4xa100_80g+4xv100", DL_ERR_NAME, "did you mean '4xa100_80gb+4xv100'?"},
        {"1xt4+1xnothing_like_it", DL_ERR_NAME,
         "'1xnothing_like_it' is not COUNTxGPU; dlsim --machines"},
        {"17xrtx3090", DL_ERR_RANGE, "'17xrtx3090': expected 1 to 16 GPUs"},
        {"0xrtx3090", DL_ERR_RANGE, "expected 1 to 16 GPUs"},
        {"3xp4d.24xlarge@10gbe", DL_ERR_NAME,
         "an instance has a network of its own; with another write the box: 3x8xa100@10gbe"},
        {"20000000xg5.xlarge", DL_ERR_RANGE, "expected 1 to 10000000 nodes"},
        {"none.ini", DL_ERR_IO, "cannot open"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_machine m = {0};
        dl_error error = {0};
        const dl_status status = dl_machine_open(&m, cases[i].name, &error);
        if (status != cases[i].status || strstr(error.text, cases[i].says) == NULL) {
            fail_msg("%s: %d, %s", cases[i].name, (int)status, error.text);
        }
    }
    assert_true(dl_machine_is_known("4xrtx3090"));
    assert_true(dl_machine_is_known("some/folder/dgx_a100"));
    assert_false(dl_machine_is_known("dgx_a100.ini"));
    assert_false(dl_machine_is_known("nothing"));
}

/* Capital letters, '_', '-' and brands before a name are ignored; other names are in the table. No
 * name matches two rows. */
static void names_may_be_spelled_otherwise(void **state DL_UNUSED)
{
    static const struct {
        const char *typed, *model;
    } cases[] = {
        {"2xV100PCIE", "v100_pcie"},
        {"2xv100-pcie-16gb", "v100_pcie"},
        {"8XH100", "h100"},
        {"1xRTX-3090", "rtx3090"},
        {"1xrtx_3090", "rtx3090"},
        {"2xGeForce RTX 3090", "rtx3090"},
        {"2xtesla_t4", "t4"},
        {"4xrtx_a6000", "a6000"},
        {"2xa100-pcie-80gb", "a100_80gb_pcie"},
        {"2xTITAN-RTX", "titanrtx"},
        {"2xquadro_rtx_6000", "rtx6000"},
        {"2x4090", "rtx4090"},
        {"8xH100-SXM5-80GB", "h100"},
        {"8x NVIDIA A100-SXM4-80GB", "a100_80gb"},
        {"8 x NVIDIA H100 80GB HBM3", "h100"},
        {"1xNVIDIA GH200 480GB", "gh200"},
        {"gpu_4x_a6000", "a6000"},
        {"gpu_8x_a100_80gb_sxm4", "a100_80gb"},
        {"Standard_ND96isr_H100_v5", "h100"},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        dl_machine m = machine_called(cases[i].typed);
        assert_string_equal(dl_machine_model(&m, 0, 0)->name, cases[i].model);
        dl_machine_free(&m);
    }
    dl_machine m = machine_called("DGX-H100"); /* found as a machine file */
    assert_string_equal(m.name, "DGX H100");
    dl_machine_free(&m);
    DL_SCOPED(dl_csv) csv = {0};
    DL_AUTOFREE char *path = dl_share_path("scenarios/machines/gpus.csv");
    assert_int_equal(dl_csv_read(&csv, path, NULL), DL_OK);
    for (size_t r = 0; r < csv.rows; r++) {
        DL_AUTOFREE char *names =
            dl_format("%s %s", dl_csv_cell(&csv, r, 0),
                      dl_csv_cell(&csv, r, (size_t)dl_csv_column(&csv, "also")));
        for (char *rest = NULL, *name = strtok_r(names, " ", &rest); name != NULL;
             name = strtok_r(NULL, " ", &rest)) {
            DL_AUTOFREE char *box = dl_format("1x%s", name);
            m = machine_called(box);
            assert_string_equal(dl_machine_model(&m, 0, 0)->name, dl_csv_cell(&csv, r, 0));
            dl_machine_free(&m);
        }
    }
}

/* Bridges connect GPUs 0 and 1, and 2 and 3, of four: half of 56.25 GB/s is 28.125. In a mixed box
 * only GPUs that have bridges use them. */
static void pairs_may_have_bridges(void **state DL_UNUSED)
{
    dl_machine m = machine_called("4xrtx3090+nvlink");
    assert_string_equal(m.name, "4x GeForce RTX 3090, NVLink bridges");
    assert_int_equal(m.kinds[0].nvlink_count, 2);
    assert_int_equal(m.kinds[0].nvlinks[1].a, 2);
    assert_int_equal(m.kinds[0].nvlinks[1].b, 3);
    assert_true(
        near_scaled(m.classes[m.kinds[0].nvlinks[0].link].bytes_per_s.value, 28.125e9, 0, 1e-12));
    assert_int_equal(m.kinds[0].peer, DL_PEER_NONE);
    dl_machine_free(&m);
    m = machine_called("3xt4+3xA6000+NVLink@100gbe+1x2xrtx2080ti+nvlink@100gbe");
    assert_int_equal(m.kinds[0].nvlink_count, 1);
    assert_int_equal(m.kinds[0].nvlinks[0].a, 3);
    assert_int_equal(m.kinds[1].nvlink_count, 1);
    assert_true(
        near_scaled(m.classes[m.kinds[1].nvlinks[0].link].bytes_per_s.value, 25e9, 0, 1e-12));
    dl_machine_free(&m);
}

/* Collectives of GPUs in slots go through host memory at the rate of a bus, or of a provider's
 * slots, with bounds and a source; except for two GPUs with a bridge, an NVSwitch, or AMD's
 * GPUs. */
static void slots_have_ways_through_host_memory(void **state DL_UNUSED)
{
    static const struct {
        const char *name;
        double rate, low, high; /* GB/s; 0: no [shm] */
        bool slows;
    } cases[] = {
        {"2xrtx3090", 12, 6, 28, true},
        {"8xa6000", 12, 6, 28, true},
        {"2xv100_pcie", 9, 6, 16, true},
        {"g5.12xlarge", 20, 10, 32, true},
        {"4xg4dn.12xlarge", 7, 4, 11, true},
        {"2xh100_pcie", 28, 10, 70, true},
        {"4xrtx3090+nvlink", 12, 6, 28, true},
        {"2xrtx3090+nvlink", 0, 0, 0, true},
        {"8xh100", 0, 0, 0, false},
        {"4xmi100", 0, 0, 0, false},
        {"1xrtx3090", 0, 0, 0, false},
        {"2x1xrtx3090@100gbe", 12, 6, 28, false},
        {"2x2xrtx3090+nvlink@100gbe", 12, 6, 28, true},
        {"2x1xv100_pcie@100gbe", 0, 0, 0, false},
        {"2x1xh100@400ib", 0, 0, 0, false},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        dl_machine m = machine_called(cases[i].name);
        const dl_quantity *rate = &m.kinds[0].shm_bytes_per_s;
        const dl_quantity *slowdown = &m.kinds[0].overlap_slowdown;
        if (rate->known != (cases[i].rate > 0) || rate->value != cases[i].rate * 1e9 ||
            rate->low != cases[i].low * 1e9 || rate->high != cases[i].high * 1e9 ||
            slowdown->known != cases[i].slows) {
            fail_msg("%s: %g (%g to %g)", cases[i].name, rate->value, rate->low, rate->high);
        }
        if (rate->known) assert_non_null(dl_machine_source_of(&m, "shm"));
        if (slowdown->known) assert_non_null(dl_machine_source_of(&m, "overlap"));
        dl_machine_free(&m);
    }
    dl_machine m =
        machine_called("1xt4@10gbe+2x2xrtx3090@10gbe"); /* only the kind with several GPUs */
    assert_false(m.kinds[0].shm_bytes_per_s.known);
    assert_true(m.kinds[1].shm_bytes_per_s.value == 12e9);
    dl_machine_free(&m);
}

/* A port for each GPU, half of them on each processor; nine tenths of 400 Gb/s are 45 GB/s. */
static void nodes_may_have_other_ports(void **state DL_UNUSED)
{
    dl_machine m = machine_called("2x8xh100@8x400ib");
    assert_string_equal(m.name, "8x H100-SXM5-80GB, 8 x 400 Gb/s InfiniBand");
    assert_int_equal(m.kinds[0].nic_count, 8);
    assert_int_equal(m.kinds[0].nics[3].parent, 0);
    assert_int_equal(m.kinds[0].nics[4].parent, 1);
    assert_true(m.kinds[0].gpudirect);
    assert_true(near_scaled(m.classes[m.kinds[0].nics[7].port].bytes_per_s.value, 45e9, 0, 1e-12));
    dl_machine_free(&m);
    m = machine_called("1xt4@1gbe+8xt4@4x25gbe"); /* TCP goes through host memory */
    assert_int_equal(m.kinds[1].nic_count, 4);
    assert_false(m.kinds[1].gpudirect);
    dl_machine_free(&m);
    m = machine_called("4xdgx1_v100@100ib"); /* the first of its four ports */
    assert_string_equal(m.name, "DGX-1 V100, 100 Gb/s InfiniBand");
    assert_int_equal(m.nodes, 4);
    assert_int_equal(m.kinds[0].nic_count, 1);
    assert_int_equal(m.kinds[0].nics[0].parent, 2); /* plx0, after two sockets */
    assert_int_equal(m.kinds[0].nvlink_count, 16);
    dl_machine_free(&m);
    m = machine_called("2xdgx1_v100@2x100ib"); /* its first and third port */
    assert_int_equal(m.kinds[0].nics[1].parent, 4);
    dl_machine_free(&m);
    m = machine_called("dgx_h100@16x400ib");
    assert_int_equal(m.nodes, 1);
    assert_int_equal(m.kinds[0].nic_count, 16);
    assert_int_equal(m.kinds[0].nics[15].parent, 9);
    dl_machine_free(&m);
    m = machine_called("z10pe_2x1080ti@10gbe"); /* it has no port: uses the GPUs' link class, on the
                                                 * socket */
    assert_int_equal(m.kinds[0].nic_count, 1);
    assert_int_equal(m.kinds[0].nics[0].link, m.kinds[0].gpus[0].link);
    dl_machine_free(&m);
    m = machine_called("g6e_4x_l40s@200ib"); /* InfiniBand replaces TCP */
    assert_false(m.tcp.given);
    dl_machine_free(&m);
}

/* Boards with NVLink are machine files. A box of their GPUs has the links of the board's first
 * GPUs: of the hybrid cube mesh of eight, six pairs join GPUs 0 to 3, of which 0-3, 1-2 and 2-3
 * have two lanes. A box of other GPUs too notes that it has none. */
static void boards_are_proposed(void **state DL_UNUSED)
{
    static const struct {
        const char *gpu, *machine;
    } cases[] = {{"v100", "dgx1_v100"},
                 {"p100", "dgx1_p100"},
                 {"v100_pcie", "8xv100_pcie"},
                 {"a100", "8xa100"},
                 {"unheard_of", "8xunheard_of"}};
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_AUTOFREE char *machine = dl_machine_usual(cases[i].gpu, 8);
        assert_string_equal(machine, cases[i].machine);
    }
    dl_machine m = machine_called("4xv100");
    assert_string_equal(m.name, "4x Tesla V100-SXM2 (with the NVLink of dgx1_v100)");
    assert_int_equal(m.kinds[0].nvlink_count, 6);
    int lanes = 0;
    for (int i = 0; i < 6; i++)
        lanes += m.kinds[0].nvlinks[i].lanes;
    assert_int_equal(lanes, 9);
    assert_false(m.kinds[0].shm_bytes_per_s.known);
    dl_machine_free(&m);
    m = machine_called("8xp100");
    assert_int_equal(m.kinds[0].nvlink_count, 16);
    dl_machine_free(&m);
    m = machine_called("2xv100+1xt4");
    assert_string_equal(m.name,
                        "2x Tesla V100-SXM2 (without the NVLink of dgx1_v100) + 1x Tesla T4");
    assert_int_equal(m.kinds[0].nvlink_count, 0);
    dl_machine_free(&m);
}

static void a_count_makes_nodes_of_any_machine(void **state DL_UNUSED)
{
    dl_machine m = machine_called("2xdgx_h100");
    assert_int_equal(m.nodes, 2);
    assert_int_equal(m.kinds[0].nic_count, 8);
    assert_int_equal(dl_machine_gpus(&m), 16);
    dl_machine_free(&m);
    m = machine_called("2xgb10"); /* one GPU per box */
    assert_int_equal(m.nodes, 2);
    assert_int_equal(dl_machine_gpus(&m), 2);
    dl_machine_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_makes_machines),
        cmocka_unit_test(boxes_may_have_unlike_gpus),
        cmocka_unit_test(boxes_are_as_the_table_says),
        cmocka_unit_test(one_node_needs_no_network),
        cmocka_unit_test(boxes_may_have_a_network),
        cmocka_unit_test(faulty_networks_of_boxes_are_refused),
        cmocka_unit_test(nodes_may_be_of_several_kinds),
        cmocka_unit_test(b200_sum_in_the_switch_from_six_on),
        cmocka_unit_test(a_rack_is_one_domain),
        cmocka_unit_test(gpus_of_a_grace_are_on_c2c),
        cmocka_unit_test(a_gh200_has_its_own_grace),
        cmocka_unit_test(slots_carry_ports_of_800_gbit),
        cmocka_unit_test(instances_have_price_and_network),
        cmocka_unit_test(names_may_be_spelled_otherwise),
        cmocka_unit_test(pairs_may_have_bridges),
        cmocka_unit_test(slots_have_ways_through_host_memory),
        cmocka_unit_test(nodes_may_have_other_ports),
        cmocka_unit_test(boards_are_proposed),
        cmocka_unit_test(a_count_makes_nodes_of_any_machine),
        cmocka_unit_test(errors_name_what_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
