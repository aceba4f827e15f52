/* "dlcal replay": re-times traces from durations and dependencies alone. */
#ifndef DL_CALIBRATE_CMD_REPLAY_H
#define DL_CALIBRATE_CMD_REPLAY_H

/* argv[0] is "dlcal replay"; returns the exit status. */
int dl_calibrate_replay(int argc, char **argv);

#endif
