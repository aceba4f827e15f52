#!/usr/bin/env bash
while sleep 0.01; do echo "step 7 of a run"; done
