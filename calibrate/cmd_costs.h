/* dlcal costs: a cost file from one rank's traces of any training program. */
#ifndef DL_CALIBRATE_CMD_COSTS_H
#define DL_CALIBRATE_CMD_COSTS_H

/* The sub-command; argv[0] is "dlcal costs". Returns the exit status. */
int dl_calibrate_costs(int argc, char **argv);

#endif
