#include "common/machine.h"
#include "tests/fuzz/fuzz_driver.h"

static const char whole[] =
    "; by hand\n[machine]\nschema = 1\nname = box\nnodes = 2\nprice_usd_per_hour = 7.2, catalogue\n"
    "peer = switch\ngpudirect = yes\n[gpu_model k80]\nmemory_bytes = 12GiB\n"
    "memory_bytes_per_s = 240GB/s\nfp32_flop_per_s = 4.4Tflop/s, catalogue\n"
    "[link x16]\nbytes_per_s = 12GB/s, measured\nlatency_ns = 1us\n[link qpi]\n"
    "bytes_per_s = 19.2GB/s\nduplex_bytes_per_s = 30GB/s\nlatency_ns = 200\n[host]\nsockets = 2\n"
    "memory_bytes_per_s = 60GB/s\nroot_bytes_per_s = 25GB/s\nsocket_link = qpi\n"
    "[switch low]\nparent = top\nlink = x16\n[switch top]\nparent = socket0\nlink = x16\n"
    "[gpus 0-1]\nmodel = k80\nparent = low\nlink = x16\n"
    "[gpus 2]\nmodel = k80\nparent = socket1\nlink = x16\n"
    "[nics 0]\nparent = top\nlink = x16\nport = qpi\n[network]\nbytes_per_s = 50Gb/s\n"
    "[nvlinks pair]\nlink = qpi\nlanes = 2\npairs = 0-1, 1-2\n[nvswitch]\nlink = qpi\nsum_frac = "
    "0.5\n"
    "[protocol ll]\nlaunch_ns = 1us\nhop_ns = 2us\nnetwork_hop_ns = 3us\nbandwidth_frac = 0.5\n";
static const char small[] =
    "[machine]\nschema = 1\nname = a\npeer = all\n[gpu_model g]\nmemory_bytes = 1\n"
    "memory_bytes_per_s = 1e9\nfp32_flop_per_s = 1e12\n[link l]\nbytes_per_s = 1e9\nlatency_ns = "
    "0\n"
    "[host]\nmemory_bytes_per_s = 1e9\n[gpus 0]\nmodel = g\nparent = socket0\nlink = l\n";
static const char kinds[] =
    "[machine]\nschema = 1\nname = a\npeer = all\nnodes = 9\n[gpu_model g]\nmemory_bytes = 1GB\n"
    "memory_bytes_per_s = 1GB/s\nfp32_flop_per_s = 1Tflop/s\n[link l]\nbytes_per_s = 1GB/s\n"
    "latency_ns = 0\n[host]\nsockets = 2\nsocket_link = l\nmemory_bytes_per_s = 1GB/s\n"
    "[switch s]\nparent = socket1\nlink = l\n[gpus 0]\nmodel = g\nparent = s\nlink = l\n"
    "[nics 0]\nparent = s\nlink = l\nport = l\n[nvswitch]\nlink = l\n[nodes 8]\nmodel = g\n"
    "[nodes 0, 2-3]\nkind = b\n[gpus 0-3 of b]\nmodel = g\nparent = socket0\nlink = l\n"
    "[machine of b]\npeer = none\n[host of b]\nsockets = 1\n[nics 0-1 of b]\nparent = socket0\n"
    "link = l\nport = l\n[switch t of b]\nparent = socket0\nlink = l\n[nvlinks p of b]\nlink = l\n"
    "pairs = 0-1\n";
static const char crlf[] =
    "[machine]\r\nschema = 1\r\nname = \r\npeer = all\r\n[gpu_model g]\r\nmemory_bytes = \r\n[link "
    "l]\r\nbytes_per_s = , measured\r\nlatency_ns = 0\r\n[gpus 0]\r\nmodel =\r\nparent = "
    "socket0\r\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{whole, sizeof whole - 1},
                                       {small, sizeof small - 1},
                                       {kinds, sizeof kinds - 1},
                                       {crlf, sizeof crlf - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

static void check_class(const dl_machine *m, int link)
{
    DL_ASSERT(link >= 0 && link < m->class_count, "link class %d of %d", link, m->class_count);
    DL_ASSERT(m->classes[link].bytes_per_s.value > 0, "%g", m->classes[link].bytes_per_s.value);
}

static void check_node(const dl_machine *m, const dl_node_kind *n)
{
    DL_ASSERT(n->gpu_count > 0 && (m->nodes == 1 || n->nic_count > 0), "%d GPUs, %d NICs",
              n->gpu_count, n->nic_count);
    for (int i = 0; i < n->gpu_count; i++) {
        int socket = dl_machine_socket(n, n->gpus[i].parent);
        DL_ASSERT(socket >= 0 && socket < n->sockets, "socket %d of %d", socket, n->sockets);
        DL_ASSERT(n->gpus[i].model < m->model_count, "model %d", n->gpus[i].model);
        check_class(m, n->gpus[i].link);
    }
    for (int i = 0; i < n->nic_count; i++) {
        check_class(m, n->nics[i].link);
        check_class(m, n->nics[i].port);
    }
    for (int i = 0; i < n->nvlink_count; i++) {
        DL_ASSERT(n->nvlinks[i].a < n->nvlinks[i].b && n->nvlinks[i].b < n->gpu_count, "%d-%d",
                  n->nvlinks[i].a, n->nvlinks[i].b);
    }
    if (n->sockets > 1) check_class(m, n->socket_link);
}

/* A machine that was read is connected, and every index points into its array. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_machine m = {0};
    dl_error err = {0};
    if (dl_machine_read_text(&m, "fuzz", (const char *)data, bytes, &err) != DL_OK) {
        DL_ASSERT(err.text[0] != '\0', "status %d without a text", (int)err.code);
        return 0;
    }
    for (int k = 0; k < m.kind_count; k++)
        check_node(&m, &m.kinds[k]);
    const int gpus = dl_machine_gpus(&m);
    for (int number = 0; number < gpus; number += gpus / 64 + 1) {
        int index;
        const int node = dl_machine_find_gpu(&m, number, &index);
        DL_ASSERT(dl_machine_gpus_before(&m, node) + index == number, "GPU %d", number);
        DL_ASSERT(node < m.nodes && index < dl_machine_node(&m, node)->gpu_count, "%d of %d", index,
                  node);
    }
    dl_machine_free(&m);
    return 0;
}
