/* Whether the parts of a machine file make a machine. */
#include "common/machine.h"
#include "common/machine_reader.h"

/* A switch may not be above itself. */
static dl_status check_switches(const dl_machine_reader *r)
{
    const dl_machine *m = r->machine;
    for (int i = 0; i < m->switch_count; i++) {
        int place = m->sockets + i, depth = 0;
        while (place >= m->sockets && depth <= m->switch_count) {
            place = dl_machine_parent(m, place);
            depth++;
        }
        if (place < m->sockets && depth <= DL_MACHINE_MAX_DEPTH) continue;
        return dl_error_set_at(r->err, DL_ERR_RANGE, r->ini->path, 0,
                               place >= m->sockets
                                   ? "[switch %s] is not connected to a socket: its parents form a "
                                     "ring"
                                   : "[switch %s] lies too deep in the tree",
                               m->switches[i].name);
    }
    return DL_OK;
}

dl_status dl_machine_check_whole(const dl_machine_reader *r)
{
    const dl_machine *m = r->machine;
    dl_status status = check_switches(r);
    if (status != DL_OK) return status;
    if (m->gpu_count == 0) {
        return dl_error_set_at(r->err, DL_ERR_DATA, r->ini->path, 0,
                               "the machine has no [gpus ..]");
    }
    if (m->nodes > 1 && m->nic_count == 0) {
        const dl_ini_entry *entry = dl_ini_find(r->ini, "machine", "nodes");
        return dl_ini_error(r->ini, entry, DL_ERR_DATA, r->err,
                            "the nodes are not connected: no [nics ..]");
    }
    return DL_OK;
}
