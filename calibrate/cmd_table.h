/* dlcal table: fits a scenario's unknown costs to measured throughputs. */
#ifndef DL_CALIBRATE_CMD_TABLE_H
#define DL_CALIBRATE_CMD_TABLE_H

/* The sub-command; argv[0] is "dlcal table". Returns the exit status. */
int dl_calibrate_table(int argc, char **argv);

#endif
