#include "common/machine.h"

#include <stdlib.h>

int dl_machine_parent(const dl_machine *machine, int place)
{
    return place < machine->sockets ? -1 : machine->switches[place - machine->sockets].parent;
}

int dl_machine_socket(const dl_machine *machine, int place)
{
    while (place >= machine->sockets)
        place = dl_machine_parent(machine, place);
    return place;
}

void dl_machine_free(dl_machine *machine)
{
    for (int i = 0; i < machine->model_count; i++)
        free(machine->models[i].name);
    for (int i = 0; i < machine->class_count; i++)
        free(machine->classes[i].name);
    for (int i = 0; i < machine->switch_count; i++)
        free(machine->switches[i].name);
    for (int i = 0; i < machine->protocol_count; i++)
        free(machine->protocols[i].name);
    free(machine->models);
    free(machine->classes);
    free(machine->switches);
    free(machine->gpus);
    free(machine->nics);
    free(machine->nvlinks);
    free(machine->protocols);
    free(machine->name);
    free(machine->path);
    *machine = (dl_machine){0};
}
