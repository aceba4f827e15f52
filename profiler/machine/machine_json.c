#include "profiler/machine/machine_json.h"

#include "common/json.h"
#include "profiler/machine/machine_rates.h"

#define JSON_SCHEMA 1

/* 0 and "" are what the system did not tell. */
static void number(dl_json *to, const char *name, double value)
{
    if (value > 0) {
        dl_json_number_item(to, name, value);
    } else {
        dl_json_null_item(to, name);
    }
}

static void text(dl_json *to, const char *name, const char *value)
{
    if (value[0] != '\0') {
        dl_json_text_item(to, name, value);
    } else {
        dl_json_null_item(to, name);
    }
}

/* Where a device or a switch is, and its link upwards. */
static void place(dl_json *to, const dl_box *box, const char *bus_id, int parent,
                  const dl_pci_link *link)
{
    dl_json_text_item(to, "bus_id", bus_id);
    dl_json_number_item(to, "socket", dl_box_socket(box, parent));
    if (parent < box->sockets) {
        dl_json_null_item(to, "switch");
    } else {
        dl_json_number_item(to, "switch", parent - box->sockets);
    }
    dl_json_begin(to, "link", '{');
    number(to, "generation", dl_pci_link_generation(link));
    number(to, "lanes", link->lanes);
    number(to, "wire_bytes_per_s", link->wire_bytes_per_s);
    dl_json_end(to, '}');
}

static void gpu_item(dl_json *to, const dl_box *box, const dl_box_gpu *gpu)
{
    const dl_gpu_rates rates = dl_gpu_rates_find(gpu);
    dl_json_begin(to, NULL, '{');
    place(to, box, gpu->bus_id, gpu->parent, &gpu->link);
    dl_json_number_item(to, "device_id", gpu->device_id);
    text(to, "name", gpu->name);
    number(to, "major", gpu->major);
    if (gpu->major > 0) {
        dl_json_number_item(to, "minor", gpu->minor);
    } else {
        dl_json_null_item(to, "minor");
    }
    number(to, "cores", gpu->cores);
    number(to, "clock_hz", gpu->clock_hz);
    number(to, "memory_clock_hz", gpu->memory_clock_hz);
    number(to, "memory_bus_bits", gpu->memory_bus_bits);
    number(to, "memory_bytes", gpu->memory_bytes);
    number(to, "memory_bytes_per_s", rates.memory_bytes_per_s);
    number(to, "fp32_flop_per_s", rates.fp32_flop_per_s);
    number(to, "tf32_flop_per_s", rates.tf32_flop_per_s);
    number(to, "fp16_flop_per_s", rates.fp16_flop_per_s);
    dl_json_end(to, '}');
}

static void tree(dl_json *to, const dl_box *box)
{
    dl_json_begin(to, "switches", '[');
    for (int i = 0; i < box->switch_count; i++) {
        const dl_box_switch *pcie = &box->switches[i];
        dl_json_begin(to, NULL, '{');
        place(to, box, pcie->bus_id, pcie->parent, &pcie->link);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
    dl_json_begin(to, "gpus", '[');
    for (int i = 0; i < box->gpu_count; i++)
        gpu_item(to, box, &box->gpus[i]);
    dl_json_end(to, ']');
    dl_json_begin(to, "nics", '[');
    for (int i = 0; i < box->nic_count; i++) {
        const dl_box_nic *nic = &box->nics[i];
        dl_json_begin(to, NULL, '{');
        place(to, box, nic->bus_id, nic->parent, &nic->link);
        dl_json_text_item(to, "name", nic->name);
        dl_json_bool_item(to, "infiniband", nic->infiniband);
        number(to, "port_bytes_per_s", nic->port_bytes_per_s);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void nvlinks(dl_json *to, const dl_box *box)
{
    static const char *const peers[] = {"none", "switch", "socket", "all"};
    text(to, "driver_note", box->driver_note);
    number(to, "nvlink_bytes_per_s", box->nvlink_bytes_per_s);
    number(to, "nvswitch_lanes", box->nvswitch_lanes);
    dl_json_begin(to, "nvlinks", '[');
    for (int i = 0; i < box->nvlink_count; i++) {
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "a", box->nvlinks[i].a);
        dl_json_number_item(to, "b", box->nvlinks[i].b);
        dl_json_number_item(to, "lanes", box->nvlinks[i].lanes);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
    text(to, "peer", box->peer_known ? peers[box->peer] : "");
}

void dl_box_write_json(const dl_box *box, FILE *out)
{
    dl_json to = {out, false};
    dl_json_begin(&to, NULL, '{');
    dl_json_number_item(&to, "schema", JSON_SCHEMA);
    text(&to, "name", box->name);
    text(&to, "processor", box->processor);
    dl_json_number_item(&to, "sockets", box->sockets);
    dl_json_number_item(&to, "cores", box->cores);
    dl_json_number_item(&to, "numa_nodes", box->numa_count);
    number(&to, "memory_bytes", box->memory_bytes);
    number(&to, "cache_bytes", box->cache_bytes);
    number(&to, "socket_memory_bytes_per_s", box->socket_memory_bytes_per_s);
    number(&to, "socket_link_bytes_per_s", box->socket_link_bytes_per_s);
    dl_json_bool_item(&to, "places_known", box->places_known);
    dl_json_bool_item(&to, "peer_memory", box->peer_memory);
    tree(&to, box);
    nvlinks(&to, box);
    dl_json_end(&to, '}');
    fputc('\n', out);
}
